"""Start, ready line, signals, exit codes, sockets that are stale, stolen or impossible, logs."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import stat
import struct
import subprocess
import time

import pytest

import pjrtd
import wire_messages as wire
from bystander import Bystander
from case_programs import case, nested_ifs, stepped
from daemon import PATIENCE, Daemon, refuses_to_start
from raw_frames import CANCELLED, ERROR, REPLY, UNAVAILABLE, Closed, RawClient, deadline


def serves(daemon: Daemon) -> None:
    other = Bystander(daemon)
    other.check()
    other.close()


# -- start and end ---------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_with_0(number: signal.Signals) -> None:
    with Daemon() as daemon:
        serves(daemon)
        daemon.stop(number)


def test_a_second_signal_does_not_hurt() -> None:
    with Daemon() as daemon:
        other = Bystander(daemon)
        daemon.signal(signal.SIGTERM)
        time.sleep(0.05)
        if daemon.process.poll() is None:
            daemon.signal(signal.SIGTERM)
        code = daemon.wait(20)
        assert code == 0
        assert not daemon.socket_path.exists()
        other.close()


def test_signals_during_the_start() -> None:
    for delay in (0.0, 0.005, 0.02, 0.05, 0.1, 0.2):
        daemon = Daemon()
        try:
            daemon.spawn()
            time.sleep(delay)
            daemon.signal(signal.SIGTERM)
            code = daemon.wait(20)
            assert code in (0, -signal.SIGTERM), code
            assert not daemon.socket_path.exists()
            daemon.check_log()
        finally:
            daemon.discard()


def test_hangup_reloads_and_goes_on() -> None:
    with Daemon() as daemon:
        other = Bystander(daemon)
        for _ in range(3):
            daemon.signal(signal.SIGHUP)
            time.sleep(0.05)
            other.check()
        other.close()


def test_a_broken_pipe_does_not_end_it() -> None:
    """Nobody reads its standard output any more, and clients go while it writes to them."""
    with Daemon() as daemon:
        daemon.process.stdout.close()
        for _ in range(50):
            client = daemon.connect()
            for _ in range(100):
                client.start("Runtime.Devices")
            client.close()
        serves(daemon)
        daemon.output = daemon.output[:1]


def test_running_work_ends_within_the_grace_time() -> None:
    """An execute of about a second is under way when the signal comes: it finishes. New work is refused."""
    with Daemon(settings={"drain_seconds": 20}) as daemon:
        with daemon.connect() as client:
            program = client.compile(case("stepped_loop").text)
            count = 400_000_000
            number, start = client.upload("s32", [], struct.pack("<i", count)), client.upload("u32", [], bytes(4))
            _, call = client.start_execute(program, [number, start], outputs=[], fetch=[0])
            time.sleep(0.2)
            daemon.signal(signal.SIGTERM)
            time.sleep(0.1)
            late = client.start("Buffer.Upload", bytes(4), buffer=client.new_buffer(), data_bytes=4, type=dict(dtype=11, dims=[1]))
            answers = {got.call: got for got in client.receive_until_closed()}
            assert answers[call].kind == REPLY, wire.message_class("Error").FromString(answers[call].payload)
            assert answers[call].bulk == struct.pack("<I", stepped(count, 0))
            assert answers[late].kind == ERROR
            refused = wire.message_class("Error").FromString(answers[late].payload)
            assert refused.code == UNAVAILABLE
        assert daemon.wait(20) == 0


def test_a_compile_under_way_does_not_hold_up_the_end() -> None:
    with Daemon(settings={"drain_seconds": 1}) as daemon:
        with daemon.connect() as client:
            _, call = client.start_compile(nested_ifs(200))
            time.sleep(0.3)
            with deadline(8 * PATIENCE, "stopping during a compile"):
                daemon.stop()
            for got in client.receive_until_closed():
                if got.call == call and got.kind == ERROR:
                    assert wire.message_class("Error").FromString(got.payload).code in (UNAVAILABLE, CANCELLED)


def test_idle_clients_do_not_hold_up_the_end() -> None:
    with Daemon(settings={"drain_seconds": 60}) as daemon:
        clients = [daemon.connect() for _ in range(3)]
        clients[0].upload("f32", [4], bytes(16))
        clients[1].send_bytes(b"PJRT")
        with deadline(5 * PATIENCE, "stopping with idle clients"):
            daemon.stop()
        for client in clients:
            assert client.receive_until_closed() == []
            client.close()


def test_an_upload_that_stays_incomplete_holds_up_the_end_for_the_grace_time_only() -> None:
    with Daemon(settings={"drain_seconds": 1}) as daemon:
        clients = [daemon.connect() for _ in range(3)]
        half = clients[0].start("Buffer.Upload", buffer=clients[0].new_buffer(), data_bytes=1 << 30, type=dict(dtype=6, dims=[1 << 30]))
        with deadline(6 * PATIENCE, "stopping during an upload"):
            daemon.stop()
        frames = clients[0].receive_until_closed()
        assert len([got for got in frames if got.call == half]) <= 1
        for client in clients:
            client.close()


def test_nothing_is_served_before_the_ready_line() -> None:
    with Daemon() as daemon:
        serves(daemon)
        ready = daemon.output[0]
        assert ready == f"pjrtd ready unix:{daemon.socket_path}\n"


def test_several_addresses_in_the_order_given() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:
        names = ["z", "a", "m with space", "\u00e9t\u00e9"]
        listen = [f"unix:{folder}/{name}.sock" for name in names]
        with Daemon(listen=listen) as daemon:
            for address in listen:
                with pjrtd.Client.create(address) as client:
                    assert client.compile(case("add").text)(*[[1.0, 2.0, 3.0, 4.0]] * 2)[0].tolist() == [2, 4, 6, 8]


def test_the_socket_belongs_to_its_owner_alone() -> None:
    with Daemon() as daemon:
        mode = os.stat(daemon.socket_path).st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) & 0o077 == 0
    with Daemon(settings={"socket_mode": "0666"}) as daemon:
        assert stat.S_IMODE(os.stat(daemon.socket_path).st_mode) == 0o666


def test_every_start_has_another_epoch() -> None:
    epochs = set()
    for _ in range(2):
        with Daemon() as daemon:
            with daemon.connect() as client:
                epochs.add(client.hello.server_epoch)
                assert client.call("Runtime.Info").server_epoch == client.hello.server_epoch
    assert len(epochs) == 2 and 0 not in epochs


# -- the socket's path -------------------------------------------------------------


def test_a_second_daemon_leaves_a_live_socket_alone(tmp_path: pathlib.Path) -> None:
    with Daemon() as first:
        other = Bystander(first)
        inode = os.stat(first.socket_path).st_ino
        second = Daemon(listen=first.listen)
        refuses_to_start(second, str(first.socket_path))
        assert os.stat(first.socket_path).st_ino == inode
        other.check()
        serves(first)
        other.close()


def test_a_stopped_daemon_is_still_alive() -> None:
    """SIGSTOP makes the first one deaf; its socket is not stolen."""
    with Daemon() as first:
        other = Bystander(first)
        inode = os.stat(first.socket_path).st_ino
        first.signal(signal.SIGSTOP)
        try:
            second = Daemon(listen=first.listen)
            refuses_to_start(second, str(first.socket_path))
        finally:
            first.signal(signal.SIGCONT)
        assert os.stat(first.socket_path).st_ino == inode
        other.check()
        other.close()


def test_a_stale_socket_is_replaced() -> None:
    first = Daemon()
    try:
        first.start()
        first.kill()
        assert first.socket_path.exists(), "SIGKILL leaves the socket behind"
        with Daemon(listen=first.listen, folder=first.folder) as second:
            serves(second)
    finally:
        first.discard()


def test_two_daemons_race_for_one_path() -> None:
    first = Daemon()
    second = Daemon(listen=first.listen)
    try:
        first.spawn()
        second.spawn()
        give_up = time.monotonic() + 30 * PATIENCE
        while first.process.poll() is None and second.process.poll() is None:
            if time.monotonic() > give_up:
                break
            time.sleep(0.02)
        alive = [daemon for daemon in (first, second) if daemon.process.poll() is None]
        assert len(alive) == 1, "both daemons believe that they serve one socket" if alive else "neither serves"
        winner = alive[0]
        assert winner._ready.wait(30)
        winner.socket_path = first.socket_path
        serves(winner)
        winner.stop()
    finally:
        first.discard()
        second.discard()


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "link to a file", "dangling link", "link to a live socket"])
def test_what_is_no_socket_is_left_alone(tmp_path: pathlib.Path, kind: str) -> None:
    with Daemon() as live:
        daemon = Daemon()
        path = daemon.socket_path
        if kind == "file":
            path.write_text("precious")
        elif kind == "folder":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "link to a file":
            (daemon.folder / "target").write_text("precious")
            path.symlink_to(daemon.folder / "target")
        elif kind == "dangling link":
            path.symlink_to(daemon.folder / "nowhere")
        else:
            path.symlink_to(live.socket_path)
        before = os.lstat(path)
        target = daemon.folder / "target"
        try:
            daemon.spawn()
            code = daemon.wait(30)
            assert code > 0 and daemon.output == []
            assert str(path) in daemon.log()
            after = os.lstat(path)
            assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
            if target.exists():
                assert target.read_text() == "precious"
            assert not (daemon.folder / "nowhere").exists()
        finally:
            daemon.discard()
        serves(live)


def test_a_path_that_is_too_long() -> None:
    long = "/tmp/" + "x" * 120
    log = refuses_to_start(Daemon(listen=[f"unix:{long}"]), long)
    assert "108" in log or "107" in log


def test_the_longest_path_serves() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:
        path = folder + "/" + "x" * (107 - len(folder) - 1)
        with Daemon(listen=[f"unix:{path}"]) as daemon:
            assert os.path.exists(path)
            serves(daemon)


def test_a_folder_that_does_not_exist() -> None:
    """Below a file there can be none; and more than the last folder is not made."""
    refuses_to_start(Daemon(listen=["unix:/dev/null/s.sock"]), "/dev/null")
    refuses_to_start(Daemon(listen=["unix:/nonexistent-folder/another/s.sock"]), "/nonexistent-folder/another")
    assert not os.path.exists("/nonexistent-folder")


def test_the_last_folder_of_the_path_is_made(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run" / "s.sock"
    with Daemon(listen=[f"unix:{path}"]) as daemon:
        serves(daemon)


def test_a_folder_without_write_permission() -> None:
    """As root, permissions do not stop anybody: then a read-only file system (proc) stands for it."""
    if os.geteuid() == 0:
        refuses_to_start(Daemon(listen=["unix:/proc/s.sock"]), "/proc/s.sock")
        return
    daemon = Daemon()
    locked = daemon.folder / "locked"
    locked.mkdir(mode=0o555)
    daemon.command = [word.replace(str(daemon.socket_path), str(locked / "s.sock")) for word in daemon.command]
    refuses_to_start(daemon, str(locked / "s.sock"), "ermission")


def test_the_second_of_two_addresses_fails_and_the_first_is_taken_back() -> None:
    daemon = Daemon()
    good = f"unix:{daemon.socket_path}"
    path = daemon.socket_path
    daemon.command += ["--listen", "unix:/dev/null/s.sock"]
    try:
        daemon.spawn()
        assert daemon.wait(30) > 0
        assert daemon.output == [] and not path.exists(), good
    finally:
        daemon.discard()


@pytest.mark.parametrize("address", ["tcp:localhost:1", "unix:", "", "/tmp/x.sock", "grpcs://localhost:1", "grpc://", "grpc://0.0.0.0:0", "grpc://localhost:x", "grpc://::1:0", "unix:relative\nline"])
def test_addresses_that_are_none(address: str) -> None:
    daemon = Daemon(listen=[address])
    refuses_to_start(daemon)


def test_a_socket_that_was_removed_behind_its_back() -> None:
    """Somebody deletes the file: the daemon ends cleanly all the same, and does not delete a successor's socket."""
    with Daemon() as first:
        other = Bystander(first)
        first.socket_path.unlink()
        other.check()
        with Daemon(listen=first.listen) as second:
            first.signal(signal.SIGTERM)
            assert first.wait(20) == 0
            assert os.path.exists(first.socket_path), "the successor's socket was removed"
            other.close()
            serves(second)
            second.stop()


