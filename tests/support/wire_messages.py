"""The messages of proto/pjrtd/v1 as protobuf's own library reads them.

The daemon is tested through an encoder that shares no code with it or with its clients: protoc describes the .proto
files at test time, and the `protobuf` package makes the classes from that description. The method table is read from
proto/methods.def, so a method that is added there is known here.
"""

from __future__ import annotations

import functools
import pathlib
import re
import subprocess
import tempfile
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROTO_FOLDER = REPOSITORY / "proto"

_METHOD_LINE = re.compile(r"^PJRTD_METHOD\((0x[0-9a-fA-F]+), (\w+), (\w+), (\w+), (\w+), (\w+), (\w+)\)", re.MULTILINE)


class Method(NamedTuple):
    """One line of the method table."""

    number: int
    family: str
    name: str
    request: str
    reply: str

    @property
    def key(self) -> str:
        return f"{self.family}.{self.name}"


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    sources = sorted(str(path) for path in (PROTO_FOLDER / "pjrtd" / "v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        described = pathlib.Path(folder) / "pjrtd.desc"
        subprocess.run(
            ["protoc", f"--proto_path={PROTO_FOLDER}", "--include_imports", f"--descriptor_set_out={described}", *sources],
            check=True,
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def message_class(name: str) -> type[Any]:
    """The class of `pjrtd.v1.<name>`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"pjrtd.v1.{name}"))


def make(name: str, /, **fields: Any) -> Any:
    """A message of that name; nested messages may be given as dicts."""
    return message_class(name)(**fields)


@functools.cache
def methods() -> dict[str, Method]:
    """The method table by "Family.Name"."""
    found: dict[str, Method] = {}
    for number, family, name, _, request, reply, _ in _METHOD_LINE.findall((PROTO_FOLDER / "methods.def").read_text()):
        method = Method(int(number, 16), family, name, request, reply)
        found[method.key] = method
    assert found, "proto/methods.def has no method"
    return found


@functools.cache
def dtype_numbers() -> dict[str, int]:
    """Element types by the name that the .proto gives them, without the prefix and in lower case: "f32" -> 11."""
    enum = _pool().FindEnumTypeByName("pjrtd.v1.DType")
    return {value.name.removeprefix("DTYPE_").lower(): value.number for value in enum.values}
