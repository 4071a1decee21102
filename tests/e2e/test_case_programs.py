"""Each program of cases/ gives what its own head comment says, over raw frames and through the Python client."""

from __future__ import annotations

import contextlib

import pytest

from bystander import Bystander
from case_programs import Case, all_cases, case
from daemon import Daemon
from raw_frames import INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, CallFailed, RawClient
import wire_messages as wire

import pjrtd

pytestmark = pytest.mark.every_plugin

CODES = {"INVALID_ARGUMENT": INVALID_ARGUMENT, "NOT_FOUND": NOT_FOUND, "RESOURCE_EXHAUSTED": RESOURCE_EXHAUSTED,
         "UNIMPLEMENTED": UNIMPLEMENTED}
EXCEPTIONS = {"INVALID_ARGUMENT": pjrtd.errors.InvalidArgument, "NOT_FOUND": pjrtd.errors.NotFound,
              "RESOURCE_EXHAUSTED": pjrtd.errors.ResourceExhausted, "UNIMPLEMENTED": pjrtd.errors.Unimplemented}


def run_case(client: RawClient, name: str) -> None:
    """Compiles, uploads, runs and downloads it twice; everything has to be as its head comment says."""
    minor = client.call("Runtime.Info").pjrt_minor
    the = case(name).on(minor)
    if the.compile_error:
        program, call = client.start_compile(the.text)
        failed = client.failure_of(call)
        assert failed.code == CODES[the.compile_error], failed
        assert failed.message and the.error_words in failed.message
        if the.error_words:  # what an old plugin lacks: both versions are named
            assert f"PJRT 0.{minor};" in failed.message and "PJRT 0.115 " in failed.message
        return
    program = client.compile(the.text)
    described = client.call("Program.Describe", program=program)
    arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in the.args]
    if the.execute_error:
        given = [] if name == "huge_output" else arguments
        _, call = client.start_execute(program, given, max(1, len(described.outputs)))
        failed = client.failure_of(call)
        assert failed.code == CODES[the.execute_error], failed
        return
    assert_described(the, described)
    outputs = client.execute(program, arguments, len(the.outputs))
    for buffer, right in zip(outputs, the.outputs, strict=True):
        assert client.download(buffer) == right.data
        stat = client.call("Buffer.Stat", buffer=buffer)
        assert (stat.type.dtype, tuple(stat.type.dims)) == (wire.dtype_numbers()[right.dtype], right.dims)
        assert stat.host_bytes == len(right.data)
    for position, (buffer, given) in enumerate(zip(arguments, the.args, strict=True)):
        if position in the.donated:
            failed = client.failure("Buffer.Download", buffer=buffer)
            assert failed.code == INVALID_ARGUMENT and "donated" in failed.message
        else:
            assert client.download(buffer) == given.data
    outputs_again = None
    if not the.donated:
        outputs_again = client.execute(program, arguments, len(the.outputs))
        assert [client.download(buffer) for buffer in outputs_again] == [right.data for right in the.outputs]


@pytest.mark.parametrize("name", all_cases())
def test_over_raw_frames(balanced: None, bystander: Bystander, client: RawClient, name: str) -> None:
    run_case(client, name)


def assert_described(the: Case, described: object) -> None:
    types = [(arg.type.dtype, tuple(arg.type.dims)) for arg in described.args]
    assert types == [(wire.dtype_numbers()[arg.dtype], arg.dims) for arg in the.args]
    types = [(output.type.dtype, tuple(output.type.dims)) for output in described.outputs]
    assert types == [(wire.dtype_numbers()[output.dtype], output.dims) for output in the.outputs]
    assert [i for i, arg in enumerate(described.args) if arg.donated] == list(the.donated)


@pytest.mark.parametrize("name", all_cases())
def test_through_the_python_client(balanced: None, bystander: Bystander, target: str, minor: int, name: str) -> None:
    the = case(name).on(minor)
    with pjrtd.Client.create(target) as client, client.devices() as devices:
        if the.compile_error:
            with pytest.raises(EXCEPTIONS[the.compile_error], match=the.error_words or None):
                client.compile(the.text)
            return
        program = client.compile(the.text)
        arguments = [
            client.buffer_from_host(bytearray(arg.data), wire.dtype_numbers()[arg.dtype], arg.dims, devices[0])
            for arg in the.args
        ]
        if the.execute_error:
            with pytest.raises(EXCEPTIONS[the.execute_error]):
                program(*([] if name == "huge_output" else arguments))[0].block_until_ready()
            return
        outputs = program(*arguments)
        assert isinstance(outputs, tuple) and len(outputs) == len(the.outputs)
        for buffer, right in zip(outputs, the.outputs, strict=True):
            assert tuple(buffer.dimensions) == right.dims
            assert buffer.element_type == wire.dtype_numbers()[right.dtype]
            assert buffer.nbytes == len(right.data)
            data = bytearray(len(right.data))
            buffer.to_host(data)
            assert bytes(data) == right.data
        for position, buffer in enumerate(arguments):
            assert buffer.is_deleted == (position in the.donated)


def test_a_failed_case_leaves_the_connection_working(client: RawClient) -> None:
    for name in ("missing_custom_call_typed", "dynamic_shapes_bounded", "op_from_the_future"):
        with contextlib.suppress(CallFailed):
            client.compile(case(name).text)
        the = case("add")
        program = client.compile(the.text)
        arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in the.args]
        assert client.download(client.execute(program, arguments)[0]) == the.outputs[0].data
