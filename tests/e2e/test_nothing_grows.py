"""Many short lives: programs compiled, run and released; buffers uploaded, used and freed; sessions opened and left. Memory,
descriptors and threads stay what they are. The counts are small in an ordinary run, whole as a soak."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from case_programs import case
from daemon import Daemon
from raw_frames import RawClient
from test_fake_plugin_events import wait_until

RUN_OVER = ["unix", "channel"]

MIB = 1 << 20


def compiles(daemon: Daemon, first: int, count: int) -> None:
    """Each another program, run and released."""
    with daemon.connect() as client:
        argument = client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4))
        for number in range(first, first + count):
            program = client.compile(f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
              %c = stablehlo.constant dense<{number}.0> : tensor<4xf32>
              %0 = stablehlo.add %a, %c : tensor<4xf32>
              return %0 : tensor<4xf32> }}""")
            (result,) = client.execute(program, [argument])
            assert struct.unpack("<4f", client.download(result)) == tuple(number + i for i in (1, 2, 3, 4))
            client.call("Program.Release", programs=[program])
            client.call("Buffer.Delete", buffers=[result])


def uploads(daemon: Daemon, first: int, count: int) -> None:
    """A mebibyte each, as the argument of a program."""
    items = MIB // 4
    with daemon.connect() as client:
        program = client.compile(f"""func.func @main(%a: tensor<{items}xf32>) -> tensor<{items}xf32> {{
          %0 = stablehlo.add %a, %a : tensor<{items}xf32>
          return %0 : tensor<{items}xf32> }}""")
        for number in range(first, first + count):
            buffer = client.upload("f32", [items], struct.pack("<f", number) * items)
            (result,) = client.execute(program, [buffer])
            if number % 50 == 0:
                assert client.download(result) == struct.pack("<f", 2 * number) * items
            client.call("Buffer.Delete", buffers=[buffer, result])


def sessions(daemon: Daemon, first: int, count: int) -> None:
    """Every third with a name or a token that is not kept, and none is closed; all have a buffer, a program and a slot."""
    for number in range(first, first + count):
        client = daemon.connect()
        if number % 3 == 0:
            client.call("Session.Open", ttl_ns=10**8)
        use(client)
        client.close()


def use(client: RawClient) -> None:
    program = client.compile(case("add").text)
    a, b = (client.upload(arg.dtype, arg.dims, arg.data) for arg in case("add").args)
    client.call("Session.Bind", bindings=[dict(slot="a", buffer=a)])
    assert client.download(client.execute(program, [a, b])[0]) == case("add").outputs[0].data


def stays_as_it_is(over: str, work: Callable[[Daemon, int, int], None], warm_up: int, count: int, most_bytes: int) -> None:
    with Daemon(over=over, settings={"log_level": "warning"}) as daemon:
        work(daemon, 1, warm_up)
        before = daemon.settled()
        resident, descriptors, threads = daemon.resident_bytes(), daemon.descriptors(), daemon.steady_threads()
        work(daemon, 1 + warm_up, count)
        daemon.expect_balance(before)
        wait_until(lambda: daemon.descriptors() <= descriptors)
        assert daemon.steady_threads() <= threads
        grown = daemon.resident_bytes() - resident
        print(f"{work.__name__} over {over}: {count} of them, {grown / 1024:.0f} KiB more")
        assert grown < most_bytes, f"resident memory grew by {grown / MIB:.1f} MiB"


@pytest.mark.parametrize("work,warm_up,count", [(compiles, 40, 60), (uploads, 100, 200), (sessions, 10, 40)],
                         ids=["compiles", "uploads", "sessions"])
def test_some(over: str, work: Callable[[Daemon, int, int], None], warm_up: int, count: int) -> None:
    stays_as_it_is(over, work, warm_up, count, 16 * MIB)


@pytest.mark.soak
@pytest.mark.parametrize("work,warm_up,count", [(compiles, 100, 500), (uploads, 200, 2000), (sessions, 100, 1000)],
                         ids=["compiles", "uploads", "sessions"])
def test_many(over: str, work: Callable[[Daemon, int, int], None], warm_up: int, count: int) -> None:
    stays_as_it_is(over, work, warm_up, count, 16 * MIB)
