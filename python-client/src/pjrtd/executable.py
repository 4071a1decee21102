"""Compiled programs."""

from __future__ import annotations

from . import timeouts
from ._proto import methods
from ._proto.wire import varint
from .buffer import Buffer, Placement
from .call import read_answer
from .dtype import DType, by_code
from .errors import ArgumentDetail, DataLoss, HandleClosed, InvalidArgument, Unimplemented
from .host_array import to_host_bytes
from .leaks import warn_leak
from .outbox import ExecutePlan
from .slot import Slot, slot_argument
from .tensor_type import TensorType, same, tensor_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Any

    from ._proto.program import ProgramDescription
    from ._proto.program import ProgramTensor as WireTensor
    from .client import Client
    from .device import Device
    from .future import Future


class ProgramTensor:
    """An argument or a result of a program, on one of its devices.

    type: a TensorType: `dtype`, `dims`, `nbytes`. memory_kind: "" where the plugin does not say.
    donated: an argument that the program may consume. unsupported: why it cannot be passed; "" where it can.
    """

    __slots__ = ("type", "memory_kind", "donated", "unsupported")

    def __init__(self, wire: WireTensor) -> None:
        dtype = None if wire.type is None else by_code(wire.type.dtype)
        if wire.type is not None and dtype is not None:
            self.type = tensor_type(dtype, wire.type.dims)
        elif wire.unsupported:
            self.type = tensor_type(DType.TOKEN, ())  # a tuple has no type of its own
        else:
            raise DataLoss("the daemon describes a program with a tensor without an element type")
        self.memory_kind = wire.memory_kind
        self.donated = wire.donated
        self.unsupported = wire.unsupported

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        return self.type.dims

    def __repr__(self) -> str:
        notes = [str(self.type)] if not self.unsupported else [f"unsupported: {self.unsupported}"]
        if self.memory_kind:
            notes.append(self.memory_kind)
        if self.donated:
            notes.append("donated")
        return f"<{' '.join(notes)}>"


