"""KeyboardInterrupt at every place where Python can raise it leaves the connection usable.

CPython runs signal handlers after a call instruction, when a function is entered and when a loop goes round. A trace
function raises there, once for each such place that an operation passes.
"""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from conftest import over_all
from fake_daemon import FakeDaemon

import pjrtd

PACKAGE = os.path.dirname(pjrtd.__file__)
BREAKS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "CALL_FUNCTION", "CALL_METHOD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RESUME"}
SECONDS = 6.0  # after which only some of the places are tried
SIZE = 300_000  # over the limit for data inside a frame, so that it comes in ITEMs


def in_finalizer(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Interrupter:
    """Raises at the `count`-th place."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.raised = False
        self.where = ""
        self.last: dict[FrameType, int] = {}

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or self.raised:
            return None
        if event == "call" and in_finalizer(frame):
            return None  # what is raised there is printed and dropped, by Python itself
        if event == "call":
            frame.f_trace = self.trace  # in this order: one of the versions looks only when the latter is set
            frame.f_trace_lines = False
            frame.f_trace_opcodes = True
        if event == "opcode":
            before = self.last.get(frame)
            self.last[frame] = frame.f_lasti
            if before is None or dis.opname[code.co_code[before]] in BREAKS:
                self.left -= 1
                if self.left < 0:
                    self.raised = True
                    self.where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}"
                    self.last.clear()
                    raise KeyboardInterrupt
        elif event == "return":
            self.last.pop(frame, None)
        return self.trace


def interrupt_everywhere(operation: Callable[[], Any], check: Callable[[], Any], step: int = 1) -> int:
    """Runs `operation` interrupted at each place in turn, and `check` after each."""
    count = 0
    begun = time.monotonic()
    while True:
        interrupter = Interrupter(count)
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # some versions look for it when tracing is turned on
        sys.settrace(interrupter.trace)
        try:
            operation()
        except KeyboardInterrupt:
            assert interrupter.raised
        finally:
            sys.settrace(before)
        try:
            with pjrtd.deadline(20):
                check()
        except BaseException as error:
            raise AssertionError(f"after an interruption at {interrupter.where} (place {count})") from error
        if not interrupter.raised:
            return count
        count += step if time.monotonic() - begun < SECONDS else 10 * step + 1


@pytest.fixture
def program(fake_client: pjrtd.Client) -> pjrtd.Executable:
    return fake_client.compile("f32[2]->f32[2]")


@pytest.fixture
def check(fake_client: pjrtd.Client, program: pjrtd.Executable) -> Callable[[], None]:
    def run() -> None:
        (out,) = program([1.5, 2.5])
        assert out.tolist() == [1.5, 2.5]
        out.close()

    return run


@over_all
@pytest.mark.filterwarnings("ignore::ResourceWarning")
class TestInterruptedAtEveryPlace:
    def test_execute_and_fetch(self, fake_client: pjrtd.Client, program: pjrtd.Executable, check: Any) -> None:
        a = fake_client.buffer_from_host([3.0, 4.0])

        def operation() -> None:
            (out,) = program(a)
            assert out.tolist() == [3.0, 4.0]

        assert interrupt_everywhere(operation, check) > 50
        a.close()

    def test_inline_arguments(self, program: pjrtd.Executable, check: Any) -> None:
        interrupt_everywhere(lambda: program([3.0, 4.0])[0].to_host(), check)

    def test_small_upload(self, fake_client: pjrtd.Client, check: Any) -> None:
        interrupt_everywhere(lambda: fake_client.buffer_from_host([3.0, 4.0]).close(), check)

    def test_big_upload(self, fake: FakeDaemon, fake_client: pjrtd.Client, check: Any) -> None:
        data = bytes(range(250)) * (SIZE // 250)
        fake.hello.max_item_bytes = 100_000  # of the next client

        def operation() -> None:
            with fake_client.buffer_from_host(data, "u8") as buffer:
                assert buffer.to_host() == data

        interrupt_everywhere(operation, check, 3)

    def test_big_download(self, fake_client: pjrtd.Client, check: Any) -> None:
        data = bytes(range(250)) * (SIZE // 250)
        buffer = fake_client.buffer_from_host(data, "u8")

        def operation() -> None:
            assert buffer.to_host() == data

        interrupt_everywhere(operation, check)
        out = bytearray(SIZE)
        interrupt_everywhere(lambda: buffer.to_host(out), check)
        assert out == data
        buffer.close()

    def test_compile(self, fake_client: pjrtd.Client, check: Any) -> None:
        interrupt_everywhere(lambda: fake_client.compile("f32[2]->f32[2]").close(), check)

    def test_checkpoints(self, fake_client: pjrtd.Client, program: pjrtd.Executable, check: Any) -> None:
        a = fake_client.buffer_from_host([3.0, 4.0])

        def operation() -> None:
            for _ in range(20):  # the daemon takes 64 calls at a time
                program(a)

        interrupt_everywhere(operation, check, 7)
        a.close()

    def test_sync_and_stat(self, fake_client: pjrtd.Client, check: Any) -> None:
        a = fake_client.buffer_from_host([3.0, 4.0])
        interrupt_everywhere(lambda: (a.block_until_ready(), fake_client.sync()), check)
        a.close()

    def test_nothing_much_is_left_behind(self, fake: FakeDaemon, fake_client: pjrtd.Client, check: Any) -> None:
        data = bytes(100_000)

        def operation() -> None:
            fake_client.buffer_from_host(data, "u8").close()

        places = interrupt_everywhere(operation, check)
        fake_client.sync()
        # A buffer whose id was not yet in anybody's hands stays until the session ends.
        assert len(fake.peer.buffers) < places / 20 + 3
        assert fake_client._connection._table.calls == {}  # pyright: ignore[reportPrivateUsage]

    def test_what_was_discarded_is_deleted(self, fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
        def discard() -> None:
            for _ in range(20):  # few enough to wait for the next call
                fake_client.buffer_from_host([3.0, 4.0]).close()

        discard()
        interrupt_everywhere(fake_client.sync, discard)
        fake_client.sync()
        assert not fake.peer.buffers and not fake.peer.errors


def test_the_tracer_sees_the_places(fake_client: pjrtd.Client) -> None:
    """If CPython's instructions are renamed, the tests above must not pass by doing nothing."""
    interrupter = Interrupter(1 << 60)
    sys._getframe().f_trace_opcodes = True
    sys.settrace(interrupter.trace)
    try:
        fake_client.sync()
    finally:
        sys.settrace(None)
    assert (1 << 60) - interrupter.left > 25


@over_all
def test_a_real_signal_ends_a_wait_at_once(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    from pjrtd._proto import methods

    buffer = fake_client.buffer_from_host([1.0])
    fake.hooks[methods.BUFFER_DOWNLOAD] = lambda peer, frame: True  # never answers
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        buffer.to_host()
    assert time.monotonic() - start < 2
    timer.join()
    fake.hooks.clear()
    assert buffer.tolist() == [1.0]
    buffer.close()


@over_all
def test_signals_in_a_storm_of_uploads_and_downloads(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    """Handlers that raise at random times, in the middle of bulk in both directions."""

    class Interrupted(Exception):
        pass

    def handler(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    data = os.urandom(3_000_000)
    interrupted = done = 0
    before = signal.signal(signal.SIGALRM, handler)
    try:
        stop = time.monotonic() + 60
        while interrupted < 60 and time.monotonic() < stop:
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + ((interrupted + done) * 37 % 100) * 1e-4)
                    with fake_client.buffer_from_host(data, "u8") as buffer:
                        assert buffer.to_host() == data
                    done += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 20
    with pjrtd.deadline(20), fake_client.buffer_from_host(data, "u8") as buffer:
        assert buffer.to_host() == data


def test_a_handler_that_uses_the_client_in_the_middle_of_its_use_gets_an_error(fake_client: pjrtd.Client) -> None:
    connection = fake_client._connection._outbox  # pyright: ignore[reportPrivateUsage]
    buffer = fake_client.buffer_from_host([1.0])
    with connection._lock:  # pyright: ignore[reportPrivateUsage]
        connection._sending = True  # pyright: ignore[reportPrivateUsage]
        try:
            with pytest.raises(pjrtd.errors.FailedPrecondition, match="signal handler"):
                buffer.to_host()
        finally:
            connection._sending = False  # pyright: ignore[reportPrivateUsage]
    assert buffer.tolist() == [1.0]
    buffer.close()
