"""A program that some session has is not compiled again, and what one session does with it is not the other's affair."""

from __future__ import annotations

import pytest

from daemon import Daemon

import pjrtd

DOUBLE = """
module @double {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
BROKEN = DOUBLE.replace("stablehlo.add", "stablehlo.nonsense")


def test_the_second_session_does_not_wait_for_the_compiler(balanced: None, daemon: Daemon, target: str) -> None:
    before = daemon.stats().compiles
    with pjrtd.Client.create(target) as one, pjrtd.Client.create(target) as other:
        first = one.compile(DOUBLE)
        second = other.compile(DOUBLE)
        again = one.compile(DOUBLE)
        assert first.compile_ns > 0 and second.compile_ns == again.compile_ns == 0
        assert daemon.stats().compiles == before + 1 and daemon.stats().programs == 3
        first.close()
        one.close()
        (result,) = second([1.0, 2.0])
        assert result.tolist() == [2.0, 4.0]
    daemon.settled(lambda now: now["programs"] == 0)
    with pjrtd.Client.create(target) as client:
        assert client.compile(DOUBLE).compile_ns > 0, "nobody had it any more"


def test_other_options_make_another_program(daemon: Daemon, target: str) -> None:
    before = daemon.stats().compiles
    with pjrtd.Client.create(target) as client:
        one = client.compile(DOUBLE)
        two = client.compile(DOUBLE, options=pjrtd.CompileOptions(num_replicas=2))
        assert (one.addressable_device_count, two.addressable_device_count) == (1, 2)
        assert daemon.stats().compiles == before + 2


def test_what_does_not_compile_is_tried_again(daemon: Daemon, target: str) -> None:
    before = daemon.stats().compiles
    with pjrtd.Client.create(target) as client:
        for _ in range(2):
            with pytest.raises(pjrtd.errors.InvalidArgument, match="nonsense"):
                client.compile(BROKEN)
        assert daemon.stats().compiles == before + 2
