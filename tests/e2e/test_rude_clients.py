"""Clients that flood, stall, vanish, stop or send descriptors, beside one that behaves."""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

import wire_messages as wire
from bystander import Bystander
from case_programs import case
from daemon import PATIENCE, Daemon
from raw_frames import ERROR, ITEM, REQUEST, Closed, RawClient, deadline, frame

RUN_OVER = ["unix", "channel"]
# What is said with sockets: its gRPC counterpart is in test_grpc_connections.py.
local = pytest.mark.over("unix")
pytestmark = pytest.mark.usefixtures("many_descriptors")

MIB = 1 << 20


@pytest.fixture(scope="module")
def strict_daemon():
    with Daemon(over="channel", settings={"client_stall_seconds": 1, "max_queued_bytes": "4 MiB"}) as daemon:
        yield daemon


@pytest.fixture
def strict(strict_daemon: Daemon, over: str) -> Daemon:
    """A daemon that loses patience quickly."""
    strict_daemon.over = over
    return strict_daemon


@pytest.fixture
def other(strict: Daemon):
    """A well-behaved client of that daemon. After the test there is nobody else."""
    with Bystander(strict) as neighbour:
        neighbour.check()
        yield neighbour
        neighbour.finish()
        neighbour.check()
    strict.settled()


def test_100k_small_calls_without_reading(strict: Daemon, other: Bystander, over: str) -> None:
    """Answers that nobody reads fill a bounded queue, then the socket; then the client is cut off."""
    before = strict.stats()
    resident = strict.resident_bytes()
    client = strict.connect(timeout=15 * PATIENCE)
    batch = b"".join(frame(REQUEST, "Runtime.Devices", call) for call in range(2, 102_000))
    client.socket.settimeout(0.2)
    view, sent, began = memoryview(batch), 0, time.monotonic()
    cut_off = False
    while sent < len(view) and time.monotonic() - began < 20 * PATIENCE:
        try:
            sent += client.socket.send(view[sent : sent + 65536])
        except TimeoutError:
            other.check()
            assert strict.resident_bytes() < resident + 64 * MIB
        except (BrokenPipeError, ConnectionResetError):
            cut_off = True
            break
    # Over TCP it may all be on its way by then; and how a stream ended is told behind what was not read.
    while over != "unix" and not cut_off and time.monotonic() - began < 20 * PATIENCE:
        other.check()
        assert strict.resident_bytes() < resident + 64 * MIB
        cut_off = strict.stats().clients_cut_off > before.clients_cut_off
    assert cut_off, "a client that reads nothing was not cut off"
    assert strict.resident_bytes() < resident + 64 * MIB
    assert strict.stats().clients_cut_off == before.clients_cut_off + 1
    client.close()
    other.check()


def test_100k_small_calls_with_reading(strict: Daemon) -> None:
    """The same with a client that reads: every call is answered, in whatever order."""
    with strict.connect() as client:
        import threading

        calls = range(2, 100_002)
        batch = b"".join(frame(REQUEST, "Runtime.DefaultAssignment", call, b"\x08\x01\x10\x01") for call in calls)
        sender = threading.Thread(target=client.socket.sendall, args=(batch,))
        sender.start()
        seen = set()
        while len(seen) < len(calls):
            seen.add(client.receive().call)
        sender.join()
        assert seen == set(calls)


def test_a_download_that_nobody_reads(strict: Daemon, other: Bystander) -> None:
    """256 MB under unlimited credit, not read: bounded memory, then cut off; the others go on."""
    other.run_in_background()
    before = strict.stats()
    client = strict.connect(download_credit_bytes=2**62)
    size = 256 * MIB
    buffer = client.upload("u8", [size], bytes(size))
    resident = strict.resident_bytes()
    client.start("Buffer.Download", buffer=buffer)
    give_up = time.monotonic() + 15 * PATIENCE
    while strict.stats().clients_cut_off == before.clients_cut_off:
        assert strict.resident_bytes() < resident + 64 * MIB
        assert time.monotonic() < give_up, "a client that reads nothing was not cut off"
        time.sleep(0.05)
    client.close()


def test_a_download_without_credit_only_waits(strict: Daemon, other: Bystander) -> None:
    """A client that grants nothing is not throttled by the socket: it stays, and costs nothing."""
    with strict.connect(download_credit_bytes=1000) as client:
        buffer = client.upload("u8", [8 * MIB], bytes(8 * MIB))
        call = client.start("Buffer.Download", buffer=buffer)
        client.answer(call)
        time.sleep(1.5)
        other.check()
        client.grant(call, 2**40)
        received = 0
        while received < 8 * MIB:
            received += len(client.receive_of(call).bulk)
        assert client.call("Runtime.Info").pid


