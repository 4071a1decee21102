"""Whatever a plugin's function fails with reaches the client that asked, whole, and nobody else; nothing is lost by it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from bystander import Bystander
from daemon import Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import INVALID_ARGUMENT, UNKNOWN, CallFailed, RawClient

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

ONES = struct.pack("<4f", 1, 2, 3, 4)
TENS = struct.pack("<4f", 10, 20, 30, 40)
SUMS = struct.pack("<4f", 11, 22, 33, 44)
BIG = bytes(4 * (1 << 18))  # more than a request carries


@pytest.fixture(scope="module", params=["cpu", "elsewhere"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """One whose memory the host reads in place, and one whose memory it does not."""
    with FakeDaemon(platform=request.param) as started:
        yield started


@pytest.fixture(autouse=True)
def no_script(daemon: FakeDaemon) -> Iterator[None]:
    yield
    daemon.script()


def arguments(client: RawClient) -> list[int]:
    return [client.upload("f32", [4], ONES), client.upload("f32", [4], TENS)]


def adds(client: RawClient) -> None:
    (result,) = client.execute(client.compile(program()), arguments(client))
    assert client.download(result) == SUMS


def is_error(failed: CallFailed, code: int, text: str) -> None:
    assert failed.code == code, failed
    assert text in failed.message, failed.message


# -- functions -------------------------------------------------------------------


@pytest.mark.parametrize("function", [
    "Client_Compile", "LoadedExecutable_AddressableDevices", "LoadedExecutable_GetExecutable", "Executable_Name",
    "Executable_NumReplicas", "Executable_NumPartitions", "Executable_OptimizedProgram@1", "Executable_OptimizedProgram@2",
    "Executable_NumOutputs",
])
def test_a_compile_fails_with_what_the_function_said(client: RawClient, function: str) -> None:
    text = f"{function} does not work today"
    made, call = client.start_compile(program(script=f"{function}=error:9:{text}"))
    failed = client.failure_of(call)
    is_error(failed, 9, text)
    _, call = client.start_execute(made, arguments(client))
    assert client.failure_of(call).message == failed.message
    adds(client)


@pytest.mark.parametrize("function", ["Executable_Fingerprint", "Executable_Destroy", "LoadedExecutable_Destroy"])
def test_what_a_program_can_do_without_may_fail(client: RawClient, function: str) -> None:
    made = client.compile(program(script=f"{function}=error:13:no"))
    (result,) = client.execute(made, arguments(client))
    assert client.download(result) == SUMS
    client.call("Program.Release", programs=[made])


@pytest.mark.parametrize("run", [1, 2, 3])
def test_an_execute_fails_with_what_the_plugin_said(client: RawClient, run: int) -> None:
    """The first run goes to a lane, later ones of a quick program stay on the loop."""
    made = client.compile(program(script=f"LoadedExecutable_Execute@{run}=error:8:out of fake memory"))
    given = arguments(client)
    for turn in range(1, 5):
        (result,), call = client.start_execute(made, given)
        if turn == run:
            is_error(client.failure_of(call), 8, "out of fake memory")
            is_error(client.failure("Buffer.Download", buffer=result), 8, "out of fake memory")
        else:
            client.answer(call)
            assert client.download(result) == SUMS
    assert [client.download(buffer) for buffer in given] == [ONES, TENS]


@pytest.mark.parametrize("data,dims", [(ONES, [4]), (BIG, [1 << 18])], ids=["small", "bulk"])
def test_an_upload_fails_with_what_the_plugin_said(client: RawClient, daemon: FakeDaemon, data: bytes, dims: list[int]) -> None:
    daemon.script("Client_BufferFromHostBuffer@1=error:8:no room for it")
    buffer, call = client.start_upload("f32", dims, data)
    is_error(client.failure_of(call), 8, "no room for it")
    is_error(client.failure("Buffer.Stat", buffer=buffer), 8, "no room for it")
    assert client.download(client.upload("f32", dims, data)) == data


def test_an_inline_argument_that_cannot_be_made(client: RawClient, daemon: FakeDaemon) -> None:
    made = client.compile(program())
    for _ in range(3):
        client.execute(made, arguments(client))
    first = arguments(client)[0]
    inline = [dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=16)]
    (result,), call = client.start_execute(made, [first, 0], inline_args=inline, bulk=TENS)
    client.answer(call)
    assert client.download(result) == SUMS
    daemon.script("Client_BufferFromHostBuffer@1=error:8:no room for it")
    (result,), call = client.start_execute(made, [first, 0], inline_args=inline, bulk=TENS)
    is_error(client.failure_of(call), 8, "no room for it")
    is_error(client.failure("Buffer.Download", buffer=result), 8, "no room for it")
    assert client.download(first) == ONES


@pytest.mark.parametrize("function", ["Buffer_ToHostBuffer", "Buffer_ReadyEvent", "Event_Await"])
@pytest.mark.parametrize("data,dims", [(ONES, [4]), (BIG, [1 << 18])], ids=["small", "bulk"])
def test_a_download_fails_or_gets_by_without(
    client: RawClient, daemon: FakeDaemon, function: str, data: bytes, dims: list[int],
) -> None:
    """Where the host reads device memory in place, not every download asks the function."""
    buffer = client.upload("f32", dims, data)
    daemon.script(f"Buffer_UnsafePointer=error:12:not here;{function}=error:15:the data is lost")
    call = client.start("Buffer.Download", buffer=buffer)
    try:
        assert client.finish_download(call) == data
        assert function != "Buffer_ToHostBuffer"
    except CallFailed as failed:
        is_error(failed, 15, "the data is lost")
    daemon.script()
    assert client.download(buffer) == data


@pytest.mark.parametrize("function", [
    "Buffer_OnDeviceSizeInBytes", "Buffer_Destroy", "Buffer_IsDeleted", "Buffer_UnsafePointer", "Event_Destroy", "Event_IsReady",
])
def test_small_functions_may_fail(client: RawClient, daemon: FakeDaemon, function: str) -> None:
    daemon.script(f"{function}=error:13:no")
    for data, dims in ((ONES, [4]), (BIG, [1 << 18])):
        buffer = client.upload("f32", dims, data)
        assert client.download(buffer) == data
        client.call("Buffer.Delete", buffers=[buffer])
    made = client.compile(program())
    given = arguments(client)
    for _ in range(3):
        (result,) = client.execute(made, given)
        assert client.download(result) == SUMS


def test_a_transfer_that_nobody_would_tell_the_end_of(client: RawClient, daemon: FakeDaemon) -> None:
    """Pages that the plugin has taken come back with the buffer: the upload fails, and does not wait for ever."""
    daemon.script("Event_OnReady=error:13:no callbacks today")
    _, call = client.start_upload("f32", [1 << 18], BIG)
    is_error(client.failure_of(call), 13, "no callbacks today")
    small = client.upload("f32", [4], ONES)
    assert client.download(small) == ONES
    daemon.script()
    assert client.download(client.upload("f32", [1 << 18], BIG)) == BIG


# -- codes and messages ----------------------------------------------------------


@pytest.mark.parametrize("code", range(1, 17))
@pytest.mark.parametrize("function", ["Client_Compile", "LoadedExecutable_Execute"])
def test_every_code_is_passed_on(client: RawClient, code: int, function: str) -> None:
    """UNKNOWN of a compile is a program that does not parse: INVALID_ARGUMENT."""
    made, call = client.start_compile(program(script=f"{function}=error:{code}:why"))
    if function != "Client_Compile":
        client.answer(call)
        _, call = client.start_execute(made, arguments(client))
    is_error(client.failure_of(call), INVALID_ARGUMENT if (code, function) == (UNKNOWN, "Client_Compile") else code, "why")


@pytest.mark.parametrize("code", [0, 17, 99, 65536, 2**31 - 1, -1, -(2**31)])
def test_codes_that_do_not_exist_are_unknown(client: RawClient, code: int) -> None:
    made = client.compile(program(script=f"LoadedExecutable_Execute=error:{code}:why"))
    _, call = client.start_execute(made, arguments(client))
    is_error(client.failure_of(call), UNKNOWN, "why")


def test_an_error_whose_code_cannot_be_had(client: RawClient, daemon: FakeDaemon) -> None:
    made = client.compile(program(script="LoadedExecutable_Execute=error:8:why"))
    given = arguments(client)
    daemon.script("Error_GetCode@1=error:13:no code today")
    _, call = client.start_execute(made, given)
    is_error(client.failure_of(call), UNKNOWN, "why")


@pytest.mark.parametrize("script,right", [
    ("error_mute:13", "the plugin gave no message"),
    ("error:13:", ""),
    ("error:13:two%0Alines and%09a tab", "two\nlines and\ta tab"),
    ("error:13:caf%C3%A9", "caf\u00e9"),
    ("error:13:bad %FF byte", "bad ? byte"),
    ("error:13:cut %E2%82", "cut ??"),
    ("error:13:high %ED%A0%80 half", "high ??? half"),
    ("error:13:long %C0%AF form", "long ?? form"),
    ("error:13:before%00behind", "before?behind"),
    ("error:13:%25s%25n%25d {} %3B", "%s%n%d {} ;"),
], ids=["none", "empty", "lines", "utf-8", "bad byte", "cut", "surrogate", "overlong", "nul", "formats"])
@pytest.mark.parametrize("function", ["Client_Compile", "LoadedExecutable_Execute"])
def test_messages_of_every_kind_arrive(client: RawClient, function: str, script: str, right: str) -> None:
    """A byte that is no UTF-8, which no client could decode, becomes a "?"; all else arrives as it is."""
    made, call = client.start_compile(program(script=f"{function}={script}"))
    if function != "Client_Compile":
        client.answer(call)
        _, call = client.start_execute(made, arguments(client))
    failed = client.failure_of(call)
    assert failed.code == 13
    assert failed.message == right
    again = client.failure("Program.Describe", program=made) if function == "Client_Compile" else failed
    assert again.message == right


@pytest.mark.parametrize("size", [1000, 65_536, 950 << 10, 1_000_000, 1 << 20, 3_000_000])
def test_a_huge_message_arrives_as_far_as_it_fits(client: RawClient, size: int) -> None:
    """Whole up to nearly a frame's payload, 1 MiB; beyond that its beginning, and that it was cut."""
    _, call = client.start_compile(program(script=f"Client_Compile=error_big:13:{size}"))
    failed = client.failure_of(call)
    assert failed.code == 13
    if size <= 950 << 10:
        assert failed.message == "x" * size
    else:
        assert failed.message == "x" * (950 << 10) + f"... ({size} bytes)"
    adds(client)


def test_failures_reach_only_their_own_client(daemon: FakeDaemon, client: RawClient) -> None:
    other = Bystander(daemon).run_in_background()
    try:
        bad = client.compile(program(script="LoadedExecutable_Execute=error:13:boom"))
        given = arguments(client)
        for _ in range(200):
            _, call = client.start_execute(bad, given)
            is_error(client.failure_of(call), 13, "boom")
        other.finish()
    finally:
        other.close()
