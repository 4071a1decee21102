"""The smallest whole program: connect, compile, run, read the answer. Standard library only.

    PJRTD_TARGET=unix:/run/pjrtd/pjrtd.sock python hello.py
    python hello.py unix:/run/pjrtd/pjrtd.sock
"""

from __future__ import annotations

import sys

import pjrtd

# StableHLO, written by hand; from_jax.py has JAX write it.
PROGRAM = """
module @hello {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def main(target: str | None = None) -> None:
    with pjrtd.Client.create(target) as client:
        print(f"platform: {client.platform_name}, {client.device_count} device(s)")
        add = client.compile(PROGRAM)
        print(f"program:  {add}")

        # Host values travel with the call; a buffer stays on the device and can be used again and again.
        a = client.buffer_from_host([1.0, 2.0, 3.0, 4.0])
        (total,) = add(a, [10.0, 20.0, 30.0, 40.0])
        (more,) = add(total, a)

        print(f"result:   {more.tolist()}")
        for handle in (a, total, more, add):
            handle.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