def test_a_slow_reader_is_served_beside_a_quick_one(strict: Daemon, other: Bystander, over: str) -> None:
    """It takes a moment for each piece, for longer than the patience with those who read nothing. (The kernel tells the
    writer about progress in steps of some 150 KB, gRPC in messages of 1 MiB.)"""
    pause, size = (0.05, 16 * MIB) if over == "unix" else (0.003, 64 * MIB)
    other.run_in_background()
    before = strict.stats().clients_cut_off
    client = strict.connect(download_credit_bytes=2**62, receive_buffer_bytes=4096)
    buffer = client.upload("u8", [size], bytes(size))
    client.start("Buffer.Download", buffer=buffer)
    began = time.monotonic()
    while time.monotonic() - began < 3:
        assert client.socket.recv(40_000), "cut off while it was reading"
        time.sleep(pause)
    assert strict.stats().clients_cut_off == before
    client.close()


def test_a_reader_of_one_kilobyte_a_second_harms_nobody(strict: Daemon, other: Bystander) -> None:
    other.run_in_background()
    client = strict.connect(download_credit_bytes=2**62, receive_buffer_bytes=4096)
    buffer = client.upload("u8", [16 * MIB], bytes(16 * MIB))
    client.start("Buffer.Download", buffer=buffer)
    began = time.monotonic()
    while time.monotonic() - began < 2 and client.socket.recv(100):
        time.sleep(0.1)
    client.close()


def test_a_slow_writer_is_served_beside_a_quick_one(strict: Daemon, other: Bystander) -> None:
    other.run_in_background()
    with strict.connect() as client:
        buffer = client.new_buffer()
        data = bytes(range(256)) * 300
        call = client.start("Buffer.Upload", buffer=buffer, data_bytes=len(data), type=dict(dtype=6, dims=[len(data)]))
        for position in range(0, len(data), 4096):
            client.send_control(ITEM, call, bulk=data[position : position + 4096], method="Buffer.Upload")
            time.sleep(0.1)
        client.reply(call, "Buffer.Upload")
        assert client.download(buffer) == data


def test_a_stopped_client_goes_on_where_it_was(strict: Daemon, other: Bystander) -> None:
    """SIGSTOP while it downloads in a loop, SIGCONT, and every value is still right."""
    child = rude_child(strict, "good_loop")
    child.stdout.readline()
    child.send_signal(signal.SIGSTOP)
    for _ in range(10):
        other.check()
        time.sleep(0.05)
    child.send_signal(signal.SIGCONT)
    child.stdin.write("stop\n")
    child.stdin.flush()
    assert child.wait(30 * PATIENCE) == 0
    other.check()


RUDE_CHILD = """
import struct, sys, threading
sys.path.insert(0, {support!r})
from grpc_bridges import connect
from case_programs import case
client = connect({target!r}, {over!r}, download_credit_bytes=2**40)
MIB = 1 << 20
mode = {mode!r}
if mode == "upload":
    call = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=512 * MIB, type=dict(dtype=6, dims=[512 * MIB]))
    client.send_items(call, "Buffer.Upload", bytes(64 * MIB), client.hello.upload_credit_bytes)
    print("ready", flush=True)
    client.send_items(call, "Buffer.Upload", bytes(440 * MIB), client.hello.upload_credit_bytes)
elif mode == "download":
    buffer = client.upload("u8", [64 * MIB], bytes(64 * MIB))
    print("ready", flush=True)
    while True:
        client.start("Buffer.Download", buffer=buffer)
        client.receive()
elif mode == "execute":
    program = client.compile(case("stepped_loop").text)
    number, start = client.upload("s32", [], struct.pack("<i", 300_000_000)), client.upload("u32", [], bytes(4))
    for _ in range(4):
        client.start_execute(program, [number, start])
    print("ready", flush=True)
    client.receive()
    client.receive()
elif mode == "compile":
    from case_programs import nested_ifs
    for _ in range(3):
        client.start_compile(nested_ifs(90))
    print("ready", flush=True)
    client.receive()
elif mode == "pipeline":
    program = client.compile(case("add").text)
    a = client.upload("f32", [4], bytes(16))
    print("ready", flush=True)
    while True:
        for _ in range(100):
            (a,), _ = client.start_execute(program, [a, a], quiet=True)
        client.call("Session.Sync")
elif mode == "good_loop":
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    data = bytes(range(256)) * 4096 * 8
    buffer = client.upload("u8", [len(data)], data)
    print("ready", flush=True)
    while not stop.is_set():
        assert client.download(buffer) == data
"""