# -- configuration -------------------------------------------------------------------


@pytest.mark.parametrize("args,words", [
    (["--no-such-flag"], ["no-such-flag"]),
    (["--set", "no_such_setting=1"], ["no_such_setting"]),
    (["--set", "busy_poll_us"], ["busy_poll_us"]),
    (["--set", "busy_poll_us=x"], ["busy_poll_us"]),
    (["--set", "busy_poll_us=-1"], ["busy_poll_us"]),
    (["--set", "busy_poll_us=99999999999999999999"], ["busy_poll_us"]),
    (["--set", "max_stuck=0"], ["max_stuck"]),
    (["--set", "on_stuck=restart"], ["on_stuck", "report", "exit"]),
    (["--set", "max_queued_bytes=1 parsec"], ["max_queued_bytes"]),
    (["--set", "log_level=loud"], ["log_level"]),
    (["--config", "/nonexistent/pjrtd.conf"], ["/nonexistent/pjrtd.conf"]),
    (["--config", "/"], ["/"]),
    (["--option", "no_such_option=1"], ["no_such_option"]),
    (["--option", "cpu_device_count=-3"], ["cpu_device_count"]),
    (["--option", "cpu_device_count=many"], ["cpu_device_count"]),
    (["--option", "=1"], ["=1"]),
    (["--option", "x"], ["x"]),
    (["positional"], ["positional"]),
    (["--plugin"], ["plugin"]),
])
def test_configuration_errors_are_named(args: list[str], words: list[str]) -> None:
    refuses_to_start(Daemon(args=args), *words)


