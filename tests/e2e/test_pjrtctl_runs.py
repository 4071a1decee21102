"""pjrtctl run --steps: many steps in one call, what is shown of them, and their end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

import pytest

from daemon import Daemon
from test_pjrtctl import OverGrpc, complete, ctl, environment, on_terminal, output, pjrtctl_path

# x + y, the sum of that, and whether it is over 1000.
STEP = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>, tensor<i1>) {
  %sum = stablehlo.add %x, %y : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %most = stablehlo.constant dense<1000.0> : tensor<f32>
  %all = stablehlo.reduce(%sum init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %end = stablehlo.compare GT, %all, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %sum, %all, %end : tensor<4xf32>, tensor<f32>, tensor<i1> }"""
BY_ARGUMENT = ["run", "-", "--arg", "f32[4]=0", "--arg", "f32[4]=1", "--feed-back", "0=arg:0"]


@pytest.fixture(scope="module", params=[Daemon, OverGrpc], ids=["unix", "grpc"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder:
        with request.param(listen=[f"unix:{folder}/s.sock", "grpc://127.0.0.1:0"]) as started:
            yield started


def test_the_last_steps_results_are_printed(daemon: Daemon) -> None:
    assert output(daemon, *BY_ARGUMENT, "--steps", 250, stdin=STEP) == \
        "# after 250 steps\nf32[4]=250,250,250,250\nf32[]=1000\npred[]=false\n"


def test_a_row_after_every_so_many_steps_and_the_last(daemon: Daemon) -> None:
    shown = output(daemon, *BY_ARGUMENT, "--steps", 100, "--every", 30, stdin=STEP)
    table, results = shown.split("# after 100 steps\n")
    assert [line.split() for line in table.splitlines()] == [
        ["STEP", "1:f32[]", "2:pred[]"], ["30", "120", "false"], ["60", "240", "false"], ["90", "360", "false"],
        ["100", "400", "false"]]
    assert results == "f32[4]=100,100,100,100\nf32[]=400\npred[]=false\n"


def test_an_output_ends_it(daemon: Daemon) -> None:
    shown = output(daemon, *BY_ARGUMENT, "--steps", 10**9, "--every", 200, "--until", 2, stdin=STEP)
    assert [line.split() for line in shown.splitlines()[1:3]] == [["200", "800", "false"], ["251", "1004", "true"]]
    assert "# after 251 steps, as --until says\nf32[4]=251" in shown
    done = ctl(daemon, *BY_ARGUMENT, "--steps", 5, "--until", 1, stdin=STEP)
    assert done.returncode == 1 and "must be pred[], not f32[]" in done.stderr


def test_stacked_arguments_have_a_value_for_each_step(daemon: Daemon) -> None:
    args = ["run", "-", "--arg", "f32[4]=0", "--arg", "f32[3,4]=1,2,3,4,5,6,7,8,9,10,11,12", "--feed-back", "0=arg:0",
            "--stack", "1"]
    shown = json.loads(output(daemon, *args, "--every", 2, "--json", stdin=STEP))
    assert shown["results"][0]["values"] == [15, 18, 21, 24]
    assert (shown["steps"], shown["stopped"]) == (3, False)
    assert [(row["step"], [(each["output"], each["values"]) for each in row["results"]]) for row in shown["history"]] == [
        (2, [(1, [36]), (2, [False])]), (3, [(1, [78]), (2, [False])])]
    assert "# after 2 steps\nf32[4]=6,8,10,12\n" in output(daemon, *args, "--steps", 2, stdin=STEP)
    done = ctl(daemon, *args, "--steps", 4, stdin=STEP)
    assert done.returncode == 1 and "stacked for 3 steps" in done.stderr


def test_stacking_an_argument_that_is_not_there_is_refused(daemon: Daemon) -> None:
    text = """func.func @main() -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  return %zero : tensor<f32> }"""
    done = ctl(daemon, "run", "-", "--stack", "0", stdin=text)
    assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr, done
    done = ctl(daemon, *BY_ARGUMENT, "--stack", "7", stdin=STEP)
    assert done.returncode == 1 and "INVALID_ARGUMENT" in done.stderr, done
    assert output(daemon, "run", "-", "--steps", 3, stdin=text) == "# after 3 steps\nf32[]=0\n"


def test_what_does_not_fit_in_an_answer_is_shown_at_the_end_only(daemon: Daemon) -> None:
    text = STEP.replace("4xf32", "20000xf32")
    shown = output(daemon, "run", "-", "--arg", "f32[20000]=0", "--arg", "f32[20000]=1", "--steps", 4, "--every", 2, stdin=text)
    assert shown.splitlines()[0].split() == ["STEP", "1:f32[]", "2:pred[]"]
    assert shown.splitlines()[4].startswith("f32[20000]=1,1,1")


def test_the_deadline_is_of_the_whole_run(daemon: Daemon) -> None:
    done = ctl(daemon, *BY_ARGUMENT, "--steps", 10**15, "--deadline", "0.3", stdin=STEP)
    assert done.returncode == 1 and "DEADLINE_EXCEEDED" in done.stderr


def test_a_terminal_gets_a_bar_and_pipes_do_not(daemon: Daemon) -> None:
    parent, child = os.openpty()
    process = subprocess.Popen([str(pjrtctl_path()), *map(str, BY_ARGUMENT), "--steps", "1000000000", "--deadline", "1"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=child, env=environment(daemon.target))
    os.close(child)
    shown, _ = process.communicate(STEP.encode(), timeout=60)
    bar = b""
    while piece := read(parent):
        bar += piece
    os.close(parent)
    assert shown == b""
    counts = [int(count) for count in re.findall(r"\r\x1b\[K\[[# ]{30}\] (\d+)/1000000000 steps, ", bar.decode())]
    assert len(counts) > 2 and counts == sorted(counts) and counts[-1] > 0
    assert b"\r\x1b[Kpjrtctl: DEADLINE_EXCEEDED" in bar, "the bar is gone when something is said"
    assert ctl(daemon, *BY_ARGUMENT, "--steps", 100000, stdin=STEP).stderr == ""
    assert on_terminal(daemon, *BY_ARGUMENT, "--steps", 10, "--every", 5, stdin=STEP).splitlines()[0].split()[0] == "STEP"


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def test_an_interrupt_ends_it_between_steps(daemon: Daemon) -> None:
    in_session = isinstance(daemon, OverGrpc) is False
    args = BY_ARGUMENT
    if in_session:
        output(daemon, "slot", "put", "runs", "x", "f32[4]=0")
        args = ["run", "-", "--session", "runs", "--arg", "slot:x", "--arg", "f32[4]=1", "--feed-back", "0=x"]
    process = subprocess.Popen([str(pjrtctl_path()), *args, "--steps", "1000000000000", "--every", "1000"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(daemon.target))
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(STEP.encode())
    process.stdin.close()
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    while process.stdout.read1(65536):
        pass
    assert process.wait(30) == 1 and time.monotonic() - started < 20
    assert process.stderr is not None and b"CANCELLED" in process.stderr.read()
    if in_session:
        (value,) = set(output(daemon, "slot", "get", "runs", "x").split("=")[1].strip().split(","))
        assert float(value) >= 1000, "the last whole step's"
        (info,) = json.loads(output(daemon, "session", "--json"))["sessions"]
        assert (info["slots"], info["buffers"], info["programs"], info["calls_in_flight"]) == (1, 0, 0, 0)
        output(daemon, "session", "close", "runs")


@pytest.mark.parametrize(("args", "said"), [
    (["--every", "2"], "for a run of --steps"), (["--until", "2"], "for a run of --steps"), (["--steps", "0"], "not a number from 1"),
    (["--steps", "x"], "not a number"), (["--every", "0"], "not a number from 1"), (["--stack", "-1"], "not a number from 0"),
    (["--stack", "1", "--stack", "1"], "argument 1 is stacked already"), (["--feed-back", "0=arg:x"], "not a number"),
])
def test_a_wrong_command_line_is_2(args: list[str], said: str) -> None:
    done = ctl(None, "run", "x", *args)
    assert done.returncode == 2 and said in done.stderr, done


def test_bash_completes_the_options_of_runs() -> None:
    assert set(complete("pjrtctl", "run", "--")) >= {"--steps", "--every", "--until", "--stack"}
