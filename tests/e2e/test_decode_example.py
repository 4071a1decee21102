"""The decoding example: with a cache on the device it gives the tokens that JAX gives without one, in its own process."""

from __future__ import annotations

import functools
import re
import subprocess
import sys

import pytest

from daemon import PATIENCE, Daemon, clean_environment
from wire_messages import REPOSITORY

EXAMPLE = REPOSITORY / "python-client" / "examples" / "decode"
CONTEXT = 128
CACHE_BYTES = 2 * CONTEXT * 64 * 4  # of keys, and as much of values

sys.path.insert(0, str(EXAMPLE))

from decode import SYLLABLES  # noqa: E402


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, str(EXAMPLE / script), *arguments], capture_output=True, text=True, check=False,
                          timeout=60 * PATIENCE, env=clean_environment(environment))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


def decode(target: str, *arguments: str) -> list[str]:
    return run("decode.py", *arguments, PJRTD_TARGET=target, PYTHONPATH=str(REPOSITORY / "python-client" / "src")).split()


def test_the_committed_program_is_what_jax_makes_of_the_script():
    run("lower_decode.py", "--check", JAX_PLATFORMS="cpu")


def test_the_step_donates_what_it_feeds_back():
    signature = (EXAMPLE / "decode_step.mlir").read_text().split("@main(")[1].split("->")[0]
    assert re.findall(r"%arg(\d+): [^{%]*\{tf\.aliasing_output = (\d)", signature) == [(str(n), str(n)) for n in range(4)]


@functools.cache
def reference(seed: int, beginning: str) -> list[int]:
    tokens = (str(SYLLABLES.index(syllable)) for syllable in beginning.split())
    return [int(word) for word in run("decode_jax.py", str(seed), *tokens, JAX_PLATFORMS="cpu").split()]


@pytest.mark.parametrize(
    "seed, beginning, count, ends",
    [
        (0, "bu ge", 50, True),
        (7, "bu ge", 5, True),
        (0, "ka lo", CONTEXT - 2, False),  # until the cache is full
        (3, "ba be bi bo bu " * 25, 3, False),
        (3, "ba be bi bo bu " * 25 + "da de", 1, False),
    ],
)
def test_tokens_are_those_of_jax(target: str, seed: int, beginning: str, count: int, ends: bool):
    found = [int(word) for word in decode(target, "--ids", "--seed", str(seed), *beginning.split())]
    assert found == reference(seed, beginning)
    assert len(found) == count and (found[-1] == 0) == ends


def test_the_default_beginning_gives_a_text_that_ends(target: str):
    words = decode(target)
    assert len(words) == 50 and words[-1] == "." and set(words) <= set(SYLLABLES)
    assert words == decode(target, "bu", "ge")


def test_the_cache_stays_on_the_device(daemon: Daemon):
    before = daemon.stats()
    tokens = len(decode(daemon.target, "ka", "lo"))
    after = daemon.stats()
    weights_bytes = 4 * (2 * 71 * 64 + 128 * 64 + 5 * 64 + 2 * (4 * 64 * 64 + 2 * 64 * 256))
    program_bytes = (EXAMPLE / "decode_step.mlir").stat().st_size
    assert after.bytes_received - before.bytes_received < weights_bytes + program_bytes + 2 * CACHE_BYTES + 20_000
    assert after.bytes_sent - before.bytes_sent < 20_000 + 200 * tokens < CACHE_BYTES
