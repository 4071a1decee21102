"""Random pipelines against a model: uploads, executions, donations, deletions, downloads, cancels, deadlines and quiet
calls, all sent without waiting. Every call is answered once; every value that comes is the right one; what fails had a
reason to."""

from __future__ import annotations

import dataclasses
import random
import struct

import pytest

import wire_messages as wire
from case_programs import case
from daemon import Daemon
from raw_frames import (CANCELLED, DEADLINE_EXCEEDED, ERROR, INVALID_ARGUMENT, ITEM, NOT_FOUND, QUIET, REPLY, Frame,
                        RawClient)

RUN_OVER = ["unix", "channel"]

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

SMALL, LARGE = 4, 20_000  # elements: inline, and as items


@dataclasses.dataclass
class Value:
    """What the model knows of a buffer id. Numbers are small integers, so that f32 is exact."""

    numbers: tuple[float, float]  # every even element, every odd one
    size: int
    may_fail: bool = False
    must_fail: bool = False
    donated: bool = False
    maybe_donated: bool = False
    deleted: bool = False
    touched: int = 0  # the last call that made or consumed it

    @property
    def usable(self) -> bool:
        return not (self.must_fail or self.donated or self.deleted)

    def data(self) -> bytes:
        return struct.pack("<2f", *self.numbers) * (self.size // 2)


@dataclasses.dataclass
class Call:
    method: str
    quiet: bool
    risky: bool  # cancelled or with a short deadline
    may_fail: bool
    must_fail: bool
    download: Value | None = None


class Pipeline:
    def __init__(self, client: RawClient, seed: int) -> None:
        self.random = random.Random(seed)
        self.client = client
        self.programs = {
            (name, size): client.compile(case(name).text.replace("4xf32", f"{size}xf32"))
            for name in ("add", "donate_first") for size in (SMALL, LARGE)
        }
        self.values: dict[int, Value] = {}
        self.calls: dict[int, Call] = {}
        self.window: dict[int, int] = {}

    # -- steps -------------------------------------------------------------------

    def options(self) -> tuple[dict, bool]:
        deadline = self.random.choice((0,) * 12 + (1, 50_000, 2_000_000, 60 * 10**9))
        return dict(deadline_ns=deadline, quiet=self.random.random() < 0.3), 0 < deadline < 10**9

    def note(self, call: int, method: str, options: dict, risky: bool, may: bool, must: bool, download: Value | None = None) -> None:
        self.calls[call] = Call(method, options["quiet"], risky, may or risky, must, download)
        if self.random.random() < 0.06:
            victim = self.random.choice(list(self.calls)[-5:])
            self.client.cancel(victim, self.calls[victim].method)
            self.taint(victim)

    def taint(self, victim: int) -> None:
        """The call may have been cancelled in time or not: that and everything that came after it may have gone either
        way."""
        for number, call in self.calls.items():
            if number >= victim and call.method != "Buffer.Delete":
                call.may_fail, call.must_fail = True, False
        for value in self.values.values():
            if value.touched >= victim:
                value.may_fail, value.must_fail = True, False
                if value.donated:
                    value.donated, value.maybe_donated = False, True

    def upload(self) -> None:
        options, risky = self.options()
        size = self.random.choice((SMALL, SMALL, LARGE))
        value = Value((float(self.random.randrange(100)), float(self.random.randrange(100))), size, may_fail=risky)
        buffer, call = self.client.start_upload("f32", [size], value.data(), item_bytes=30_000, **options)
        self.values[buffer] = value
        value.touched = call
        self.note(call, "Buffer.Upload", options, risky, False, False)

    def pick(self, size: int | None = None) -> tuple[int, Value] | None:
        chosen = [(key, value) for key, value in self.values.items() if size in (None, value.size)]
        good = [(key, value) for key, value in chosen if value.usable]
        pool = good if good and self.random.random() < 0.85 else chosen
        return self.random.choice(pool) if pool else None

    def execute(self) -> None:
        picked = self.pick()
        if picked is None:
            return
        second = self.pick(picked[1].size)
        assert second is not None
        name = self.random.choice(("add", "add", "donate_first"))
        options, risky = self.options()
        (one, a), (two, b) = picked, second
        must = not a.usable or not b.usable or (name == "donate_first" and one == two)
        may = any(value.may_fail or value.maybe_donated for value in (a, b))
        out = Value((a.numbers[0] + b.numbers[0], a.numbers[1] + b.numbers[1]), a.size, may_fail=may or risky, must_fail=must)
        (buffer,), call = self.client.start_execute(self.programs[name, a.size], [one, two], **options)
        self.values[buffer] = out
        if name == "donate_first" and not must:
            if may or risky:
                a.maybe_donated = True
            else:
                a.donated = True
            a.touched = call
        out.touched = call
        self.note(call, "Execute.Execute", options, risky, may, must)

    def download(self) -> None:
        picked = self.pick()
        if picked is None:
            return
        buffer, value = picked
        risky = False
        options = dict(deadline_ns=0, quiet=False)
        call = self.client.start("Buffer.Download", buffer=buffer)
        self.note(call, "Buffer.Download", options, risky, value.may_fail or value.maybe_donated, not value.usable,
                  dataclasses.replace(value))

    def delete(self) -> None:
        picked = self.pick()
        if picked is None:
            return
        buffer, value = picked
        quiet = self.random.random() < 0.5
        call = self.client.start("Buffer.Delete", buffers=[buffer], quiet=quiet)
        must, value.deleted = value.deleted, True
        self.calls[call] = Call("Buffer.Delete", quiet, False, False, must)

    # -- answers -------------------------------------------------------------------

    def settle(self) -> None:
        """Reads every answer and holds it against the model."""
        sync = self.client.start("Session.Sync")
        self.client.reply(sync, "Session.Sync")
        for number, call in self.calls.items():
            self.check(number, call)
        self.calls.clear()
        self.client.call("Session.Sync")
        assert not self.client.has_input(0.02), "an answer too many"

    def check(self, number: int, call: Call) -> None:
        if call.quiet and not self.client._frames[number]:
            assert not call.must_fail, (number, call)
            return
        got = self.client.receive_of(number)
        if got.kind == ERROR:
            self.check_error(number, call, got)
            return
        assert got.kind == REPLY and not call.quiet
        assert not call.must_fail, (number, call)
        if call.download is not None:
            self.check_data(number, call, call.download, got)

    def check_error(self, number: int, call: Call, got: Frame) -> None:
        error = wire.message_class("Error").FromString(got.payload)
        assert call.may_fail or call.must_fail, (number, call, error)
        assert error.code in (CANCELLED, DEADLINE_EXCEEDED, NOT_FOUND, INVALID_ARGUMENT), error

    def check_data(self, number: int, call: Call, value: Value, reply: Frame) -> None:
        data = bytearray(reply.bulk)
        wanted = wire.message_class("DownloadReply").FromString(reply.payload).data_bytes
        while len(data) < wanted:
            item = self.client.receive_of(number)
            if item.kind == ERROR:
                self.check_error(number, call, item)
                return
            assert item.kind == ITEM
            data += item.bulk
            self.client.grant(number, len(item.bulk))
        assert data == value.data(), (number, call)

    def look_at_everything(self) -> None:
        for buffer, value in self.values.items():
            call = self.client.start("Buffer.Download", buffer=buffer)
            may, must = value.may_fail or value.maybe_donated, not value.usable
            self.calls[call] = Call("Buffer.Download", False, False, may, must, value)
        self.settle()


@pytest.mark.over("unix")
@pytest.mark.parametrize("seed", range(20))
def test_against_the_model(daemon: Daemon, seed: int) -> None:
    against_the_model(daemon, seed)


@pytest.mark.over("channel")
@pytest.mark.parametrize("seed", range(20, 26))
def test_against_the_model_over_grpc(daemon: Daemon, seed: int) -> None:
    against_the_model(daemon, seed)


def against_the_model(daemon: Daemon, seed: int) -> None:
    with daemon.connect() as client:
        pipeline = Pipeline(client, seed)
        steps = [pipeline.upload] * 4 + [pipeline.execute] * 5 + [pipeline.download] * 3 + [pipeline.delete] * 2
        for _ in range(6):
            for _ in range(pipeline.random.randrange(5, 40)):
                pipeline.random.choice(steps)()
            pipeline.settle()
        pipeline.look_at_everything()


@pytest.mark.over("unix")
@pytest.mark.parametrize("seed", range(6))
def test_several_connections_at_once(daemon: Daemon, seed: int) -> None:
    several_connections_at_once(daemon, seed, ["unix"] * 4)


@pytest.mark.over("channel")
@pytest.mark.parametrize("seed", range(6, 8))
def test_connections_over_both_transports_at_once(daemon: Daemon, seed: int) -> None:
    several_connections_at_once(daemon, seed, ["unix", "channel"] * 2)


def several_connections_at_once(daemon: Daemon, seed: int, transports: list[str]) -> None:
    clients = [daemon.connect(over) for over in transports]
    pipelines = [Pipeline(client, seed * 10 + i) for i, client in enumerate(clients)]
    order = random.Random(seed)
    for _ in range(4):
        for _ in range(100):
            pipeline = order.choice(pipelines)
            order.choice((pipeline.upload, pipeline.execute, pipeline.execute, pipeline.download, pipeline.delete))()
        for pipeline in pipelines:
            pipeline.settle()
    for pipeline in pipelines:
        pipeline.look_at_everything()
    # Some say goodbye in the middle of things.
    for pipeline in pipelines[:2]:
        for _ in range(30):
            order.choice((pipeline.upload, pipeline.execute, pipeline.download))()
    for client in clients:
        client.close()


@pytest.mark.over("unix")
def test_the_model_expects_both() -> None:
    """The model is not so lenient that everything passes: without cancels and deadlines, most calls have one outcome."""
    value = Value((1, 2), SMALL)
    assert value.usable and value.data() == struct.pack("<4f", 1, 2, 1, 2)
    assert not Value((1, 2), SMALL, donated=True).usable and QUIET == 1
