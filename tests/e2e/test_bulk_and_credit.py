"""Bulk in both directions: sizes around every limit, credit, items that do not belong, and contents that stay intact."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

import pjrtd
import wire_messages as wire
from bystander import Bystander
from daemon import PATIENCE, Daemon
from raw_frames import (CANCELLED, CREDIT, ERROR, INVALID_ARGUMENT, ITEM, REPLY, RESOURCE_EXHAUSTED, CallFailed, Closed,
                        RawClient, frame, header)

RUN_OVER = ["unix", "channel"]

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

UPLOAD = wire.methods()["Buffer.Upload"].number
KIB, MIB = 1 << 10, 1 << 20


# How a frame that breaks the rules shows: an ERROR, or no more than the end of the connection.
BROKEN = (CallFailed, Closed, BrokenPipeError, ConnectionResetError)


def expect_refusal(error: Exception) -> None:
    if isinstance(error, CallFailed):
        assert error.code == INVALID_ARGUMENT, error


def pattern(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("size", [0, 1, 4095, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB - 1, MIB, MIB + 1, 4 * MIB, 5 * MIB + 3, 17 * MIB])
def test_sizes_around_every_limit(client: RawClient, size: int) -> None:
    data = pattern(size)
    buffer = client.upload("u8", [size], data)
    assert client.download(buffer) == data
    stat = client.call("Buffer.Stat", buffer=buffer)
    assert stat.host_bytes == size and list(stat.type.dims) == [size]


def test_the_hello_states_the_limits(client: RawClient) -> None:
    assert client.hello.max_payload_bytes == MIB
    assert client.hello.max_inline_bytes == 64 * KIB
    assert client.hello.max_item_bytes == MIB
    assert client.hello.upload_credit_bytes >= MIB
    assert client.hello.max_calls_in_flight > 0


@pytest.mark.parametrize("size", [64 * KIB + 1, 8 * MIB])
@pytest.mark.parametrize("item_bytes", [4 * KIB + 1, 100 * KIB, MIB])
def test_items_of_any_size(client: RawClient, size: int, item_bytes: int) -> None:
    data = pattern(size)
    assert client.download(client.upload("u8", [size], data, item_bytes=item_bytes)) == data


def test_items_of_one_byte(client: RawClient) -> None:
    data = pattern(64 * KIB + 5)
    buffer = client.new_buffer()
    call = client.start("Buffer.Upload", buffer=buffer, data_bytes=len(data), type=dict(dtype=6, dims=[len(data)]))
    client.send_bytes(b"".join(header(ITEM, UPLOAD, call, 0, 1) + bytes([byte]) for byte in data))
    client.reply(call, "Buffer.Upload")
    assert client.download(buffer) == data


def test_a_small_upload_may_come_as_items_too(client: RawClient) -> None:
    """Up to 64 KiB may be inline; a sender that always uses items is either served or told."""
    buffer = client.new_buffer()
    call = client.start("Buffer.Upload", buffer=buffer, data_bytes=8, type=dict(dtype=6, dims=[8]))
    client.send_control(ITEM, call, bulk=b"01234567", method="Buffer.Upload")
    got = client.receive_of(call)
    if got.kind == REPLY:
        assert client.download(buffer) == b"01234567"


def test_both_clients_move_8_mebibytes(client: RawClient, target: str) -> None:
    values = np.arange(2097152, dtype=np.float32)
    buffer = client.upload("f32", [2097152], values.tobytes())
    assert client.download(buffer) == values.tobytes()
    with pjrtd.Client.create(target) as python:
        with python.buffer_from_host(values) as mine:
            assert (mine.numpy() == values).all()


def test_interleaved_uploads_keep_apart(client: RawClient) -> None:
    """Items of several calls, small calls and deletes between them."""
    sizes = [MIB + 17, 2 * MIB, 64 * KIB + 1, 3 * MIB - 5]
    data = [pattern(size, seed) for seed, size in enumerate(sizes)]
    buffers = [client.new_buffer() for _ in sizes]
    calls = [client.start("Buffer.Upload", buffer=buffer, data_bytes=size, type=dict(dtype=6, dims=[size]))
             for buffer, size in zip(buffers, sizes, strict=True)]
    source = random.Random(5)
    sent = [0] * len(sizes)
    while any(done < size for done, size in zip(sent, sizes, strict=True)):
        which = source.choice([i for i, size in enumerate(sizes) if sent[i] < size])
        part = data[which][sent[which] : sent[which] + source.randint(1, 300_000)]
        client.send_control(ITEM, calls[which], bulk=part, method="Buffer.Upload")
        sent[which] += len(part)
        if source.random() < 0.3:
            assert client.call("Runtime.Info").pid
    for call in calls:
        client.reply(call, "Buffer.Upload")
    for buffer, right in zip(buffers, data, strict=True):
        assert client.download(buffer) == right


def test_interleaved_downloads_keep_apart(client: RawClient) -> None:
    data = [pattern(size, size) for size in (3 * MIB, 70_000, 5 * MIB + 1, 10)]
    buffers = [client.upload("u8", [len(part)], part) for part in data]
    calls = [client.start("Buffer.Download", buffer=buffer) for buffer in buffers]
    assert client.call("Runtime.Info").pid, "a small call does not wait behind the bulk for ever"
    for call, right in reversed(list(zip(calls, data, strict=True))):
        assert client.finish_download(call) == right


def test_quiet_downloads_are_an_answer_or_refused(client: RawClient) -> None:
    buffer = client.upload("u8", [10], b"0123456789")
    call = client.start("Buffer.Download", buffer=buffer, quiet=True)
    sync = client.call("Session.Sync")
    if sync.failed_call == call:
        assert sync.error.code == INVALID_ARGUMENT
    assert client.download(buffer) == b"0123456789"


# -- credit --------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 100, 64 * KIB, MIB, 3 * MIB + 1])
def test_a_download_stays_within_its_window(daemon: Daemon, window: int) -> None:
    data = pattern(8 * MIB)
    with daemon.connect(download_credit_bytes=window) as client:
        buffer = client.upload("u8", [len(data)], data)
        call = client.start("Buffer.Download", buffer=buffer)
        assert client.answer(call).bulk == b""
        received = b""
        while len(received) < window:
            received += client.receive_of(call).bulk
        assert len(received) == window
        assert not client.has_input(0.2), "more than the window was sent"
        assert client.call("Runtime.Info").pid
        client.grant(call, 1000)
        while len(received) < window + 1000:
            received += client.receive_of(call).bulk
        assert not client.has_input(0.1)
        client.grant(call, 2**40)
        while len(received) < len(data):
            received += client.receive_of(call).bulk
        assert received == data


def test_credit_may_come_before_it_is_needed_and_after_the_end(client: RawClient) -> None:
    buffer = client.upload("u8", [100_000], pattern(100_000))
    call = client.start("Buffer.Download", buffer=buffer)
    client.grant(call, 10)
    assert client.finish_download(call) == pattern(100_000)
    for _ in range(3):
        client.grant(call, 2**64 - 1)
    client.grant(call, 0)
    assert client.download(buffer) == pattern(100_000)


def test_credit_that_overflows(daemon: Daemon) -> None:
    """2**64 - 1 twice is as good as unlimited, or a broken frame: never a small number."""
    data = pattern(12 * MIB)
    with daemon.connect(download_credit_bytes=1000) as client:
        buffer = client.upload("u8", [len(data)], data)
        call = client.start("Buffer.Download", buffer=buffer)
        client.grant(call, 2**64 - 1)
        client.grant(call, 2**64 - 1)
        try:
            assert client.finish_download(call) == data
        except BROKEN as error:
            expect_refusal(error)


def test_credit_and_cancel_for_calls_that_are_not_there(client: RawClient) -> None:
    """They cross answers on the way, so they are ignored."""
    ended = client.start("Runtime.Info")
    client.reply(ended, "Runtime.Info")
    for call in (ended, 1):
        client.grant(call, 5, method="Runtime.Info")
        client.cancel(call, "Runtime.Info")
    assert client.call("Runtime.Info").pid


@pytest.mark.parametrize("kind", [ITEM, CREDIT])
def test_frames_for_a_call_that_never_was(daemon: Daemon, kind: int) -> None:
    """Dropped, or the end of this connection; of no other."""
    with daemon.connect() as client:
        if kind == ITEM:
            client.send_control(ITEM, 10**9, bulk=bytes(1000), method="Buffer.Upload")
        else:
            client.grant(10**9, 1000)
        try:
            client.last_call = 10**9
            assert client.call("Runtime.Info").pid
        except (Closed, BrokenPipeError, ConnectionResetError):
            pass


def test_items_for_calls_that_take_none(daemon: Daemon) -> None:
    for method in ("Runtime.Info", "Buffer.Download", "Execute.Execute"):
        with daemon.connect() as client:
            buffer = client.upload("u8", [8 * MIB], bytes(8 * MIB))
            call = client.start("Buffer.Download", buffer=buffer) if method == "Buffer.Download" else client.start(method)
            client.send_control(ITEM, call, bulk=bytes(100), method=method)
            try:
                if method == "Buffer.Download":
                    assert client.finish_download(call) == bytes(8 * MIB)
                else:
                    client.receive_of(call)
                client.call("Session.Sync")
            except BROKEN as error:
                expect_refusal(error)


@pytest.mark.parametrize("extra", [1, 1000, MIB])
def test_more_items_than_announced(daemon: Daemon, extra: int) -> None:
    """The last item reaches beyond data_bytes: a broken frame or a failed call, and not one byte too many is kept."""
    with daemon.connect() as client:
        size = 64 * KIB + 100
        buffer = client.new_buffer()
        call = client.start("Buffer.Upload", buffer=buffer, data_bytes=size, type=dict(dtype=6, dims=[size]))
        client.send_control(ITEM, call, bulk=bytes(size - 50), method="Buffer.Upload")
        try:
            client.send_control(ITEM, call, bulk=bytes(50 + min(extra, MIB - 50)), method="Buffer.Upload")
            got = client.receive()
            while got.kind == CREDIT:
                got = client.receive()
            assert got.kind == ERROR
            error = wire.message_class("Error").FromString(got.payload)
            assert error.code == INVALID_ARGUMENT, error
        except BROKEN as error:
            expect_refusal(error)


def test_items_after_the_last_one(client: RawClient) -> None:
    size = 64 * KIB + 100
    data = pattern(size)
    buffer, call = client.start_upload("u8", [size], data)
    client.send_control(ITEM, call, bulk=b"late", method="Buffer.Upload")
    try:
        client.reply(call, "Buffer.Upload")
        assert client.download(buffer) == data
    except BROKEN as error:
        expect_refusal(error)


def test_items_of_a_call_that_failed_are_dropped(client: RawClient) -> None:
    size = 3 * MIB
    call = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=size, type=dict(dtype=6, dims=[size - 1]))
    for _ in range(3):
        client.send_control(ITEM, call, bulk=bytes(MIB), method="Buffer.Upload")
    assert client.failure_of(call).code == INVALID_ARGUMENT
    assert client.download(client.upload("u8", [3], b"abc")) == b"abc"


def test_an_item_with_a_payload(daemon: Daemon) -> None:
    """Uploads are raw bulk; a payload in an item is ignored or refused."""
    with daemon.connect() as client:
        size = 64 * KIB + 100
        data = pattern(size)
        buffer = client.new_buffer()
        call = client.start("Buffer.Upload", buffer=buffer, data_bytes=size, type=dict(dtype=6, dims=[size]))
        client.send_control(ITEM, call, b"\x08\x01", data, method="Buffer.Upload")
        try:
            client.reply(call, "Buffer.Upload")
            assert client.download(buffer) == data
        except (CallFailed, Closed, BrokenPipeError, ConnectionResetError):
            pass


def test_an_end_in_the_middle_of_an_upload(daemon: Daemon) -> None:
    with daemon.connect() as client:
        buffer = client.new_buffer()
        call = client.start("Buffer.Upload", buffer=buffer, data_bytes=MIB, type=dict(dtype=6, dims=[MIB]))
        client.send_control(ITEM, call, bulk=bytes(1000), method="Buffer.Upload")
        client.send_bytes(frame(5, "Buffer.Upload", call))
        try:
            client.cancel(call, "Buffer.Upload")
            assert client.failure_of(call).code in (INVALID_ARGUMENT, CANCELLED)
            assert client.failure("Buffer.Download", buffer=buffer).code in (INVALID_ARGUMENT, CANCELLED)
        except (Closed, BrokenPipeError, ConnectionResetError):
            pass


def test_a_wrong_method_in_the_frames_of_a_call(daemon: Daemon) -> None:
    """The method stands in every frame of the call; a contradiction is refused or has no effect on another call."""
    with daemon.connect() as client:
        buffer = client.new_buffer()
        call = client.start("Buffer.Upload", buffer=buffer, data_bytes=MIB, type=dict(dtype=6, dims=[MIB]))
        client.send_control(ITEM, call, bulk=bytes(1000), method="Program.Compile")
        try:
            client.cancel(call, "Program.Compile")
            assert client.failure_of(call).code in (CANCELLED, INVALID_ARGUMENT)
        except (Closed, BrokenPipeError, ConnectionResetError):
            pass


@pytest.mark.parametrize("payload", [b"", b"\x08", b"\xff" * 10, b"\x08\x00", b"\x10\x05", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"])
def test_credits_that_do_not_decode(daemon: Daemon, payload: bytes) -> None:
    with daemon.connect(download_credit_bytes=1000) as client:
        buffer = client.upload("u8", [MIB], bytes(MIB))
        call = client.start("Buffer.Download", buffer=buffer)
        client.send_control(CREDIT, call, payload, method="Buffer.Download")
        try:
            assert client.finish_download(call) == bytes(MIB)
        except (Closed, CallFailed, BrokenPipeError, ConnectionResetError):
            pass


def test_cancel_in_the_middle_of_a_download(daemon: Daemon) -> None:
    """What comes last is an ERROR in the place of items; the buffer is untouched."""
    data = pattern(16 * MIB)
    with daemon.connect(download_credit_bytes=2 * MIB) as client:
        buffer = client.upload("u8", [len(data)], data)
        for pieces in (0, 1, 2):
            call = client.start("Buffer.Download", buffer=buffer)
            client.answer(call)
            for _ in range(pieces):
                assert client.receive_of(call).kind == ITEM
            client.cancel(call, "Buffer.Download")
            got = client.receive_of(call)
            while got.kind == ITEM:
                got = client.receive_of(call)
            assert got.kind == ERROR
            assert wire.message_class("Error").FromString(got.payload).code == CANCELLED
        assert client.download(buffer) == data


def test_deleting_during_a_download(client: RawClient) -> None:
    data = pattern(16 * MIB)
    buffer = client.upload("u8", [len(data)], data)
    call = client.start("Buffer.Download", buffer=buffer)
    client.call("Buffer.Delete", buffers=[buffer])
    assert client.finish_download(call) == data


def test_donating_during_a_download(client: RawClient) -> None:
    """The download was admitted first: it sees the value from before the donation, whole."""
    count = 4 * MIB
    program = client.compile(f"""
        func.func public @main(%a: tensor<{count}xf32> {{tf.aliasing_output = 0 : i32}}) -> tensor<{count}xf32> {{
          %0 = stablehlo.negate %a : tensor<{count}xf32>
          return %0 : tensor<{count}xf32>
        }}""")
    values = np.arange(1, count + 1, dtype=np.float32)
    buffer = client.upload("f32", [count], values.tobytes())
    call = client.start("Buffer.Download", buffer=buffer)
    (negated,), execute_call = client.start_execute(program, [buffer])
    assert client.finish_download(call) == values.tobytes()
    client.reply(execute_call, "Execute.Execute")
    assert client.download(negated) == (-values).tobytes()


def test_the_host_memory_for_uploads_is_bounded(daemon: Daemon, bystander: Bystander) -> None:
    """A client that announces much and sends little does not tie memory up for what it did not send... for long."""
    with daemon.connect() as client:
        calls = []
        for _ in range(64):
            calls.append(client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=1 << 30, type=dict(dtype=6, dims=[1 << 30])))
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and client.has_input(0.05):
            pass
        bystander.check()
        assert daemon.resident_bytes() < 2 << 30
    daemon.settled(lambda now: now["connections"] == 2)


def test_too_many_calls_in_flight(over: str) -> None:
    with Daemon(over=over, settings={"max_calls_in_flight": 8}) as daemon:
        with daemon.connect() as client:
            assert client.hello.max_calls_in_flight == 8
            slow = client.new_buffer()
            upload = client.start("Buffer.Upload", buffer=slow, data_bytes=MIB, type=dict(dtype=6, dims=[MIB]))
            waiting = [client.start("Buffer.Download", buffer=slow) for _ in range(20)]
            refused = [call for call in waiting if call not in waiting[:7]]
            for call in refused:
                assert client.failure_of(call).code == RESOURCE_EXHAUSTED
            client.send_items(upload, "Buffer.Upload", bytes([3]) * MIB, client.hello.upload_credit_bytes)
            for call in waiting[:7]:
                assert client.finish_download(call) == bytes([3]) * MIB
            assert client.call("Runtime.Info").pid == daemon.pid


@pytest.mark.big
@pytest.mark.over("unix")
def test_over_2_gibibytes() -> None:
    over_2_gibibytes("unix")


@pytest.mark.big
@pytest.mark.soak  # half a minute, most of it in the test's own gRPC library
@pytest.mark.over("channel")
def test_over_2_gibibytes_over_grpc() -> None:
    over_2_gibibytes("channel")


def over_2_gibibytes(over: str) -> None:
    """An int32 anywhere on the way would show: s8[2**31 + 4096] up, two elements and all of it down, by both clients."""
    size = 2**31 + 4096
    slice_two = f"""
        func.func @main(%a: tensor<{size}xi8>) -> tensor<2xi8> {{
          %0 = stablehlo.slice %a [{size - 1}:{size}] : (tensor<{size}xi8>) -> tensor<1xi8>
          %1 = stablehlo.slice %a [{2**31}:{2**31 + 1}] : (tensor<{size}xi8>) -> tensor<1xi8>
          %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi8>, tensor<1xi8>) -> tensor<2xi8>
          return %2 : tensor<2xi8>
        }}"""
    data = np.zeros(size, np.int8)
    data[2**31], data[-1] = 7, 42
    data[::65537] += 1
    right = [int(data[-1]), int(data[2**31])]
    assert right[0] in (42, 43) and right[1] in (7, 8)
    with Daemon(over=over) as daemon:
        baseline = daemon.settled()
        resident = daemon.resident_bytes()
        with daemon.connect(timeout=120 * PATIENCE) as client:
            program = client.compile(slice_two)
            buffer = client.upload("s8", [size], memoryview(data))
            assert client.call("Buffer.Stat", buffer=buffer).host_bytes == 2147487744
            assert list(client.download(client.execute(program, [buffer])[0])) == right
            call = client.start("Buffer.Download", buffer=buffer)
            reply = client.reply(call, "Buffer.Download")
            assert reply.data_bytes == size
            position = 0
            while position < size:
                item = client.receive_of(call)
                assert item.kind == ITEM
                assert item.bulk == data[position : position + len(item.bulk)].tobytes(), position
                position += len(item.bulk)
                client.grant(call, len(item.bulk))
        daemon.expect_balance(baseline, seconds=30)
        with pjrtd.Client.create(daemon.target) as python:
            with python.buffer_from_host(data) as mine:
                assert mine.nbytes == 2147487744
                (two,) = python.compile(slice_two)(mine)
                assert two.numpy().tolist() == right
                back = np.empty(size, np.int8)
                mine.to_host(back)
                for start in range(0, size, 16 * MIB):
                    assert np.array_equal(back[start : start + 16 * MIB], data[start : start + 16 * MIB]), start
                del back
        daemon.expect_balance(baseline, seconds=30)
        with daemon.connect(timeout=120 * PATIENCE) as client:
            client.upload("s8", [16], bytes(16))
            call = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=size, type=dict(dtype=2, dims=[size]))
            half = memoryview(data)[: size // 2]
            client.send_items(call, "Buffer.Upload", half, client.hello.upload_credit_bytes)
        daemon.expect_balance(baseline, seconds=30)
        give_up = time.monotonic() + 10 * PATIENCE
        while daemon.resident_bytes() > resident + (256 << 20):
            assert time.monotonic() < give_up, "the memory of a client that left halfway was kept"
            time.sleep(0.1)
