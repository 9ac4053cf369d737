"""What several models are made of."""

from __future__ import annotations

from typing import Any

import jax
from catalog import f32
from jax import lax

Tree = dict[str, Any]  # weights of a layer by name


def dense_weights(inputs: int, outputs: int) -> Tree:
    """Declare the weights of a dense layer: a kernel [inputs, outputs] and a bias."""
    return {"kernel": f32(inputs, outputs), "bias": f32(outputs)}


def norm_weights(size: int) -> Tree:
    """Declare the scale and the bias of a normalization."""
    return {"scale": f32(size), "bias": f32(size)}


def dense(x: jax.Array, p: Tree) -> jax.Array:
    """Apply a dense layer with weights of `dense_weights`."""
    return x @ p["kernel"] + p["bias"]


def layer_norm(x: jax.Array, p: Tree) -> jax.Array:
    """Normalize the last axis to a mean of 0 and a variance of 1, then apply the scale and bias of `p`."""
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Divide by the root of the mean square of the last axis, then apply the scale."""
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """(..., c) -> (..., heads, c / heads)."""
    return x.reshape(*x.shape[:-1], heads, -1)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, heads: int, causal: bool = False) -> jax.Array:
    """Of (batch, places, channels) each."""
    parts = [split_heads(t, heads) for t in (q, k, v)]
    return jax.nn.dot_product_attention(*parts, is_causal=causal).reshape(q.shape)
