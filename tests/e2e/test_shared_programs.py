"""A program that some session has, or had, is not compiled again; what one session does with it is not the other's affair."""

from __future__ import annotations

from pathlib import Path

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


def test_the_second_session_does_not_wait_for_the_compiler(balanced: None, daemon: Daemon, target: str, tmp_path: Path) -> None:
    text = DOUBLE.replace("@double", f"@double_{tmp_path.name}")  # another one over each transport
    before = daemon.stats().compiles
    with pjrtd.Client.create(target) as one, pjrtd.Client.create(target) as other:
        first = one.compile(text)
        second = other.compile(text)
        again = one.compile(text)
        assert first.compile_ns > 0 and second.compile_ns == again.compile_ns == 0
        assert daemon.stats().compiles == before + 1 and daemon.stats().programs == 3
        first.close()
        one.close()
        (result,) = second([1.0, 2.0])
        assert result.tolist() == [2.0, 4.0]
    daemon.settled(lambda now: now["programs"] == 0)
    with pjrtd.Client.create(target) as client:
        assert client.compile(text).compile_ns == 0, "it stayed"


def test_only_so_many_stay() -> None:
    with Daemon(settings={"max_idle_programs": 2}) as daemon, pjrtd.Client.create(daemon.target) as client:

        def compiles(name: str) -> bool:
            with client.compile(DOUBLE.replace("@double", name)) as exe:
                took_ns = exe.compile_ns
            client.sync()
            return took_ns > 0

        assert [compiles(name) for name in ("@a", "@b", "@a", "@c", "@a", "@b")] == [True, True, False, True, False, True]


def test_a_program_for_another_home_is_another_one(daemon: Daemon) -> None:
    text = DOUBLE.replace("@double", "@at_home")
    with daemon.connect() as client:
        for device in (1, 2, 3, 1):
            client.call("Session.Configure", device=device)
            program = client.compile(text)
            assert list(client.call("Program.Describe", program=program).devices) == [device]


def test_other_options_make_another_program(daemon: Daemon, target: str) -> None:
    before = daemon.stats().compiles
    with pjrtd.Client.create(target) as client:
        text = DOUBLE.replace("@double", f"@options_{target[:4]}")
        one = client.compile(text)
        two = client.compile(text, options=pjrtd.CompileOptions(num_replicas=2))
        assert (one.addressable_device_count, two.addressable_device_count) == (1, 2)
        assert daemon.stats().compiles == before + 2


def test_what_does_not_compile_is_tried_again(daemon: Daemon, target: str) -> None:
    before = daemon.stats().compiles
    with pjrtd.Client.create(target) as client:
        for _ in range(2):
            with pytest.raises(pjrtd.errors.InvalidArgument, match="nonsense"):
                client.compile(BROKEN)
        assert daemon.stats().compiles == before + 2
