"""A buffer of one element type is not one of another."""

import pjrtd
from pjrtd import Buffer
from pjrtd.typing import F32, F64, S32


def wants_f32(buffer: Buffer[F32]) -> None: ...


def use(client: pjrtd.Client) -> None:
    a: Buffer[F32] = client.typed_buffer(F32, [1.0])
    wants_f32(a)
    b: Buffer[F64] = a  # error: reportAssignmentType
    wants_f32(client.typed_buffer(S32, [1]))  # error: reportArgumentType
    wants_f32(b.astype(F32))  # error: reportArgumentType
