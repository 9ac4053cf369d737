"""Convolutions and poolings over random sizes, strides, dilations and types, compared with NumPy."""

from __future__ import annotations

import convolutions
import pytest
from harness import INTEGERS, Body, examples, run
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.sampled_from(["static", "dynamic", "mixed"])
LENGTHS = st.fixed_dictionaries({
    **dict.fromkeys("ncgm", st.sampled_from([1, 2, 3])), "f": st.sampled_from([1, 2, 5, 16, 17]),
    **dict.fromkeys("xyz", st.sampled_from([1, 2, 3, 7, 9])), **dict.fromkeys("XYZ", st.sampled_from([1, 2, 3])),
})  # fmt: skip
STEPS = st.tuples(*[st.sampled_from([1, 2, 3])] * 3)


@pytest.mark.parametrize("op", convolutions.NAMED)
@examples(0.3)
@given(lengths=LENGTHS, steps=STEPS, gaps=STEPS, types=st.sampled_from(convolutions.TYPES), sizes=SIZES,
       zero=st.booleans(), none=st.sampled_from("......ncxf"))  # fmt: skip
def test_convolution(op, lengths, steps, gaps, types, sizes, zero, none):
    body = Body(sizes, seed=sum(lengths.values()))
    convolutions.convolution(body, op, {**lengths, none: 0}, steps, gaps, *types, zero)
    run(body)


@pytest.mark.parametrize("layout", convolutions.POOLED)
@examples(0.7)
@given(kind=st.sampled_from(["sum", "max", "min", "max_unsigned", "min_unsigned"]), lengths=LENGTHS, steps=STEPS,
       gaps=STEPS, element=st.sampled_from(["f32", "i32", "i8", "f16", "bf16", "f64", "i64"]), sizes=SIZES)  # fmt: skip
def test_pooling(layout, kind, lengths, steps, gaps, element, sizes):
    if kind.endswith("unsigned") and element not in INTEGERS:
        element = "i32"
    body = Body(sizes, seed=sum(lengths.values()))
    convolutions.pooling(body, layout, kind, lengths, steps, gaps, element)
    run(body)
