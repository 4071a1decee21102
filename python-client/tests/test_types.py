"""Static types: the package checks clean under pyright's strict mode, and what must not type-check does not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

FOLDER = ROOT / "tests" / "must_not_type_check"
SNIPPETS = sorted(FOLDER.glob("*.py"))


def errors_of_pyright(project: Path) -> list[dict[str, Any]]:
    beside = Path(sys.executable).with_name("pyright")
    command = str(beside) if beside.exists() else shutil.which("pyright")
    assert command, "pyright is missing: pip install 'pyright[nodejs]'"
    run = subprocess.run([command, "--outputjson", "-p", str(project)], capture_output=True, text=True, check=False)
    try:
        diagnostics = json.loads(run.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.fail(f"pyright said no JSON: {run.stdout[-500:]}{run.stderr[-500:]}")
    return [diagnostic for diagnostic in diagnostics if diagnostic["severity"] == "error"]


def test_the_package_is_clean() -> None:
    found = errors_of_pyright(ROOT)
    assert [f"{e['file']}:{e['range']['start']['line'] + 1}: {e['message']}" for e in found] == []


@pytest.fixture(scope="module")
def rejected() -> dict[str, set[tuple[int, str]]]:
    """Snippet -> (line, rule) of each error in it. What is unknown only because of another error is left out."""
    found: dict[str, set[tuple[int, str]]] = {path.name: set() for path in SNIPPETS}
    for error in errors_of_pyright(FOLDER / "pyrightconfig.json"):
        rule = error.get("rule", "")
        if not rule.startswith("reportUnknown"):
            found[Path(error["file"]).name].add((error["range"]["start"]["line"] + 1, rule))
    return found


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.stem)
def test_the_snippet_is_rejected_where_it_says(snippet: Path, rejected: dict[str, set[tuple[int, str]]]) -> None:
    """Each line that ends in `# error: RULE` is rejected by that rule, and no other line is."""
    expected: set[tuple[int, str]] = set()
    for number, line in enumerate(snippet.read_text().splitlines(), 1):
        match = re.search(r"# error: (\w+)$", line)
        if match:
            expected.add((number, match[1]))
    assert expected, "the snippet does not say what is wrong with it"
    assert rejected[snippet.name] == expected


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 5