@pytest.mark.parametrize("text,word", [
    ("no_such_setting = 1\n", "no_such_setting"), ("busy_poll_us = much\n", "busy_poll_us"), ("[section\n", "pjrtd.conf"),
    ("garbage\n", "pjrtd.conf"), ("\0\0\0", "pjrtd.conf"), ("busy_poll_us = " + "9" * 5000 + "\n", "pjrtd.conf"),
])
def test_errors_in_the_file_name_file_and_setting(tmp_path: pathlib.Path, text: str, word: str) -> None:
    path = tmp_path / "pjrtd.conf"
    path.write_text(text)
    refuses_to_start(Daemon(args=["--config", str(path)]), word, str(path))


def test_an_environment_variable_that_is_wrong() -> None:
    refuses_to_start(Daemon(env={"PJRTD_BUSY_POLL_US": "soon"}), "PJRTD_BUSY_POLL_US")


def test_flags_win_over_environment_over_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pjrtd.conf"
    path.write_text("busy_poll_us = 11\nmax_calls_in_flight = 21\nupload_credit_bytes = 3 MiB\n")
    env = {"PJRTD_BUSY_POLL_US": "12", "PJRTD_MAX_CALLS_IN_FLIGHT": "22"}
    with Daemon(args=["--config", str(path)], env=env, settings={"busy_poll_us": 13}) as daemon:
        with daemon.connect() as client:
            hello = client.hello
            assert (hello.busy_poll_us, hello.max_calls_in_flight, hello.upload_credit_bytes) == (13, 22, 3 << 20)


