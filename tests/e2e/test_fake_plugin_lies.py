"""A plugin that lies, or does not start: a clear error or an orderly end, and never a crash."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from bystander import Bystander
from daemon import Daemon, refuses_to_start
from fake_plugin import FakeDaemon, program
from raw_frames import CallFailed, Closed, RawClient

INTERNAL, UNIMPLEMENTED = 13, 12
ONES = struct.pack("<4f", 1, 2, 3, 4)
TENS = struct.pack("<4f", 10, 20, 30, 40)
SUMS = struct.pack("<4f", 11, 22, 33, 44)
BIG = 1 << 18


@pytest.fixture(scope="module", params=["cpu", "elsewhere"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    with FakeDaemon(platform=request.param) as started:
        yield started


@pytest.fixture(autouse=True)
def no_script(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "daemon" in request.fixturenames:
        request.getfixturevalue("daemon").script()


def arguments(client: RawClient) -> list[int]:
    return [client.upload("f32", [4], ONES), client.upload("f32", [4], TENS)]


# -- about a program -----------------------------------------------------------------


@pytest.mark.parametrize("script,words", [
    ("Client_Compile=lie:0", "made no program, and gave no error"),
    ("LoadedExecutable_GetExecutable=lie:0", "does not describe the program"),
    ("LoadedExecutable_AddressableDevices=lie:1", "a device that the client does not have"),
    ("LoadedExecutable_AddressableDevices=lie:1000000000000", "1000000000000 devices for the program"),
    ("LoadedExecutable_AddressableDevices=lie:-1", "18446744073709551615 devices for the program"),
    ("Executable_NumOutputs=lie:0", "says 0 outputs, its optimised program has 1"),
    ("Executable_NumOutputs=lie:2", "says 2 outputs, its optimised program has 1"),
    ("Executable_NumOutputs=lie:-1", "says 18446744073709551615 outputs, its optimised program has 1"),
    ("Executable_NumReplicas=lie:0", "0 replicas of 1 partitions, on 1 devices"),
    ("Executable_NumReplicas=lie:2", "2 replicas of 1 partitions, on 1 devices"),
    ("Executable_NumPartitions=lie:-1", "1 replicas of 18446744073709551615 partitions, on 1 devices"),
    ("Executable_OptimizedProgram=lie:1", "optimised program cannot be read"),
    ("Executable_OptimizedProgram=lie:2", "optimised program cannot be read"),
    ("Executable_OptimizedProgram=lie:20", "4611686018427387904 bytes"),
    ("Executable_OptimizedProgram=lie:23", "grew"),
    ("Executable_OptimizedProgram=lie:4", "says 1 outputs, its optimised program has 2"),
    ("Executable_OptimizedProgram=lie:8", "says 1 outputs, its optimised program has 0"),
])
def test_a_compile_that_cannot_be_believed(
    balanced: None, bystander: Bystander, client: RawClient, script: str, words: str,
) -> None:
    made, call = client.start_compile(program(script=script))
    failed = client.failure_of(call)
    assert failed.code == INTERNAL and words in failed.message, failed
    _, call = client.start_execute(made, arguments(client))
    assert client.failure_of(call).message == failed.message


@pytest.mark.parametrize("lie", [21, 22])
def test_an_optimised_program_of_another_form(balanced: None, client: RawClient, lie: int) -> None:
    _, call = client.start_compile(program(script=f"Executable_OptimizedProgram=lie:{lie}"))
    failed = client.failure_of(call)
    assert failed.code == UNIMPLEMENTED and "pjrtd reads hlo and hlo_with_config" in failed.message


@pytest.mark.parametrize("lie,words", [
    (3, "negative"), (5, "64 dimensions"), (6, "element type"), (7, "overflows"),
])
def test_a_result_that_cannot_be(balanced: None, bystander: Bystander, client: RawClient, lie: int, words: str) -> None:
    """The program is described, and cannot be run."""
    made, call = client.start_compile(program(script=f"Executable_OptimizedProgram=lie:{lie}"))
    client.answer(call)
    described = client.call("Program.Describe", program=made)
    assert words in described.outputs[0].unsupported, described
    _, call = client.start_execute(made, arguments(client))
    failed = client.failure_of(call)
    assert words in failed.message, failed


def test_a_donated_argument_that_does_not_exist(balanced: None, client: RawClient) -> None:
    made = client.compile(program(script="Executable_OptimizedProgram=lie:9"))
    given = arguments(client)
    assert client.download(client.execute(made, given)[0]) == SUMS
    assert [client.download(buffer) for buffer in given] == [ONES, TENS]


@pytest.mark.parametrize("function", ["Executable_Name", "Executable_Fingerprint"])
@pytest.mark.parametrize("size", [0, 1000, -1])
def test_texts_that_are_not_there(balanced: None, client: RawClient, function: str, size: int) -> None:
    made = client.compile(program(script=f"{function}=lie:{size}"))
    described = client.call("Program.Describe", program=made)
    assert (described.name if function == "Executable_Name" else described.fingerprint) == ""


# -- about executions and buffers ------------------------------------------------------


@pytest.mark.parametrize("late", ["", ";LoadedExecutable_Execute=event_after:20"])
def test_an_execution_without_an_output(balanced: None, bystander: Bystander, client: RawClient, late: str) -> None:
    made = client.compile(program(results=("4xf32", "4xf32"), script="LoadedExecutable_Execute=lie:0" + late))
    given = arguments(client)
    for _ in range(3):
        outputs, call = client.start_execute(made, given, 2)
        failed = client.failure_of(call)
        assert failed.code == INTERNAL and "output 0" in failed.message and "plugin" in failed.message, failed
        for output in outputs:
            assert client.failure("Buffer.Download", buffer=output).message == failed.message
    assert [client.download(buffer) for buffer in given] == [ONES, TENS]


@pytest.mark.parametrize("data,dims", [(ONES, [4]), (bytes(4 * BIG), [BIG])], ids=["small", "bulk"])
def test_an_upload_without_a_buffer(
    balanced: None, bystander: Bystander, daemon: FakeDaemon, client: RawClient, data: bytes, dims: list[int],
) -> None:
    daemon.script("Client_BufferFromHostBuffer@1=lie:0")
    buffer, call = client.start_upload("f32", dims, data)
    failed = client.failure_of(call)
    assert failed.code == INTERNAL and "made no buffer, and gave no error" in failed.message, failed
    assert client.failure("Buffer.Stat", buffer=buffer).message == failed.message
    assert client.download(client.upload("f32", dims, data)) == data


def test_memory_that_is_nowhere(balanced: None, daemon: FakeDaemon, client: RawClient) -> None:
    """NULL is not read from: the plugin copies."""
    data = bytes(range(256)) * (BIG // 64)
    small, big = client.upload("f32", [4], ONES), client.upload("f32", [BIG], data)
    daemon.script("Buffer_UnsafePointer=lie:0")
    assert client.download(small) == ONES
    assert client.download(big) == data
    made = client.compile(program())
    given = arguments(client)
    for _ in range(3):
        _, call = client.start_execute(made, given, outputs=[], fetch=[0])
        assert client.answer(call).bulk == SUMS


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 1 << 60, -1])
def test_sizes_that_cannot_be(balanced: None, bystander: Bystander, daemon: FakeDaemon, client: RawClient, size: int) -> None:
    """What a buffer takes is the plugin's to say, up to a point; nobody's limits may overflow by it."""
    daemon.script(f"Buffer_OnDeviceSizeInBytes=lie:{size}")
    buffer = client.upload("f32", [4], ONES)
    other = client.upload("f32", [4], TENS)
    assert client.download(buffer) == ONES
    assert 0 <= client.stats().buffer_bytes <= 1 << 42
    client.call("Buffer.Delete", buffers=[buffer, other])


def test_a_buffer_that_pretends_to_be_consumed(balanced: None, daemon: FakeDaemon, client: RawClient) -> None:
    """A program that donates is believed about what it consumed, in both directions."""
    made = client.compile(program(donated={0: 0}))
    given = arguments(client)
    daemon.script("Buffer_IsDeleted=lie:0")
    assert client.download(client.execute(made, given)[0]) == SUMS
    with pytest.raises(CallFailed):
        client.download(given[0])
    daemon.script("Buffer_IsDeleted=lie:1")
    again = arguments(client)
    assert client.download(client.execute(made, again)[0]) == SUMS


# -- at the start ------------------------------------------------------------------------


@pytest.mark.parametrize("script,words", [
    ("Plugin_Initialize=error:9:no licence", "no licence"),
    ("Client_Create=error:14:the device is busy", "the device is busy"),
    ("Client_Create=lie:0", "made no client, and gave no error"),
    ("Client_PlatformName=error:13:who am I", "who am I"),
    ("Client_PlatformVersion=error:13:who am I", "who am I"),
    ("Client_ProcessIndex=error:13:who am I", "who am I"),
    ("Client_Devices=error:13:lost them", "lost them"),
    ("Client_Devices=lie:2", "2 devices, but gives no list"),
    ("Client_Devices=lie:-1", "18446744073709551615 devices"),
    ("Client_AddressableDevices=error:13:lost them", "lost them"),
    ("Client_AddressableDevices=lie:0", "found no device"),
    ("Client_AddressableDevices=lie:3", "3 addressable devices, but gives no list"),
    ("Device_GetDescription=error:13:nameless", "nameless"),
    ("Device_GetDescription=lie:0", "no description"),
    ("DeviceDescription_Id=error:13:nameless", "nameless"),
    ("DeviceDescription_Id=lie:3", "the id 3"),
    ("DeviceDescription_Kind=error:13:nameless", "nameless"),
    ("Client_Compile=error:12:cannot compile", "cannot compile"),
    ("Client_BufferFromHostBuffer=error:8:no memory", "no memory"),
    ("LoadedExecutable_Execute=error:13:cannot run", "cannot run"),
    ("LoadedExecutable_Execute=event_error:13:cannot run", "cannot run"),
    ("Buffer_UnsafePointer=error:12:no;Buffer_ToHostBuffer=error:13:cannot read", "cannot read"),
])
@pytest.mark.parametrize("platform", ["cpu", "elsewhere"])
def test_a_plugin_that_does_not_start(script: str, words: str, platform: str) -> None:
    """One line names the file and what the plugin said; the code is not 0."""
    daemon = FakeDaemon(script, platform=platform)
    log = refuses_to_start(daemon, words)
    errors = [line for line in log.splitlines() if " level=error " in line]
    assert len(errors) == 1 and "fake_plugin.so" in errors[0] and words in errors[0], log


def test_a_client_without_devices() -> None:
    log = refuses_to_start(FakeDaemon(devices=0), "found no device")
    assert 'hint="see whether the accelerator is there' in log


@pytest.mark.parametrize("script,how", [
    ("Client_Create=abort", "signal 6 (SIGABRT) while its client was made"), ("Client_Create=exit:0", "exit(0) while its client was made"),
    ("Client_Create=exit:7", "exit(7) while its client was made"), ("Client_Compile=exit:0", "exit(0) while the probe program ran"),
    ("LoadedExecutable_Execute=abort", "signal 6 (SIGABRT) while the probe program ran"),
])
def test_a_plugin_that_ends_the_process_when_it_starts(script: str, how: str) -> None:
    daemon = FakeDaemon(script)
    try:
        daemon.spawn()
        assert daemon.wait(10) != 0
        assert daemon.output == []
        errors = [line for line in daemon.log().splitlines() if " level=error " in line]
        assert len(errors) == 1 and f"fake_plugin.so ended the process with {how}" in errors[0], daemon.log()
    finally:
        daemon.discard()


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("function", ["Client_Compile", "LoadedExecutable_Execute"])
def test_a_plugin_that_calls_exit_while_it_serves(function: str, code: int) -> None:
    """The supervisor sees that this was no orderly end, and the log says whose it was."""
    daemon = FakeDaemon().start()
    try:
        client = daemon.connect()
        made, call = client.start_compile(program(script=f"{function}=exit:{code}"))
        client.start_execute(made, [])
        if function != "Client_Compile":
            client.answer(call)
            client.start_execute(made, arguments(client))
        with pytest.raises(Closed):
            client.answer(call + 100)
        assert daemon.wait(10) == (code or 1)
        assert f"fake_plugin.so ended the process with exit({code}) while it served" in daemon.log()
    finally:
        daemon.discard()


def test_texts_of_the_plugin_are_readable_by_every_client() -> None:
    """Whatever bytes its names are, the replies that carry them can be decoded."""
    with FakeDaemon("Client_PlatformName=lie:0;DeviceDescription_Kind=lie:0;Plugin_Attributes=lie:5") as daemon, daemon.connect() as client:
        assert client.call("Runtime.Info").platform_name == ""
        kinds = [device.kind for device in client.call("Runtime.Devices").devices]
        assert kinds == ["fa?ke?kind"] * 2
