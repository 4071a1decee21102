"""Clients that are killed, or whose daemon is: processes that cost next to nothing, forked off one that has everything
loaded.

    killable_worker.py

Reads lines from standard input and answers each on standard output: "start KIND TARGET SEED FOLDER NAME" with the number of
a process that works until it is killed or FOLDER/stop is there, "wait PID" with its exit status. KIND: raw-unix, raw-channel
(frames: session_work.py), long-unix, long-channel (one session all the time: long_session.py), python (this project's
client). What a client finds wrong it writes to FOLDER/fault-PID; a long session tells in FOLDER/done-PID what it did.

A daemon that is gone is no fault: the client comes back when it serves again, and finds its session lost. FOLDER/session-NAME
has the token of the session that the clients of that name keep; each goes on with what the one before left.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable

import grpc
import pjrtd
import soak_worker
import wire_messages as wire
from grpc_bridges import connect
from long_session import LongSession
from raw_frames import NOT_FOUND, UNAVAILABLE, CallFailed, Closed, RawClient
from session_work import SessionWork

SECOND_NS = 10**9
KEPT_NS, FORGOTTEN_NS = 120 * SECOND_NS, SECOND_NS // 2
COME_BACK_SECONDS = 120.0




class Place:
    """Where a client works, and what it knows of the ones before."""

    def __init__(self, target: str, over: str, folder: pathlib.Path, name: str) -> None:
        self.target, self.over, self.folder = target, over, folder
        self.token = folder / f"session-{name}"
        self.epoch = 0

    @property
    def is_over(self) -> bool:
        return (self.folder / "stop").exists()

    def connect(self) -> RawClient:
        """Waits for the daemon, where it is being started anew."""
        give_up = time.monotonic() + COME_BACK_SECONDS
        while True:
            try:
                client = connect(self.target, self.over, timeout=60)
            except (OSError, Closed, CallFailed):
                assert time.monotonic() < give_up, "the daemon does not come back"
                time.sleep(0.02)
                continue
            self.lost = self.epoch not in (0, client.hello.server_epoch)
            self.epoch = client.hello.server_epoch
            return client

    def attach(self, client: RawClient) -> None:
        """To the session that this name keeps, or a new one. After a restart of the daemon there is none."""
        token = self.token.read_text() if self.token.exists() else ""
        if token:
            try:
                client.attach(token=token)
                return
            except CallFailed as failed:
                assert failed.code == NOT_FOUND, failed
        fresh = self.token.with_suffix(f".{os.getpid()}")
        fresh.write_text(client.call("Session.Open", ttl_ns=KEPT_NS).token)
        fresh.rename(self.token)


def is_loss(error: BaseException) -> bool:
    """Whether it is what a client sees of a daemon that goes, and nothing else."""
    if isinstance(error, CallFailed):
        return error.code == UNAVAILABLE
    return isinstance(error, (Closed, ConnectionError, pjrtd.errors.Unavailable)) or (
        isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE)


def raw_session(place: Place, chance: random.Random) -> None:
    """Some work, and an end of one kind or another."""
    client = place.connect()
    known = place.token.exists() and chance.random() < 0.5
    if known or chance.random() < 0.3:
        place.attach(client)
    elif chance.random() < 0.5:
        client.call("Session.Open", ttl_ns=FORGOTTEN_NS)
    work = SessionWork(client, chance)
    for _ in range(chance.randrange(1, 20)):
        if place.is_over:
            break
        work.do_something()
    if chance.random() < 0.2:
        leave_in_the_middle(work)
    client.close()


def leave_in_the_middle(work: SessionWork) -> None:
    """Of steps, of a run, of an upload, with a session that may be kept."""
    for _ in range(work.chance.randrange(100)):
        work.client.start("Execute.Execute", quiet=True, **work.step(work.donate, ["x", "b"], {0: "x"}))
    work.client.start("Execute.Run", step=work.step(work.donate, ["x", "b"], {0: "x"}), steps=1000)
    work.client.start("Buffer.Upload", buffer=work.client.new_buffer(), data_bytes=1 << 20,
                      type=dict(dtype=wire.dtype_numbers()["u8"], dims=[1 << 20]))


def python_session(place: Place, chance: random.Random) -> None:
    give_up = time.monotonic() + COME_BACK_SECONDS
    while True:
        try:
            client = pjrtd.Client.create(place.target)
            break
        except pjrtd.errors.Unavailable:
            assert time.monotonic() < give_up, "the daemon does not come back"
            time.sleep(0.02)
    with client:
        for _ in range(chance.randrange(1, 20)):
            if place.is_over:
                break
            chance.choice(soak_worker.WORK)(client, chance)


def long_session(place: Place, chance: random.Random) -> None:
    session = LongSession(functools.partial(connect, place.target, place.over, timeout=120), place.token.name, place.over == "unix",
                          chance)
    while not place.is_over:
        session.do_something()
        time.sleep(chance.uniform(0, 0.02))
    session.close()
    (place.folder / f"done-{os.getpid()}").write_text(json.dumps(session.done))


SESSIONS: dict[str, Callable[[Place, random.Random], None]] = {"raw-unix": raw_session, "raw-channel": raw_session, "python": python_session,
                                                                "long-unix": long_session, "long-channel": long_session}


def work(kind: str, target: str, seed: int, folder: pathlib.Path, name: str) -> int:
    place, chance = Place(target, kind.partition("-")[2], folder, name), random.Random(seed)
    try:
        while not place.is_over:
            try:
                SESSIONS[kind](place, chance)
            except BaseException as error:  # noqa: BLE001 - told, unless it is the daemon's end
                if not is_loss(error):
                    raise
                (folder / f"lost-{os.getpid()}").touch()
    except BaseException:  # noqa: BLE001
        (folder / f"fault-{os.getpid()}").write_text(f"{kind}, seed {seed}\n{traceback.format_exc()}")
        return 1
    return 0


def serve() -> None:
    wire.message_class("Error")
    wire.methods()
    children: set[int] = set()
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "start":
            kind, target, seed, folder, name = rest
            child = os.fork()
            if not child:
                os.close(0)
                os._exit(work(kind, target, int(seed), pathlib.Path(folder), name))
            children.add(child)
            print(child, flush=True)
        else:
            print(os.waitpid(int(rest[0]), 0)[1], flush=True)
            children.discard(int(rest[0]))
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    serve()
