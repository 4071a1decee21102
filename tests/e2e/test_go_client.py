"""A client in Go, of stubs that are generated from the .proto files and built here."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from daemon import PATIENCE, Daemon
from go_command import BUILD_FOLDER, build, go_environment

pytestmark = pytest.mark.go

SOURCES = pathlib.Path(__file__).resolve().parent / "go_client"
DAEMON_SETTINGS = {"session_lease_seconds": 2}  # see conftest.py


@pytest.fixture(scope="module")
def go_client() -> str:
    folder = BUILD_FOLDER / "client"
    build([str(SOURCES / "build.sh"), str(folder)], go_environment())
    return str(folder / "go_client")


def test_go_client(daemon: Daemon, balanced: None, go_client: str) -> None:
    done = subprocess.run([go_client, daemon.grpc_target.removeprefix("grpc://")], capture_output=True, text=True,
                          check=False, timeout=120 * PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("pjrtd ") and lines[0].endswith(" on cpu")
    assert lines[1:3] == ["added 4 values", "added 1310720 values"]
    assert lines[3].startswith("refused: InvalidArgument: program ") and "must be f32[4], not f32[1310720]" in lines[3]
    assert lines[3].endswith("(argument 1: expected f32[4], actual f32[1310720])")
    assert lines[4:6] == ["closed: 7 buffers, 2 programs", "after it: NotFound"]  # with the poisoned output
    assert lines[6].startswith("pipelined 6 calls; call 6: code 5, ") and "77" in lines[6]
    assert len(lines) == 7


def test_go_client_without_a_daemon(go_client: str) -> None:
    """It is a test of the test: it fails where nothing serves."""
    done = subprocess.run([go_client, "127.0.0.1:1"], capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
    assert done.returncode == 1 and "Unavailable" in done.stderr and not done.stdout
