"""Writes the seed corpora of the fuzz targets: small honest inputs and the near misses that a mutator needs long to find.

Beside them lie small inputs that fuzzing found, which this does not make.

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
from raw_frames import CANCEL, CREDIT, END, ERROR, ITEM, NOTICE, QUIET, REPLY, REQUEST, frame, header  # noqa: E402

# The prefix of the first connection's ids.
IDS = 0
CONTROL_MESSAGES = ["Credit", "Error", "Frames"]


def write(corpus: str, inputs: Iterable[bytes]) -> None:
    folder = FOLDER / "corpus" / corpus
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def headers() -> Iterable[bytes]:
    for kind in range(10):
        for call in (0, 1, 2**64 - 1):
            yield header(kind, 0x0101, call)
    for kind in (REQUEST, REPLY, ERROR, ITEM, END, CANCEL, CREDIT, NOTICE):
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
                         dict(min_version=1, max_version=1, wants_notices=True), dict(min_version=2**32 - 1), {}],
        "DefaultAssignmentRequest": [dict(num_replicas=2, num_partitions=2), dict(num_replicas=2**32 - 1)],
        "SessionOpenRequest": [dict(name="work", ttl_ns=10**9, priority=3), {}],
        "SessionAttachRequest": [dict(name="work", create=True, ttl_ns=10**9), dict(token="t" * 43, resume=True, id_prefix=3), {}],
        "SessionCloseRequest": [dict(name="work"), dict(session=7), {}],
        "SessionListRequest": [dict(buffers=64), dict(session=7, buffers=2**32 - 1), dict(name="work")],
        "BindRequest": [dict(bindings=[dict(slot="theta", buffer=1), dict(slot="é", buffer=2)]), dict(bindings=[dict()] * 3)],
        "UnbindRequest": [dict(slots=["theta", "grad"]), dict(slots=["", "x" * 300])],
        "LookupRequest": [dict(bindings=[dict(slot="theta", buffer=2**64 - 1)])],
        "SlotsRequest": [dict(slots=["theta", "", "\n"]), dict()],
        "PublishRequest": [dict(name="model", slots=["theta"], everybody=True, uids=[0, 2**32 - 1])],
        "WithdrawRequest": [dict(name="model")],
        "BorrowRequest": [dict(name="model", slots=[{"slot": "theta", "as": "mine"}, {}])],
        "ConfigureRequest": [dict(priority=3, device=0), dict(priority=9), dict(device=-1), {}],
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
                           dict(inline_args=[dict(position=2**32 - 1, data_bytes=2**64 - 1)] * 3),
                           dict(program=1, args=[0, 0], slot_args=[dict(slot="theta"), dict(position=1, slot="grad")],
                                feed_back=[dict(slot="theta"), dict(output=2**32 - 1, slot="grad")],
                                non_donatable=[0, 1, 2**32 - 1])],
        "RunRequest": [dict(step=dict(program=1, args=[0, 2], slot_args=[dict(slot="theta")],
                                      feed_back=[dict(slot="theta"), dict(output=1, argument=1)], fetch=[0]),
                            steps=100, stacked=[1], every=10, until=1, progress_ns=10**6),
                       dict(steps=2**64 - 1, stacked=[0] * 3, until=2**32 - 1)],
        "Credit": [dict(bytes=1 << 20), dict(bytes=2**64 - 1)],
        "Error": [dict(code=3, message="wrong", hint="do this", argument=dict(index=1, expected="f32[4]", actual="s32[4]"),
                       origin_call=9, retry_after_ns=10**9, allocator=[dict(name="bytes_in_use", integer=5)]),
                  dict(code=8, message="no room", needed=4, quota=dict(setting="max_session_buffers", used=3, allowed=3),
                       biggest=[dict(session=1, buffer=2, bytes=8, type="f32[2]", device=1), dict(slot="theta")])],
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
    """What one connection may send, to the programs of memory_plugin.h."""
    first = 0

    def hello(prefix_guess: int = 1, credit: int = 0) -> bytes:
        return frame(REQUEST, "Runtime.Hello", 1, wire.make("HelloRequest", min_version=1, max_version=prefix_guess,
                                                            client_name="seed", download_credit_bytes=credit))

    def upload(call: int, buffer: int, dtype: int, dims: list[int], data: bytes, flags: int = 0, deadline_ns: int = 0) -> bytes:
        inline = len(data) <= 64 << 10
        request = wire.make("UploadRequest", buffer=IDS | buffer, type=dict(dtype=dtype, dims=dims), data_bytes=len(data))
        sent = frame(REQUEST, "Buffer.Upload", call, request, data if inline else b"", flags, deadline_ns)
        if not inline:
            sent += b"".join(frame(ITEM, "Buffer.Upload", call, b"", data[at : at + (1 << 20)]) for at in range(0, len(data), 1 << 20))
        return sent

    def compile_(call: int, program: int, code: bytes, flags: int = 0, **options: object) -> bytes:
        return frame(REQUEST, "Program.Compile", call, wire.make("CompileRequest", program=IDS | program, code_bytes=len(code), **options), code, flags)

    def execute(call: int, program: int, args: list[int], outputs: list[int], flags: int = 0, bulk: bytes = b"", **fields: object) -> bytes:
        request = wire.make("ExecuteRequest", program=IDS | program, args=[arg and IDS | arg for arg in args],
                            outputs=[output and IDS | output for output in outputs], **fields)
        return frame(REQUEST, "Execute.Execute", call, request, bulk, flags)

    def download(call: int, buffer: int) -> bytes:
        return frame(REQUEST, "Buffer.Download", call, wire.make("DownloadRequest", buffer=IDS | buffer))

    def delete(call: int, *buffers: int, flags: int = 0) -> bytes:
        return frame(REQUEST, "Buffer.Delete", call, wire.make("DeleteRequest", buffers=[IDS | buffer for buffer in buffers]), b"", flags)

    pair = bytes(8)
    inline = dict(position=0, type=dict(dtype=11, dims=[2]), data_bytes=8)
    bodies = [
        hello(),
        hello(7) + b"".join(frame(REQUEST, method, 2 + i) for i, method in enumerate(wire.methods())),
        hello() + upload(2, 1, 11, [2], pair) + download(3, 1) + frame(REQUEST, "Session.Sync", 4) + frame(REQUEST, "Session.Close", 5)
        + frame(REQUEST, "Session.Open", 6) + download(7, 1),
        hello(credit=100) + upload(2, 1, 6, [70_000], bytes(70_000)) + download(3, 1)
        + frame(CREDIT, "Buffer.Download", 3, wire.make("Credit", bytes=1000)) + frame(CANCEL, "Buffer.Download", 3) + delete(4, 1),
        hello(credit=2**62) + upload(2, 1, 6, [70_000], bytes(70_000)) + download(3, 1) + delete(4, 1, flags=QUIET) + download(5, 1),
        hello() + frame(REQUEST, "Buffer.Upload", 2, wire.make("UploadRequest", buffer=IDS | 1, type=dict(dtype=6, dims=[100_000]),
                                                               data_bytes=100_000), deadline_ns=10**6)
        + frame(ITEM, "Buffer.Upload", 2, b"", bytes(2000)) + download(3, 1) + frame(CANCEL, "Buffer.Upload", 2),
        hello() + compile_(2, 1, b"junk!", QUIET) + execute(3, 1, [1], [2]) + delete(4, 1, 2) + frame(REQUEST, "Session.Sync", 5),
        hello() + header(REQUEST, 0x0301, 2, 1 << 20),
        hello()[:40],
        hello() + b"junk" * 10,
        hello() + header(REQUEST, 0x0102, 2, 0, 0, 0x20) + header(REQUEST, 0x0102, 2),
        hello() + frame(REQUEST, "Runtime.DefaultAssignment", 2, wire.make("DefaultAssignmentRequest", num_replicas=2, num_partitions=1)),
        hello() + upload(2, 1, 21, [2, 3], bytes([0xF8, 1, 2, 7, 0, 0xFF])) + upload(3, 2, 11, [0, 5], b"")
        + frame(REQUEST, "Buffer.Stat", 4, wire.make("BufferRequest", buffer=IDS | 1)) + download(5, 1) + download(6, 2),
    ]
    for kind in b"mdwpfnzt":
        outputs = {ord("n"): [], ord("z"): list(range(10, 30)), ord("t"): [10, 11]}.get(kind, [10])
        args = {ord("n"): [], ord("z"): [], ord("t"): [1, 2]}.get(kind, [1])
        body = hello() + compile_(2, 1, bytes([kind])) + upload(3, 1, 11, [2], pair) + upload(4, 2, 11, [2], pair)
        body += execute(5, 1, args, outputs) + execute(6, 1, args, [], QUIET, fetch=[0] if outputs else [])
        if args:
            body += execute(7, 1, [0] * len(args), [40 + i for i in range(len(outputs))], 0, pair, inline_args=[inline])
            slots = [dict(position=i, slot="ab"[i]) for i in range(len(args))]
            body += frame(REQUEST, "Session.Bind", 8, wire.make("BindRequest", bindings=[
                dict(slot="a", buffer=IDS | 1), dict(slot="b", buffer=IDS | 2)]))
            for i in range(3):
                body += execute(9 + i, 1, [0] * len(args), [], QUIET if i else 0, slot_args=slots,
                                feed_back=[dict(output=0, slot="a")] if outputs else [], non_donatable=[0] if i == 2 else [])
            if outputs:
                body += frame(REQUEST, "Execute.Run", 17, wire.make("RunRequest", steps=5, every=2, step=dict(
                    program=IDS | 1, args=[0] * len(args), slot_args=slots, feed_back=[dict(output=0, slot="a")], fetch=[0])))
                body += frame(REQUEST, "Execute.Run", 18, wire.make("RunRequest", steps=2**60, progress_ns=1, step=dict(
                    program=IDS | 1, args=[0] * len(args), slot_args=slots, feed_back=[dict(output=0, argument=0)])))
                body += frame(CANCEL, "Execute.Run", 18)
            body += frame(REQUEST, "Session.Publish", 34, wire.make("PublishRequest", name="model", everybody=True))
            body += frame(REQUEST, "Session.Borrow", 35, wire.make("BorrowRequest", name="model", slots=[
                {"slot": "a", "as": "c"}])) + frame(REQUEST, "Session.Published", 36)
            body += frame(REQUEST, "Session.Slots", 37) + frame(REQUEST, "Session.Lookup", 38, wire.make("LookupRequest", bindings=[
                dict(slot="a", buffer=IDS | 50), dict(slot="x", buffer=IDS | 51)])) + download(39, 50) + download(40, 51)
            body += frame(REQUEST, "Session.Unbind", 41, wire.make("UnbindRequest", slots=["b", "x"]))
        body += b"".join(download(42 + i, output) for i, output in enumerate(outputs[:3])) + delete(60, 1, *outputs[:1])
        body += frame(REQUEST, "Program.Describe", 61, wire.make("ProgramRequest", program=IDS | 1))
        body += frame(REQUEST, "Program.Release", 62, wire.make("ReleaseRequest", programs=[IDS | 1])) + execute(63, 1, args, [90])
        bodies.append(body)
    bodies.append(hello() + compile_(2, 1, b"m", options=dict(num_replicas=2, device_assignment=[0, 1],
                                                              overrides=[dict(name="xla_dump_to", text="/x")])))
    for body in bodies:
        yield bytes([first]) + body
        first = (first + 5) % 16
    # A client that comes back to its session. Each first byte: see fuzz_frame_stream.c.
    kept = frame(REQUEST, "Session.Open", 2, wire.make("SessionOpenRequest", name="a"))
    upload_request = wire.make("UploadRequest", buffer=IDS | 1, type=dict(dtype=6, dims=[66_000]), data_bytes=66_000)
    cut = frame(REQUEST, "Buffer.Upload", 3, upload_request) + frame(ITEM, "Buffer.Upload", 3, b"", bytes(30_000))
    cut += header(ITEM, wire.methods()["Buffer.Upload"].number, 3, 0, 30_000) + bytes(10_000)
    for join, resume in ((False, False), (True, False), (False, True)):
        attach = frame(REQUEST, "Session.Attach", 11, wire.make("SessionAttachRequest", name="a", join=join, resume=resume))
        again = frame(REQUEST, "Runtime.Hello", 10, wire.make("HelloRequest", min_version=1, max_version=1)) + attach
        listed = frame(REQUEST, "Session.List", 12, wire.make("SessionListRequest", buffers=3))
        rest = frame(ITEM, "Buffer.Upload", 3, b"", bytes(36_000)) if resume else b""
        after = again + rest + listed + download(13, 1) + frame(REQUEST, "Session.Sync", 14)
        for style in (16, 16 | 4, 16 | 32, 16 | 8 | 32):
            yield bytes([style]) + hello() + kept + upload(3, 1, 11, [2], pair) + download(4, 1) + after
            yield bytes([style]) + hello() + kept + cut + after
    yield bytes([0]) + hello() + kept + cut
    for request in (dict(name="a", create=True), dict(name="a"), dict(token="x" * 43), dict(create=True, join=True, resume=True)):
        attach = frame(REQUEST, "Session.Attach", 2, wire.make("SessionAttachRequest", **request))
        yield bytes([1]) + hello() + attach + frame(REQUEST, "Session.Close", 3, wire.make("SessionCloseRequest", name="a"))


if __name__ == "__main__":
    write("frame-header", headers())
    write("request-messages", requests())
    write("frame-stream", streams())
    write("grpc-channel", streams())
