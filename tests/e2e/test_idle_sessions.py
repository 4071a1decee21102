"""session_idle_seconds: sessions that are attached to and forgotten end, after a warning."""

from __future__ import annotations

import re
import signal
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pjrtd
import wire_messages as wire
from daemon import PATIENCE, Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import ABORTED, ERROR, NOT_FOUND, NOTICE, Closed, Frame, RawClient
from test_pjrtctl import ctl

IDLE = 2.0 * PATIENCE
DATA = struct.pack("<4f", 1, 2, 3, 4)


@pytest.fixture(params=["unix", "channel"])
def link(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with FakeDaemon(settings=dict(session_idle_seconds=int(IDLE)), grpc=True) as started:
        yield started


def until(holds: Callable[[], bool], seconds: float = 20 * PATIENCE) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def connect(daemon: Daemon, link: str, *, notices: bool = True, **options: Any) -> RawClient:
    """A client that does not say hello by itself, but asks for notices."""
    client = daemon.connect(link, hello=False, **options)
    client.hello = client.call("Runtime.Hello", min_version=1, max_version=1, client_name="idle", wants_notices=notices)
    return client


def rest(client: RawClient) -> list[Frame]:
    """All that comes until the daemon closes."""
    frames = []
    try:
        while True:
            frames.append(client.receive())
    except Closed:
        return frames


def check_end(frames: list[Frame], notices: bool = True) -> None:
    assert [got.kind for got in frames] == ([NOTICE] if notices else []) + [ERROR]
    if notices:
        assert frames[0].call == 0
        notice = wire.message_class("Notice").FromString(frames[0].payload)
        assert notice.message.startswith("the session was not used for ") and " unless it is used" in notice.message
        assert 0 < notice.idle_end_ns <= IDLE * 1e8
    assert frames[-1].call == 0
    error = wire.message_class("Error").FromString(frames[-1].payload)
    told = re.fullmatch(r"the session was idle for (\d+) s, and was ended", error.message)
    assert error.code == ABORTED and told and IDLE <= int(told[1]) <= IDLE + 2, error.message  # it is looked at once a second
    assert "session_idle_seconds" in error.hint


@pytest.mark.parametrize("notices", [True, False])
def test_a_forgotten_session_is_warned_and_ended(daemon: Daemon, link: str, notices: bool) -> None:
    logged = len(daemon.log())
    with connect(daemon, link, notices=notices) as client:
        client.call("Session.Open", name="forgotten", ttl_ns=10**12)
        buffer = client.upload("f32", [4], DATA)
        began = time.monotonic()
        check_end(rest(client), notices)
        assert time.monotonic() - began > IDLE - 0.1
    log = daemon.log()[logged:]
    assert log.count("an idle session will end") == 1 and log.count("an idle session was ended") == 1
    # It is gone with all that it held, whatever its lease would have been.
    assert daemon.settled()["buffers"] == 0
    with daemon.connect(link) as client:
        assert client.failure("Buffer.Stat", buffer=buffer).code == NOT_FOUND


def test_all_its_connections_are_told_and_no_others(daemon: Daemon, link: str) -> None:
    with connect(daemon, link) as first, connect(daemon, link) as second, connect(daemon, link) as busy:
        second.attach(token=first.call("Session.Open").token, join=True)
        kept = busy.upload("f32", [4], DATA)
        ends = time.monotonic() + 1.6 * IDLE
        while time.monotonic() < ends:
            assert busy.download(kept) == DATA
            time.sleep(0.05)
        check_end(rest(first))
        check_end(rest(second))
        assert busy.download(kept) == DATA


def test_a_call_after_the_warning_keeps_it(daemon: Daemon, link: str) -> None:
    with connect(daemon, link) as client:
        buffer = client.upload("f32", [4], DATA)
        for _ in range(2):
            assert client.receive().kind == NOTICE
            assert client.download(buffer) == DATA
        assert client.call("Session.List").sessions[0].idle_left_ns == 0


def test_what_is_under_way_is_use(daemon: Daemon, link: str) -> None:
    with connect(daemon, link) as client:
        holds = client.compile(program(script="LoadedExecutable_Execute=hold", loops=True))
        given = [client.upload("f32", [4], DATA), client.upload("f32", [4], DATA)]
        (output,), call = client.start_execute(holds, given)
        time.sleep(1.5 * IDLE)
        daemon.release()
        until(lambda: client.stats().calls_in_flight == 0)
        daemon.hold()
        client.reply(call, "Execute.Execute")
        assert client.download(output) == struct.pack("<4f", 2, 4, 6, 8)
        check_end(rest(client))


def test_a_session_that_nobody_is_attached_to_has_its_lease(daemon: Daemon, link: str) -> None:
    with connect(daemon, link) as client:
        token = client.call("Session.Open", ttl_ns=10**12).token
        buffer = client.upload("f32", [4], DATA)
    time.sleep(1.5 * IDLE)
    with connect(daemon, link) as client:
        client.attach(token=token)
        assert client.download(buffer) == DATA
        client.call("Session.Close")


def test_unary_calls_find_it_gone(daemon: Daemon) -> None:
    with daemon.connect("unary") as client:
        buffer = client.upload("f32", [4], DATA)
        assert client.download(buffer) == DATA
        until(lambda: daemon.stats().buffers == 0)
        assert client.failure("Buffer.Stat", buffer=buffer).code == NOT_FOUND


def test_listings_mark_it(daemon: Daemon) -> None:
    def left() -> int:
        with daemon.connect() as observer:
            (seen,) = observer.call("Session.List", name="dozing").sessions
            return int(seen.idle_left_ns)

    with connect(daemon, "unix") as client:
        client.call("Session.Open", name="dozing")
        until(lambda: "idle, ends in " in ctl(daemon, "session", "ls").stdout)
        assert client.receive().kind == NOTICE
        client.call("Runtime.Info")
        assert left() == 0
        until(lambda: left() > 0)
        assert left() <= IDLE * 1e8
        client.call("Session.Close")


def test_python_is_warned_at_its_next_use(daemon: Daemon, link: str) -> None:
    target = daemon.target if link == "unix" else daemon.grpc_target
    logged = len(daemon.log())
    with pjrtd.Client.create(target) as client:
        buffer = client.buffer_from_host([1.0, 2.0], "f32")
        assert buffer.tolist() == [1.0, 2.0]
        until(lambda: "an idle session will end" in daemon.log()[logged:])
        with pytest.warns(pjrtd.SessionIdleWarning, match="the session was not used for"):
            assert buffer.tolist() == [1.0, 2.0]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert buffer.tolist() == [1.0, 2.0], "once"


def test_a_warning_that_is_an_error_leaves_the_connection_usable(daemon: Daemon) -> None:
    logged = len(daemon.log())
    with pjrtd.Client.create(daemon.target) as client:
        buffer = client.buffer_from_host([1.0, 2.0], "f32")
        assert buffer.tolist() == [1.0, 2.0]
        until(lambda: "an idle session will end" in daemon.log()[logged:])
        with warnings.catch_warnings(), pytest.raises(pjrtd.SessionIdleWarning):
            warnings.simplefilter("error")
            buffer.tolist()
        assert buffer.tolist() == [1.0, 2.0]


@pytest.mark.filterwarnings("ignore::pjrtd.SessionIdleWarning")
def test_python_is_told_that_it_ended(daemon: Daemon, link: str) -> None:
    target = daemon.target if link == "unix" else daemon.grpc_target
    logged = len(daemon.log())
    client = pjrtd.Client.create(target)
    try:
        buffer = client.buffer_from_host([1.0, 2.0], "f32")
        assert buffer.tolist() == [1.0, 2.0]
        until(lambda: "an idle session was ended" in daemon.log()[logged:])
        with pytest.raises(pjrtd.errors.Aborted, match="the session was idle for"):
            buffer.tolist()
    finally:
        client.close()


def test_it_is_off_until_it_is_set_and_on_a_reload(tmp_path: Any) -> None:
    config = tmp_path / "pjrtd.conf"
    config.write_text("")
    with Daemon(args=["--config", str(config)]) as daemon, connect(daemon, "unix") as client:
        buffer = client.upload("f32", [4], DATA)
        time.sleep(1.2)
        assert client.download(buffer) == DATA
        config.write_text("session_idle_seconds = 1\n")
        daemon.signal(signal.SIGHUP)
        frames = rest(client)
        assert [got.kind for got in frames] == [NOTICE, ERROR]
        config.write_text("")
        daemon.signal(signal.SIGHUP)
        until(lambda: daemon.log().count("setting reloaded") == 2)
        with connect(daemon, "unix") as again:
            time.sleep(1.5)
            again.upload("f32", [4], DATA)
