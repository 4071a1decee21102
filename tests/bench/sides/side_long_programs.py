"""A session that runs programs of a given length, one after the other: `side_long_programs.py TARGET MILLISECONDS`.

`waiting` asks for the next when it has the answer; `queued` has as much under way as keeps the device busy."""

from __future__ import annotations

import collections
import struct
import sys
import time

import pjrtd
from slice_runner import Mode, serve

# A loop of as many steps as the first argument says: its time depends on nothing else.
PROGRAM = """module @steps { func.func public @main(%n: tensor<i32>, %x: tensor<ui32>) -> tensor<ui32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<ui32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %a = stablehlo.constant dense<1664525> : tensor<ui32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %p = stablehlo.multiply %y, %a : tensor<ui32>
    %q = stablehlo.add %p, %a : tensor<ui32>
    stablehlo.return %next, %q : tensor<i32>, tensor<ui32>
  }
  return %0#1 : tensor<ui32>
} }
"""
TRIAL_STEPS = 1_000_000
AHEAD_MS = 200


def main() -> None:
    milliseconds = float(sys.argv[2])
    client = pjrtd.Client.create(sys.argv[1]).__enter__()
    device = client.devices()[0]
    exe = client.compile(PROGRAM)
    x = client.buffer_from_host(bytes(4), pjrtd.DType.U32, [], device)

    def argument(steps: int) -> pjrtd.Buffer:
        return client.buffer_from_host(struct.pack("<i", steps), pjrtd.DType.S32, [], device)

    def run(steps: pjrtd.Buffer) -> None:
        (out,) = exe(steps, x)
        out.to_host()

    def seconds(steps: pjrtd.Buffer) -> float:
        began = time.perf_counter()
        run(steps)
        return time.perf_counter() - began

    trial = argument(TRIAL_STEPS)
    quickest = min(seconds(trial) for _ in range(7))
    steps = argument(max(1, int(TRIAL_STEPS * milliseconds / 1000 / quickest)))
    run(steps)
    queue: collections.deque[pjrtd.Buffer] = collections.deque()
    depth = int(AHEAD_MS / milliseconds) + 2

    def queued() -> None:
        while len(queue) < depth:
            queue.append(exe(steps, x)[0])
        queue.popleft().to_host()

    def drain() -> None:
        while queue:
            queue.popleft().to_host()

    serve({"waiting": Mode(lambda: run(steps)), "queued": Mode(queued, end=drain)}, {"version": pjrtd.__version__})


if __name__ == "__main__":
    main()
