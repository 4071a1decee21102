"""Element types as static types, for type checkers.

    a: Buffer[F32] = client.typed_buffer(F32, data, [4])
    b: Buffer[F64] = a  # an error for pyright and mypy

The classes here are markers and never made into objects: `code`, `name` and `itemsize` say at run time what the type
checker knows. Shapes and lifetimes are beyond it. For the values themselves see pjrtd.DType.
"""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar


class DType(abc.ABC):
    """A marker. Abstract, so that F32() is an error for a type checker too."""

    code: ClassVar[int]
    name: ClassVar[str]
    itemsize: ClassVar[int]

    @abc.abstractmethod
    def _marker(self) -> None:
        """Without a body anywhere, on purpose."""


class PRED(DType):
    code, name, itemsize = 1, "pred", 1


class S8(DType):
    code, name, itemsize = 2, "s8", 1


class S16(DType):
    code, name, itemsize = 3, "s16", 2


class S32(DType):
    code, name, itemsize = 4, "s32", 4


class S64(DType):
    code, name, itemsize = 5, "s64", 8


class U8(DType):
    code, name, itemsize = 6, "u8", 1


class U16(DType):
    code, name, itemsize = 7, "u16", 2


class U32(DType):
    code, name, itemsize = 8, "u32", 4


class U64(DType):
    code, name, itemsize = 9, "u64", 8


class F16(DType):
    code, name, itemsize = 10, "f16", 2


class F32(DType):
    code, name, itemsize = 11, "f32", 4


class F64(DType):
    code, name, itemsize = 12, "f64", 8


class BF16(DType):
    code, name, itemsize = 13, "bf16", 2


class C64(DType):
    code, name, itemsize = 14, "c64", 8


class C128(DType):
    code, name, itemsize = 15, "c128", 16


class F8E5M2(DType):
    code, name, itemsize = 16, "f8e5m2", 1


class F8E4M3FN(DType):
    code, name, itemsize = 17, "f8e4m3fn", 1


class F8E4M3B11FNUZ(DType):
    code, name, itemsize = 18, "f8e4m3b11fnuz", 1


class F8E5M2FNUZ(DType):
    code, name, itemsize = 19, "f8e5m2fnuz", 1


class F8E4M3FNUZ(DType):
    code, name, itemsize = 20, "f8e4m3fnuz", 1


class S4(DType):
    code, name, itemsize = 21, "s4", 1


class U4(DType):
    code, name, itemsize = 22, "u4", 1


class S2(DType):
    code, name, itemsize = 24, "s2", 1


class U2(DType):
    code, name, itemsize = 25, "u2", 1


class F8E4M3(DType):
    code, name, itemsize = 26, "f8e4m3", 1


class F8E3M4(DType):
    code, name, itemsize = 27, "f8e3m4", 1


class F8E8M0FNU(DType):
    code, name, itemsize = 28, "f8e8m0fnu", 1


class F4E2M1FN(DType):
    code, name, itemsize = 29, "f4e2m1fn", 1


class S1(DType):
    code, name, itemsize = 30, "s1", 1


class U1(DType):
    code, name, itemsize = 31, "u1", 1


class F6E2M3FN(DType):
    code, name, itemsize = 32, "f6e2m3fn", 1


class F6E3M2FN(DType):
    code, name, itemsize = 33, "f6e3m2fn", 1


#: Bound, so that Buffer[int] is an error too.
DT = TypeVar("DT", bound=DType)

ALL: tuple[type[DType], ...] = (
    *(PRED, S8, S16, S32, S64, U8, U16, U32, U64, F16, F32, F64, BF16, C64, C128),
    *(F8E5M2, F8E4M3FN, F8E4M3B11FNUZ, F8E5M2FNUZ, F8E4M3FNUZ, S4, U4, S2, U2, F8E4M3, F8E3M4, F8E8M0FNU),
    *(F4E2M1FN, S1, U1, F6E2M3FN, F6E3M2FN),
)
BY_CODE: dict[int, type[DType]] = {marker.code: marker for marker in ALL}


def by_code(code: int) -> type[DType] | None:
    """The marker of PJRT's integer, or None."""
    return BY_CODE.get(code)
