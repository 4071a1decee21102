"""Stands between a client and a daemon, and cuts their connections where a test says.

It passes bytes on as they come. `cuts` says of each connection, in turn, after how many bytes which way it is cut, both
ways at once: ("up", n) after n bytes of the client's were passed on, ("down", n) of the daemon's; None: never, as for all
connections after the last that it names.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

Cut = tuple[str, int] | None


class CuttingProxy:
    """`target` is the daemon's; `self.target` what the client is given."""

    def __init__(self, folder: Path, target: str, cuts: Sequence[Cut] = ()) -> None:
        self._family = socket.AF_UNIX if target.startswith("unix:") else socket.AF_INET
        if self._family == socket.AF_UNIX:
            self._daemon: str | tuple[str, int] = target.removeprefix("unix:")
        else:
            host, port = target.removeprefix("grpc://").rsplit(":", 1)
            self._daemon = (host, int(port))
        self._cuts = list(cuts)
        self.made = 0
        self.passed: list[dict[str, int]] = []
        self._listener = socket.socket(self._family)
        if self._family == socket.AF_UNIX:
            path = str(folder / "proxy.sock")
            self._listener.bind(path)
            self.target = f"unix:{path}"
        else:
            self._listener.bind(("127.0.0.1", 0))
            self.target = f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"
        self._listener.listen()
        self._live: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(5)

    def cut(self) -> None:
        """Cuts every connection now."""
        for pair in self._live:
            for side in pair:
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            cut = self._cuts[self.made] if self.made < len(self._cuts) else None
            self.made += 1
            daemon = socket.socket(self._family)
            try:
                daemon.connect(self._daemon)
            except OSError:
                client.close()
                daemon.close()
                continue
            self._live.append((client, daemon))
            passed = {"up": 0, "down": 0}
            self.passed.append(passed)
            threading.Thread(target=self._pass, args=(client, daemon, cut, passed), daemon=True).start()

    def _pass(self, client: socket.socket, daemon: socket.socket, cut: Cut, passed: dict[str, int]) -> None:
        with client, daemon, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, (client, daemon, "up"))
            selector.register(daemon, selectors.EVENT_READ, (daemon, client, "down"))
            while True:
                for key, _ in selector.select():
                    source, sink, way = key.data
                    room = 65536
                    if cut is not None and cut[0] == way:
                        room = min(room, cut[1] - passed[way])
                    try:
                        data = source.recv(room) if room else b""
                        if not data:
                            return
                        sink.sendall(data)
                    except OSError:
                        return
                    passed[way] += len(data)
                    if cut is not None and cut[0] == way and passed[way] >= cut[1]:
                        return
