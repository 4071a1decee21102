"""A connection under threads, full sockets, deadlines, and peers that misbehave."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable

import pytest
from conftest import over_unix
from fake_daemon import CANCEL, CREDIT, ERROR, ITEM, REPLY, REQUEST, FakeDaemon, Frame, Peer, pack

import pjrtd
from pjrtd import errors
from pjrtd._proto import methods
from pjrtd._proto.buffer import DownloadReply
from pjrtd._proto.common import Error, TensorType
from pjrtd._proto.frame import Credit
from pjrtd.connection import Connection
from pjrtd.ids import IdSequence
from pjrtd.inbox import DOWNLOAD_CREDIT_BYTES
from pjrtd.local_transport import LocalTransport


def run_threads(count: int, work: Callable[[int], None], timeout_s: float = 60) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    stop = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0, stop - time.monotonic()))
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


# ---- ids ----


def test_ids_have_the_prefix_and_increase() -> None:
    from pjrtd._proto.wire import get_varint

    for prefix in (0, 1, 3, 0xFFFF):
        ids = IdSequence(prefix)
        values = [get_varint(data := ids.take(), 0, len(data)) for _ in range(40_000)]
        assert [value for value, _ in values] == [prefix << 48 | n for n in range(1, 40_001)]
        if prefix:
            assert len({size for _, size in values}) == 1


def test_a_prefix_of_zero_works(fake: FakeDaemon) -> None:
    fake.hello.id_prefix = 0
    with pjrtd.Client.create(fake.target) as client, client.compile("f32[],f32[]->f32[]") as exe:
        for turn in range(300):
            with client.buffer_from_host(float(turn)) as buffer:
                (out,) = exe(buffer, buffer)
                assert out.item() == turn
                out.close()


# ---- threads ----


def test_any_thread_may_wait(fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[2]->f32[2]")

    def work(number: int) -> None:
        for turn in range(60):
            (out,) = exe([float(number), float(turn)])
            assert out.tolist() == [number, turn]
            out.close()
            if turn % 10 == 0:
                data = bytes([number]) * 150_000
                with fake_client.buffer_from_host(data, "u8") as buffer:
                    assert buffer.to_host() == data

    run_threads(8, work)
    exe.close()


def test_a_long_call_of_one_thread_does_not_hold_up_the_others(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    held: list[Frame] = []

    def hold(peer: Peer, frame: Frame) -> bool:
        held.append(frame)
        return True

    fake.hooks[methods.ADMIN_STATS] = hold
    waiting = threading.Thread(target=fake_client.stats, daemon=True)
    waiting.start()
    while not held:
        time.sleep(0.01)
    started = time.monotonic()
    run_threads(4, lambda number: [fake_client.sync() for _ in range(50)] and None)
    assert time.monotonic() - started < 10
    assert waiting.is_alive()
    fake.hooks.clear()
    fake.peer.admin_stats(held[0])
    waiting.join(10)
    assert not waiting.is_alive()


def test_threads_take_turns_at_reading(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    """The reader's own answer comes first; somebody else must read on for those that sleep."""
    held: list[Frame] = []
    fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: held.append(frame) or True
    threads = [threading.Thread(target=fake_client.stats, daemon=True) for _ in range(6)]
    for number, thread in enumerate(threads):
        thread.start()
        while len(held) <= number:
            time.sleep(0.005)
    fake.hooks.clear()
    for number, thread in enumerate(threads):  # the first one is the reader
        fake.peer.admin_stats(held[number])
        thread.join(10)
        assert not thread.is_alive(), f"thread {number} was not woken"


