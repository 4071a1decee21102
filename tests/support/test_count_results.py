"""count_results.py: what it counts as passed and failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import count_results  # noqa: E402

CRITERION = """\x1b[0;34m[----]\x1b[0m Warning! The test `log::ends` crashed during its setup or teardown.
\x1b[0;34m[----]\x1b[0m x
[\x1b[0;31mFAIL\x1b[0m] log::keeps_order: (0.00s)
[\x1b[0;34m====\x1b[0m] \x1b[1mSynthesis: Tested: 5 | Passing: 3 | Failing: 1 | Crashing: 1 \x1b[0m
"""


def run(folder: Path, capsys: pytest.CaptureFixture[str], *texts: str) -> tuple[int, list[str]]:
    paths = []
    for index, text in enumerate(texts):
        path = folder / f"{index}.xml"
        path.write_text(text)
        paths.append(str(path))
    code = count_results.main(paths)
    return code, capsys.readouterr().out.splitlines()


def suite(*cases: str) -> str:
    return "<testsuites><testsuite>" + "".join(cases) + "</testsuite></testsuites>"


def case(name: str, inside: str = "", status: str = "run") -> str:
    return f'<testcase name="{name}" classname="c" status="{status}">{inside}</testcase>'


def test_adds_up_over_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(tmp_path, capsys, suite(case("a"), case("b")), suite(case("c")))
    assert (code, lines) == (0, ["3 passed, 0 failed"])


@pytest.mark.parametrize("kind", ["failure", "error", "skipped"])
def test_counts_failures_errors_and_skips_as_failed(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(tmp_path, capsys, suite(case("a"), case("b", f'<{kind} message="why"/>')))
    assert code == 1
    assert lines == [f"failed: c::b ({kind}: why)", "1 passed, 1 failed"]


@pytest.mark.parametrize("status", ["fail", "disabled", "notrun"])
def test_counts_what_ctest_did_not_run_as_failed(status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(tmp_path, capsys, suite(case("a", status=status)))
    assert (code, lines[-1]) == (1, "0 passed, 1 failed")


def test_counts_the_tests_inside_a_criterion_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = CRITERION.replace("\x1b", "")
    code, lines = run(tmp_path, capsys, suite(case("unit", f"<failure/><system-out>{output}</system-out>", "fail")))
    assert code == 1
    assert lines[-1] == "3 passed, 2 failed"


def test_names_the_criterion_tests_that_failed() -> None:
    import xml.etree.ElementTree as ElementTree

    element = ElementTree.Element("testcase", name="unit", status="fail")
    ElementTree.SubElement(element, "system-out").text = CRITERION
    counts = count_results.count_case(element)
    assert counts.passed == 3
    assert counts.failures == ["unit: log::ends", "unit: log::keeps_order"]


def test_counts_a_criterion_test_that_is_disabled_as_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = "[SKIP] log::later: Test is disabled\n[====] Synthesis: Tested: 1 | Passing: 1 | Failing: 0 | Crashing: 0"
    code, lines = run(tmp_path, capsys, suite(case("unit", f"<system-out>{output}</system-out>")))
    assert (code, lines) == (1, ["failed: c::unit: log::later: (skipped)", "1 passed, 1 failed"])


def test_counts_a_program_that_ends_without_a_synthesis_as_one_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(tmp_path, capsys, suite(case("unit", "<failure message='SEGV'/>", "fail")))
    assert (code, lines) == (1, ["failed: c::unit (failure: SEGV)", "0 passed, 1 failed"])


def test_counts_what_a_sanitizer_reports_as_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = (
        "==1==ERROR: LeakSanitizer: detected memory leaks\n"
        "[====] Synthesis: Tested: 2 | Passing: 2 | Failing: 0 | Crashing: 0"
    )
    code, lines = run(tmp_path, capsys, suite(case("unit", f"<system-out>{output}</system-out>")))
    assert code == 1
    assert lines == ["failed: c::unit: LeakSanitizer: detected memory leaks", "2 passed, 1 failed"]


def test_fails_where_a_report_is_missing_broken_or_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert count_results.main([str(tmp_path / "none.xml")]) == 1
    assert "no report was written" in capsys.readouterr().out
    code, lines = run(tmp_path, capsys, "<testsuite><testcase")
    assert code == 1 and "no report was written" in lines[0]
    code, lines = run(tmp_path, capsys, suite())
    assert (code, lines) == (1, ["failed: 0.xml: no test ran", "0 passed, 1 failed"])
