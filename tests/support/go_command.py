"""The go command, for tests that are marked `go`: tests/run leaves those out, and says so, where there is none."""

from __future__ import annotations

import functools
import pathlib
import shutil
import subprocess

from daemon import clean_environment
from wire_messages import REPOSITORY

BUILD_SECONDS = 900
# Where Go's own archives put it.
USUAL_FOLDER = "/usr/local/go/bin"
BUILD_FOLDER = REPOSITORY / "build" / "go"


def go_environment() -> dict[str, str]:
    """With go on the path, and never another version than that."""
    environment = clean_environment({"GOTOOLCHAIN": "local"})
    if not shutil.which("go", path=environment["PATH"]):
        environment["PATH"] += f":{USUAL_FOLDER}"
    assert shutil.which("go", path=environment["PATH"]), "there is no go command: leave these tests out with -m 'not go'"
    return environment


def build(command: list[str], environment: dict[str, str]) -> None:
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    assert built.returncode == 0, f"{command}:\n{built.stdout}{built.stderr}"


@functools.cache
def build_tool(package: str) -> pathlib.Path:
    """The program of a package that is named with its version."""
    folder = BUILD_FOLDER / "tools"
    build(["go", "install", package], go_environment() | {"GOBIN": str(folder)})
    return folder / package.partition("@")[0].rpartition("/")[2]
