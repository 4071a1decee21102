"""The markers of pjrtd.typing are types, never objects."""

from pjrtd.typing import BF16, F32

one = F32()  # error: reportAbstractUsage
two = BF16()  # error: reportAbstractUsage
