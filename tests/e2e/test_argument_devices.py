"""Arguments on the wrong device, devices that do not exist, and buffers of other sessions."""

from __future__ import annotations

import pytest

from bystander import Bystander
from case_programs import case
from raw_frames import INVALID_ARGUMENT, NOT_FOUND, RawClient
from test_slots import floats

RUN_OVER = ["unix", "channel"]
pytestmark = pytest.mark.usefixtures("balanced", "bystander")


def test_an_argument_on_another_device_is_named_with_both(client: RawClient) -> None:
    program = client.compile(case("add").text)
    here, there = (client.upload("f32", [4], floats(1, 2, 3, 4), device=device) for device in (0, 1))
    failed = client.failure_of(client.start_execute(program, [here, there])[1])
    assert failed.code == INVALID_ARGUMENT
    assert failed.message == "program 'main': argument 1 must be on device 0, not on device 1"
    assert (failed.detail.argument.index, failed.detail.argument.expected, failed.detail.argument.actual) == (1, "on device 0", "on device 1")
    assert client.download(client.execute(program, [here, here])[0]) == floats(2, 4, 6, 8)
    elsewhere = client.compile(case("add").text, options=dict(device_assignment=[3]))
    failed = client.failure_of(client.start_execute(elsewhere, [there, here])[1])
    assert failed.message == "program 'main': argument 0 must be on device 3, not on device 1"
    assert client.download(there) == floats(1, 2, 3, 4)


@pytest.mark.parametrize("device", [4, 7, -1, -2**31])
def test_a_device_that_does_not_exist_is_named(client: RawClient, device: int) -> None:
    buffer, call = client.start_upload("f32", [4], floats(1, 2, 3, 4), device=device)
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, NOT_FOUND) and f"device {device}" in failed.message, failed
    assert client.failure("Buffer.Download", buffer=buffer).code == failed.code


def test_a_buffer_of_another_session_looks_like_one_that_never_was(client: RawClient, bystander: Bystander) -> None:
    """In each place that takes a buffer."""
    program = client.compile(case("add").text)
    own = client.upload("f32", [4], floats(1, 2, 3, 4))
    client._last_id["buffer"] = bystander.client._last_id["buffer"] + 1000
    foreign = bystander.client.upload("f32", [4], floats(1, 2, 3, 4), buffer=client._last_id["buffer"] - 1)
    bystander.client._last_id["buffer"] = foreign
    never = foreign + 500
    client._last_id["buffer"] += 1000

    def use(buffer: int) -> list[tuple[int, str]]:
        calls = [client.start_execute(program, [own, buffer])[1], client.start_execute(program, [buffer, own])[1],
                 *(client.start(method, buffer=buffer) for method in ("Buffer.Download", "Buffer.Stat")),
                 client.start("Buffer.Delete", buffers=[buffer]),
                 client.start("Session.Bind", bindings=[dict(slot="x", buffer=buffer)])]
        return [(failed.code, failed.message.replace(str(buffer), "N")) for failed in map(client.failure_of, calls)]

    theirs = use(foreign)
    assert theirs == use(never)
    assert {code for code, _ in theirs} == {NOT_FOUND}
    assert bystander.client.download(foreign) == floats(1, 2, 3, 4)
    bystander.client.call("Buffer.Delete", buffers=[foreign])