class Stacked:
    """An argument of a run: a buffer with one dimension more in front, for the steps. It was checked."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer[Any]) -> None:
        self.buffer = buffer


class Prepared:
    """What an ExecuteRequest says about its arguments.

    ids: packed; 0 for what is no buffer. fields: inline_args, slot_args and non_donatable, encoded. bulk: values of inline
    arguments. consumed: buffers that the call may consume. temporary: uploaded for this call, and deleted after it.
    """

    __slots__ = ("ids", "fields", "bulk", "consumed", "temporary")

    def __init__(
        self, ids: bytes, fields: bytes, bulk: bytes, consumed: list[Buffer[Any]], temporary: list[Buffer[Any]]
    ) -> None:
        self.ids = ids
        self.fields = fields
        self.bulk = bulk
        self.consumed = consumed
        self.temporary = temporary

    def sent(self) -> None:
        """The call is under way: what it may consume is no longer surely there."""
        for buffer in self.consumed:
            buffer._mark_consumed()  # pyright: ignore[reportPrivateUsage]

    def close(self) -> None:
        for buffer in self.temporary:
            buffer.close()


class Executable:
    """A program that the daemon has compiled and loaded.

        (total, mean) = exe(a, b)      a tuple of buffers, at once: the program may still be running
        total.to_host()                waits for it, and raises what went wrong

    Arguments are buffers, slots of the session, or arrays and numbers of the host, which travel with the call; a Python
    number takes the type that the program wants, an array must have it. What can be checked here is: InvalidArgument names the
    argument, what was expected and what came. Everything else that fails shows when an output is used, or in
    Client.sync(). A program without results is waited for.

    Where the program donates an argument (JAX's donate_argnums), that buffer is consumed by the call.
    """

    __slots__ = (
        *("_client", "_connection", "_id", "_plan", "_wanted", "_results", "_num_devices", "_donated", "_is_special"),
        *("_inline", "_description", "arguments", "outputs", "compile_ns", "__weakref__"),
    )

    def __init__(self, client: Client, id: bytes, description: ProgramDescription, compile_ns: int) -> None:
        self._id = b""  # its maker gives it the id, and with it the duty to release the program
        self._client = client
        self._connection = client._connection  # pyright: ignore[reportPrivateUsage]
        self._description = description
        #: ProgramTensors, of one device.
        self.arguments = tuple(ProgramTensor(tensor) for tensor in description.args)
        self.outputs = tuple(ProgramTensor(tensor) for tensor in description.outputs)
        #: How long the daemon's compiler took; 0 where it had the same program already.
        self.compile_ns = compile_ns
        devices = tuple(description.devices)
        self._num_devices = len(devices)
        # Placements of arguments and results, device-major.
        self._wanted: list[object] = [self._place(tensor, number) for number in devices for tensor in self.arguments]
        self._results: list[Placement] = [self._place(tensor, number) for number in devices for tensor in self.outputs]
        self._plan = ExecutePlan(id, len(self._wanted), len(self._results))
        count = len(self.arguments)
        self._donated = [
            device * count + at
            for device in range(self._num_devices)
            for at, tensor in enumerate(self.arguments)
            if tensor.donated
        ]
        self._is_special = bool(self._donated) or not self._results
        self._inline: dict[int, bytes] = {}

    def _place(self, tensor: ProgramTensor, device: int) -> Placement:
        memory = self._client._memory_of_kind(device, tensor.memory_kind)  # pyright: ignore[reportPrivateUsage]
        return self._client._placement(tensor.type, device, memory)  # pyright: ignore[reportPrivateUsage]

    # ---- running ----

    def __call__(
        self, *arguments: Any, non_donatable: Sequence[int] = (), timeout: float | None = None
    ) -> tuple[Buffer[Any], ...]:
        """Runs it on its one device. Returns its results, in order.

        non_donatable: positions that must not be consumed though the program donates them.
        timeout: seconds until the results, unless there by then, fail with DeadlineExceeded.
        """
        until = timeouts.current.get() if timeout is None else timeouts.resolve(timeout)
        try:
            # The placements are objects of this client, so these are live buffers of it, of the right types.
            if [argument._live for argument in arguments] == self._wanted and not self._is_special and not non_donatable:
                ids = self._connection.execute(self._plan, b"".join([a._id for a in arguments]), b"", b"", until)
                if len(ids) == 1:
                    return (Buffer(self._client, ids[0], self._results[0]),)
                client = self._client
                return tuple([Buffer(client, id, place) for id, place in zip(ids, self._results)])
        except AttributeError:
            pass
        if self._num_devices != 1 and self._id:
            raise InvalidArgument(
                f"{self.name} runs on {self._num_devices} devices at a time",
                hint="pass one row of arguments for each with execute_sharded([[...], [...]])",
            )
        return self._run(arguments, len(arguments), non_donatable, until)

    def execute_sharded(
        self,
        arguments: Sequence[Sequence[Any]],
        *,
        launch_id: int = 0,
        non_donatable: Sequence[int] = (),
        context: None = None,
        timeout: float | None = None,
    ) -> list[tuple[Buffer[Any], ...]]:
        """Runs it on all of its devices: arguments[device][argument]. Returns results[device][result].

        launch_id tells hosts of a multi-host run apart, and has no effect within one daemon.
        context: execution contexts are not served; anything but None raises Unimplemented.
        """
        if context is not None:
            raise Unimplemented("an execution context cannot be passed to a daemon")
        until = timeouts.resolve(timeout)
        if self._id and len(arguments) != self._num_devices:
            raise InvalidArgument(
                f"{self.name} expects {self._num_devices} device(s) per launch, got {len(arguments)} row(s)",
                hint=f"it was compiled with num_replicas={self.num_replicas}, num_partitions={self.num_partitions}",
            )
        for device, row in enumerate(arguments):
            if len(row) != len(arguments[0]):
                raise InvalidArgument(
                    f"device {device} gets {len(row)} argument(s), and the first {len(arguments[0])}",
                    hint="every device gets the same number of arguments",
                )
        flat = [argument for row in arguments for argument in row]
        results = self._run(flat, len(arguments[0]) if arguments else 0, non_donatable, until)
        count = len(self.outputs)
        return [results[device * count : device * count + count] for device in range(self._num_devices)]

    def _run(
        self, arguments: Sequence[Any], count: int, non_donatable: Sequence[int], until: float | None
    ) -> tuple[Buffer[Any], ...]:
        """The general case. `arguments` are device-major, `count` of each device."""
        prepared = self._prepare(arguments, count, non_donatable, until)
        try:
            results: tuple[Buffer[Any], ...] = ()
            if self._results:
                made = self._connection.execute(self._plan, prepared.ids, prepared.fields, prepared.bulk, until)
                results = tuple([Buffer(self._client, id, place) for id, place in zip(made, self._results)])
            else:
                request = self._plan.args_field(len(prepared.ids)) + prepared.ids + prepared.fields
                self._connection.request(methods.EXECUTE, request, until, prepared.bulk)
            prepared.sent()
            return results
        finally:
            prepared.close()

    def submit(
        self,
        *arguments: Any,
        fetch: bool | Sequence[int] = False,
        non_donatable: Sequence[int] = (),
        timeout: float | None = None,
    ) -> Future[tuple[Any, ...]]:
        """Runs it on its one device, and returns a future of its results: done when the program has run, failed where it
        failed. Hundreds may be under way; they are admitted in the order of the calls.

        fetch: positions of results whose values are wanted, rather than buffers: they come with the answer, as Values;
            True: all.
        timeout: seconds until the call, unless it is done by then, fails with DeadlineExceeded.
        """
        if self._num_devices != 1 and self._id:
            raise InvalidArgument(f"{self.name} runs on {self._num_devices} devices at a time", hint="use execute_sharded")
        return self._submit(arguments, fetch, non_donatable, timeouts.resolve(timeout), True)

    def _submit(
        self, arguments: Sequence[Any], fetch: bool | Sequence[int], non_donatable: Sequence[int], until: float | None, wait: bool
    ) -> Future[tuple[Any, ...]]:
        count = len(self.outputs)
        wanted = range(count) if fetch is True else () if fetch is False else fetch
        for at in wanted:
            if not 0 <= at < count:
                raise InvalidArgument(f"fetch: {self.name} has no result {at}")
        return self._start(arguments, len(arguments), wanted, range(count), b"", non_donatable, until, wait, tuple)

    def _start(
        self,
        arguments: Sequence[Any],
        count: int,
        fetch: Sequence[int],
        keep: Sequence[int],
        fields: bytes,
        non_donatable: Sequence[int],
        until: float | None,
        wait: bool,
        shape: Callable[[list[Any]], Any],
    ) -> Future[Any]:
        """Runs it for an answer. fetch, keep: device-major positions of results that are wanted as values, and as buffers
        unless as values. fields: more of the request. shape: makes the future's result of the results by position."""
        from .future import Future
        from .submitted import Submitted

        connection = self._connection
        prepared = self._prepare(arguments, count, non_donatable, until)
        try:
            room = connection.max_inline_bytes
            inline: list[int] = []
            apart: list[int] = []
            for at in sorted(set(fetch)):
                size = self._results[at].type.nbytes
                (inline if size <= room else apart).append(at)
                room -= size if size <= room else 0
            # Where an answer may be lost with its connection, its values must be there to be asked for again.
            named = {*keep, *apart, *(inline if connection.table.resumes else ())}
            if not connection.table.resumes:
                named -= set(inline)
            packed = b"".join(map(varint, inline))
            fields += prepared.fields + (b"\x22" + varint(len(packed)) + packed if inline else b"")
            kept = [at in named for at in range(len(self._results))]
            plan = ExecutePlan(self._id, len(self._wanted), len(self._results), kept)
            submitted = Submitted(self._client, self._results, inline, apart)
            call, ids = connection.start_execute(plan, prepared.ids, fields, prepared.bulk, until, wait)
            submitted.made(sorted(named), ids)
            prepared.sent()
            calls = [call, *submitted.downloads(until, wait)]
            return Future(connection, calls, lambda calls: shape(submitted.finish(calls)), submitted.after_loss)
        finally:
            prepared.close()

    def _prepare(
        self, arguments: Sequence[Any], count: int, non_donatable: Sequence[int], until: float | None
    ) -> Prepared:
        """Checks arguments and uploads what does not fit into the request. The caller closes the result."""
        if not self._id:
            raise HandleClosed("the program is closed")
        wanted = len(self.arguments)
        if count != wanted:
            raise InvalidArgument(
                f"{self.name}: supplied {count} arguments, expected {wanted}",
                hint=f"it takes ({', '.join(str(tensor.type) for tensor in self.arguments)}); "
                "a framework may have dropped unused ones",
                argument=ArgumentDetail(min(count, wanted), f"{wanted} arguments", f"{count} arguments"),
            )
        kept = sorted(set(non_donatable))
        for at in kept:
            if not 0 <= at < wanted:
                raise InvalidArgument(f"non_donatable: {self.name} has no argument {at}")
        donated = [at for at in self._donated if at % wanted not in kept] if kept else self._donated
        ids: list[bytes] = []
        inline: list[tuple[int, TensorType, bytes | memoryview]] = []
        slots: list[bytes] = []
        temporary: list[Buffer[Any]] = []
        room = self._connection.max_inline_bytes
        try:
            for at, argument in enumerate(arguments):
                place = self._wanted[at]
                assert isinstance(place, Placement)
                if isinstance(argument, Stacked):
                    ids.append(argument.buffer._id)  # pyright: ignore[reportPrivateUsage]
                    continue
                if isinstance(argument, Slot):
                    slots.append(slot_argument(at, argument.wire))
                    ids.append(b"\x00")
                    continue
                if isinstance(argument, Buffer):
                    buffer: Buffer[Any] = argument  # pyright: ignore[reportUnknownVariableType]
                    if buffer._live is not place:  # pyright: ignore[reportPrivateUsage]
                        self._check_buffer(buffer, at, count, place)
                else:
                    type, content = self._host_argument(argument, at, count, place)
                    if len(content) <= room:
                        room -= len(content)
                        inline.append((at, type, content))
                        ids.append(b"\x00")
                        continue
                    buffer = self._client._upload(type, content, place, until)  # pyright: ignore[reportPrivateUsage]
                    temporary.append(buffer)
                ids.append(buffer._id)  # pyright: ignore[reportPrivateUsage]
            self._check_donations(donated, ids, count)
            fields = b"".join([self._inline_field(at, type) for at, type, _ in inline] + slots)
            if kept:
                packed = b"".join(map(varint, kept))
                fields += b"\x42" + varint(len(packed)) + packed
            bulk = b"".join([content for _, _, content in inline])
            consumed: list[Buffer[Any]] = [arguments[at] for at in donated if isinstance(arguments[at], Buffer)]
            return Prepared(b"".join(ids), fields, bulk, consumed, temporary)
        except BaseException:
            for buffer in temporary:
                buffer.close()
            raise

    def _inline_field(self, at: int, type: TensorType) -> bytes:
        """The inline_args field of an ExecuteRequest for an argument by value."""
        found = self._inline.get(at)
        if found is None:
            message = (b"\x08" + varint(at) if at else b"") + b"\x12" + type.wire
            if type.nbytes:
                message += b"\x18" + varint(type.nbytes)
            found = self._inline[at] = b"\x2a" + varint(len(message)) + message
        return found

    def _wrong(self, at: int, count: int, expected: object, actual: object, hint: str = "") -> InvalidArgument:
        """The error about an argument; `at` is its device-major position."""
        index = at % count
        where = f" of device {self._description.devices[at // count]}" if self._num_devices > 1 else ""
        return InvalidArgument(
            f"{self.name}: argument {index}{where} must be {expected}, and is {actual}",
            hint=hint,
            argument=ArgumentDetail(index, str(expected), str(actual)),
        )

    def _check_buffer(self, buffer: Buffer[Any], at: int, count: int, place: Placement) -> None:
        """Raises what is wrong with a buffer that is not at once seen to fit."""
        if buffer._client is not self._client:  # pyright: ignore[reportPrivateUsage]
            raise self._wrong(at, count, "a buffer of the same client", "one of another", "take its data with to_host()")
        tensor = self.arguments[at % count]
        if tensor.unsupported:
            raise self._wrong(at, count, "absent", "a buffer", f"it cannot be passed: {tensor.unsupported}")
        if not buffer._id:  # pyright: ignore[reportPrivateUsage]
            detail = ArgumentDetail(at % count, str(place.type), "a closed buffer")
            raise HandleClosed(f"{self.name}: argument {at % count} is a closed buffer", argument=detail)
        if buffer._live is None and buffer._was_consumed():  # pyright: ignore[reportPrivateUsage]
            detail = ArgumentDetail(at % count, str(place.type), "a donated buffer")
            raise HandleClosed(
                f"{self.name}: argument {at % count} was donated to an earlier call, which consumed it",
                hint="use that call's result, or compile without the donation",
                argument=detail,
            )
        have = buffer._placement  # pyright: ignore[reportPrivateUsage]
        if not same(have.type, place.type):
            raise self._wrong(at, count, place.type, have.type)
        if have.device != place.device:
            raise self._wrong(at, count, f"on device {place.device}", f"on device {have.device}")
        # Another memory space: the plugin decides.

    def _host_argument(self, data: Any, at: int, count: int, place: Placement) -> tuple[TensorType, bytes | memoryview]:
        tensor = self.arguments[at % count]
        kind: type[Any] = type(data)  # pyright: ignore[reportUnknownVariableType]
        if tensor.unsupported:
            raise self._wrong(at, count, "absent", kind.__name__, f"it cannot be passed: {tensor.unsupported}")
        try:
            # What has no element type of its own takes the one that is wanted.
            untyped = issubclass(kind, (bool, int, float, complex, list, tuple, bytes, bytearray))
            found, content = to_host_bytes(data, place.type.dtype if untyped else None)
        except (InvalidArgument, TypeError) as error:
            raise self._wrong(at, count, place.type, f"a {kind.__name__}: {error}") from error
        if not same(found, place.type):
            raise self._wrong(at, count, place.type, found)
        return found, content

    def _check_donations(self, donated: list[int], ids: list[bytes], count: int) -> None:
        for at in donated:
            if ids[at] != b"\x00" and ids.count(ids[at]) > 1:
                other = next(i for i, id in enumerate(ids) if id == ids[at] and i != at)
                raise InvalidArgument(
                    f"{self.name}: argument {at % count} is donated, and the same buffer is argument {other % count} too",
                    hint="pass a copy as one of them",
                    argument=ArgumentDetail(at % count, "a buffer that is passed once", f"also argument {other % count}"),
                )

    def _call_unchecked(self, *buffers: Buffer[Any]) -> None:
        """Runs it with buffers as they are, keeping no results, and waits: the daemon's own checks alone decide."""
        packed = b"".join(buffer._id for buffer in buffers)  # pyright: ignore[reportPrivateUsage]
        request = self._plan.args_field(len(packed)) + packed
        self._connection.request(methods.EXECUTE, request, timeouts.resolve(None))

    # ---- what it is ----

    @property
    def client(self) -> Client:
        return self._client

    @property
    def name(self) -> str:
        return self._description.name or "the program"

    @property
    def num_arguments(self) -> int:
        return len(self.arguments)

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    @property
    def num_replicas(self) -> int:
        return self._description.num_replicas

    @property
    def num_partitions(self) -> int:
        return self._description.num_partitions

    @property
    def addressable_device_count(self) -> int:
        """How many devices a launch takes: rows of execute_sharded."""
        return self._num_devices

    def addressable_devices(self) -> list[Device]:
        """Its devices, in the order of execute_sharded's rows."""
        return [self._client.lookup_device(number) for number in self._description.devices]

    def device_assignment(self) -> list[tuple[int, int]]:
        """(replica, partition) of each device, in the same order."""
        partitions = max(1, self.num_partitions)
        return [(at // partitions, at % partitions) for at in range(self._num_devices)]

    def output_types(self) -> list[int]:
        """The results' element types."""
        return [tensor.type.dtype for tensor in self.outputs]

    def output_memory_kinds(self) -> list[str]:
        return [tensor.memory_kind for tensor in self.outputs]

    def parameter_memory_kinds(self) -> list[str]:
        return [tensor.memory_kind for tensor in self.arguments]

    def fingerprint(self) -> bytes:
        """The plugin's own; the same program under other options may have the same."""
        return bytes.fromhex(self._description.fingerprint)

    @property
    def code_size_bytes(self) -> int:
        return self._description.generated_code_bytes

    @property
    def straight_line(self) -> bool:
        """Whether its time cannot depend on data: no loop, no call to the host, no collective."""
        return self._description.straight_line

    def __repr__(self) -> str:
        takes = ", ".join(str(tensor.type) for tensor in self.arguments)
        gives = ", ".join(str(tensor.type) for tensor in self.outputs)
        state = "" if not self.is_deleted else " closed"
        return f"<pjrtd.Executable {self.name} ({takes}) -> ({gives}){state}>"

    # ---- its life ----

    @property
    def is_deleted(self) -> bool:
        return not self._id or self._client.closed

    def close(self) -> None:
        """Releases the program. Calls under way finish. It may be called again."""
        id, self._id = self._id, b""
        self._wanted = [None] * (len(self._wanted) + 1)  # matches no arguments
        if id:
            self._connection.discard_program(id)  # pyright: ignore[reportPrivateUsage]

    def __enter__(self) -> Executable:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            if self._id and not self._client.closed:
                warn_leak("a pjrtd.Executable was never closed", self)
                self.close()
        except (AttributeError, TypeError):
            pass  # __init__ did not run, or the interpreter is going down

    def __reduce__(self) -> Any:
        raise TypeError("a program lives in the daemon and cannot be pickled")


def read_compile_reply(client: Client, id: bytes, payload: bytes) -> Executable:
    from ._proto.program import CompileReply

    reply = read_answer(CompileReply, payload)
    if reply.description is None:
        raise DataLoss("the daemon compiled a program and does not describe it")
    return Executable(client, id, reply.description, reply.compile_ns)
