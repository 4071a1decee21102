"""SIGKILL: of clients at random moments, and of the daemon under load. Nothing is left of who was killed, and nobody else
sees a wrong value.

The seed is printed; PJRTD_TEST_SEED sets it."""

from __future__ import annotations

import os
import pathlib
import random
import socket
import time
from collections.abc import Iterator

import pytest

from bystander import Bystander
from daemon import PATIENCE, Daemon
from test_fake_plugin_events import wait_until
from workers import Workers

# Over which transports they work: kind of worker (killable_worker.py), address.
KINDS = [("raw-unix", "unix"), ("raw-channel", "channel"), ("python", "unix"), ("python", "channel")]
VICTIMS_AT_A_TIME = 3


@pytest.fixture
def workers(tmp_path: pathlib.Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    made.close()


def seed() -> int:
    chosen = int(os.environ.get("PJRTD_TEST_SEED", random.randrange(1 << 30)))
    print(f"PJRTD_TEST_SEED={chosen}")
    return chosen


def close_what_is_kept(daemon: Daemon) -> None:
    """Sessions that their clients left for a while, once the daemon has seen that these are gone."""
    daemon.settled(lambda now: now["connections"] == 1, seconds=20)
    with daemon.connect("unix") as admin:
        for session in admin.call("Session.List").sessions:
            if session.lease_left_ns:
                admin.call("Session.Close", session=session.session)


def start_every_thread(daemon: Daemon, workers: Workers, chance: random.Random) -> None:
    """Each kind of client has worked, so that what the daemon starts once is there."""
    for number in range(len(KINDS)):
        pid = workers.start(daemon, *KINDS[number % len(KINDS)], chance.randrange(1 << 30), f"first-{number}")
        time.sleep(1.5 * PATIENCE)
        workers.kill(pid)
    close_what_is_kept(daemon)


def kill_clients(daemon: Daemon, workers: Workers, count: int) -> None:
    chance = random.Random(seed())
    start_every_thread(daemon, workers, chance)
    before = daemon.settled(seconds=20)
    descriptors, threads = daemon.descriptors(), daemon.steady_threads()
    with Bystander(daemon) as local, Bystander(daemon, "channel") as remote:
        local.run_in_background(), remote.run_in_background()
        survivors = [workers.start(daemon, *KINDS[number % len(KINDS)], chance.randrange(1 << 30), f"survivor-{number}") for number in range(len(KINDS))]
        victims: list[tuple[int, int]] = []
        for number in range(count + VICTIMS_AT_A_TIME):
            if len(victims) == VICTIMS_AT_A_TIME:
                place, pid = victims.pop(chance.randrange(len(victims)))
                time.sleep(chance.choice([chance.uniform(0, 0.02), chance.uniform(0, 0.4)]))
                workers.kill(pid)
                daemon.check_alive()
            else:
                place = len(victims)
            if number < count:
                victims.append((place, workers.start(daemon, *chance.choice(KINDS), chance.randrange(1 << 30), f"victim-{place}")))
        while victims:
            workers.kill(victims.pop()[1])
        workers.finish(survivors)
        local.finish(), remote.finish()
        assert min(local.rounds, remote.rounds) > count
    close_what_is_kept(daemon)
    daemon.expect_balance(before, seconds=20)
    wait_until(lambda: daemon.descriptors() <= descriptors)
    wait_until(lambda: daemon.steady_threads() <= threads)
    if count >= 100:  # fewer may all be too short-lived
        assert list(workers.folder.glob("session-victim-*")), "no session was kept"
    stats = daemon.stats()
    assert stats.calls_total > 100 * count, "hardly anything was done"
    assert not stats.wire_errors and not any(lane.stuck for lane in stats.lanes)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def kill_daemon(workers: Workers, count: int) -> None:
    chance = random.Random(seed())
    daemon = Daemon(over="channel")
    # The same addresses each time, as a supervisor would start it.
    daemon.command[daemon.command.index("grpc://127.0.0.1:0")] = address = f"grpc://127.0.0.1:{free_port()}"
    daemon.listen[1] = address
    epochs = set()
    try:
        daemon.start()
        pids = [workers.start(daemon, *KINDS[number % len(KINDS)], chance.randrange(1 << 30), f"client-{number}") for number in range(len(KINDS) + 2)]
        for _ in range(count):
            with daemon.connect("unix") as client:
                epochs.add(client.hello.server_epoch)
            time.sleep(chance.uniform(0, 1.5))
            daemon.check_alive()
            daemon.kill()
            assert daemon.socket_path.exists(), "SIGKILL leaves the socket behind"
            daemon.restart()
        assert len(epochs) == count
        calls = daemon.stats().calls_total
        wait_until(lambda: daemon.stats().calls_total > calls + 200, 60)  # they have come back, and work
        workers.finish(pids)
        assert len(list(workers.folder.glob("lost-*"))) == len(pids), "not all of them saw an end of it"
        close_what_is_kept(daemon)
        daemon.settled(seconds=20)
        daemon.stop()
        daemon.check_log()
    finally:
        daemon.discard()


def test_clients_are_killed(workers: Workers) -> None:
    with Daemon(over="channel") as daemon:
        kill_clients(daemon, workers, 20)


def test_the_daemon_is_killed(workers: Workers) -> None:
    kill_daemon(workers, 3)


@pytest.mark.soak
def test_200_clients_are_killed(workers: Workers) -> None:
    with Daemon(over="channel", settings={"log_level": "warning"}) as daemon:
        kill_clients(daemon, workers, 200)


@pytest.mark.soak
def test_the_daemon_is_killed_20_times(workers: Workers) -> None:
    kill_daemon(workers, 20)
