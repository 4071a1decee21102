"""Sessions: what a daemon keeps for a client, under names, and how a client comes back to it.

    from pjrtd.session import Session, Slot

    with pjrtd.Client.create() as client, client.session("exp1", ttl=3600) as s:
        step = s.program(training_step, [Slot("theta"), Slot("grad")], outputs=["theta"])
        s.bind_many(loaders)              # only slots that a program names are loaded, and only if they are not there
        for _ in range(steps):
            step.advance()                # the output becomes the next input, in one request, without a host copy

`s.feed_back(step())` does the same in two requests, as in pypjrt. `Session(client)` is the session that a client has
anyway, which ends with it.

A session with a name or a lease (`ttl`) outlives its connection. One that is cut is made anew behind the scenes, and
the calls go on: those that the daemon did not get are sent again, those that it got are not, and an answer that was
lost is asked for again. So no step is lost, and none is done twice. Where the session itself is gone, because the
daemon was restarted or the lease ended, another takes its place: that is a warning, pjrtd.SessionLost, once; programs
are compiled again, loaders are run again, and it goes on from what they load.
"""

from __future__ import annotations

from . import timeouts
from ._proto import methods
from .buffer import Buffer
from .call import read_answer
from .errors import FailedPrecondition, HandleClosed, InvalidArgument, NotFound, OutOfRange, PjrtError
from .named_program import Program
from .publication import Borrowed, own_names
from .session_info import PRIORITIES
from .slot import Slot, binding, wire_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, TypeVar, Union

    from ._proto.session import SlotInfo
    from .client import Client
    from .compile_options import CompileOptions
    from .device import Device
    from .executable import Executable
    from .publication import Wanted
    from .tensor_type import TensorType

    T = TypeVar("T")
    Loader = Callable[[Device], Any]
    #: A buffer, or one for each device of a program for several.
    Buffers = Union[Buffer[Any], Sequence[Buffer[Any]]]

__all__ = ["Program", "Session", "Slot"]

_READY, _PENDING = 1, 2


