"""The examples of README.md run as they stand there, and print what it says."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from daemon import PATIENCE, Daemon, binary_path, clean_environment
from wire_messages import REPOSITORY


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", (REPOSITORY / "README.md").read_text(), re.S | re.M)
    assert len(found) == 1, f"{len(found)} examples in {language}"
    return found[0]


def run(command: list[str], target: str, **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * PATIENCE,
                          env=clean_environment({"PJRTD_TARGET": target, **environment}))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_prints_what_it_says(target: str):
    code = block("python")
    expected = re.search(r"print\(.*\)  # (.*)", code)
    assert expected
    output = run([sys.executable, "-c", code], target, PYTHONPATH=str(REPOSITORY / "python-client" / "src"))
    assert output == expected[1] + "\n"


def test_the_c_example_prints_what_it_says(daemon: Daemon, tmp_path: pathlib.Path):
    code = block("c")
    expected = re.search(r"printf\(.*\); /\* (.*) \*/", code)
    assert expected
    (tmp_path / "example.c").write_text(code)
    build = binary_path().parents[1]
    sanitizer = re.search(r"^PJRTD_SANITIZE:STRING=(\S+)$", (build / "CMakeCache.txt").read_text(), re.M)
    flags = [f"-fsanitize={sanitizer[1]}"] if sanitizer else []
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", *flags, "example.c", "-o", "example",
                    f"-I{REPOSITORY / 'client-lib' / 'include'}", f"-L{build / 'lib'}", "-lpjrtc"],
                   cwd=tmp_path, check=True)
    output = run([str(tmp_path / "example")], daemon.target, LD_LIBRARY_PATH=str(build / "lib"),
                 **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")})
    assert output == expected[1] + "\n"


def test_the_readme_names_only_files_that_exist():
    text = (REPOSITORY / "README.md").read_text()
    named = set(re.findall(r"`((?:[a-z0-9_.-]+/)+[A-Za-z0-9_.-]*)`", text))
    assert len(named) > 8
    missing = [name for name in sorted(named) if not name.startswith("build/") and not (REPOSITORY / name).exists()]
    assert not missing
