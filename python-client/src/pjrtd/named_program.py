"""Programs whose arguments and results have names, and whose arguments may be a session's slots."""

from __future__ import annotations

from . import timeouts
from ._proto import methods
from ._proto.wire import varint
from .buffer import Buffer, Placement
from .errors import FailedPrecondition, HandleClosed, InvalidArgument, SessionLost
from .outbox import ExecutePlan
from .slot import Slot, feed_argument_field, feed_back_field, slot_argument, wire_name
from .tensor_type import same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Union

    from .compile_options import CompileOptions
    from .executable import Executable
    from .future import Future
    from .run import Run
    from .session import Session
    from .tensor_type import TensorType

    Row = dict[str, Buffer[Any]]
    #: By name; for a program on several devices a list of that, one for each.
    Results = Union[Row, list[Row]]


#: How often a run says how far it is, where that is shown.
PROGRESS_NS = 100_000_000


def stacked_steps(arguments: Sequence[Any]) -> int:
    """How many steps stacked arguments are for."""
    from .executable import Stacked

    return min((each.buffer.type.dims[0] for each in arguments if isinstance(each, Stacked)), default=0)


class Program:
    """A program of a session: Session.program() makes it.

        outputs = step(x=batch)          {name: buffer}, at once; other inputs are the session's slots of their names
        outputs = step.advance(x=batch)  the same, and puts outputs back into slots, in the same request

    Inputs are buffers, or arrays and numbers of the host. On several devices both take and give a list with a dict for each.
    An input that is not given and has no slot is loaded by the session's loader; without one NotFound names it. Slots of
    the second device and further ones have names that end in "@1", "@2", ...
    """

    def __init__(
        self,
        session: Session,
        code: bytes,
        options: CompileOptions | None,
        executable: Executable | None,
        inputs: Iterable[str | Slot],
        outputs: Sequence[str] | None,
        feed_back: Mapping[str, str] | None,
    ) -> None:
        self.session = session
        self.inputs = [each if isinstance(each, Slot) else Slot(each) for each in inputs]
        self._code = code
        self._options = options
        self._connection = session.client._connection  # pyright: ignore[reportPrivateUsage]
        self._compiled = executable is None
        self._executable = self._compile() if executable is None else executable
        self._generation = self._connection.generation
        count = self._executable.num_outputs
        self.outputs = [f"out{at}" for at in range(count)] if outputs is None else list(outputs)
        try:
            self._check_names()
            names = {slot.name for slot in self.inputs}
            wanted = {name: name for name in self.outputs if name in names} if feed_back is None else dict(feed_back)
            for name in wanted:
                if name not in self.outputs:
                    raise InvalidArgument(f"feed_back: there is no output {name!r}", hint=f"there are {self.outputs}")
                wire_name(wanted[name])
            #: {output: slot}: what advance() and run() put where.
            self.fed_back = wanted
            self._plan_anew()
        except BaseException:
            self.close()
            raise

    def _check_names(self) -> None:
        exe = self._executable
        if len(self.inputs) != exe.num_arguments:
            raise InvalidArgument(f"{len(self.inputs)} input name(s) for a program with {exe.num_arguments} argument(s)")
        if len(self.outputs) != exe.num_outputs:
            raise InvalidArgument(f"{len(self.outputs)} output name(s) for a program with {exe.num_outputs} output(s)")
        if len(set(self.outputs)) != len(self.outputs):
            raise InvalidArgument(f"two outputs have one name: {self.outputs}")
        for at, (slot, argument) in enumerate(zip(self.inputs, exe.arguments)):
            slot.check(argument.type, at)

    def _compile(self) -> Executable:
        return self.session.client.compile(self._code, options=self._options)

    def _plan_anew(self) -> None:
        """What requests to run the program have in common."""
        exe = self._executable
        devices, count = exe.addressable_device_count, len(self.outputs)
        self._num_devices = devices
        self._num_args = devices * len(self.inputs)
        self._no_ids = b"\x00" * self._num_args
        self._version = -1  # of the session, when _fields was made
        self._fields = b""
        from .session import device_slot

        fed: list[tuple[int, str]] = [
            (device * count + self.outputs.index(output), device_slot(slot, device))
            for device in range(devices)
            for output, slot in self.fed_back.items()
        ]
        fed.sort()
        self._feed_fields = b"".join([feed_back_field(at, wire_name(slot)) for at, slot in fed])
        self._fed_slots: list[tuple[str, TensorType]] = [(slot, exe.outputs[at % count].type) for at, slot in fed]
        places = dict(fed)
        self._all = range(devices * count)
        self._kept = [at for at in range(devices * count) if at not in places]
        id = exe._id  # pyright: ignore[reportPrivateUsage]
        self._plan = ExecutePlan(id, self._num_args, devices * count, None, self._num_args)  # of slots alone
        self._feed_plan = ExecutePlan(id, self._num_args, devices * count, [at not in places for at in range(devices * count)])
        self._step = b""  # the whole request of an advance() without inputs and without results

    # ---- what it is ----

    @property
    def executable(self) -> Executable:
        return self._ready()

    @property
    def donate_alias_count(self) -> int:
        """How many arguments the program may consume."""
        return sum(argument.donated for argument in self._executable.arguments)

    def __repr__(self) -> str:
        names = ", ".join(slot.name for slot in self.inputs)
        return f"<pjrtd.session.Program {self._executable.name} ({names}) -> ({', '.join(self.outputs)})>"

    # ---- running ----

    def __call__(self, device_inputs: Sequence[Mapping[str, Any]] | None = None, /, **inputs: Any) -> Any:
        """Runs it. Returns {name: buffer}, or with several devices a list of such. What its program donates is consumed,
        slots' buffers, too; see feed_back() and advance()."""
        until = timeouts.current.get()
        if not inputs and device_inputs is None and self._plan.num_outputs:
            connection = self._connection
            if self._fields and self._version == self.session.version and self._generation == connection.generation:  # as before
                try:
                    return self._named(connection.execute(self._plan, self._no_ids, self._fields, b"", until), self._all)
                except SessionLost:
                    pass
            ids = self._again(lambda: self._connection.execute(self._plan, self._no_ids, self._slot_fields(), b"", until))
            return self._named(ids, self._all)
        arguments = self._arguments(device_inputs, inputs)
        exe = self._executable
        results = exe._run(arguments, len(self.inputs), (), until)  # pyright: ignore[reportPrivateUsage]
        return self._rows(results)

    def advance(self, device_inputs: Sequence[Mapping[str, Any]] | None = None, /, **inputs: Any) -> Any:
        """Runs it, and puts the outputs that `fed_back` names into their slots, without a copy and in the same request.
        Returns the other outputs as __call__ does; an empty dict where there are none.

        The slot's value is the new one at once, for whatever comes next. Where the step fails, it has what it had before,
        unless the step consumed that; sync() tells."""
        until = timeouts.current.get()
        if self._step and not inputs and device_inputs is None and self._version == self.session.version:
            connection = self._connection
            if self._generation == connection.generation:  # as before
                try:
                    connection.post(methods.EXECUTE, self._step, until)
                    return {}
                except SessionLost:
                    pass
        if not self.fed_back:
            raise FailedPrecondition(
                f"no output of {self._executable.name} goes back into a slot", hint="name outputs after inputs, or pass feed_back="
            )
        if not inputs and device_inputs is None:
            if not self._kept:
                self._again(self._post_step)
                return {}
            ids = self._again(
                lambda: self._connection.execute(self._feed_plan, self._no_ids, self._slot_fields() + self._feed_fields, b"", until)
            )
        else:
            arguments = self._arguments(device_inputs, inputs)
            exe = self._executable
            prepared = exe._prepare(arguments, len(self.inputs), (), until)  # pyright: ignore[reportPrivateUsage]
            try:
                ids = self._connection.execute(
                    self._feed_plan, prepared.ids, prepared.fields + self._feed_fields, prepared.bulk, until
                )
                prepared.sent()
            finally:
                prepared.close()
        self.session.advanced(self._fed_slots)
        return self._named(ids, self._kept)

    def submit(
        self,
        device_inputs: Sequence[Mapping[str, Any]] | None = None,
        /,
        *,
        fetch: Sequence[str] = (),
        advance: bool = False,
        **inputs: Any,
    ) -> Future[Any]:
        """Runs it, and returns a future of what __call__ returns (with `advance`, of what advance() does), with Values in
        place of buffers for the outputs that `fetch` names, those that go back into slots among them.

        (An input that is named "fetch" or "advance" is given in the other form: submit([{...}]).)"""
        count = len(self.outputs)
        for name in fetch:
            if name not in self.outputs:
                raise InvalidArgument(f"fetch: there is no output {name!r}", hint=f"there are {self.outputs}")
        if isinstance(fetch, str):
            raise TypeError("fetch is a list of names")
        arguments = self._arguments(device_inputs, inputs)
        wanted = [device * count + at for device in range(self._num_devices) for at in range(count) if self.outputs[at] in fetch]
        keep = self._kept if advance else range(self._num_devices * count)
        fields = self._feed_fields if advance else b""
        future = self._executable._start(  # pyright: ignore[reportPrivateUsage]
            arguments, len(self.inputs), wanted, keep, fields, (), timeouts.resolve(None), True, self._by_name
        )
        if advance:
            self.session.advanced(self._fed_slots)
        return future

    def _by_name(self, results: list[Any]) -> Any:
        count = len(self.outputs)
        rows: list[dict[str, Any]] = [
            {name: results[device * count + at] for at, name in enumerate(self.outputs) if results[device * count + at] is not None}
            for device in range(self._num_devices)
        ]
        return rows[0] if self._num_devices == 1 else rows

    def run(
        self,
        steps: int = 0,
        *,
        fetch: Sequence[str] = (),
        every: int = 0,
        until: str | None = None,
        stacked: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        keep: Sequence[str] = (),
        progress: bool = False,
    ) -> Run:
        """Makes many steps in one call, next to the device: outputs are fed back as by advance(), to a slot, or to the
        argument where an input is given by value. It begins at once; iterate over the result, or wait() for it.

        steps: at most so many; 0: as many as `stacked` has.
        fetch: outputs whose values are told, up to 64 KiB of them a step; every: after each so many steps; 0: of the last
            only.
        until: an output of type pred[], the first device's: true ends the run after that step.
        stacked: {input: values of the steps}: a buffer, or an array of the host, with one dimension more in front. With
            several devices a list of them, one for each.
        inputs: other inputs that are no slots, as for __call__.
        keep: outputs whose values of the last step become buffers: Run.results. What goes back to arguments does anyway.
        progress: shows how far it is, on standard error, where that is a terminal.
        The deadline of a pjrtd.deadline() block is the whole run's.
        """
        from .executable import Stacked
        from .run import Run

        self._ready()
        exe, client = self._executable, self.session.client
        devices, num_inputs, count = self._num_devices, len(self.inputs), len(self.outputs)
        given: Any = [{} for _ in range(devices)] if inputs is None else [inputs] if hasattr(inputs, "items") else inputs
        rows: list[dict[str, Any]] = [dict(row) for row in given]
        per_step: list[int] = []
        temporary: list[Buffer[Any]] = []
        until_s = timeouts.resolve(None)
        try:
            for name, value in (stacked or {}).items():
                at = self._input(name)
                for device, part in enumerate(value if devices > 1 else [value]):
                    buffer = self._stacked(at, device, part, temporary)
                    rows[device][name] = Stacked(buffer)
                    per_step += [device * num_inputs + place for place in range(num_inputs) if self.inputs[place].name == name]
            arguments = self._arguments(rows, {})
            prepared = exe._prepare(arguments, num_inputs, (), until_s)  # pyright: ignore[reportPrivateUsage]
            try:
                fields, in_arguments = self._run_feeds(arguments)
                kept = sorted({*in_arguments, *(d * count + self._output(name) for d in range(devices) for name in keep)})
                wanted = sorted(d * count + self._output(name) for d in range(devices) for name in set(fetch))
                if wanted:
                    packed = b"".join(map(varint, wanted))
                    fields += b"\x22" + varint(len(packed)) + packed
                rest = b"\x10" + varint(steps) if steps else b""
                if per_step:
                    packed = b"".join(map(varint, sorted(per_step)))
                    rest += b"\x1a" + varint(len(packed)) + packed
                if until is not None:
                    rest += b"\x20" + varint(self._output(until))
                if every:
                    rest += b"\x28" + varint(every)
                if progress:
                    rest += b"\x30" + varint(PROGRESS_NS)
                id = exe._id  # pyright: ignore[reportPrivateUsage]
                plan = ExecutePlan(id, self._num_args, devices * count, [at in kept for at in range(devices * count)])
                call, ids = self._connection.start_run(
                    plan, prepared.ids, prepared.fields + fields, rest, prepared.bulk, until_s
                )
                prepared.sent()
            finally:
                prepared.close()
        except ValueError as error:
            raise InvalidArgument(f"run: {error}") from error
        finally:
            for buffer in temporary:
                buffer.close()
        self.session.advanced(self._fed_slots if not in_arguments else ())
        bar = None
        if progress:
            from .progress import ProgressBar

            bar = ProgressBar(exe.name, steps or (stacked_steps(arguments) if per_step else 0))
        names = self.outputs
        places = exe._results  # pyright: ignore[reportPrivateUsage]
        return Run(
            client, call, until_s, [(at, names[at % count]) for at in wanted], [(at, names[at % count]) for at in kept],
            ids, places, count, bar,
        )  # fmt: skip

    def _input(self, name: str) -> int:
        for at, slot in enumerate(self.inputs):
            if slot.name == name:
                return at
        raise InvalidArgument(f"there is no input {name!r}", hint=f"the program takes {[s.name for s in self.inputs]}")

    def _output(self, name: str) -> int:
        if name not in self.outputs:
            raise InvalidArgument(f"there is no output {name!r}", hint=f"there are {self.outputs}")
        return self.outputs.index(name)

    def _stacked(self, at: int, device: int, value: Any, temporary: list[Buffer[Any]]) -> Buffer[Any]:
        """The values of the steps for an argument, on its device."""
        place = self._executable._wanted[device * len(self.inputs) + at]  # pyright: ignore[reportPrivateUsage]
        assert isinstance(place, Placement)
        if isinstance(value, Buffer):
            buffer: Buffer[Any] = value  # pyright: ignore[reportUnknownVariableType]
        else:
            untyped = isinstance(value, (list, tuple))
            buffer = self.session.client.buffer_from_host(value, place.type.dtype if untyped else None, device=place.device)
            temporary.append(buffer)
        type = buffer.type
        if buffer.client is not self.session.client or type.dtype is not place.type.dtype or type.dims[1:] != place.type.dims or not type.dims:
            expected = f"{place.type.dtype.name}[steps{''.join(f',{dim}' for dim in place.type.dims)}]"
            raise self._executable._wrong(device * len(self.inputs) + at, len(self.inputs), expected, type)  # pyright: ignore
        return buffer

    def _run_feeds(self, arguments: Sequence[Any]) -> tuple[bytes, list[int]]:
        """What a run feeds back: to slots, and to the arguments of that name that are given by value. The fields, and the
        positions of the outputs that went to arguments."""
        from .session import device_slot

        fields = b""
        in_arguments: list[int] = []
        for device in range(self._num_devices):
            for output, name in self.fed_back.items():
                at = device * len(self.outputs) + self.outputs.index(output)
                given = [
                    device * len(self.inputs) + place
                    for place, slot in enumerate(self.inputs)
                    if slot.name == name and not isinstance(arguments[device * len(self.inputs) + place], Slot)
                ]
                if given:
                    fields += feed_argument_field(at, given[0])
                    in_arguments.append(at)
                else:
                    fields += feed_back_field(at, wire_name(device_slot(name, device)))
        return fields, in_arguments

    def _post_step(self) -> None:
        """The request of a step that takes slots and gives slots: the same bytes each time."""
        fields = self._slot_fields()
        if not self._step:
            self._step = self._plan.args_field(self._num_args) + self._no_ids + fields + self._feed_fields
            self.session.advanced(self._fed_slots)
        self._connection.post(methods.EXECUTE, self._step, timeouts.current.get())

    def _again(self, send: Callable[[], Any]) -> Any:
        """Sends a request about slots alone. Where the session is lost meanwhile, it is sent to the one that takes its
        place."""
        self._ready()
        try:
            return send()
        except SessionLost:
            self._ready()
            return send()

    def _ready(self) -> Executable:
        """The executable, compiled again where the session began anew."""
        generation = self.session.refresh()
        if generation != self._generation:
            if not self._compiled:
                raise HandleClosed(
                    "the session was lost, and this program with it: it was made from an executable",
                    hint="compile it with Session.program(), which does it again",
                )
            self._executable.close()
            self._executable = self._compile()
            self._generation = generation
            self._plan_anew()
        return self._executable

    def _slot_fields(self) -> bytes:
        """The fields that say that each argument is a slot, all of which are there."""
        session = self.session
        if self._version != session.version:
            fields: list[bytes] = []
            for device in range(self._num_devices):
                for at in range(len(self.inputs)):
                    fields.append(slot_argument(device * len(self.inputs) + at, wire_name(self._slot(at, device))))
            self._fields = b"".join(fields)
            self._version = session.version
            self._step = b""
        return self._fields

    def _slot(self, at: int, device: int) -> str:
        """The slot for an argument, loaded and of the right type."""
        slot = self.inputs[at]
        exe = self._executable
        place = exe._wanted[device * len(self.inputs) + at]  # pyright: ignore[reportPrivateUsage]
        name = self.session.ensure(slot.name, device, place.device if isinstance(place, Placement) else None)
        type, wanted = self.session.type_of(name), exe.arguments[at].type
        if type is not None and not same(type, wanted):
            raise exe._wrong(  # pyright: ignore[reportPrivateUsage]
                device * len(self.inputs) + at, len(self.inputs), wanted, f"slot {name!r}, {type}"
            )
        return name

    def _arguments(self, device_inputs: Sequence[Mapping[str, Any]] | None, inputs: Mapping[str, Any]) -> list[Any]:
        """Device-major: what is given by name, and slots for the rest."""
        self._ready()
        rows = [inputs] if device_inputs is None else device_inputs
        if device_inputs is not None and inputs:
            raise InvalidArgument("inputs are given by name, or as a list for the devices, and not both")
        if len(rows) != self._num_devices:
            raise InvalidArgument(
                f"{self._executable.name} runs on {self._num_devices} device(s) at a time, and got inputs for {len(rows)}",
                hint="pass a list with a dict for each: program([{...}, {...}])",
            )
        names = {slot.name for slot in self.inputs}
        arguments: list[Any] = []
        for device, given in enumerate(rows):
            unknown = sorted(set(given) - names)
            if unknown:
                raise InvalidArgument(f"unknown input(s) {unknown}", hint=f"the program takes {[s.name for s in self.inputs]}")
            for at, slot in enumerate(self.inputs):
                value = given.get(slot.name)
                arguments.append(Slot(self._slot(at, device)) if value is None else value)
        return arguments

    def _named(self, ids: list[bytes], positions: Sequence[int]) -> Any:
        """Buffers for outputs at these device-major positions, by name."""
        client, count = self.session.client, len(self.outputs)
        places = self._executable._results  # pyright: ignore[reportPrivateUsage]
        if len(ids) == 1 and self._num_devices == 1:
            return {self.outputs[positions[0]]: Buffer(client, ids[0], places[positions[0]])}  # pyright: ignore
        if self._num_devices == 1:
            return {self.outputs[at]: Buffer(client, id, places[at]) for id, at in zip(ids, positions)}  # pyright: ignore
        rows: list[Row] = [{} for _ in range(self._num_devices)]
        for id, at in zip(ids, positions):
            rows[at // count][self.outputs[at % count]] = Buffer(client, id, places[at])
        return rows

    def _rows(self, results: Sequence[Buffer[Any]]) -> Any:
        count = len(self.outputs)
        rows: list[Row] = [
            dict(zip(self.outputs, results[at * count : at * count + count])) for at in range(self._num_devices)
        ]
        return rows[0] if self._num_devices == 1 else rows

    # ---- its life ----

    def close(self) -> None:
        """Releases the program, unless it was made from an executable of the caller's. It may be called again."""
        if self._compiled:
            self._executable.close()
