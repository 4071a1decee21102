"""Whole interpreters: forks, exits, imports, start-up."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import PATIENCE, ROOT, LiveDaemon, run_python
from fake_daemon import FakeDaemon

import pjrtd
from pjrtd import errors


def in_child(work) -> int:  # noqa: ANN001
    """Runs `work` in a forked child; its exit status."""
    child = os.fork()
    if not child:
        import signal

        signal.alarm(20)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_gets_a_clear_error_and_leaves_the_parent_alone(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[]->f32[]")
    buffer = fake_client.buffer_from_host(4.0)

    def work() -> None:
        for use in (buffer.to_host, lambda: exe(buffer), fake_client.sync, lambda: fake_client.buffer_from_host(1.0)):
            with pytest.raises(errors.FailedPrecondition, match="forked child") as caught:
                use()
            assert "Client.create()" in caught.value.hint
        assert fake_client.closed and buffer.is_deleted
        buffer.close()
        exe.close()
        fake_client.close()
        with pjrtd.Client.create(fake.target) as own, own.buffer_from_host(5.0) as mine:
            assert mine.item() == 5.0

    assert in_child(work) == 0
    assert buffer.item() == 4.0
    assert fake_client.stats()["buffers"] == 1
    buffer.close()
    exe.close()


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_while_another_thread_uses_the_client(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    import threading

    stop = threading.Event()
    failures: list[BaseException] = []

    def busy() -> None:
        try:
            while not stop.is_set():
                fake_client.sync()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=busy)
    thread.start()

    def work() -> None:
        with pytest.raises(errors.FailedPrecondition, match="forked child"):
            fake_client.sync()

    for _ in range(10):
        assert in_child(work) == 0
    stop.set()
    thread.join(10)
    assert not thread.is_alive() and failures == []


FORK_IN_AN_IMPORT = """
import os, signal, sys, threading, time
import pjrtd
client = pjrtd.Client.create(sys.argv[1])

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "pjrtd.element":
            importing.set()
            time.sleep(1)

importing = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: client.buffer_from_host([1.0]).close())
thread.start()
importing.wait()
child = os.fork()
if not child:
    signal.alarm(10)
    own = pjrtd.Client.create(sys.argv[1])
    ok = own.buffer_from_host([2.0]).tolist() == [2.0]
    os._exit(0 if ok else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
"""


def test_a_fork_in_the_middle_of_an_import_by_another_thread(fake: FakeDaemon) -> None:
    run = run_python(FORK_IN_AN_IMPORT, fake.target)
    assert run.returncode == 0, run.stderr


def test_nothing_is_left_to_import_in_a_forked_child() -> None:
    from pjrtd import connection

    code = """
import os, sys, pjrtd
from pjrtd import connection
connection._before_fork()
print(*(name for name in sys.modules if name.startswith("pjrtd.")))
"""
    loaded = set(run_python(code).stdout.split())
    root = ROOT / "src" / "pjrtd"
    every = {".".join(("pjrtd", *path.relative_to(root).with_suffix("").parts)) for path in root.rglob("*.py")}
    never_on_demand = {"pjrtd.typing", "pjrtd._proto.execute"}
    never_on_demand |= {"pjrtd.grpcs_transport"}  # only where a grpcs:// target was used: see below
    assert {name for name in every if not name.endswith("__init__")} - loaded <= never_on_demand
    assert connection._ON_DEMAND  # pyright: ignore[reportPrivateUsage]


EXIT = """
import sys, pjrtd
client = pjrtd.Client.create(sys.argv[1])
exe = client.compile("f32[]->f32[]")
buffer = client.buffer_from_host(1.0)
cycle = [buffer]; cycle.append(cycle)
(out,) = exe(buffer)
print(out.item())
"""


def test_an_interpreter_may_exit_with_everything_open(fake: FakeDaemon) -> None:
    run = run_python(EXIT, fake.target)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1.0\n", "")
    run = run_python(EXIT + "sys.exit(3)", fake.target)
    assert (run.returncode, run.stderr) == (3, "")


def test_threads_may_be_left_behind_at_exit(fake: FakeDaemon) -> None:
    from pjrtd._proto import methods

    fake.hooks[methods.ADMIN_STATS] = lambda peer, frame: True
    code = EXIT + "import threading, time\nthreading.Thread(target=client.stats, daemon=True).start(); time.sleep(0.2)"
    run = run_python(code, fake.target)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1.0\n", "")


def test_leaks_are_shown_in_development_mode(fake: FakeDaemon) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-c", EXIT, fake.target],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
    )
    assert run.returncode == 0 and "ResourceWarning" in run.stderr and "was never closed" in run.stderr


def test_what_an_import_brings_in() -> None:
    code = """
import sys
before = set(sys.modules)
import pjrtd
print(*sorted(set(sys.modules) - before))
"""
    loaded = set(run_python(code).stdout.split())
    for heavy in ("numpy", "ml_dtypes", "jax", "typing", "enum", "dataclasses", "socket", "threading", "re", "ctypes"):
        assert heavy not in loaded


def test_numpy_stays_out_unless_it_is_asked_for(fake: FakeDaemon) -> None:
    code = """
import sys, array, pjrtd
with pjrtd.Client.create(sys.argv[1]) as client:
    exe = client.compile("f32[2]->f32[2]")
    with client.buffer_from_host(array.array("f", [1, 2])) as buffer:
        (out,) = exe(buffer)
        assert out.tolist() == [1.0, 2.0] and out.to_host() == bytes(array.array("f", [1, 2]))
        exe([1, 2])[0].close()
        repr(out), out.element_type, out.dtype, str(out.dtype)
        out.close()
    client.buffer_from_host([1.0], "bf16").close()
assert "numpy" not in sys.modules
"""
    run = run_python(code, fake.target)
    assert run.returncode == 0, run.stderr


def test_no_source_file_imports_what_is_not_in_the_standard_library() -> None:
    import ast

    allowed = set(sys.stdlib_module_names) | {"ml_dtypes"}  # the latter inside a function, on demand
    for path in (ROOT / "src" / "pjrtd").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name is not None and name.partition(".")[0] in allowed, f"{path.name} imports {name}"


IMPORT = """
import time
started = time.process_time()
import pjrtd
print(time.process_time() - started)
"""


def test_the_import_is_quick() -> None:
    """In processor time, because the machine may be busy: under 15 ms, the best of some tries."""
    run_python(IMPORT, PYTHONDONTWRITEBYTECODE="")  # compiles
    best = min(float(run_python(IMPORT, PYTHONDONTWRITEBYTECODE="").stdout) for _ in range(10))
    assert best < 0.015, f"{best * 1e3:.1f} ms"


START = """
import array, sys
import pjrtd
client = pjrtd.Client.create(sys.argv[1])
exe = client.compile(sys.argv[2])
(out,) = exe(array.array("f", [1, 2, 3, 4]))
assert out.tolist() == [2.0, 4.0, 6.0, 8.0]
client.close()
"""

DOUBLE = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.live
def test_a_whole_program_takes_little_processor_time(daemon: LiveDaemon) -> None:
    """Interpreter start, import, connect, compile, first result, end: under 80 ms, the best of some tries. How long it
    takes on the clock is for the benchmark to say, on a machine at rest."""
    import resource

    best = 1e9
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = run_python(START, daemon.target, DOUBLE, PYTHONDONTWRITEBYTECODE="")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run.returncode == 0, run.stderr
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert best < 0.080, f"{best * 1e3:.0f} ms"
