"""Contractions over random sizes, types, loop orders and accumulators, compared with NumPy."""

from __future__ import annotations

import itertools

import contractions
import numpy as np
import pytest
from harness import LENGTHS, Body, examples, run
from hypothesis import given
from hypothesis import strategies as st

import pydispatch as pd

LENGTH = st.sampled_from(LENGTHS)
SIZES = st.sampled_from(["static", "dynamic", "mixed"])


@pytest.mark.parametrize("op", contractions.NAMED)
@examples(0.4)
@given(m=LENGTH, n=LENGTH, k=LENGTH, b=st.sampled_from([0, 1, 2, 3]), types=st.sampled_from(contractions.TYPES),
       sizes=SIZES, zero=st.booleans())  # fmt: skip
def test_named(op, m, n, k, b, types, sizes, zero):
    body = Body(sizes, seed=m + n + k)
    contractions.named(body, op, {"m": m, "n": n, "k": k, "b": b}, *types, zero)
    run(body)


@examples(3)
@given(
    equation=st.sampled_from([
        "mk,kn->mn", "km,nk->nm", "bmk,bnk->bmn", "mbk,bkn->mbn", "mk,kn->nm", "k,kn->n", "m,n->mn", "mkj,jkn->mn",
        "bmk,kn->bmn", "mk,nk->mn", "b,b->b", "bk,bk->b", "k,k->", "mkb,nkb->mnb",
    ]),
    lengths=st.tuples(LENGTH, LENGTH, LENGTH), b=st.sampled_from([1, 2, 3]), j=st.sampled_from([1, 2, 5]),
    types=st.sampled_from(contractions.TYPES), sizes=SIZES, order=st.randoms(use_true_random=False),
)  # fmt: skip
def test_generic(equation, lengths, b, j, types, sizes, order):
    used = sorted(set(equation) & set("mnkbj"))
    order.shuffle(used)
    m, n, k = lengths
    body = Body(sizes, seed=sum(lengths))
    contractions.generic(body, equation, {"m": m, "n": n, "k": k, "b": b, "j": j}, *types, used)
    run(body)


@examples(1)
@given(m=LENGTH, k=LENGTH, n=LENGTH, zeros=st.tuples(*[st.integers(-128, 127)] * 2), sizes=SIZES,
       batch=st.sampled_from([None, 1, 3]))  # fmt: skip
def test_quantized(m, k, n, zeros, sizes, batch):
    body = Body(sizes, seed=m + n + k)
    contractions.quantized(body, m, k, n, zeros, batch)
    run(body)


def test_native():
    """All types on this machine's own vectors, on sizes with every kind of edge."""
    bodies = []
    for types, (m, n, k) in itertools.product(contractions.TYPES, [(1, 67, 33), (67, 1, 31), (65, 70, 129)]):
        body = Body(seed=m)
        contractions.named(body, "matmul", {"m": m, "n": n, "k": k}, *types)
        bodies.append(body)
    run(*bodies, cpu="native")


@pytest.mark.parametrize("k", [0, 3])
def test_sums_that_begin_with_minus_zero(k):
    """Sums of no terms, and of terms that are -0, are the initial value, with its sign."""
    text = f"""func.func @f(%a: tensor<4x{k}xf32>, %b: tensor<{k}x16xf32>) -> tensor<4x16xf32> {{
      %start = arith.constant dense<-0.0> : tensor<4x16xf32>
      %r = linalg.matmul ins(%a, %b : tensor<4x{k}xf32>, tensor<{k}x16xf32>)
                         outs(%start : tensor<4x16xf32>) -> tensor<4x16xf32>
      return %r : tensor<4x16xf32> }}"""
    a, b = np.full((4, k), -0.0, np.float32), np.ones((k, 16), np.float32)
    assert np.signbit(pd.device("cpu").load(pd.compile(text)).f(a, b)).all()
