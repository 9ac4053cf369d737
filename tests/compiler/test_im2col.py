"""Convolutions over short rows of places: columns of what each place reads, then a product."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.fusion import im2col


def program(
    n: int | str, c: int, h: int, w: int, co: int, k: int, stride: int, dilation: int, dtype: str = "f32"
) -> str:
    """A padded convolution with a bias and a clamp, as models have them."""
    oh, ow = ((s + 2 - dilation * (k - 1) - 1) // stride + 1 for s in (h, w))
    x, p = f"tensor<{n}x{c}x{h}x{w}x{dtype}>", f"tensor<{n}x{c}x{h + 2}x{w + 2}x{dtype}>"
    f, y, b = f"tensor<{co}x{c}x{k}x{k}x{dtype}>", f"tensor<{n}x{co}x{oh}x{ow}x{dtype}>", f"tensor<{co}x{dtype}>"
    return f"""
func.func @conv(%x: {x}, %f: {f}, %bias: {b}) -> {y} {{
  %zero = arith.constant 0.0 : {dtype}
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {{
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : {dtype}
  }} : {x} to {p}
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : {dtype}) outs(%e : {y}) -> {y}
  %r = linalg.conv_2d_nchw_fchw
      {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<{dilation}> : tensor<2xi64>}}
      ins(%p, %f : {p}, {f}) outs(%z : {y}) -> {y}
  %s = linalg.generic {{indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (c)>,
      affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%r, %bias : {y}, {b}) outs(%e : {y}) {{
    ^bb0(%a: {dtype}, %o: {dtype}, %old: {dtype}):
      %sum = arith.addf %a, %o : {dtype}
      %top = arith.maximumf %sum, %zero : {dtype}
      linalg.yield %top : {dtype}
  }} -> {y}
  return %s : {y}
}}
"""


def expected(x: np.ndarray, f: np.ndarray, bias: np.ndarray, stride: int, dilation: int) -> np.ndarray:
    k = f.shape[2]
    p = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    reach = dilation * (k - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(p, (reach, reach), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    y = np.einsum("nchwij,ocij->nohw", windows, f.astype(np.float64)) + bias.astype(np.float64)[:, None, None]
    return np.maximum(y, 0)


def run(n: int, c: int, h: int, w: int, co: int, k: int, stride: int, dilation: int, dtype: str) -> list[str]:
    rng = np.random.default_rng(h * 100 + w)
    types = {"f32": np.float32, "f64": np.float64}
    sizes = (n, c, h, w), (co, c, k, k), (co,)
    x, f, bias = (rng.standard_normal(s).astype(types[dtype]) for s in sizes)
    artifact = pd.compile(program(n, c, h, w, co, k, stride, dilation, dtype), targets="cpu", cpu="native")
    function = pd.device("cpu").load(artifact).conv
    limit = 1e-5 if dtype == "f32" else 1e-12
    wanted = expected(x, f, bias, stride, dilation)
    np.testing.assert_allclose(function(x, f, bias), wanted, rtol=limit, atol=limit * 50)
    return function.plan_of(x, f, bias)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(3, 12), st.integers(3, 12), st.sampled_from([31, 32, 40]),
    st.sampled_from([1, 2, 3]), st.integers(1, 2), st.integers(1, 2), st.sampled_from(["f32", "f64"]),
)  # fmt: skip
def test_values(n: int, c: int, h: int, w: int, co: int, k: int, stride: int, dilation: int, dtype: str) -> None:
    run(n, c, h, w, co, k, stride, dilation, dtype)


def channels_last(n: int, c: int, h: int, w: int, co: int, k: int, stride: int) -> list[str]:
    """Runs a convolution of an image with channels last, compares it with NumPy, and returns its commands."""
    oh, ow = ((s - k) // stride + 1 for s in (h, w))
    x, f, y = f"tensor<{n}x{h}x{w}x{c}xf32>", f"tensor<{k}x{k}x{c}x{co}xf32>", f"tensor<{n}x{oh}x{ow}x{co}xf32>"
    artifact = pd.compile(f"""
