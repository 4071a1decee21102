"""The client for asyncio: the same nouns, whose methods that may wait are coroutines.

    from pjrtd import aio

    async with await aio.Client.create() as client:
        exe = await client.compile(stablehlo_text)
        (out,) = await exe([1.0, 2.0, 3.0])
        print(await out.tolist())

Each object wraps one of the package's own (`sync`), and both may be used. What only sends a small request does so in the
loop's thread, without waiting; what waits for an answer is a future, which one thread of the package sees to for all
(watcher.py); what may take long before it is sent (connecting, compiling, arrays of the host) runs in the loop's default
executor. Calls that are awaited one after the other are admitted in that order; those of tasks that run beside each other
in any. Cancelling a task asks the daemon to cancel its call. pjrtd.deadline() holds in tasks, too.
"""

from __future__ import annotations

from asyncio import to_thread

from . import timeouts
from .buffer import Buffer as SyncBuffer
from .client import Client as SyncClient
from .errors import InvalidArgument
from .slot import Slot
from .value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from .compile_options import CompileOptions
    from .connection import Connection
    from .device import Device, Devices
    from .executable import Executable as SyncExecutable
    from .named_program import Program as SyncProgram
    from .publication import Publication, Wanted
    from .session import Session as SyncSession
    from .tensor_type import TensorType

__all__ = ["Buffer", "Client", "Executable", "Program", "Session", "Slot", "Value"]


def _connection(client: SyncClient) -> Connection:
    return client._connection  # pyright: ignore[reportPrivateUsage]


async def _make_room(client: SyncClient) -> None:
    """Waits while as much is under way as may be."""
    connection = _connection(client)
    if connection.is_crowded or connection.table.failure is not None:
        await to_thread(connection.make_room)


class Client:
    """pjrtd.Client for asyncio."""

    def __init__(self, sync: SyncClient) -> None:
        """Client.create() is the way to make one."""
        self.sync_client = sync

    @classmethod
    async def create(cls, target: Any = None, **options: Any) -> Client:
        """Connects; the arguments are pjrtd.Client.create's."""
        return cls(await to_thread(SyncClient.create, target, **options))

    @property
    def target(self) -> str:
        return self.sync_client.target

    @property
    def closed(self) -> bool:
        return self.sync_client.closed

    async def devices(self) -> Devices:
        return await to_thread(self.sync_client.devices)

    async def stats(self) -> dict[str, Any]:
        return await to_thread(self.sync_client.stats)

    async def buffer_from_host(
        self, data: Any, element_type: Any = None, dims: Sequence[int] | None = None, device: Device | int | None = None
    ) -> Buffer:
        """Copies an array to a device. All of it has been sent or copied when this returns."""
        return Buffer(await to_thread(self.sync_client.buffer_from_host, data, element_type, dims, device))

    async def compile(self, program: str | bytes, *, options: CompileOptions | None = None) -> Executable:
        return Executable(await to_thread(self.sync_client.compile, program, options=options))

    async def session(self, name: str | None = None, **options: Any) -> Session:
        """Takes part in a session; the arguments are pjrtd.Client.session's."""
        return Session(await to_thread(self.sync_client.session, name, **options))

    async def published(self) -> list[Publication]:
        return await to_thread(self.sync_client.published)

    async def sync(self) -> None:
        """Waits until everything that was asked for has ended. Raises the first failure that nobody was told of."""
        await to_thread(self.sync_client.sync)

    async def close(self) -> None:
        await to_thread(self.sync_client.close)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<pjrtd.aio.Client of {self.target}{' closed' if self.closed else ''}>"


class Buffer:
    """pjrtd.Buffer for asyncio."""

    def __init__(self, sync: SyncBuffer[Any]) -> None:
        self.sync_buffer = sync

    @property
    def type(self) -> TensorType:
        return self.sync_buffer.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sync_buffer.shape

    @property
    def dtype(self) -> Any:
        return self.sync_buffer.dtype

    @property
    def nbytes(self) -> int:
        return self.sync_buffer.nbytes

    async def to_host(self, out: Any = None) -> Any:
        """Copies the data to the host, into `out` where it is given, and returns it."""
        buffer = self.sync_buffer
        await _make_room(buffer.client)
        return await buffer._start_to_host(out, timeouts.resolve(None), False)  # pyright: ignore[reportPrivateUsage]

    async def _value(self) -> Value:
        return Value(self.type, await self.to_host())

    async def numpy(self) -> Any:
        return (await self._value()).numpy()

    async def tolist(self) -> Any:
        return (await self._value()).tolist()

    async def item(self) -> Any:
        return (await self._value()).item()

    async def block_until_ready(self) -> Buffer:
        await to_thread(self.sync_buffer.block_until_ready)
        return self

    def close(self) -> None:
        """Frees it on the device. It does not wait."""
        self.sync_buffer.close()

    def __repr__(self) -> str:
        return f"<pjrtd.aio {self.sync_buffer!r}>"


def _is_small(argument: Any) -> bool:
    """Whether it takes no time to send it."""
    return isinstance(argument, (SyncBuffer, Slot, bool, int, float, complex))


def _plain(argument: Any) -> Any:
    return argument.sync_buffer if isinstance(argument, Buffer) else argument


