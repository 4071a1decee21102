"""What the local socket's transport holds back: in which order, how much, and until when."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import LiveDaemon, run_python
from fake_daemon import FakeDaemon

import pjrtd
from pjrtd import errors, late_sender, local_transport
from pjrtd._proto import methods
from pjrtd.local_transport import LocalTransport

#: For each test that says so: everything follows closely.
ALWAYS = 1e12


@pytest.fixture
def pair() -> Iterator[tuple[LocalTransport, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    theirs.setblocking(False)
    transport = LocalTransport(ours, "unix:test")
    yield transport, theirs
    transport.close()
    theirs.close()


def read(peer: socket.socket) -> bytes:
    data = b""
    try:
        while piece := peer.recv(1 << 20):
            data += piece
    except BlockingIOError:
        pass
    return data


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(local_transport, "monotonic", lambda: self.now)


def test_only_what_follows_closely_waits(pair: tuple[LocalTransport, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    transport, peer = pair
    clock = Clock(monkeypatch)
    assert transport.write_later(b"a") and read(peer) == b"a" and not transport.held
    for letter in (b"b", b"c"):
        clock.now += local_transport.BURST_S / 2
        assert transport.write_later(letter) and read(peer) == b"" and transport.held and not transport.blocked
    assert transport.write(b"d") and read(peer) == b"bcd" and not transport.held
    assert transport.write_later(b"e") and read(peer) == b"e", "after one that is waited for the series is a new one"
    assert transport.write_later(b"f") and transport.flush() and read(peer) == b"f" and not transport.backlog
    assert transport.write_later(b"g") and read(peer) == b""
    clock.now += local_transport.BURST_S * 2
    assert transport.write_later(b"h") and read(peer) == b"gh"
    transport.write_later(b"i")
    transport.settle()
    assert transport.held and transport.write(b"j", memoryview(b"k")) and read(peer) == b"ijk"


def test_no_more_waits_than_a_bound(pair: tuple[LocalTransport, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    transport, peer = pair
    Clock(monkeypatch)
    transport.write_later(b"-")
    read(peer)
    for count in range(1, local_transport.MAX_HELD):
        transport.write_later(b"x")
        assert transport.held == count
    transport.write_later(b"x")
    assert not transport.held and read(peer) == b"x" * local_transport.MAX_HELD
    transport.write_later(b"y" * (local_transport.MAX_HELD_BYTES - 1))
    assert transport.held and read(peer) == b""
    transport.write_later(b"y")
    assert len(read(peer)) == local_transport.MAX_HELD_BYTES
    transport.write_later(b"z" * local_transport.MAX_HELD_BYTES)
    assert len(read(peer)) == local_transport.MAX_HELD_BYTES


def test_order_holds_where_the_socket_is_full(pair: tuple[LocalTransport, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    transport, peer = pair
    clock = Clock(monkeypatch)
    sent = got = b""
    for number in range(3000):
        piece = b"%d," % number * (1 + number % 40)
        sent += piece
        if number % 7:
            transport.write_later(piece)
        else:
            transport.write(piece)
        if number % 50 == 0:
            clock.now += 1
        if number % 400 == 399:
            got += peer.recv(1 << 12)
    assert transport.blocked and not transport.held
    transport.write_later(b"end")
    assert transport.blocked and not transport.held, "nothing is held behind what waits for the socket"
    while not transport.flush():
        got += read(peer)
    assert got + read(peer) == sent + b"end"


def executes(fake: FakeDaemon) -> int:
    return sum(frame.method == methods.EXECUTE for frame in fake.peer.frames)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_transport, "BURST_S", ALWAYS)


@pytest.fixture
def local(always: None) -> Iterator[FakeDaemon]:
    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:  # tmp_path may be too long for a socket
        daemon = FakeDaemon(Path(folder))
        yield daemon
        daemon.stop()
        assert [error for peer in daemon.peers for error in peer.errors] == []


def test_what_nothing_follows_is_sent_all_the_same(local: FakeDaemon) -> None:
    with pjrtd.Client.create(local.target) as client:
        exe = client.compile("f32[]->f32[]")
        for turn in range(1, 4):
            outputs = [exe(1.0) for _ in range(5)]
            assert executes(local) <= 5 * turn
            wait_for(lambda: executes(local) == 5 * turn)
            outputs.clear()
        late = client._connection.outbox._late
        assert late is not None
        wait_for(lambda: not late.running)
        exe.close()


def test_what_is_held_goes_at_once_where_there_can_be_no_thread(local: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(late_sender, "start_new_thread", none)
    with pjrtd.Client.create(local.target) as client:
        exe = client.compile("f32[]->f32[]")
        outputs = [exe(1.0) for _ in range(5)]
        wait_for(lambda: executes(local) == 5)
        outputs.clear()
        exe.close()


def test_a_failure_of_what_was_held_is_told(local: FakeDaemon) -> None:
    with pjrtd.Client.create(local.target) as client:
        exe, good = client.compile("f32[]->f32[] fail"), client.compile("f32[]->f32[]")
        (bad,), (fine,) = exe(1.0), good(2.0)
        with pytest.raises(errors.PjrtError):
            client.sync()
        client.sync()
        assert fine.item() == 2.0
        with pytest.raises(errors.PjrtError):
            bad.item()
        for each in (bad, fine, exe, good):
            each.close()


def test_held_calls_survive_signals_at_every_place(local: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_signals import interrupt_everywhere

    monkeypatch.setattr(local_transport, "MAX_HELD", 3)
    with pjrtd.Client.create(local.target, busy_poll_us=0) as client:
        exe = client.compile("f32[2]->f32[2]")
        a = client.buffer_from_host([3.0, 4.0])

        def operation() -> None:
            outputs = [exe(a)[0] for _ in range(5)]
            assert outputs[-1].tolist() == [3.0, 4.0]

        def check() -> None:
            (out,) = exe([1.5, 2.5])
            assert out.tolist() == [1.5, 2.5]

        assert interrupt_everywhere(operation, check) > 100
        a.close()
        exe.close()


def test_threads_share_what_is_held(local: FakeDaemon) -> None:
    with pjrtd.Client.create(local.target) as client:
        exe = client.compile("f32[]->f32[]")
        failed: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                for number in range(200):
                    (out,) = exe(float(seed * 1000 + number))
                    if number % 9 == 0:
                        assert out.item() == seed * 1000 + number
                    out.close()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        client.sync()
        assert not failed and executes(local) == 1200
        exe.close()


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_sends_nothing_that_its_parent_held(local: FakeDaemon) -> None:
    with pjrtd.Client.create(local.target) as client:
        exe = client.compile("f32[]->f32[]")
        outputs = [exe(float(number)) for number in range(5)]
        child = os.fork()
        if not child:
            status = 1
            try:
                with pytest.raises(errors.FailedPrecondition, match="forked child"):
                    exe(1.0)
                client._connection.send_held()
                time.sleep(0.01)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [out.item() for (out,) in outputs] == [0, 1, 2, 3, 4]
        assert executes(local) == 5
        outputs.clear()
        exe.close()


LAST_STEPS = """
import sys, pjrtd
from pjrtd import late_sender, local_transport
local_transport.BURST_S, late_sender.HOLD_S = 1e12, 60
client = pjrtd.Client.create(session="last-steps", ttl=60)
s = client.session()
step = s.program('''module @m { func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %x, %x : tensor<f32>
  return %0 : tensor<f32> } }''', ["x"], outputs=["x"])
s.bind("x", 1.0)
for _ in range(10):
    step.advance()
assert client._connection.outbox.holds_something

"""


@pytest.mark.live
def test_the_last_steps_of_a_program_are_made(daemon: LiveDaemon) -> None:
    """Though it ends without waiting for them, in one way or another."""
    immortal = "import ctypes\nfor each in (client, s, step, step.executable): ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))"
    for end in ("", "client.close()", "del client, s, step", "client._connection.close(0)", immortal):
        run = run_python(LAST_STEPS + end, PJRTD_TARGET=daemon.target)
        assert run.returncode == 0, run.stderr
        with pjrtd.Client.create(daemon.target, session="last-steps") as client:
            assert client.session().buffer("x").tolist() == 1024, end
            client.session().end()
