"""Only a marker can say what a buffer holds."""

from pjrtd import Buffer
from pjrtd.typing import F32


def good(buffer: Buffer[F32]) -> None: ...


def wrong(buffer: Buffer[int]) -> None: ...  # error: reportInvalidTypeArguments
