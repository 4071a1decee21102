"""Adds up what the test runners reported, as `tests/run` prints it.

    count_results.py FILE.xml...

Reads JUnit XML, ctest's and pytest's. A Criterion program is one test to ctest but says how many it ran, so those are
counted; one that ends without saying so is one failed test. A skipped test counts as failed: what was not run has not
been shown to work. Names what failed, ends with "N passed, N failed", and exits 1 if anything did or nothing ran.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SYNTHESIS = re.compile(r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Criterion does not notice what a sanitizer reports when a test's process ends.
SANITIZERS = re.compile(r"(?:ERROR|WARNING): ((?:Address|Leak|Thread|UndefinedBehavior)Sanitizer: .*)|(\S+: runtime error: .*)")
CRITERION_FAILED = re.compile(r"(?:^\[FAIL\] (?=\S+: \()|Warning! The test `)(\w+::\w+)", re.MULTILINE)
CRITERION_SKIP = re.compile(r"^\[SKIP\] (\S+)", re.MULTILINE)


@dataclass
class Counts:
    passed: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        self.passed += other.passed
        self.failures += other.failures


def describe(case: ElementTree.Element) -> str:
    place = case.get("classname") or ""
    name = case.get("name") or "?"
    return name if place in ("", name) else f"{place}::{name}"


def fault(case: ElementTree.Element) -> str | None:
    """What went wrong, as the report has it; None for a test that passed."""
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            return f"{kind}: {found.get('message') or ''}".rstrip(": ").splitlines()[0][:200]
    if case.get("status") in ("fail", "disabled", "notrun"):
        return str(case.get("status"))
    return None


def count_case(case: ElementTree.Element) -> Counts:
    name = describe(case)
    output = COLOURS.sub("", case.findtext("system-out") or "")
    wrong = fault(case)
    reports = [f"{name}: {first or second}" for first, second in SANITIZERS.findall(output)]
    syntheses = SYNTHESIS.findall(output)
    if not syntheses and reports:
        return Counts(0, reports)
    if not syntheses:
        return Counts(0, [f"{name} ({wrong})"]) if wrong else Counts(1)
    passed = sum(int(found[1]) for found in syntheses)
    failing = sum(int(found[2]) + int(found[3]) for found in syntheses)
    skipped = CRITERION_SKIP.findall(output)
    failures = [f"{name}: {found}" for found in sorted(set(CRITERION_FAILED.findall(output)))][:failing]
    failures += [f"{name}: a test that failed"] * (failing - len(failures))
    failures += [f"{name}: {test} (skipped)" for test in skipped]
    failures += reports
    if wrong and not failures:
        failures.append(f"{name} ({wrong})")
    return Counts(passed, failures)


def count_file(path: Path) -> Counts:
    try:
        cases: Iterator[ElementTree.Element] = ElementTree.parse(path).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        return Counts(0, [f"{path.name}: no report was written ({error})"])
    total = Counts()
    for case in cases:
        total.add(count_case(case))
    if not total.passed and not total.failures:
        total.failures.append(f"{path.name}: no test ran")
    return total


def main(paths: Sequence[str]) -> int:
    total = Counts()
    for path in paths:
        total.add(count_file(Path(path)))
    for failure in total.failures:
        print(f"failed: {failure}")
    print(f"{total.passed} passed, {len(total.failures)} failed")
    return 1 if total.failures or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
