"""The generated encoders and decoders, held against protobuf's own library."""

from __future__ import annotations

import importlib
import keyword
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError as OracleDecodeError

from pjrtd._proto import methods, wire

ROOT = Path(__file__).resolve().parents[1]
PROTO = ROOT.parent / "proto"
FILES = sorted(path.stem for path in (PROTO / "pjrtd" / "v1").glob("*.proto"))
INTERESTING = [0, 1, 2, 127, 128, 255, 256, 300, 16383, 16384, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Message name -> Google's class, from the same .proto files by protoc."""
    path = tmp_path_factory.mktemp("proto") / "set"
    names = [f"pjrtd/v1/{name}.proto" for name in FILES]
    subprocess.run(["protoc", f"-I{PROTO}", "--include_imports", f"--descriptor_set_out={path}", *names], check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"pjrtd.v1.{message.name}"))
        for file in files.file
        for message in file.message_type
    }


def ours() -> dict[str, type[wire.Message]]:
    found: dict[str, type[wire.Message]] = {}
    for name in FILES:
        for value in vars(importlib.import_module(f"pjrtd._proto.{name}")).values():
            if isinstance(value, type) and issubclass(value, wire.Message) and value is not wire.Message:
                found[value.__name__] = value
    return found


OURS = ours()


def random_value(rng: random.Random, field: Any, depth: int) -> Any:
    kind = field.type
    if kind == field.TYPE_MESSAGE:
        return random_message(rng, field.message_type._concrete_class, depth + 1)
    if kind == field.TYPE_BOOL:
        return rng.random() < 0.7
    if kind == field.TYPE_DOUBLE:
        return rng.choice([0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), rng.uniform(-10, 10)])
    if kind == field.TYPE_STRING:
        return rng.choice(["", "f32[4]", "grüße\n", "\U0001f600", "x" * rng.randrange(300)])
    if kind == field.TYPE_BYTES:
        return rng.randbytes(rng.randrange(200))
    if kind == field.TYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    bits = 32 if kind in (field.TYPE_INT32, field.TYPE_UINT32) else 64
    value = rng.choice([rng.choice(INTERESTING), rng.getrandbits(bits)]) & (1 << bits) - 1
    if kind in (field.TYPE_INT32, field.TYPE_INT64):
        value = value - (1 << bits) if value >> bits - 1 else value
    return value


def python_name(name: str) -> str:
    """A field's name in our messages: words that Python keeps for itself end in an underscore."""
    return f"{name}_" if keyword.iskeyword(name) else name


def random_message(rng: random.Random, kind: Any, depth: int = 0) -> Any:
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < (0.3 if depth == 0 else 0.5):
            continue
        if field.is_repeated:
            values = [random_value(rng, field, depth) for _ in range(rng.randrange(4))]
            if field.type == field.TYPE_MESSAGE:
                for value in values:
                    getattr(message, field.name).add().CopyFrom(value)
            else:
                getattr(message, field.name).extend(values)
        elif field.type == field.TYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(random_value(rng, field, depth))
        else:
            setattr(message, field.name, random_value(rng, field, depth))
    return message


def assert_same(mine: Any, theirs: Any) -> None:
    """Field by field, presence included."""
    for field in theirs.DESCRIPTOR.fields:
        a, b = getattr(mine, python_name(field.name)), getattr(theirs, field.name)
        if field.is_repeated:
            assert len(a) == len(b)
            for x, y in zip(a, b):
                assert_same(x, y) if field.type == field.TYPE_MESSAGE else check(x, y)
        elif field.has_presence:
            assert (a is not None) == theirs.HasField(field.name), field.name
            if a is not None:
                assert_same(a, b) if field.type == field.TYPE_MESSAGE else check(a, b)
        else:
            check(a, b)


def check(a: Any, b: Any) -> None:
    assert type(a) in (bool, int, float, str, bytes)
    assert a == b or (a != a and b != b), (a, b)


def test_every_message_of_the_protocol_is_there(oracle: dict[str, Any]) -> None:
    assert set(oracle) == set(OURS)