def test_create_options_reach_the_plugin() -> None:
    with Daemon(args=["--option", "cpu_device_count=2"]) as daemon:
        with pjrtd.Client.create(daemon.target) as client, client.devices() as devices:
            assert len(devices) == 2
        with daemon.connect() as raw:
            options = {option.name: option.integer for option in raw.call("Runtime.Info").create_options}
            assert options["cpu_device_count"] == 2


# -- plugins: see test_plugin_load_errors.py too -----------------------------------


def test_known_xla_flags_are_honoured() -> None:
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xi1> {
      %0 = stablehlo.compare NE, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      return %0 : tensor<4xi1>
    }"""
    values = struct.pack("<4f", float("nan"), 1, float("inf"), 0)
    for flags, right in (("", b"\1\0\0\0"), ("--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false", b"\0\0\0\0")):
        with Daemon(env={"XLA_FLAGS": flags} if flags else {}) as daemon, daemon.connect() as client:
            (result,) = client.execute(client.compile(text), [client.upload("f32", [4], values)])
            assert client.download(result) == right


# -- log -----------------------------------------------------------------------------

LINE = re.compile(r'^(<\d>)?time=\S+ level=(debug|info|warning|error) msg=("(\\.|[^"\\])*"|\S+)( [a-z_0-9]+=("(\\.|[^"\\])*"|[^\s"]*))*$')


def test_every_line_of_the_log_is_key_value() -> None:
    with Daemon(settings={"log_level": "debug"}) as daemon:
        for name in ("plain", 'quo"te\\back', "new\nline level=error msg=forged", "\x1b[2J", "a=b", ""):
            with daemon.connect(name=name):
                pass
        with daemon.connect() as client:
            client.start_compile("junk \n \x1b[31m level=error")
            client.receive()
            client.send_bytes(b"JUNK" * 20)
            client.receive_until_closed()
        serves(daemon)
        daemon.settled()
        daemon.stop()
        lines = daemon.log().splitlines()
        own = [line for line in lines if not re.match(r"^(WARNING|[IWEF]\d{4}|[IWE]0000|\d{4}-)", line)]
        assert own
        for line in own:
            assert LINE.match(line), line
        assert not any(line.startswith("line level=error") for line in lines)


def test_json_lines() -> None:
    import json

    with Daemon(settings={"log_format": "json"}) as daemon:
        with daemon.connect(name='quo"te\n\x1b'):
            pass
        serves(daemon)
        daemon.stop()
        lines = [line for line in daemon.log().splitlines() if line.startswith("{")]
        assert lines
        for line in lines:
            entry = json.loads(line)
            assert {"time", "level", "msg"} <= set(entry)


def test_secrets_stay_out_of_the_log() -> None:
    with Daemon(settings={"log_level": "debug"}) as daemon:
        with daemon.connect() as client:
            client.call("Session.Close")
            token = client.call("Session.Open").token
        daemon.settled()
        assert token and token not in daemon.log()


def test_help_and_version_need_no_plugin() -> None:
    from daemon import binary_path

    for flag in ("--help", "--version"):
        done = subprocess.run([str(binary_path()), flag], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0 and done.stdout and not done.stderr
    assert "--listen" in subprocess.run([str(binary_path()), "--help"], capture_output=True, text=True, check=True).stdout


def test_a_full_disk_for_the_log_is_survived(tmp_path: pathlib.Path) -> None:
    """Standard error that takes nothing (/dev/full) costs the log, not the service."""
    daemon = Daemon()
    daemon.command = ["/bin/sh", "-c", "exec \"$@\" 2>/dev/full", "sh", *daemon.command]
    with daemon:
        serves(daemon)


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_standard_streams_are_survived(closed: str) -> None:
    """Started with some of 0 to 2 closed, as a careless supervisor does: nothing else takes their numbers and gets log
    lines."""
    daemon = Daemon()
    daemon.command = ["/bin/sh", "-c", f"exec \"$@\" {closed}", "sh", *daemon.command]
    with daemon:
        client: RawClient = daemon.connect()
        try:
            client.send_bytes(b"JUNKJUNKJUNKJUNKJUNKJUNKJUNKJUNKJUNK")
            client.receive_until_closed()
        except Closed:
            pass
        serves(daemon)


def test_connecting_to_nothing_says_so(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "none.sock"
    with pytest.raises(Exception, match=re.escape(str(path))):
        pjrtd.Client.create(f"unix:{path}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "dead.sock"))
    listener.close()
    with pytest.raises(Exception, match="dead.sock"):
        pjrtd.Client.create(f"unix:{tmp_path / 'dead.sock'}")
