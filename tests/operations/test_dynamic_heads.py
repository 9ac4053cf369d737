"""Attention whose numbers of heads, and whose size of a head, are those of a call, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import attention


def attended(b: Builder, query: Tensor, key: Tensor) -> Tensor:
    return attention.attend(b, query, key, key)[0]


@pytest.mark.parametrize("heads", [(4, 2), (6, 2), (3, 3), (3, 1)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_heads_share_keys_and_values(run, heads: tuple[int, int], dynamic: bool) -> None:
    random = np.random.default_rng(1)
    query, key = (random.standard_normal((2, n, m, 8)).astype(np.float32) for n, m in zip(heads, (6, 5), strict=True))
    (result,) = run(attended, query, key, dynamic=dynamic)
    keys = key.repeat(heads[0] // heads[1], axis=1)
    weights = np.exp(query @ keys.swapaxes(2, 3) / np.sqrt(8))
    np.testing.assert_allclose(result, weights / weights.sum(-1, keepdims=True) @ keys, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [(5, 2), (2, 4), (4, 0)])
def test_heads_that_do_not_divide_those_of_queries_are_refused(run, heads: tuple[int, int]) -> None:
    query, key = (np.ones((1, n, 3, 4), np.float32) for n in heads)
    with pytest.raises(pd.CompileError, match=f"{heads[1]} heads of keys and values do not divide {heads[0]} heads"):
        run(attended, query, key)
    message = "n1_1 heads of keys and values do not divide n0_1 heads" if heads[1] else "divided by zero"
    with pytest.raises(pd.InvalidArgumentError, match=message):
        run(attended, query, key, dynamic=True)