@pytest.mark.parametrize("name", sorted(OURS))
def test_random_messages_both_ways(oracle: dict[str, Any], name: str) -> None:
    rng = random.Random(name)
    for _ in range(150):
        theirs = random_message(rng, oracle[name])
        data = theirs.SerializeToString(deterministic=True)
        mine = wire.decode(OURS[name], data)
        assert_same(mine, theirs)
        encoded = mine.encode()
        assert encoded == data  # both write fields in order, so the bytes are the same too
        assert wire.decode(OURS[name], encoded) == mine


@pytest.mark.parametrize("name", sorted(OURS))
def test_damaged_messages_are_refused_exactly_where_protobuf_refuses_them(
    oracle: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Truncations, flipped bits and junk: DecodeError or a message, and the same verdict and values as the oracle's.
    The one intended difference, text that is not UTF-8, is taken out first."""

    def strict_string(data: bytes, pos: int, end: int) -> tuple[str, int]:
        raw, pos = wire.get_bytes(data, pos, end)
        try:
            return raw.decode(), pos
        except UnicodeDecodeError as error:
            raise wire.DecodeError(str(error)) from error

    for file in FILES:
        module = importlib.import_module(f"pjrtd._proto.{file}")
        if hasattr(module, "get_string"):
            monkeypatch.setattr(module, "get_string", strict_string)
    rng = random.Random(name)
    verdicts = {True: 0, False: 0}
    for turn in range(400):
        data = bytearray(random_message(rng, oracle[name]).SerializeToString())
        if turn % 3 == 0 and data:
            del data[rng.randrange(len(data)) :]
        elif turn % 3 == 1 and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.randbytes(rng.randrange(12))
        raw = bytes(data)
        try:
            mine: Any = wire.decode(OURS[name], raw)
        except wire.DecodeError as error:
            if "not a field tag" in str(error):
                continue  # the oracle lets field number 0 pass
            mine = None
        try:
            theirs = oracle[name].FromString(raw)
        except OracleDecodeError:
            theirs = None
        assert (mine is None) == (theirs is None), (raw.hex(), mine, theirs)
        verdicts[mine is not None] += 1
        if theirs is not None:
            assert_same(mine, theirs)
    assert min(verdicts.values()) > 3


def test_random_bytes_never_do_worse_than_decode_error() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        raw = rng.randbytes(rng.randrange(60))
        for kind in (OURS["Error"], OURS["DevicesReply"], OURS["CompileReply"], OURS["ExecuteRequest"]):
            try:
                wire.decode(kind, raw)
            except wire.DecodeError:
                pass


@pytest.mark.parametrize("value", [*INTERESTING, (1 << 64) - 1])
def test_varints(value: int) -> None:
    data = wire.varint(value)
    assert len(data) == max(1, (value.bit_length() + 6) // 7)
    assert wire.get_varint(data, 0, len(data)) == (value, len(data))
    for cut in range(len(data)):
        with pytest.raises(wire.DecodeError, match="cut short"):
            wire.get_varint(data, 0, cut)


def test_a_varint_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(wire.DecodeError, match="10 bytes"):
        wire.get_varint(b"\x80" * 10 + b"\x01", 0, 11)


def test_a_size_beyond_the_end_is_refused_without_reading_there() -> None:
    data = b"\x12\xff\xff\xff\xff\x0f"
    with pytest.raises(wire.DecodeError, match="cut short"):
        wire.decode(OURS["Error"], data)
    # In a message inside another one the inner end counts, not the outer.
    inner = b"\x0a\x05ab"  # says 5 bytes, has 2
    with pytest.raises(wire.DecodeError):
        wire.decode(OURS["DevicesReply"], b"\x0a" + bytes([len(inner)]) + inner + b"cccccccc")


def test_lists_are_read_packed_unpacked_and_mixed(oracle: dict[str, Any]) -> None:
    packed = b"\x12\x03\x01\x02\x03"
    unpacked = b"\x10\x04\x10\x05"
    mine: Any = wire.decode(OURS["TensorType"], packed + unpacked + packed)
    assert mine.dims == [1, 2, 3, 4, 5, 1, 2, 3]
    assert list(oracle["TensorType"].FromString(packed + unpacked + packed).dims) == mine.dims


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    unknown = b"\xf8\x07\x96\x01" + b"\xf9\x07" + bytes(8) + b"\xfa\x07\x02hi" + b"\xfd\x07" + bytes(4)
    group = b"\xfb\x07\x08\x01\xfb\x07\xfc\x07\xfc\x07"
    mine: Any = wire.decode(OURS["Error"], unknown + b"\x08\x03" + group + b"\x12\x01x" + unknown)
    assert (mine.code, mine.message) == (3, "x")


@pytest.mark.parametrize(
    "data",
    [b"\x00\x00", b"\x07", b"\x06\x01", b"\xfc\x07", b"\xfb\x07", b"\xfb\x07\xf4\x07", b"\xfb\x07" * 5000],
    ids=["field 0", "wire type 7", "wire type 6", "a stray end", "an open group", "a wrong end", "too many groups"],
)
def test_bad_tags_and_groups_are_refused(data: bytes) -> None:
    with pytest.raises(wire.DecodeError):
        wire.decode(OURS["Error"], data)


def test_the_last_member_of_a_oneof_counts_and_zero_is_kept() -> None:
    from pjrtd._proto.buffer import UploadRequest

    request = wire.decode(UploadRequest, UploadRequest(device=3).encode() + UploadRequest(memory=0).encode())
    assert (request.device, request.memory) == (None, 0)
    assert UploadRequest(device=0).encode() == b"\x20\x00"
    with pytest.raises(ValueError, match="placement"):
        UploadRequest(device=0, memory=0).encode()


def test_a_message_field_that_comes_twice_is_merged(oracle: dict[str, Any]) -> None:
    data = b"\x12\x02\x08\x0b" + b"\x12\x04\x12\x02\x04\x05"
    mine: Any = wire.decode(OURS["UploadRequest"], data)
    assert (mine.type.dtype, mine.type.dims) == (11, [4, 5])
    assert_same(mine, oracle["UploadRequest"].FromString(data))


def test_values_that_do_not_fit_are_refused_on_writing() -> None:
    from pjrtd._proto.buffer import UploadRequest
    from pjrtd._proto.program import CompileOptions

    for message in (
        UploadRequest(buffer=-1),
        UploadRequest(buffer=1 << 64),
        UploadRequest(device=1 << 31),
        CompileOptions(num_replicas=1 << 32),
        CompileOptions(device_assignment=[-(1 << 31) - 1]),
    ):
        with pytest.raises(ValueError, match="does not fit"):
            message.encode()


def test_text_that_is_not_utf8_is_read_with_replacements() -> None:
    mine: Any = wire.decode(OURS["Error"], b"\x08\x03\x12\x03a\xffb\x1a\x01h")
    assert (mine.message, mine.hint) == ("a\ufffdb", "h")


def test_the_method_table_is_that_of_methods_def() -> None:
    lines = [line for line in (PROTO / "methods.def").read_text().splitlines() if line.startswith("PJRTD_METHOD")]
    assert len(methods.METHODS) == len(lines)
    for line in lines:
        number, family, name, constant, request, reply, _ = (part.strip() for part in line[13:-1].split(","))
        assert getattr(methods, constant.upper()) == int(number, 16)
        assert methods.METHODS[int(number, 16)] == (f"{family}.{name}", request, reply)
        assert request in OURS and reply in OURS


def test_the_modules_are_what_the_proto_files_give() -> None:
    run = subprocess.run([sys.executable, ROOT / "tools" / "gen_proto.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_generator_stops_at_what_it_does_not_know(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        gen_proto = importlib.import_module("gen_proto")
    finally:
        sys.path.pop(0)
    for body in ("optional int32 a = 1;", "map<int32, int32> a = 1;", "reserved 3;", "int32 a = 1; int32 b = 1;"):
        path = tmp_path / "x.proto"
        path.write_text(f'syntax = "proto3";\nmessage M {{\n  {body}\n}}\n')
        with pytest.raises(SystemExit):
            gen_proto.Parser(path).file()


def test_the_json_view_of_the_oracle_agrees_on_names(oracle: dict[str, Any]) -> None:
    """Field names are those of the .proto files."""
    for name, kind in OURS.items():
        fields = {python_name(field.name) for field in oracle[name].DESCRIPTOR.fields}
        assert set(kind.__slots__) == fields
        assert json_format.MessageToDict(oracle[name]()) == {}
