"""pjrtctl slot publish, borrow, withdraw and published: weights that sessions share, from a shell."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator

import pytest

from daemon import Daemon
from test_pjrtctl import ADD, complete, ctl, on_terminal, output
from test_pjrtctl_slots import TWO

pytestmark = pytest.mark.usefixtures("balanced")


@pytest.fixture
def sessions(daemon: Daemon) -> Iterator[tuple[str, str]]:
    """Two names: that of a session with the slots w and b, and one of which there is no session; none is left."""
    output(daemon, "slot", "put", "trainer", "w", "f32[4]=1,2,3,4")
    output(daemon, "slot", "put", "trainer", "b", "f32[4]=10")
    yield "trainer", "reader"
    ctl(daemon, "session", "close", "trainer")
    ctl(daemon, "session", "close", "reader")


def held(daemon: Daemon, session: str) -> dict[str, bool]:
    """The session's slots, and whether each is read-only."""
    return {slot["slot"]: slot["published"] for slot in json.loads(output(daemon, "slot", "ls", session, "--json"))["slots"]}


def test_weights_are_shared_without_a_copy(daemon: Daemon, sessions: tuple[str, str]) -> None:
    trainer, reader = sessions
    assert output(daemon, "slot", "publish", trainer, "model") == ""
    before = daemon.stats().buffer_bytes
    assert output(daemon, "slot", "borrow", reader, "model", "--ttl", "90") == ""
    assert daemon.stats().buffer_bytes == before == 32
    assert held(daemon, trainer) == held(daemon, reader) == {"b": True, "w": True}
    assert output(daemon, "run", ADD, "--session", reader, "--arg", "slot:w", "--arg", "slot:b") == "f32[4]=11,12,13,14\n"
    # Nobody's program consumes it.
    for session in sessions:
        done = ctl(daemon, "run", "-", "--session", session, "--arg", "slot:w", "--arg", "slot:b", stdin=TWO)
        assert done.returncode == 1 and "the buffer is published" in done.stderr
    # It stays with who has borrowed it.
    output(daemon, "session", "close", trainer)
    assert output(daemon, "slot", "get", reader, "w", "b") == "f32[4]=1,2,3,4\nf32[4]=10,10,10,10\n"
    done = ctl(daemon, "slot", "borrow", reader, "model")
    assert done.returncode == 1 and "nothing is published as 'model'" in done.stderr


def test_some_of_the_slots_under_other_names(daemon: Daemon, sessions: tuple[str, str]) -> None:
    trainer, reader = sessions
    output(daemon, "slot", "publish", trainer, "weights", "w")
    assert held(daemon, trainer) == {"b": False, "w": True}
    output(daemon, "slot", "put", reader, "own", "f32[2]=1")
    output(daemon, "slot", "borrow", reader, "weights", "w=frozen/w", "w", "w=a=b")
    assert held(daemon, reader) == {"a=b": True, "frozen/w": True, "own": False, "w": True}
    assert output(daemon, "slot", "get", reader, "frozen/w") == "f32[4]=1,2,3,4\n"
    done = ctl(daemon, "slot", "borrow", reader, "weights", "w=other", "b")
    assert done.returncode == 1 and "nothing called 'b' is published in 'weights'" in done.stderr
    done = ctl(daemon, "slot", "publish", trainer, "more", "w", "none")
    assert done.returncode == 1 and "this session has no slot 'none'" in done.stderr
    assert "other" not in held(daemon, reader)


