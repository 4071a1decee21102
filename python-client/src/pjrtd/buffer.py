"""Device buffers."""

from __future__ import annotations

from . import timeouts
from ._proto import methods
from .dtype import DType, as_dtype, import_numpy
from .errors import HandleClosed, InvalidArgument
from .leaks import warn_leak
from .tensor_type import TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Generic

    from ._proto.buffer import StatReply
    from .client import Client
    from .device import Device
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


class Buffer(_Typed[DT]):
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
    def dimensions(self) -> tuple[int, ...]:
        return self._placement.type.dims

    @property
    def shape(self) -> tuple[int, ...]:
        """The same as `dimensions`."""
        return self._placement.type.dims

    @property
    def ndim(self) -> int:
        return len(self._placement.type.dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._placement.type.size

    @property
    def element_type(self) -> DType:
        """Equal to PJRT's integer: 11 for f32."""
        return self._placement.type.dtype

    @property
    def dtype(self) -> DType:
        """The same as `element_type`; numpy.dtype() takes it too."""
        return self._placement.type.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the dense host form, where types under 8 bits take a byte an element."""
        return self._placement.type.nbytes

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

    def __len__(self) -> int:
        if not self._placement.type.dims:
            raise TypeError("a scalar has no len()")
        return self._placement.type.dims[0]

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
            if id and not self._client.closed:
                if self._live is not None:
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
        view, finish = _writable(out)
        if view.nbytes != size:
            raise InvalidArgument(f"out has {view.nbytes} bytes, and the buffer, {self._placement.type}, has {size}")
        connection.download(self._check(), size, view, until)
        if finish is not None:
            finish()
        return out

    def numpy(self, timeout: float | None = None) -> Any:
        """A NumPy array with a copy of the data. Types that NumPy lacks are ml_dtypes'."""
        numpy = import_numpy()
        kind = self._placement.type.dtype
        dtype = kind.dtype
        if kind.bits < 8 and kind.name[0] in "su":
            # ml_dtypes keeps them without the sign extension that they travel with
            plain = numpy.empty(self.shape, numpy.int8 if kind.name[0] == "s" else numpy.uint8)
            return self.to_host(plain, timeout=timeout).astype(dtype)
        return self.to_host(numpy.empty(self.shape, dtype), timeout=timeout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a device buffer cannot be an array without a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """A copy in host memory, for numpy.from_dlpack, torch.from_dlpack and others. Needs NumPy."""
        if options.get("copy") is False:
            raise BufferError("a buffer of the daemon is handed over by a copy")
        options.pop("dl_device", None)
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # host memory

    def tolist(self) -> Any:
        """The elements as nested lists of bool, int, float or complex; of a scalar the element itself."""
        from .element import decode

        values = decode(self._placement.type.dtype, self.to_host())
        dims = self._placement.type.dims
        if not dims:
            return values[0]
        if not self._placement.type.size:
            return _empty(dims)
        for extent in reversed(dims[1:]):
            values = [values[at : at + extent] for at in range(0, len(values), extent)]
        return values

    def item(self) -> Any:
        """The one element as a bool, int, float or complex. ValueError for more or fewer elements."""
        from .element import decode

        if self._placement.type.size != 1:
            raise ValueError(f"{self._placement.type} has {self._placement.type.size} elements, and item() is for one")
        return decode(self._placement.type.dtype, self.to_host())[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def astype(self, dtype: type[DT]) -> Buffer[DT]:
        """This buffer, with the element type known to a type checker. InvalidArgument where it is another one."""
        wanted = as_dtype(dtype)
        if self.element_type is not wanted:
            raise InvalidArgument(f"the buffer holds {self.element_type.name}, not {wanted.name}")
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a buffer lives in the daemon and cannot be pickled; take its data with numpy() or to_host()")


def _empty(dims: tuple[int, ...]) -> list[Any]:
    """Nested lists without any element: one of `dims` is 0."""
    if not dims[0]:
        return []
    return [_empty(dims[1:]) for _ in range(dims[0])]


def _writable(out: Any) -> tuple[memoryview, Any]:
    """Memory to receive into, and what is to be done once it is filled (or None)."""
    import sys

    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(out, numpy.ndarray):
        if not out.flags.writeable:
            raise InvalidArgument("out is read-only")
        if not out.size:
            return memoryview(bytearray()), None
        swapped = out.dtype.byteorder == ">"
        if out.flags.c_contiguous:
            view = memoryview(out.reshape(-1).view(numpy.uint8))
            return view, (lambda: out.byteswap(inplace=True)) if swapped else None
        dense = numpy.empty(out.shape, out.dtype.newbyteorder("<") if swapped else out.dtype)

        def finish() -> None:
            out[...] = dense

        return memoryview(dense.reshape(-1).view(numpy.uint8)), finish
    try:
        view = memoryview(out)
    except TypeError:
        raise TypeError(f"out is a writable object with the buffer protocol, not {type(out).__name__}") from None
    if view.readonly:
        raise InvalidArgument(f"out is read-only: {type(out).__name__}")
    if not view.c_contiguous:
        raise InvalidArgument("out is not contiguous")
    return (view.cast("B") if view.nbytes else memoryview(bytearray())), None
