"""Calls pipeline: a program starts as soon as its arguments are there, and nobody waits but who asks for a value.

A recurrence x = 0.5 x + b is stepped a thousand times, each step's result being the next one's argument; the data
stays on the device, and only the last value is read. A step that fails shows where its result is used.

    python pipeline.py [unix:/run/pjrtd/pjrtd.sock]
"""

from __future__ import annotations

import sys
import time

import pjrtd

STEPS = 1000

STEP = """
module @step {
  func.func public @main(%x: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %half = stablehlo.constant dense<0.5> : tensor<64x64xf32>
    %0 = stablehlo.multiply %x, %half : tensor<64x64xf32>
    %1 = stablehlo.add %0, %b : tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}
"""


def main(target: str | None = None) -> None:
    with pjrtd.Client.create(target) as client, client.compile(STEP) as step:
        ones = [[1.0] * 64] * 64
        b = client.buffer_from_host(ones)
        x = client.buffer_from_host(ones)

        started = time.perf_counter()
        for _ in range(STEPS):
            (after,) = step(x, b)  # returns before it has run
            x.close()  # freed when the step that uses it is done
            x = after
        sent = time.perf_counter()
        with pjrtd.deadline(60):  # every call in here has to be over in a minute
            value = x.tolist()
        done = time.perf_counter()

        print(f"{STEPS} steps sent in {(sent - started) * 1e3:.1f} ms, done {(done - sent) * 1e3:.1f} ms later")
        print(f"x[0][0] = {value[0][0]}")  # the limit of the recurrence is 2
        x.close()
        b.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