func.func @conv(%x: {x}, %f: {f}) -> {y} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {y}
  %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
  %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %f : {x}, {f}) outs(%z : {y}) -> {y}
  return %r : {y}
}}
""", targets="cpu", cpu="native")  # fmt: skip
    function = pd.device("cpu").load(artifact).conv
    rng = np.random.default_rng(h * 100 + w)
    image, filter_ = (rng.standard_normal(s).astype(np.float32) for s in ((n, h, w, c), (k, k, c, co)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (k, k), (1, 2))[:, ::stride, ::stride]
    wanted = np.einsum("nhwcij,ijco->nhwo", windows, filter_, optimize=True)
    np.testing.assert_allclose(function(image, filter_), wanted, rtol=1e-4, atol=1e-4)
    return function.plan_of(image, filter_)


@settings(deadline=None, max_examples=15)
@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(3, 9), st.integers(3, 9), st.integers(1, 40), st.integers(1, 3),
    st.integers(1, 2),
)  # fmt: skip
def test_values_of_channels_last(n: int, c: int, h: int, w: int, co: int, k: int, stride: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYDISPATCH_CACHE_SIZE", "0")
        patch.setattr(im2col, "LARGE_FILTER", 1)
        patch.setattr(im2col, "FEWEST_PIXELS", 1)
        channels_last(n, c, h, w, co, k, stride)


@pytest.mark.parametrize(
    ("c", "co", "size", "dispatches"), [(256, 160, 10, 2), (256, 160, 7, 1), (16, 160, 10, 1), (256, 128, 17, 1)]
)
def test_where_it_pays_with_channels_last(c: int, co: int, size: int, dispatches: int) -> None:
    """Where the filter is large, and much larger than the columns, of which there are many."""
    assert len(channels_last(1, c, size, size, co, 3, 1)) == dispatches


@pytest.mark.parametrize(("co", "w", "dispatches"), [(64, 7, 2), (8, 7, 1), (64, 40, 1)])
def test_where_it_pays(co: int, w: int, dispatches: int) -> None:
    """Pad and columns are one dispatch, product and what follows another; few results or long rows stay as they are."""
    commands = run(1, 16, 7, w, co, 3, 1, 1, "f32")
    assert len(commands) == dispatches


def test_a_scalar_operand_after_it() -> None:
    """A scalar has no axes to collapse."""
    scalar = program(2, 16, 6, 6, 64, 3, 1, 1).replace("%bias: tensor<64xf32>", "%bias: f32")
    scalar = scalar.replace("(n, c, h, w) -> (c)", "(n, c, h, w) -> ()")
    scalar = scalar.replace(", tensor<64xf32>) outs", ", f32) outs")
    artifact = pd.compile(scalar, targets="cpu", cpu="native")
    rng = np.random.default_rng(6)
    x, f = (rng.standard_normal(s).astype(np.float32) for s in ((2, 16, 6, 6), (64, 16, 3, 3)))
    result = pd.device("cpu").load(artifact).conv(x, f, 0.5)
    wanted = expected(x, f, np.full(64, 0.5), 1, 1)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def test_a_dynamic_batch() -> None:
    """The size of the batch stays dynamic where rows and columns of the image become one dimension."""
    text = program("?", 16, 7, 7, 64, 3, 1, 1).replace(
        "  %e = tensor.empty()", "  %i = arith.constant 0 : index\n  %n = tensor.dim %x, %i : tensor<?x16x7x7xf32>\n"
        "  %e = tensor.empty(%n)"
    )  # fmt: skip
    formed = compile_to("dispatches", text, targets="cpu")
    assert "tensor<?x64x49xf32>" in formed and "-1x" not in formed
    artifact = pd.compile(text, targets="cpu", cpu="native")
    rng = np.random.default_rng(5)
    x, f, bias = (rng.standard_normal(s).astype(np.float32) for s in ((3, 16, 7, 7), (64, 16, 3, 3), (64,)))
    result = pd.device("cpu").load(artifact).conv(x, f, bias)
    np.testing.assert_allclose(result, expected(x, f, bias, 1, 1), rtol=1e-4, atol=1e-4)
