"""Clients: a connection to a daemon and the session that it has there."""

from __future__ import annotations

import os
from time import monotonic

from . import timeouts
from ._proto import methods
from ._proto.wire import varint
from ._version import __version__
from .buffer import Buffer, Placement
from .call import read_answer
from .connection import Connection
from .device import Device, Devices
from .errors import FailedPrecondition, InvalidArgument, NotFound, SessionLost, Unimplemented
from .executable import Executable, read_compile_reply
from .host_array import to_host_bytes
from .leaks import warn_leak
from .target import open_transport, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ._proto.runtime import DeviceInfo, InfoReply
    from .call import Call
    from .compile_options import CompileOptions
    from .memory import Memory
    from .plugin import Plugin
    from .publication import Publication
    from .session import Session
    from .session_info import SessionInfo
    from .transport import Transport
    from .tensor_type import TensorType
    from .typing import DT

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 1.0
END_TIMEOUT_S = 10.0  # also for a connection that is just being made anew
BUSY_POLL_US = 100.0
RECONNECT_TIMEOUT_S = 60.0


class Client:
    """A session with a daemon. Client.create() makes one; any thread may use it.

        with pjrtd.Client.create() as client:
            exe = client.compile(stablehlo_text)
            (out,) = exe(array)

    Its buffers and programs go when it is closed, or when its process ends, unless it takes part in a session that is kept:
    see session(). A forked child cannot use it and makes its
    own; what the child does with its copies does not touch the parent's.
    """

    #: What the daemon creates a GPU's client with unless told otherwise.
    GPU_DEFAULTS: Mapping[str, Any] = {"preallocate": False, "memory_fraction": 0.5}

    _connection: Connection  # what __del__ finds in an object whose __init__ did not run

    def __init__(self, connection: Connection, calls: list[Call], reopen: Callable[[float], Transport] | None = None) -> None:
        """Client.create() is the way to make one. Takes a connection that has said hello, its calls for information that
        are under way, and how another link to the same daemon is made, within so many seconds."""
        self._connection = connection
        self._calls = calls  # devices, memories, info
        self._reopen = reopen
        self._placements: dict[tuple[int, tuple[int, ...], int, int | None], Placement] = {}
        self._devices: Devices | None = None
        self._memories: tuple[Memory, ...] | None = None
        self._info_reply: InfoReply | None = None
        self._plugin: Plugin | None = None

    @classmethod
    def create(
        cls,
        target: str | os.PathLike[str] | Plugin | None = None,
        *,
        busy_poll_us: float | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        session: str | None = None,
        ttl: float | None = None,
        join: bool = False,
        options: Mapping[str, Any] | None = None,
        allow_multiple: bool = True,
        kv_store: None = None,
    ) -> Client:
        """Connects to a daemon.

        target: "unix:PATH", "grpc://HOST:PORT" or, over TLS, "grpcs://HOST:PORT"; the port is 7578 where there is none.
            None: PJRTD_TARGET, else $XDG_RUNTIME_DIR/pjrtd.sock where there is one, else /run/pjrtd/pjrtd.sock.
        busy_poll_us: for how many microseconds a waiting call polls before it sleeps; 0: not at all. It adapts: where
            polling does not pay, as on a busy machine, it is done less and less.
        ca_file: for grpcs://, whom to believe who the daemon is: a file of certificates (PEM). None: PJRTD_CA_FILE, else
            the system's.
        timeout: seconds that connecting may take; 10 by default.
        session, ttl, join: takes part in the session of that name, as by session().
        options: create options belong to the daemon (`pjrtd --option NAME=VALUE`). Those in force are accepted, others
            raise FailedPrecondition.
        allow_multiple: many clients may always share a daemon, so there is nothing to allow.
        kv_store: multi-process rendezvous is not served; anything but None raises Unimplemented.

        Raises InvalidArgument for what is no target (a plugin's file, say), Unavailable where no daemon listens,
        PermissionDenied where this user may not connect, Unimplemented where no protocol version is common.
        """
        if kv_store is not None:
            raise Unimplemented("a key-value store for multi-process runs cannot be passed to a daemon")
        named: Any = getattr(target, "target", target)  # a Plugin knows where it is from
        where = resolve(named)
        limit_s = CONNECT_TIMEOUT_S if timeout is None else timeout
        until = monotonic() + limit_s
        if busy_poll_us is None:
            busy_poll_us = BUSY_POLL_US if _cpus() > 1 else 0.0  # polling on the only processor keeps the daemon off it
        connection = Connection(open_transport(where, limit_s, ca_file), busy_poll_us)
        try:
            calls = connection.hello(
                f"pjrtd-python {__version__}", until, methods.DEVICES, methods.MEMORIES, methods.INFO
            )
            client = cls(connection, calls, lambda seconds: open_transport(where, seconds, ca_file))
            if options:
                client._check_options(options)
            if session is not None or ttl is not None:
                client.session(session, ttl=ttl, join=join, timeout=max(0.0, until - monotonic()))
            return client
        except BaseException:
            connection.close(0)
            raise

    # ---- what it talks to ----

    @property
    def target(self) -> str:
        return self._connection.target

    @property
    def plugin(self) -> Plugin:
        """The plugin that the daemon serves."""
        if self._plugin is None:
            from .plugin import Plugin

            self._plugin = Plugin(self.target, info=self.info())
        return self._plugin

    @property
    def platform_name(self) -> str:
        """The plugin's name for its platform: "cpu", "cuda", ..."""
        return self.info().platform_name

    @property
    def platform_version(self) -> str:
        return self.info().platform_version

    @property
    def process_index(self) -> int:
        return self.info().process_index

    @property
    def server_version(self) -> str:
        return self.info().server_version

    @property
    def server_epoch(self) -> int:
        """Another number after each start of the daemon."""
        return self._connection.server_epoch

    @property
    def server_pid(self) -> int:
        """The daemon's process, by its number on the daemon's own host."""
        return self.info().pid

    def stats(self) -> dict[str, Any]:
        """The daemon's counters now: those of `pjrtctl stats`. Bytes and nanoseconds by their names' endings."""
        from ._proto.admin import StatsReply

        reply = read_answer(StatsReply, self._connection.request(methods.ADMIN_STATS, b"", timeouts.resolve(None)).payload)
        result: dict[str, Any] = {name: getattr(reply, name) for name in reply.__slots__}
        result["lanes"] = [{name: getattr(lane, name) for name in lane.__slots__} for lane in reply.lanes]
        return result

    def _answer(self, at: int) -> bytes:
        """What the daemon said to a call that was made on connecting."""
        call = self._calls[at]
        if not call.done:
            self._connection.finish(call, timeouts.resolve(None))
        if call.error is not None:
            raise call.error.again()
        return call.payload

    def info(self) -> InfoReply:
        """All that the daemon said about itself and its plugin on connecting: the message InfoReply."""
        if self._info_reply is None:
            from ._proto.runtime import InfoReply

            self._info_reply = read_answer(InfoReply, self._answer(2))
        return self._info_reply

    def _check_options(self, options: Mapping[str, Any]) -> None:
        from .attribute import attribute_values

        info = self.info()
        in_force = attribute_values(info.create_options)
        for name, value in options.items():
            if name not in in_force and name in self.GPU_DEFAULTS and self.platform_name == "cpu":
                continue  # a GPU's allocator; there is none here
            if in_force.get(name, None) != value:
                raise FailedPrecondition(
                    f"create option {name}={value!r}: the daemon's plugin was created with "
                    f"{f'{name}={in_force[name]!r}' if name in in_force else 'none of that name'}",
                    hint=f"create options belong to the daemon: `pjrtd --option {name}={value}`",
                )

    # ---- devices and memory spaces ----

    def devices(self) -> Devices:
        """The devices that programs can run on, in order. Works in a `with` too."""
        if self._devices is None:
            from ._proto.runtime import DevicesReply

            infos = read_answer(DevicesReply, self._answer(0)).devices
            self._devices = Devices(Device(self, info) for info in infos if info.addressable)
        return self._devices

    def device(self, index: int = 0) -> Device:
        """One of devices(), by position."""
        return self.devices()[index]

    @property
    def device_count(self) -> int:
        return len(self.devices())

    @property
    def home_device(self) -> Device:
        """Where buffers and programs go that name no device: see Session.home. What another client that takes part in the
        session changes is not seen here."""
        return self.lookup_device(self._connection.home_device)

    @home_device.setter
    def home_device(self, device: Device | int) -> None:
        home = self._device_id(device)
        try:
            self._connection.configure(None, home, timeouts.resolve(None))
        except SessionLost:  # another took its place
            self._connection.configure(None, home, timeouts.resolve(None))

    def memories(self) -> tuple[Memory, ...]:
        """Every memory space of every device."""
        if self._memories is None:
            from ._proto.runtime import MemoriesReply
            from .memory import Memory

            infos = read_answer(MemoriesReply, self._answer(1)).memories
            self._memories = tuple(Memory(self, info) for info in infos)
        return self._memories

    def lookup_device(self, device_id: int, *, addressable: bool = False) -> Device:
        """The device with that id; with `addressable`, with that local hardware id. Raises NotFound."""
        for device in self.devices():
            if (device.local_hardware_id if addressable else device.id) == device_id:
                return device
        raise NotFound(f"there is no device {device_id}", hint=f"there are {self._device_ids()}")

    def lookup_memory(self, memory_id: int) -> Memory:
        """The memory space with that id. Raises NotFound."""
        for memory in self.memories():
            if memory.id == memory_id:
                return memory
        raise NotFound(f"there is no memory space {memory_id}")

    def default_device_assignment(self, num_replicas: int, num_partitions: int = 1) -> list[int]:
        """The ids of the devices that the plugin would take, replica by replica."""
        from ._proto.runtime import DefaultAssignmentReply, DefaultAssignmentRequest

        try:
            request = DefaultAssignmentRequest(num_replicas, num_partitions).encode()
        except ValueError as error:
            raise InvalidArgument(f"default device assignment: {error}") from error
        call = self._connection.request(methods.DEFAULT_ASSIGNMENT, request, timeouts.resolve(None))
        return read_answer(DefaultAssignmentReply, call.payload).devices

    def memory_summary(self) -> str:
        """Each device's allocator state in a line for people; "" where the plugin keeps none."""
        from .errors import Unimplemented

        lines: list[str] = []
        for device in self.devices():
            try:
                stats = device.memory_stats()
            except Unimplemented:
                continue
            lines.append(f"device {device.id}: " + ", ".join(f"{name}={value}" for name, value in stats.items()))
        return "; ".join(lines)

    def _device_ids(self) -> str:
        return ", ".join(str(device.id) for device in self.devices())

    def _device_info(self, device: int) -> DeviceInfo:
        """What the daemon says about a device now."""
        from ._proto.runtime import DevicesReply

        call = self._connection.request(methods.DEVICES, b"", timeouts.resolve(None))
        for info in read_answer(DevicesReply, call.payload).devices:
            if info.id == device:
                return info
        raise NotFound(f"there is no device {device}")

    def _memory_of_kind(self, device: int, kind: str) -> int | None:
        """A device's memory space of some kind; None for the default one, also where nobody says."""
        if not kind:
            return None
        found = self.lookup_device(device)
        default = found.default_memory_id
        if default is None or self.lookup_memory(default).kind == kind:
            return None
        return next((memory.id for memory in found.memories() if memory.kind == kind), None)

    def _placement(self, type: TensorType, device: int, memory: int | None) -> Placement:
        key = (int(type.dtype), type.dims, device, memory)
        found = self._placements.get(key)
        if found is None:
            found = self._placements.setdefault(key, Placement(type, device, memory))
        return found

    # ---- buffers ----

    def buffer_from_host(
        self,
        data: Any,
        element_type: Any = None,
        dims: Sequence[int] | None = None,
        device: Device | int | None = None,
        *,
        memory: Memory | None = None,
        timeout: float | None = None,
    ) -> Buffer[Any]:
        """Copies an array to a device.

        data: a NumPy, JAX or torch array (of any strides and byte order), bytes, bytearray, memoryview, array.array or
            whatever else has the buffer protocol, a Python number, or a nested list of numbers.
        element_type: pjrtd.DType.F32, PJRT's 11, "f32" or numpy.float32; needed for what does not say it itself:
            bytes, and small types without ml_dtypes. None: what the data says; F32, S32, PRED or C64 for Python's own
            numbers. Types under 8 bits take one byte an element, signed ones sign-extended.
        dims: the dimensions; None: the data's own.
        device: where to; None: home_device. memory: a memory space of it instead of its default.

        All data has been sent or copied when this returns: `data` may change at once. Raises InvalidArgument where
        data, element type and dimensions do not fit together, TypeError for what is no array. A failure on the device,
        such as too little memory, shows when the buffer is used, or in sync().
        """
        type, content = to_host_bytes(data, element_type, dims)
        if memory is not None:
            owners = memory.addressable_by()
            if device is None and owners:
                device = owners[0]
        place = self._placement(type, self._device_id(device), None if memory is None else memory.id)
        return self._upload(type, content, place, timeouts.resolve(timeout))

    def _device_id(self, device: Device | int | None) -> int:
        if device is None:
            return self._connection.home_device
        if isinstance(device, Device):
            if device.client is not self:
                raise InvalidArgument(f"{device!r} belongs to another client")
            return device.id
        if not isinstance(device, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a device is one of client.devices() or its id, not {type(device).__name__}")
        if all(known.id != device for known in self.devices()):
            raise InvalidArgument(f"there is no device {device}", hint=f"there are {self._device_ids()}")
        return device

    def _upload(self, type: TensorType, content: bytes | memoryview, place: Placement, until: float | None) -> Buffer[Any]:
        """Sends what to_host_bytes gave."""
        rest = b"\x12" + type.wire
        if type.nbytes:
            rest += b"\x18" + varint(type.nbytes)
        if place.memory is not None:
            rest += b"\x28" + varint(place.memory & (1 << 64) - 1)
        else:
            rest += b"\x20" + varint(place.device & (1 << 64) - 1)
        try:
            id = self._connection.upload(rest, content, until)
        except SessionLost:  # it goes into the session that took its place
            id = self._connection.upload(rest, content, until)
        return Buffer(self, id, place)

    def buffers_from_host(
        self, shards: Sequence[Any], element_type: Any, dims: Sequence[int] | None, devices: Sequence[Device]
    ) -> list[Buffer[Any]]:
        """Copies one shard to each device; `dims` are those of a shard."""
        if len(shards) != len(devices):
            raise InvalidArgument(f"{len(shards)} shard(s) for {len(devices)} device(s)")
        return [self.buffer_from_host(shard, element_type, dims, device) for shard, device in zip(shards, devices)]

    def typed_buffer(
        self, dtype: type[DT], data: Any, dims: Sequence[int] | None = None, device: Device | int | None = None
    ) -> Buffer[DT]:
        """buffer_from_host with the element type known to a type checker: a marker of pjrtd.typing."""
        return self.buffer_from_host(data, dtype, dims, device)

    def from_dlpack(self, array: Any, *, device: Device | int | None = None) -> Buffer[Any]:
        """Copies an array that speaks DLPack, such as a JAX or torch one, to a device."""
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"{type(array).__name__} does not speak DLPack")
        return self.buffer_from_host(array, device=device)

    # ---- programs ----

    def compile(
        self, program: str | bytes, *, options: CompileOptions | None = None, timeout: float | None = None
    ) -> Executable:
        """Compiles StableHLO: text, MLIR bytecode or a portable artifact.

        options: None: for one device, home_device, with the Shardy partitioner if the program has Shardy's annotations.
        Raises InvalidArgument with the compiler's whole message for a program or options that it does not take,
        NotFound for a custom call that nobody serves, Unimplemented for what the plugin cannot do.
        """
        from ._proto.program import CompileRequest
        from .compile_options import CompileOptions

        code = program.encode() if isinstance(program, str) else bytes(program)
        if options is None:
            options = CompileOptions(use_shardy_partitioner=b"sdy." in code)
        rest = CompileRequest(code_bytes=len(code), options=options.to_wire()).encode()
        until = timeouts.resolve(timeout)
        try:
            id, payload = self._connection.compile(rest, code, until)
        except SessionLost:  # it goes into the session that took its place
            id, payload = self._connection.compile(rest, code, until)
        made: Executable | None = None
        try:
            made = read_compile_reply(self, id, payload)
            made._id = id  # pyright: ignore[reportPrivateUsage]
            return made
        except BaseException:
            if made is None or not made._id:  # pyright: ignore[reportPrivateUsage]
                self._connection.discard_program(id)
            raise

    # ---- sessions ----

    def session(
        self,
        name: str | None = None,
        *,
        ttl: float | None = None,
        join: bool = False,
        token: str | None = None,
        reconnect_timeout: float = RECONNECT_TIMEOUT_S,
        timeout: float | None = None,
    ) -> Session:
        """Takes part in a session that outlives this client, and returns it.

        name: 1 to 64 letters, digits, '.', '_' or '-'. The user's session of that name is attached to, or made where
            there is none. Attaching comes before anything is made with this client. Over gRPC a session's token is what
            gives access: it is kept in $XDG_STATE_HOME/pjrtd/tokens (~/.local/state/pjrtd/tokens), a file that only its
            owner may read, by target and name. None, without a token: this client's own session.
        ttl: how long it outlives its last connection, in seconds. None: as it is; for a new one with a name, the daemon's
            session_lease_seconds; without a name it is not kept.
        join: beside the clients that take part already, which are ended otherwise: one program, one owner. A connection
            that shares a session is not made anew when it is lost.
        token: what Session.token said, in place of a name, or of the token that is kept.
        reconnect_timeout: for how many seconds a lost connection is tried to be made anew.

        Raises FailedPrecondition where this client has made something and another session is asked for, NotFound for a
        token of no session, PermissionDenied where others can read the file of tokens.
        """
        from .session import Session

        if name is None and token is None and ttl is None:
            return Session(self)
        self._take_part(name or "", token, _ttl_ns(ttl), join, reconnect_timeout, timeouts.resolve(timeout))
        return Session(self)

    def _take_part(
        self, name: str, token: str | None, ttl_ns: int | None, join: bool, reconnect_s: float, until: float | None
    ) -> None:
        from ._proto.session import SessionAttachRequest
        from .revival import KeptSession

        connection = self._connection
        kept = connection.kept
        if kept is not None and (token or name) and (kept.name, kept.token) != (name or kept.name, token or kept.token):
            raise FailedPrecondition(f"the client takes part in the session {kept.name or kept.token[:4] + '...'!r} already")
        remote = not self.target.startswith("unix:")
        if remote and name and not token:
            from . import tokens

            token = tokens.find(self.target, name)
        request = SessionAttachRequest(token=token or "", join=join)
        if not token and name and not remote:
            request = SessionAttachRequest(name, create=True, ttl_ns=ttl_ns or 0, join=join)
        created = True
        if kept is not None:
            session_token, prefix, conversation = kept.token, kept.prefix, kept.conversation
        elif request.name or request.token:
            try:
                reply = connection.attach(request, until)
                created, session_token, prefix, conversation = reply.created, reply.token, reply.id_prefix, reply.conversation
            except NotFound:
                if not (remote and name):
                    raise
                from . import tokens

                tokens.forget(self.target, name, request.token)
                opened = connection.open_session(name, ttl_ns or 0, until)
                session_token, prefix, conversation = opened.token, connection.id_prefix, opened.conversation
        else:
            opened = connection.open_session(name, ttl_ns or 0, until)
            session_token, prefix, conversation = opened.token, connection.id_prefix, opened.conversation
        if ttl_ns is not None and (kept is not None or not created):
            connection.open_session(name or (kept.name if kept is not None else ""), ttl_ns, until)
        if remote and name:
            from . import tokens

            tokens.put(self.target, name, session_token)
        if kept is not None:
            return
        made = KeptSession(name, session_token, ttl_ns or 0, connection.server_epoch, prefix, conversation)
        if join:
            connection.kept = made
        elif self._reopen is not None:
            connection.keep(made, self._reopen, reconnect_s, self._on_lost)

    def _on_lost(self) -> None:
        """The session began anew, with another token."""
        kept = self._connection.kept
        if kept is not None and kept.name and not self.target.startswith("unix:"):
            from . import tokens

            tokens.put(self.target, kept.name, kept.token)

    def _end_session(self) -> None:
        kept = self._connection.kept
        if kept is not None and kept.name and not self.target.startswith("unix:"):
            from . import tokens

            tokens.forget(self.target, kept.name, kept.token)
        self._connection.kept = None
        self._connection.close(END_TIMEOUT_S)

    def sessions(self) -> list[SessionInfo]:
        """The user's sessions, this client's own among them; everybody's for the daemon's user and root. Over gRPC this
        client's own."""
        from ._proto.session import SessionListReply
        from .session_info import SessionInfo

        call = self._connection.request(methods.SESSION_LIST, b"", timeouts.resolve(None))
        return [SessionInfo(self, each) for each in read_answer(SessionListReply, call.payload).sessions]

    def published(self) -> list[Publication]:
        """What sessions have published that this client's may borrow: Session.borrow(). Its own are among them."""
        from ._proto.session import PublishedReply
        from .publication import Publication

        call = self._connection.request(methods.SESSION_PUBLISHED, b"", timeouts.resolve(None))
        return [Publication(self, each) for each in read_answer(PublishedReply, call.payload).publications]

    def _withdraw(self, name: str) -> None:
        from ._proto.session import WithdrawRequest

        self._connection.request(methods.SESSION_WITHDRAW, WithdrawRequest(name).encode(), timeouts.resolve(None))

    def _end_other_session(self, number: int) -> None:
        self._connection.request(methods.SESSION_CLOSE, b"\x08" + varint(number), timeouts.resolve(None))

    # ---- waiting ----

    def sync(self, timeout: float | None = None) -> None:
        """Waits until everything that was asked for has ended. Raises the first failure since the last sync that no
        other call has reported."""
        self._connection.sync(timeouts.resolve(timeout))

    # ---- its life ----

    @property
    def closed(self) -> bool:
        """Whether it can no longer be used: it was closed, the connection is lost, or this is a forked child."""
        return self._connection.failure is not None

    def close(self) -> None:
        """Ends the connection, and the session unless that is kept: the daemon frees its buffers and programs. It may be
        called again."""
        self._connection.close(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            if not self.closed:
                warn_leak("a pjrtd.Client was never closed", self)
            self._connection.close(0)
        except (AttributeError, TypeError):
            pass  # __init__ did not run, or the interpreter is going down

    def __repr__(self) -> str:
        return f"<pjrtd.Client of {self.target}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError("a client is a connection and cannot be pickled; create one where it is needed")


def _ttl_ns(ttl: float | None) -> int | None:
    if ttl is None:
        return None
    if not 0 <= ttl < 1e9:
        raise InvalidArgument(f"a ttl of {ttl} seconds", hint="it is a number of seconds, at most 400 days")
    return int(ttl * 1e9)


def _cpus() -> int:
    """Processors that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
