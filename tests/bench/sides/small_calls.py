"""The data that both Python sides send, and the transfers that both make, each through its own `upload`."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

F32 = 11
FLOATS = array.array("f", range(8))


def check_doubled(result: Any) -> None:
    """The result of the add program on FLOATS, as `to_host()` returned it."""
    values = array.array("f", bytes(result))
    if list(values) != [2.0 * x for x in FLOATS]:
        raise SystemExit(f"a wrong result: {list(values)}")


class Transfer:
    """Uploads and downloads of one size. Host memory is touched in `begin`, outside what is timed."""

    def __init__(self, size_bytes: int, upload: Callable[[Any, int], Any]) -> None:
        self._size_bytes = size_bytes
        self._upload = upload
        self._host: bytearray | None = None
        self._buffer: Any = None

    def begin(self) -> None:
        self._host = bytearray(b"\1") * self._size_bytes

    def begin_download(self) -> None:
        self.begin()
        self._buffer = self.upload()

    def end(self) -> None:
        self._host = None
        self._buffer = None

    def upload(self) -> Any:
        buffer = self._upload(self._host, self._size_bytes)
        wait = getattr(buffer, "block_until_ready", None)
        if wait is not None:
            wait()
        return buffer

    def download(self) -> None:
        self._buffer.to_host(self._host)
