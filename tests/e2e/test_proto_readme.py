"""The examples of proto/README.md run as they stand there, and print what it says."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from daemon import PATIENCE, Daemon, clean_environment
from go_command import build_tool
from wire_messages import REPOSITORY

README = (REPOSITORY / "proto" / "README.md").read_text()
README_ADDRESS = "127.0.0.1:7578"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"


def section(title: str) -> str:
    """What stands under a heading of the third level."""
    found = re.search(rf"^### {title}\n(.*?)(?=^##)", README, re.S | re.M)
    assert found, title
    return found[1]


def indented(text: str) -> list[str]:
    return [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]


def test_python_stubs(daemon: Daemon, balanced: None, tmp_path: pathlib.Path) -> None:
    text = section("Python")
    before_code, code = text.split("```python\n")[0], re.findall(r"```python\n(.*?)```", text, re.S)[0]
    install, *commands = indented(before_code)
    assert install == "pip install grpcio grpcio-tools" and len(commands) == 2
    (tmp_path / "proto").symlink_to(REPOSITORY / "proto")
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=tmp_path, check=True, env=clean_environment({"PATH": path}))
    environment = clean_environment({"PJRTD_TARGET": daemon.grpc_target})
    # This Python has the client, too: the README says what to do then.
    both = 'import pjrtd\npjrtd.__path__.append("stubs/pjrtd")\n'
    done = subprocess.run([sys.executable, "-c", both + code], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env=environment, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(promised) == 2 and done.stdout.splitlines() == promised


def transcript() -> list[tuple[str, list[str]]]:
    """Commands, each with the lines that it is said to print."""
    steps: list[tuple[str, list[str]]] = []
    command = ""
    for line in indented(section("grpcurl")):
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            steps.append(("", []))
        elif command:
            command += "\n" + line
        else:
            steps[-1][1].append(line)
        if command and is_whole(command):
            steps[-1] = (command, [])
            command = ""
    return steps


def is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\")


def pattern(lines: list[str]) -> str:
    """"..." is any text in a line; a line of it alone is any lines."""
    whole = "\n".join("ANYLINES" if line.strip() == "..." else line for line in lines)
    return re.escape(whole).replace("ANYLINES", "(?:.*\n)*.*").replace(re.escape("..."), "[^\n]*")


@pytest.mark.go
def test_grpcurl_transcript(daemon: Daemon, balanced: None) -> None:
    steps = transcript()
    assert len(steps) >= 10
    environment = clean_environment()
    environment["PATH"] = f"{build_tool(GRPCURL).parent}:{environment['PATH']}"
    address, token = daemon.grpc_target.removeprefix("grpc://"), "none yet"
    for command, expected in steps:
        real = command.replace(README_ADDRESS, address).replace("TOKEN", token)
        done = subprocess.run(["bash", "-c", real], cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=60 * PATIENCE)
        assert re.fullmatch(pattern(expected), done.stdout.rstrip("\n")), f"{command}\ngave\n{done.stdout}"
        opened = re.search(r'"token": "(\S+)"', done.stdout)
        token = opened[1] if opened else token
    assert token != "none yet"


def test_the_readme_names_only_files_that_exist() -> None:
    named = set(re.findall(r"`((?:[a-z0-9_.-]+/)+[A-Za-z0-9_.-]*)`", README))
    places = [REPOSITORY, REPOSITORY / "proto"]
    known = {"stubs/pjrtd", "pjrtd/v1"}  # what the examples make
    missing = [name for name in sorted(named - known) if not any((place / name).exists() for place in places)]
    assert named and not missing
