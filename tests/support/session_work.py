"""What a session does in the long tests: executions, slots that are fed back, runs, compiles, data, refusals, each checked
to the last bit. Over raw frames, whatever carries them."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import wire_messages as wire
from case_programs import case
from raw_frames import CANCELLED, INVALID_ARGUMENT, ITEM, REPLY, CallFailed, RawClient

ADD, DONATE = case("add").text, case("donate_first").text
COUNT = """module @count { func.func @main(%i: tensor<i32>, %end: tensor<i32>) -> (tensor<i32>, tensor<i1>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.add %i, %one : tensor<i32>
  %1 = stablehlo.compare GE, %0, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0, %1 : tensor<i32>, tensor<i1> } }"""
STEP = (1.0, 2.0, 3.0, 4.0)
MOST_STEPS = 1 << 20  # so that every element stays an exact f32
ENDLESS = 10**18


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def replies(client: RawClient, call: int) -> Iterator[tuple[Any, bytes]]:
    """The elements of a run and then its answer: (RunReply, values)."""
    while True:
        frame = client.receive_of(call)
        if frame.kind not in (ITEM, REPLY):
            raise CallFailed(wire.message_class("Error").FromString(frame.payload))
        yield wire.message_class("RunReply").FromString(frame.payload), frame.bulk
        if frame.kind == REPLY:
            return


class SessionWork:
    """Slots have names that begin with `prefix`, so that several can work in one session. The slot "x" counts steps: its
    value is always STEP times how many were made."""

    def __init__(self, client: RawClient, chance: random.Random, prefix: str = "") -> None:
        self.chance, self.prefix = chance, prefix
        self.done: Counter[str] = Counter()
        self.begin(client)

    def begin(self, client: RawClient) -> None:
        """On this connection from here on, with what the session's slots hold."""
        self.client = client
        self.add, self.donate, self.count = (client.compile(text) for text in (ADD, DONATE, COUNT))
        self.bind("f32", b=floats(*STEP))
        self.steps = self.steps_made()

    def close(self) -> None:
        self.client.close()

    # -- slots ----

    def slot(self, name: str) -> str:
        return self.prefix + name

    def bind(self, dtype: str, **values: bytes) -> None:
        made = {name: self.client.upload(dtype, [4] if len(value) == 16 else [], value) for name, value in values.items()}
        self.client.call("Session.Bind", bindings=[dict(slot=self.slot(name), buffer=buffer) for name, buffer in made.items()])
        self.client.call("Buffer.Delete", buffers=list(made.values()))

    def value(self, name: str) -> bytes:
        buffer = self.client.new_buffer()
        self.client.call("Session.Lookup", bindings=[dict(slot=self.slot(name), buffer=buffer)])
        try:
            return self.client.download(buffer)
        finally:
            self.client.call("Buffer.Delete", buffers=[buffer])

    def steps_made(self) -> int:
        """How many steps are in the slot "x": the same number in each element. A new session has none."""
        if all(slot.slot != self.slot("x") for slot in self.client.call("Session.Slots").slots):
            self.bind("f32", x=bytes(16))
            return 0
        values = struct.unpack("<4f", self.value("x"))
        made = int(values[0])
        assert values == tuple(made * each for each in STEP), values
        return made

    def step(self, program: int, slots: list[str], feed: dict[int, str]) -> dict[str, Any]:
        return dict(program=program, args=[0] * len(slots),
                    slot_args=[dict(position=i, slot=self.slot(slot)) for i, slot in enumerate(slots)],
                    feed_back=[dict(output=output, slot=self.slot(slot)) for output, slot in feed.items()])

    # -- what it does ----

    def execute(self) -> None:
        number = float(self.chance.randrange(1000))
        a, b = self.client.upload("f32", [4], floats(*STEP)), self.client.upload("f32", [4], floats(*[number] * 4))
        (result,) = self.client.execute(self.add, [a, b])
        assert self.client.download(result) == floats(*(each + number for each in STEP))
        self.client.call("Buffer.Delete", buffers=[a, b, result])

    def feed_back(self) -> None:
        """Steps that are not waited for, each consuming what the one before gave."""
        count = self.chance.randrange(1, 200)
        self.start_steps(count)
        self.finish_steps()

    def start_steps(self, count: int) -> None:
        if self.steps + count > MOST_STEPS:
            self.bind("f32", x=bytes(16))
            self.steps = 0
        request = self.step(self.donate, ["x", "b"], {0: "x"})
        for _ in range(count):
            self.client.start("Execute.Execute", quiet=True, **request)
        self.steps += count

    def finish_steps(self) -> None:
        assert self.client.call("Session.Sync").failed_call == 0
        assert self.value("x") == floats(*(self.steps * each for each in STEP))

    def run_streamed(self) -> None:
        count, every = self.chance.randrange(1, 2000), self.chance.randrange(1, 60)
        self.bind("s32", i=ints(0), end=ints(2**31 - 1))
        call = self.client.start("Execute.Run", step=self.step(self.count, ["i", "end"], {0: "i"}) | dict(fetch=[0]), steps=count,
                                 every=every)
        told = [(reply.steps, bulk) for reply, bulk in replies(self.client, call)]
        right = [*range(every, count, every), count]
        assert told == [(steps, ints(steps)) for steps in right], (count, every, told)
        assert self.value("i") == ints(count)

    def run_until(self) -> None:
        end = self.chance.randrange(1, 5000)
        self.bind("s32", i=ints(0), end=ints(end))
        call = self.client.start("Execute.Run", step=self.step(self.count, ["i", "end"], {0: "i"}) | dict(fetch=[0]), steps=ENDLESS,
                                 until=1)
        ((reply, bulk),) = replies(self.client, call)
        assert (reply.steps, reply.stopped, bulk) == (end, True, ints(end))

    def run_cancelled(self) -> None:
        self.bind("s32", i=ints(0), end=ints(2**31 - 1))
        step = self.step(self.count, ["i", "end"], {0: "i"}) | dict(fetch=[0])
        call = self.client.start("Execute.Run", step=step, steps=ENDLESS, every=self.chance.randrange(1, 1000))
        last, count = 0, self.chance.randrange(1, 20)
        with_error = None
        try:
            for number, (reply, bulk) in enumerate(replies(self.client, call)):
                assert reply.steps > last and bulk == ints(reply.steps), (reply, bulk)
                last = reply.steps
                if number == count:
                    self.client.cancel(call, "Execute.Run")
        except CallFailed as failed:
            with_error = failed
        assert with_error is not None and with_error.code == CANCELLED, with_error
        (made,) = struct.unpack("<i", self.value("i"))
        assert made >= last, "what was told is in the slot"

    def compile(self) -> None:
        number = self.chance.randrange(1 << 16)
        program = self.client.compile(f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
          %c = stablehlo.constant dense<{number}.0> : tensor<4xf32>
          %0 = stablehlo.add %a, %c : tensor<4xf32>
          return %0 : tensor<4xf32> }}""")
        a = self.client.upload("f32", [4], floats(*STEP))
        (result,) = self.client.execute(program, [a])
        assert self.client.download(result) == floats(*(each + number for each in STEP))
        self.client.call("Buffer.Delete", buffers=[a, result])
        self.client.call("Program.Release", programs=[program])

    def bulk(self) -> None:
        data = self.chance.randbytes(self.chance.choice([1, 65_536, 65_537, 1_000_000, 4_000_000]))
        buffer = self.client.upload("u8", [len(data)], data)
        assert self.client.download(buffer) == data
        self.client.call("Buffer.Delete", buffers=[buffer])

    def refused(self) -> None:
        wrong = self.client.upload("u8", [3], b"abc")
        failed = self.client.failure_of(self.client.start_execute(self.donate, [wrong, wrong])[1])
        assert failed.code == INVALID_ARGUMENT and failed.detail.argument.actual == "u8[3]", failed
        self.client.call("Buffer.Delete", buffers=[wrong, self.client._last_id["buffer"] | self.client.hello.id_prefix << 48])

    def kinds(self) -> dict[Callable[[], None], int]:
        """What there is to do, and how often."""
        return {self.execute: 6, self.feed_back: 4, self.run_streamed: 3, self.run_until: 2, self.run_cancelled: 2,
                self.compile: 1, self.bulk: 2, self.refused: 1}

    def do_something(self) -> None:
        kinds = self.kinds()
        work = self.chance.choices(list(kinds), list(kinds.values()))[0]
        work()
        self.done[work.__name__] += 1
