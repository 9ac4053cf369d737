"""Sliding windows with channels last against NumPy: depthwise convolutions and poolings with fused operations."""

from __future__ import annotations

from typing import Any

import machine_levels
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_contract import Array, run, tensor

import pydispatch as pd

DTYPES: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "f16": np.float16}
LEVELS = st.sampled_from(machine_levels.of_this_machine("generic", "x86-64-v3", "native"))
CHANNELS = st.sampled_from([0, 1, 7, 8, 16, 17, 32, 33, 130])
CHECKED = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def windows(x: Array, window: tuple[int, int], steps: tuple[int, int], gaps: tuple[int, int]) -> Array:
    """(n, h, w, c, kh, kw) of an NHWC tensor."""
    rows, columns = (
        np.arange((x.shape[1 + i] - (window[i] - 1) * gaps[i] - 1) // steps[i] + 1)[:, None] * steps[i]
        + np.arange(window[i]) * gaps[i]
        for i in (0, 1)
    )
    return np.moveaxis(x[:, rows][:, :, :, columns], (2, 4), (4, 5))


def attributes(steps: tuple[int, int], gaps: tuple[int, int]) -> str:
    return f"{{strides = dense<{list(steps)}> : tensor<2xi64>, dilations = dense<{list(gaps)}> : tensor<2xi64>}}"


def program(
    op: str, shapes: list[tuple[int, ...]], types: list[str], start: str, dynamic: bool, words: str,
    before: str = "", after: str = "",
) -> str:  # fmt: skip
    """%x, %w and the sizes of the result; before: lines that make %y of %x; after: lines that make %q of %r."""
    tx, tw, tr = (tensor(s, t, dynamic) for s, t in zip(shapes, types, strict=True))
    names = [f"%s{i}" for i in range(len(shapes[2]))]
    ty = tx
    if before:
        ty = tensor((shapes[0][0], shapes[0][1] + 2, shapes[0][2] + 2, shapes[0][3]), types[0], dynamic)
    return f"""
func.func @f(%x: {tx}, %w: {tw}, {", ".join(f"{n}: index" for n in names)}, %bias: {tensor(shapes[2][-1:], types[2])})
    -> {tr} {{
  %start = arith.constant {start} : {types[2]}
  {before.format(tx=tx, ty=ty) if before else ""}
  %e = tensor.empty({", ".join(names) if dynamic else ""}) : {tr}
  %z = linalg.fill ins(%start : {types[2]}) outs(%e : {tr}) -> {tr}
  %r = linalg.{op} {words} ins({"%y" if before else "%x"}, %w : {ty}, {tw}) outs(%z : {tr}) -> {tr}
  {after.format(tr=tr, tb=tensor(shapes[2][-1:], types[2])) if after else ""}
  return {"%q" if after else "%r"} : {tr}
}}
"""


PLACES = st.tuples(st.sampled_from([1, 2, 3, 5, 9]), st.sampled_from([1, 2, 3, 4, 7, 13, 70]))
WINDOW = st.tuples(st.sampled_from([1, 2, 3, 7]), st.sampled_from([1, 2, 3, 6]))
PAIR = st.tuples(st.sampled_from([1, 1, 2, 3]), st.sampled_from([1, 1, 2, 3]))


def image(
    rng: np.random.Generator, places: Any, window: Any, steps: Any, gaps: Any, channels: int, type_: str
) -> Array:
    sizes = [(p - 1) * s + (k - 1) * g + 1 for p, k, s, g in zip(places, window, steps, gaps, strict=True)]
    return rng.integers(-5, 6, (2, *sizes, channels)).astype(DTYPES[type_])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@CHECKED
@given(places=PLACES, window=WINDOW, steps=PAIR, gaps=PAIR, channels=CHANNELS, level=LEVELS,
       types=st.sampled_from([("f32", "f32"), ("i8", "i32"), ("f64", "f64"), ("f16", "f32")]))  # fmt: skip
def test_depthwise(
    dynamic: bool, places: Any, window: Any, steps: Any, gaps: Any, channels: int, level: str, types: tuple[str, str]
) -> None:
    rng = np.random.default_rng(1)
    x = image(rng, places, window, steps, gaps, channels, types[0])
    w = rng.integers(-5, 6, (*window, channels)).astype(DTYPES[types[0]])
    exact = np.int64 if types[1] == "i32" else np.float64
    seen = windows(x, window, steps, gaps).astype(exact)
    expected = np.einsum("nhwcij,ijc->nhwc", seen, w.astype(exact)).astype(DTYPES[types[1]])
    text = program("depthwise_conv_2d_nhwc_hwc", [x.shape, w.shape, expected.shape], [*types[:1] * 2, types[1]],
                   "0.0" if types[1][0] == "f" else "0", dynamic, attributes(steps, gaps))  # fmt: skip
    bias = np.zeros(channels, DTYPES[types[1]])
    np.testing.assert_array_equal(run(text, x, w, *expected.shape, bias, cpu=level), expected)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@CHECKED
@given(places=PLACES, window=WINDOW, steps=PAIR, gaps=PAIR, channels=CHANNELS, level=LEVELS,
       kind=st.sampled_from(["sum", "max", "min"]), type_=st.sampled_from(["f32", "i32", "i8"]))  # fmt: skip
def test_pooling(
    dynamic: bool, places: Any, window: Any, steps: Any, gaps: Any, channels: int, level: str, kind: str, type_: str
) -> None:
    rng = np.random.default_rng(2)
    x = image(rng, places, window, steps, gaps, channels, type_)
    axes, low = (-2, -1), {"f32": "0xFF800000", "i32": "-2147483648", "i8": "-128"}
    high = {"f32": "0x7F800000", "i32": "2147483647", "i8": "127"}
    seen = windows(x, window, steps, gaps)
    start = {"sum": "0.0" if type_ == "f32" else "0", "max": low[type_], "min": high[type_]}[kind]
    expected = {"sum": np.sum, "max": np.max, "min": np.min}[kind](seen, axis=axes).astype(x.dtype)
    shapes = [x.shape, window, expected.shape]
    text = program(f"pooling_nhwc_{kind}", shapes, [type_] * 3, start, dynamic, attributes(steps, gaps))
    bias, shape = np.zeros(channels, x.dtype), np.zeros(window, x.dtype)
    np.testing.assert_array_equal(run(text, x, shape, *expected.shape, bias, cpu=level), expected)


PAD = """%y = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %start : f32
  }} : {tx} to {ty}"""
BIAS_AND_CLAMP = """%q = linalg.generic {{indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>,
      affine_map<(n, h, w, c) -> (c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%r, %bias : {tr}, {tb}) outs(%e : {tr}) {{
    ^bb0(%p: f32, %o: f32, %old: f32):
      %sum = arith.addf %p, %o : f32
      %top = arith.maximumf %sum, %start : f32
      linalg.yield %top : f32
  }} -> {tr}"""


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("channels", [3, 16, 33])
@pytest.mark.parametrize("step", [1, 2])
def test_fused(dynamic: bool, channels: int, step: int) -> None:
    """A pad in front, a bias and a clamp behind."""
    rng = np.random.default_rng(3)
    x = rng.integers(-5, 6, (2, 11, 14, channels)).astype(np.float32)
    w = rng.integers(-5, 6, (3, 3, channels)).astype(np.float32)
    bias = rng.integers(-30, 31, channels).astype(np.float32)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = np.einsum("nhwcij,ijc->nhwc", windows(padded, (3, 3), (step, step), (1, 1)), w)
    text = program("depthwise_conv_2d_nhwc_hwc", [x.shape, w.shape, sums.shape], ["f32"] * 3, "0.0", dynamic,
                   attributes((step, step), (1, 1)), PAD, BIAS_AND_CLAMP)  # fmt: skip
    np.testing.assert_array_equal(run(text, x, w, *sums.shape, bias), np.maximum(sums + bias, 0))


@pytest.mark.parametrize("sign", ["+", "-"])
def test_padded_windows_along_growing_and_falling_rows(sign: str) -> None:
    """Windows read row h + i, lowest at the first step, or row h - i + 2, highest at the first step."""
    rng = np.random.default_rng(6)
    x = rng.integers(-5, 6, (2, 9, 11, 16)).astype(np.float32)
    w = rng.integers(-5, 6, (3, 3, 16)).astype(np.float32)
    row = "h + i" if sign == "+" else "h - i + 2"
    text = f"""
func.func @f(%x: tensor<2x9x11x16xf32>, %w: tensor<3x3x16xf32>) -> tensor<2x9x11x16xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x9x11x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x9x11x16xf32>) -> tensor<2x9x11x16xf32>
  %y = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
  }} : tensor<2x9x11x16xf32> to tensor<2x11x13x16xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(n, h, w, c, i, j) -> (n, {row}, w + j, c)>,
      affine_map<(n, h, w, c, i, j) -> (i, j, c)>, affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}}
      ins(%y, %w : tensor<2x11x13x16xf32>, tensor<3x3x16xf32>) outs(%z : tensor<2x9x11x16xf32>) {{
    ^bb0(%a: f32, %b: f32, %old: f32):
      %p = arith.mulf %a, %b : f32
      %sum = arith.addf %old, %p : f32
      linalg.yield %sum : f32
  }} -> tensor<2x9x11x16xf32>
  return %r : tensor<2x9x11x16xf32>
}}
"""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    weights = w if sign == "+" else w[::-1]
    expected = np.einsum("nhwcij,ijc->nhwc", windows(padded, (3, 3), (1, 1), (1, 1)), weights)
    np.testing.assert_array_equal(run(text, x, w), expected)


def test_a_nan_stays_in_its_windows() -> None:
    x = np.zeros((1, 5, 6, 16), np.float32)
    x[0, 2, 3, 5] = np.nan
    shapes = [x.shape, (3, 3), (1, 3, 4, 16)]
    text = program("pooling_nhwc_max", shapes, ["f32"] * 3, "0xFF800000", False, attributes((1, 1), (1, 1)))
    found = run(text, x, np.zeros((3, 3), np.float32), *shapes[2], np.zeros(16, np.float32))
    expected = windows(x, (3, 3), (1, 1), (1, 1)).max(axis=(-2, -1))
    assert np.isnan(expected).any() and not np.isnan(expected).all()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_extremes_of_windows_with_nan_and_zeros(k: int, kind: str, dtype: str, cpu: str) -> None:
    """NaN where one of a window is NaN, +0 above -0, infinities as they are."""
    x_type, w_type, y_type = (f"tensor<{s}x{dtype}>" for s in ("1x20x20x24", f"{k}x{k}", f"1x{21 - k}x{21 - k}x24"))
    start = {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}[dtype]
    start = start if kind == "max" else start.replace("0xF", "0x7", 1)
    text = f"""
func.func @f(%x: {x_type}, %w: {w_type}) -> {y_type} {{
  %start = arith.constant {start} : {dtype}
  %e = tensor.empty() : {y_type}
  %z = linalg.fill ins(%start : {dtype}) outs(%e : {y_type}) -> {y_type}
  %r = linalg.pooling_nhwc_{kind} {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %w : {x_type}, {w_type}) outs(%z : {y_type}) -> {y_type}
  return %r : {y_type}
}}
"""
    real = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(k)
    choices = np.array([np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, -1.0, 1.0], real)
    odds = [0.01, 0.01, 0.44, 0.24, 0.01, 0.09, 0.1, 0.1]
    x = rng.choice(choices, (1, 20, 20, 24), p=odds) * real(1 if kind == "max" else -1)
    y = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu=cpu)).f(x, np.zeros((k, k), real))
    seen = np.lib.stride_tricks.sliding_window_view(x, (k, k), (1, 2)).reshape(*y.shape, -1)
    best = getattr(np, kind)(seen, -1)  # NaN wins; of zeros any
    negative = np.signbit(seen).all(-1) if kind == "max" else np.signbit(seen).any(-1)
    expected = np.where(best == 0, np.where(negative, real(-0.0), real(0.0)), best)
    np.testing.assert_array_equal(y, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y)[numbers], np.signbit(expected)[numbers])
