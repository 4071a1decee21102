"""The embedding example's reader of safetensors files: what it reads, and what it refuses."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "examples" / "minilm"))

from safetensors import DTYPES, SafetensorsError, SafetensorsFile  # noqa: E402

from pjrtd.dtype import as_dtype  # noqa: E402

A = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
B = {"dtype": "I64", "shape": [], "data_offsets": [16, 24]}
DATA = struct.pack("<4fq", 1, 2, 3, 4, -5)


def write(folder: Path, header: Any, data: bytes = DATA) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_tensors_are_views_of_the_file(tmp_path: Path) -> None:
    file = SafetensorsFile(write(tmp_path, {"__metadata__": {"format": "pt"}, "a": A, "b": B}))
    assert file.names() == ["a", "b"] and "a" in file and "c" not in file
    assert file.metadata == {"format": "pt"}
    dtype, shape, data = file["a"]
    assert (dtype, shape, data.readonly) == ("f32", (2, 2), True)
    assert data.cast("f").tolist() == [1, 2, 3, 4]
    assert file["b"].shape == () and file["b"].data.cast("q").tolist() == [-5]
    with pytest.raises(KeyError, match="no tensor c"):
        file["c"]


def test_a_view_outlives_the_file_object(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": A, "b": B})
    data = SafetensorsFile(path)["a"].data
    path.unlink()
    assert data.cast("f").tolist() == [1, 2, 3, 4]


def test_the_order_of_the_header_need_not_be_that_of_the_data(tmp_path: Path) -> None:
    assert SafetensorsFile(write(tmp_path, {"b": B, "a": A})).names() == ["b", "a"]


def test_a_file_without_tensors_and_one_with_an_empty_tensor(tmp_path: Path) -> None:
    assert SafetensorsFile(write(tmp_path, {}, b"")).names() == []
    empty = {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}
    assert SafetensorsFile(write(tmp_path, {"e": empty}, b""))["e"].data.nbytes == 0


def test_every_element_type_is_one_of_pjrts(tmp_path: Path) -> None:
    for name, (ours, item_bytes) in DTYPES.items():
        entry = {"dtype": name, "shape": [3], "data_offsets": [0, 3 * item_bytes]}
        found = SafetensorsFile(write(tmp_path, {"t": entry}, b"\0" * (3 * item_bytes)))["t"]
        assert (as_dtype(found.dtype).itemsize, found.dtype) == (item_bytes, ours)


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "has 0 bytes"),
        (b"\2\0\0\0", "has 4 bytes"),
        (struct.pack("<Q", 3) + b"{}", "its header has 3"),
        (struct.pack("<Q", 2**64 - 1) + b"{}", "its header has 18446744073709551615"),
        (struct.pack("<Q", 2) + b"{]", "not JSON"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "not JSON"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
        (struct.pack("<Q", 15) + b'{"a":{},"a":{}}', "twice"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(SafetensorsError, match=says):
        SafetensorsFile(path)


@pytest.mark.parametrize(
    "header, says",
    [
        ({"a": 3}, "a: expected an object"),
        ({"a": A | {"dtype": "F4"}, "b": B}, "element type 'F4' is not one of"),
        ({"a": A | {"dtype": None}, "b": B}, "element type None"),
        ({"a": A | {"dtype": ["F32"]}, "b": B}, "element type"),
        ({"a": A | {"shape": [2, -2]}, "b": B}, "shape is not a list of whole numbers"),
        ({"a": A | {"shape": [4.0]}, "b": B}, "shape is not a list of whole numbers"),
        ({"a": A | {"shape": [True, 4]}, "b": B}, "shape is not a list of whole numbers"),
        ({"a": A | {"shape": 4}, "b": B}, "shape is not a list of whole numbers"),
        ({"a": A | {"shape": [2, 3]}, "b": B}, "takes 24 bytes, and data_offsets give it 16"),
        ({"a": A | {"shape": [2**40, 2**40]}, "b": B}, "takes .* bytes"),
        ({"a": A | {"data_offsets": [0]}, "b": B}, "are no range"),
        ({"a": A | {"data_offsets": [16, 0]}, "b": B}, "are no range"),
        ({"a": A | {"data_offsets": [-16, 0]}, "b": B}, "data_offsets is not a list of whole numbers"),
        ({"a": A, "b": B | {"data_offsets": [17, 25]}}, "are no range of the file's 24 bytes"),
        ({"a": A, "b": B | {"data_offsets": [8, 16]}}, "overlap at byte 8"),
        ({"b": B}, "leave a gap at byte 0"),
        ({"a": A}, "end at byte 16 of the data, which has 24"),
        ({"__metadata__": {"n": 1}, "a": A, "b": B}, "__metadata__ is not"),
        ({"__metadata__": [], "a": A, "b": B}, "__metadata__ is not"),
    ],
)
def test_a_header_that_does_not_fit_the_file_is_refused(tmp_path: Path, header: Any, says: str) -> None:
    with pytest.raises(SafetensorsError, match=says):
        SafetensorsFile(write(tmp_path, header))
