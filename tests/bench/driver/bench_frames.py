"""The sizes of pjrtd's own frames, so that the bare echo carries as many bytes. A relay between client and daemon
counts them: what really travels, not what a document says."""

from __future__ import annotations

import selectors
import socket
import threading
from pathlib import Path

from bench_process import BenchError

_MAX_DESCRIPTORS = 15


class Relay:
    """Passes one connection on, descriptors included, and counts the bytes each way."""

    def __init__(self, target: str, folder: Path) -> None:
        self.request_bytes = 0
        self.reply_bytes = 0
        path = str(folder / "relay.sock")
        Path(path).unlink(missing_ok=True)
        self.target = f"unix:{path}"
        self._upstream = target.removeprefix("unix:")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(1)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        self._listener.close()
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        daemon.connect(self._upstream)
        with client, daemon, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, daemon)
            selector.register(daemon, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    source: socket.socket = key.fileobj  # type: ignore[assignment]
                    data, descriptors, _, _ = socket.recv_fds(source, 1 << 20, _MAX_DESCRIPTORS)
                    if not data:
                        return
                    if source is client:
                        self.request_bytes += len(data)
                    else:
                        self.reply_bytes += len(data)
                    self._pass_on(key.data, data, descriptors)

    @staticmethod
    def _pass_on(sink: socket.socket, data: bytes, descriptors: list[int]) -> None:
        sent = socket.send_fds(sink, [data], descriptors) if descriptors else 0
        for descriptor in descriptors:
            socket.close(descriptor)
        if sent < len(data):
            sink.sendall(data[sent:])


def bytes_per_call(before: tuple[int, int], after: tuple[int, int], calls: int) -> tuple[int, int]:
    """Request and reply bytes of one call, rounded up: ids grow by a byte now and then."""
    request, reply = (-(-(b - a) // calls) for a, b in zip(before, after, strict=True))
    if request < 32 or reply < 32:
        raise BenchError(f"a call of {request} + {reply} bytes has less than a frame header")
    return request, reply