def rude_child(daemon: Daemon, mode: str) -> subprocess.Popen[str]:
    support = os.path.dirname(os.path.abspath(wire.__file__))
    code = RUDE_CHILD.format(support=support, target=daemon.address(daemon.over), over=daemon.over, mode=mode)
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("mode", ["upload", "download", "execute", "compile", "pipeline"])
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_client_killed_in_the_middle(daemon: Daemon, mode: str, delay: float) -> None:
    other = Bystander(daemon).run_in_background()
    before = daemon.settled(lambda now: now["connections"] == 2)
    resident = daemon.resident_bytes()
    child = rude_child(daemon, mode)
    assert child.stdout.readline() == "ready\n"
    time.sleep(delay)
    child.kill()
    child.wait()
    # The bystander's own buffers come and go; what the child had has to go for good.
    give_up = time.monotonic() + 30 * PATIENCE
    while True:
        now = daemon.balance()
        if (now["connections"], now["sessions"], now["programs"], now["staging_bytes"]) == (
            before["connections"], before["sessions"], before["programs"], before["staging_bytes"]
        ) and now["buffers"] <= before["buffers"] + 4:
            break
        assert time.monotonic() < give_up, (before, now)
        time.sleep(0.05)
    while daemon.resident_bytes() > resident + 128 * MIB:
        assert time.monotonic() < give_up, "its memory was kept"
        time.sleep(0.05)
    other.finish()
    other.close()
    daemon.settled()


@local
def test_1000_idle_connections_cost_nothing() -> None:
    with Daemon() as daemon:
        idle_connections(daemon, 1000)


def idle_connections(daemon: Daemon, count: int) -> None:
    other = Bystander(daemon)
    before = daemon.settled(lambda now: now["connections"] == 2)
    descriptors, threads = daemon.descriptors(), daemon.threads()
    clients = [daemon.connect() for _ in range(count)]
    assert daemon.stats().connections == before["connections"] + count
    assert daemon.threads() <= threads + 2
    time.sleep(0.3)
    used, began = daemon.cpu_seconds(), time.monotonic()
    time.sleep(3)
    share = (daemon.cpu_seconds() - used) / (time.monotonic() - began)
    assert share <= 0.01 + 0.01 / 3, f"{share:.2%} of a core for nothing"  # the clock ticks at 10 ms
    with deadline(2 * PATIENCE, "a call beside 1000 idle connections"):
        other.check()
    for client in clients[::97]:
        assert client.call("Runtime.Info").pid == daemon.pid
    for client in clients:
        client.close()
    daemon.settled(lambda now: now["connections"] == before["connections"])
    settled_descriptors(daemon, descriptors)
    other.close()


@local
def test_2000_connections_one_after_another_leave_nothing(daemon: Daemon) -> None:
    def visit(count: int) -> None:
        for number in range(count):
            hello = number % 3 != 0
            client = daemon.connect(hello=hello)
            if hello and number % 10 == 1:
                client.start_upload("f32", [4], bytes(16))
            if number % 10 == 2:
                client.start("Buffer.Upload", buffer=client.new_buffer() if hello else 1, data_bytes=MIB, type=dict(dtype=6, dims=[MIB]))
            client.close()

    visit(300)
    before = daemon.settled()
    descriptors, threads, resident = daemon.descriptors(), daemon.threads(), daemon.resident_bytes()
    visit(2000)
    daemon.expect_balance(before)
    settled_descriptors(daemon, descriptors)
    assert daemon.threads() <= threads
    assert daemon.resident_bytes() < resident + 4 * MIB


@local
def test_connecting_without_being_accepted_time_after_time(daemon: Daemon) -> None:
    """Bursts of connections that are gone before the daemon looks."""
    before = daemon.settled()
    for _ in range(5):
        sockets = []
        for _ in range(100):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.connect(str(daemon.socket_path))
            sockets.append(one)
        for one in sockets:
            one.close()
    daemon.expect_balance(before)


@local
def test_the_most_connections_are_bounded_and_the_rest_told() -> None:
    with Daemon(settings={"max_connections": 5}) as daemon:
        clients = [daemon.connect() for _ in range(5)]
        extra = daemon.connect(hello=False)
        try:
            extra.send("Runtime.Hello", wire.make("HelloRequest", min_version=1, max_version=1))
            frames = extra.receive_until_closed()
            errors = [wire.message_class("Error").FromString(got.payload) for got in frames if got.kind == ERROR]
            assert [error.code for error in errors] == [8], errors
        except (BrokenPipeError, ConnectionResetError):
            pass
        extra.close()
        assert clients[0].call("Runtime.Info").pid == daemon.pid
        clients.pop().close()
        give_up = time.monotonic() + 5
        while True:
            try:
                clients.append(daemon.connect())
                break
            except (Closed, BrokenPipeError, ConnectionResetError, Exception):
                assert time.monotonic() < give_up
                time.sleep(0.05)
        for client in clients:
            client.close()


