"""Device buffers."""

from __future__ import annotations

from . import timeouts
from ._proto import methods
from .dtype import as_dtype
from .errors import HandleClosed, InvalidArgument
from .leaks import warn_leak
from .readable import Readable, writable
from .tensor_type import TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Generic

    from ._proto.buffer import StatReply
    from .call import Call
    from .client import Client
    from .device import Device
    from .future import Future
    from .memory import Memory
    from .typing import DT

    class _Typed(Generic[DT]):
        pass
else:  # the typing module would cost more time to import than this package

    class _Typed:
        __slots__ = ()

        def __class_getitem__(cls, item):
            return cls

    DT = None


class Placement:
    """A type and where it is: what a buffer is, and what a program wants of an argument. A client has one object for
    each, so buffers are compared with programs by identity."""

    __slots__ = ("type", "device", "memory")

    def __init__(self, type: TensorType, device: int, memory: int | None) -> None:
        self.type = type
        self.device = device  # a device id
        self.memory = memory  # a memory id; None: the device's default


class Buffer(Readable, _Typed[DT]):
    """An array on a device. Programs make them, and Client.buffer_from_host.

    It behaves like an array where that needs no computing: shape, dtype, len(), item(), tolist(), numpy.asarray(),
    float() and int() of a single element. Reading waits for the program that makes it and raises what went wrong there.

    A buffer is freed on the device by close(), at the end of a `with` block, or when the last reference goes; the
    latter is a ResourceWarning, as for files. The type parameter is for type checkers only: see pjrtd.typing.
    """

    __slots__ = ("_client", "_id", "_placement", "_live", "__weakref__")

    # What __del__ finds in an object whose __init__ did not run.
    _client: Client
    _id: bytes  # as a varint; b"" once it is closed
    _placement: Placement
    _live: Placement | None  # _placement, while the buffer is surely usable: not closed, not donated

    def __init__(self, client: Client, id: bytes, placement: Placement) -> None:
        self._client = client
        self._id = id
        self._placement = placement
        self._live = placement

    # ---- what it is ----

    @property
    def type(self) -> TensorType:
        return self._placement.type

    @property
    def client(self) -> Client:
        return self._client

    def device(self) -> Device:
        return self._client.lookup_device(self._placement.device)

    def memory(self) -> Memory:
        """The memory space that it is in."""
        number = self._placement.memory
        return self.device().default_memory() if number is None else self._client.lookup_memory(number)

    def is_on_cpu(self) -> bool:
        """Whether its memory is the host's."""
        return self._client.platform_name.lower() in ("cpu", "host")

    def __repr__(self) -> str:
        text = f"<pjrtd.Buffer {self._placement.type}"
        if self._id and self._live is None:
            return f"{text} donated>"
        if not self._id or self._client.closed:
            return f"{text} closed>"
        return f"{text} on device {self._placement.device} of {self._client.target}>"

    # ---- its life ----

    def close(self) -> None:
        """Frees it on the device. Programs that use it finish first. It may be called again."""
        id, self._id = self._id, b""
        self._live = None
        if id:
            self._client._connection.discard_buffer(id, self._placement.type.nbytes)  # pyright: ignore[reportPrivateUsage]

    delete = close

    def __enter__(self) -> Buffer[DT]:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            id = self._id
            if id:
                if self._live is not None and not self._client.closed:
                    warn_leak("a pjrtd.Buffer was never closed", self)
                self._client._connection.discard_buffer(id, self._placement.type.nbytes)  # pyright: ignore[reportPrivateUsage]
        except (AttributeError, TypeError):
            pass  # __init__ did not run, or the interpreter is going down

    @property
    def is_deleted(self) -> bool:
        """Whether its memory is gone: it was closed, or a program consumed it. After a call that may have consumed it,
        this waits for that program."""
        if not self._id or self._client.closed:
            return True
        return self._live is None and self._was_consumed()

    def _mark_consumed(self) -> None:
        """A program that may consume it was sent off; if that fails, the buffer is still there."""
        self._live = None

    def _was_consumed(self) -> bool:
        if self._stat(None).is_deleted:
            return True
        self._live = self._placement
        return False

    def _check(self) -> bytes:
        """Its id. Raises HandleClosed where it was closed or consumed."""
        if not self._id:
            raise HandleClosed("the buffer is closed")
        if self._live is None and self._was_consumed():
            raise HandleClosed(
                "the buffer was donated to a program, which consumed it",
                hint="use that program's result, or compile without the donation",
            )
        return self._id

    def _stat(self, until: float | None) -> StatReply:
        from ._proto.buffer import StatReply
        from .call import read_answer

        call = self._client._connection.request(  # pyright: ignore[reportPrivateUsage]
            methods.BUFFER_STAT, b"\x08" + self._id, until
        )
        return read_answer(StatReply, call.payload)

    def block_until_ready(self, timeout: float | None = None) -> Buffer[DT]:
        """Waits until its data is there, and returns it. Raises what the program that makes it failed with."""
        until = timeouts.resolve(timeout)
        self._check()
        self._stat(until)
        return self

    # ---- its data ----

    def to_host(self, out: Any = None, *, timeout: float | None = None) -> Any:
        """Copies the data to the host: dense, row-major, little-endian, `nbytes` bytes.

        out: a writable object of that many bytes with the buffer protocol, such as numpy.empty(b.shape, b.dtype); it
            is filled and returned. None: a new bytearray.
        timeout: seconds; DeadlineExceeded after them.
        Raises InvalidArgument for an `out` of another size, and what the program that makes the buffer failed with.
        """
        until = timeouts.current.get() if timeout is None else timeouts.resolve(timeout)
        connection = self._client._connection  # pyright: ignore[reportPrivateUsage]
        if out is None:
            id = self._id if self._live is not None else self._check()
            return connection.download(id, self._placement.type.nbytes, None, until)
        size = self._placement.type.nbytes
        view, finish = writable(out)
        if view.nbytes != size:
            raise InvalidArgument(f"out has {view.nbytes} bytes, and the buffer, {self._placement.type}, has {size}")
        connection.download(self._check(), size, view, until)
        if finish is not None:
            finish()
        return out

    def to_host_async(self, out: Any = None, *, timeout: float | None = None) -> Future[Any]:
        """to_host() without waiting: a future of what it returns. `out` is written to until the future is done."""
        return self._start_to_host(out, timeouts.resolve(timeout), True)

    def _start_to_host(self, out: Any, until: float | None, wait: bool) -> Future[Any]:
        from .future import Future

        connection = self._client._connection  # pyright: ignore[reportPrivateUsage]
        size = self._placement.type.nbytes
        id = self._id if self._live is not None or not wait and self._id else self._check()
        finish = None
        if out is not None:
            view, finish = writable(out)
            if view.nbytes != size:
                raise InvalidArgument(f"out has {view.nbytes} bytes, and the buffer, {self._placement.type}, has {size}")
        else:
            view = memoryview(bytearray(size)) if size > connection.max_inline_bytes else None

        def done(calls: list[Call]) -> Any:
            calls[0].destination = None
            if out is None:
                return calls[0].bulk if view is None else view.obj
            if finish is not None:
                finish()
            return out

        return Future(connection, [connection.start_download(id, size, view, until, wait)], done)

    def astype(self, dtype: type[DT]) -> Buffer[DT]:
        """This buffer, with the element type known to a type checker. InvalidArgument where it is another one."""
        wanted = as_dtype(dtype)
        if self.element_type is not wanted:
            raise InvalidArgument(f"the buffer holds {self.element_type.name}, not {wanted.name}")
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a buffer lives in the daemon and cannot be pickled; take its data with numpy() or to_host()")
