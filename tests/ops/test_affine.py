"""Generics with any affine maps: windows, contractions and broadcasts over random sizes and types."""

from __future__ import annotations

import random

import affine
import pytest
from harness import Body, examples, run
from hypothesis import given
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)


@examples(0.4)
@given(seed=SEEDS, sizes=st.sampled_from(["static", "dynamic", "mixed"]))
def test_any(seed: int, sizes: str) -> None:
    rng = random.Random(seed)
    body = Body(sizes, seed=seed % 1000, static=0.3, foldable=0.3)
    pair = affine.any_generic(body, rng)
    body.expect(*(affine.biased(body, pair, rng) if seed % 2 else pair))
    run(body)


@pytest.mark.parametrize("sizes", ["static", "dynamic"])
@pytest.mark.parametrize(("loops", "iterators", "operands"), [
    pytest.param([3, 2], "rp", ["d1, d0", "d0, d0 + 1", "d1"], id="a diagonal K"),
    pytest.param([9, 3, 4, 5], "prpp", ["d0, d1, d2", "d3, d1, d3 * 3 + d0", "d0, d2, d3"], id="diagonal rows"),
    pytest.param([3, 0], "rr", ["d0, d1", "d0 * 3", ""], id="a sum of nothing"),
])  # fmt: skip
def test_products(loops: list[int], iterators: str, operands: list[str], sizes: str) -> None:
    maps = affine.Maps(loops, iterators, [[i for i in text.split(", ") if i] for text in operands])
    body = Body(sizes)
    pairs = [body.numbers(maps.shape(n), "f32") for n in range(len(operands) - 1)]
    body.expect(*affine.generic(body, maps, pairs, body.numbers(maps.shape(-1), "f32"), "product"))
    run(body)