def _wrapped(result: Any) -> Any:
    """Buffers for asyncio in place of the package's own."""
    if isinstance(result, SyncBuffer):
        return Buffer(result)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(result, tuple):
        return tuple([_wrapped(each) for each in result])  # pyright: ignore[reportUnknownVariableType]
    if isinstance(result, list):
        return [_wrapped(each) for each in result]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(result, dict):
        return {name: _wrapped(each) for name, each in result.items()}  # pyright: ignore[reportUnknownVariableType]
    return result


class Executable:
    """pjrtd.Executable for asyncio."""

    def __init__(self, sync: SyncExecutable) -> None:
        self.sync_executable = sync

    @property
    def client(self) -> SyncClient:
        return self.sync_executable.client

    async def __call__(self, *arguments: Any, fetch: bool | Sequence[int] = False, non_donatable: Sequence[int] = ()) -> Any:
        """Runs it, and returns its results when it has run: buffers, and Values at the positions that `fetch` names. Raises
        what it failed with."""
        plain = [_plain(argument) for argument in arguments]
        exe = self.sync_executable
        if exe.addressable_device_count != 1:
            raise InvalidArgument(f"{exe.name} runs on {exe.addressable_device_count} devices", hint="use sync_executable")
        await _make_room(self.client)
        start = exe._submit  # pyright: ignore[reportPrivateUsage]
        until = timeouts.resolve(None)
        if all(map(_is_small, plain)):
            return _wrapped(await start(plain, fetch, non_donatable, until, False))
        return _wrapped(await (await to_thread(start, plain, fetch, non_donatable, until, True)))

    def close(self) -> None:
        """Releases the program. It does not wait."""
        self.sync_executable.close()

    def __repr__(self) -> str:
        return f"<pjrtd.aio {self.sync_executable!r}>"


class Session:
    """pjrtd.Session for asyncio."""

    def __init__(self, sync: SyncSession) -> None:
        self.sync_session = sync

    @property
    def name(self) -> str:
        return self.sync_session.name

    @property
    def token(self) -> str:
        return self.sync_session.token

    @property
    def home(self) -> Device:
        return self.sync_session.home

    async def configure(self, *, home: Device | int | None = None, priority: str | None = None) -> None:
        """Changes pjrtd.Session's `home` and `priority` where they are given."""
        if home is not None:
            await to_thread(setattr, self.sync_session, "home", home)
        if priority is not None:
            await to_thread(setattr, self.sync_session, "priority", priority)

    def bind(self, name: str, loader: Any) -> None:
        """As in pjrtd.Session; the loader runs in a thread."""
        self.sync_session.bind(name, loader)

    def bind_many(self, loaders: Mapping[str, Any]) -> None:
        self.sync_session.bind_many(loaders)

    async def set_global(self, name: str, buffer: Buffer) -> None:
        await to_thread(self.sync_session.set_global, name, buffer.sync_buffer)

    async def feed_back(self, mapping: Mapping[str, Buffer]) -> None:
        await to_thread(self.sync_session.feed_back, {name: buffer.sync_buffer for name, buffer in mapping.items()})

    async def buffer(self, name: str, device_index: int = 0) -> Buffer:
        return Buffer(await to_thread(self.sync_session.buffer, name, device_index))

    async def unbind(self, *names: str) -> None:
        await to_thread(self.sync_session.unbind, *names)

    async def publish(
        self, name: str, slots: Sequence[str] | None = None, *, everybody: bool = False, uids: Sequence[int] = ()
    ) -> None:
        """As in pjrtd.Session, and so the next two."""
        await to_thread(self.sync_session.publish, name, slots, everybody=everybody, uids=uids)

    async def withdraw(self, name: str) -> None:
        await to_thread(self.sync_session.withdraw, name)

    async def borrow(self, name: str, slots: Wanted | None = None) -> None:
        await to_thread(self.sync_session.borrow, name, slots)

    async def program(self, source: str | bytes, inputs: Any, **options: Any) -> Program:
        """The arguments are pjrtd.Session.program's."""
        return Program(await to_thread(self.sync_session.program, source, inputs, **options))

    async def close(self) -> None:
        await to_thread(self.sync_session.close)

    async def end(self) -> None:
        """Ends the session in the daemon, and closes the client."""
        await to_thread(self.sync_session.end)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Program:
    """A session's program, for asyncio. Each step is awaited until it has run; see pjrtd.session.Program."""

    def __init__(self, sync: SyncProgram) -> None:
        self.sync_program = sync

    async def __call__(self, *, fetch: Sequence[str] = (), **inputs: Any) -> Any:
        return await self._run(fetch, False, inputs)

    async def advance(self, *, fetch: Sequence[str] = (), **inputs: Any) -> Any:
        return await self._run(fetch, True, inputs)

    async def _run(self, fetch: Sequence[str], advance: bool, inputs: Mapping[str, Any]) -> Any:
        program = self.sync_program
        row = {name: _plain(value) for name, value in inputs.items()}

        def submit() -> Any:  # slots may have to be loaded
            return program.submit([row], fetch=fetch, advance=advance)

        return _wrapped(await (await to_thread(submit)))
