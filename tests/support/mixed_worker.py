"""Some clients of the mixed soak, a thread each, all of one kind: they connect, work, check every value, disconnect, again
and again.

    mixed_worker.py KIND TARGET CLIENTS SEED SECONDS

KIND: python (this project's client), unix, channel, unary (raw frames, over gRPC by grpcio), ctl (pjrtctl, the C client).
Ends with 0 and a line of JSON, how often each client did what and how long the small rounds took; or with what was wrong.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter

import pjrtd
from case_programs import case
from grpc_bridges import connect
from raw_frames import INVALID_ARGUMENT
from wire_messages import REPOSITORY

ADD = case("add").text
KIB = 1 << 10
BULK_BYTES = (1, 64 * KIB, 64 * KIB + 1, 700_000, 3_000_000)


def four(step: int) -> list[float]:
    return [float(step % 1000 + i) for i in range(4)]


class RawWork:
    """Frames, over whatever carries them."""

    def __init__(self, target: str, over: str) -> None:
        self.client = connect(target, over, timeout=120)
        self.program = self.client.compile(ADD)
        self.kept = self.client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4))

    def small(self, step: int) -> None:
        fresh = self.client.upload("f32", [4], struct.pack("<4f", *four(step)))
        (result,) = self.client.execute(self.program, [self.kept, fresh])
        got = struct.unpack("<4f", self.client.download(result))
        assert list(got) == [a + b for a, b in zip(four(step), (1, 2, 3, 4), strict=True)], (step, got)
        self.client.call("Buffer.Delete", buffers=[fresh, result])

    def bulk(self, data: bytes) -> None:
        buffer = self.client.upload("u8", [len(data)], data)
        assert self.client.download(buffer) == data
        self.client.call("Buffer.Delete", buffers=[buffer])

    def fail(self) -> None:
        wrong = self.client.upload("u8", [3], b"abc")
        failed = self.client.failure("Execute.Execute", program=self.program, args=[wrong, wrong], outputs=[self.client.new_buffer()])
        assert failed.code == INVALID_ARGUMENT and failed.detail.argument.actual == "u8[3]", failed

    def close(self) -> None:
        self.client.close()


class PythonWork:
    def __init__(self, target: str) -> None:
        self.client = pjrtd.Client.create(target)
        self.program = self.client.compile(ADD)
        self.kept = self.client.buffer_from_host([1.0, 2.0, 3.0, 4.0])

    def small(self, step: int) -> None:
        fresh = self.client.buffer_from_host(four(step))
        (result,) = self.program(self.kept, fresh)
        got = result.tolist()
        assert got == [a + b for a, b in zip(four(step), (1, 2, 3, 4), strict=True)], (step, got)

    def bulk(self, data: bytes) -> None:
        buffer = self.client.buffer_from_host(data, pjrtd.DType.U8, (len(data),))
        assert bytes(buffer.to_host()) == data

    def fail(self) -> None:
        wrong = self.client.buffer_from_host(b"abc", pjrtd.DType.U8, (3,))
        try:
            self.program(wrong, wrong)[0].to_host()
        except pjrtd.errors.InvalidArgument:
            return
        raise AssertionError("a wrong type ran")

    def close(self) -> None:
        self.client.close()


class CtlWork:
    """A process for each round."""

    def __init__(self, target: str) -> None:
        self.command = [str(pathlib.Path(os.environ["PJRTD_BINARY"]).parent / "pjrtctl"), "run", str(REPOSITORY / "client-lib/examples/add.mlir")]
        self.environment = os.environ | {"PJRTD_TARGET": target}

    def run(self, *values: str) -> subprocess.CompletedProcess[str]:
        given = [word for value in values for word in ("--arg", value)]
        return subprocess.run([*self.command, *given], env=self.environment, capture_output=True, text=True, check=False, timeout=120)

    def small(self, step: int) -> None:
        numbers = four(step)
        done = self.run("f32[4]=1,2,3,4", "f32[4]=" + ",".join(f"{x:g}" for x in numbers))
        assert done.stdout == "f32[4]=" + ",".join(f"{x + i + 1:g}" for i, x in enumerate(numbers)) + "\n", (step, done)

    def bulk(self, data: bytes) -> None:
        self.small(len(data))

    def fail(self) -> None:
        done = self.run("f32[4]=1,2,3,4", "u8[3]=1,2,3")
        assert done.returncode and "u8[3]" in done.stderr, done

    def close(self) -> None:
        pass


def begin(kind: str, target: str) -> RawWork | PythonWork | CtlWork:
    if kind == "python":
        return PythonWork(target)
    return CtlWork(target) if kind == "ctl" else RawWork(target, kind)


class Report:
    def __init__(self) -> None:
        self.counts: list[Counter[str]] = []
        self.latencies_us: list[int] = []
        self.faults: list[str] = []


def work(kind: str, target: str, seed: int, until: float, report: Report) -> None:
    chance, done = random.Random(seed), Counter[str]()
    report.counts.append(done)
    try:
        while time.monotonic() < until and not report.faults:
            client = begin(kind, target)
            for _ in range(chance.randrange(100, 1500)):  # compiles take their turn, so not too many
                if time.monotonic() >= until or report.faults:
                    break
                began = time.perf_counter()
                client.small(chance.randrange(1 << 20))
                report.latencies_us.append(int((time.perf_counter() - began) * 1e6))
                done["small"] += 1
                if chance.random() < 0.03:
                    client.bulk(chance.randbytes(chance.choice(BULK_BYTES)))
                    done["bulk"] += 1
                if chance.random() < 0.02:
                    client.fail()
                    done["fail"] += 1
                time.sleep(chance.uniform(0, 0.05))
            client.close()
            done["connections"] += 1
    except BaseException:  # noqa: BLE001 - the other threads end, and it is told
        report.faults.append(traceback.format_exc())


def main() -> int:
    kind, target = sys.argv[1:3]
    clients, seed, seconds = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    report, until = Report(), time.monotonic() + seconds
    threads = [threading.Thread(target=work, args=(kind, target, seed * 1000 + i, until, report)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if report.faults:
        print(report.faults[0])
        return 1
    print(json.dumps({"clients": report.counts, "latencies_us": report.latencies_us}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
