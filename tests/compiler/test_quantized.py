"""Products of dequantized numbers: recognised in every form in which programs write them, exact, and left alone where
integers would not give the same numbers."""

from __future__ import annotations

import re
from typing import Any

import machine_levels
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

Array = np.ndarray[Any, Any]

M, K, N = 5, 36, 32
LEVELS = [
    (level, features)
    for level, features in (("generic", ""), ("x86-64-v4", "+avx512vnni"))
    if machine_levels.runs(level, features)
]  # fmt: skip


def dequantized(name: str, rows: int, columns: int, sign: str, scale: str, zero: str) -> tuple[str, str]:
    """(arguments, code) of the matrix %name. scale: "number", "rows" or "columns"; zero: "none", "number", "argument",
    "float" (taken off the float), or "rows" or "columns"."""
    shape = f"{rows}x{columns}"
    arguments = [f"%{name}q: tensor<{shape}xi8>"]
    maps, values, types, block, body = ["(i, j)"], [f"%{name}q"], [f"tensor<{shape}xi8>"], ["%q: i8"], []

    def vector(what: str, along: str, element: str) -> str:
        size = {"rows": f"{rows}x", "columns": f"{columns}x", "argument": ""}[along]
        arguments.append(f"%{name}{what}: tensor<{size}{element}>")
        maps.append({"rows": "(i)", "columns": "(j)", "argument": "()"}[along])
        values.append(f"%{name}{what}")
        types.append(f"tensor<{size}{element}>")
        block.append(f"%{what}: {element}")
        return f"%{what}"

    s = "%step" if scale == "number" else vector("s", scale, "f32")
    z = vector("z", zero, "i8") if zero in ("argument", "rows", "columns") else ""
    body.append(f"%w = arith.ext{'si' if sign == 's' else 'ui'} %q : i8 to i32")
    if z:
        body += [f"%zw = arith.ext{'si' if sign == 's' else 'ui'} {z} : i8 to i32", "%x = arith.subi %w, %zw : i32"]
    elif zero == "number":
        body += ["%zw = arith.constant 7 : i32", "%x = arith.subi %w, %zw : i32"]
    taken = "%x" if z or zero == "number" else "%w"
    body.append(f"%f = arith.sitofp {taken} : i32 to f32")
    if zero == "float":
        body += ["%zf = arith.constant 7.0 : f32", "%g = arith.subf %f, %zf : f32"]
    number = "%g" if zero == "float" else "%f"
    body.append(f"%r = arith.mulf {number}, {s} : f32" if rows % 2 else f"%r = arith.mulf {s}, {number} : f32")
    affine = ", ".join(f"affine_map<(i, j) -> {m}>" for m in [*maps, "(i, j)"])
    code = f"""
  %{name}e = tensor.empty() : tensor<{shape}xf32>
  %{name} = linalg.generic {{indexing_maps = [{affine}], iterator_types = ["parallel", "parallel"]}}
      ins({", ".join(values)} : {", ".join(types)}) outs(%{name}e : tensor<{shape}xf32>) {{
    ^bb0({", ".join(block)}, %o: f32):
      {chr(10).join(body)}
      linalg.yield %r : f32
  }} -> tensor<{shape}xf32>"""
    return ", ".join(arguments), code


def program(a: tuple[str, str], b: tuple[str, str], start: str = "0.0", weights: Array | None = None) -> str:
    """weights: what is stored of b, as a constant of the program."""
    arguments, constant = f"{a[0]}, {b[0]}", ""
    if weights is not None:
        name, _, rest = b[0].partition(", ")
        arguments = f"{a[0]}, {rest}" if rest else a[0]
        constant = f'{name.split(":")[0]} = arith.constant dense<"0x{weights.tobytes().hex()}"> : tensor<{K}x{N}xi8>'
    return f"""
func.func @f({arguments}) -> tensor<{M}x{N}xf32> {{
  {constant}
  %step = arith.constant 0.125 : f32
  {a[1]}
  {b[1]}
  %zero = arith.constant {start} : f32
  %e = tensor.splat %zero : tensor<{M}x{N}xf32>
  %r = linalg.matmul ins(%a, %b : tensor<{M}x{K}xf32>, tensor<{K}x{N}xf32>) outs(%e : tensor<{M}x{N}xf32>)
    -> tensor<{M}x{N}xf32>
  return %r : tensor<{M}x{N}xf32>
}}"""


