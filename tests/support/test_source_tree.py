"""What holds for the whole tree: names, formatting, what must not be in it."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Names that tools ask for, and so are in several folders.
SHARED_NAMES = {
    "CMakeLists.txt",
    "README.md",
    "__init__.py",
    "__main__.py",
    "conftest.py",
    "pytest.ini",
    "pyproject.toml",
    "py.typed",
    "run",
}


def tracked(*patterns: str) -> list[Path]:
    """Files of the tree, whether it is a checkout or an unpacked archive."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns], capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    found = (path for pattern in patterns or ("*",) for path in ROOT.rglob(pattern) if path.is_file())
    return [path for path in found if path.relative_to(ROOT).parts[0] not in ("build", ".git")]


def test_c_is_formatted_as_clang_format_says() -> None:
    files = tracked("*.c", "*.h")
    assert len(files) > 50
    checked = subprocess.run(
        ["clang-format", "--dry-run", "--Werror", *map(str, files)], capture_output=True, text=True, check=False
    )
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: code should be clang-formatted", checked.stderr, re.M)))
    assert not wrong, "clang-format -i " + " ".join(wrong)
    assert checked.returncode == 0, checked.stderr[-2000:]


def test_source_file_names_are_unique_in_the_tree() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in tracked("*.c", "*.h", "*.py", "*.proto"):
        if path.parent.name == "_proto":  # generated, one file for each .proto
            continue
        places[path.name].append(str(path.relative_to(ROOT)))
    # The daemon and the two clients each may have a file on one subject; inside one of them a name is one file.
    doubled = {name: paths for name, paths in places.items() if len(paths) > 1 and name not in SHARED_NAMES}
    within = {
        name: paths for name, paths in doubled.items() if len({path.split("/")[0] for path in paths}) < len(paths)
    }
    assert not within


def test_every_c_file_begins_with_what_it_is() -> None:
    bare = [str(path.relative_to(ROOT)) for path in tracked("*.c", "*.h") if not path.read_text().startswith("/*")]
    assert not bare


def test_no_file_names_a_path_of_one_machine() -> None:
    machine = re.compile(r"/(?:work|home/[a-z]+|root|Users)/(?:main|shared|[a-z]+/)")
    named = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = machine.search(text)
        if found and path != Path(__file__).resolve():
            named.append(f"{path.relative_to(ROOT)}: {found[0]}")
    assert not named


def test_scripts_parse() -> None:
    scripts = [path for path in tracked() if path.suffix in ("", ".sh") and path.read_bytes().startswith((b"#!/bin/bash", b"# What deploy"))]
    assert len(scripts) >= 3
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)