def test_what_is_published_is_listed_and_withdrawn(daemon: Daemon, sessions: tuple[str, str]) -> None:
    trainer, reader = sessions
    assert json.loads(output(daemon, "slot", "published", "--json")) == {"publications": []}
    output(daemon, "slot", "publish", trainer, "model", "--everybody")
    output(daemon, "slot", "publish", trainer, "half", "w", "--uid", "0", "--uid=4294967295")
    output(daemon, "slot", "borrow", reader, "model")
    output(daemon, "slot", "borrow", reader, "model", "w=again")
    with daemon.connect() as client:
        client.call("Session.Borrow", name="half")
        number = [info["session"] for info in json.loads(output(daemon, "session", "--json"))["sessions"]
                  if info["name"] == trainer][0]
        half, model = json.loads(output(daemon, "slot", "published", "--json"))["publications"]
    assert model == {"name": "model", "session": number, "session_name": trainer, "uid": os.getuid(), "own": True,
                     "everybody": True, "slots": 2, "bytes": 32, "borrowed": 2}
    assert half == model | {"name": "half", "everybody": False, "slots": 1, "bytes": 16, "borrowed": 1}
    user = pwd.getpwuid(os.getuid()).pw_name
    header, *rows = output(daemon, "slot", "published").splitlines()
    assert header.split() == ["NAME", "OWNER", "SESSION", "SLOTS", "BYTES", "BORROWED", "FOR"]
    assert [row.split() for row in rows] == [["half", user, trainer, "1", "16", "B", "1", "chosen", "users"],
                                             ["model", user, trainer, "2", "32", "B", "2", "everybody"]]
    assert output(daemon, "slot", "withdraw", "model") == ""
    done = ctl(daemon, "slot", "withdraw", "model")
    assert done.returncode == 1 and "nothing is published as 'model'" in done.stderr
    assert held(daemon, reader) == {"again": True, "b": True, "w": True}
    (left,) = json.loads(output(daemon, "slot", "published", "--json"))["publications"]
    assert left["name"] == "half"


def test_a_terminal_gets_lines_that_fit(daemon: Daemon, sessions: tuple[str, str]) -> None:
    output(daemon, "slot", "publish", sessions[0], "model")
    shown = on_terminal(daemon, "slot", "published", columns=60, NO_COLOR="1")
    assert "model" in shown and max(map(len, shown.splitlines())) <= 60, shown


def test_others_see_and_take_only_what_is_for_everybody(daemon: Daemon, sessions: tuple[str, str]) -> None:
    """Over TCP, where nobody knows who asks."""
    with daemon.connect("channel") as remote:
        remote.call("Session.Bind", bindings=[dict(slot="x", buffer=remote.upload("f32", [1], bytes(4)))])
        remote.call("Session.Publish", name="theirs", everybody=True)
        output(daemon, "slot", "publish", sessions[0], "mine")
        over = ["--target", daemon.grpc_target]
        (seen,) = json.loads(output(daemon, "slot", "published", "--json", *over))["publications"]
        assert (seen["name"], seen["uid"], seen["session_name"]) == ("theirs", None, "")
        _, mine, theirs = output(daemon, "slot", "published").splitlines()
        assert mine.split()[0] == "mine"
        assert theirs.split()[:3] == ["theirs", "remote", str(seen["session"])]
        output(daemon, "slot", "borrow", sessions[1], "theirs")
        assert output(daemon, "slot", "get", sessions[1], "x") == "f32[1]=0\n"
        done = ctl(daemon, "slot", "withdraw", "mine", *over)
        assert done.returncode == 1 and "nothing is published as 'mine'" in done.stderr


@pytest.mark.parametrize(("args", "said"), [
    (["publish", "s"], "slot publish takes other arguments"), (["borrow", "s"], "slot borrow takes other"),
    (["withdraw"], "slot withdraw takes other"), (["withdraw", "a", "b"], "slot withdraw takes other"),
    (["published", "s"], "slot published takes other"), (["publish", "s", "m", "--uid", "me"], '"me" is not a number'),
    (["publish", "s", "m", "--uid", "-1"], '"-1" is not a number'), (["publish", "s", "m", *["--uid=1"] * 65], "at most 64 users"),
    (["borrow", "s", "m", "=x"], '"=x" is not SLOT or SLOT=AS'), (["borrow", "s", "m", "w", "w="], '"w=" is not SLOT'),
    (["borrow", "s", "m", ""], '"" is not SLOT'),
    (["borrow", "s", "m", "--everybody"], "--everybody and --uid are for slot publish"),
    (["ls", "s", "--uid", "3"], "are for slot publish"),
])
def test_a_wrong_command_line_is_2(args: list[str], said: str) -> None:
    done = ctl(None, "slot", *args)
    assert done.returncode == 2 and said in done.stderr, done


def test_bash_completes_it() -> None:
    assert complete("pjrtctl", "slot", "pub") == ["publish", "published"]
    assert set(complete("pjrtctl", "slot", "publish", "s", "m", "--")) >= {"--everybody", "--uid"}
