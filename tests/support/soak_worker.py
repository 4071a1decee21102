"""One client of the soak, a process of its own: connects, works, checks every value, disconnects, again and again.

    soak_worker.py SEED SECONDS

Ends with 0 and one line of what it did, or with what was wrong. Which client it is decides only the order of what it does.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable

import pjrtd

ADD = """
func.func @main(%x: tensor<{n}xf32>, %y: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %0 = stablehlo.add %x, %y : tensor<{n}xf32>
  return %0 : tensor<{n}xf32>
}}
"""
DONATE = """
func.func @main(%x: tensor<{n}xf32> {{tf.aliasing_output = 0 : i32}}) -> tensor<{n}xf32> {{
  %c = stablehlo.constant dense<1.0> : tensor<{n}xf32>
  %0 = stablehlo.add %x, %c : tensor<{n}xf32>
  return %0 : tensor<{n}xf32>
}}
"""
LOOP = """
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %sum = %zero) : tensor<i32>, tensor<i32>
    cond {
      %2 = stablehlo.compare LT, %i, %x : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = stablehlo.add %i, %one : tensor<i32>
      %3 = stablehlo.add %sum, %2 : tensor<i32>
      stablehlo.return %2, %3 : tensor<i32>, tensor<i32>
    }
  return %0#1 : tensor<i32>
}
"""
F32 = pjrtd.DType.F32


def upload(client: pjrtd.Client, values: list[float]) -> pjrtd.Buffer:
    return client.buffer_from_host(values, F32, (len(values),))


def add(client: pjrtd.Client, chance: random.Random) -> None:
    count = chance.choice([1, 8, 1000, 50_000])
    program = client.compile(ADD.format(n=count))
    number = float(chance.randrange(1000))
    x, y = upload(client, [number] * count), upload(client, [1.0] * count)
    for _ in range(chance.randrange(1, 30)):
        (x,) = program(x, y)
        number += 1
    assert x.tolist() == [number] * count


def donate(client: pjrtd.Client, chance: random.Random) -> None:
    program = client.compile(DONATE.format(n=16))
    state = upload(client, [0.0] * 16)
    rounds = chance.randrange(1, 100)
    for _ in range(rounds):
        (state,) = program(state)
    assert state.tolist() == [float(rounds)] * 16


def loop(client: pjrtd.Client, chance: random.Random) -> None:
    count = chance.choice([0, 10, 10_000, 60_000])
    (total,) = client.compile(LOOP)(client.buffer_from_host(count, pjrtd.DType.S32, ()))
    assert total.item() == count * (count + 1) // 2


def bulk(client: pjrtd.Client, chance: random.Random) -> None:
    data = chance.randbytes(chance.choice([1, 65_536, 65_537, 3_000_000, 12_000_000]))
    buffer = client.buffer_from_host(data, pjrtd.DType.U8, (len(data),))
    assert bytes(buffer.to_host()) == data


def fail(client: pjrtd.Client, chance: random.Random) -> None:
    """Errors of every kind leave the connection as it was."""
    try:
        client.compile("not a program " * chance.randrange(1, 1000))
    except pjrtd.errors.InvalidArgument:
        pass
    else:
        raise AssertionError("nonsense compiled")
    program = client.compile(ADD.format(n=8))
    wrong = upload(client, [0.0] * 9)
    try:
        program(wrong, wrong)[0].to_host()
    except pjrtd.errors.InvalidArgument:
        pass
    else:
        raise AssertionError("a wrong shape ran")
    assert wrong.tolist() == [0.0] * 9


def leave_things_behind(client: pjrtd.Client, chance: random.Random) -> None:
    """What a client does not delete goes with its session."""
    for _ in range(chance.randrange(20)):
        upload(client, [1.0] * 5000)
    client.compile(ADD.format(n=chance.randrange(1, 9)))


WORK: list[Callable[[pjrtd.Client, random.Random], None]] = [add, donate, loop, bulk, fail, leave_things_behind]


def main() -> int:
    chance = random.Random(int(sys.argv[1]))
    until = time.monotonic() + float(sys.argv[2])
    done: Counter[str] = Counter()
    while time.monotonic() < until:
        with pjrtd.Client.create() as client:
            for _ in range(chance.randrange(1, 20)):
                work = chance.choice(WORK)
                work(client, chance)
                done[work.__name__] += 1
        done["connections"] += 1
    print(" ".join(f"{name}={count}" for name, count in sorted(done.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
