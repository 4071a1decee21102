"""The command: which measures, in which order, and what the exit status says."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench_context import ROOT, Context, Settings
from bench_hotpath import allocations, kernel_costs
from bench_machine import describe_machine
from bench_measures import busy_clients, c_calls, dot_calls, first_result, idle_connections, memory, python_calls
from bench_models import minilm, minilm_attach, minilm_clients
from bench_over_grpc import grpc_batches, grpc_calls, grpc_python, grpc_transfers
from bench_process import BenchError
from bench_report import Row, render
from bench_sharing import sharing
from bench_throughput import pipelined, python_steps, runs, steps, transfers

MEASURES: dict[str, Callable[[Context], list[Row]]] = {
    "python-calls": python_calls,
    "c-calls": c_calls,
    "dot-calls": dot_calls,
    "first-result": first_result,
    "memory": memory,
    "idle-connections": idle_connections,
    "busy-clients": busy_clients,
    "grpc-calls": grpc_calls,
    "grpc-python": grpc_python,
    "grpc-batches": grpc_batches,
    "steps": steps,
    "runs": runs,
    "steps-python": python_steps,
    "sharing": sharing,
    "minilm": minilm,
    "minilm-attach": minilm_attach,
    "minilm-clients": minilm_clients,
    "pipelined": pipelined,
    "transfers": transfers,
    "grpc-transfers": grpc_transfers,
    "kernel-costs": kernel_costs,
    "allocations": allocations,
}

EPILOG = """Exit status: 0 everything was measured; 1 with --check, a bound is missed; 2 something could not be measured.
README.md beside this program says how each figure is taken."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/bench/run",
        description="Measures pjrtd and its peers side by side.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="3 rounds of short slices: a look, not a figure to quote")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each measure (default: 10, with --quick 3)")
    parser.add_argument("--slice-ms", type=int, metavar="MS", help="length of one slice (default: 300, with --quick 100)")
    parser.add_argument(
        "--only", action="append", metavar="NAME", choices=list(MEASURES), help=f"may be repeated: {', '.join(MEASURES)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured, each round too")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="default: build/release")
    parser.add_argument("--python", type=Path, help="interpreter with pypjrt and jax (default: build/venv's, else this)")
    parser.add_argument("--plugin", type=Path, help="default: $PJRTD_TEST_PLUGIN, else the interpreter's CPU wheel")
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if arguments.slice_ms is not None and not 1 <= arguments.slice_ms <= 10_000:
        parser.error("--slice-ms must be 1 to 10000")
    return arguments


def find_python(given: Path | None) -> Path:
    venv = ROOT / "build" / "venv" / "bin" / "python"
    return given or (venv if venv.exists() else Path(sys.executable))


def find_plugin(given: Path | None, python: Path) -> Path:
    if given is not None:
        return given
    if os.environ.get("PJRTD_TEST_PLUGIN"):
        return Path(os.environ["PJRTD_TEST_PLUGIN"])
    code = "import lammps_jax_pjrt_cpu; print(lammps_jax_pjrt_cpu.PLUGIN_PATH)"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise SystemExit(f"tests/bench/run: set PJRTD_TEST_PLUGIN, or install lammps-jax-pjrt-cpu 0.11.2 for {python}")
    return Path(found.stdout.strip())


def main() -> int:
    arguments = parse_arguments()
    python = find_python(arguments.python)
    settings = Settings(
        build=arguments.build.resolve(),
        python=python,
        plugin=find_plugin(arguments.plugin, python),
        rounds=arguments.rounds or (3 if arguments.quick else 10),
        slice_ms=arguments.slice_ms or (100 if arguments.quick else 300),
        idle_s=1.0 if arguments.quick else 5.0,
        quick=arguments.quick,
    )
    machine = describe_machine()
    rows: list[Row] = []
    failures: dict[str, str] = {}
    with Context(settings) as context:
        for name in arguments.only or MEASURES:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            try:
                rows += MEASURES[name](context)
            except BenchError as error:
                failures[name] = str(error)
                print(f"  failed: {error}", file=sys.stderr, flush=True)
    print(render(machine, rows, failures))
    if arguments.json is not None:
        report = {
            "machine": machine,
            "rounds": settings.rounds,
            "slice_ms": settings.slice_ms,
            "plugin": settings.plugin.name,
            "rows": [row.as_json() for row in rows],
            "failures": failures,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if failures:
        return 2
    return 1 if arguments.check and any(row.met() is False for row in rows) else 0
