"""MiniLM-L6 in JAX: a BERT encoder of six layers, mean pooling, and vectors of length 1.

lower_minilm.py makes programs of it, embed_jax.py runs it. embed.py needs neither JAX nor this file.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from minilm_weights import EMBEDDINGS, LAYER, LAYERS

HEADS = 12
EPSILON = 1e-12


def linear(x, weight, bias):
    """PyTorch's: the weight is [out, in]."""
    return jnp.einsum("bti,oi->bto", x, weight) + bias


def layer_norm(x, weight, bias):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / jnp.sqrt(variance + EPSILON) * weight + bias


@partial(jax.jit, inline=False)
def layer(x, mask, query_w, query_b, key_w, key_b, value_w, value_b, out_w, out_b, norm_w, norm_b, up_w, up_b, down_w, down_b,
          last_w, last_b):  # fmt: skip
    """One encoder layer: f32[b,t,384] to the same. `mask` is true where there is a token. A function of its own in the
    program, called six times."""
    rows, tokens, width = x.shape

    def heads(y):
        return y.reshape(rows, tokens, HEADS, width // HEADS)

    query, key, value = heads(linear(x, query_w, query_b)), heads(linear(x, key_w, key_b)), heads(linear(x, value_w, value_b))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(jnp.float32(width // HEADS))
    scores = jnp.where(mask[:, None, None, :], scores, jnp.finfo(jnp.float32).min)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value).reshape(rows, tokens, width)
    x = layer_norm(x + linear(mixed, out_w, out_b), norm_w, norm_b)
    wide = jax.nn.gelu(linear(x, up_w, up_b), approximate=False)
    return layer_norm(x + linear(wide, down_w, down_b), last_w, last_b)


def embed(ids, lengths, *weights):
    """Sentences to vectors.

    ids: s32[b,t], the tokens of a sentence a row, then anything in the vocabulary's range.
    lengths: s32[b], how many of them are the sentence's; 0 for a row that is not used.
    weights: NAMES of minilm_weights.py.
    Returns f32[b,384], each row of length 1.
    """
    words, positions, kinds, norm_w, norm_b = weights[: len(EMBEDDINGS)]
    tokens = ids.shape[1]
    x = layer_norm(words[ids] + positions[:tokens] + kinds[0], norm_w, norm_b)
    mask = jnp.arange(tokens) < lengths[:, None]
    for number in range(LAYERS):
        first = len(EMBEDDINGS) + number * len(LAYER)
        x = layer(x, mask, *weights[first : first + len(LAYER)])
    total = jnp.sum(jnp.where(mask[:, :, None], x, 0), axis=1)
    mean = total / jnp.maximum(lengths, 1)[:, None].astype(jnp.float32)
    return mean / jnp.maximum(jnp.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