def values(
    rng: np.random.Generator, rows: int, columns: int, sign: str, scale: str, zero: str
) -> tuple[list[Array], Array, Array]:
    """(arguments, stored numbers less the zero points, scales)."""
    kind = np.int8 if sign == "s" else np.uint8
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    stored = rng.integers(low, high, (rows, columns), kind, endpoint=True)
    arguments, numbers = [stored], stored.astype(np.int64)
    steps = np.full((1, 1), 0.125, np.float32)
    if scale != "number":
        vector = rng.uniform(0.01, 0.03, rows if scale == "rows" else columns).astype(np.float32)
        arguments.append(vector)
        steps = vector[:, None] if scale == "rows" else vector[None]
    if zero in ("argument", "rows", "columns"):
        sizes = {"argument": (), "rows": (rows,), "columns": (columns,)}[zero]
        zeros = rng.integers(low, high, sizes, kind, endpoint=True)
        arguments.append(zeros)
        numbers = numbers - (zeros.astype(np.int64)[:, None] if zero == "rows" else zeros.astype(np.int64))
    elif zero != "none":
        numbers = numbers - 7
    return [a.view(np.int8) if a.dtype == np.uint8 else a for a in arguments], numbers, steps


def is_integer(text: str, **options: Any) -> bool:
    """Whether a program multiplies integers in its product, rather than floats."""
    formed = compile_to("dispatches", text, targets="cpu", **options)
    bodies = "".join(re.findall(r'"reduction"\].*?linalg\.yield', formed, re.S))
    assert ("arith.muli" in bodies) != ("arith.mulf" in bodies)
    return "arith.muli" in bodies


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("cpu", "features"), LEVELS)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("u", "number", "number"), ("s", "number", "none")),
        (("s", "number", "none"), ("s", "columns", "none")),
        (("u", "number", "argument"), ("s", "columns", "columns")),
        (("s", "rows", "rows"), ("u", "number", "float")),
        (("s", "rows", "float"), ("u", "columns", "argument")),
        (("u", "rows", "columns"), ("u", "number", "number")),
    ],
)  # fmt: skip
def test_products_of_integers(
    a: tuple[str, str, str], b: tuple[str, str, str], cpu: str, features: str, constant: bool
) -> None:
    rng = np.random.default_rng(len(str((a, b))))
    (left, x, s), (right, y, t) = values(rng, M, K, *a), values(rng, K, N, *b)
    weights = right.pop(0) if constant else None
    text = program(dequantized("a", M, K, *a), dequantized("b", K, N, *b), weights=weights)
    recognised = a[2] != "columns"  # a zero point for each step of the sum
    options = {"cpu": cpu, "cpu_features": features}
    assert is_integer(text, **options) == recognised
    got = pd.device("cpu").load(pd.compile(text, targets="cpu", **options)).f(*left, *right)
    if recognised:
        np.testing.assert_array_equal(got, (x @ y).astype(np.float32) * (s * t))
    else:
        np.testing.assert_allclose(got, (x * s.astype(np.float64)) @ (y * t.astype(np.float64)), rtol=1e-4, atol=1e-2)


def test_what_the_sum_begins_with_is_added_after_scaling() -> None:
    rng = np.random.default_rng(1)
    sides = ("u", "number", "number"), ("s", "columns", "none")
    text = program(dequantized("a", M, K, *sides[0]), dequantized("b", K, N, *sides[1]), "2.5")
    (left, x, s), (right, y, t) = values(rng, M, K, *sides[0]), values(rng, K, N, *sides[1])
    assert is_integer(text)
    got = pd.device("cpu").load(pd.compile(text, targets="cpu")).f(*left, *right)
    np.testing.assert_array_equal(got, (x @ y).astype(np.float32) * (s * t) + np.float32(2.5))