class Session:
    """A client's session. client.session() gives it; `Session(client)` is the one that the client has anyway.

    Slots are the daemon's: they are found again by who attaches to the session, and several Session objects of a client
    see the same ones. Any thread may use it. As a context manager it closes itself.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._connection = client._connection  # pyright: ignore[reportPrivateUsage]
        self._loaders: dict[str, Loader | Borrowed] = {}
        #: What was borrowed whole, the latest last: the publication, and slots that it is not asked for any more.
        self._borrowed: dict[str, set[str]] = {}
        #: Slots that are surely there, by the name that the daemon knows, and their types where these are known.
        self._there: dict[str, TensorType | None] = {}
        self._bound: set[str] = set()  # by this object
        self._wires: dict[str, bytes] = {}
        self._programs: list[Program] = []
        self._asked = self._too_many = False
        self._generation = self._connection.generation
        #: Another number whenever a slot that was there may be gone, or of another type.
        self.version = 0
        self._closed = False

    # ---- what it is ----

    @property
    def client(self) -> Client:
        return self._client

    @property
    def name(self) -> str:
        """Its name, or ""."""
        kept = self._connection.kept
        return "" if kept is None else kept.name

    @property
    def token(self) -> str:
        """The secret that another client can attach with: client.session(token=...). "" where it is not kept."""
        kept = self._connection.kept
        return "" if kept is None else kept.token

    @property
    def times_lost(self) -> int:
        """How often it was lost, with all that it held, and began anew: see pjrtd.SessionLost."""
        return self._connection.generation

    @property
    def home(self) -> Device:
        """The device of what is placed nowhere in particular: buffers without a `device`, programs for one device without an
        assignment. The daemon chooses it (its setting `session_home`); assigning a Device or its id changes it for what
        comes after. Raises InvalidArgument for no device."""
        return self._client.home_device

    @home.setter
    def home(self, device: Device | int) -> None:
        self._client.home_device = device

    @property
    def priority(self) -> str:
        """"low", "normal" or "high": while a session of a higher one has something for a device, those of lower ones wait.
        Assigning to it changes it; PermissionDenied where this user may not have a high one."""
        (own,) = [each for each in self._client.sessions() if each.own]
        return own.priority

    @priority.setter
    def priority(self, priority: str) -> None:
        if priority not in PRIORITIES:
            raise InvalidArgument(f"there is no priority {priority!r}", hint=f"there are {', '.join(PRIORITIES)}")
        self._again(lambda: self._connection.configure(PRIORITIES.index(priority) + 1, None, timeouts.resolve(None)))

    def device(self, index: int = 0) -> Device:
        """One of the client's devices, by position."""
        return self._client.device(index)

    @property
    def device_count(self) -> int:
        return self._client.device_count

    # ---- slots ----

    def set_global(self, name: str, buffer: Buffers) -> None:
        """Puts a buffer into a slot, from now on and whatever becomes of the Buffer object; what was in it goes when nobody
        uses it any more. For programs on several devices, one buffer for each, in the order of their rows.

        The slot's next users may consume the buffer, where they donate it."""
        self.feed_back({name: buffer})

    def feed_back(self, mapping: Mapping[str, Any] | Sequence[Mapping[str, Buffer[Any]]]) -> None:
        """Puts buffers into slots by name, with no host copy: a step's outputs become the next one's inputs. What a program
        on several devices gave, a list of such mappings, goes back device by device.

        Raises InvalidArgument for what is no buffer of this client, HandleClosed for a closed one."""
        if self._feed_again(mapping):
            return
        self.refresh()
        fields: list[bytes] = []
        types: dict[str, TensorType | None] = {}
        buffers: list[Buffer[Any]] = []
        for device, row in enumerate(mapping if not hasattr(mapping, "items") else [mapping]):  # type: ignore[list-item]
            each: Any = row
            for name, value in each.items():
                for at, buffer in enumerate(_shards(value), device):
                    slot = device_slot(name, at)
                    fields.append(binding(wire_name(slot), self._id_of(name, buffer)))
                    types[slot] = buffer._placement.type  # pyright: ignore[reportPrivateUsage]
                    buffers.append(buffer)
        if not fields:
            return
        self._connection.post(methods.SESSION_BIND, b"".join(fields), timeouts.current.get())
        for buffer in buffers:
            buffer._mark_consumed()  # pyright: ignore[reportPrivateUsage]
        if any(self._there.get(slot) is not type for slot, type in types.items()):
            self.version += 1
        self._there.update(types)
        self._bound.update(types)

    def _feed_again(self, row: Any) -> bool:
        """Puts buffers into slots that have had such ones before; False where that is to be looked at more closely."""
        if row.__class__ is not dict or not row or self._closed or self._generation != self._connection.generation:
            return False
        payload = b""
        named: dict[str, Any] = row
        for name, buffer in named.items():
            if type(buffer) is not Buffer or buffer._client is not self._client:  # pyright: ignore
                return False
            id = buffer._id  # pyright: ignore[reportPrivateUsage]
            if not id or self._there.get(name) is not buffer._placement.type:  # pyright: ignore[reportPrivateUsage]
                return False
            wire = self._wires.get(name)
            if wire is None:
                wire = self._wires[name] = wire_name(name)
            payload += binding(wire, id)
        self._connection.post(methods.SESSION_BIND, payload, timeouts.current.get())
        for buffer in named.values():
            buffer._live = None  # the slot's users may consume it
        return True

    def _id_of(self, name: str, buffer: Any) -> bytes:
        if not isinstance(buffer, Buffer):
            raise InvalidArgument(
                f"slot {name!r} takes a buffer, and got a {type(buffer).__name__}", hint="client.buffer_from_host() makes one"
            )
        ours: Buffer[Any] = buffer  # pyright: ignore[reportUnknownVariableType]
        if ours.client is not self._client:
            raise InvalidArgument(f"slot {name!r}: the buffer is another client's")
        if not ours._id:  # pyright: ignore[reportPrivateUsage]
            raise HandleClosed(f"slot {name!r}: the buffer is closed")
        return ours._id  # pyright: ignore[reportPrivateUsage]

    def bind(self, name: str, loader: Any) -> None:
        """Says how a slot is loaded, when a program first names it and it is not there.

        loader: called with the device; returns a buffer, or what client.buffer_from_host takes. What is no function is
            taken for such data itself. After a loss of the session it is called again.
        """
        self.bind_many({name: loader})

    def bind_many(self, loaders: Mapping[str, Any]) -> None:
        """bind() for each name."""
        for name, loader in loaders.items():
            wire_name(name)
            self._loaders[name] = loader if callable(loader) else _constant(loader)
        self.version += 1

    def unbind(self, *names: str) -> None:
        """Takes slots away, and their loaders. Raises NotFound where a slot is not there and has none."""
        self.refresh()
        self.version += 1
        there = [slot for slot in self._known() if slot.partition("@")[0] in names or slot in names]
        for without in self._borrowed.values():
            without.update(names)
        for name in names:
            if self._loaders.pop(name, None) is None and name not in there and device_slot(name, 1) not in there:
                raise NotFound(f"the session has no slot {name!r}")
        for slot in there:
            self._there.pop(slot, None)
            self._bound.discard(slot)
        if there:
            self._connection.post(methods.SESSION_UNBIND, b"".join(map(wire_name, there)), timeouts.current.get())

    def buffer(self, name: str, device_index: int = 0) -> Buffer[Any]:
        """What a slot holds now, as a buffer: it keeps that value when the slot gets another one, unless a program consumes
        it. Loads the slot where that is to be done. Waits until the value is there; raises what the program that makes it
        failed with, NotFound for no such slot."""
        return self._again(lambda: self._buffer(name, device_index))

    def _again(self, ask: Callable[[], T]) -> T:
        """Asks, and once more where the session was lost meanwhile, and begins anew."""
        generation = self.refresh()
        try:
            return ask()
        except PjrtError:
            if self.refresh() == generation:
                raise
            return ask()

    def _buffer(self, name: str, device_index: int) -> Buffer[Any]:
        from ._proto.buffer import StatReply
        from .dtype import by_code
        from .errors import DataLoss
        from .tensor_type import tensor_type

        slot = self.ensure(name, device_index)
        until = timeouts.resolve(None)
        id = self._connection.lookup(wire_name(slot), until)
        try:
            reply = read_answer(StatReply, self._connection.request(methods.BUFFER_STAT, b"\x08" + id, until).payload)
            dtype = None if reply.type is None else by_code(reply.type.dtype)
            if dtype is None or reply.type is None:
                raise DataLoss("the daemon describes a buffer without an element type")
            place = self._client._placement(  # pyright: ignore[reportPrivateUsage]
                tensor_type(dtype, reply.type.dims), reply.device, self._memory(reply)
            )
            return Buffer(self._client, id, place)
        except BaseException:
            self._connection.discard_buffer(id, 0)
            raise

    def _memory(self, reply: Any) -> int | None:
        default = self._client.lookup_device(reply.device).default_memory_id
        return None if reply.memory == default else reply.memory

    def resolve(self, name: str, device_index: int = 0) -> Buffer[Any] | None:
        """buffer(), or None where there is no such slot."""
        try:
            return self.buffer(name, device_index)
        except NotFound:
            return None

    @property
    def resident(self) -> list[str]:
        """Names of the slots that are on a device. Those of further devices end in "@1", "@2", ..."""
        self.refresh()
        self._asked = False
        return sorted(self._known())

    @property
    def pending(self) -> list[str]:
        """Names with a loader that are not loaded yet."""
        known = self._known()
        return sorted(name for name in self._loaders if name not in known)

    # ---- slots that sessions share ----

    def publish(
        self, name: str, slots: Sequence[str] | None = None, *, everybody: bool = False, uids: Sequence[int] = ()
    ) -> None:
        """Lets other sessions borrow what slots hold now, without a copy, under a name of the host's: 1 to 64 letters,
        digits, '.', '_' or '-'. It is read-only from then on: no program may consume it, also none of this session.

        slots: their names; those that are not there are loaded. None: all that are there.
        everybody, uids: who may borrow it: every session, or those of these users, beside the same user's own.
        It stays published until it is withdrawn or the session ends; after a loss of the session it is to be published again.
        Raises AlreadyExists where something has that name, NotFound for a slot that is not there and has no loader.
        """
        if isinstance(slots, str):
            raise TypeError("slots is a list of names")
        if slots is not None and not slots:
            raise InvalidArgument("no slot is named", hint="leave `slots` out for all of them")

        def publish() -> None:
            from ._proto.session import PublishRequest

            parts = [part for each in slots or () for part in self._parts(each)]
            try:
                request = PublishRequest(name, parts, everybody, uids).encode()
            except ValueError as error:
                raise InvalidArgument(f"publish {name!r}: {error}") from error
            self._connection.request(methods.SESSION_PUBLISH, request, timeouts.resolve(None))

        self._again(publish)

    def _parts(self, name: str) -> list[str]:
        """A slot and those of further devices; loaded, where it is not there."""
        there = sorted(slot for slot in self._known() if slot == name or slot.partition("@")[0] == name)
        return there or [self.ensure(name, 0)]

    def withdraw(self, name: str) -> None:
        """Ends a publication of the user's: nobody can borrow it from then on. Who has borrowed it keeps it. Raises NotFound
        for none of that name, PermissionDenied for another user's."""
        self.refresh()
        self._client._withdraw(name)  # pyright: ignore[reportPrivateUsage]

    def borrow(self, name: str, slots: Wanted | None = None) -> None:
        """Puts what is published under a name into slots, without a copy. It cannot be consumed, also when its publisher is
        gone; what is fed back to such a slot takes its place in this session only.

        slots: ["w"], or {"w": "mine"} for another name here. None: all, under their own names. Those of programs on several
            devices follow when they are needed.
        After a loss of the session slots are borrowed anew, as loaders are run anew, when a program names them.
        Raises NotFound where nothing of that name is published for this user, or not that slot.
        """
        wanted = None if slots is None else own_names(slots)
        self._again(lambda: self._borrow_all(name) if wanted is None else self._borrow_some(name, wanted))

    def _borrow_some(self, name: str, wanted: dict[str, str]) -> None:
        self._take(name, wanted)
        for own, theirs in wanted.items():
            self._loaders[own] = Borrowed(name, theirs)

    def _borrow_all(self, name: str) -> None:
        before = set(self._known())
        self._ask_for(name, {})
        self._borrowed.pop(name, None)
        self._borrowed[name] = set()
        self._asked = False
        published = {info.slot for info in self._list() if info.published}
        self._bound |= published - before
        self.version += 1
        for slot in sorted(published & set(self._loaders)):  # is it of these, or of others that it has?
            try:
                self._ask_for(name, {slot: slot})
            except NotFound:
                continue
            del self._loaders[slot]

    def _take(self, publication: str, wanted: Mapping[str, str]) -> None:
        """Borrows into slots, {name here: name there}, and learns of what type they are."""
        from ._proto.session import SlotsReply, SlotsRequest

        self._ask_for(publication, wanted)
        types: dict[str, TensorType | None] = dict.fromkeys(wanted)
        try:
            call = self._connection.request(methods.SESSION_SLOTS, SlotsRequest(list(wanted)).encode(), timeouts.resolve(None))
            types.update({info.slot: _type_of(info) for info in read_answer(SlotsReply, call.payload).slots})
        except OutOfRange:
            pass  # too many for one answer: the daemon alone knows
        self._there.update(types)
        self._bound.update(types)
        self.version += 1

    def _ask_for(self, publication: str, wanted: Mapping[str, str]) -> None:
        from ._proto.session import BorrowedSlot, BorrowRequest

        pairs = [BorrowedSlot(theirs, own) for own, theirs in wanted.items()]
        request = BorrowRequest(publication, pairs).encode()
        self._connection.ask(methods.SESSION_BORROW, request, timeouts.resolve(None))

    def _borrow_again(self, slot: str) -> str | None:
        """Looks for a slot in what was borrowed whole. None where it is there now; else why it is not."""
        why = ""
        for name in reversed(list(self._borrowed)):
            if slot.partition("@")[0] in self._borrowed[name]:
                continue
            try:
                self._take(name, {slot: slot})
                return None
            except NotFound as error:
                why += f"; {error.message}"
        return why

    # ---- programs ----

    def program(
        self,
        source: str | bytes,
        inputs: Iterable[str | Slot],
        *,
        outputs: Sequence[str] | None = None,
        feed_back: Mapping[str, str] | None = None,
        options: CompileOptions | None = None,
        cache: Any = None,
    ) -> Program:
        """Compiles a program, and gives its arguments and results names.

        inputs: a name or Slot for each argument. outputs: a name for each result; None: "out0", "out1", ...
        feed_back: which slots Program.advance() and run() put which outputs into: {output: slot}. None: an output that has
            an input's name goes back there.
        cache: pypjrt's; the daemon has one for everybody.
        Raises InvalidArgument where the names do not fit the program.
        """
        code = source.encode() if isinstance(source, str) else bytes(source)
        return self._add(Program(self, code, options, None, inputs, outputs, feed_back))

    def program_from_executable(
        self,
        executable: Executable,
        inputs: Iterable[str | Slot],
        *,
        outputs: Sequence[str] | None = None,
        feed_back: Mapping[str, str] | None = None,
    ) -> Program:
        """The same for a program that is compiled already. It is not compiled again after a loss of the session."""
        return self._add(Program(self, b"", None, executable, inputs, outputs, feed_back))

    def _add(self, program: Program) -> Program:
        self._programs.append(program)
        return program

    # ---- for programs ----

    def refresh(self) -> int:
        """Notices that the session began anew. Returns how often it did."""
        if self._closed:
            raise HandleClosed("the session is closed")
        generation = self._connection.generation
        if generation != self._generation:
            self._connection.say_if_lost()
            self._generation = generation
            self._there.clear()
            self._bound.clear()
            self._asked = self._too_many = False
            self.version += 1
        return generation

    def ensure(self, name: str, device_index: int, device_id: int | None = None) -> str:
        """Loads a slot unless it is there, to the device with that id; None: the home, or the client's device of that index.
        Returns the name that the daemon knows it by. Raises NotFound where it is not there and has no loader."""
        slot = device_slot(name, device_index)
        if slot in self._known() or self._too_many and self._ask(slot):
            return slot
        loader = self._loaders.get(name)
        if isinstance(loader, Borrowed):
            self._take(loader.publication, {slot: device_slot(loader.slot, device_index)})
            return slot
        if loader is None:
            if not self._too_many and self._ask(slot):  # somebody else has bound it
                return slot
            why = self._borrow_again(slot)
            if why is None:
                return slot
            lost = " (it was lost with the session, and has no loader)" if self._generation else ""
            raise NotFound(
                f"there is no slot {name!r}{lost}{why}",
                hint="pass it, or put it into the session with set_global(), bind() or feed_back()",
            )
        if device_id is not None:
            device = self._client.lookup_device(device_id)
        else:
            device = self._client.device(device_index) if device_index else self._client.home_device
        made = loader(device)
        if isinstance(made, Buffer):
            buffer: Buffer[Any] = made  # pyright: ignore[reportUnknownVariableType]
            self.feed_back({slot: (buffer,)})
        else:
            with self._client.buffer_from_host(made, device=device) as buffer:
                self.feed_back({slot: (buffer,)})
        return slot

    def type_of(self, slot: str) -> TensorType | None:
        """A slot's type, as far as it is known here."""
        return self._there.get(slot)

    def advanced(self, slots: Iterable[tuple[str, TensorType]]) -> None:
        """A program has put buffers into these slots."""
        for slot, type in slots:
            self._there[slot] = type
            self._bound.add(slot)

    def _known(self) -> dict[str, TensorType | None]:
        """The slots that are there."""
        if not self._asked:
            self._list()
        return self._there

    def _list(self) -> list[SlotInfo]:
        """Asks for all slots. None where they are too many for one answer: each is asked for when it is named, then."""
        from ._proto.session import SlotsReply

        self._asked = True
        try:
            call = self._connection.request(methods.SESSION_SLOTS, b"", timeouts.resolve(None))
        except OutOfRange:
            self._too_many = True
            return []
        infos = read_answer(SlotsReply, call.payload).slots
        self._there = {info.slot: _type_of(info) for info in infos if _is_there(info)}
        return infos

    def _ask(self, slot: str) -> bool:
        """Whether a slot is there now."""
        from ._proto.session import SlotsReply, SlotsRequest

        try:
            call = self._connection.request(methods.SESSION_SLOTS, SlotsRequest([slot]).encode(), timeouts.resolve(None))
        except NotFound:
            return False
        (info,) = read_answer(SlotsReply, call.payload).slots
        if not _is_there(info):
            return False
        self._there[slot] = _type_of(info)
        return True

    # ---- its life ----

    def end(self) -> None:
        """Ends the session in the daemon, with all that it holds, and closes the client."""
        self._closed = True
        self._client._end_session()  # pyright: ignore[reportPrivateUsage]

    def close(self) -> None:
        """Lets go of it: releases its programs and, unless the session is kept, the slots that were bound by it. A session
        that is kept goes on in the daemon. It may be called again."""
        if self._closed:
            return
        self._closed = True
        self.version += 1
        for program in self._programs:
            program.close()
        self._programs.clear()
        self._loaders.clear()
        self._borrowed.clear()
        if self._connection.kept is None and self._bound and self._connection.failure is None:
            try:
                self._connection.post(methods.SESSION_UNBIND, b"".join(map(wire_name, sorted(self._bound))), None)
            except FailedPrecondition:
                pass  # the session was closed
        self._bound.clear()
        self._there.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<pjrtd.Session{name} of {self._client.target}{' closed' if self._closed else ''}>"


def device_slot(name: str, device_index: int) -> str:
    """The name that the daemon knows a slot of a program's device by."""
    return f"{name}@{device_index}" if device_index else name


def _shards(value: Any) -> Sequence[Any]:
    """What goes to one device, or to several."""
    return value if isinstance(value, (list, tuple)) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _constant(data: Any) -> Loader:
    return lambda device: data


def _is_there(info: SlotInfo) -> bool:
    return info.state in (_READY, _PENDING)


def _type_of(info: SlotInfo) -> TensorType | None:
    from .dtype import by_code
    from .tensor_type import tensor_type

    dtype = None if info.type is None else by_code(info.type.dtype)
    return None if dtype is None or info.type is None else tensor_type(dtype, info.type.dims)
