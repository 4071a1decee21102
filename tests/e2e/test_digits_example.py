"""The digits example: its programs are what JAX makes of the script, and training through the daemon works."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from daemon import PATIENCE, Daemon, clean_environment
from wire_messages import REPOSITORY

EXAMPLE = REPOSITORY / "python-client" / "examples" / "digits"


def train(target: str, folder: pathlib.Path, *arguments: str, path: str = "") -> str:
    """Runs the script in `folder` against a daemon; its standard output."""
    places = os.pathsep.join(filter(None, [path, str(REPOSITORY / "python-client" / "src")]))
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "train.py"), *arguments], cwd=folder, capture_output=True, text=True, check=False,
        timeout=60 * PATIENCE, env=clean_environment({"PJRTD_TARGET": target, "PYTHONPATH": places}))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_committed_programs_are_what_jax_makes_of_the_script():
    done = subprocess.run([sys.executable, str(EXAMPLE / "lower.py"), "--check"], capture_output=True, text=True,
                          check=False, env=clean_environment({"JAX_PLATFORMS": "cpu"}))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", [7, 1])
def test_training_reaches_the_accuracy_and_shows_its_progress(target: str, tmp_path: pathlib.Path, seed: int):
    output = train(target, tmp_path, "--seed", str(seed))
    lines = output.splitlines()
    accuracy = re.fullmatch(r"accuracy (0\.\d\d|1\.00)", lines[-1])
    assert accuracy and float(accuracy[1]) >= 0.95, output
    progress = [re.match(r"\[(#+) *\] epoch (\d+)/40  loss (\d+\.\d{4})  \d+ steps/s$", line) for line in lines[:-2]]
    assert [int(found[2]) for found in progress if found] == [10, 20, 30, 40]
    losses = [float(found[3]) for found in progress if found]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.1
    assert lines[-2] == f"loss curve in {tmp_path / 'digits_loss.png'}"
    assert (tmp_path / "digits_loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_gives_the_same_losses(daemon: Daemon, tmp_path: pathlib.Path):
    first, second = (
        [line.split("loss ")[1].split()[0] for line in train(daemon.target, tmp_path, "--epochs", "10").splitlines()
         if "epoch" in line]
        for _ in range(2))
    assert first == second != []


def test_the_picture_is_left_out_without_matplotlib(daemon: Daemon, tmp_path: pathlib.Path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    output = train(daemon.target, tmp_path, "--epochs", "2", path=str(tmp_path))
    assert "loss curve" not in output and output.splitlines()[-1].startswith("accuracy ")
    assert not (tmp_path / "digits_loss.png").exists()


def test_weights_stay_on_the_device(daemon: Daemon, target: str, tmp_path: pathlib.Path):
    before = daemon.stats().bytes_received
    train(target, tmp_path, "--epochs", "3")
    steps = 3 * (1437 // 128)
    batch_bytes = 128 * 64 * 4 + 128 * 4
    state_bytes = 2 * 4 * (64 * 96 + 96 + 96 * 10 + 10)
    once = state_bytes + 360 * 64 * 4 + 20_000  # the first weights, the test images, the programs
    assert daemon.stats().bytes_received - before < once + steps * (batch_bytes + 2000)
