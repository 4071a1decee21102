"""pjrtctl slot, and run within a session: state that stays on the device between the commands of a shell."""

from __future__ import annotations

import json
import pathlib
import re
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from daemon import Daemon
from test_pjrtctl import ADD, complete, ctl, output

SECOND_NS = 1_000_000_000
TWO = """func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %sum = stablehlo.add %x, %y : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %all = stablehlo.reduce(%sum init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %sum, %all : tensor<4xf32>, tensor<f32> }"""
pytestmark = pytest.mark.usefixtures("balanced")


@pytest.fixture
def session(daemon: Daemon) -> Iterator[str]:
    """A name of which no session is left."""
    yield "exp-1"
    ctl(daemon, "session", "close", "exp-1")


def test_state_stays_between_commands(daemon: Daemon, session: str) -> None:
    assert output(daemon, "slot", "put", session, "x", "f32[4]=1,2,3,4") == ""
    for step in (1, 2, 3):
        shown = output(daemon, "run", "-", "--session", session, "--arg", "slot:x", "--arg", "f32[4]=10",
                       "--feed-back", "0=x", stdin=TWO)
        assert shown == f"slot:x\nf32[]={10 + 40 * step}\n"
    assert output(daemon, "slot", "get", session, "x") == "f32[4]=31,32,33,34\n"
    # Nothing but the slot is left of it.
    (info,) = json.loads(output(daemon, "session", "--json"))["sessions"]
    assert (info["name"], info["slots"], info["buffers"], info["programs"], info["buffer_bytes"]) == (session, 1, 0, 0, 16)
    shown = output(daemon, "session", "show", session)
    assert re.search(r"^slots +1$", shown, re.M) and re.search(r"^ +slot:x +16 B +0 +f32\[4\]$", shown, re.M), shown
    (largest,) = json.loads(output(daemon, "session", "show", session, "--json"))["largest"]
    assert (largest["buffer"], largest["slot"], largest["bytes"]) == (None, "x", 16)


def test_a_step_that_fails_leaves_the_slot_and_nothing_else(daemon: Daemon, session: str) -> None:
    output(daemon, "slot", "put", session, "x", "f32[4]=1")
    done = ctl(daemon, "run", ADD, "--session", session, "--arg", "slot:x", "--arg", "s32[4]=1", "--feed-back", "0=x")
    assert done.returncode == 1 and "must be f32[4], not s32[4]" in done.stderr
    done = ctl(daemon, "run", ADD, "--session", session, "--arg", "slot:y", "--arg", "f32[4]=1")
    assert done.returncode == 1 and "no slot 'y'" in done.stderr
    assert output(daemon, "slot", "get", session, "x") == "f32[4]=1,1,1,1\n"
    (info,) = json.loads(output(daemon, "session", "--json"))["sessions"]
    assert (info["slots"], info["buffers"], info["programs"], info["buffer_bytes"]) == (1, 0, 0, 16)


def test_slots_are_listed_saved_and_removed(daemon: Daemon, session: str, tmp_path: pathlib.Path) -> None:
    output(daemon, "slot", "put", session, "layer/0/w", "f32[2,2]=1,2,3,4", "--ttl", "90")
    output(daemon, "slot", "put", session, "bias", "s8[3]=-1", "--device", "1")
    # One that is donated and not fed back.
    output(daemon, "slot", "put", session, "gone", "f32[4]=1")
    output(daemon, "run", "-", "--session", session, "--arg", "slot:gone", "--arg", "f32[4]=10", stdin=TWO)
    header, *rows = output(daemon, "slot", "ls", session).splitlines()
    assert header.split() == ["SLOT", "STATE", "BYTES", "DEVICE", "TYPE"]
    assert [row.split() for row in rows] == [["bias", "ready", "3", "B", "1", "s8[3]"], ["gone", "donated", "-", "-", "-"],
                                             ["layer/0/w", "ready", "16", "B", "0", "f32[2,2]"]]
    listed = json.loads(output(daemon, "slot", "ls", session, "--json"))["slots"]
    assert listed[0] == {"slot": "bias", "state": "ready", "type": "s8[3]", "device": 1, "bytes": 3, "published": False, "error": None}
    assert listed[1] == {"slot": "gone", "state": "donated", "type": None, "device": None, "bytes": None, "published": False, "error": None}
    shown = output(daemon, "slot", "get", session, "layer/0/w", "bias", "--save", tmp_path / "s.npz")
    assert shown == "f32[2,2]=1,2,3,4\ns8[3]=-1,-1,-1\n"
    saved = np.load(tmp_path / "s.npz")
    assert saved["layer/0/w"].tolist() == [[1, 2], [3, 4]] and saved["bias"].tolist() == [-1, -1, -1]
    (got,) = json.loads(output(daemon, "slot", "get", session, "bias", "--json"))["slots"]
    assert (got["slot"], got["type"], got["values"]) == ("bias", "s8[3]", [-1, -1, -1])
    (info,) = json.loads(output(daemon, "session", "--json"))["sessions"]
    assert info["ttl_ns"] == 90 * SECOND_NS
    assert output(daemon, "slot", "rm", session, "bias", "layer/0/w", "gone") == ""
    done = ctl(daemon, "slot", "rm", session, "bias")
    assert done.returncode == 1 and "this session has no slot 'bias'" in done.stderr


