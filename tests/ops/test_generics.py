"""Elementwise operations, reductions, softmax and chains of them over random sizes, compared with NumPy."""

from __future__ import annotations

import generics
import pytest
from harness import LENGTHS, Body, examples, run
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.sampled_from(["static", "dynamic", "mixed"])
LENGTH = st.sampled_from(LENGTHS)
FLOATS = st.sampled_from(["f32", "f64", "f16", "bf16"])


@pytest.mark.parametrize("op", [*generics.UNARY, *generics.BINARY])
@examples(0.3)
@given(shape=st.lists(LENGTH, max_size=3), element=FLOATS, sizes=SIZES)
def test_elementwise(op, shape, element, sizes):
    body = Body(sizes, seed=len(shape))
    generics.elementwise(body, op, shape, element)
    run(body)


@pytest.mark.parametrize("op", generics.REDUCTIONS)
@examples(0.6)
@given(shape=st.lists(LENGTH, min_size=1, max_size=4), element=st.integers(0, 3), sizes=SIZES, data=st.data())
def test_reduction(op, shape, element, sizes, data):
    """Sums of small numbers are exact; products are of integers that wrap, or of a few floats."""
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True).map(sorted))
    floats = op.endswith("f") and not op.endswith("xorif")
    element = (["f32", "f64", "f32", "f64"] if floats else ["i8", "i16", "i32", "i64"])[element]
    if op == "arith.mulf":
        shape = [min(n, 3) for n in shape]
    body = Body(sizes, seed=sum(shape))
    generics.reduction(body, op, shape, axes, element)
    run(body)


@examples(2)
@given(shape=st.lists(LENGTH, min_size=1, max_size=3), axis=st.integers(0, 2), element=FLOATS, sizes=SIZES)
def test_softmax(shape, axis, element, sizes):
    axis = axis % len(shape)
    shape[axis] = max(1, shape[axis])
    body = Body(sizes, seed=sum(shape))
    generics.softmax(body, shape, axis, element)
    run(body)


@examples(1)
@given(rows=LENGTH, columns=LENGTH.filter(lambda n: n > 1), sizes=SIZES)
def test_layer_norm(rows, columns, sizes):
    body = Body(sizes, seed=rows)
    generics.layer_norm(body, rows, columns)
    run(body)


@examples(1.5)
@given(batch=st.sampled_from([1, 2, 3]), queries=LENGTH, keys=LENGTH.filter(bool), width=LENGTH, sizes=SIZES)
def test_attention(batch, queries, keys, width, sizes):
    body = Body(sizes, seed=queries)
    generics.attention(body, batch, queries, keys, width)
    run(body)
