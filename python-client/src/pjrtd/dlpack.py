"""Reads an array that another library exports by DLPack, with the standard library alone.

The memory layout is that of dlpack.h, versions 0.x ("dltensor" capsules). Only memory of the host can be read.
"""

from __future__ import annotations

import ctypes

from .dtype import DType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CPU, _CUDA_HOST = 1, 3
# (type code, bits) -> element type
_TYPES = {
    **{(0, bits): dtype for bits, dtype in ((8, DType.S8), (16, DType.S16), (32, DType.S32), (64, DType.S64))},
    **{(1, bits): dtype for bits, dtype in ((8, DType.U8), (16, DType.U16), (32, DType.U32), (64, DType.U64))},
    **{(2, bits): dtype for bits, dtype in ((16, DType.F16), (32, DType.F32), (64, DType.F64))},
    (4, 16): DType.BF16,
    **{(5, bits): dtype for bits, dtype in ((64, DType.C64), (128, DType.C128))},
    (6, 8): DType.PRED,
    (7, 8): DType.F8E3M4,
    (8, 8): DType.F8E4M3,
    (9, 8): DType.F8E4M3B11FNUZ,
    (10, 8): DType.F8E4M3FN,
    (11, 8): DType.F8E4M3FNUZ,
    (12, 8): DType.F8E5M2,
    (13, 8): DType.F8E5M2FNUZ,
    (14, 8): DType.F8E8M0FNU,
}


class DLPackError(TypeError):
    """The array cannot be read this way."""


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def read_dlpack(data: Any) -> tuple[DType, tuple[int, ...], bytes]:
    """(element type, dimensions, dense row-major bytes). The bytes are a copy. Raises DLPackError for memory of a
    device and for types that PJRT does not have."""
    kind = type(data).__name__
    device = data.__dlpack_device__()[0]
    if int(device) not in (_CPU, _CUDA_HOST):
        raise DLPackError(f"{kind} is not in host memory (DLPack device type {int(device)}); copy it to the host first")
    try:
        capsule = data.__dlpack__()
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise DLPackError(f"{kind} cannot be exported by DLPack: {error}") from error
    # The exporter frees the memory when the capsule goes, since it is not marked as used.
    tensor = _Tensor.from_address(_get_pointer(capsule, b"dltensor"))
    dtype = _TYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise DLPackError(f"{kind}: DLPack type code {tensor.code} with {tensor.bits} bits has no element type in PJRT")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    size = dtype.itemsize
    count = 1
    for extent in shape:
        count *= extent
    if not count:
        return dtype, shape, b""
    dense: list[int] = []
    step = 1
    for extent in reversed(shape):
        dense.insert(0, step)
        step *= extent
    strides = [tensor.strides[axis] for axis in range(tensor.ndim)] if tensor.strides else dense
    start = tensor.data + tensor.byte_offset
    # Trailing dimensions that are dense are copied in one piece.
    axes = tensor.ndim
    piece = 1
    while axes and (shape[axes - 1] == 1 or strides[axes - 1] == piece):
        axes -= 1
        piece *= shape[axes]
    offsets = [0]
    for axis in range(axes):
        offsets = [offset + index * strides[axis] for offset in offsets for index in range(shape[axis])]
    return dtype, shape, b"".join(ctypes.string_at(start + offset * size, piece * size) for offset in offsets)
