"""The embedding example: real weights through the daemon give the vectors that JAX gives in its own process."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

from daemon import PATIENCE, Daemon, clean_environment
from wire_messages import REPOSITORY

EXAMPLE = REPOSITORY / "python-client" / "examples" / "minilm"
WEIGHTS_BYTES = 90_261_504  # the 101 tensors that the programs take

# Both lengths of program, batches that are full and not, a row of each, what is cut off, no word at all.
SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "",
    "A caf\u00e9 in \u6771\u4eac, \u00a35 \u2014 na\u00efve r\u00e9sum\u00e9s & unaffable \u2603?",
    *(f"Sentence number {number} is about {animal}s." for number, animal in enumerate("cat dog owl ant fox bee rat hen".split())),
    "Forty times the word " + "word " * 40,
    "A very long one. " * 60,
]


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, str(EXAMPLE / script), *arguments], capture_output=True, text=True, check=False,
                          timeout=120 * PATIENCE, env=clean_environment(environment))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture
def state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over gRPC the client keeps the session's token in a file."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def embed(target: str, *arguments: str) -> str:
    return run("embed.py", *arguments, PJRTD_TARGET=target, PYTHONPATH=str(REPOSITORY / "python-client" / "src"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[list[float]]:
    path = tmp_path_factory.mktemp("jax") / "vectors.json"
    run("embed_jax.py", str(path), *SENTENCES, JAX_PLATFORMS="cpu")
    return json.loads(path.read_text())


def farthest(ours: list[list[float]], theirs: list[list[float]]) -> float:
    pairs = [pair for our, their in zip(ours, theirs, strict=True) for pair in zip(our, their, strict=True)]
    return max(abs(a - b) for a, b in pairs)


def test_the_committed_programs_are_what_jax_makes_of_the_script():
    run("lower_minilm.py", "--check", JAX_PLATFORMS="cpu")


def test_vectors_are_those_of_jax(state: None, target: str, reference: list[list[float]], tmp_path: pathlib.Path):
    embed(target, "--session", f"jax-{target[:4]}", "--json", str(tmp_path / "ours.json"), *SENTENCES)
    ours = json.loads((tmp_path / "ours.json").read_text())
    assert [len(vector) for vector in ours] == [384] * len(SENTENCES)
    assert farthest(ours, reference) < 1e-5
    # The reference is no constant: sentences differ by far more than the bound.
    assert farthest(ours[:-1], reference[1:]) > 0.1


def test_similarities_are_those_that_the_models_makers_publish(daemon: Daemon):
    rows = [re.findall(r"-?\d\.\d{4}", line) for line in embed(daemon.target).splitlines()]
    assert rows == [["1.0000", "0.6660", "0.1046"], ["0.6660", "1.0000", "0.1411"], ["0.1046", "0.1411", "1.0000"]]


def test_a_second_run_finds_the_weights_and_the_program_there(daemon: Daemon):
    before = daemon.stats()
    first = embed(daemon.target, "--session", "once", SENTENCES[0], "One that is compared with it.")
    between = daemon.stats()
    assert WEIGHTS_BYTES < between.bytes_received - before.bytes_received < WEIGHTS_BYTES + 300_000
    assert embed(daemon.target, "--session", "once", SENTENCES[0], "One that is compared with it.") == first
    after = daemon.stats()
    assert after.bytes_received - between.bytes_received < 60_000  # the program's text, names, ids
    assert after.compiles == between.compiles

