"""Frames that break the rules get an error that names the fault, and a closed connection; nobody else notices."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time

import pytest

import wire_messages as wire
from bystander import Bystander
from daemon import PATIENCE, Daemon
from raw_frames import (CANCEL, CREDIT, END, ERROR, FAILED_PRECONDITION, INVALID_ARGUMENT, ITEM, REPLY, REQUEST,
                        UNIMPLEMENTED, CallFailed, Closed, Frame, RawClient, deadline, frame, header)

RUN_OVER = ["unix", "channel"]

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

# What cannot be said in frames of `Channel`: bytes.
bytewise = pytest.mark.over("unix")

INFO = wire.methods()["Runtime.Info"].number
UPLOAD = wire.methods()["Buffer.Upload"].number


def errors_of(frames: list[Frame]) -> list:  # noqa: ANN201
    return [wire.message_class("Error").FromString(got.payload) for got in frames if got.kind == ERROR]


def expect_cut_off(client: RawClient, within: float = 5.0) -> list:
    """The daemon answers with an ERROR and closes. The errors."""
    with deadline(within * PATIENCE, "closing a broken connection"):
        frames = client.receive_until_closed()
    found = errors_of(frames)
    assert found, f"closed without an ERROR frame: {frames}"
    assert all(error.message and 1 <= error.code <= 16 for error in found)
    return found


NO_HEADER = {
    "wrong magic": header(method=INFO, magic=b"TRJP"),
    "no magic": bytes(32),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls hello": b"\x16\x03\x01\x02\x00\x01" + bytes(40),
    "payload of 4 GiB": header(method=INFO, payload_bytes=2**32 - 1),
    "bulk of 4 GiB": header(method=UPLOAD, bulk_bytes=2**32 - 1),
}
BROKEN = {
    "payload of 1 MiB + 1": header(method=INFO, payload_bytes=(1 << 20) + 1) + bytes((1 << 20) + 1),
    "inline bulk of 64 KiB + 1": header(method=UPLOAD, bulk_bytes=(64 << 10) + 1) + bytes((64 << 10) + 1),
    "item bulk of 1 MiB + 1": header(ITEM, UPLOAD, bulk_bytes=(1 << 20) + 1) + bytes((1 << 20) + 1),
    "empty item": header(ITEM, UPLOAD),
    "bulk in a cancel": header(CANCEL, INFO, bulk_bytes=1) + b"x",
    "bulk in a credit": header(CREDIT, INFO, bulk_bytes=100) + bytes(100),
    "bulk in an end": header(END, INFO, bulk_bytes=1) + b"x",
    "kind 0": header(0, INFO),
    "kind 9": header(9, INFO),
    "kind 255": header(255, INFO),
    "flag bit 1": header(method=INFO, flags=2),
    "flag bit 2": header(method=INFO, flags=4),
    "flag bit 3": header(method=INFO, flags=8),
    "quiet item": header(ITEM, UPLOAD, bulk_bytes=1, flags=1) + b"x",
    "deadline in a cancel": header(CANCEL, INFO, deadline_ns=1),
    "call id 0": header(method=INFO, call=0),
    "item of call 0": header(ITEM, UPLOAD, call=0, bulk_bytes=1) + b"x",
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("greeted", [True, False], ids=["after hello", "as the first frame"])
def test_a_broken_header(daemon: Daemon, fault: str, greeted: bool) -> None:
    send_a_fault(daemon, BROKEN[fault], greeted)


@bytewise
@pytest.mark.parametrize("fault", NO_HEADER)
@pytest.mark.parametrize("greeted", [True, False], ids=["after hello", "as the first frame"])
def test_what_is_no_header(daemon: Daemon, fault: str, greeted: bool) -> None:
    send_a_fault(daemon, NO_HEADER[fault], greeted)


def send_a_fault(daemon: Daemon, data: bytes, greeted: bool) -> None:
    with daemon.connect(hello=greeted) as client:
        before = daemon.stats().wire_errors
        if data[:4] == b"PJRT" and data[16:24] == struct.pack("<Q", 1) and greeted:
            data = data[:16] + struct.pack("<Q", 2) + data[24:]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the answer comes before the end of it
            client.send_bytes(data)
        expect_cut_off(client)
        assert daemon.stats().wire_errors > before


@pytest.mark.parametrize("kind", [REPLY, ERROR])
def test_kinds_that_only_the_daemon_sends(client: RawClient, kind: int) -> None:
    client.send_bytes(frame(kind, INFO, 2))
    expect_cut_off(client)


@pytest.mark.parametrize("call", [1, 0, 2**64 - 1])
def test_call_ids_that_do_not_increase(client: RawClient, call: int) -> None:
    client.send("Runtime.Info", call=10)
    client.answer(10)
    client.send_bytes(frame(REQUEST, "Runtime.Info", call if call != 2**64 - 1 else 10))
    expect_cut_off(client)


def test_the_largest_call_id_is_refused_or_the_last(client: RawClient) -> None:
    client.send("Runtime.Info", call=2**64 - 2)
    client.answer(2**64 - 2)
    client.send_bytes(frame(REQUEST, "Runtime.Info", 2**64 - 1) + frame(REQUEST, "Runtime.Info", 2**64 - 1))
    expect_cut_off(client)


@pytest.mark.parametrize("method", [0, 1, 0x0100, 0x0106, 0x02FF, 0x0305, 0x0601, 0x0702, 0x7FFF, 0xFFFF])
def test_an_unknown_method_fails_its_own_call(client: RawClient, method: int) -> None:
    failed = client.failure_of(client.send(method, b"\x08\x01"))
    assert failed.code == UNIMPLEMENTED, failed
    assert client.call("Runtime.Info").pid


def test_an_unknown_method_with_bulk_and_quiet(client: RawClient) -> None:
    call = client.send(0x0999, b"", bytes(1000), flags=1)
    assert client.failure_of(call).code == UNIMPLEMENTED
    assert client.call("Session.Sync").failed_call == call


@pytest.mark.parametrize("method", sorted(set(wire.methods()) - {"Runtime.Hello"}))
def test_the_first_frame_has_to_be_hello(daemon: Daemon, method: str) -> None:
    with daemon.connect(hello=False) as client:
        call = client.send(method)
        failed = client.failure_of(call)
        assert failed.code == FAILED_PRECONDITION and "ello" in failed.message


def test_a_second_hello_is_refused(client: RawClient) -> None:
    failed = client.failure("Runtime.Hello", min_version=1, max_version=1)
    assert failed.code in (FAILED_PRECONDITION, INVALID_ARGUMENT)


@pytest.mark.parametrize("low,high", [(2, 3), (0, 0), (1000, 2**32 - 1), (3, 14), (2, 1), (2**32 - 1, 0)])
def test_versions_without_overlap_name_both_ranges(daemon: Daemon, low: int, high: int) -> None:
    with daemon.connect(hello=False) as client:
        failed = client.failure("Runtime.Hello", min_version=low, max_version=high, client_name="old")
        assert failed.code in (UNIMPLEMENTED, INVALID_ARGUMENT, FAILED_PRECONDITION)
        text = failed.message + failed.detail.hint
        assert "1" in text and str(low) in text and str(high) in text, text
        if low <= high and high:
            assert "pgrade" in text or "pdate" in text, text


def test_overlapping_versions_agree_on_the_common_one(daemon: Daemon) -> None:
    for low, high in ((0, 1), (1, 5), (0, 2**32 - 1)):
        with daemon.connect(hello=False) as client:
            assert client.call("Runtime.Hello", min_version=low, max_version=high).version == 1


@pytest.mark.parametrize("name", ["", "x" * 100_000, "line\nbreak\r\x1b[31mred\x07", "\u202eright\0left", "é" * 1000, "a=b c=\"d\""])
def test_client_names_are_only_words(daemon: Daemon, name: str) -> None:
    """Long ones may be refused; none breaks a line of the log."""
    with daemon.connect(hello=False) as client:
        try:
            client.call("Runtime.Hello", min_version=1, max_version=1, client_name=name)
        except CallFailed as failed:
            assert failed.code == INVALID_ARGUMENT and len(name) > 1000
    log = daemon.log_path.read_bytes()
    assert b"\x1b" not in log and b"\r" not in log and b"\x07" not in log and b"\0" not in log
    for line in log.decode().splitlines():
        assert line.startswith(("time=", "{")) or "level=" in line, line


def test_a_name_that_is_not_utf8(daemon: Daemon) -> None:
    with daemon.connect(hello=False) as client:
        client.send("Runtime.Hello", b"\x08\x01\x10\x01\x1a\x04\xff\xfe\x80\x01")
        assert client.receive().kind in (REPLY, ERROR)


@bytewise
@pytest.mark.parametrize("cut", [1, 3, 4, 16, 31, 32, 33, 40])
def test_a_truncated_frame_then_the_end(daemon: Daemon, client: RawClient, cut: int) -> None:
    request = frame(REQUEST, "Buffer.Stat", 2, wire.make("BufferRequest", buffer=2**60 + 1))
    client.send_bytes(request[:cut])
    client.socket.shutdown(socket.SHUT_WR)
    with deadline(5 * PATIENCE, "noticing the end"):
        frames = client.receive_until_closed()
    assert all(got.kind == ERROR for got in frames)


@bytewise
def test_frames_in_pieces_of_one_byte(client: RawClient) -> None:
    data = frame(REQUEST, "Runtime.Info", 2) + frame(REQUEST, "Buffer.Upload", 3, wire.make(
        "UploadRequest", buffer=client.new_buffer(), type=dict(dtype=6, dims=[5]), data_bytes=5), b"hello")
    for byte in data:
        client.send_bytes(bytes([byte]))
    client.last_call = 3
    assert client.reply(2, "Runtime.Info").pid
    client.reply(3, "Buffer.Upload")
    assert client.download(client.hello.id_prefix << 48 | 1) == b"hello"


def test_many_frames_in_one_write(client: RawClient) -> None:
    batch = b"".join(frame(REQUEST, "Buffer.Upload", 2 + i, wire.make(
        "UploadRequest", buffer=client.new_buffer(), type=dict(dtype=6, dims=[3]), data_bytes=3), bytes([i % 256] * 3))
        for i in range(1000))
    client.send_bytes(batch)
    client.last_call = 1001
    for i in range(1000):
        client.reply(2 + i, "Buffer.Upload")
    for i in (0, 255, 256, 999):
        assert client.download(client.hello.id_prefix << 48 | i + 1) == bytes([i % 256] * 3)


@bytewise
@pytest.mark.parametrize("seed", range(40))
def test_64_kilobytes_of_random_bytes(daemon: Daemon, seed: int) -> None:
    source = random.Random(seed)
    with daemon.connect(hello=seed % 2 == 0) as client:
        try:
            client.send_bytes(source.randbytes(64 << 10))
        except (BrokenPipeError, ConnectionResetError):
            pass
        expect_cut_off(client)


@bytewise
@pytest.mark.parametrize("seed", range(20))
def test_random_headers_behind_a_true_magic(daemon: Daemon, seed: int) -> None:
    """Each connection ends in an error, or waits for bytes that the header promised: those are then cut."""
    source = random.Random(1000 + seed)
    with daemon.connect() as client:
        try:
            client.send_bytes(b"".join(b"PJRT" + source.randbytes(28) for _ in range(200)))
            client.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass
        client.receive_until_closed()


@pytest.mark.parametrize("method", sorted(wire.methods()))
def test_a_random_payload_fails_its_own_call(client: RawClient, method: str) -> None:
    source = random.Random(method)
    for size in (1, 2, 3, 7, 20, 100, 1000, 60_000):
        for _ in range(6):
            call = client.send(method, source.randbytes(size))
            client.receive_of(call)
    if method == "Session.Close":  # a payload that decodes closes it
        client.send("Session.Open")
        client.receive_of(client.last_call)
    assert client.call("Runtime.Info").pid


def damaged(payload: bytes, source: random.Random) -> bytes:
    out = bytearray(payload)
    for _ in range(source.randint(1, 4)):
        kind = source.randrange(4)
        at = source.randrange(len(out) + 1)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << source.randrange(8)
        elif kind == 1:
            out[at:at] = source.randbytes(source.randint(1, 9))
        elif kind == 2:
            del out[at : at + source.randint(1, 5)]
        else:
            out += out[: source.randint(0, len(out))]
    return bytes(out)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_requests_of_every_method(daemon: Daemon, seed: int) -> None:
    """Requests that are nearly right. Every one gets exactly one answer, or the connection ends with a reason."""
    source = random.Random(seed)
    with daemon.connect() as client:
        for _ in range(60):
            method, request, bulk = source.choice(plausible_requests(client))
            payload = damaged(request.SerializeToString(), source)
            bulk = bulk if source.random() < 0.7 else bulk[: source.randrange(len(bulk) + 1)]
            call = client.send(method, payload, bulk, deadline_ns=source.choice((0, 0, 0, 50_000_000)))
            client.cancel(call, method)  # an upload that lost its data must not wait for ever
            got = client.receive_of(call)
            if got.kind == REPLY and method == "Buffer.Download":
                reply = wire.message_class("DownloadReply").FromString(got.payload)
                assert reply.data_bytes == len(got.bulk)
            if method == "Session.Close" and got.kind == REPLY:
                client.call("Session.Open")
        client.call("Session.Sync")
        with contextlib.suppress(CallFailed):
            client.call("Session.Close")  # one that was to outlive its connection


def plausible_requests(client: RawClient) -> list:  # noqa: ANN201
    from case_programs import case

    text = case("add").text.encode()
    return [
        ("Runtime.DefaultAssignment", wire.make("DefaultAssignmentRequest", num_replicas=2, num_partitions=2), b""),
        ("Buffer.Upload", wire.make("UploadRequest", buffer=client.new_buffer(), type=dict(dtype=11, dims=[2, 2]), data_bytes=16, device=0), bytes(16)),
        ("Buffer.Upload", wire.make("UploadRequest", buffer=client.new_buffer(), type=dict(dtype=21, dims=[5]), data_bytes=5, memory=0), bytes(5)),
        ("Buffer.Download", wire.make("DownloadRequest", buffer=client.hello.id_prefix << 48 | 1), b""),
        ("Buffer.Stat", wire.make("BufferRequest", buffer=client.hello.id_prefix << 48 | 1), b""),
        ("Buffer.Delete", wire.make("DeleteRequest", buffers=[client.hello.id_prefix << 48 | 1, 2, 3]), b""),
        ("Program.Compile", wire.make("CompileRequest", program=client.new_program(), code_bytes=len(text),
                                      options=dict(num_replicas=1, device_assignment=[0])), text),
        ("Program.Describe", wire.make("ProgramRequest", program=client.hello.id_prefix << 48 | 1), b""),
        ("Program.Release", wire.make("ReleaseRequest", programs=[7, 8]), b""),
        ("Execute.Execute", wire.make("ExecuteRequest", program=client.hello.id_prefix << 48 | 1, args=[1, 0], outputs=[client.new_buffer()],
                                      fetch=[0], inline_args=[dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=16)]), bytes(16)),
        ("Session.Open", wire.make("SessionOpenRequest", name="n", ttl_ns=5), b""),
        ("Session.Close", wire.make("Empty"), b""),
    ]


@pytest.mark.parametrize("method", sorted(set(wire.methods()) - {"Buffer.Upload", "Program.Compile", "Execute.Execute"}))
def test_bulk_where_none_belongs(client: RawClient, method: str) -> None:
    """Refused or ignored, but never taken for the next frame."""
    call = client.send(method, b"", bytes(500))
    client.receive_of(call)
    if method == "Session.Close":
        client.send("Session.Open")
        client.receive_of(client.last_call)
    assert client.call("Runtime.Info").pid


def test_a_payload_of_one_mebibyte(client: RawClient) -> None:
    """The most that a frame carries: a list of 100k ids, unknown fields, a long name."""
    unknown = b"\xfa\x7f" + b"\xf0\xff\x3f" + bytes((1 << 20) - 16)
    call = client.send("Runtime.Info", unknown)
    client.receive_of(call)
    packed = wire.make("DeleteRequest", buffers=[2**63 + i for i in range(100_000)])
    assert packed.ByteSize() <= 1 << 20
    client.receive_of(client.send("Buffer.Delete", packed))
    many = wire.make("ExecuteRequest", program=1, args=[0] * 1_000_000)
    client.receive_of(client.send("Execute.Execute", many))
    inline = wire.make("ExecuteRequest", program=1, inline_args=[dict(position=0)] * 100_000)
    client.receive_of(client.send("Execute.Execute", inline))
    tiles = wire.make("UploadRequest", buffer=client.new_buffer(), type=dict(dtype=6, dims=[1] * 500_000), data_bytes=1)
    assert client.failure_of(client.send("Buffer.Upload", tiles, b"x")).code in (INVALID_ARGUMENT, 8)
    assert client.call("Runtime.Info").pid


@bytewise
def test_a_half_open_connection_is_closed_after_the_handshake_time() -> None:
    with Daemon(settings={"handshake_seconds": 1}) as daemon:
        other = Bystander(daemon)
        silent = daemon.connect(hello=False)
        half = daemon.connect(hello=False)
        half.send_bytes(header(method=wire.methods()["Runtime.Hello"].number)[:16])
        dripping = daemon.connect(hello=False)
        began = time.monotonic()
        hello = frame(REQUEST, "Runtime.Hello", 1, wire.make("HelloRequest", min_version=1, max_version=1))
        for waiting in (silent, half):
            waiting.receive_until_closed()
        took = time.monotonic() - began
        assert 0.5 < took < 4 * PATIENCE, took
        try:
            for byte in hello[:20]:
                dripping.send_bytes(bytes([byte]))
                time.sleep(0.1)
            dripping.receive_until_closed()
        except (BrokenPipeError, ConnectionResetError):
            pass
        other.check()
        greeted = daemon.connect()
        time.sleep(1.6)
        assert greeted.call("Runtime.Info").pid, "one that said hello may be silent for as long as it likes"
        greeted.close()
        for client in (silent, half, dripping):
            client.close()
        other.close()
        daemon.settled()


@bytewise
def test_half_a_header_does_not_hold_up_the_end(daemon: Daemon, client: RawClient, bystander: Bystander) -> None:
    client.send_bytes(header(method=INFO, call=2)[:20])
    bystander.check()
    client.send_bytes(header(method=INFO, call=2)[20:])
    assert client.reply(2, "Runtime.Info").pid


@bytewise
def test_silence_in_the_middle_of_a_payload(client: RawClient, bystander: Bystander) -> None:
    request = frame(REQUEST, "Buffer.Stat", 2, wire.make("BufferRequest", buffer=2**60 + 1))
    client.send_bytes(request[:36])
    bystander.check()
    assert not client.has_input(0.2)
    client.close()


def test_closed_means_closed(daemon: Daemon) -> None:
    """After the error nothing more is read: a good request behind a bad frame is not carried out."""
    with daemon.connect() as client:
        buffers = daemon.stats().buffers
        upload = frame(REQUEST, "Buffer.Upload", 5, wire.make("UploadRequest", buffer=client.new_buffer(),
                       type=dict(dtype=6, dims=[3]), data_bytes=3), b"abc")
        client.send_bytes(header(99, INFO, 4) + upload)
        expect_cut_off(client)
        assert daemon.stats().buffers == buffers
        with pytest.raises((Closed, BrokenPipeError, ConnectionResetError)):
            client.call("Runtime.Info")
