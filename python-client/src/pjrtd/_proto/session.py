"""Sessions: the namespaces of buffers and programs."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/session.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .common import Error, QuotaUse, TensorType
from .wire import (
    check_oneof,
    get_bool,
    get_int32,
    get_size,
    get_string,
    get_tag,
    get_uint32,
    get_uint64,
    Message,
    put_bool,
    put_bytes,
    put_int32,
    put_string,
    put_uint32,
    put_uint64,
    skip,
)

# Strict: while a session of a higher one has something for a device, those of lower ones wait. Sessions of the same share
# the device's time evenly.
SESSION_PRIORITY_UNSPECIFIED = 0
SESSION_PRIORITY_LOW = 1
SESSION_PRIORITY_NORMAL = 2
SESSION_PRIORITY_HIGH = 3

SLOT_STATE_UNSPECIFIED = 0
SLOT_STATE_READY = 1
SLOT_STATE_PENDING = 2
SLOT_STATE_FAILED = 3
SLOT_STATE_CONSUMED = 4


class SessionOpenRequest(Message):
    """Gives the connection's session a name, a lease, or both. It must not hold anything yet."""

    __slots__ = ("name", "ttl_ns", "priority")

    def __init__(
        self,
        name: str = "",
        ttl_ns: int = 0,
        priority: int = 0,
    ) -> None:
        self.name: str = name
        self.ttl_ns: int = ttl_ns
        self.priority: int = priority

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        if self.ttl_ns:
            out += b"\x10"
            put_uint64(out, self.ttl_ns)
        if self.priority:
            out += b"\x18"
            put_int32(out, self.priority)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 16:
                self.ttl_ns, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.priority, pos = get_int32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionOpenReply(Message):
    __slots__ = ("session", "token", "server_epoch", "conversation")

    def __init__(
        self,
        session: int = 0,
        token: str = "",
        server_epoch: int = 0,
        conversation: int = 0,
    ) -> None:
        self.session: int = session
        self.token: str = token
        self.server_epoch: int = server_epoch
        self.conversation: int = conversation

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
        if self.conversation:
            out += b"\x20"
            put_uint64(out, self.conversation)
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
            elif tag == 32:
                self.conversation, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionAttachRequest(Message):
    """The connection takes part in another session, in place of its own, which must not hold anything."""

    __slots__ = ("name", "token", "create", "ttl_ns", "join", "resume", "id_prefix", "conversation")

    def __init__(
        self,
        name: str = "",
        token: str = "",
        create: bool = False,
        ttl_ns: int = 0,
        join: bool = False,
        resume: bool = False,
        id_prefix: int = 0,
        conversation: int = 0,
    ) -> None:
        self.name: str = name
        self.token: str = token
        self.create: bool = create
        self.ttl_ns: int = ttl_ns
        self.join: bool = join
        self.resume: bool = resume
        self.id_prefix: int = id_prefix
        self.conversation: int = conversation

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        if self.token:
            out += b"\x12"
            put_string(out, self.token)
        if self.create:
            out += b"\x18"
            put_bool(out, self.create)
        if self.ttl_ns:
            out += b"\x20"
            put_uint64(out, self.ttl_ns)
        if self.join:
            out += b"\x28"
            put_bool(out, self.join)
        if self.resume:
            out += b"\x30"
            put_bool(out, self.resume)
        if self.id_prefix:
            out += b"\x38"
            put_uint32(out, self.id_prefix)
        if self.conversation:
            out += b"\x40"
            put_uint64(out, self.conversation)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 18:
                self.token, pos = get_string(data, pos, end)
            elif tag == 24:
                self.create, pos = get_bool(data, pos, end)
            elif tag == 32:
                self.ttl_ns, pos = get_uint64(data, pos, end)
            elif tag == 40:
                self.join, pos = get_bool(data, pos, end)
            elif tag == 48:
                self.resume, pos = get_bool(data, pos, end)
            elif tag == 56:
                self.id_prefix, pos = get_uint32(data, pos, end)
            elif tag == 64:
                self.conversation, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionAttachReply(Message):
    __slots__ = ("session", "token", "server_epoch", "id_prefix", "highest_buffer", "highest_program", "last_call", "pending", "created", "connections", "conversation", "home_device")

    def __init__(
        self,
        session: int = 0,
        token: str = "",
        server_epoch: int = 0,
        id_prefix: int = 0,
        highest_buffer: int = 0,
        highest_program: int = 0,
        last_call: int = 0,
        pending: Iterable[PendingCall] = (),
        created: bool = False,
        connections: int = 0,
        conversation: int = 0,
        home_device: int = 0,
    ) -> None:
        self.session: int = session
        self.token: str = token
        self.server_epoch: int = server_epoch
        self.id_prefix: int = id_prefix
        self.highest_buffer: int = highest_buffer
        self.highest_program: int = highest_program
        self.last_call: int = last_call
        self.pending: list[PendingCall] = list(pending)
        self.created: bool = created
        self.connections: int = connections
        self.conversation: int = conversation
        self.home_device: int = home_device

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
        if self.id_prefix:
            out += b"\x20"
            put_uint32(out, self.id_prefix)
        if self.highest_buffer:
            out += b"\x28"
            put_uint64(out, self.highest_buffer)
        if self.highest_program:
            out += b"\x30"
            put_uint64(out, self.highest_program)
        if self.last_call:
            out += b"\x38"
            put_uint64(out, self.last_call)
        for value in self.pending:
            out += b"\x42"
            put_bytes(out, value.encode())
        if self.created:
            out += b"\x48"
            put_bool(out, self.created)
        if self.connections:
            out += b"\x50"
            put_uint32(out, self.connections)
        if self.conversation:
            out += b"\x58"
            put_uint64(out, self.conversation)
        if self.home_device:
            out += b"\x60"
            put_int32(out, self.home_device)
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
            elif tag == 32:
                self.id_prefix, pos = get_uint32(data, pos, end)
            elif tag == 40:
                self.highest_buffer, pos = get_uint64(data, pos, end)
            elif tag == 48:
                self.highest_program, pos = get_uint64(data, pos, end)
            elif tag == 56:
                self.last_call, pos = get_uint64(data, pos, end)
            elif tag == 66:
                size, pos = get_size(data, pos, end)
                item = PendingCall()
                item.merge(data, pos, pos + size)
                self.pending.append(item)
                pos += size
            elif tag == 72:
                self.created, pos = get_bool(data, pos, end)
            elif tag == 80:
                self.connections, pos = get_uint32(data, pos, end)
            elif tag == 88:
                self.conversation, pos = get_uint64(data, pos, end)
            elif tag == 96:
                self.home_device, pos = get_int32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class PendingCall(Message):
    __slots__ = ("call", "received_bytes", "credit_bytes")

    def __init__(
        self,
        call: int = 0,
        received_bytes: int = 0,
        credit_bytes: int = 0,
    ) -> None:
        self.call: int = call
        self.received_bytes: int = received_bytes
        self.credit_bytes: int = credit_bytes

    def encode(self) -> bytes:
        out = bytearray()
        if self.call:
            out += b"\x08"
            put_uint64(out, self.call)
        if self.received_bytes:
            out += b"\x10"
            put_uint64(out, self.received_bytes)
        if self.credit_bytes:
            out += b"\x18"
            put_uint64(out, self.credit_bytes)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.call, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.received_bytes, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.credit_bytes, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ConfigureRequest(Message):
    """Of the connection's own session, for what waits already, too."""

    __slots__ = ("priority", "device")

    def __init__(
        self,
        priority: int = 0,
        device: int | None = None,
    ) -> None:
        self.priority: int = priority
        self.device: int | None = device

    def encode(self) -> bytes:
        out = bytearray()
        check_oneof("home", self.device)
        if self.priority:
            out += b"\x08"
            put_int32(out, self.priority)
        if self.device is not None:
            out += b"\x10"
            put_int32(out, self.device)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.priority, pos = get_int32(data, pos, end)
            elif tag == 16:
                self.device, pos = get_int32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionCloseRequest(Message):
    __slots__ = ("session", "name")

    def __init__(
        self,
        session: int = 0,
        name: str = "",
    ) -> None:
        self.session: int = session
        self.name: str = name

    def encode(self) -> bytes:
        out = bytearray()
        if self.session:
            out += b"\x08"
            put_uint64(out, self.session)
        if self.name:
            out += b"\x12"
            put_string(out, self.name)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.session, pos = get_uint64(data, pos, end)
            elif tag == 18:
                self.name, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionCloseReply(Message):
    """Frees everything that the session holds. Calls of its connections fail after it until Open opens another session."""

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