def test_scales_that_differ_between_steps_stay_in_the_sum() -> None:
    for of_a, of_b in (("columns", "number"), ("number", "rows")):
        sides = dequantized("a", M, K, "u", of_a, "none"), dequantized("b", K, N, "s", of_b, "none")
        assert not is_integer(program(*sides))


def test_written_order_of_floats_is_kept_where_it_is_asked_for() -> None:
    sides = dequantized("a", M, K, "u", "number", "none"), dequantized("b", K, N, "s", "number", "none")
    assert is_integer(program(*sides))
    artifact = pd.compile(program(*sides), targets="cpu", reassociate=False)
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 256, (M, K), np.uint8), rng.integers(-128, 128, (K, N), np.int8)
    expected = np.zeros((M, N), np.float32)
    for k in range(K):  # multiples of 2^-6 below 2^18: exact in any order
        expected += a[:, k, None] * np.float32(0.125) * (b[k] * np.float32(0.125))
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).f(a.view(np.int8), b), expected)


@pytest.mark.parametrize(("steps", "fits"), [(33025, True), (33026, False)])
def test_sums_that_may_leave_i32_are_sums_of_floats(steps: int, fits: bool) -> None:
    a, b = dequantized("a", 1, steps, "u", "number", "none"), dequantized("b", steps, 1, "u", "number", "none")
    text = program(a, b).replace(f"{M}x{N}xf32", "1x1xf32").replace(f"{M}x{K}xf32", f"1x{steps}xf32")
    text = text.replace(f"{K}x{N}xf32", f"{steps}x1xf32")
    assert (255 * 255 * steps < 2**31) == fits
    formed = compile_to("dispatches", text, targets="cpu")
    assert ("arith.muli" in formed) == fits


def window(zero: int, layout: str) -> str:
    """A 3x3 convolution of a padded image of 8 channels."""
    maps = {"first": "(n, c, y + u, x + v)", "last": "(n, y + u, x + v, c)"}[layout]
    image, padded = {"first": ("1x8x6x7", "1x8x8x9"), "last": ("1x6x7x8", "1x8x9x8")}[layout]
    low = {"first": "0, 0, 1, 1", "last": "0, 1, 1, 0"}[layout]
    result, out = {"first": ("1x32x6x7", "(n, f, y, x)"), "last": ("1x6x7x32", "(n, y, x, f)")}[layout]
    loops = "(n, f, y, x, c, u, v)"
    return f"""
func.func @f(%q: tensor<{image}xi8>, %w: tensor<32x8x3x3xi8>, %s: tensor<32xf32>) -> tensor<{result}xf32> {{
  %e = tensor.empty() : tensor<{image}xf32>
  %x = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
      affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%q : tensor<{image}xi8>) outs(%e : tensor<{image}xf32>) {{
    ^bb0(%v: i8, %o: f32):
      %u = arith.extui %v : i8 to i32
      %z = arith.constant {zero} : i32
      %d = arith.subi %u, %z : i32
      %f = arith.sitofp %d : i32 to f32
      %t = arith.constant 0.25 : f32
      %r = arith.mulf %f, %t : f32
      linalg.yield %r : f32
  }} -> tensor<{image}xf32>
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[{low}] high[{low}] {{
    ^bb0(%a: index, %b: index, %c: index, %d: index):
      tensor.yield %zero : f32
  }} : tensor<{image}xf32> to tensor<{padded}xf32>
  %we = tensor.empty() : tensor<32x8x3x3xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a)>,
      affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%w, %s : tensor<32x8x3x3xi8>, tensor<32xf32>) outs(%we : tensor<32x8x3x3xf32>) {{
    ^bb0(%v: i8, %t: f32, %o: f32):
      %f = arith.sitofp %v : i8 to f32
      %r = arith.mulf %f, %t : f32
      linalg.yield %r : f32
  }} -> tensor<32x8x3x3xf32>
  %i = tensor.splat %zero : tensor<{result}xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<{loops} -> {maps}>, affine_map<{loops} -> (f, c, u, v)>,
      affine_map<{loops} -> {out}>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction",
      "reduction", "reduction"]}} ins(%p, %y : tensor<{padded}xf32>, tensor<32x8x3x3xf32>)
      outs(%i : tensor<{result}xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %n = arith.addf %o, %m : f32
      linalg.yield %n : f32
  }} -> tensor<{result}xf32>
  return %r : tensor<{result}xf32>
}}"""


