"""Steps that fail after they were dispatched: which slots keep what they had, and which are poisoned since it was consumed."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest

from daemon import Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, CallFailed, RawClient
from test_fake_plugin_events import EXECUTE, MILLISECOND, ONES, SUMS, TENS, nothing_held  # noqa: F401
from test_run import answer, replies, start
from test_slots import CONSUMED, FAILED, PENDING, READY, bind, states, step, value

RUN_OVER = ["unix", "channel"]
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

INTERNAL = 13
UNDER_WAY = {  # of the N-th execution: it has taken its donated arguments when it fails
    "in the call": "{x}@{n}=error:13:lost;{x}@{n}=consume",
    "in the event": "{x}@{n}=event_error:13:lost",
    "in a late event": "{x}@{n}=event_error:13:lost;{x}@{n}=event_after:20",
}
under_way = pytest.mark.parametrize("how", UNDER_WAY.values(), ids=UNDER_WAY.keys())


@pytest.fixture(scope="module", params=["cpu", "elsewhere"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with FakeDaemon(platform=request.param, grpc=True) as started:
        yield started


def fails_at(number: int, how: str = "{x}@{n}=error:13:lost") -> str:
    return how.format(x=EXECUTE, n=number)


def sums(steps: int) -> bytes:
    """ONES and as many times TENS."""
    return struct.pack("<4f", *(i + steps * 10 * i for i in (1, 2, 3, 4)))


def is_lost(failed: CallFailed, consumed: bool) -> None:
    assert (failed.code, failed.message) == (INTERNAL, "lost")
    assert ("consumed" in failed.hint) == consumed, failed.hint


def poisoned(client: RawClient, slot: str, code: int, words: str) -> None:
    """Whoever uses it is told; whoever binds something else to it goes on."""
    (info,) = client.call("Session.Slots", slots=[slot]).slots
    if info.state != CONSUMED:
        assert info.state == FAILED and info.error.code == code and words in info.error.message, info
    made = client.compile(program())
    failed = client.failure_of(step(client, made, [slot, "b"], {0: "other"}))
    assert failed.code == code and words in failed.message, failed
    bind(client, **{slot: ONES})
    client.answer(step(client, made, [slot, "b"], {0: slot}))
    assert value(client, slot) == SUMS


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_a_step_that_fails_before_it_begins_changes_no_slot(client: RawClient, loops: bool, number: int) -> None:
    made = client.compile(program(script=fails_at(number), donated={0: 0}, loops=loops))
    bind(client, a=ONES, b=TENS)
    for _ in range(number - 1):
        client.answer(step(client, made, ["a", "b"], {0: "a"}))
    is_lost(client.failure_of(step(client, made, ["a", "b"], {0: "a"})), consumed=False)
    assert states(client) == dict(a=READY, b=READY)
    assert value(client, "a") == sums(number - 1)
    client.answer(step(client, made, ["a", "b"], {0: "a"}))
    assert value(client, "a") == sums(number) and value(client, "b") == TENS


@under_way
@pytest.mark.parametrize("loops", [False, True])
def test_a_step_that_fails_under_way_poisons_what_it_consumed(client: RawClient, how: str, loops: bool) -> None:
    """Two slots are fed: the one whose value was donated is lost, the other has what it had."""
    made = client.compile(program(results=("4xf32", "4xf32"), script=fails_at(2, how), donated={0: 0}, loops=loops))
    bind(client, a=ONES, b=TENS, c=ONES)
    client.answer(step(client, made, ["a", "b"], {0: "a", 1: "c"}))
    failed = client.failure_of(call := step(client, made, ["a", "b"], {0: "a", 1: "c"}))
    is_lost(failed, consumed=True)
    assert value(client, "c") == SUMS and value(client, "b") == TENS
    (info,) = client.call("Session.Slots", slots=["a"]).slots
    assert info.error.origin_call == call
    poisoned(client, "a", INTERNAL, "lost")


@under_way
def test_what_is_not_to_be_donated_is_not_lost(client: RawClient, how: str) -> None:
    made = client.compile(program(script=fails_at(1, how), donated={0: 0}))
    bind(client, a=ONES, b=TENS)
    call = client.start("Execute.Execute", program=made, args=[0, 0], non_donatable=[0], feed_back=[dict(output=0, slot="a")],
                        slot_args=[dict(position=0, slot="a"), dict(position=1, slot="b")])
    is_lost(client.failure_of(call), consumed=False)
    assert value(client, "a") == ONES and value(client, "b") == TENS


@under_way
def test_a_slot_that_was_consumed_and_not_fed_says_that_it_was_donated(client: RawClient, how: str) -> None:
    made = client.compile(program(script=fails_at(1, how), donated={0: 0}))
    bind(client, a=ONES, b=TENS)
    is_lost(client.failure_of(step(client, made, ["a", "b"], {0: "new"})), consumed=True)
    poisoned(client, "a", INVALID_ARGUMENT, "donated")
    poisoned(client, "new", INTERNAL, "lost")


@under_way
def test_steps_behind_one_that_fails_tell_of_it(client: RawClient, how: str) -> None:
    """All sent at once: what came before stays done, what came behind fails with the same error, nothing is done twice."""
    made = client.compile(program(script=fails_at(3, how), donated={0: 0}))
    bind(client, a=ONES, b=TENS)
    calls = [step(client, made, ["a", "b"], {0: "a"}) for _ in range(6)]
    for call in calls[:2]:
        client.answer(call)
    is_lost(client.failure_of(calls[2]), consumed=True)
    for call in calls[3:]:
        failed = client.failure_of(call)
        assert (failed.code, failed.message, failed.detail.origin_call) == (INTERNAL, "lost", calls[2])
    poisoned(client, "a", INTERNAL, "lost")


@pytest.mark.parametrize("donated", [{0: 0}, {}])
@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_a_step_that_is_given_up_while_it_runs(daemon: FakeDaemon, client: RawClient, how: str, donated: dict[int, int]) -> None:
    """The slot has its old value at once, or what becomes of that: who uses it waits until the plugin lets go."""
    made = client.compile(program(script=f"{EXECUTE}=event_hold", donated=donated, loops=True))
    bind(client, a=ONES, b=TENS)
    call = step(client, made, ["a", "b"], {0: "a"}, deadline_ns=100 * MILLISECOND if how == "deadline" else 0)
    assert states(client)["a"] == PENDING
    if how == "cancel":
        time.sleep(0.1)  # until then it may not have begun, and would be taken back
        client.cancel(call, "Execute.Execute")
    code = DEADLINE_EXCEEDED if how == "deadline" else CANCELLED
    assert client.failure_of(call).code == code
    again = client.compile(program())
    later = step(client, again, ["a", "b"], {0: "sums"})
    if donated:
        assert not client.has_input(0.1), "nobody knows yet"
        daemon.release()
        failed = client.failure_of(later)
        assert failed.code == INVALID_ARGUMENT and "donated" in failed.message
        poisoned(client, "a", INVALID_ARGUMENT, "donated")
    else:
        client.answer(later)
        assert value(client, "a") == ONES and value(client, "sums") == SUMS
    assert value(client, "b") == TENS
    daemon.release()


# -- runs ----


@pytest.mark.parametrize("donated", [{0: 0}, {}])
@pytest.mark.parametrize("number", [1, 2, 50])
def test_a_run_that_fails_leaves_what_the_step_before_gave(client: RawClient, donated: dict[int, int], number: int) -> None:
    made = client.compile(program(script=fails_at(number), donated=donated))
    bind(client, a=ONES, b=TENS)
    failed = client.failure_of(call := start(client, made, ["a", "b"], {0: "a"}, run=dict(steps=100)))
    is_lost(failed, consumed=False)
    assert failed.detail.origin_call in (0, call)
    if number > 1:
        assert f"{number - 1} whole steps were made before it" in failed.hint
    assert value(client, "a") == sums(number - 1)
    reply, bulk = answer(client, start(client, made, ["a", "b"], {0: "a"}, run=dict(steps=100), fetch=[0]))
    assert (reply.steps, bulk) == (100, sums(number - 1 + 100)) and value(client, "a") == bulk


@under_way
@pytest.mark.parametrize("number", [1, 2, 50])
def test_a_run_whose_step_fails_under_way(client: RawClient, how: str, number: int) -> None:
    """Without donation it changes nothing; with it the slot that was consumed is poisoned and the other has its value."""
    bind(client, a=ONES, b=TENS, c=ONES)
    plain = client.compile(program(script=fails_at(number, how)))
    is_lost(client.failure_of(start(client, plain, ["a", "b"], {0: "a"}, run=dict(steps=100))), consumed=False)
    assert value(client, "a") == sums(number - 1)
    bind(client, a=ONES)
    donates = client.compile(program(results=("4xf32", "4xf32"), script=fails_at(number, how), donated={0: 0}))
    is_lost(client.failure_of(start(client, donates, ["a", "b"], {0: "a", 1: "c"}, run=dict(steps=100))), consumed=True)
    assert value(client, "c") == (sums(number - 1) if number > 1 else ONES) and value(client, "b") == TENS
    poisoned(client, "a", INTERNAL, "lost")


def test_what_a_run_told_before_it_failed_was_right(client: RawClient) -> None:
    made = client.compile(program(script=fails_at(8, UNDER_WAY["in the event"]), donated={0: 0}))
    bind(client, a=ONES, b=TENS)
    kept, told = client.new_buffer(), []
    call = start(client, made, ["a", "b"], {0: "a"}, run=dict(steps=100, every=2), fetch=[0], outputs=[kept])
    with pytest.raises(CallFailed, match="lost"):
        for reply, bulk, _ in replies(client, call):
            told.append((reply.steps, bulk))
    assert told == [(steps, sums(steps)) for steps in (2, 4, 6)]
    assert client.failure("Buffer.Download", buffer=kept).message == "lost"
    poisoned(client, "a", INTERNAL, "lost")
