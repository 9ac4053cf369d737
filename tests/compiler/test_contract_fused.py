"""Convolutions, quantised products, and contractions with what is fused in front of and behind them, against NumPy."""

from __future__ import annotations

import machine_levels
import numpy as np
import pytest
from test_contract import Array, check, random, run

import pydispatch as pd


def windows(x: Array, kernel: tuple[int, int], stride: int, dilation: int) -> Array:
    """(n, oh, ow, c, kh, kw) windows of an NHWC tensor."""
    span = tuple((k - 1) * dilation + 1 for k in kernel)
    seen = np.lib.stride_tricks.sliding_window_view(x, span, axis=(1, 2))
    return seen[:, ::stride, ::stride, :, ::dilation, ::dilation]


@pytest.mark.parametrize("level", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize(
    ("size", "channels", "filters", "kernel", "stride", "dilation"),
    [
        ((1, 9, 11), 5, 7, (3, 3), 1, 1), ((2, 16, 16), 16, 32, (3, 3), 1, 1), ((1, 30, 30), 3, 40, (5, 3), 2, 1),
        ((1, 20, 58), 64, 64, (3, 3), 1, 1), ((1, 12, 13), 4, 4, (2, 2), 1, 3), ((3, 7, 7), 33, 1, (1, 1), 1, 1),
    ],
)  # fmt: skip
def test_convolution_nhwc(
    size: tuple[int, int, int], channels: int, filters: int, kernel: tuple[int, int], stride: int, dilation: int,
    level: str,
) -> None:  # fmt: skip
    rng = np.random.default_rng(1)
    x = random(rng, (*size, channels), "f32")
    w = random(rng, (*kernel, channels, filters), "f32")
    expected = np.einsum("nhwcij,ijcf->nhwf", windows(x, kernel, stride, dilation), w)
    types = [f"tensor<{'x'.join(map(str, s))}xf32>" for s in (x.shape, w.shape, expected.shape)]
    text = f"""
func.func @f(%x: {types[0]}, %w: {types[1]}) -> {types[2]} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {types[2]}
  %z = linalg.fill ins(%zero : f32) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.conv_2d_nhwc_hwcf
      {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<{dilation}> : tensor<2xi64>}}
      ins(%x, %w : {types[0]}, {types[1]}) outs(%z : {types[2]}) -> {types[2]}
  return %r : {types[2]}
}}
"""
    check(run(text, x, w, cpu=level), expected, terms=channels * kernel[0] * kernel[1])


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_nchw(stride: int) -> None:
    rng = np.random.default_rng(2)
    x, w = random(rng, (2, 6, 15, 17), "f32"), random(rng, (9, 6, 3, 3), "f32")
    seen = windows(x.transpose(0, 2, 3, 1), (3, 3), stride, 1)
    expected = np.einsum("nhwcij,fcij->nfhw", seen, w)
    types = [f"tensor<{'x'.join(map(str, s))}xf32>" for s in (x.shape, w.shape, expected.shape)]
    text = f"""
func.func @f(%x: {types[0]}, %w: {types[1]}) -> {types[2]} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {types[2]}
  %z = linalg.fill ins(%zero : f32) outs(%e : {types[2]}) -> {types[2]}
  %r = linalg.conv_2d_nchw_fchw {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %w : {types[0]}, {types[1]}) outs(%z : {types[2]}) -> {types[2]}
  return %r : {types[2]}
}}
"""
    check(run(text, x, w), expected, terms=54)


@pytest.mark.parametrize("odd", [0, 1])
def test_convolution_of_bytes(odd: int) -> None:
    """i8 in pairs of K, with a K that has no last partner, behind a pad."""
    rng = np.random.default_rng(3)
    channels = 4 + odd
    x, w = random(rng, (1, 9, 9, channels), "i8"), random(rng, (3, 3, channels, 20), "i8")
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.einsum("nhwcij,ijcf->nhwf", windows(padded, (3, 3), 1, 1).astype(np.int32), w.astype(np.int32))
    t, p = f"tensor<1x9x9x{channels}xi8>", f"tensor<1x11x11x{channels}xi8>"
    text = f"""
func.func @f(%x: {t}, %w: tensor<3x3x{channels}x20xi8>) -> tensor<1x9x9x20xi32> {{
  %zero = arith.constant 0 : i32
  %none = arith.constant 0 : i8
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %none : i8
  }} : {t} to {p}
  %e = tensor.empty() : tensor<1x9x9x20xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<1x9x9x20xi32>) -> tensor<1x9x9x20xi32>
  %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%p, %w : {p}, tensor<3x3x{channels}x20xi8>) outs(%z : tensor<1x9x9x20xi32>) -> tensor<1x9x9x20xi32>
  return %r : tensor<1x9x9x20xi32>
}}
"""
    for level in machine_levels.of_this_machine("generic", "x86-64-v3", "native"):
        check(run(text, x, w, cpu=level), expected, "i32")


@pytest.mark.parametrize("known", [True, False], ids=["known zero points", "zero points as arguments"])
def test_quantised(known: bool) -> None:
    rng = np.random.default_rng(4)
    a, b = random(rng, (19, 33), "i8"), random(rng, (33, 21), "i8")
    za, zb = -128, 77
    expected = (a.astype(np.int32) - za) @ (b.astype(np.int32) - zb)
    head = f"%za = arith.constant {za} : i32\n  %zb = arith.constant {zb} : i32" if known else ""
    text = f"""
func.func @f(%a: tensor<19x33xi8>, %b: tensor<33x21xi8>{"" if known else ", %za: i32, %zb: i32"})
    -> tensor<19x21xi32> {{
  {head}
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<19x21xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<19x21xi32>) -> tensor<19x21xi32>
  %r = linalg.quantized_matmul ins(%a, %b, %za, %zb : tensor<19x33xi8>, tensor<33x21xi8>, i32, i32)
      outs(%z : tensor<19x21xi32>) -> tensor<19x21xi32>
  return %r : tensor<19x21xi32>
}}
"""
    extra = () if known else (np.int32(za), np.int32(zb))
    for level in ("generic", "native"):
        check(run(text, a, b, *extra, cpu=level), expected, "i32")


DENSE = """
#full = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#row = affine_map<(i, j) -> (i)>
#turned = affine_map<(i, j) -> (j, i)>
func.func @f(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>, %bias: tensor<{n}xf32>) -> ({results}) {{
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %ex = tensor.empty() : tensor<{m}x{k}xf32>
  %scaled = linalg.generic {{indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%x : tensor<{m}x{k}xf32>) outs(%ex : tensor<{m}x{k}xf32>) {{
  ^bb0(%v: f32, %o: f32):
    %y = arith.mulf %v, %two : f32
    linalg.yield %y : f32
  }} -> tensor<{m}x{k}xf32>
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %p = linalg.matmul ins(%scaled, %w : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
      outs(%z : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %h = linalg.generic {{indexing_maps = [#full, #column, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%p, %bias : tensor<{m}x{n}xf32>, tensor<{n}xf32>) outs(%e : tensor<{m}x{n}xf32>) {{
  ^bb0(%v: f32, %b: f32, %o: f32):
    %s = arith.addf %v, %b : f32
    %r = arith.maximumf %s, %zero : f32
    linalg.yield %r : f32
  }} -> tensor<{m}x{n}xf32>
  {tail}
}}
"""
TURN = """%et = tensor.empty() : tensor<{n}x{m}xf32>
  %t = linalg.generic {{indexing_maps = [#turned, #full], iterator_types = ["parallel", "parallel"]}}
      ins(%h : tensor<{m}x{n}xf32>) outs(%et : tensor<{n}x{m}xf32>) {{
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  }} -> tensor<{n}x{m}xf32>
  return %t : tensor<{n}x{m}xf32>"""


@pytest.mark.parametrize(("m", "k", "n"), [(1, 30, 10), (32, 64, 70), (45, 17, 33), (14, 32, 32), (0, 3, 3)])
@pytest.mark.parametrize("turned", [False, True])
def test_dense_layer(m: int, k: int, n: int, turned: bool) -> None:
    rng = np.random.default_rng(9)
    x, w, bias = random(rng, (m, k), "f32"), random(rng, (k, n), "f32"), random(rng, (n,), "f32")
    expected = np.maximum(2 * x @ w + bias, np.float32(0))
    sizes = {"m": m, "k": k, "n": n}
    tail = TURN.format(**sizes) if turned else f"return %h : tensor<{m}x{n}xf32>"
    results = f"tensor<{n}x{m}xf32>" if turned else f"tensor<{m}x{n}xf32>"
    text = DENSE.format(**sizes, tail=tail, results=results)
    check(run(text, x, w, bias), expected.T if turned else expected, terms=2 * k)


def test_a_dense_layer_is_one_dispatch() -> None:
    text = DENSE.format(m=40, k=50, n=60, tail="return %h : tensor<40x60xf32>", results="tensor<40x60xf32>")
    artifact = pd.compile(text, targets="cpu", cpu="generic")
    assert len(artifact.manifest.executables) == 1


@pytest.mark.parametrize("shape", [(3, 5), (64, 64), (1, 200)])
def test_several_results(shape: tuple[int, int]) -> None:
    """The product itself and what is computed from it leave together."""
    m, n = shape
    rng = np.random.default_rng(10)
    a, b = random(rng, (m, 20), "f32"), random(rng, (20, n), "f32")
    c = f"tensor<{m}x{n}xf32>"
    text = f"""
func.func @f(%a: tensor<{m}x20xf32>, %b: tensor<20x{n}xf32>) -> ({c}, {c}) {{
  %zero = arith.constant dense<0.0> : {c}
  %p = linalg.matmul ins(%a, %b : tensor<{m}x20xf32>, tensor<20x{n}xf32>) outs(%zero : {c}) -> {c}
  %q = arith.mulf %p, %p : {c}
  return %p, %q : {c}, {c}
}}
"""
    p, q = run(text, a, b)
    check(p, a @ b, terms=20)
    check(q, (a @ b) ** 2, terms=200)


def test_a_scatter_is_added_to_a_product() -> None:
    """What a scatter writes is not computed element by element, as other operands of the last operation are."""
    text = """
func.func @f(%x: tensor<6x4xf32>, %y: tensor<4x8xf32>, %rows: tensor<5x1xi64>, %given: tensor<5x1x8xf32>)
    -> tensor<6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %z = tensor.splat %zero : tensor<6x8xf32>
  %p = linalg.matmul ins(%x, %y : tensor<6x4xf32>, tensor<4x8xf32>) outs(%z : tensor<6x8xf32>) -> tensor<6x8xf32>
  %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%given, %rows : tensor<5x1x8xf32>, tensor<5x1xi64>) outs(%z : tensor<6x8xf32>) {
    ^bb0(%new: f32, %old: f32):
      %sum = arith.addf %old, %new : f32
      iree_linalg_ext.yield %sum : f32
  } -> tensor<6x8xf32>
  %r = arith.addf %p, %s : tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}
"""
    rng = np.random.default_rng(3)
    x, y, given = random(rng, (6, 4), "f32"), random(rng, (4, 8), "f32"), random(rng, (5, 1, 8), "f32")
    rows = np.array([[3], [0], [3], [5], [3]])
    expected = x @ y
    np.add.at(expected, rows[:, 0], given[:, 0])
    check(run(text, x, y, rows, given), expected, terms=7)