def convolution(image: Array, filters: Array) -> Array:
    """[f, y, x] of integers, with padding."""
    padded = np.pad(image.astype(np.int64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.einsum("cyxuv,fcuv->fyx", windows, filters.astype(np.int64))


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("zero", [0, 120])
def test_padding_of_a_convolution_holds_zero_points(zero: int, layout: str) -> None:
    rng = np.random.default_rng(zero)
    image, filters = rng.integers(0, 256, (8, 6, 7), np.uint8), rng.integers(-128, 128, (32, 8, 3, 3), np.int8)
    scales = rng.uniform(0.01, 0.03, 32).astype(np.float32)
    sums = convolution(image.astype(np.int64) - zero, filters)
    expected = (sums.astype(np.float32) * (np.float32(0.25) * scales)[:, None, None])[None]
    text, last = window(zero, layout), layout == "last"
    given = np.moveaxis(image, 0, -1) if last else image
    assert "arith.muli" in compile_to("dispatches", text, targets="cpu")
    stored = np.ascontiguousarray(given[None]).view(np.int8)
    got = np.asarray(pd.device("cpu").load(pd.compile(text, targets="cpu")).f(stored, filters, scales))
    np.testing.assert_array_equal(np.moveaxis(got, -1, 1) if last else got, expected)


CHAIN = """
func.func @main(%a: tensor<1x16x6x7x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<1x16x6x7xf32> {{
  %v = stablehlo.constant() <{{value = dense<"0x{first}"> : tensor<32x16x3x3xi8>}}>
    : () -> tensor<32x16x3x3x!quant.uniform<i8:f32, 0.25>>
  %w = stablehlo.constant() <{{value = dense<"0x{second}"> : tensor<16x32x3x3xi8>}}>
    : () -> tensor<16x32x3x3x!quant.uniform<i8:f32, 0.5>>
  %x = stablehlo.uniform_dequantize %a
    : (tensor<1x16x6x7x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<1x16x6x7xf32>
  %y = stablehlo.uniform_dequantize %v
    : (tensor<32x16x3x3x!quant.uniform<i8:f32, 0.25>>) -> tensor<32x16x3x3xf32>
  %c = stablehlo.convolution(%x, %y) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x16x6x7xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x6x7xf32>
  %q = stablehlo.uniform_quantize %c : (tensor<1x32x6x7xf32>) -> tensor<1x32x6x7x!quant.uniform<u8:f32, 256.0:130>>
  %d = stablehlo.uniform_dequantize %q
    : (tensor<1x32x6x7x!quant.uniform<u8:f32, 256.0:130>>) -> tensor<1x32x6x7xf32>
  %z = stablehlo.uniform_dequantize %w
    : (tensor<16x32x3x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<16x32x3x3xf32>
  %r = stablehlo.convolution(%d, %z) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x32x6x7xf32>, tensor<16x32x3x3xf32>) -> tensor<1x16x6x7xf32>
  return %r : tensor<1x16x6x7xf32>
}}
"""


@pytest.mark.parametrize(("cpu", "features"), LEVELS)
def test_a_chain_of_convolutions_is_transposed_at_its_ends(cpu: str, features: str) -> None:
    rng = np.random.default_rng(7)
    image = rng.integers(0, 256, (16, 6, 7), np.uint8)
    first, second = (rng.integers(-128, 128, s, np.int8) for s in ((32, 16, 3, 3), (16, 32, 3, 3)))
    text = CHAIN.format(first=first.tobytes().hex(), second=second.tobytes().hex())
    options = {"targets": "cpu", "cpu": cpu, "cpu_features": features}
    middle = convolution(image.astype(np.int64) - 3, first).astype(np.float32) * np.float32(0.125)
    stored = np.clip(np.rint(middle / np.float32(256)) + 130, 0, 255)
    expected = convolution(stored - 130, second).astype(np.float32) * np.float32(128)
    names = re.findall(r"flow.dispatch @main\w*::@(\w+)", compile_to("dispatches", text, **options))
    assert ["transpose" in name for name in names] == [True, False, False, True], names
    got = pd.device("cpu").load(pd.compile(text, **options)).main(image[None])
    np.testing.assert_array_equal(got, expected[None])


def test_stablehlo_numbers_that_are_quantized() -> None:
    text = """
    func.func @main(%a: tensor<4x16x!quant.uniform<u8:f32, 0.5:3>>, %b: tensor<16x32x!quant.uniform<i8:f32, 0.25>>)
        -> tensor<4x32xf32> {
      %x = stablehlo.uniform_dequantize %a
        : (tensor<4x16x!quant.uniform<u8:f32, 0.5:3>>) -> tensor<4x16xf32>
      %y = stablehlo.uniform_dequantize %b
        : (tensor<16x32x!quant.uniform<i8:f32, 0.25>>) -> tensor<16x32xf32>
      %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
      return %r : tensor<4x32xf32>
    }"""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 256, (4, 16), np.uint8), rng.integers(-128, 128, (16, 32), np.int8)
    assert is_integer(text)
    expected = (a.astype(np.float32) - 3) @ b.astype(np.float32) * np.float32(0.125)
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text, targets="cpu")).main(a, b), expected)


