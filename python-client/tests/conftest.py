"""Fixtures: a scripted peer for tests without a daemon, and a real daemon on a real plugin for those marked `live`.

The daemon is PJRTD_BINARY, by default the release build; the plugin is PJRTD_TEST_PLUGIN, by default that of the
lammps-jax-pjrt-cpu package. Where one of them is missing, live tests fail: they are not skipped.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_daemon import FakeDaemon
from grpc_gateway import Gateway

import pjrtd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT.parent / "tests" / "support"))

from tls_terminator import Certificates, TlsTerminator  # noqa: E402

TRANSPORTS = ("unix", "grpc")
PATIENCE = float(os.environ.get("PJRTD_TEST_PATIENCE", "1"))  # more where the daemon is slow, under a sanitizer


#: For what is of the local socket alone.
over_unix = pytest.mark.parametrize("fake", ["unix"], indirect=True)
#: For what TLS may do differently: it is gRPC's transport but for the bytes.
over_all = pytest.mark.parametrize("fake", [*TRANSPORTS, "grpcs"], indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """What would be skipped has not been shown to work."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is not allowed here: {report.longrepr}"


@pytest.fixture(scope="session")
def certificates() -> Iterator[Certificates]:
    with Certificates() as made:
        yield made


@pytest.fixture(params=TRANSPORTS)
def fake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    """A scripted peer, over each transport in turn. After the test it must not have seen anything wrong."""
    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:  # tmp_path may be too long for a socket
        daemon = FakeDaemon(Path(folder))
        gateway = terminator = None
        if request.param != "unix":
            gateway = Gateway(daemon.path)
            daemon.target = gateway.target
        if request.param == "grpcs":
            certificates = request.getfixturevalue("certificates")
            terminator = TlsTerminator(daemon.target, certificates.certificate())
            daemon.target = terminator.target
            monkeypatch.setenv("PJRTD_CA_FILE", certificates.ca_file)
        yield daemon
        daemon.stop()
        assert [error for peer in daemon.peers for error in peer.errors] == []
        if gateway is not None:
            gateway.stop()
            assert gateway.errors == []
        if terminator is not None:
            terminator.close()
            assert terminator.failures == []


@pytest.fixture
def fake_client(fake: FakeDaemon) -> Iterator[pjrtd.Client]:
    with pjrtd.Client.create(fake.target, busy_poll_us=0) as client:
        yield client


def plugin_path() -> str:
    path = os.environ.get("PJRTD_TEST_PLUGIN")
    if path:
        return path
    try:
        import lammps_jax_pjrt_cpu
    except ImportError:
        pytest.fail("no plugin to test with: set PJRTD_TEST_PLUGIN, or pip install lammps-jax-pjrt-cpu")
    return str(lammps_jax_pjrt_cpu.PLUGIN_PATH)


class LiveDaemon:
    """A pjrtd process on the test plugin, with two devices. `targets`: by transport."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        binary = os.environ.get("PJRTD_BINARY", str(ROOT.parent / "build" / "release" / "bin" / "pjrtd"))
        if not os.path.exists(binary):
            pytest.fail(f"no daemon at {binary}: build it, or set PJRTD_BINARY")
        self.target = f"unix:{folder}/pjrtd.sock"
        self.log = folder / "log"
        command = [binary, "--plugin", plugin_path(), "--listen", self.target, "--listen", "grpc://127.0.0.1:0"]
        command += ["--state-dir", str(folder / "state"), "--cache-dir", str(folder / "cache")]
        command += ["--option", "cpu_device_count=2", *arguments]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 60 * PATIENCE)
        line = self.process.stdout.readline().decode() if ready else ""
        told = re.fullmatch(f"pjrtd ready {re.escape(self.target)} (grpc://127.0.0.1:[0-9]+)\n", line)
        if told is None:
            self.process.kill()
            pytest.fail(f"the daemon said {line!r} instead of being ready; its log:\n{self.log.read_text()}")
        self.targets = {"unix": self.target, "grpc": told[1]}

    def stop(self) -> None:
        assert self.process.poll() is None, f"the daemon ended by itself; its log:\n{self.log.read_text()}"
        self.process.terminate()
        try:
            status = self.process.wait(30 * PATIENCE)
        finally:
            self.process.kill()
        assert status == 0, f"the daemon ended with {status}; its log:\n{self.log.read_text()}"


@pytest.fixture(scope="session")
def daemon() -> Iterator[LiveDaemon]:
    """The session's daemon. At the end it must be alive and stop with 0."""
    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:
        running = LiveDaemon(Path(folder))
        yield running
        running.stop()


@pytest.fixture(params=TRANSPORTS)
def live_target(daemon: LiveDaemon, request: pytest.FixtureRequest) -> str:
    """The live daemon's target, over each transport in turn."""
    return daemon.targets[request.param]


@pytest.fixture
def client(daemon: LiveDaemon, live_target: str) -> Iterator[pjrtd.Client]:
    """A client of the live daemon, which has to be alive afterwards."""
    with pjrtd.Client.create(live_target) as connected:
        yield connected
    assert daemon.process.poll() is None, f"the daemon is gone; its log:\n{daemon.log.read_text()}"


def run_python(code: str, *arguments: str, timeout_s: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter that finds the package."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s * PATIENCE,
        check=False,
    )
