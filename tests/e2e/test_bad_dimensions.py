"""Dimensions and sizes that do not fit: refused by the daemon itself, since the plugin is told no length and would read
past the message."""

from __future__ import annotations

import struct

import pytest

from bystander import Bystander
from raw_frames import INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, RawClient

pytestmark = pytest.mark.usefixtures("balanced", "bystander")


@pytest.mark.parametrize("dims", [
    [-1, 4], [-2, -2], [4, -1], [-1], [-(2**63)], [2**62, 4], [2**40], [2**63 - 1], [2**32, 2**32], [2**31, 2**31, 4],
    [2**62, 2**62, 2**62, 2**62], [0, -1], [-1, 0], [2**63 - 1, 2**63 - 1], [2**32, 2**32, 2**32, 16],
    [1] * 65, [1] * 1000, [2**33, 2**31],
])
@pytest.mark.parametrize("dtype", ["f32", "s8", "c128"])
def test_impossible_dimensions_with_64_bytes(client: RawClient, dims: list[int], dtype: str) -> None:
    buffer, call = client.start_upload(dtype, dims, bytes(64))
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED), failed
    if failed.code == RESOURCE_EXHAUSTED:
        assert dims == [2**40]
    assert failed.message
    assert client.download(client.upload("f32", [1], b"abcd")) == b"abcd"
    again = client.failure("Buffer.Download", buffer=buffer)
    assert again.code == failed.code and again.message == failed.message


@pytest.mark.parametrize("dims,dtype,sizes", [
    ([4], "f32", [15, 17, 0, 1, 16 * 1024, 64 * 1024]),
    ([], "f64", [0, 7, 9, 16]),
    ([0], "f32", [1, 4]),
    ([2, 0, 3], "f32", [24, 1]),
    ([3], "c128", [47, 49]),
    ([64 * 1024], "u8", [64 * 1024 - 1]),
])
def test_data_bytes_that_differ_from_the_type(client: RawClient, dims: list[int], dtype: str, sizes: list[int]) -> None:
    for size in sizes:
        _, call = client.start_upload(dtype, dims, bytes(size))
        failed = client.failure_of(call)
        assert failed.code == INVALID_ARGUMENT, (size, failed)
        assert str(size) in failed.message, failed.message


@pytest.mark.parametrize("announced,inline", [(16, 15), (16, 17), (16, 4), (0, 16), (32, 16), (2**63, 16), (2**64 - 1, 16)])
def test_inline_bulk_that_differs_from_data_bytes(client: RawClient, announced: int, inline: int) -> None:
    call = client.start("Buffer.Upload", bytes(inline), buffer=client.new_buffer(), data_bytes=announced,
                        type=dict(dtype=11, dims=[4]))
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT
    assert client.download(client.upload("f32", [1], b"abcd")) == b"abcd"


def test_zero_data_bytes_with_dims_that_need_data(client: RawClient) -> None:
    call = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=0, type=dict(dtype=11, dims=[4]))
    assert client.failure_of(call).code == INVALID_ARGUMENT


def test_no_type_at_all(client: RawClient) -> None:
    call = client.start("Buffer.Upload", bytes(4), buffer=client.new_buffer(), data_bytes=4)
    assert client.failure_of(call).code == INVALID_ARGUMENT


def test_rank_64_is_the_most_that_goes(client: RawClient) -> None:
    """Whether the plugin takes 64 dimensions is its business: an answer comes, and rank 65 is refused by pjrtd."""
    buffer, call = client.start_upload("f32", [1] * 8, b"abcd")
    client.reply(call, "Buffer.Upload")
    assert client.download(buffer) == b"abcd"
    buffer, call = client.start_upload("f32", [1] * 64, b"abcd")
    client.reply(call, "Buffer.Upload")
    assert client.download(buffer) == b"abcd"
    _, call = client.start_upload("f32", [1] * 65, b"abcd")
    assert "64" in client.failure_of(call).message


def test_a_huge_dimension_beside_a_zero_is_an_empty_tensor(client: RawClient) -> None:
    for dims in ([0, 2**40], [2**40, 0], [2**20, 0, 2**20]):
        buffer = client.upload("f32", dims, b"")
        assert client.download(buffer) == b""
        assert list(client.call("Buffer.Stat", buffer=buffer).type.dims) == dims


@pytest.mark.parametrize("size", [2**40, 2**45])
def test_an_upload_beyond_memory_fails_before_any_data(client: RawClient, size: int) -> None:
    call = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=size, type=dict(dtype=6, dims=[size]))
    failed = client.failure_of(call)
    assert failed.code in (RESOURCE_EXHAUSTED, INVALID_ARGUMENT)


@pytest.mark.parametrize("placement", [dict(device=7), dict(device=-1), dict(device=2**31 - 1), dict(memory=99), dict(memory=-5)])
def test_places_that_do_not_exist(client: RawClient, placement: dict[str, int]) -> None:
    _, call = client.start_upload("f32", [1], b"abcd", **placement)
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, NOT_FOUND)
    assert str(next(iter(placement.values()))) in failed.message


def test_every_device_and_memory_takes_an_upload(client: RawClient, bystander: Bystander) -> None:
    devices = client.call("Runtime.Devices").devices
    assert len(devices) == 4
    for device in devices:
        buffer = client.upload("f32", [2], struct.pack("<2f", device.id, 1), device=device.id)
        stat = client.call("Buffer.Stat", buffer=buffer)
        assert stat.device == device.id
        assert struct.unpack("<2f", client.download(buffer)) == (device.id, 1)
        for memory in device.memories:
            placed = client.upload("f32", [1], b"abcd", memory=memory)
            assert client.call("Buffer.Stat", buffer=placed).device == device.id
            assert client.download(placed) == b"abcd"
