"""Choice of the next token inside the program: temperature, top-k, top-p, and random numbers of a seed and a position.

Thresholds are found bit by bit, in passes over the scores: they are exact, and there is no sort. A call without limits,
or with temperature 0 in all rows, leaves these passes out. Probabilities become integers, whose sums are exact in every
order: a draw is the same on every device for the same scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pydispatch as pd

Array = Any  # a traced array of the program

SMALLEST_TEMPERATURE = 1e-3
"""Divisor of the scores of rows whose temperature is 0, for which the draw is not used."""

UNITS = np.float32(2**30)
"""Sum of the probabilities as integers. Tokens less likely than 1 / UNITS are never drawn; larger sums overflow i32."""


def sample(scores: Array, positions: Array, temperature: Array, top_k: Array, top_p: Array, seeds: Array) -> Array:
    """Draw one token for each row.

    Args:
        scores: f32[s, vocabulary].
        positions: i32[s]; a random number depends on the seed and the position of its row alone.
        temperature: f32[s]; 0 returns the token with the best score.
        top_k: i32[s]; only the best k tokens are drawn, 0 for no limit.
        top_p: f32[s]; only the best tokens that together have this probability are drawn, 1 for no limit.
        seeds: i32[s].

    Returns:
        i32[s]
    """
    scaled = scores / np.maximum(temperature, np.float32(SMALLEST_TEMPERATURE))[:, None]

    def drawn() -> Array:
        """Return a token of each row, i32[s], drawn by its integer probability among all of the row."""
        shares = integers(np.exp(scaled - highest(scaled)))
        is_limited = (top_k > 0) | (top_p < 1)
        shares = pd.cond(is_limited.any(), lambda: limited(scaled, shares, top_k, top_p), lambda: shares)
        total = shares.sum(axis=-1, dtype=np.int32)
        # Token i is drawn for bounds from the sum of the shares before it to that with its own.
        bound = below(total, seeds, positions)
        return (np.cumsum(shares, axis=-1, dtype=np.int32) <= bound[:, None]).sum(axis=-1, dtype=np.int32)

    best = scores.argmax(axis=-1).astype(np.int32)
    return pd.cond((temperature > 0).any(), lambda: np.where(temperature > 0, drawn(), best), lambda: best)


def limited(scaled: Array, shares: Array, top_k: Array, top_p: Array) -> Array:
    """Return integer probabilities, i32[s, vocabulary], with 0 for what the limits of a row exclude.

    scaled: scores divided by the temperature. shares: integer probabilities without limits, which rows without limits
    keep bit by bit.
    """
    order = ordered(scaled)

    def has_k_tokens(bounds: Array) -> Array:
        """Return for each bound whether at least k tokens have a score at or above it."""
        return (order[:, None] >= bounds[..., None]).sum(axis=-1, dtype=np.int32) >= top_k[:, None]

    best = order >= threshold(order, has_k_tokens)
    of_best = integers(np.where(best, np.exp(scaled - highest(scaled)), np.float32(0)))
    shares = np.where(top_k[:, None] > 0, of_best, shares)
    total = shares.sum(axis=-1, dtype=np.int32)
    mass = np.clip((total.astype(np.float32) * top_p).astype(np.int32), 1, total)  # the best token remains

    def has_mass(bounds: Array) -> Array:
        """Return for each bound whether the tokens at or above it have the probability `mass` together."""
        above = np.where(order[:, None] >= bounds[..., None], shares[:, None], 0)
        return above.sum(axis=-1, dtype=np.int32) >= mass[:, None]

    heaviest = np.where(order >= threshold(order, has_mass), shares, 0)
    return np.where(top_p[:, None] < 1, heaviest, shares)


def highest(x: Array) -> Array:
    """Return the highest element of each row, as a column, which keeps exp(x - highest(x)) from overflowing."""
    return x.max(axis=-1, keepdims=True)


def integers(powers: Array) -> Array:
    """Return integers in proportion to `powers`, with the sum UNITS at most in each row."""
    return (powers * (UNITS / powers.sum(axis=-1, keepdims=True))).astype(np.int32)


def ordered(x: Array) -> Array:
    """Return integers u32 that compare as floats f32: bits with an inverted sign, or all inverted if negative."""
    bits = x.view(np.int32)
    return bits.view(np.uint32) ^ np.where(bits < 0, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def threshold(order: Array, holds: Callable[[Array], Array]) -> Array:
    """Return for each row of `order`, u32[s, vocabulary], the largest bound, u32[s, 1], for which a condition holds.

    holds: the condition, of bounds u32[s, 15]. It holds for 0, and for every bound below one for which it holds.
    """
    bound = np.zeros_like(order[:, :1])
    for shift in range(28, -1, -4):  # four bits at a time: their value is the number of bounds for which it holds
        bounds = bound + (np.arange(1, 16, dtype=np.uint32) << np.uint32(shift))
        bound = bound + (holds(bounds).sum(axis=-1, keepdims=True).astype(np.uint32) << np.uint32(shift))
    return bound


def below(totals: Array, seeds: Array, positions: Array) -> Array:
    """Return random integers in [0, total), i32[s], that depend on the total, the seed and the position alone."""
    zero = np.uint32(0)
    bits = threefry((seeds.astype(np.uint32), zero), (positions.astype(np.uint32), zero))[0]
    return ((bits.astype(np.uint64) * totals.astype(np.uint64)) >> 32).astype(np.int32)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return two words of random bits, of Threefry-2x32 with 20 rounds. All are uint32 and broadcast.

    Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    keys = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x = x + y
            y = ((y << rotation) | (y >> (32 - rotation))) ^ x
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + np.uint32(block + 1)
    return x, y
