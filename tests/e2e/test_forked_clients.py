"""A Python client after fork(), with threads, and after Ctrl-C: never a hang, never somebody else's answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from case_programs import CASES_FOLDER
from conftest import TESTS
from daemon import PATIENCE, Daemon

PRELUDE = """
import os, pathlib, signal, sys, threading, time
sys.path[:0] = [{support!r}, {source!r}]
import pjrtd
target = {target!r}
ADD = pathlib.Path({add!r}).read_text()
client = pjrtd.Client.create(target)
program = client.compile(ADD)
def right(a=program, scale=1.0):
    x = [scale * v for v in (1.0, 2.0, 3.0, 4.0)]
    (out,) = a(x, x)
    return out.tolist() == [2 * v for v in x]
"""

PROGRAMS = {
    "child and parent": """
kept = client.buffer_from_host([1.0, 2.0, 3.0, 4.0], pjrtd.DType.F32, [4])
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        ok = right() and kept.tolist() == [1.0, 2.0, 3.0, 4.0]
    except pjrtd.errors.PjrtError as error:
        ok = "fork" in str(error).lower()
    os._exit(0 if ok else 1)
for _ in range(200):
    assert right()
_, status = os.waitpid(child, 0)
assert status == 0, status
assert kept.tolist() == [1.0, 2.0, 3.0, 4.0] and right()
client.close()
""",
    "a client of its own in the child": """
child = os.fork()
if child == 0:
    signal.alarm(20)
    mine = pjrtd.Client.create(target)
    ok = right(mine.compile(ADD))
    mine.close()
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
assert status == 0 and right()
client.close()
""",
    "objects left to the child's garbage collector": """
import gc
buffers = [client.buffer_from_host([float(i)], pjrtd.DType.F32, [1]) for i in range(20)]
child = os.fork()
if child == 0:
    signal.alarm(20)
    del buffers, program, client
    gc.collect()
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert [b.tolist() for b in buffers] == [[float(i)] for i in range(20)]
assert right()
client.close()
""",
    "multiprocessing": """
import multiprocessing
def work(scale):
    with pjrtd.Client.create(target) as mine:
        return right(mine.compile(ADD), scale)
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(work, [1.0, 2.0, 3.0, 4.0]) == [True] * 4
assert right()
client.close()
""",
    "fork while another thread calls": """
stop = threading.Event()
errors = []
def busy():
    try:
        while not stop.is_set():
            assert right()
    except BaseException as error:
        errors.append(error)
thread = threading.Thread(target=busy, daemon=True)
thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            ok = right()
        except pjrtd.errors.PjrtError as error:
            ok = "fork" in str(error).lower()
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
stop.set()
thread.join()
assert not errors, errors
assert right()
client.close()
""",
    "eight threads on one client": """
errors = []
def busy(scale):
    try:
        for _ in range(100):
            assert right(scale=scale)
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=busy, args=(float(i),)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not errors, errors
client.close()
""",
    "ctrl-c again and again during transfers": """
data = bytes(range(256)) * (1 << 15)
caught, armed = 0, False
def interrupt(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for step in range(30):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (step + 1))
        buffer = client.buffer_from_host(data, pjrtd.DType.U8, [len(data)])
        back = bytearray(len(data))
        buffer.to_host(back)
        armed = False
        assert bytes(back) == data
    except KeyboardInterrupt:
        caught += 1
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert right()
assert caught > 3, caught
client.close()
""",
}

CTRL_C_DURING_A_CALL = """
text = pathlib.Path({endless!r}).read_text()
loop = client.compile(text)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    loop(3)[0].block_until_ready()
    raise SystemExit("it returned")
except KeyboardInterrupt:
    pass
assert time.monotonic() - began < 5
assert right() and loop(-1)[0].item() == -1
client.close()
"""


def run(target: str, program: str) -> None:
    code = (PRELUDE + program).format(
        support=str(TESTS / "support"), source=str(TESTS.parent / "python-client" / "src"), target=target,
        add=str(CASES_FOLDER / "add.mlir"), endless=str(CASES_FOLDER / "endless_loop.mlir"),
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_a_process_of_its_own(daemon: Daemon, target: str, name: str) -> None:
    before = daemon.settled()
    run(target, PROGRAMS[name])
    daemon.expect_balance(before)


@pytest.mark.parametrize("over", ["unix", "grpc"])
def test_ctrl_c_during_a_call(over: str) -> None:
    """With a daemon of its own, in which a program is left that never ends."""
    with Daemon(grpc=True) as daemon:
        run(daemon.target if over == "unix" else daemon.grpc_target, CTRL_C_DURING_A_CALL)


@pytest.mark.parametrize("over", ["unix", "grpc"])
def test_a_daemon_that_ends_is_a_clear_error_in_python(over: str) -> None:
    import pjrtd

    with Daemon(grpc=True) as daemon:
        client = pjrtd.Client.create(daemon.target if over == "unix" else daemon.grpc_target)
        program = client.compile((CASES_FOLDER / "add.mlir").read_text())
        daemon.kill()
        with pytest.raises(pjrtd.errors.PjrtError):
            program([1.0] * 4, [1.0] * 4)[0].tolist()
        with pytest.raises(pjrtd.errors.PjrtError):
            client.buffer_from_host([1.0], pjrtd.DType.F32, [1]).tolist()
        client.close()


def test_the_daemons_plugin_threads_work() -> None:
    """A process that forks after it loaded the plugin hangs in the first matmul that needs the plugin's threads: the
    daemon has not done so, even when it was started in the background by a shell that is gone."""
    import numpy as np

    import pjrtd

    daemon = Daemon()
    daemon.command = ["/bin/sh", "-c", "\"$@\" & echo $! > pid; wait $!", "sh", *daemon.command]
    try:
        daemon.start()
        size = 600
        program = f"""func.func @main(%a: tensor<{size}x{size}xf32>) -> tensor<{size}x{size}xf32> {{
          %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<{size}x{size}xf32>, tensor<{size}x{size}xf32>) -> tensor<{size}x{size}xf32>
          return %0 : tensor<{size}x{size}xf32>
        }}"""
        with pjrtd.Client.create(daemon.target) as client:
            (product,) = client.compile(program)(np.ones((size, size), np.float32))
            assert (product.numpy() == size).all()
        os.kill(int((daemon.folder / "pid").read_text()), signal.SIGTERM)
        assert daemon.wait(20) == 0
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((daemon.folder / "pid").read_text()), signal.SIGKILL)
        daemon.discard()
