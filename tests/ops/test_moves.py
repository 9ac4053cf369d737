"""Moves of elements, alone, in chains and between arithmetic, compared with NumPy."""

from __future__ import annotations

import random

import moves
import pytest
from harness import Body, examples, run
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.sampled_from(["static", "dynamic", "mixed"])
LENGTH = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17])
ELEMENTS = st.sampled_from(["i1", "i8", "i16", "i32", "i64", "index", "f16", "bf16", "f32", "f64"])
SEEDS = st.integers(0, 2**32 - 1)


def start(shape, element, sizes, seed):
    body = Body(sizes, seed=seed % 1000, foldable=0.3)
    return body, body.numbers(shape, element, 0, 2 if element == "i1" else 50)


@pytest.mark.parametrize("move", moves.MOVES, ids=lambda f: f.__name__)
@examples(0.6)
@given(shape=st.lists(LENGTH, min_size=0, max_size=4), element=ELEMENTS, sizes=SIZES, seed=SEEDS)
def test_one(move, shape, element, sizes, seed):
    body, pair = start(shape, element, sizes, seed)
    body.expect(*move(body, pair, random.Random(seed)))
    run(body)


@examples(8)
@given(shape=st.lists(LENGTH, min_size=1, max_size=3), element=ELEMENTS, sizes=SIZES, seed=SEEDS,
       length=st.integers(2, 7))  # fmt: skip
def test_chains(shape, element, sizes, seed, length):
    """Every value on the way may be a result too, so that it may not be written over."""
    rng = random.Random(seed)
    body, pair = start(shape, element, sizes, seed)
    for _ in range(length):
        pair = rng.choice(moves.MOVES)(body, pair, rng)
        if pair[1].size > 100_000:
            break
        if rng.random() < 0.3:
            body.expect(*pair)
    body.expect(*pair)
    run(body)


@examples(3)
@given(shape=st.lists(LENGTH, min_size=1, max_size=3), tiles=st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=3,
       max_size=3), element=ELEMENTS.filter(lambda e: e != "i1"), sizes=st.sampled_from(["static", "dynamic"]),
       seed=SEEDS, inner=st.sampled_from(["static", "static", "dynamic"]))  # fmt: skip
def test_pack_and_unpack(shape, tiles, element, sizes, seed, inner):
    rng = random.Random(seed)
    places = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.5 else []
    body = Body("dynamic" if inner == "dynamic" else sizes, seed=seed % 1000)
    packed, back = moves.pack(body, shape, tiles[: len(places)], places, order, rng.randint(0, 9), element, inner)
    body.expect(*back)
    if rng.random() < 0.6:
        body.expect(*packed)
    run(body)


@pytest.mark.parametrize(
    ("image", "element", "low", "high"),
    [((19, 28, 28), "i8", 0, 0), ((64, 14, 14), "f32", 0, 0), ((20, 5, 29), "i16", 1, 1), ((16, 28, 56), "i8", 1, 1),
     ((3, 17, 12), "f64", 0, 2)],
)  # fmt: skip
def test_channels_last(image, element, low, high):
    """Heights and widths of images, which tiles cover as one dimension, unless they are padded."""
    body, pair = start(image, element, "static", 1)
    if low or high:
        pair = moves.padded(body, pair, [0, low, low], [0, high, high], 7)
    value, array = pair
    result = array.transpose(1, 2, 0)
    out = body.empty(result.shape, element)
    types = f"ins({value} : {body.type_of(value)}) outs({out} : {body.type_of(out)})"
    body.expect(body.value(f"linalg.transpose {types} permutation = [1, 2, 0]", result.shape, element), result)
    run(body)