def test_deletes_from_other_threads_and_collections(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[]->f32[]")

    def work(number: int) -> None:
        for _ in range(300):
            exe(1.0)[0].close()

    run_threads(4, work)
    fake_client.sync()
    assert fake_client.stats()["buffers"] == 0
    exe.close()


# ---- full sockets, windows ----


def test_both_sides_sockets_full_is_no_deadlock(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    """The peer answers every call with much data before it reads on, and the client sends many before it reads."""

    def chatty(peer: Peer, frame: Frame) -> bool:
        peer.send(pack(ERROR, frame.method, frame.call, Error(13, "x" * 50_000).encode()))
        return True

    fake.hooks[methods.EXECUTE] = chatty
    fake.hooks[methods.BUFFER_DELETE] = lambda peer, frame: True
    exe = fake_client.compile("u8[30000]->u8[1]")
    argument = bytes(30_000)
    for _ in range(300):
        exe(argument)[0].close()
    with pytest.raises(errors.Internal):
        fake_client.sync(timeout=30)
    exe.close()


def test_a_peer_that_does_not_read_runs_into_the_deadline(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    go_on = threading.Event()

    def stall(peer: Peer, frame: Frame) -> bool:
        go_on.wait(20)
        return False

    fake.hooks[methods.ADMIN_STATS] = stall
    threading.Thread(target=fake_client.stats, daemon=True).start()
    time.sleep(0.1)
    started = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded), pjrtd.deadline(0.3):
        fake_client.buffer_from_host(bytes(3_000_000), "u8")
    assert time.monotonic() - started < 8
    go_on.set()
    with fake_client.buffer_from_host(1.0) as buffer:
        assert buffer.item() == 1.0


def test_uploads_stay_within_the_daemons_window(fake: FakeDaemon) -> None:
    fake.hello.upload_credit_bytes = 150_000
    fake.hello.max_item_bytes = 70_000
    data = random.Random(1).randbytes(1_000_001)
    with pjrtd.Client.create(fake.target) as client, client.buffer_from_host(data, "u8") as buffer:
        assert buffer.to_host() == data  # the peer fails where it gets more than it granted
        sizes = [len(frame.bulk) or int(frame.bulk.split()[0]) for frame in fake.peer.frames if frame.kind == ITEM]
        assert len(sizes) > 10


def test_downloads_grant_credit_as_they_go(fake: FakeDaemon) -> None:
    fake.download_credit = DOWNLOAD_CREDIT_BYTES
    size = 3 * DOWNLOAD_CREDIT_BYTES + 12345
    with pjrtd.Client.create(fake.target) as client:
        data = random.Random(2).randbytes(size)
        with client.buffer_from_host(data, "u8") as buffer:
            assert buffer.to_host() == data
            out = bytearray(size)
            assert buffer.to_host(out) is out and out == data
    assert any(frame.kind == CREDIT for frame in fake.peer.frames)


def test_calls_under_way_stay_within_the_daemons_limit(fake: FakeDaemon) -> None:
    """Quiet calls are not answered, so Sync has to tell how many are left."""
    under_way = most = 0
    held: list[Frame] = []
    lock = threading.Lock()

    def count(peer: Peer, frame: Frame) -> bool:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            held.append(frame)
        return True

    def release(peer: Peer, frame: Frame) -> bool:
        nonlocal under_way
        with lock:
            under_way = 0
        time.sleep(0.002)
        peer.reply(frame)
        return True

    fake.hooks[methods.EXECUTE] = count
    fake.hooks[methods.SESSION_SYNC] = release
    fake.hooks[methods.BUFFER_DELETE] = lambda peer, frame: True
    with pjrtd.Client.create(fake.target, busy_poll_us=0) as client:
        exe = client.compile("f32[]->f32[]")
        for _ in range(1000):
            exe(1.0)[0].close()
        assert len(held) > 900
        syncs = [i for i, frame in enumerate(fake.peer.frames) if frame.kind == REQUEST and frame.method == methods.SESSION_SYNC]
        gaps = [b - a for a, b in zip(syncs, syncs[1:])]
        assert max(gaps) <= fake.hello.max_calls_in_flight / 4 + 5
        exe.close()


def test_big_quiet_calls_count_by_their_bytes(fake: FakeDaemon) -> None:
    fake.hello.max_calls_in_flight = 4096
    with pjrtd.Client.create(fake.target, busy_poll_us=0) as client:
        exe = client.compile("u8[60000]->u8[1]")
        client.sync()
        for _ in range(100):
            exe(bytes(60_000))[0].close()
        client.sync()
        seen = 0
        for frame in fake.peer.frames:
            if frame.method == methods.EXECUTE:
                seen += 60_000
            elif frame.method == methods.SESSION_SYNC:
                assert seen < 1_200_000
                seen = 0
        exe.close()


# ---- deadlines ----


def test_deadlines_travel_with_calls(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[]->f32[]")
    with fake_client.buffer_from_host(1.0) as buffer:
        with pjrtd.deadline(5.0), pjrtd.deadline(60):
            out = exe(buffer)[0]
            out.to_host()
        out.to_host(timeout=2)
        out.to_host()
        out.close()
    seen = [f.deadline_ns for f in fake.peer.frames if f.method in (methods.EXECUTE, methods.BUFFER_DOWNLOAD)]
    assert 4e9 < seen[0] <= 5e9 and 4e9 < seen[1] <= 5e9 and 1e9 < seen[2] <= 2e9 and seen[3] == 0
    exe.close()


def test_a_deadline_that_has_passed_is_not_sent(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    fake_client.sync()
    before = len(fake.peer.frames)
    with pytest.raises(errors.DeadlineExceeded, match="before the call"), pjrtd.deadline(0):
        fake_client.sync()
    with pytest.raises(errors.DeadlineExceeded):
        fake_client.buffer_from_host(1.0, timeout=0)
    assert len(fake.peer.frames) == before
    for bad in (-1, float("nan")):
        with pytest.raises(errors.InvalidArgument):
            fake_client.sync(timeout=bad)
    with pytest.raises(TypeError):
        pjrtd.deadline("1")  # type: ignore[arg-type]


def test_a_daemon_that_does_not_answer_by_the_deadline(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: True
    started = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded, match="did not answer"), pjrtd.deadline(0.2):
        fake_client.stats()
    assert 0.2 < time.monotonic() - started < 3
    fake_client.sync()
    assert any(frame.kind == CANCEL for frame in fake.peer.frames)


def test_the_answer_to_an_abandoned_call_is_dropped(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    held: list[Frame] = []
    fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: held.append(frame) or True
    with pytest.raises(errors.DeadlineExceeded), pjrtd.deadline(0.05):
        fake_client.stats()
    fake.hooks.clear()
    fake.peer.fail(held[0], 1, "cancelled")
    fake_client.sync()  # not taken for a quiet call's failure
    fake.peer.reply(held[0])  # even a second answer does no harm
    fake_client.sync()


def test_deadlines_follow_contexts_not_threads() -> None:
    from pjrtd import timeouts

    with pjrtd.deadline(10) as outer:
        assert isinstance(outer, pjrtd.deadline)
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.append(timeouts.current.get()))
        thread.start()
        thread.join()
        assert seen == [None]
        assert timeouts.current.get() is not None
    assert timeouts.current.get() is None


# ---- peers that misbehave ----

NO_FRAMES = {
    "no frame": b"HTTP/1.1 400 Bad Request\r\n\r\n....",
    "random bytes": random.Random(3).randbytes(65536),
    "an oversize payload": pack(REPLY, 1, 2)[:4] + (1 << 21).to_bytes(4, "little") + pack(REPLY, 1, 2)[8:],
}
BROKEN = {
    "a request": pack(REQUEST, methods.HELLO, 3),
    "an unknown kind": pack(9, 1, 2),
    "an error about the connection": pack(ERROR, 0, 0, Error(3, "broken frame: bad magic").encode()),
    "an error that is no message": pack(ERROR, methods.ADMIN_STATS, 99, b"\xff\xff\xff"),
    "nothing, and closes": b"",
}


@over_unix
@pytest.mark.parametrize("name", NO_FRAMES)
def test_what_is_no_frame_ends_the_connection_with_a_reason(fake: FakeDaemon, name: str) -> None:
    check_that_it_ends(fake, NO_FRAMES[name], "the daemon")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_end_the_connection_with_a_reason(fake: FakeDaemon, name: str) -> None:
    expected = {"an error about the connection": "bad magic", "nothing, and closes": "the daemon closed it"}
    check_that_it_ends(fake, BROKEN[name], expected.get(name, "the daemon"))


def check_that_it_ends(fake: FakeDaemon, said: bytes, expected: str) -> None:
    def misbehave(peer: Peer, frame: Frame) -> bool:
        peer.send(said)
        if not said:
            peer.link.shutdown(socket.SHUT_RDWR)
        return True

    fake.hooks[methods.ADMIN_STATS] = misbehave
    client = pjrtd.Client.create(fake.target, busy_poll_us=0)
    buffer = client.buffer_from_host(1.0)
    with pytest.raises(errors.PjrtError) as caught:
        client.stats(), client.sync(timeout=10)
    assert expected in str(caught.value)
    assert client.closed
    with pytest.raises(type(caught.value)):  # and it stays so
        buffer.to_host()
    buffer.close()
    client.close()


def answer_download(peer: Peer, frame: Frame, *frames: bytes) -> bool:
    peer.send(b"".join(frames))
    return True


def test_downloads_that_are_not_what_was_announced(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    type = TensorType(6, [100_000])
    with fake_client.buffer_from_host(bytes(100_000), "u8") as big, fake_client.buffer_from_host(bytes(4), "u8") as small:
        method = methods.BUFFER_DOWNLOAD

        def answer(size: int, bulk: bytes = b"") -> None:
            fake.hooks[method] = lambda peer, frame: peer.reply(frame, DownloadReply(type, size), bulk) or True

        for buffer, size, bulk in ((big, 5, b""), (big, 1 << 60, b""), (small, 4, b"12345"), (small, 5, b"12345"), (big, 100_000, b"x")):
            answer(size, bulk)
            with pytest.raises(errors.DataLoss, match="bytes"):
                buffer.to_host()
        fake.hooks.clear()
        assert big.to_host() == bytes(100_000)


@pytest.mark.parametrize("case", ["too much", "before the reply", "for a call without data"])
def test_data_that_nobody_waits_for_ends_the_connection(fake: FakeDaemon, case: str) -> None:
    client = pjrtd.Client.create(fake.target, busy_poll_us=0)
    buffer = client.buffer_from_host(bytes(100_000), "u8")
    reply = DownloadReply(TensorType(6, [100_000]), 100_000).encode()

    def misbehave(peer: Peer, frame: Frame) -> bool:
        item = pack(ITEM, frame.method, frame.call, b"", bytes(60_000))
        start = pack(REPLY, frame.method, frame.call, reply)
        peer.send({"too much": start + item + item, "before the reply": item + start + item, "for a call without data": item}[case])
        return True

    fake.hooks[methods.BUFFER_DOWNLOAD] = fake.hooks[methods.ADMIN_STATS] = misbehave
    with pytest.raises(errors.Internal, match="than it had announced|waits for none"):
        client.stats() if case == "for a call without data" else buffer.to_host()
    buffer.close()
    client.close()


def test_the_reason_that_the_daemon_gave_wins_over_a_broken_pipe(fake: FakeDaemon) -> None:
    client = pjrtd.Client.create(fake.target, busy_poll_us=0)
    client.sync()
    fake.peer.send(pack(ERROR, 0, 0, Error(14, "draining").encode()))
    fake.peer.link.shutdown(socket.SHUT_RDWR)
    fake.peer.thread.join(5)
    with pytest.raises(errors.Unavailable, match="draining"):
        client.sync()
    client.close()


def test_a_lost_daemon_wakes_every_waiting_thread(fake: FakeDaemon) -> None:
    client = pjrtd.Client.create(fake.target)
    held: list[Frame] = []
    fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: held.append(frame) or True

    def work(number: int) -> None:
        with pytest.raises(errors.Unavailable, match="is lost"):
            client.stats()

    closer = threading.Timer(0.3, lambda: fake.peer.link.shutdown(socket.SHUT_RDWR))
    closer.start()
    run_threads(5, work, 20)
    client.close()


def test_closing_wakes_a_waiting_thread(fake: FakeDaemon) -> None:
    client = pjrtd.Client.create(fake.target)
    fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: True
    threading.Timer(0.2, client.close).start()
    with pytest.raises(errors.PjrtError, match="closed"):
        client.stats()


# ---- frames in pieces: the transport against a socket pair ----


@pytest.mark.parametrize("chunk", [1, 2, 31, 32, 33, 1000])
def test_frames_arrive_in_pieces_of_any_size(chunk: int) -> None:
    import _socket

    from pjrtd._proto.runtime import HelloReply

    ours, theirs = socket.socketpair()
    connection = Connection(LocalTransport(_socket.socket(fileno=ours.detach()), "pair"), 0)
    data = random.Random(chunk).randbytes(3000)
    hello = HelloReply(version=1, id_prefix=1, max_inline_bytes=100, max_item_bytes=1000, upload_credit_bytes=1 << 20)
    download = pack(REPLY, methods.BUFFER_DOWNLOAD, 2, DownloadReply(TensorType(6, [3000]), 3000).encode())
    for at in range(0, 3000, 700):
        download += pack(ITEM, methods.BUFFER_DOWNLOAD, 2, b"", data[at : at + 700])
        download += pack(CREDIT, methods.BUFFER_UPLOAD, 999, Credit(5).encode())
    long = pack(REPLY, methods.SESSION_SYNC, 3, b"p" * 200_000)  # more than the receive buffer

    def serve() -> None:
        for answer in (pack(REPLY, methods.HELLO, 1, hello.encode()), download, long):
            theirs.recv(65536)  # the request
            step = chunk if len(answer) < 50_000 else max(chunk, 500)
            for at in range(0, len(answer), step):
                theirs.sendall(answer[at : at + step])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    connection.hello("test", None)
    assert connection.download(b"\x01", 3000, None, time.monotonic() + 20) == data
    assert connection.request(methods.SESSION_SYNC, b"", time.monotonic() + 20).payload == b"p" * 200_000
    thread.join(10)
    connection.close(0)
    theirs.close()


def test_polling_stops_where_it_does_not_pay_and_starts_again(fake: FakeDaemon) -> None:
    with pjrtd.Client.create(fake.target, busy_poll_us=200) as client:
        fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: time.sleep(0.003) or False
        for _ in range(20):
            client.stats()
        waiter = client._connection._waiter  # pyright: ignore[reportPrivateUsage]
        assert waiter._spin_misses >= 4  # pyright: ignore[reportPrivateUsage]
        started = time.thread_time()
        for _ in range(100):
            client.stats()
        assert time.thread_time() - started < 0.1  # of 0.3 s; polling all the time would have cost 0.02 s more each


def test_random_operations_of_many_threads(fake: FakeDaemon) -> None:
    """A soak in small: everything at once, with odd limits."""
    fake.hello.upload_credit_bytes = 100_000
    fake.hello.max_item_bytes = 33_333
    fake.hello.max_calls_in_flight = 16
    with pjrtd.Client.create(fake.target) as client:
        exe = client.compile("u8[5]->u8[5]")

        def work(number: int) -> None:
            rng = random.Random(number)
            for _ in range(40):
                choice = rng.randrange(4)
                if choice == 0:
                    data = rng.randbytes(rng.choice([0, 1, 65536, 65537, 200_000]))
                    with client.buffer_from_host(data, "u8") as buffer:
                        assert buffer.to_host() == data
                elif choice == 1:
                    data = rng.randbytes(5)
                    (out,) = exe(data)
                    assert out.to_host() == data
                    out.close()
                elif choice == 2:
                    client.sync()
                else:
                    for _ in range(10):
                        exe(b"12345")[0].close()

        run_threads(6, work, 120)
        client.sync()
        assert client.stats()["buffers"] == 0
        exe.close()


def test_no_descriptors_leak(fake: FakeDaemon) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        client = pjrtd.Client.create(fake.target)
        client.sync()
        client.close()
    for peer in fake.peers:
        peer.thread.join(5)
    stop = time.monotonic() + 5
    while len(os.listdir("/proc/self/fd")) > before + 1:  # the peers of the gateway, where there is one, end by themselves
        assert time.monotonic() < stop
        time.sleep(0.01)
