"""Executions and copies that end late, on other threads, with errors, or never; and what becomes of what they use."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Iterator

import pytest

from bystander import Bystander
from daemon import PATIENCE, Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import (CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, CallFailed, RawClient,
                        deadline)

ONES = struct.pack("<4f", 1, 2, 3, 4)
TENS = struct.pack("<4f", 10, 20, 30, 40)
SUMS = struct.pack("<4f", 11, 22, 33, 44)
EXECUTE = "LoadedExecutable_Execute"
BIG = 1 << 18
MILLISECOND = 1_000_000


@pytest.fixture(scope="module", params=["cpu", "elsewhere"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with FakeDaemon(platform=request.param) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_held(request: pytest.FixtureRequest) -> Iterator[None]:
    if "daemon" not in request.fixturenames:
        yield
        return
    running = request.getfixturevalue("daemon")
    running.hold()
    yield
    running.script()
    running.release()


def arguments(client: RawClient) -> list[int]:
    return [client.upload("f32", [4], ONES), client.upload("f32", [4], TENS)]


def wait_until(condition, seconds: float = 10.0) -> None:  # noqa: ANN001
    give_up = time.monotonic() + seconds * PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it did not come about in time"
        time.sleep(0.01)


# -- late events -------------------------------------------------------------------


@pytest.mark.parametrize("script", ["event_after:0", "event_after:30", "event_null"])
@pytest.mark.parametrize("loops", [False, True])
def test_an_execution_that_ends_later(balanced: None, bystander: Bystander, client: RawClient, script: str, loops: bool) -> None:
    """Until its event ends the output holds rubbish: whoever reads it has to have waited."""
    made = client.compile(program(script=f"{EXECUTE}={script}", loops=loops))
    given = arguments(client)
    for _ in range(5):
        (result,), execute = client.start_execute(made, given)
        download = client.start("Buffer.Download", buffer=result)
        assert client.finish_download(download) == SUMS
        client.answer(execute)
    _, call = client.start_execute(made, given, outputs=[], fetch=[0])
    assert client.answer(call).bulk == SUMS


def test_a_chain_of_late_executions(balanced: None, client: RawClient) -> None:
    """Each uses the one before, and consumes it; all sent at once."""
    made = client.compile(program(script=f"{EXECUTE}=event_after:2", donated={0: 0}))
    state, step = client.upload("f32", [4], ONES), client.upload("f32", [4], TENS)
    calls = []
    for _ in range(50):
        (state,), call = client.start_execute(made, [state, step])
        calls.append(call)
    for call in calls:
        client.answer(call)
    assert struct.unpack("<4f", client.download(state)) == (501, 1002, 1503, 2004)
    assert client.download(step) == TENS


def test_many_late_executions_of_many_clients(balanced: None, daemon: Daemon) -> None:
    """Events end on threads of the plugin's, many at a time."""
    clients = [daemon.connect() for _ in range(8)]
    try:
        work = []
        for client in clients:
            made = client.compile(program(script=f"{EXECUTE}=event_after:1"))
            given = arguments(client)
            work += [(client, *client.start_execute(made, given)) for _ in range(25)]
        for client, _, call in work:
            client.answer(call)
        for client, outputs, _ in work:
            assert client.download(outputs[0]) == SUMS
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("after", ["", "event_after:0,", "event_after:30,"])
def test_an_event_that_carries_an_error(balanced: None, bystander: Bystander, client: RawClient, after: str) -> None:
    late = f";{EXECUTE}={after.rstrip(',')}" if after else ""
    made = client.compile(program(script=f"{EXECUTE}=event_error:15:lost on the way{late}"))
    add = client.compile(program())
    given = arguments(client)
    (result,), call = client.start_execute(made, given)
    (next_result,), use = client.start_execute(add, [result, given[0]])
    failed = client.failure_of(call)
    assert (failed.code, failed.message) == (15, "lost on the way")
    for broken in (client.failure_of(use), client.failure("Buffer.Download", buffer=result),
                   client.failure("Buffer.Download", buffer=next_result)):
        assert (broken.code, broken.message) == (15, "lost on the way")
        assert broken.detail.origin_call == call
    assert [client.download(buffer) for buffer in given] == [ONES, TENS]
    assert client.download(client.execute(add, given)[0]) == SUMS


