"""Sessions of the Python client: names, tokens, and connections that are cut and go on."""

from __future__ import annotations

import os
import random
import struct
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cutting_proxy import CuttingProxy
from daemon import PATIENCE, Daemon

import pjrtd
from pjrtd import errors

ADD_ONE = """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %y = stablehlo.add %x, %one : tensor<f32>
  return %y : tensor<f32>
}
"""
BIG = """
func.func @main(%x: tensor<1000000xf32>, %n: tensor<f32>) -> tensor<1000000xf32> {
  %all = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<1000000xf32>
  %y = stablehlo.add %x, %all : tensor<1000000xf32>
  return %y : tensor<1000000xf32>
}
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the client keeps its tokens."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", errors.SessionLost)
        yield caught


def lost(warned: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in warned if issubclass(each.category, errors.SessionLost)]


# ---- names and tokens ----


def test_a_session_is_made_and_found_again(balanced: None, daemon: Daemon, target: str) -> None:
    with pjrtd.Client.create(target, session="exp1", ttl=60) as client:
        s = client.session("exp1")
        assert s.name == "exp1" and s.token and not s.times_lost
        assert [each.name for each in client.sessions() if each.own] == ["exp1"]
    with pjrtd.Client.create(target) as client:
        again = client.session("exp1", ttl=60)
        assert again.token == s.token
        again.end()
        assert client.closed
    with pjrtd.Client.create(target) as client:
        fresh = client.session("exp1", ttl=60)
        assert fresh.token != s.token
        fresh.end()


def test_who_attaches_takes_over_or_joins(balanced: None, daemon: Daemon, target: str) -> None:
    with pjrtd.Client.create(target, session="shared", ttl=60) as first:
        with pjrtd.Client.create(target, session="shared", join=True) as second:
            exe = second.compile(ADD_ONE)
            assert exe(1.0)[0].item() == 2
            assert not first.closed
            first.sync()
        with pjrtd.Client.create(target, session="shared") as third:
            with pytest.raises(errors.Aborted, match="took this one's session over"):
                first.sync()
            assert first.closed
            third.session().end()


def test_attaching_comes_before_anything_is_made(balanced: None, daemon: Daemon, target: str) -> None:
    with pjrtd.Client.create(target, session="used", ttl=60) as owner, pjrtd.Client.create(target) as client:
        buffer = client.buffer_from_host([1.0])
        with pytest.raises(errors.FailedPrecondition, match="in use"):
            client.session("used")
        assert buffer.tolist() == [1.0]
        kept = client.session("other", ttl=5)
        with pytest.raises(errors.FailedPrecondition, match="takes part in the session 'other' already"):
            client.session("used")
        kept.end()
        owner.session().end()


def test_tokens_of_remote_sessions_are_kept_in_private(balanced: None, daemon: Daemon, state: Path) -> None:
    with pjrtd.Client.create(daemon.grpc_target, session="far", ttl=60) as client:
        token = client.session().token
    file = state / "pjrtd" / "tokens"
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert token in file.read_text()
    with pjrtd.Client.create(daemon.grpc_target) as client:
        file.chmod(0o644)
        with pytest.raises(errors.PermissionDenied, match="others may use it: its mode is 0644") as refused:
            client.session("far")
        assert "chmod 600" in refused.value.hint
        file.chmod(0o600)
        file.unlink()
        client.session("far", token=token)
        assert token in file.read_text()
    file.unlink()
    with pjrtd.Client.create(daemon.grpc_target, session="far", ttl=60) as client:
        assert client.session().token != token, "who does not know the token has a session of its own"
        client.session().end()
    with pjrtd.Client.create(daemon.grpc_target) as client:
        client.session("far", token=token).end()
    with pjrtd.Client.create(daemon.target) as client:
        with pytest.raises(errors.NotFound, match="the token is of no session"):
            client.session(token=token)


def test_sessions_are_listed_and_ended_from_elsewhere(balanced: None, daemon: Daemon) -> None:
    with pjrtd.Client.create(daemon.target, session="listed", ttl=90) as client, pjrtd.Client.create(daemon.target) as other:
        client.buffer_from_host([1.0, 2.0])
        client.sync()
        (info,) = [each for each in other.sessions() if each.name == "listed"]
        assert (info.ttl_s, info.lease_left_s, info.own, info.connections[0]["pid"]) == (90, 0, False, os.getpid())
        info.end()
        with pytest.raises(errors.FailedPrecondition, match="closed"):
            client.buffer_from_host([1.0]).tolist()


# ---- connections that are cut ----


def steps(client: pjrtd.Client, count: int, read_every: int) -> list[float]:
    """A chain of steps, whose value is their number; what was read on the way."""
    exe = client.compile(ADD_ONE)
    value = client.buffer_from_host(0.0, pjrtd.DType.F32)
    read: list[float] = []
    for number in range(1, count + 1):
        (value,) = exe(value)
        if number % read_every == 0:
            read.append(value.item())
    client.sync()
    return read


@pytest.mark.parametrize("way", ["up", "down"])
def test_no_step_is_lost_or_doubled_wherever_it_is_cut(balanced: None, daemon: Daemon, target: str, way: str, tmp_path: Path) -> None:
    """At every so many bytes each way, also while the connection is being made anew."""
    wanted = [float(n) for n in range(10, 101, 10)]
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="whole", ttl=60) as client:
        begin = proxy.passed[0][way] + 1
        assert steps(client, 100, 10) == wanted
        whole = proxy.passed[0][way]
        client.session().end()
    rng = random.Random(5)
    again = 0
    places = 60 if target.startswith("unix") else 25
    for at in range(begin, whole, max(1, (whole - begin) // places)):
        cuts = [(way, at), (way, rng.randrange(20, 2000)), (way, rng.randrange(100, 2000)), (way, rng.randrange(100, 2000))]
        folder = tmp_path / f"{way}{at}"
        folder.mkdir()
        with CuttingProxy(folder, target, cuts) as proxy:
            with pjrtd.Client.create(proxy.target, session="cut", ttl=60) as client:
                assert steps(client, 100, 10) == wanted, at
                again += proxy.made > 1
                client.session().end()
    assert again > places / 2  # not every time as much comes down


def big_round(client: pjrtd.Client) -> None:
    """4 MB up, through a program that is uploaded in pieces, too, and down again."""
    exe = client.compile(BIG + "//" + "x" * 300_000)
    data = np.arange(1_000_000, dtype=np.float32)
    value = client.buffer_from_host(data)
    for _ in range(3):
        (value,) = exe(value, 1.0)
    assert np.array_equal(value.numpy(), data + 3)
    client.sync()


@pytest.mark.parametrize("way", ["up", "down"])
def test_bulk_goes_on_where_it_was_cut(balanced: None, daemon: Daemon, target: str, way: str, tmp_path: Path) -> None:
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="whole", ttl=60) as client:
        begin = proxy.passed[0][way] + 1
        big_round(client)
        whole = proxy.passed[0][way]
        client.session().end()
    assert whole > 4_000_000
    rng = random.Random(7)
    again = 0
    for number in range(12):
        cuts = [(way, rng.randrange(begin, whole)), (way, rng.randrange(5000, 2_000_000)), ("up", 3000), ("down", 3000)]
        folder = tmp_path / str(number)
        folder.mkdir()
        with CuttingProxy(folder, target, cuts) as proxy, pjrtd.Client.create(proxy.target, session="cut", ttl=60) as client:
            big_round(client)
            again += proxy.made > 1
            client.session().end()
    assert again == 12


def test_threads_share_a_connection_that_is_cut(balanced: None, daemon: Daemon, target: str, tmp_path: Path) -> None:
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="threads", ttl=60) as client:
        results: list[list[float]] = []
        threads = [threading.Thread(target=lambda: results.append(steps(client, 1000, 25))) for _ in range(4)]
        for thread in threads:
            thread.start()
        rng = random.Random(3)
        cut = 0
        while any(thread.is_alive() for thread in threads):
            threads[0].join(rng.uniform(0.01, 0.1))
            if cut < 12:
                proxy.cut()
                cut += 1
        assert results == [[float(n) for n in range(25, 1001, 25)]] * 4
        assert cut > 1
        client.session().end()


def test_a_failed_step_is_told_though_the_connection_was_cut(balanced: None, daemon: Daemon, target: str, tmp_path: Path) -> None:
    """The frame that tells of a failure may be lost: Sync tells of it, too."""
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="failing", ttl=60) as client:
        exe = client.compile(ADD_ONE)
        client.sync()
        gone = client.buffer_from_host(0.0, pjrtd.DType.F32)
        client._connection.discard_buffer(gone._id, 1 << 20)
        (out,) = exe(gone)
        client._connection.outbox.flush()
        proxy.cut()
        with pytest.raises(errors.NotFound, match="no buffer"):
            client.sync()
        client.sync()
        with pytest.raises(errors.NotFound, match="no buffer"):
            out.item()
        gone._id = b""
        client.session().end()


def test_a_deadline_holds_while_there_is_no_connection(daemon: Daemon, tmp_path: Path) -> None:
    proxy = CuttingProxy(tmp_path, daemon.target)
    with pjrtd.Client.create(proxy.target, session="deadline", ttl=1) as client:
        value = client.buffer_from_host([1.0])
        proxy.__exit__()
        with pytest.raises(errors.DeadlineExceeded, match="the connection to .* was lost"):
            value.to_host(timeout=0.2)
        assert not client.closed


def test_who_gives_up_says_so(daemon: Daemon, tmp_path: Path) -> None:
    proxy = CuttingProxy(tmp_path, daemon.target)
    with pjrtd.Client.create(proxy.target) as client:
        client.session("given-up", ttl=1, reconnect_timeout=0.3)
        value = client.buffer_from_host([1.0])
        proxy.__exit__()
        for _ in range(2):
            with pytest.raises(errors.Unavailable, match="tried for 0.3 s"):
                value.to_host()
        assert client.closed


# ---- a daemon that is restarted ----


def test_a_restarted_daemon_is_told_of_once(tmp_path: Path, warned: list[warnings.WarningMessage]) -> None:
    with Daemon(grpc=True) as own:
        with pjrtd.Client.create(own.target, session="lost", ttl=60) as client:
            exe = client.compile(ADD_ONE)
            (value,) = exe(41.0)
            epoch, token = client.server_epoch, client.session().token
            own.restart()
            with pytest.raises(errors.SessionLost, match="the daemon was restarted"):
                value.item()
            assert len(lost(warned)) == 1 and "began anew" in lost(warned)[0]
            assert client.server_epoch != epoch and client.session().token != token and client.session().times_lost == 1
            fresh = client.compile(ADD_ONE)
            assert fresh(41.0)[0].item() == 42
            with pytest.raises(errors.NotFound):
                exe(1.0)[0].item()
            del value, exe
            client.sync()
            assert len(lost(warned)) == 1
            assert [each.name for each in client.sessions() if each.own] == ["lost"]
            client.session().end()


def test_who_was_taken_over_while_cut_off_is_told(balanced: None, daemon: Daemon, target: str, tmp_path: Path,
                                                  warned: list[warnings.WarningMessage]) -> None:
    """It does not begin anew beside the one that has the session now."""
    with CuttingProxy(tmp_path, target) as proxy:
        first = pjrtd.Client.create(proxy.target, session="fenced", ttl=60)
        value = first.buffer_from_host([1.0])
        assert value.tolist() == [1.0]
        with pjrtd.Client.create(target) as second:
            second.session(token=first.session().token)
            proxy.cut()
            with pytest.raises(errors.Aborted):
                value.tolist()
            assert first.closed and not lost(warned)
            first.close()
            second.session().end()


def test_who_was_taken_over_after_its_link_was_lost_is_told(balanced: None, daemon: Daemon, target: str, tmp_path: Path,
                                                            warned: list[warnings.WarningMessage]) -> None:
    with CuttingProxy(tmp_path, target) as proxy:
        first = pjrtd.Client.create(proxy.target, session="fenced", ttl=60)
        value = first.buffer_from_host([1.0])
        assert value.tolist() == [1.0]
        proxy.cut()
        daemon.settled(lambda now: now["connections"] == 1)
        with pjrtd.Client.create(target) as second:
            second.session(token=first.session().token)
            with pytest.raises(errors.Aborted, match="can be resumed"):
                value.tolist()
            assert first.closed and not lost(warned)
            first.close()
            second.session().end()