class SessionListRequest(Message):
    """The caller's sessions; everybody's for those with the right `admin`."""

    __slots__ = ("session", "name", "buffers")

    def __init__(
        self,
        session: int = 0,
        name: str = "",
        buffers: int = 0,
    ) -> None:
        self.session: int = session
        self.name: str = name
        self.buffers: int = buffers

    def encode(self) -> bytes:
        out = bytearray()
        if self.session:
            out += b"\x08"
            put_uint64(out, self.session)
        if self.name:
            out += b"\x12"
            put_string(out, self.name)
        if self.buffers:
            out += b"\x18"
            put_uint32(out, self.buffers)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.session, pos = get_uint64(data, pos, end)
            elif tag == 18:
                self.name, pos = get_string(data, pos, end)
            elif tag == 24:
                self.buffers, pos = get_uint32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionListReply(Message):
    __slots__ = ("sessions",)

    def __init__(
        self,
        sessions: Iterable[SessionInfo] = (),
    ) -> None:
        self.sessions: list[SessionInfo] = list(sessions)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.sessions:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = SessionInfo()
                item.merge(data, pos, pos + size)
                self.sessions.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class SessionInfo(Message):
    __slots__ = ("session", "name", "own", "uid", "local", "buffers", "programs", "buffer_bytes", "calls_in_flight", "age_ns", "idle_ns", "ttl_ns", "lease_left_ns", "connections", "largest", "priority", "home_device", "slots", "device_ns", "quotas", "reserved_bytes", "idle_left_ns")

    def __init__(
        self,
        session: int = 0,
        name: str = "",
        own: bool = False,
        uid: int = 0,
        local: bool = False,
        buffers: int = 0,
        programs: int = 0,
        buffer_bytes: int = 0,
        calls_in_flight: int = 0,
        age_ns: int = 0,
        idle_ns: int = 0,
        ttl_ns: int = 0,
        lease_left_ns: int = 0,
        connections: Iterable[SessionConnection] = (),
        largest: Iterable[SessionBuffer] = (),
        priority: int = 0,
        home_device: int = 0,
        slots: int = 0,
        device_ns: int = 0,
        quotas: Iterable[QuotaUse] = (),
        reserved_bytes: int = 0,
        idle_left_ns: int = 0,
    ) -> None:
        self.session: int = session
        self.name: str = name
        self.own: bool = own
        self.uid: int = uid
        self.local: bool = local
        self.buffers: int = buffers
        self.programs: int = programs
        self.buffer_bytes: int = buffer_bytes
        self.calls_in_flight: int = calls_in_flight
        self.age_ns: int = age_ns
        self.idle_ns: int = idle_ns
        self.ttl_ns: int = ttl_ns
        self.lease_left_ns: int = lease_left_ns
        self.connections: list[SessionConnection] = list(connections)
        self.largest: list[SessionBuffer] = list(largest)
        self.priority: int = priority
        self.home_device: int = home_device
        self.slots: int = slots
        self.device_ns: int = device_ns
        self.quotas: list[QuotaUse] = list(quotas)
        self.reserved_bytes: int = reserved_bytes
        self.idle_left_ns: int = idle_left_ns

    def encode(self) -> bytes:
        out = bytearray()
        if self.session:
            out += b"\x08"
            put_uint64(out, self.session)
        if self.name:
            out += b"\x12"
            put_string(out, self.name)
        if self.own:
            out += b"\x18"
            put_bool(out, self.own)
        if self.uid:
            out += b"\x20"
            put_uint32(out, self.uid)
        if self.local:
            out += b"\x28"
            put_bool(out, self.local)
        if self.buffers:
            out += b"\x30"
            put_uint64(out, self.buffers)
        if self.programs:
            out += b"\x38"
            put_uint64(out, self.programs)
        if self.buffer_bytes:
            out += b"\x40"
            put_uint64(out, self.buffer_bytes)
        if self.calls_in_flight:
            out += b"\x48"
            put_uint64(out, self.calls_in_flight)
        if self.age_ns:
            out += b"\x50"
            put_uint64(out, self.age_ns)
        if self.idle_ns:
            out += b"\x58"
            put_uint64(out, self.idle_ns)
        if self.ttl_ns:
            out += b"\x60"
            put_uint64(out, self.ttl_ns)
        if self.lease_left_ns:
            out += b"\x68"
            put_uint64(out, self.lease_left_ns)
        for value in self.connections:
            out += b"\x72"
            put_bytes(out, value.encode())
        for value in self.largest:
            out += b"\x7a"
            put_bytes(out, value.encode())
        if self.priority:
            out += b"\x80\x01"
            put_int32(out, self.priority)
        if self.home_device:
            out += b"\x88\x01"
            put_int32(out, self.home_device)
        if self.slots:
            out += b"\x90\x01"
            put_uint64(out, self.slots)
        if self.device_ns:
            out += b"\xa0\x01"
            put_uint64(out, self.device_ns)
        if self.reserved_bytes:
            out += b"\xa8\x01"
            put_uint64(out, self.reserved_bytes)
        if self.idle_left_ns:
            out += b"\xb0\x01"
            put_uint64(out, self.idle_left_ns)
        for value in self.quotas:
            out += b"\xba\x01"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.session, pos = get_uint64(data, pos, end)
            elif tag == 18:
                self.name, pos = get_string(data, pos, end)
            elif tag == 24:
                self.own, pos = get_bool(data, pos, end)
            elif tag == 32:
                self.uid, pos = get_uint32(data, pos, end)
            elif tag == 40:
                self.local, pos = get_bool(data, pos, end)
            elif tag == 48:
                self.buffers, pos = get_uint64(data, pos, end)
            elif tag == 56:
                self.programs, pos = get_uint64(data, pos, end)
            elif tag == 64:
                self.buffer_bytes, pos = get_uint64(data, pos, end)
            elif tag == 72:
                self.calls_in_flight, pos = get_uint64(data, pos, end)
            elif tag == 80:
                self.age_ns, pos = get_uint64(data, pos, end)
            elif tag == 88:
                self.idle_ns, pos = get_uint64(data, pos, end)
            elif tag == 96:
                self.ttl_ns, pos = get_uint64(data, pos, end)
            elif tag == 104:
                self.lease_left_ns, pos = get_uint64(data, pos, end)
            elif tag == 114:
                size, pos = get_size(data, pos, end)
                item = SessionConnection()
                item.merge(data, pos, pos + size)
                self.connections.append(item)
                pos += size
            elif tag == 122:
                size, pos = get_size(data, pos, end)
                item = SessionBuffer()
                item.merge(data, pos, pos + size)
                self.largest.append(item)
                pos += size
            elif tag == 128:
                self.priority, pos = get_int32(data, pos, end)
            elif tag == 136:
                self.home_device, pos = get_int32(data, pos, end)
            elif tag == 144:
                self.slots, pos = get_uint64(data, pos, end)
            elif tag == 160:
                self.device_ns, pos = get_uint64(data, pos, end)
            elif tag == 168:
                self.reserved_bytes, pos = get_uint64(data, pos, end)
            elif tag == 176:
                self.idle_left_ns, pos = get_uint64(data, pos, end)
            elif tag == 186:
                size, pos = get_size(data, pos, end)
                item = QuotaUse()
                item.merge(data, pos, pos + size)
                self.quotas.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class SessionConnection(Message):
    __slots__ = ("pid", "command", "client_name", "transport", "id_prefix")

    def __init__(
        self,
        pid: int = 0,
        command: str = "",
        client_name: str = "",
        transport: str = "",
        id_prefix: int = 0,
    ) -> None:
        self.pid: int = pid
        self.command: str = command
        self.client_name: str = client_name
        self.transport: str = transport
        self.id_prefix: int = id_prefix

    def encode(self) -> bytes:
        out = bytearray()
        if self.pid:
            out += b"\x08"
            put_uint32(out, self.pid)
        if self.command:
            out += b"\x12"
            put_string(out, self.command)
        if self.client_name:
            out += b"\x1a"
            put_string(out, self.client_name)
        if self.transport:
            out += b"\x22"
            put_string(out, self.transport)
        if self.id_prefix:
            out += b"\x28"
            put_uint32(out, self.id_prefix)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.pid, pos = get_uint32(data, pos, end)
            elif tag == 18:
                self.command, pos = get_string(data, pos, end)
            elif tag == 26:
                self.client_name, pos = get_string(data, pos, end)
            elif tag == 34:
                self.transport, pos = get_string(data, pos, end)
            elif tag == 40:
                self.id_prefix, pos = get_uint32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SessionBuffer(Message):
    __slots__ = ("buffer", "bytes", "type", "device", "slot")

    def __init__(
        self,
        buffer: int = 0,
        bytes: int = 0,
        type: TensorType | None = None,
        device: int = 0,
        slot: str = "",
    ) -> None:
        self.buffer: int = buffer
        self.bytes: int = bytes
        self.type: TensorType | None = type
        self.device: int = device
        self.slot: str = slot

    def encode(self) -> bytes:
        out = bytearray()
        if self.buffer:
            out += b"\x08"
            put_uint64(out, self.buffer)
        if self.bytes:
            out += b"\x10"
            put_uint64(out, self.bytes)
        if self.type is not None:
            out += b"\x1a"
            put_bytes(out, self.type.encode())
        if self.device:
            out += b"\x20"
            put_int32(out, self.device)
        if self.slot:
            out += b"\x2a"
            put_string(out, self.slot)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.buffer, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.bytes, pos = get_uint64(data, pos, end)
            elif tag == 26:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 32:
                self.device, pos = get_int32(data, pos, end)
            elif tag == 42:
                self.slot, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SlotBinding(Message):
    __slots__ = ("slot", "buffer")

    def __init__(
        self,
        slot: str = "",
        buffer: int = 0,
    ) -> None:
        self.slot: str = slot
        self.buffer: int = buffer

    def encode(self) -> bytes:
        out = bytearray()
        if self.slot:
            out += b"\x0a"
            put_string(out, self.slot)
        if self.buffer:
            out += b"\x10"
            put_uint64(out, self.buffer)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.slot, pos = get_string(data, pos, end)
            elif tag == 16:
                self.buffer, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class BindRequest(Message):
    """The session's slots hold the buffers from now on, whatever becomes of their ids; what they held before goes when
    nobody uses it any more. All of them, or none where one cannot be.
    """

    __slots__ = ("bindings",)

    def __init__(
        self,
        bindings: Iterable[SlotBinding] = (),
    ) -> None:
        self.bindings: list[SlotBinding] = list(bindings)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.bindings:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = SlotBinding()
                item.merge(data, pos, pos + size)
                self.bindings.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class LookupRequest(Message):
    """The buffers that the slots hold now get these new ids of the caller's, too."""

    __slots__ = ("bindings",)

    def __init__(
        self,
        bindings: Iterable[SlotBinding] = (),
    ) -> None:
        self.bindings: list[SlotBinding] = list(bindings)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.bindings:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = SlotBinding()
                item.merge(data, pos, pos + size)
                self.bindings.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class UnbindRequest(Message):
    """Takes slots away. All that exist go; NOT_FOUND names the first that does not."""

    __slots__ = ("slots",)

    def __init__(
        self,
        slots: Iterable[str] = (),
    ) -> None:
        self.slots: list[str] = list(slots)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.slots:
            out += b"\x0a"
            put_string(out, value)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                value, pos = get_string(data, pos, end)
                self.slots.append(value)
            else:
                pos = skip(data, pos, end, tag)