@local
def test_running_out_of_descriptors_is_survived() -> None:
    """More connections than the daemon may have descriptors: it goes on serving those that it has, and recovers."""
    limit = 128
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    daemon = Daemon()
    daemon.command = ["/bin/sh", "-c", f"ulimit -n {limit}; exec \"$@\"", "sh", *daemon.command]
    with daemon:
        first = daemon.connect()
        sockets = []
        for _ in range(limit * 2):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            one.settimeout(2)
            try:
                one.connect(str(daemon.socket_path))
            except (TimeoutError, BlockingIOError):
                one.close()
                break
            sockets.append(one)
        time.sleep(0.3)
        used = daemon.cpu_seconds()
        assert first.call("Runtime.Info").pid == daemon.pid
        time.sleep(1)
        assert daemon.cpu_seconds() - used < 0.5, "the loop spins on accept"
        for one in sockets:
            one.close()
        give_up = time.monotonic() + 15 * PATIENCE
        while True:
            try:
                with daemon.connect(timeout=3) as again:
                    assert again.call("Runtime.Info").pid == daemon.pid
                    break
            except (Closed, OSError):
                assert time.monotonic() < give_up, "no new connection after descriptors were free again"
        first.close()


# -- descriptors ---------------------------------------------------------------


def settled_descriptors(daemon: Daemon, right: int) -> None:
    give_up = time.monotonic() + 5 * PATIENCE
    while daemon.descriptors() > right:
        assert time.monotonic() < give_up, f"{daemon.descriptors()} descriptors, {right} before"
        time.sleep(0.02)


@local
@pytest.mark.parametrize("announced,sent", [(0, 1), (0, 253), (1, 0), (15, 0), (2, 1), (1, 2), (15, 15), (3, 3), (1, 253)])
def test_descriptors_in_a_frame_that_takes_none(daemon: Daemon, announced: int, sent: int) -> None:
    """Announced or not: they are closed, and a contradiction ends the connection."""
    daemon.settled()
    before = daemon.descriptors()
    with daemon.connect() as client:
        request = frame(REQUEST, "Runtime.Info", 2, flags=announced << 4)
        client.last_call = 2
        try:
            client.send_with_descriptors(request, [0] * sent)
            client.receive_of(2)
            client.receive_of(client.send("Runtime.Info"))
            assert announced == sent or announced == 0, "descriptors that did not come were not missed"
        except (Closed, BrokenPipeError, ConnectionResetError):
            pass
    daemon.settled()
    settled_descriptors(daemon, before)


@local
def test_a_flood_of_descriptors(daemon: Daemon) -> None:
    other = Bystander(daemon)
    daemon.settled(lambda now: now["connections"] == 2)
    before = daemon.descriptors()
    for announced in (0, 15):
        client = daemon.connect()
        try:
            for number in range(200):
                request = frame(REQUEST, "Runtime.Info", 2 + number, flags=announced << 4)
                for byte in (request[:1], request[1:16], request[16:]):
                    client.send_with_descriptors(byte, [0] * 200)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass
        assert daemon.descriptors() < before + 300, "descriptors pile up"
        client.close()
        other.check()
    daemon.settled(lambda now: now["connections"] == 2)
    settled_descriptors(daemon, before)
    other.close()


@local
def test_descriptors_left_in_the_socket_when_the_client_goes(daemon: Daemon) -> None:
    daemon.settled()
    before = daemon.descriptors()
    for _ in range(20):
        client = daemon.connect()
        client.send_with_descriptors(frame(REQUEST, "Runtime.Info", 2, flags=0x50)[:10], [0] * 5)
        client.close()
    daemon.settled()
    settled_descriptors(daemon, before)


@local
def test_a_socket_passed_over_itself(daemon: Daemon) -> None:
    """A connection whose own end lies in its queue is closed all the same."""
    before = daemon.settled()
    descriptors = daemon.descriptors()
    client = daemon.connect()
    client.send_with_descriptors(frame(REQUEST, "Runtime.Info", 2, flags=0x10), [client.socket.fileno()])
    client.close()
    daemon.expect_balance(before)
    settled_descriptors(daemon, descriptors)


def test_use_after_all_of_this(daemon: Daemon) -> None:
    the = case("add")
    with daemon.connect() as client:
        program = client.compile(the.text)
        arguments = [client.upload("f32", [4], arg.data) for arg in the.args]
        assert struct.unpack("<4f", client.download(client.execute(program, arguments)[0])) == (2, 4, 6, 8)
