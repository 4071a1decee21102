"""Read a safetensors file with the standard library: a JSON header, and the rest of the file mapped into memory.

    weights = SafetensorsFile("model.safetensors")
    tensor = weights["embeddings.LayerNorm.bias"]
    tensor.dtype, tensor.shape, tensor.data      # "f32", (384,), a memoryview of the file's own pages

Nothing is read before it is looked at, and nothing is copied. What the header says is checked against the file when it is
opened: a view never reaches beyond its tensor. The format: https://huggingface.co/docs/safetensors, section Format.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from typing import Any, NamedTuple, cast

MAX_HEADER_BYTES = 100_000_000  # the format's own limit

# The format's name of an element type: pjrtd's name, and bytes.
DTYPES = {
    "BOOL": ("pred", 1),
    "U8": ("u8", 1),
    "I8": ("s8", 1),
    "F8_E4M3": ("f8e4m3fn", 1),
    "F8_E5M2": ("f8e5m2", 1),
    "U16": ("u16", 2),
    "I16": ("s16", 2),
    "F16": ("f16", 2),
    "BF16": ("bf16", 2),
    "U32": ("u32", 4),
    "I32": ("s32", 4),
    "F32": ("f32", 4),
    "U64": ("u64", 8),
    "I64": ("s64", 8),
    "F64": ("f64", 8),
}


class SafetensorsError(ValueError):
    """The file is not what the format says; the message says where."""


class TensorView(NamedTuple):
    """dtype: as pjrtd names it. data: the bytes, dense, row-major, little-endian; read-only."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


class SafetensorsFile:
    """The tensors of a file, by name. The file stays mapped as long as this object or a view of a tensor is there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        with open(self._path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise self._wrong(f"has {size} bytes, and the length of the header alone takes 8")
            self._mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        length = int.from_bytes(self._mapped[:8], "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise self._wrong(f"has {size} bytes, and says that its header has {length}")
        self._data = self._mapped[8 + length :]
        header = self._parse(bytes(self._mapped[8 : 8 + length]))
        #: What the writer said about the file.
        self.metadata = self._check_metadata(header.pop("__metadata__", {}))
        self._places = {name: self._check_entry(name, entry) for name, entry in header.items()}
        self._check_cover()

    def names(self) -> list[str]:
        """In the header's order."""
        return list(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> TensorView:
        if name not in self._places:
            raise KeyError(f"{self._path} has no tensor {name}")
        dtype, shape, begin, end = self._places[name]
        return TensorView(dtype, shape, self._data[begin:end])

    # ---- the header ----

    def _wrong(self, what: str) -> SafetensorsError:
        return SafetensorsError(f"{self._path}: {what}")

    def _parse(self, text: bytes) -> dict[str, Any]:
        def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) != len(pairs):
                raise ValueError("a name stands there twice")
            return found

        try:
            header = json.loads(text.decode(), object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"the header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise self._wrong("the header is not a JSON object")
        return cast("dict[str, Any]", header)

    def _check_metadata(self, found: Any) -> dict[str, str]:
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in cast("dict[str, Any]", found).values()):
            raise self._wrong("__metadata__ is not an object of strings")
        return cast("dict[str, str]", found)

    def _check_entry(self, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
        if not isinstance(entry, dict):
            raise self._wrong(f"{name}: expected an object with dtype, shape and data_offsets")
        fields = cast("dict[str, Any]", entry)
        dtype, item_bytes = DTYPES.get(str(fields.get("dtype")), ("", 0))
        if not dtype:
            raise self._wrong(f"{name}: element type {fields.get('dtype')!r} is not one of {', '.join(DTYPES)}")
        shape = self._whole_numbers(name, "shape", fields.get("shape"))
        offsets = self._whole_numbers(name, "data_offsets", fields.get("data_offsets"))
        if len(offsets) != 2 or not offsets[0] <= offsets[1] <= len(self._data):
            raise self._wrong(f"{name}: data_offsets {list(offsets)} are no range of the file's {len(self._data)} bytes of data")
        wanted = math.prod(shape) * item_bytes
        if offsets[1] - offsets[0] != wanted:
            raise self._wrong(f"{name}: {dtype}{list(shape)} takes {wanted} bytes, and data_offsets give it {offsets[1] - offsets[0]}")
        return dtype, shape, offsets[0], offsets[1]

    def _whole_numbers(self, name: str, field: str, found: Any) -> tuple[int, ...]:
        # A JSON true is an int to Python.
        if not isinstance(found, list) or not all(type(n) is int and n >= 0 for n in cast("list[Any]", found)):
            raise self._wrong(f"{name}: {field} is not a list of whole numbers")
        return tuple(cast("list[int]", found))

    def _check_cover(self) -> None:
        """No tensor overlaps another, and no byte belongs to none: so the format has it."""
        at = 0
        for _, _, begin, end in sorted(self._places.values(), key=lambda place: place[2:]):
            if begin != at:
                raise self._wrong(f"the tensors {'overlap' if begin < at else 'leave a gap'} at byte {min(begin, at)} of the data")
            at = end
        if at != len(self._data):
            raise self._wrong(f"the tensors end at byte {at} of the data, which has {len(self._data)}")
