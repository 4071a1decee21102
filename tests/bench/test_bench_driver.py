"""The driver's own arithmetic: a wrong median would be believed. No process is measured here."""

from __future__ import annotations

import array
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "driver"))

from bench_frames import Relay, bytes_per_call  # noqa: E402
from bench_interleave import Series, latency_series, pooled_percentiles_us, race, rate_series, throughput_series  # noqa: E402
from bench_process import BenchError, ProcessFigures, placed, resident_bytes  # noqa: E402
from bench_report import Bound, Row, render  # noqa: E402

MACHINE = {
    "cores": 2,
    "model": "x",
    "kernel": "6",
    "system": "y",
    "virtual_machine": False,
    "memory_gb": 1.0,
    "load_average": 0.0,
}


def row(ours: list[float], peer: list[float], bound: Bound | None, name: str = "r") -> Row:
    return Row(name, "title", "us", Series("ours", p50=ours), Series("peer", p50=peer), bound=bound)


def test_a_race_turns_the_order_around_after_each_round() -> None:
    ran: list[str] = []
    race({name: lambda name=name: ran.append(name) or {} for name in "abc"}, 3)
    assert "".join(ran) == "abccbaabc"


def test_the_ratio_is_the_median_of_the_rounds_ratios_not_the_ratio_of_medians() -> None:
    assert row([1, 10, 100], [1, 5, 10], None).value() == 2
    assert row([1, 9, 2], [1, 1, 4], None).value() == 1


def test_a_bound_is_missed_at_the_limit_itself_where_it_says_under() -> None:
    assert not row([3.0], [1.0], Bound("<", 3, "")).met()
    assert row([2.999], [1.0], Bound("<", 3, "")).met()
    assert row([1.0], [1.0], Bound(">=", 1, "")).met()
    assert not row([0.999], [1.0], Bound(">=", 1, "")).met()
    assert row([1.0], [1.0], None).met() is None


def test_a_difference_and_a_plain_figure_compare_as_such() -> None:
    both = row([30.0, 50.0], [10.0, 20.0], None)
    both.comparison = "difference"
    assert both.value() == 25
    both.comparison = "itself"
    assert both.value() == 40


def test_units_are_microseconds_operations_a_second_and_gigabytes_a_second() -> None:
    one = {"p50_ns": 2500.0, "p99_ns": 4000.0, "count": 100, "elapsed_ns": 50_000_000}
    assert latency_series("x", [one]).p50 == [2.5]
    assert latency_series("x", [one]).p99 == [4.0]
    assert rate_series("x", [one]).p50 == [2000.0]
    assert throughput_series("x", [one], 5000).p50 == [2.0]


def test_percentiles_are_pooled_over_all_sides(tmp_path: Path) -> None:
    for name, values in (("a", range(1000, 100_000, 1000)), ("b", [100_000])):
        (tmp_path / name).write_bytes(array.array("Q", values).tobytes())
    assert pooled_percentiles_us([tmp_path / "a", tmp_path / "b"]) == (51.0, 100.0)


def test_the_table_names_missed_bounds_and_what_was_not_measured() -> None:
    text = render(
        MACHINE,
        [row([2.0], [1.0], Bound("<", 1.5, "under 1.5x"), "slow"), row([1.0], [1.0], Bound("<", 3, "under 3x"), "quick")],
        {"start": "jax is not installed"},
    )
    assert "1 of 2 bounds met; missed: slow" in text
    assert "NOT MEASURED start: jax is not installed" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith(("slow", "quick"))] == ["NO", "yes"]


def test_other_work_on_the_machine_is_said() -> None:
    assert "Other work" in render(MACHINE | {"load_average": 3.0}, [], {})
    assert "Other work" not in render(MACHINE, [], {})


def test_bytes_a_call_round_up_and_refuse_less_than_a_header() -> None:
    assert bytes_per_call((100, 200), (10_101, 20_200), 100) == (101, 200)
    with pytest.raises(BenchError):
        bytes_per_call((0, 0), (3100, 20_000), 100)


def test_the_relay_passes_bytes_and_descriptors_on_and_counts_both_ways(tmp_path: Path) -> None:
    """The daemon here answers and closes at once, so the relay may find it gone after its last byte."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "daemon.sock"))
    listener.listen(1)

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            data, descriptors, _, _ = socket.recv_fds(connection, 100, 1)
            os.write(descriptors[0], data)
            os.close(descriptors[0])
            connection.sendall(b"12345")

    thread = threading.Thread(target=answer)
    thread.start()
    relay = Relay(f"unix:{tmp_path}/daemon.sock", tmp_path)
    read_end, write_end = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(relay.target.removeprefix("unix:"))
        socket.send_fds(client, [b"abc"], [write_end])
        assert client.recv(100) == b"12345"
    thread.join()
    listener.close()
    assert os.read(read_end, 100) == b"abc"
    assert (relay.request_bytes, relay.reply_bytes) == (3, 5)
    os.close(read_end)
    os.close(write_end)


def test_a_process_figures_grow_with_its_work() -> None:
    before = ProcessFigures.read(os.getpid())
    pages = bytearray(32 << 20)
    spent = ProcessFigures.read(os.getpid()) - before
    assert spent.cpu_ns > 0
    assert spent.faults > 0
    assert len(pages) == 32 << 20


def test_resident_memory_counts_touched_pages() -> None:
    before = resident_bytes(os.getpid())
    pages = bytearray(b"\1") * (64 << 20)
    after = resident_bytes(os.getpid())
    assert after["anonymous"] - before["anonymous"] >= 60 << 20
    assert after["total"] >= after["anonymous"]
    assert len(pages) == 64 << 20


def test_placing_a_process_moves_its_threads_and_puts_them_back() -> None:
    everywhere = os.sched_getaffinity(0)
    cpu = min(everywhere)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    with placed({os.getpid(): cpu}):
        assert os.sched_getaffinity(thread.native_id or 0) == {cpu}
        assert os.sched_getaffinity(0) == {cpu}
    assert os.sched_getaffinity(thread.native_id or 0) == everywhere
    assert os.sched_getaffinity(0) == everywhere
    stop.set()
    thread.join()
