"""Fixtures of the end-to-end tests. A skipped test here is a failure: see pytest_runtest_makereport."""

from __future__ import annotations

import pathlib
import resource
import sys
from collections.abc import Iterator

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))
sys.path.insert(0, str(TESTS.parent / "python-client" / "src"))

from bystander import Bystander  # noqa: E402
from daemon import Daemon  # noqa: E402
from plugins import OLD, plugin_path  # noqa: E402
from raw_frames import RawClient  # noqa: E402


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """These tests are a required tier: what would be skipped has not been shown to work."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which this tier does not allow: {report.longrepr}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "plugin" in metafunc.fixturenames and metafunc.definition.get_closest_marker("every_plugin"):
        metafunc.parametrize("plugin", ["default", *OLD], indirect=True, scope="module")
    # A module that names what to RUN_OVER has each of its tests run over each of them; @pytest.mark.over("unix") is for a
    # test that can be said in one only.
    transports = getattr(metafunc.module, "RUN_OVER", None)
    if transports:
        only = metafunc.definition.get_closest_marker("over")
        metafunc.parametrize("over", only.args if only else transports, indirect=True)


@pytest.fixture(scope="module")
def plugin(request: pytest.FixtureRequest) -> pathlib.Path:
    """The module's plugin: the default one, or each generation in turn where the test is marked every_plugin."""
    return plugin_path(getattr(request, "param", "default"))


@pytest.fixture(autouse=True)
def over(request: pytest.FixtureRequest) -> str:
    """What the test's clients speak to the daemon over: see Daemon.connect."""
    chosen = getattr(request, "param", "unix")
    if "daemon" in request.fixturenames:
        request.getfixturevalue("daemon").over = chosen
    return chosen


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest, plugin: pathlib.Path) -> Iterator[Daemon]:
    """The module's daemon, with the module's DAEMON_SETTINGS. When the module ends it has to be alive, stop with 0, and have a
    clean log."""
    over, settings = getattr(request.module, "RUN_OVER", ["unix"])[-1], getattr(request.module, "DAEMON_SETTINGS", {})
    with Daemon(plugin=plugin, grpc=True, over=over, settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def many_descriptors() -> Iterator[None]:
    """1000 sockets of our own, for a module that says so: pytestmark = pytest.mark.usefixtures("many_descriptors")."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(params=["unix", "grpc"])
def target(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """The module's daemon for the Python client, over each transport in turn."""
    return daemon.target if request.param == "unix" else daemon.grpc_target


@pytest.fixture(scope="module")
def minor(daemon: Daemon) -> int:
    """The minor version of PJRT that the module's plugin speaks."""
    with daemon.connect() as client:
        return int(client.call("Runtime.Info").pjrt_minor)


@pytest.fixture(autouse=True)
def daemon_survives(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test that uses the module's daemon it is alive and serves."""
    yield
    if "daemon" in request.fixturenames:
        running = request.getfixturevalue("daemon")
        try:
            running.check_alive()
            running.stats()
        except BaseException:
            running.restart()  # so that one crash is one failure
            raise


@pytest.fixture
def client(daemon: Daemon, over: str) -> Iterator[RawClient]:
    """A raw connection that has said hello."""
    with daemon.connect(over) as connected:
        yield connected


@pytest.fixture
def bystander(daemon: Daemon) -> Iterator[Bystander]:
    """Another session; after the test its values still have to be right."""
    other = Bystander(daemon)
    try:
        other.check()
        yield other
        other.check()
    finally:
        other.close()  # else what one test did wrong would fail all that come after it


@pytest.fixture
def balanced(daemon: Daemon) -> Iterator[None]:
    """After the test, connections, sessions, buffers, programs and host memory are what they were before it. Ask for it
    before `client` and `bystander`, so that those are gone by then."""
    before = daemon.settled()
    yield
    daemon.expect_balance(before)
