# ruff: noqa: E501  (lines of programs)
"""Attention whose heads share keys and values: one dispatch, however a model writes it, and right everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_maps import f32

import pydispatch as pd
from pydispatch.formats.artifact import dispatches

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def softmax(x: str, shape: tuple[int, ...]) -> str:
    """Along the last dimension, in StableHLO; the result is %{x}_s."""
    last, kept = len(shape) - 1, shape[:-1]
    back = ", ".join(map(str, range(last)))
    return f"""
  %{x}_lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %{x}_zero = stablehlo.constant dense<0.0> : tensor<f32>
  %{x}_m = stablehlo.reduce(%{x} init: %{x}_lowest) applies stablehlo.maximum across dimensions = [{last}] : ({f32(shape)}, tensor<f32>) -> {f32(kept)}
  %{x}_mb = stablehlo.broadcast_in_dim %{x}_m, dims = [{back}] : ({f32(kept)}) -> {f32(shape)}
  %{x}_d = stablehlo.subtract %{x}, %{x}_mb : {f32(shape)}
  %{x}_e = stablehlo.exponential %{x}_d : {f32(shape)}
  %{x}_n = stablehlo.reduce(%{x}_e init: %{x}_zero) applies stablehlo.add across dimensions = [{last}] : ({f32(shape)}, tensor<f32>) -> {f32(kept)}
  %{x}_nb = stablehlo.broadcast_in_dim %{x}_n, dims = [{back}] : ({f32(kept)}) -> {f32(shape)}
  %{x}_s = stablehlo.divide %{x}_e, %{x}_nb : {f32(shape)}
"""


def as_groups(t: int, s: int, groups: int, per: int, d: int) -> str:
    """A dimension for the heads of a group, which the softmax has first."""
    q, scores, moved, made = (t, groups, per, d), (groups, t, per, s), (per, groups, t, s), (groups, d, per, t)
    return f"""func.func @f(%q: {f32((t, groups * per, d))}, %k: {f32((s, groups, d))}, %v: {f32((s, groups, d))}) -> {f32((t, groups * per, d))} {{
  %qg = stablehlo.reshape %q : ({f32((t, groups * per, d))}) -> {f32(q)}
  %p = stablehlo.dot_general %qg, %k, batching_dims = [1] x [1], contracting_dims = [3] x [2] : ({f32(q)}, {f32((s, groups, d))}) -> {f32(scores)}
  %x = stablehlo.transpose %p, dims = [2, 0, 1, 3] : ({f32(scores)}) -> {f32(moved)}
  {softmax("x", moved)}
  %y = stablehlo.dot_general %v, %x_s, batching_dims = [1] x [1], contracting_dims = [0] x [3] : ({f32((s, groups, d))}, {f32(moved)}) -> {f32(made)}
  %z = stablehlo.transpose %y, dims = [3, 0, 2, 1] : ({f32(made)}) -> {f32(q)}
  %r = stablehlo.reshape %z : ({f32(q)}) -> {f32((t, groups * per, d))}
  return %r : {f32((t, groups * per, d))}
}}"""


def repeated(t: int, s: int, groups: int, per: int, d: int) -> str:
    """Keys and values are written once for each head."""
    heads = groups * per
    q, k, wide, all_ = (t, heads, d), (s, groups, d), (s, groups, per, d), (s, heads, d)
    body = "".join(
        f"  %{x}w = stablehlo.broadcast_in_dim %{x}, dims = [0, 1, 3] : ({f32(k)}) -> {f32(wide)}\n"
        f"  %{x}a = stablehlo.reshape %{x}w : ({f32(wide)}) -> {f32(all_)}\n" for x in "kv"
    )  # fmt: skip
    return f"""func.func @f(%q: {f32(q)}, %k: {f32(k)}, %v: {f32(k)}) -> {f32(q)} {{
{body}
  %x = stablehlo.dot_general %q, %ka, batching_dims = [1] x [1], contracting_dims = [2] x [2] : ({f32(q)}, {f32(all_)}) -> {f32((heads, t, s))}
  {softmax("x", (heads, t, s))}
  %y = stablehlo.dot_general %x_s, %va, batching_dims = [0] x [1], contracting_dims = [2] x [0] : ({f32((heads, t, s))}, {f32(all_)}) -> {f32((heads, t, d))}
  %r = stablehlo.transpose %y, dims = [1, 0, 2] : ({f32((heads, t, d))}) -> {f32(q)}
  return %r : {f32(q)}
}}"""


def expected(q: Array, k: Array, v: Array) -> Array:
    per = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), per, axis=1) for x in (k, v))
    scores = np.einsum("thd,shd->hts", q, k)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hts,shd->thd", shares / shares.sum(-1, keepdims=True), v)


def arrays(t: int, s: int, groups: int, per: int, d: int) -> list[Array]:
    rng = np.random.default_rng(t * s + d)
    return [rng.standard_normal(n, dtype=np.float32) for n in ((t, groups * per, d), (s, groups, d), (s, groups, d))]


SIZES = st.tuples(*(st.integers(1, n) for n in (20, 40, 3, 4, 20)))


@settings(max_examples=25, deadline=None)
@given(SIZES, st.sampled_from([as_groups, repeated]))
def test_any_sizes(sizes: tuple[int, int, int, int, int], text: object) -> None:
    artifact = pd.compile(text(*sizes), cpu=["native", "generic"])  # type: ignore[operator]
    given = arrays(*sizes)
    for workers in (1, 2):
        got = pd.device(f"cpu?workers={workers}").load(artifact).f(*given)
        np.testing.assert_allclose(got, expected(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", [as_groups, repeated])
@pytest.mark.parametrize("sizes", [(33, 50, 2, 4, 16), (1, 128, 3, 2, 64), (128, 128, 2, 4, 64)])
def test_one_dispatch(text: object, sizes: tuple[int, int, int, int, int]) -> None:
    artifact = pd.compile(text(*sizes))  # type: ignore[operator]
    assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["f"]) == 1
    given = arrays(*sizes)
    results = [pd.device(f"cpu?workers={n}").load(artifact).f(*given) for n in (1, 2, 3)]
    np.testing.assert_allclose(results[0], expected(*given), rtol=1e-4, atol=1e-5)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
