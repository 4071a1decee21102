"""Train a small classifier on handwritten digits, on whatever device pjrtd serves.

    PJRTD_TARGET=unix:/run/pjrtd/pjrtd.sock python train.py

The training step is a StableHLO program (train_step.mlir, made by lower.py; JAX is not needed here). Weights and
velocities stay on the device: each step donates the old ones and gets the new ones, and only the batch goes in.
Needs numpy and scikit-learn, which brings the 1797 images; with matplotlib the loss curve becomes a picture.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

import numpy as np
import pjrtd
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 128
TEST = 360
WIDTH = 30


def load(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images f32[n,64] in 0 to 1 and labels s32[n], shuffled: first those to train on, then those to test on."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = (digits.data[order] / 16).astype(np.float32)
    labels = digits.target[order].astype(np.int32)
    return images[TEST:], labels[TEST:], images[:TEST], labels[:TEST]


def initial_values(generator: np.random.Generator) -> list[np.ndarray]:
    """Random weights, and velocities of zero."""
    shapes = [(64, 96), (96,), (96, 10), (10,)]
    weights = [
        generator.normal(0, np.sqrt(2 / shape[0]), shape).astype(np.float32)
        if len(shape) == 2
        else np.zeros(shape, np.float32)
        for shape in shapes
    ]
    return weights + [np.zeros(shape, np.float32) for shape in shapes]


def show_progress(done: int, total: int, loss: float, steps_per_second: float) -> None:
    """One line that is written over on a terminal, and every tenth epoch elsewhere."""
    bar = "#" * (WIDTH * done // total)
    line = f"[{bar:<{WIDTH}}] epoch {done}/{total}  loss {loss:.4f}  {steps_per_second:.0f} steps/s"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if done == total else "", flush=True)
    elif done % 10 == 0 or done == total:
        print(line, flush=True)


def save_curve(losses: list[float], path: pathlib.Path) -> bool:
    """Draws the loss of each step; False where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="loss", yscale="log", title="Handwritten digits, trained through pjrtd")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small classifier on handwritten digits through pjrtd.")
    parser.add_argument("--target", help="unix:PATH of the daemon; default $PJRTD_TARGET")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("digits_loss.png"))
    arguments = parser.parse_args()

    images, labels, test_images, test_labels = load(arguments.seed)
    generator = np.random.default_rng(arguments.seed)
    with pjrtd.Client.create(arguments.target) as client:
        step = client.compile((HERE / "train_step.mlir").read_text())
        predict = client.compile((HERE / "predict.mlir").read_text())
        state = [client.buffer_from_host(value) for value in initial_values(generator)]

        losses: list[float] = []
        started = time.perf_counter()
        for epoch in range(arguments.epochs):
            order = generator.permutation(len(labels))
            pending = []
            for first in range(0, len(order) - BATCH + 1, BATCH):
                batch = order[first : first + BATCH]
                *state, loss = step(*state, images[batch], labels[batch])
                pending.append(loss)
            losses += [float(loss.numpy()) for loss in pending]
            mean = float(np.mean(losses[-len(pending) :]))
            show_progress(epoch + 1, arguments.epochs, mean, len(losses) / (time.perf_counter() - started))

        (guesses,) = predict(*state[:4], test_images)
        accuracy = float(np.mean(guesses.numpy() == test_labels))

    if save_curve(losses, arguments.picture):
        print(f"loss curve in {arguments.picture.resolve()}")
    print(f"accuracy {accuracy:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
