"""Sliding windows with channels first: depthwise convolutions and poolings, with padding and an epilogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pydispatch as pd

Pair = tuple[int, int]


def program(x: tuple[int, ...], y: tuple[int, ...], kind: str, k: Pair, steps: Pair, pad: Pair, type_: str) -> str:
    """kind: depthwise, max or sum. steps: (stride, dilation). pad: before and after both axes of places."""
    n, c, h, w = x
    padded = (n, c, h + sum(pad), w + sum(pad))
    tx, tp, ty = (f"tensor<{'x'.join(map(str, s))}x{type_}>" for s in (x, padded, y))
    tf = f"tensor<{c}x{k[0]}x{k[1]}x{type_}>"
    around = "0xFF800000" if kind == "max" and type_ == "f32" else "0xFFF0000000000000" if kind == "max" else "0.0"
    stride, dilation = steps
    place = f"y * {stride} + i * {dilation}, x * {stride} + j * {dilation}"
    step = {
        "depthwise": f"%p = arith.mulf %a, %b : {type_}\n      %t = arith.addf %acc, %p : {type_}",
        "max": f"%t = arith.maximumf %acc, %a : {type_}", "sum": f"%t = arith.addf %acc, %a : {type_}",
    }[kind]  # fmt: skip
    return f"""
func.func @f(%x: {tx}, %f: {tf}, %bias: tensor<{c}x{type_}>) -> {ty} {{
  %zero = arith.constant 0.0 : {type_}
  %start = arith.constant {around} : {type_}
  %q = tensor.pad %x low[0, 0, {pad[0]}, {pad[0]}] high[0, 0, {pad[1]}, {pad[1]}] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %start : {type_}
  }} : {tx} to {tp}
  %e = tensor.empty() : {ty}
  %z = linalg.fill ins(%start : {type_}) outs(%e : {ty}) -> {ty}
  %r = linalg.generic {{indexing_maps = [affine_map<(n, c, y, x, i, j) -> (n, c, {place})>,
      affine_map<(n, c, y, x, i, j) -> (c, i, j)>, affine_map<(n, c, y, x, i, j) -> (n, c, y, x)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
      ins(%q, %f : {tp}, {tf}) outs(%z : {ty}) {{
    ^bb0(%a: {type_}, %b: {type_}, %acc: {type_}):
      {step}
      linalg.yield %t : {type_}
  }} -> {ty}
  %s = linalg.generic {{indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (c)>,
      affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%r, %bias : {ty}, tensor<{c}x{type_}>) outs(%e : {ty}) {{
    ^bb0(%a: {type_}, %o: {type_}, %old: {type_}):
      %sum = arith.addf %a, %o : {type_}
      %top = arith.maximumf %sum, %zero : {type_}
      linalg.yield %top : {type_}
  }} -> {ty}
  return %s : {ty}
}}
"""


def check(n: int, c: int, h: int, w: int, kind: str, k: Pair, steps: Pair, pad: Pair, type_: str) -> list[str] | None:
    """The commands of a call with right results, of the same bits for every number of workers. None: no such window."""
    stride, dilation = steps
    reach = [(m - 1) * dilation + 1 for m in k]
    if h + sum(pad) < reach[0] or w + sum(pad) < reach[1]:
        return None
    dtype: Any = np.float32 if type_ == "f32" else np.float64
    rng = np.random.default_rng(h * 100 + w)
    x, f, bias = (rng.standard_normal(s).astype(dtype) for s in ((n, c, h, w), (c, *k), (c,)))
    around = -np.inf if kind == "max" else 0.0
    p = np.pad(x.astype(np.float64), ((0, 0), (0, 0), pad, pad), constant_values=around)
    windows = np.lib.stride_tricks.sliding_window_view(p, reach, (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    if kind == "depthwise":
        y = np.einsum("nchwij,cij->nchw", windows, f.astype(np.float64))
    else:
        y = windows.max((4, 5)) if kind == "max" else windows.sum((4, 5))
    expected = np.maximum(y + bias.astype(np.float64)[:, None, None], 0)
    artifact = pd.compile(program(x.shape, y.shape, kind, k, steps, pad, type_), targets="cpu", cpu="native")
    functions = [pd.device(f"cpu?workers={workers}").load(artifact).f for workers in (1, 2, 3)]
    results = [np.asarray(function(x, f, bias)) for function in functions]
    limit = 1e-5 if type_ == "f32" else 1e-12
    np.testing.assert_allclose(results[0], expected, rtol=limit, atol=limit * 10)
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    return functions[0].plan_of(x, f, bias)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 2), st.integers(1, 5), st.integers(1, 40), st.integers(1, 40),
    st.sampled_from(["depthwise", "max", "sum"]), st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 2)), st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from(["f32", "f64"]),
)  # fmt: skip
@example(1, 2, 3, 25, "max", (2, 1), (3, 1), (1, 0), "f32")
@example(1, 1, 2, 1, "depthwise", (3, 2), (2, 2), (1, 2), "f64")
@example(1, 5, 5, 1, "sum", (4, 1), (3, 1), (0, 0), "f64")
@example(1, 1, 1, 1, "depthwise", (2, 2), (2, 1), (1, 1), "f32")
def test_values(n: int, c: int, h: int, w: int, kind: str, k: Pair, steps: Pair, pad: Pair, type_: str) -> None:
    check(n, c, h, w, kind, k, steps, pad, type_)


@pytest.mark.parametrize("kind", ["depthwise", "max", "sum"])
def test_large_planes_in_one_dispatch(kind: str) -> None:
    """Planes larger than the first cache are cut into tiles of rows; padding and what follows are computed there."""
    assert len(check(1, 8, 150, 130, kind, (3, 3), (1, 1), (1, 1), "f32") or []) == 1
