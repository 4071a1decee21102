"""A small decoder-only transformer in JAX, in two forms that say the same.

`step` takes one token and a cache of the keys and values of all earlier ones: lower_decode.py makes a program of it.
`next_token` takes the whole text and keeps nothing: decode_jax.py runs it, as the reference.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from make_weights import CONTEXT, HEADS, LAYERS, WEIGHTS, WIDTH

END = 0  # the token that ends a text
SIZE = WIDTH // HEADS
PER_LAYER = (len(WEIGHTS) - 4) // LAYERS


def norm(x, weight):
    """RMS normalisation over the last dimension."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def mlp(x, weight, up, down):
    return x + jax.nn.silu(norm(x, weight) @ up) @ down


def layers(weights):
    """Each layer's weights."""
    return [weights[2 + PER_LAYER * number :][:PER_LAYER] for number in range(LAYERS)]


def step(token, position, keys, values, *weights):
    """One token further.

    token, position: s32[], what was read last and where it stands, from 0.
    keys, values: f32[LAYERS,CONTEXT,HEADS,SIZE], filled up to `position` but for it.
    Returns the next token and its position, the caches with this token's entries, and pred[]: whether to stop, because the
    next token is END or the next position is the last. The first four arguments are donated to the first four results.
    """
    embedding, positions, *_, final, unembedding = weights
    x = embedding[token] + positions[position]
    seen = jnp.arange(CONTEXT) <= position
    for number, (before, into, out, *mlp_weights) in enumerate(layers(weights)):
        query, key, value = (norm(x, before) @ into).reshape(3, HEADS, SIZE)
        keys, values = keys.at[number, position].set(key), values.at[number, position].set(value)
        scores = jnp.einsum("hd,thd->ht", query, keys[number]) / SIZE**0.5
        mixed = jnp.einsum("ht,thd->hd", jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1), values[number])
        x = mlp(x + mixed.reshape(WIDTH) @ out, *mlp_weights)
    following = jnp.argmax(norm(x, final) @ unembedding).astype(jnp.int32)
    return following, position + 1, keys, values, (following == END) | (position + 1 == CONTEXT - 1)


def next_token(tokens, count, *weights):
    """The token after the first `count` of tokens, s32[CONTEXT], with attention over all of them at once and no cache."""
    embedding, positions, *_, final, unembedding = weights
    x = embedding[tokens] + positions
    causal = jnp.tril(jnp.ones((CONTEXT, CONTEXT), bool))
    for before, into, out, *mlp_weights in layers(weights):
        query, key, value = jnp.moveaxis((norm(x, before) @ into).reshape(CONTEXT, 3, HEADS, SIZE), 1, 0)
        scores = jnp.einsum("qhd,thd->hqt", query, key) / SIZE**0.5
        mixed = jnp.einsum("hqt,thd->qhd", jax.nn.softmax(jnp.where(causal, scores, -1e30), axis=-1), value)
        x = mlp(x + mixed.reshape(CONTEXT, WIDTH) @ out, *mlp_weights)
    return jnp.argmax((norm(x, final) @ unembedding)[count - 1])
