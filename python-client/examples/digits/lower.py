"""Lower the programs of this example from JAX to StableHLO text.

    python lower.py           writes train_step.mlir and predict.mlir beside this file
    python lower.py --check   fails when they differ from what JAX makes of this file

Only this script needs JAX. train.py runs the committed programs without it.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import jax
import jax.numpy as jnp

PIXELS = 64
HIDDEN = 96
CLASSES = 10
BATCH = 128
TEST = 360

LEARNING_RATE = 0.1
MOMENTUM = 0.9
DECAY = 1e-4

HERE = pathlib.Path(__file__).resolve().parent


def logits(w1, b1, w2, b2, x):
    """Scores of a two-layer perceptron: f32[n,64] pixels in 0 to 1 give f32[n,10]."""
    return jax.nn.relu(x @ w1 + b1) @ w2 + b2


def loss_of(weights, x, y):
    """Mean cross entropy over a batch, with weight decay on the two matrices."""
    w1, _, w2, _ = weights
    log_p = jax.nn.log_softmax(logits(*weights, x))
    chosen = jnp.sum(log_p * jax.nn.one_hot(y, CLASSES), axis=1)
    return -jnp.mean(chosen) + DECAY * (jnp.sum(w1 * w1) + jnp.sum(w2 * w2))


def train_step(w1, b1, w2, b2, v1, c1, v2, c2, x, y):
    """One step of gradient descent with momentum.

    Takes four weights, their four velocities, f32[128,64] pixels and s32[128] labels; returns the eight new values and
    the loss of the batch before the step. The first eight arguments are donated: their memory becomes the results'.
    """
    weights, velocities = (w1, b1, w2, b2), (v1, c1, v2, c2)
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    velocities = tuple(MOMENTUM * v - LEARNING_RATE * g for v, g in zip(velocities, gradients, strict=True))
    weights = tuple(w + v for w, v in zip(weights, velocities, strict=True))
    return (*weights, *velocities, loss)


def predict(w1, b1, w2, b2, x):
    """The most likely digit of each image: f32[360,64] gives s32[360]."""
    return jnp.argmax(logits(w1, b1, w2, b2, x), axis=1).astype(jnp.int32)


def programs() -> dict[str, str]:
    """File name to program text."""

    def f32(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    weights = (f32(PIXELS, HIDDEN), f32(HIDDEN), f32(HIDDEN, CLASSES), f32(CLASSES))
    labels = jax.ShapeDtypeStruct((BATCH,), jnp.int32)
    step = jax.jit(train_step, donate_argnums=range(8))
    return {
        "train_step.mlir": step.lower(*weights, *weights, f32(BATCH, PIXELS), labels).as_text(),
        "predict.mlir": jax.jit(predict).lower(*weights, f32(TEST, PIXELS)).as_text(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Lower the programs of this example to StableHLO text.")
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    stale = 0
    for name, text in programs().items():
        path = HERE / name
        if not check:
            path.write_text(text)
            print(f"wrote {name}, {len(text)} bytes")
        elif not path.exists() or path.read_text() != text:
            print(f"{name} is not what JAX {jax.__version__} makes of lower.py", file=sys.stderr)
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
