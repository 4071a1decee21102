"""Sessions: the namespaces of buffers and programs."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/session.proto.

from __future__ import annotations

from .common import Error
from .wire import get_size, get_string, get_tag, get_uint64, Message, put_bytes, put_string, put_uint64, skip


class SessionOpenRequest(Message):
    __slots__ = ("name", "ttl_ns")

    def __init__(
        self,
        name: str = "",
        ttl_ns: int = 0,
    ) -> None:
        self.name: str = name
        self.ttl_ns: int = ttl_ns

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        if self.ttl_ns:
            out += b"\x10"
            put_uint64(out, self.ttl_ns)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 16:
                self.ttl_ns, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionOpenReply(Message):
    __slots__ = ("session", "token", "server_epoch")

    def __init__(
        self,
        session: int = 0,
        token: str = "",
        server_epoch: int = 0,
    ) -> None:
        self.session: int = session
        self.token: str = token
        self.server_epoch: int = server_epoch

    def encode(self) -> bytes:
        out = bytearray()
        if self.session:
            out += b"\x08"
            put_uint64(out, self.session)
        if self.token:
            out += b"\x12"
            put_string(out, self.token)
        if self.server_epoch:
            out += b"\x18"
            put_uint64(out, self.server_epoch)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.session, pos = get_uint64(data, pos, end)
            elif tag == 18:
                self.token, pos = get_string(data, pos, end)
            elif tag == 24:
                self.server_epoch, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionCloseReply(Message):
    """Frees everything that the session holds. Calls after it fail until Open opens another session."""

    __slots__ = ("buffers_freed", "programs_freed")

    def __init__(
        self,
        buffers_freed: int = 0,
        programs_freed: int = 0,
    ) -> None:
        self.buffers_freed: int = buffers_freed
        self.programs_freed: int = programs_freed

    def encode(self) -> bytes:
        out = bytearray()
        if self.buffers_freed:
            out += b"\x08"
            put_uint64(out, self.buffers_freed)
        if self.programs_freed:
            out += b"\x10"
            put_uint64(out, self.programs_freed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.buffers_freed, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.programs_freed, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SyncReply(Message):
    """Waits until every call that this connection sent before it has ended."""

    __slots__ = ("last_call", "failed_call", "error")

    def __init__(
        self,
        last_call: int = 0,
        failed_call: int = 0,
        error: Error | None = None,
    ) -> None:
        self.last_call: int = last_call
        self.failed_call: int = failed_call
        self.error: Error | None = error

    def encode(self) -> bytes:
        out = bytearray()
        if self.last_call:
            out += b"\x08"
            put_uint64(out, self.last_call)
        if self.failed_call:
            out += b"\x10"
            put_uint64(out, self.failed_call)
        if self.error is not None:
            out += b"\x1a"
            put_bytes(out, self.error.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.last_call, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.failed_call, pos = get_uint64(data, pos, end)
            elif tag == 26:
                size, pos = get_size(data, pos, end)
                if self.error is None:
                    self.error = Error()
                self.error.merge(data, pos, pos + size)
                pos += size
            else:
                pos = skip(data, pos, end, tag)