@pytest.mark.parametrize(("row", "rows"), [(0, 1), (0, 3), (2, 3)])
@pytest.mark.parametrize("zero", [0, 7])
def test_row_at_a_constant_index_is_the_only_one_in_the_sum(row: int, rows: int, zero: int) -> None:
    text = f"""
    func.func @main(%x: tensor<{rows}x{K}xi8>, %w: tensor<{K}x{N}xi8>) -> tensor<1x{N}xf32> {{
      %zero_point = arith.constant {zero} : i32
      %row_empty = tensor.empty() : tensor<1x{K}xf32>
      %row = linalg.generic {{
          indexing_maps = [affine_map<(d0, d1) -> ({row}, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]}}
          ins(%x : tensor<{rows}x{K}xi8>) outs(%row_empty : tensor<1x{K}xf32>) {{
        ^bb0(%stored: i8, %unread: f32):
          %wide = arith.extui %stored : i8 to i32
          %shifted = arith.subi %wide, %zero_point : i32
          %float = arith.sitofp %shifted : i32 to f32
          linalg.yield %float : f32
      }} -> tensor<1x{K}xf32>
      %weights_empty = tensor.empty() : tensor<{K}x{N}xf32>
      %weights = linalg.generic {{
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]}}
          ins(%w : tensor<{K}x{N}xi8>) outs(%weights_empty : tensor<{K}x{N}xf32>) {{
        ^bb0(%stored: i8, %unread: f32):
          %float = arith.sitofp %stored : i8 to f32
          linalg.yield %float : f32
      }} -> tensor<{K}x{N}xf32>
      %start = arith.constant dense<0.0> : tensor<1x{N}xf32>
      %product = linalg.matmul ins(%row, %weights : tensor<1x{K}xf32>, tensor<{K}x{N}xf32>)
          outs(%start : tensor<1x{N}xf32>) -> tensor<1x{N}xf32>
      return %product : tensor<1x{N}xf32>
    }}"""
    rng = np.random.default_rng(row)
    x, w = rng.integers(0, 256, (rows, K), np.uint8), rng.integers(-128, 128, (K, N), np.int8)
    assert is_integer(text)
    expected = (x[row : row + 1].astype(np.float32) - zero) @ w.astype(np.float32)
    result = pd.device("cpu").load(pd.compile(text, targets="cpu")).main(x.view(np.int8), w)
    np.testing.assert_array_equal(result, expected)
