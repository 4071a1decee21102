"""What buffers and values have in common: they look like arrays where that needs no computing."""

from __future__ import annotations

from .dtype import DType, import_numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tensor_type import TensorType


class Readable:
    """An array whose data can be had: shape, dtype, len(), item(), tolist(), numpy(), float() of a single element."""

    __slots__ = ()

    @property
    def type(self) -> TensorType:
        """Element type and dimensions."""
        raise NotImplementedError

    def to_host(self, out: Any = None, *, timeout: float | None = None) -> Any:
        """The data: dense, row-major, little-endian, `nbytes` bytes; put into `out` where that is given."""
        raise NotImplementedError

    # ---- what it is ----

    @property
    def dimensions(self) -> tuple[int, ...]:
        return self.type.dims

    @property
    def shape(self) -> tuple[int, ...]:
        """The same as `dimensions`."""
        return self.type.dims

    @property
    def ndim(self) -> int:
        return len(self.type.dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.type.size

    @property
    def element_type(self) -> DType:
        """Equal to PJRT's integer: 11 for f32."""
        return self.type.dtype

    @property
    def dtype(self) -> DType:
        """The same as `element_type`; numpy.dtype() takes it too."""
        return self.type.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the dense host form, where types under 8 bits take a byte an element."""
        return self.type.nbytes

    def __len__(self) -> int:
        if not self.type.dims:
            raise TypeError("a scalar has no len()")
        return self.type.dims[0]

    # ---- its data ----

    def numpy(self, timeout: float | None = None) -> Any:
        """A NumPy array with a copy of the data. Types that NumPy lacks are ml_dtypes'."""
        numpy = import_numpy()
        kind = self.type.dtype
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

        values = decode(self.type.dtype, self.to_host())
        dims = self.type.dims
        if not dims:
            return values[0]
        if not self.type.size:
            return _empty(dims)
        for extent in reversed(dims[1:]):
            values = [values[at : at + extent] for at in range(0, len(values), extent)]
        return values

    def item(self) -> Any:
        """The one element as a bool, int, float or complex. ValueError for more or fewer elements."""
        from .element import decode

        if self.type.size != 1:
            raise ValueError(f"{self.type} has {self.type.size} elements, and item() is for one")
        return decode(self.type.dtype, self.to_host())[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())


def _empty(dims: tuple[int, ...]) -> list[Any]:
    """Nested lists without any element: one of `dims` is 0."""
    if not dims[0]:
        return []
    return [_empty(dims[1:]) for _ in range(dims[0])]


def writable(out: Any) -> tuple[memoryview, Any]:
    """Memory to receive into, and what is to be done once it is filled (or None)."""
    import sys

    from .errors import InvalidArgument

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
