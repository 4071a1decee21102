"""Writes the seed corpora of the fuzz targets: small honest inputs and the near misses that a mutator needs long to find.

Usage: make_corpora.py (with tests/support on the path; needs protobuf). The result is committed; names are digests, so
that running it again changes nothing.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
from collections.abc import Iterable

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "support"))

import wire_messages as wire  # noqa: E402
from raw_frames import CANCEL, CREDIT, END, ERROR, ITEM, QUIET, REPLY, REQUEST, frame, header  # noqa: E402

CONTROL_MESSAGES = ["Credit", "Error", "Frames"]


def write(corpus: str, inputs: Iterable[bytes]) -> None:
    folder = FOLDER / "corpus" / corpus
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def headers() -> Iterable[bytes]:
    for kind in range(9):
        for call in (0, 1, 2**64 - 1):
            yield header(kind, 0x0101, call)
    for kind in (REQUEST, REPLY, ERROR, ITEM, END, CANCEL, CREDIT):
        for bulk in (1, 64 << 10, (64 << 10) + 1, 1 << 20, (1 << 20) + 1, 2**32 - 1):
            yield header(kind, 0x0301, 5, 0, bulk)
        for flags in (1, 2, 0x10, 0xF0, 0xF1, 0xFF):
            yield header(kind, 0x0301, 5, 4, 0, flags)
        yield header(kind, 0xFFFF, 5, 1 << 20, 0, 0, 1)
        yield header(kind, 0, 5, (1 << 20) + 1, 0, 0, 2**64 - 1)
    yield header(magic=b"JRTP")
    yield b"xx" + header(REQUEST, 0x0401, 9, 12, 3, QUIET, 10**9) + b"yy"


def messages() -> dict[str, list]:
    """Requests by message name."""
    type_ = dict(dtype=11, dims=[2, 3])
    options = dict(num_replicas=2, num_partitions=2, use_spmd_partitioning=True, device_assignment=[0, 1, 2, 3],
                   auto_spmd_partitioning_mesh_shape=[2, 2], allow_spmd_sharding_propagation_to_output=[True, False],
                   exec_time_optimization_effort=-0.5,
                   overrides=[dict(name="xla_a", text="t"), dict(name="b", integer=-1), dict(name="c", real=1.5),
                              dict(name="d", boolean=True), dict(name="e", integers=dict(values=[1, -2]))])
    return {
        "Empty": [{}],
        "HelloRequest": [dict(min_version=1, max_version=1, client_name="pjrtd-python 0.1.0", download_credit_bytes=4 << 20),
                         dict(min_version=2**32 - 1), {}],
        "DefaultAssignmentRequest": [dict(num_replicas=2, num_partitions=2), dict(num_replicas=2**32 - 1)],
        "SessionOpenRequest": [dict(name="work", ttl_ns=10**9), {}],
        "UploadRequest": [dict(buffer=1 << 48 | 1, type=type_, data_bytes=24, device=0),
                          dict(buffer=2**64 - 1, type=dict(dtype=-1, dims=[-1, 2**62]), data_bytes=2**64 - 1, memory=-1),
                          dict(type=dict(dims=[1] * 70))],
        "DownloadRequest": [dict(buffer=5)],
        "BufferRequest": [dict(buffer=2**64 - 1)],
        "DeleteRequest": [dict(buffers=[1, 2, 300, 2**64 - 1]), {}],
        "CompileRequest": [dict(program=7, code_bytes=400, compression=1, uncompressed_bytes=4000, options=options),
                           dict(compression=9, options={})],
        "ProgramRequest": [dict(program=3)],
        "ReleaseRequest": [dict(programs=[1, 2])],
        "ExecuteRequest": [dict(program=1, args=[1, 0, 3], outputs=[4, 0], fetch=[0, 1],
                                inline_args=[dict(position=1, type=type_, data_bytes=24)]),
                           dict(inline_args=[dict(position=2**32 - 1, data_bytes=2**64 - 1)] * 3)],
        "Credit": [dict(bytes=1 << 20), dict(bytes=2**64 - 1)],
        "Error": [dict(code=3, message="wrong", hint="do this", argument=dict(index=1, expected="f32[4]", actual="s32[4]"),
                       origin_call=9, retry_after_ns=10**9, allocator=[dict(name="bytes_in_use", integer=5)])],
        "Frames": [dict(frames=[dict(call=1, method=0x0301, kind=1, flags=1, deadline_ns=5, payload=b"\x08\x01", bulk=b"abc")])],
    }


def encodings(name: str) -> Iterable[bytes]:
    """Honest encodings of a message, and bent ones: cut, doubled, wrong wire types, unpacked lists, endless varints."""
    for fields in messages()[name]:
        honest = wire.make(name, **fields).SerializeToString()
        yield honest
        yield honest + honest
        yield honest[: len(honest) // 2]
        yield honest[:-1]
    yield b"\x08" + b"\xff" * 11
    yield b"\x0a\xff\xff\xff\xff\x0f"
    yield b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
    yield b"\x12\x04\x12\x02\x01\x02"
    yield b"\x10\x01\x10\x02\x10\x03"
    yield b"\x0b\x0c\xfa\xff\xff\xff\x0f\x00"
    yield b"\x1a\x02\xff\xfe"
    yield b"\x2a\x00" * 40


def requests() -> Iterable[bytes]:
    names = [method.request for method in wire.methods().values()] + CONTROL_MESSAGES
    for position, name in enumerate(names):
        if names.index(name) != position:
            continue
        for payload in encodings(name):
            yield bytes([position]) + payload


def streams() -> Iterable[bytes]:
    """What one connection may send."""
    hello = frame(REQUEST, "Runtime.Hello", 1, wire.make("HelloRequest", min_version=1, max_version=1, client_name="seed"))
    yield hello
    yield hello + b"".join(frame(REQUEST, method, 2 + i) for i, method in enumerate(wire.methods()))
    upload = wire.make("UploadRequest", buffer=1 << 48 | 1, type=dict(dtype=6, dims=[100_000]), data_bytes=100_000)
    yield hello + frame(REQUEST, "Buffer.Upload", 2, upload) + frame(ITEM, "Buffer.Upload", 2, b"", bytes(2000)) + frame(CANCEL, "Buffer.Upload", 2)
    small = wire.make("UploadRequest", buffer=1 << 48 | 1, type=dict(dtype=11, dims=[2]), data_bytes=8)
    download = wire.make("DownloadRequest", buffer=1 << 48 | 1)
    yield (hello + frame(REQUEST, "Buffer.Upload", 2, small, bytes(8)) + frame(REQUEST, "Buffer.Download", 3, download)
           + frame(CREDIT, "Buffer.Download", 3, wire.make("Credit", bytes=100)) + frame(REQUEST, "Session.Sync", 4)
           + frame(REQUEST, "Session.Close", 5) + frame(REQUEST, "Session.Open", 6))
    yield hello + header(REQUEST, 0x0301, 2, 1 << 20)
    yield hello[:40]
    yield hello + b"junk" * 10
    compile_ = wire.make("CompileRequest", program=1 << 48 | 1, code_bytes=5)
    execute = wire.make("ExecuteRequest", program=1 << 48 | 1, args=[1 << 48 | 1], outputs=[1 << 48 | 2], fetch=[0])
    yield (hello + frame(REQUEST, "Program.Compile", 2, compile_, b"junk!", QUIET) + frame(REQUEST, "Execute.Execute", 3, execute)
           + frame(REQUEST, "Buffer.Delete", 4, wire.make("DeleteRequest", buffers=[1 << 48 | 1, 1 << 48 | 2])))


if __name__ == "__main__":
    write("frame-header", headers())
    write("request-messages", requests())
    write("frame-stream", streams())