def test_a_failed_slot_says_how(daemon: Daemon, session: str) -> None:
    with daemon.connect() as client:
        client.call("Session.Open", name=session, ttl_ns=60 * SECOND_NS)
        program = client.compile(ADD.read_text())
        bad = client.new_buffer()
        client.start("Execute.Execute", program=program, args=[77, 78], outputs=[bad], quiet=True)
        client.call("Session.Bind", bindings=[dict(slot="x", buffer=bad)])
        shown = output(daemon, "slot", "ls", session)
        assert re.search(r"^x +failed +- +- +NOT_FOUND: .*77", shown, re.M), shown
        (listed,) = json.loads(output(daemon, "slot", "ls", session, "--json"))["slots"]
        assert listed["state"] == "failed" and listed["error"]["code"] == "NOT_FOUND" and "77" in listed["error"]["message"]


def test_the_command_is_beside_whoever_uses_the_session(daemon: Daemon, session: str) -> None:
    with daemon.connect() as client:
        client.call("Session.Open", name=session, ttl_ns=60 * SECOND_NS)
        buffer = client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4))
        client.call("Session.Bind", bindings=[dict(slot="x", buffer=buffer)])
        output(daemon, "run", "-", "--session", session, "--arg", "slot:x", "--arg", "f32[4]=0.5", "--feed-back", "0=x", stdin=TWO)
        assert client.call("Buffer.Stat", buffer=buffer).is_deleted, "donated by the command"
        found = client.new_buffer()
        client.call("Session.Lookup", bindings=[dict(slot="x", buffer=found)])
        assert struct.unpack("<4f", client.download(found)) == (1.5, 2.5, 3.5, 4.5)


def test_what_is_published_is_read_only(daemon: Daemon, session: str) -> None:
    output(daemon, "slot", "put", session, "x", "f32[4]=1")
    output(daemon, "slot", "publish", session, "weights", "x")
    assert output(daemon, "slot", "ls", session).splitlines()[1].split() == ["x", "ready,", "read-only", "16", "B", "0", "f32[4]"]
    assert json.loads(output(daemon, "slot", "ls", session, "--json"))["slots"][0]["published"]
    done = ctl(daemon, "run", "-", "--session", session, "--arg", "slot:x", "--arg", "f32[4]=10", "--feed-back", "0=x", stdin=TWO)
    assert done.returncode == 1 and "published" in done.stderr


def test_results_of_json_name_the_slot(daemon: Daemon, session: str) -> None:
    shown = json.loads(output(daemon, "run", ADD, "--session", session, "--arg", "f32[4]=1", "--arg", "f32[4]=2",
                              "--feed-back=0=sum", "--json"))
    assert shown["results"] == [{"slot": "sum", "device": 0}]
    assert output(daemon, "slot", "get", session, "sum") == "f32[4]=3,3,3,3\n"


@pytest.mark.parametrize(("args", "said"), [
    (["slot"], "slot what?"), (["slot", "drop", "s"], 'slot knows no "drop"'), (["slot", "ls"], "slot ls takes other arguments"),
    (["slot", "put", "s", "x"], "takes other"), (["slot", "get", "s"], "takes other"),
    (["slot", "put", "s", "x", "slot:y"], "not from another slot"), (["slot", "put", "s", "x", "f32[2]=1,2,3"], "values"),
    (["slot", "put", "s", "x", "f32=1", "--ttl", "0"], "not a number of seconds"),
    (["run", "x", "--ttl", "3"], "--ttl is for a --session"), (["run", "x", "--feed-back", "0"], "not OUTPUT=SLOT"),
    (["run", "x", "--feed-back", "y=0"], '"y" is not a number'), (["run", "x", "--arg", "slot:"], "of which name?"),
    (["run", "x", "--session", ""], "name is missing"),
])
def test_a_wrong_command_line_is_2(args: list[str], said: str) -> None:
    done = ctl(None, *args)
    assert done.returncode == 2 and said in done.stderr, done


def test_a_session_is_named_over_the_local_socket_only(daemon: Daemon) -> None:
    done = ctl(daemon, "slot", "ls", "exp-1", "--target", daemon.grpc_target)
    assert done.returncode == 1 and "over the local socket" in done.stderr
    done = ctl(daemon, "slot", "ls", "nobody")
    assert done.returncode == 1 and "you have no session nobody" in done.stderr.replace("'", "")
    assert json.loads(output(daemon, "session", "--json"))["sessions"] == []


def test_bash_completes_slots() -> None:
    assert complete("pjrtctl", "slot", "pu") == ["put", "publish", "published"]
    assert complete("pjrtctl", "session", "s") == ["show"]
    assert set(complete("pjrtctl", "run", "--")) >= {"--session", "--feed-back", "--ttl"}
    assert complete("pjrtctl", "run", "x", "--arg", "sl") == ["slot:"]
