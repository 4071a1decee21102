"""Programs of the end-to-end tests: the annotated ones of e2e/cases, and those that are generated.

Comment lines at the top of a case say what is right, as bytes that a reader can check:
  ARG type[dims] = values      or  ARG type[dims] hex raw little-endian host bytes
  OUT type[dims] = values      or  hex
  NO-OUTPUTS, COMPILE-ERROR CODE, EXEC-ERROR CODE, DONATED i, NOT-DONATED i
  BEFORE minor COMPILE-ERROR CODE words of the message: instead, on plugins of before PJRT 0.minor
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import struct

import numpy as np

CASES_FOLDER = pathlib.Path(__file__).resolve().parents[1] / "e2e" / "cases"

_PACKING = {"f32": "f", "f64": "d", "s8": "b", "s16": "h", "s32": "i", "s64": "q",
            "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "pred": "?"}
_TENSOR = re.compile(r"^(\w+)\[([\d,]*)\] (=|hex) ?(.*)$")


@dataclasses.dataclass(frozen=True)
class HostTensor:
    """A value in host form: element type by name, dimensions, dense row-major little-endian bytes."""

    dtype: str
    dims: tuple[int, ...]
    data: bytes


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    text: str
    args: tuple[HostTensor, ...]
    outputs: tuple[HostTensor, ...]
    compile_error: str | None
    execute_error: str | None
    donated: tuple[int, ...]
    not_donated: tuple[int, ...]
    error_words: str = ""
    before: str = ""

    def on(self, minor: int) -> Case:
        """What is right on a plugin of PJRT 0.minor."""
        if not self.before:
            return self
        since, kind, code, words = self.before.split(" ", 3)
        assert kind == "COMPILE-ERROR", self.before
        return self if minor >= int(since) else dataclasses.replace(self, compile_error=code, error_words=words)


def _pack(dtype: str, text: str) -> bytes:
    words = [word for word in text.split(",") if word]
    if dtype in ("c64", "c128"):
        part = "<ff" if dtype == "c64" else "<dd"
        numbers = [_complex(word) for word in words]
        return b"".join(struct.pack(part, value.real, value.imag) for value in numbers)
    if dtype in ("f32", "f64"):
        return b"".join(struct.pack("<" + _PACKING[dtype], float(word)) for word in words)
    return b"".join(struct.pack("<" + _PACKING[dtype], int(word)) for word in words)


def _complex(word: str) -> complex:
    return complex(word)


def _tensor(text: str) -> HostTensor:
    matched = _TENSOR.match(text)
    assert matched, f"not a value: {text!r}"
    dtype, dims, form, rest = matched.groups()
    shape = tuple(int(dim) for dim in dims.split(",") if dim)
    return HostTensor(dtype, shape, bytes.fromhex(rest) if form == "hex" else _pack(dtype, rest))


@functools.cache
def case(name: str) -> Case:
    """The case of e2e/cases/<name>.mlir."""
    text = (CASES_FOLDER / f"{name}.mlir").read_text()
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("// "):
            word, _, rest = line[3:].partition(" ")
            values.setdefault(word, []).append(rest)
    return Case(
        name=name,
        text=text,
        args=tuple(_tensor(value) for value in values.get("ARG", [])),
        outputs=tuple(_tensor(value) for value in values.get("OUT", [])),
        compile_error=values.get("COMPILE-ERROR", [None])[0],
        execute_error=values.get("EXEC-ERROR", [None])[0],
        donated=tuple(int(value) for value in values.get("DONATED", [])),
        not_donated=tuple(int(value) for value in values.get("NOT-DONATED", [])),
        before=values.get("BEFORE", [""])[0],
    )


def all_cases() -> list[str]:
    return sorted(path.stem for path in CASES_FOLDER.glob("*.mlir"))


def many_results(count: int) -> str:
    """`count` scalars: the argument plus 0, 1, 2, ..."""
    body = "\n".join(
        f"  %c{i} = stablehlo.constant dense<{i}> : tensor<i32>\n  %{i} = stablehlo.add %a, %c{i} : tensor<i32>"
        for i in range(count)
    )
    names = ", ".join(f"%{i}" for i in range(count))
    types = ", ".join(["tensor<i32>"] * count)
    return f"func.func @main(%a: tensor<i32>) -> ({types}) {{\n{body}\n  return {names} : {types}\n}}\n"


def big_constant(count: int) -> str:
    """The last element of a constant 0, 1, ..., count - 1 written out in hexadecimal: 8 characters an element."""
    digits = np.arange(count, dtype="<i4").tobytes().hex()
    return (
        "func.func @main() -> tensor<1xi32> {\n"
        f'  %c = stablehlo.constant dense<"0x{digits}"> : tensor<{count}xi32>\n'
        f"  %0 = stablehlo.slice %c [{count - 1}:{count}] : (tensor<{count}xi32>) -> tensor<1xi32>\n"
        "  return %0 : tensor<1xi32>\n}\n"
    )


def nested_ifs(depth: int) -> str:
    """A program that compiles slowly (3 s at 200): `depth` nested conditionals. True gives the second argument."""
    inner = "      %deep = stablehlo.negate %a : tensor<f32>\n      stablehlo.return %deep : tensor<f32>\n"
    for level in range(depth):
        name = f"%v{level}"
        inner = (
            f'{name} = "stablehlo.if"(%p) ({{\n{inner}}}, {{\n  stablehlo.return %a : tensor<f32>\n}})'
            f" : (tensor<i1>) -> tensor<f32>\nstablehlo.return {name} : tensor<f32>\n"
        )
    body = inner.rsplit("stablehlo.return", 1)[0]
    return (f"func.func @main(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {{\n{body}"
            f"return %v{depth - 1} : tensor<f32>\n}}\n")


def elementwise(element: str, dims: tuple[int, ...], operation: str = "add") -> str:
    """`operation` of an argument with itself, for MLIR element type `element`."""
    shape = "x".join([*map(str, dims), element])
    return (f"func.func @main(%a: tensor<{shape}>) -> tensor<{shape}> {{\n"
            f"  %0 = stablehlo.{operation} %a, %a : tensor<{shape}>\n  return %0 : tensor<{shape}>\n}}\n")


def identity(element: str, dims: tuple[int, ...]) -> str:
    """Gives its argument back through the device: a reshape to one dimension and back."""
    count = int(np.prod(dims, dtype=np.int64))
    shape = "x".join([*map(str, dims), element])
    return (f"func.func @main(%a: tensor<{shape}>) -> tensor<{shape}> {{\n"
            f"  %0 = stablehlo.reshape %a : (tensor<{shape}>) -> tensor<{count}x{element}>\n"
            f"  %1 = stablehlo.reverse %0, dims = [0] : tensor<{count}x{element}>\n"
            f"  %2 = stablehlo.reverse %1, dims = [0] : tensor<{count}x{element}>\n"
            f"  %3 = stablehlo.reshape %2 : (tensor<{count}x{element}>) -> tensor<{shape}>\n"
            f"  return %3 : tensor<{shape}>\n}}\n")


def stepped(count: int, start: int) -> int:
    """What the case stepped_loop gives: `count` steps of x -> 1664525 x + 1013904223 modulo 2**32, by doubling."""
    scale, offset, total_scale, total_offset = 1664525, 1013904223, 1, 0
    while count:
        if count & 1:
            total_scale, total_offset = total_scale * scale % 2**32, (total_offset * scale + offset) % 2**32
        scale, offset = scale * scale % 2**32, (offset * scale + offset) % 2**32
        count >>= 1
    return (total_scale * start + total_offset) % 2**32
