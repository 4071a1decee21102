"""A fresh process to its first result with pjrtd: `first_result_pjrtd.py TARGET`: import, connect, compile, execute,
fetch."""

import sys

import pjrtd

client = pjrtd.Client.create(sys.argv[1]).__enter__()
exe = client.compile(
    """module @add { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8xf32>
  return %0 : tensor<8xf32>
} }
"""
)
a = client.buffer_from_host([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], pjrtd.DType.F32, [8])
(out,) = exe(a)
print("result", out.tolist(), flush=True)