def test_an_upload_whose_copy_ends_late(balanced: None, daemon: FakeDaemon, client: RawClient) -> None:
    """The plugin reads the pages until the event ends: they stay until then."""
    daemon.script("Client_BufferFromHostBuffer=event_after:30")
    data = bytes(range(256)) * (BIG // 64)
    buffers = [client.upload("f32", [BIG], data) for _ in range(4)]
    client.call("Buffer.Delete", buffers=buffers[:1])
    time.sleep(0.1)
    for buffer in buffers[1:]:
        assert client.download(buffer) == data


@pytest.mark.parametrize("script", ["event_after:20", "event_null"])
def test_a_download_whose_copy_ends_late(balanced: None, daemon: FakeDaemon, client: RawClient, script: str) -> None:
    data = bytes(range(256)) * (BIG // 64)
    small, big = client.upload("f32", [4], ONES), client.upload("f32", [BIG], data)
    daemon.script(f"Buffer_UnsafePointer=error:12:not here;Buffer_ToHostBuffer={script}")
    assert client.download(small) == ONES
    assert client.download(big) == data


# -- donation ----------------------------------------------------------------------


def test_a_run_that_fails_before_it_begins_leaves_donated_arguments(balanced: None, client: RawClient) -> None:
    made = client.compile(program(script=f"{EXECUTE}@1=error:8:no room", donated={0: 0}))
    given = arguments(client)
    _, call = client.start_execute(made, given)
    assert client.failure_of(call).message.startswith("no room\n")
    assert [client.download(buffer) for buffer in given] == [ONES, TENS]
    (result,) = client.execute(made, given)
    assert client.download(result) == SUMS
    assert "donated" in client.failure("Buffer.Download", buffer=given[0]).message


@pytest.mark.parametrize("script", [
    f"{EXECUTE}=error:13:failed under way;{EXECUTE}=consume",
    f"{EXECUTE}=event_error:13:failed under way",
    f"{EXECUTE}=event_error:13:failed under way;{EXECUTE}=event_after:20",
], ids=["in the call", "in the event", "in a late event"])
def test_a_run_that_fails_under_way_may_have_consumed_them(
    balanced: None, bystander: Bystander, client: RawClient, script: str,
) -> None:
    """What is gone is said to be gone, by everything that uses it later; the other arguments are alive."""
    made = client.compile(program(script=script, donated={0: 0}))
    add = client.compile(program())
    given = arguments(client)
    _, call = client.start_execute(made, given)
    failed = client.failure_of(call)
    assert failed.code == 13 and failed.message.startswith("failed under way")
    assert "consumed" in failed.message + failed.detail.hint, failed.detail
    gone = client.failure("Buffer.Download", buffer=given[0])
    assert gone.code == INVALID_ARGUMENT and "donated" in gone.message
    _, call = client.start_execute(add, given)
    assert "donated" in client.failure_of(call).message
    assert client.download(given[1]) == TENS


def test_a_donated_argument_is_never_used_again(balanced: None, client: RawClient) -> None:
    """Uses that were sent along with the run that consumes it: those before get the value, those after the error."""
    made = client.compile(program(script=f"{EXECUTE}=event_after:20", donated={0: 0}))
    add = client.compile(program(script=f"{EXECUTE}=event_after:10"))
    first, second = arguments(client)
    (before,), call_before = client.start_execute(add, [first, second])
    read_before = client.start("Buffer.Download", buffer=first)
    (result,), call = client.start_execute(made, [first, second])
    _, call_after = client.start_execute(add, [first, second])
    read_after = client.start("Buffer.Download", buffer=first)
    assert client.finish_download(read_before) == ONES
    client.answer(call_before)
    client.answer(call)
    for late in (call_after, read_after):
        failed = client.failure_of(late)
        assert failed.code == INVALID_ARGUMENT and "donated" in failed.message
    assert client.download(before) == SUMS and client.download(result) == SUMS


# -- deadlines, cancellation, ends -------------------------------------------------


@pytest.mark.parametrize("how", ["deadline", "cancel"])
@pytest.mark.parametrize("hold", ["event_hold", "hold"])
@pytest.mark.parametrize("donated", [{}, {0: 0}], ids=["kept", "donated"])
def test_a_call_that_is_given_up_keeps_what_it_uses(
    balanced: None, bystander: Bystander, daemon: FakeDaemon, client: RawClient, how: str, hold: str, donated: dict[int, int],
) -> None:
    """Its buffers stay until the plugin lets go, though their names go at once; the fake plugin aborts otherwise."""
    made = client.compile(program(script=f"{EXECUTE}={hold}", donated=donated, loops=True))
    given = arguments(client)
    (result,), call = client.start_execute(made, given, deadline_ns=100 * MILLISECOND if how == "deadline" else 0)
    waiting = client.start("Buffer.Download", buffer=given[0])
    if how == "cancel":
        time.sleep(0.05)
        client.cancel(call, "Execute.Execute")
    with deadline(5 * PATIENCE, "giving up"):
        assert client.failure_of(call).code == (DEADLINE_EXCEEDED if how == "deadline" else CANCELLED)
        assert client.failure("Buffer.Download", buffer=result).code == (DEADLINE_EXCEEDED if how == "deadline" else CANCELLED)
    bystander.check()
    before = client.stats()
    assert before.buffers >= 2
    client.call("Buffer.Delete", buffers=[given[1], result])
    client.call("Program.Release", programs=[made])
    assert client.failure("Buffer.Stat", buffer=given[1]).code == 5
    time.sleep(0.1)
    bystander.check()
    daemon.release()
    try:
        assert client.finish_download(waiting) == ONES
        assert not donated
    except CallFailed as failed:
        assert donated and "donated" in failed.message
    wait_until(lambda: client.stats().buffers <= before.buffers - 1)


@pytest.mark.parametrize("hold", ["event_hold", "hold"])
def test_a_client_that_leaves_while_its_run_is_outstanding(
    balanced: None, bystander: Bystander, daemon: FakeDaemon, hold: str,
) -> None:
    client = daemon.connect()
    made = client.compile(program(script=f"{EXECUTE}={hold}", donated={0: 0}, loops=True))
    given = arguments(client)
    for _ in range(3):
        client.start_execute(made, [client.upload("f32", [4], ONES), given[1]])
    client.start("Buffer.Download", buffer=given[1])
    time.sleep(0.05)
    client.close()
    time.sleep(0.1)
    bystander.check()
    daemon.check_alive()
    daemon.release()


def test_a_client_that_leaves_while_a_copy_is_outstanding(balanced: None, bystander: Bystander, daemon: FakeDaemon) -> None:
    client = daemon.connect()
    buffer = client.upload("f32", [BIG], bytes(4 * BIG))
    daemon.script("Buffer_UnsafePointer=error:12:not here;Buffer_ToHostBuffer=event_hold")
    client.start("Buffer.Download", buffer=buffer)
    time.sleep(0.05)
    client.close()
    time.sleep(0.1)
    daemon.check_alive()
    daemon.release()


def test_a_compile_that_takes_long_is_given_up(balanced: None, daemon: FakeDaemon, client: RawClient) -> None:
    made, call = client.start_compile(program(script="Client_Compile=hold"), deadline_ns=100 * MILLISECOND)
    assert client.failure_of(call).code == DEADLINE_EXCEEDED
    assert client.failure("Program.Describe", program=made).code == DEADLINE_EXCEEDED
    daemon.release()
    client.compile(program())


# -- a device that is stuck --------------------------------------------------------


def test_runs_that_never_end_are_moved_off_their_lane() -> None:
    """Each takes a thread with it, up to max_stuck; then work for that lane is refused, and other work goes on."""
    with FakeDaemon(settings={"lane_stall_ms": 50, "max_stuck": 2}) as daemon:
        other = Bystander(daemon)
        client = daemon.connect()
        given = arguments(client)
        made = client.compile(program(script=f"{EXECUTE}=hold", loops=True))
        stuck = [client.start_execute(made, given)[1] for _ in range(2)]
        wait_until(lambda: "takes its lane over" in daemon.log())
        time.sleep(0.3)
        other.check()
        quick = client.compile(program(loops=True))
        _, call = client.start_execute(quick, given)
        failed = client.failure_of(call)
        assert failed.code == RESOURCE_EXHAUSTED and "stuck in the plugin" in failed.message and "max_stuck" in failed.detail.hint
        other.check()
        assert client.download(given[0]) == ONES
        daemon.release()
        for call in stuck:
            client.answer(call)
        wait_until(lambda: not is_refused(client, quick, given))
        other.check()
        other.close()
        client.close()
        daemon.settled()


def is_refused(client: RawClient, made: int, given: list[int]) -> bool:
    _, call = client.start_execute(made, given)
    try:
        client.answer(call)
    except CallFailed as failed:
        assert failed.code == RESOURCE_EXHAUSTED
        return True
    return False


@pytest.mark.parametrize("script", [
    f"{EXECUTE}=hold", f"{EXECUTE}=event_hold", "Client_Compile=hold", "Buffer_ToHostBuffer=hold", "Buffer_ToHostBuffer=event_hold",
    "Client_BufferFromHostBuffer=hold", "Client_BufferFromHostBuffer=event_hold",
])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_stop_does_not_wait_for_what_never_ends(script: str, leaves: bool) -> None:
    """It ends with 0 within drain_seconds, or sooner where nobody waits for an answer any more."""
    with FakeDaemon(platform="elsewhere", settings={"drain_seconds": 1}) as daemon:
        client = daemon.connect()
        given = arguments(client)
        big = client.upload("f32", [BIG], bytes(4 * BIG))
        daemon.script("" if "Compile" in script or EXECUTE in script else script)
        if EXECUTE in script:
            made = client.compile(program(script=script, loops=True))
            call = client.start_execute(made, given)[1]
        elif "Compile" in script:
            call = client.start_compile(program(script=script))[1]
        elif "ToHost" in script:
            call = client.start("Buffer.Download", buffer=big)
        else:
            call = client.start_upload("f32", [BIG], bytes(4 * BIG))[1]
        time.sleep(0.1)
        if leaves:
            client.close()
        with deadline(4 * PATIENCE, "the stop"):
            daemon.stop(seconds=10)
        if not leaves:
            with pytest.raises(Exception):  # noqa: B017 - an error, or the end of the stream
                client.answer(call)
            client.close()


def test_a_stop_waits_for_what_ends_in_time() -> None:
    with FakeDaemon(settings={"drain_seconds": 20}) as daemon:
        client = daemon.connect()
        given = arguments(client)
        made = client.compile(program(script=f"{EXECUTE}=event_after:500"))
        _, call = client.start_execute(made, given, outputs=[], fetch=[0])
        time.sleep(0.1)
        daemon.signal(signal.SIGTERM)
        time.sleep(0.1)
        assert client.failure("Buffer.Upload", ONES, buffer=client.new_buffer(), type=dict(dtype=11, dims=[4]),
                              data_bytes=16).code == UNAVAILABLE
        assert client.answer(call).bulk == SUMS
        client.close()
        assert daemon.wait(10) == 0
