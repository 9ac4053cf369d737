"""Layers of decoders over arrays [s, t, features] of s rows with t tokens each."""

from __future__ import annotations

from typing import Any

import numpy as np
from blocks import Blocks
from config import Rotary

Array = Any
"""An array of NumPy, or one of a program."""


def embed(table: Array | Blocks, tokens: Array) -> Array:
    """Return the rows of a table at the tokens [s, t], f32."""
    if isinstance(table, Blocks):
        return table.take(tokens)
    return np.asarray(table, like=tokens)[tokens].astype(np.float32)


def linear(x: Array, weight: Array | Blocks, bias: Array | None = None) -> Array:
    """Multiply by a weight [out, in]. Types of the weight that are narrower than x are widened in registers."""
    product = np.einsum("sti,oi->sto", x, weight.widened(x) if isinstance(weight, Blocks) else weight)
    return product if bias is None else product + bias


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """Divide by the root of the mean square of the features, and apply the weight."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(epsilon)) * weight


def layer_norm(x: Array, weight: Array, bias: Array, epsilon: float) -> Array:
    """Normalize the features to mean 0 and variance 1, then apply weight and bias."""
    centered = x - np.mean(x, axis=-1, keepdims=True)
    return rms_norm(centered, weight, epsilon) + bias


def silu(x: Array) -> Array:
    """Return x times its logistic sigmoid."""
    return x / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    """The approximation by tanh, as GPT-2 and Gemma have it."""
    return 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)))


def capped(x: Array, cap: float | None) -> Array:
    """Return x with a smooth bound: cap * tanh(x / cap). None for no bound."""
    return x if cap is None else np.tanh(x / np.float32(cap)) * np.float32(cap)


def rotate(x: Array, positions: Array, rotary: Rotary) -> Array:
    """Rotate pairs of features of x [s, t, heads, size] by the angles of the positions [s, t].

    The results of a pair are size / 2 apart, also where the features are neighbours: of queries and keys, only products
    of equal features matter.
    """
    frequencies = rotary.frequencies()
    angles = positions.astype(np.float32)[:, :, None, None] * frequencies
    cosine, sine = np.cos(angles), np.sin(angles)
    half = len(frequencies)
    low, high = (x[..., ::2], x[..., 1::2]) if rotary.is_interleaved else (x[..., :half], x[..., half:])
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def attend(
    queries: Array, keys: Array, values: Array, positions: Array, *, scale: float, window: int | None, cap: float | None
) -> Array:
    """Return causal attention with grouped queries.

    Args:
        queries: [s, t, heads, size].
        keys: [s, c, kv_heads, size], of c positions from 0 on.
        values: [s, c, kv_heads, size].
        positions: i32[s, t]; a query sees the keys of positions up to its own.
        scale: Factor of the products of queries and keys.
        window: Number of keys that a query sees, the last ones; None for all.
        cap: See `capped`, of the scores.

    Returns:
        [s, t, heads * size]
    """
    # Heads of queries are [g, r]: r heads share the keys and values of a group g.
    rows, length, heads, size = queries.shape
    count, groups = keys.shape[1], keys.shape[2]
    grouped = queries.reshape(rows, length, groups, heads // groups, size) * np.float32(scale)
    scores = capped(np.einsum("stgrd,scgd->sgrtc", grouped, keys), cap)
    key, query = np.arange(count, dtype=np.int32), positions[:, None, None, :, None]
    is_seen = key <= query if window is None else (key <= query) & (key > query - np.int32(window))
    scores = np.where(is_seen, scores, np.float32(-np.inf))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    return np.einsum("sgrtc,scgd->stgrd", shares, values).reshape(rows, length, heads * size)