class SlotsRequest(Message):
    __slots__ = ("slots",)

    def __init__(
        self,
        slots: Iterable[str] = (),
    ) -> None:
        self.slots: list[str] = list(slots)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.slots:
            out += b"\x0a"
            put_string(out, value)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                value, pos = get_string(data, pos, end)
                self.slots.append(value)
            else:
                pos = skip(data, pos, end, tag)


class SlotInfo(Message):
    __slots__ = ("slot", "state", "type", "device", "device_bytes", "error", "published")

    def __init__(
        self,
        slot: str = "",
        state: int = 0,
        type: TensorType | None = None,
        device: int = 0,
        device_bytes: int = 0,
        error: Error | None = None,
        published: bool = False,
    ) -> None:
        self.slot: str = slot
        self.state: int = state
        self.type: TensorType | None = type
        self.device: int = device
        self.device_bytes: int = device_bytes
        self.error: Error | None = error
        self.published: bool = published

    def encode(self) -> bytes:
        out = bytearray()
        if self.slot:
            out += b"\x0a"
            put_string(out, self.slot)
        if self.state:
            out += b"\x10"
            put_int32(out, self.state)
        if self.type is not None:
            out += b"\x1a"
            put_bytes(out, self.type.encode())
        if self.device:
            out += b"\x20"
            put_int32(out, self.device)
        if self.device_bytes:
            out += b"\x28"
            put_uint64(out, self.device_bytes)
        if self.error is not None:
            out += b"\x32"
            put_bytes(out, self.error.encode())
        if self.published:
            out += b"\x38"
            put_bool(out, self.published)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.slot, pos = get_string(data, pos, end)
            elif tag == 16:
                self.state, pos = get_int32(data, pos, end)
            elif tag == 26:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 32:
                self.device, pos = get_int32(data, pos, end)
            elif tag == 40:
                self.device_bytes, pos = get_uint64(data, pos, end)
            elif tag == 50:
                size, pos = get_size(data, pos, end)
                if self.error is None:
                    self.error = Error()
                self.error.merge(data, pos, pos + size)
                pos += size
            elif tag == 56:
                self.published, pos = get_bool(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SlotsReply(Message):
    __slots__ = ("slots",)

    def __init__(
        self,
        slots: Iterable[SlotInfo] = (),
    ) -> None:
        self.slots: list[SlotInfo] = list(slots)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.slots:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = SlotInfo()
                item.merge(data, pos, pos + size)
                self.slots.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class PublishRequest(Message):
    """Publishes slots, read-only: what they hold now can be borrowed by other sessions, without a copy. What is published is
    not consumed by any execution, also not by the session's own. It stays published until it is withdrawn, or the session
    is closed; who has borrowed it keeps it. Its memory counts as this session's, once.
    """

    __slots__ = ("name", "slots", "everybody", "uids")

    def __init__(
        self,
        name: str = "",
        slots: Iterable[str] = (),
        everybody: bool = False,
        uids: Iterable[int] = (),
    ) -> None:
        self.name: str = name
        self.slots: list[str] = list(slots)
        self.everybody: bool = everybody
        self.uids: list[int] = list(uids)

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        for value in self.slots:
            out += b"\x12"
            put_string(out, value)
        if self.everybody:
            out += b"\x18"
            put_bool(out, self.everybody)
        if self.uids:
            packed = bytearray()
            for value in self.uids:
                put_uint32(packed, value)
            out += b"\x22"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 18:
                value, pos = get_string(data, pos, end)
                self.slots.append(value)
            elif tag == 24:
                self.everybody, pos = get_bool(data, pos, end)
            elif tag == 32:
                value, pos = get_uint32(data, pos, end)
                self.uids.append(value)
            elif tag == 34:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint32(data, pos, stop)
                    self.uids.append(value)
            else:
                pos = skip(data, pos, end, tag)


class WithdrawRequest(Message):
    __slots__ = ("name",)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name: str = name

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class BorrowedSlot(Message):
    __slots__ = ("slot", "as_")

    def __init__(
        self,
        slot: str = "",
        as_: str = "",
    ) -> None:
        self.slot: str = slot
        self.as_: str = as_

    def encode(self) -> bytes:
        out = bytearray()
        if self.slot:
            out += b"\x0a"
            put_string(out, self.slot)
        if self.as_:
            out += b"\x12"
            put_string(out, self.as_)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.slot, pos = get_string(data, pos, end)
            elif tag == 18:
                self.as_, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class BorrowRequest(Message):
    """The slots hold what is published from now on. All of them, or none where one cannot be."""

    __slots__ = ("name", "slots")

    def __init__(
        self,
        name: str = "",
        slots: Iterable[BorrowedSlot] = (),
    ) -> None:
        self.name: str = name
        self.slots: list[BorrowedSlot] = list(slots)

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        for value in self.slots:
            out += b"\x12"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                item = BorrowedSlot()
                item.merge(data, pos, pos + size)
                self.slots.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class PublicationInfo(Message):
    __slots__ = ("name", "session", "session_name", "local", "uid", "own", "everybody", "slots", "bytes", "borrowed")

    def __init__(
        self,
        name: str = "",
        session: int = 0,
        session_name: str = "",
        local: bool = False,
        uid: int = 0,
        own: bool = False,
        everybody: bool = False,
        slots: int = 0,
        bytes: int = 0,
        borrowed: int = 0,
    ) -> None:
        self.name: str = name
        self.session: int = session
        self.session_name: str = session_name
        self.local: bool = local
        self.uid: int = uid
        self.own: bool = own
        self.everybody: bool = everybody
        self.slots: int = slots
        self.bytes: int = bytes
        self.borrowed: int = borrowed

    def encode(self) -> bytes:
        out = bytearray()
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        if self.session:
            out += b"\x10"
            put_uint64(out, self.session)
        if self.session_name:
            out += b"\x1a"
            put_string(out, self.session_name)
        if self.local:
            out += b"\x20"
            put_bool(out, self.local)
        if self.uid:
            out += b"\x28"
            put_uint32(out, self.uid)
        if self.own:
            out += b"\x30"
            put_bool(out, self.own)
        if self.everybody:
            out += b"\x38"
            put_bool(out, self.everybody)
        if self.slots:
            out += b"\x40"
            put_uint64(out, self.slots)
        if self.bytes:
            out += b"\x48"
            put_uint64(out, self.bytes)
        if self.borrowed:
            out += b"\x50"
            put_uint64(out, self.borrowed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 16:
                self.session, pos = get_uint64(data, pos, end)
            elif tag == 26:
                self.session_name, pos = get_string(data, pos, end)
            elif tag == 32:
                self.local, pos = get_bool(data, pos, end)
            elif tag == 40:
                self.uid, pos = get_uint32(data, pos, end)
            elif tag == 48:
                self.own, pos = get_bool(data, pos, end)
            elif tag == 56:
                self.everybody, pos = get_bool(data, pos, end)
            elif tag == 64:
                self.slots, pos = get_uint64(data, pos, end)
            elif tag == 72:
                self.bytes, pos = get_uint64(data, pos, end)
            elif tag == 80:
                self.borrowed, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class PublishedReply(Message):
    """Those that the session may borrow; all, to those with the right `admin`, who may withdraw them."""

    __slots__ = ("publications",)

    def __init__(
        self,
        publications: Iterable[PublicationInfo] = (),
    ) -> None:
        self.publications: list[PublicationInfo] = list(publications)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.publications:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = PublicationInfo()
                item.merge(data, pos, pos + size)
                self.publications.append(item)
                pos += size
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
