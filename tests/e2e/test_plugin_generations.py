"""What is special to the real plugins of older PJRT; what they share with the newest is in tests marked every_plugin."""

from __future__ import annotations

import os
import pathlib
import struct
import subprocess

import pytest

from case_programs import case, elementwise
from daemon import PATIENCE, Daemon, clean_environment
from plugins import OLD, built_plugin, plugin_path
from raw_frames import UNIMPLEMENTED, RawClient
from wire_messages import REPOSITORY

DIVIDE = """func.func @main() -> tensor<{type}> {{
  %a = stablehlo.constant dense<{dividend}> : tensor<{type}>
  %z = stablehlo.constant dense<0> : tensor<{type}>
  %0 = stablehlo.{operation} %a, %z : tensor<{type}>
  return %0 : tensor<{type}>
}}"""


@pytest.mark.criterion
@pytest.mark.parametrize("version", OLD)
def test_the_plugin_layers_own_tests_pass(version: str) -> None:
    build = pathlib.Path(os.environ.get("PJRTD_BUILD", REPOSITORY / "build" / "release"))
    stubs = built_plugin("stubs/stub_null_api").parent
    env = clean_environment({"PJRTD_TEST_PLUGIN": str(plugin_path(version)), "PJRTD_STUB_PLUGINS": str(stubs)})
    done = subprocess.run([build / "bin" / "unit-plugin"], env=env, capture_output=True, text=True, check=False,
                          timeout=300 * PATIENCE)
    assert done.returncode == 0 and "Failing: 0 | Crashing: 0" in done.stderr, done.stderr[-4000:]
    assert "LeakSanitizer" not in done.stderr


@pytest.mark.every_plugin
def test_an_option_that_it_would_ignore_is_refused(plugin: pathlib.Path) -> None:
    daemon = Daemon(plugin=plugin, args=["--option", "no_such_option=1"])
    try:
        daemon.spawn()
        assert daemon.wait(10) > 0
        assert daemon.output == [] and "no_such_option" in daemon.log()
    finally:
        daemon.discard()


@pytest.mark.every_plugin
@pytest.mark.parametrize("operation", ["divide", "remainder"])
@pytest.mark.parametrize("type", ["i8", "ui16", "i32", "i64", "ui64", "4xi32", "1000xi64"])
def test_a_division_of_constants_by_zero_harms_nobody(
    balanced: None, client: RawClient, bystander: object, minor: int, operation: str, type: str,
) -> None:
    """Old compilers fold it with the processor's instruction, which traps: an error, and never a wrong value."""
    dividend = 9 if type.startswith("ui") else -9
    text = DIVIDE.format(type=type, dividend=dividend, operation=operation)
    if minor < 115:
        program, call = client.start_compile(text)
        failed = client.failure_of(call)
        assert failed.code == UNIMPLEMENTED
        assert failed.message == ("the program divides constants by zero, which the compiler of this plugin cannot do "
                                  f"(it speaks PJRT 0.{minor}; those of PJRT 0.115 can)")
        assert failed.detail.hint == "pass one of the operands as an argument, or install a newer plugin"
        assert client.failure("Execute.Execute", program=program).message == failed.message
    else:
        (result,) = client.execute(client.compile(text), [])
        data = client.download(result)
        element = type.rpartition("x")[2]
        width = int(element.strip("ui")) // 8
        right = (-1 if operation == "divide" else dividend).to_bytes(width, "little", signed=not (dividend > 0 and operation != "divide"))
        assert data == right * (len(data) // width) and len(data) >= width
        client.call("Buffer.Delete", buffers=[result])


@pytest.mark.every_plugin
def test_the_same_division_of_arguments_works(client: RawClient) -> None:
    the = case("divide_by_zero")
    program = client.compile(the.text)
    outputs = client.execute(program, [client.upload(arg.dtype, arg.dims, arg.data) for arg in the.args], len(the.outputs))
    assert [client.download(output) for output in outputs] == [right.data for right in the.outputs]


@pytest.mark.every_plugin
def test_big_tensors_move_both_ways(balanced: None, client: RawClient) -> None:
    count = 1 << 20
    values = os.urandom(4 * count)
    buffer = client.upload("u32", [count], values)
    assert client.download(buffer) == values
    (twice,) = client.execute(client.compile(elementwise("ui32", (count,))), [buffer])
    first, last = struct.unpack("<I", values[:4])[0], struct.unpack("<I", values[-4:])[0]
    back = client.download(twice)
    assert struct.unpack("<I", back[:4])[0] == 2 * first % 2**32 and struct.unpack("<I", back[-4:])[0] == 2 * last % 2**32
    client.call("Buffer.Delete", buffers=[buffer, twice])
