"""Philox 4x32-10: four random words for each counter, the same on every device.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from running import Case, run

import pydispatch as pd

U32 = Annotated[int, pd.u32]
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
"""Factors of the first and the third word in a round."""
INCREMENTS = 0x9E3779B9, 0xBB67AE85
"""Additions to the two words of the key after a round."""


class Words(NamedTuple):
    """The halves of a product of two words."""

    high: Any
    low: Any


def product(a: Any, b: Any) -> Words:
    """Return the 64 bits of a product of two u32."""
    return Words(high=pd.u32(pd.u64(a) * pd.u64(b) >> 32), low=a * b)


@pd.kernel(workgroup=64)
def philox(seed: U32, stream: U32, words: Annotated[pd.View, pd.u32["n", 4]]) -> None:
    """Write words[i] for the counter (i, 0, 0, 0) and the key (seed, stream)."""
    i = pd.global_id(0)
    if i >= words.shape[0]:
        return
    a, b, c, d = pd.u32(i), pd.u32(0), pd.u32(0), pd.u32(0)
    low, high = seed, stream
    for _ in range(10):
        first, second = product(a, MULTIPLIERS[0]), product(c, MULTIPLIERS[1])
        a, b, c, d = second.high ^ b ^ low, second.low, first.high ^ d ^ high, first.low
        low, high = low + INCREMENTS[0], high + INCREMENTS[1]
    words[i, 0], words[i, 1], words[i, 2], words[i, 3] = a, b, c, d


def expected(n: int, seed: int, stream: int) -> np.ndarray:
    """Return the first n rows of `philox`, u32[n, 4]."""
    words, mask = [np.arange(n, dtype=np.uint64), *np.zeros((3, n), np.uint64)], np.uint64(0xFFFFFFFF)
    keys = [np.uint64(seed), np.uint64(stream)]
    for _ in range(10):
        first, second = words[0] * np.uint64(MULTIPLIERS[0]), words[2] * np.uint64(MULTIPLIERS[1])
        words = [second >> np.uint64(32) ^ words[1] ^ keys[0], second & mask,
                 first >> np.uint64(32) ^ words[3] ^ keys[1], first & mask]  # fmt: skip
        keys = [(key + np.uint64(more)) & mask for key, more in zip(keys, INCREMENTS, strict=True)]
    return np.stack(words, axis=1).astype(np.uint32)


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 100 counters, after a comparison of `expected` with published words."""
    del random
    published = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # of Random123: counter 0, key 0
    assert expected(1, seed=0, stream=0)[0].tolist() == published
    return [Case(philox, (7, 9, np.zeros((100, 4), np.uint32)), (expected(100, seed=7, stream=9),))]


if __name__ == "__main__":
    run(cases)
