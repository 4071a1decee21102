"""The memory that a program takes for a call is there for its next one."""

from __future__ import annotations

import time

from daemon import PATIENCE, Daemon

import pjrtd

# 6 MB between the argument and the result, which XLA cannot do without.
PRODUCTS = """
module @products {
  func.func public @main(%x: tensor<512x512xf32>) -> tensor<f32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [1] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %2 = stablehlo.dot_general %1, %0, contracting_dims = [0] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<512x512xf32>, tensor<f32>) -> tensor<f32>
    return %3 : tensor<f32>
  }
}
"""


def test_calls_some_time_apart_cause_no_page_faults(daemon: Daemon) -> None:
    with pjrtd.Client.create(daemon.target) as client, client.compile(PRODUCTS) as exe:
        with client.buffer_from_host(bytes(512 * 512 * 4), "f32", [512, 512]) as x:

            def call() -> None:
                (result,) = exe(x)
                assert result.item() == 0
                time.sleep(0.06)

            for _ in range(3):
                call()
            before = daemon.page_faults()
            for _ in range(10):
                call()
            faults = daemon.page_faults() - before
    if PATIENCE == 1:  # a sanitizer brings its own malloc
        assert faults < 10 * 100, f"{faults} page faults in 10 calls: their temporary memory went away between them"
