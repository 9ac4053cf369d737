"""Windows, products, control flow, sizes as operands, quantized numbers and normalization against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.frontends.source import ReadOptions
from pydispatch.integrations.jax import module_of

Array = np.ndarray[Any, Any]


def t(shape: Any, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def listed(values: Any) -> str:
    return ", ".join(map(str, values))


def padded(x: Array, pads: Any, dilations: Any, fill: float) -> Array:
    """x with elements between neighbours and around."""
    spread = np.full([(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, dilations, strict=True)], fill, x.dtype)
    spread[tuple(slice(None, None, d) for d in dilations)] = x
    grown = np.pad(spread, [(max(a, 0), max(b, 0)) for a, b in pads], constant_values=fill)
    return grown[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pads, grown.shape, strict=True))]


def windows(x: Array, size: Any, strides: Any, dilations: Any) -> tuple[tuple[int, ...], Any]:
    """The shape of the result, and the window at each place."""
    reach = [(k - 1) * d + 1 for k, d in zip(size, dilations, strict=True)]
    out = tuple((n - r) // s + 1 for n, r, s in zip(x.shape, reach, strides, strict=True))

    def at(place: tuple[int, ...]) -> Array:
        return x[tuple(slice(p * s, p * s + r, d) for p, s, r, d in zip(place, strides, reach, dilations, strict=True))]

    return out, at


WINDOWS = [
    ((2, 3), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    ((2, 3), (2, 1), (1, 2), (1, 1), ((1, 0), (2, 2))),
    ((3, 2), (1, 3), (2, 1), (2, 1), ((0, 2), (1, -1))),
    ((1, 6), (1, 1), (1, 1), (1, 1), ((0, 0), (5, 0))),
]


@pytest.mark.parametrize(("size", "strides", "base", "dilations", "pads"), WINDOWS)
def test_windows(run: Any, size: Any, strides: Any, base: Any, dilations: Any, pads: Any) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (5, 6)).astype(np.float32)
    grown = padded(x, pads, base, -5)
    out, at = windows(grown, size, strides, dilations)
    text = f"""func.func @main(%x: tensor<5x6xf32>) -> {t(out)} {{
      %c = stablehlo.constant dense<-5.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: {listed(size)}>,
        window_strides = array<i64: {listed(strides)}>, base_dilations = array<i64: {listed(base)}>,
        window_dilations = array<i64: {listed(dilations)}>, padding = dense<{[list(p) for p in pads]}>
          : tensor<2x2xi64>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : (tensor<5x6xf32>, tensor<f32>) -> {t(out)}
      return %0 : {t(out)}
    }}"""
    expected = np.array([max(at(p).max(), -5) for p in np.ndindex(out)], np.float32).reshape(out)
    np.testing.assert_array_equal(run(text, x)[0], expected)


@pytest.mark.parametrize(("shape", "size", "pads", "out"), [
    ((0, 6), (1, 2), (0, 0), (0, 5)), ((0, 6), (1, 2), (2, 1), (3, 5)), ((5, 0), (2, 1), (0, 0), (4, 0)),
    ((2, 6), (3, 2), (0, 0), (0, 5)), ((0, 6), (3, 2), (1, 1), (0, 5)),
])  # fmt: skip
def test_windows_that_do_not_fit(run: Any, shape: Any, size: Any, pads: Any, out: Any) -> None:
    """As the specification says, an axis that is shorter than a window has none; windows of padding count."""
    (result,) = run(f"""func.func @main(%x: {t(shape)}) -> {t(out)} {{
      %c = stablehlo.constant dense<-5.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: {listed(size)}>,
        padding = dense<{[list(pads), [0, 0]]}> : tensor<2x2xi64>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }}) : ({t(shape)}, tensor<f32>) -> {t(out)}
      return %0 : {t(out)}
    }}""", np.ones(shape, np.float32))  # fmt: skip
    np.testing.assert_array_equal(result, np.full(out, -5, np.float32))


CONVOLUTIONS = [
    dict(groups=1, batches=1),
    dict(groups=2, batches=1, strides=(2, 1), pads=((1, 2), (0, 1))),
    dict(groups=4, batches=1, lhs=(2, 1), rhs=(1, 2), pads=((2, 1), (-1, 2))),
    dict(groups=1, batches=2, strides=(1, 2), reverse=(True, False)),
]


@pytest.mark.parametrize(
    "layout", ["[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "[f, 0, b, 1]x[o, 1, i, 0]->[1, b, f, 0]"]
)
@pytest.mark.parametrize("given", CONVOLUTIONS)
def test_convolutions(run: Any, given: dict[str, Any], layout: str) -> None:
    groups, batches = given["groups"], given["batches"]
    strides, pads = given.get("strides", (1, 1)), given.get("pads", ((0, 0), (0, 0)))
    lhs, rhs, reverse = given.get("lhs", (1, 1)), given.get("rhs", (1, 1)), given.get("reverse", (False, False))
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (2, 4, 6, 7)).astype(np.float32)  # batch, feature, spatial
    w = rng.integers(-4, 5, (8, 4 // groups, 3, 2)).astype(np.float32)  # output, input, spatial
    flipped = w[:, :, :: -1 if reverse[0] else 1, :: -1 if reverse[1] else 1]
    grown = padded(x, ((0, 0), (0, 0), *pads), (1, 1, *lhs), 0)
    spatial, at = windows(grown[0, 0], (3, 2), strides, rhs)
    count = 2 // batches
    expected = np.zeros((count, 8, *spatial), np.float32)
    for n, f in itertools.product(range(count), range(8)):
        group, part = f // (8 // groups), f // (8 // batches)
        for c in range(4 // groups):
            plane = grown[part * count + n if batches > 1 else n, group * (4 // groups) + c]
            _, at = windows(plane, (3, 2), strides, rhs)
            for place in np.ndindex(spatial):
                expected[(n, f, *place)] += (at(place) * flipped[f, c]).sum()

    def arranged(array: Array, words: str, names: str) -> Array:
        order = [names.index(word) for word in words.replace(" ", "").split(",")]
        return np.ascontiguousarray(array.transpose(order))

    image, kernel, result = (part.strip("[]") for part in layout.replace("->", "x").split("x"))
    x, w, expected = arranged(x, image, "bf01"), arranged(w, kernel, "oi01"), arranged(expected, result, "bf01")
    text = f"""func.func @main(%x: {t(x.shape)}, %w: {t(w.shape)}) -> {t(expected.shape)} {{
      %0 = stablehlo.convolution(%x, %w) dim_numbers = {layout}, window = {{stride = {list(strides)},
        pad = {[list(p) for p in pads]}, lhs_dilate = {list(lhs)}, rhs_dilate = {list(rhs)},
        reverse = {str(list(reverse)).lower()}}}
        {{batch_group_count = {batches}
          : i64, feature_group_count = {groups} : i64}}
        : ({t(x.shape)}, {t(w.shape)}) -> {t(expected.shape)}
      return %0 : {t(expected.shape)}
    }}"""
    np.testing.assert_array_equal(run(text, x, w)[0], expected)


@pytest.mark.parametrize(("element", "dtype", "result"), [
    ("f32", np.float32, "f32"), ("i8", np.int8, "i32"), ("ui8", np.uint8, "i32"), ("f16", np.float16, "f32"),
    ("i32", np.int32, "i32"), ("complex<f32>", np.complex64, "complex<f32>"),
])  # fmt: skip
def test_products(run: Any, element: str, dtype: Any, result: str) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 5, (2, 3, 4, 5)).astype(dtype), rng.integers(0, 5, (4, 2, 6, 5)).astype(dtype)
    text = f"""func.func @main(%x: {t(x.shape, element)}, %y: {t(y.shape, element)}) -> {t((2, 3, 6), result)} {{
      %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [3, 2] x [3, 0]
        : ({t(x.shape, element)}, {t(y.shape, element)}) -> {t((2, 3, 6), result)}
      return %0 : {t((2, 3, 6), result)}
    }}"""
    wide = np.complex128 if "complex" in element else np.float64
    np.testing.assert_allclose(run(text, x, y)[0], np.einsum("bmck,cbnk->bmn", x.astype(wide), y.astype(wide)), 1e-6)


def test_dot(run: Any) -> None:
    text = """func.func @main(%x: tensor<3x4xf32>, %v: tensor<4xf32>) -> (tensor<3xf32>, tensor<f32>) {
      %0 = stablehlo.dot %x, %v : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
      %1 = stablehlo.dot %v, %v, precision = [HIGH, DEFAULT] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
      return %0, %1 : tensor<3xf32>, tensor<f32>
    }"""
    x, v = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(4, dtype=np.float32)
    rows, square = run(text, x, v)
    np.testing.assert_array_equal(rows, x @ v)
    assert square == v @ v


def test_regions_of_several_values(run: Any) -> None:
    text = """func.func @main(%x: tensor<3x4xf32>, %i: tensor<3x4xi32>)
        -> (tensor<3xf32>, tensor<3xi32>, tensor<3x4xf32>) {
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %d = stablehlo.constant dense<1> : tensor<i32>
      %0:2 = stablehlo.reduce(%x init: %c), (%i init: %d) across dimensions = [1]
        : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
        reducer(%a: tensor<f32>, %b: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {
        %1 = func.call @join(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        %2 = stablehlo.multiply %j, %k : tensor<i32>
        stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
      }
      %3 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %4 = stablehlo.multiply %a, %b : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      return %0#0, %0#1, %3 : tensor<3xf32>, tensor<3xi32>, tensor<3x4xf32>
    }
    func.func private @join(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.add %a, %b : tensor<f32>
      return %0 : tensor<f32>
    }"""
    x, i = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    total, product, square = run(text, x, i)
    np.testing.assert_array_equal(total, x.sum(1))
    np.testing.assert_array_equal(product, i.prod(1))
    np.testing.assert_array_equal(square, x * x)


BRANCHES = """func.func @main(%p: tensor<i1>, %n: tensor<i32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.add %x, %x : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %2 = "stablehlo.case"(%n) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %3 = stablehlo.negate %x : tensor<4xf32>
    stablehlo.return %3 : tensor<4xf32>
  }, {
    %4 = stablehlo.multiply %x, %x : tensor<4xf32>
    stablehlo.return %4 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}"""


def test_branches(run: Any) -> None:
    import pydispatch as pd

    main = pd.device("cpu").load(pd.compile(BRANCHES)).main
    x = np.arange(4, dtype=np.float32)
    for p, n in itertools.product((True, False), (-1, 0, 1, 2, 3)):  # the last branch is that of all other numbers
        first, second = main(np.array(p), np.array(n, np.int32), x)
        np.testing.assert_array_equal(first, x + x if p else x)
        np.testing.assert_array_equal(second, {0: x, 1: -x}.get(n, x * x))


def test_a_loop_on_a_condition(run: Any) -> None:
    text = """func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
      %0:2 = stablehlo.while(%a = %x, %i = %n) : tensor<4xf32>, tensor<i32>
      cond {
        %c = stablehlo.constant dense<0> : tensor<i32>
        %1 = stablehlo.compare GT, %i, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %c = stablehlo.constant dense<2> : tensor<i32>
        %1 = stablehlo.subtract %i, %c : tensor<i32>
        %2 = stablehlo.add %a, %x : tensor<4xf32>
        stablehlo.return %2, %1 : tensor<4xf32>, tensor<i32>
      }
      return %0#0, %0#1 : tensor<4xf32>, tensor<i32>
    }"""
    x = np.arange(4, dtype=np.float32)
    for n in (0, 1, 7):
        values, rest = run(text, x, np.array(n, np.int32))
        np.testing.assert_array_equal(values, x * (1 + (n + 1) // 2))
        assert rest == n - 2 * ((n + 1) // 2)


@pytest.mark.parametrize("bound", [0, 1, 5])
def test_a_loop_that_counts(run: Any, bound: int) -> None:
    """The rows that the counter chooses are summed, also where the bound is 0."""
    text = f"""func.func @main(%x: tensor<5x3xf32>) -> (tensor<3xf32>, tensor<i32>) {{
      %z = stablehlo.constant dense<0.0> : tensor<3xf32>
      %c = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<{bound}> : tensor<i32>
      %0:2 = stablehlo.while(%i = %c, %a = %z) : tensor<i32>, tensor<3xf32>
      cond {{
        %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %1 = stablehlo.dynamic_slice %x, %i, %c, sizes = [1, 3]
          : (tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
        %2 = stablehlo.reshape %1 : (tensor<1x3xf32>) -> tensor<3xf32>
        %3 = stablehlo.add %a, %2 : tensor<3xf32>
        %4 = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %4, %3 : tensor<i32>, tensor<3xf32>
      }}
      return %0#1, %0#0 : tensor<3xf32>, tensor<i32>
    }}"""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    total, number = run(text, x)
    np.testing.assert_array_equal(total, x[:bound].sum(0))
    assert number == bound


@pytest.mark.parametrize(("element", "start", "step", "expected"), [
    ("i8", 0, 1, -24), ("ui8", 250, 255, 18), ("i64", 2**63 - 1, 1, 999 - 2**63), ("ui64", 2**64 - 1, 2, 1999),
    ("i32", 0, 3, 3000),
])  # fmt: skip
def test_numbers_that_a_loop_advances_wrap_around(run: Any, element: str, start: int, step: int, expected: int) -> None:
    text = f"""func.func @main() -> tensor<{element}> {{
      %c = stablehlo.constant dense<0> : tensor<i32>
      %s = stablehlo.constant dense<{start}> : tensor<{element}>
      %0:2 = stablehlo.while(%i = %c, %n = %s) : tensor<i32>, tensor<{element}>
      cond {{
        %end = stablehlo.constant dense<1000> : tensor<i32>
        %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %by = stablehlo.constant dense<{step}> : tensor<{element}>
        %1 = stablehlo.add %i, %one : tensor<i32>
        %2 = stablehlo.add %n, %by : tensor<{element}>
        stablehlo.return %1, %2 : tensor<i32>, tensor<{element}>
      }}
      return %0#1 : tensor<{element}>
    }}"""
    assert run(text)[0] == expected


def test_a_counter_that_overflows_its_type_counts_on(run: Any) -> None:
    text = """func.func @main() -> (tensor<i8>, tensor<i32>) {
      %c = stablehlo.constant dense<0> : tensor<i8>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%i = %c, %n = %z) : tensor<i8>, tensor<i32>
      cond {
        %end = stablehlo.constant dense<120> : tensor<i8>
        %1 = stablehlo.compare LT, %i, %end : (tensor<i8>, tensor<i8>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %fifty = stablehlo.constant dense<50> : tensor<i8>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %1 = stablehlo.add %i, %fifty : tensor<i8>
        %2 = stablehlo.add %n, %one : tensor<i32>
        stablehlo.return %1, %2 : tensor<i8>, tensor<i32>
      }
      return %0#0, %0#1 : tensor<i8>, tensor<i32>
    }"""
    assert run(text) == [126, 23]  # 23 * 50 is 126 modulo 256


def test_a_loop_that_counts_beside_constants_that_are_no_integers(run: Any) -> None:
    text = """func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<complex<f32>>, tensor<f32>) {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %z = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
      %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %0:4 = stablehlo.while(%i = %c, %a = %x, %b = %z, %d = %nan)
          : tensor<i32>, tensor<f32>, tensor<complex<f32>>, tensor<f32>
       cond {
        %n = stablehlo.constant dense<3> : tensor<i32>
        %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %2 = stablehlo.add %i, %one : tensor<i32>
        %3 = stablehlo.add %a, %a : tensor<f32>
        stablehlo.return %2, %3, %b, %d : tensor<i32>, tensor<f32>, tensor<complex<f32>>, tensor<f32>
      }
      return %0#1, %0#2, %0#3 : tensor<f32>, tensor<complex<f32>>, tensor<f32>
    }"""
    doubled, z, nan = run(text, np.float32(0.5))
    assert (doubled, z) == (4.0, 1 + 2j) and np.isnan(nan)


def test_sizes_as_operands(run: Any) -> None:
    """Sizes come from the argument, or are computed and read back."""
    text = """func.func @main(%x: tensor<?x6xf32>, %s: tensor<2xi32>)
        -> (tensor<?x?xf32>, tensor<?x3xf32>, tensor<?x6xf32>, tensor<?x?xf32>, tensor<?xi32>, tensor<?x6xf32>) {
      %two = stablehlo.constant dense<2> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<2xi32>
      %one = stablehlo.constant dense<1> : tensor<2xi32>
      %c = stablehlo.constant dense<9.0> : tensor<f32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>
      %m = stablehlo.multiply %n, %two : tensor<i32>
      %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %m1 = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
      %three = stablehlo.constant dense<3> : tensor<1xi32>
      %six = stablehlo.constant dense<6> : tensor<1xi32>
      %shape = stablehlo.concatenate %m1, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %whole = stablehlo.concatenate %n1, %six, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %0 = stablehlo.dynamic_pad %x, %c, %one, %zero, %one
        : (tensor<?x6xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
      %1 = stablehlo.dynamic_reshape %x, %shape : (tensor<?x6xf32>, tensor<2xi32>) -> tensor<?x3xf32>
      %2 = stablehlo.real_dynamic_slice %x, %zero, %whole, %one
        : (tensor<?x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x6xf32>
      %3 = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x?xf32>
      %4 = stablehlo.dynamic_iota %m1, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
      %5 = stablehlo.set_dimension_size %x, %two, dim = 0
        : (tensor<?x6xf32>, tensor<i32>) -> tensor<?x6xf32, #stablehlo.bounds<9, ?>>
      %6 = stablehlo.convert %5 : (tensor<?x6xf32, #stablehlo.bounds<9, ?>>) -> tensor<?x6xf32>
      return %0, %1, %2, %3, %4, %6
        : tensor<?x?xf32>, tensor<?x3xf32>, tensor<?x6xf32>, tensor<?x?xf32>, tensor<?xi32>, tensor<?x6xf32>
    }"""
    for n in (2, 5):
        x = np.arange(n * 6, dtype=np.float32).reshape(n, 6)
        grown, reshaped, taken, full, count, first = run(text, x, np.array([2, 3], np.int32))
        np.testing.assert_array_equal(grown, padded(x, ((1, 0), (1, 0)), (2, 2), 9))
        np.testing.assert_array_equal(reshaped, x.reshape(2 * n, 3))
        np.testing.assert_array_equal(taken, x)
        np.testing.assert_array_equal(full, np.full((2, 3), 9, np.float32))
        np.testing.assert_array_equal(count, np.arange(2 * n))
        np.testing.assert_array_equal(first, x[:2])


@pytest.mark.parametrize(("element", "size"), [("ui8", 200), ("ui16", 40000), ("ui32", 3)])
def test_unsigned_sizes_as_operands(run: Any, element: str, size: int) -> None:
    text = f"""func.func @main(%s: tensor<1x{element}>) -> tensor<?xi32> {{
      %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1x{element}>) -> tensor<?xi32>
      return %0 : tensor<?xi32>
    }}"""
    (indices,) = run(text, np.array([size], element.replace("ui", "uint")))
    np.testing.assert_array_equal(indices, np.arange(size))


def test_strides_that_are_operands(run: Any) -> None:
    """They are computed in each call; a stride of 0 fails it."""
    text = """func.func @main(%x: tensor<7x6xf32>, %t: tensor<2xi64>) -> tensor<?x?xf32> {
      %s = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
      %n = stablehlo.constant dense<[7, 5]> : tensor<2xi64>
      %0 = stablehlo.real_dynamic_slice %x, %s, %n, %t
        : (tensor<7x6xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    x = np.arange(42, dtype=np.float32).reshape(7, 6)
    for rows, columns in ((1, 1), (2, 3), (9, 2)):
        (taken,) = run(text, x, np.array([rows, columns]))
        np.testing.assert_array_equal(taken, x[1:7:rows, 0:5:columns])
    with pytest.raises(pd.Error, match=r"the stride of axis 1 .* is not positive"):
        run(text, x, np.array([1, 0]))


@pytest.mark.parametrize("shape", ["8", "2x3"])
def test_random_state_of_32_bit_words(run: Any, shape: str) -> None:
    """The words are those of a state of 64-bit numbers, but the upper half of the counter is first."""
    text = """func.func @main(%w: tensor<4xi32>, %s: tensor<2xui64>)
        -> (tensor<4xi32>, tensor<SHAPExi32>, tensor<SHAPExi32>) {
      %0:2 = "stablehlo.rng_bit_generator"(%w) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}
        : (tensor<4xi32>) -> (tensor<4xi32>, tensor<SHAPExi32>)
      %1:2 = "stablehlo.rng_bit_generator"(%s) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<SHAPExi32>)
      return %0#0, %0#1, %1#1 : tensor<4xi32>, tensor<SHAPExi32>, tensor<SHAPExi32>
    }""".replace("SHAPE", shape)
    words = np.array([7, -2, 3, -1], np.int32)
    key, counter = (7 | (2**32 - 2) << 32), (3 << 32 | (2**32 - 1))
    after, found, expected = run(text, words, np.array([key, counter], np.uint64))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(after, [7, -2, 4, found.size // 2 - 1])


def test_random_state_that_no_algorithm_has(run: Any) -> None:
    text = """func.func @main(%w: tensor<3xi32>) -> tensor<8xi32> {
      %0:2 = "stablehlo.rng_bit_generator"(%w) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}
        : (tensor<3xi32>) -> (tensor<3xi32>, tensor<8xi32>)
      return %0#1 : tensor<8xi32>
    }"""
    with pytest.raises(pd.CompileError, match=r"take a state u64\[2\], got i32"):
        run(text, np.zeros(3, np.int32))


# -- quantized numbers


def quantized(x: Array, scale: Any, zero: Any, low: int, high: int) -> Array:
    return np.clip(np.rint(x / scale) + zero, low, high)


@pytest.mark.parametrize(("type", "scale", "zero", "low", "high"), [
    ("i8:f32, 0.5:-3", 0.5, -3, -128, 127),
    ("u8:f32, 0.25:128", 0.25, 128, 0, 255),
    ("i8<-127:127>:f32, 0.125", 0.125, 0, -127, 127),
    ("i4:f32, 2.0:1", 2.0, 1, -8, 7),
    ("i8:f32:1, {0.5, 0.25:3, 1.0}", [0.5, 0.25, 1.0], [0, 3, 0], -128, 127),
    ("i8:f32:0, {0.5, 0.25}", [[0.5], [0.25]], [[0], [0]], -128, 127),
    ("i8:f32:{0:2, 1:1}, {{0.5, 0.25, 1.0}}", [0.5, 0.25, 1.0], 0, -128, 127),
])  # fmt: skip
def test_quantized_numbers(run: Any, type: str, scale: Any, zero: Any, low: int, high: int) -> None:
    q = f"tensor<2x3x!quant.uniform<{type}>>"
    text = f"""func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {{
      %0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {q}
      %1 = stablehlo.add %0, %0 : {q}
      %2 = stablehlo.uniform_dequantize %0 : ({q}) -> tensor<2x3xf32>
      %3 = stablehlo.uniform_dequantize %1 : ({q}) -> tensor<2x3xf32>
      return %2, %3 : tensor<2x3xf32>, tensor<2x3xf32>
    }}"""
    x = np.array([[0.3, -2.6, 500], [1.25, 7.0, -3.75]], np.float32)
    scale, zero = np.asarray(scale, np.float32), np.asarray(zero)
    once, twice = run(text, x)
    expected = (quantized(x, scale, zero, low, high) - zero) * scale
    np.testing.assert_array_equal(once, expected.astype(np.float32))
    doubled = (quantized(2 * expected, scale, zero, low, high) - zero) * scale
    np.testing.assert_array_equal(twice, doubled.astype(np.float32))


@pytest.mark.parametrize(("type", "stored", "expected"), [
    ("u32:f32, 0.5", np.array([1, 4000000000], np.uint32), [0.5, 2e9]),
    ("i32:f32, 1.0:-1000000000", np.array([5, 2000000000], np.int32), [1000000005, 3e9]),
])  # fmt: skip
def test_numbers_of_stored_integers_of_32_bits_do_not_wrap(run: Any, type: str, stored: Array, expected: Any) -> None:
    q = f"tensor<2x!quant.uniform<{type}>>"
    text = f"""func.func @main(%x: {q}) -> tensor<2xf32> {{
      %0 = stablehlo.uniform_dequantize %x : ({q}) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }}"""
    np.testing.assert_allclose(run(text, stored)[0], expected, 1e-6)


def test_a_quantized_product(run: Any) -> None:
    a, w, r = (f"!quant.uniform<{text}>" for text in ("i8:f32, 0.5:2", "i8:f32:1, {0.25, 0.5, 1.0}", "i8:f32, 4.0"))
    text = f"""func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {{
      %w = stablehlo.constant() <{{value = dense<[[1, 2, 3], [-4, 5, -6], [7, 8, 9], [0, 1, -1]]> : tensor<4x3xi8>}}>
        : () -> tensor<4x3x{w}>
      %0 = stablehlo.uniform_quantize %x : (tensor<2x4xf32>) -> tensor<2x4x{a}>
      %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
        : (tensor<2x4x{a}>, tensor<4x3x{w}>) -> tensor<2x3x{r}>
      %2 = stablehlo.uniform_dequantize %1 : (tensor<2x3x{r}>) -> tensor<2x3xf32>
      return %2 : tensor<2x3xf32>
    }}"""
    x = np.array([[1, -2, 3.5, 4], [0.5, 0, -7, 2]], np.float32)
    w_ = np.array([[1, 2, 3], [-4, 5, -6], [7, 8, 9], [0, 1, -1]]) * [0.25, 0.5, 1.0]
    np.testing.assert_array_equal(run(text, x)[0], quantized(x @ w_, 4.0, 0, -128, 127) * 4.0)


# -- batch normalization


def test_batch_normalization(run: Any) -> None:
    rng = np.random.default_rng(3)
    x, above = (rng.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(2))
    scale, offset = (rng.normal(size=4).astype(np.float32) for _ in range(2))
    at = "epsilon = 1.0e-03 : f32, feature_index = 2 : i64"
    c, whole = "tensor<4xf32>", "tensor<2x3x4xf32>"
    three = f"({whole}, {c}, {c})"
    text = f"""func.func @main(%x: {whole}, %s: {c}, %o: {c}, %g: {whole})
        -> ({whole}, {c}, {c}, {whole}, {whole}, {c}, {c}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{{{at}}}> : {three} -> {three}
      %1 = "stablehlo.batch_norm_inference"(%x, %s, %o, %0#1, %0#2) <{{{at}}}>
        : ({whole}, {c}, {c}, {c}, {c}) -> {whole}
      %2:3 = "stablehlo.batch_norm_grad"(%x, %s, %0#1, %0#2, %g) <{{{at}}}>
        : ({whole}, {c}, {c}, {c}, {whole}) -> {three}
      return %0#0, %0#1, %0#2, %1, %2#0, %2#1, %2#2 : {whole}, {c}, {c}, {whole}, {whole}, {c}, {c}
    }}"""
    found = run(text, x, scale, offset, above)
    wide, g = x.astype(np.float64), above.astype(np.float64)
    mean, variance = wide.mean((0, 1)), wide.var((0, 1))
    root = np.sqrt(variance + 1e-3)
    unit = (wide - mean) / root
    normal = unit * scale + offset
    of_scale, of_offset = (g * unit).sum((0, 1)), g.sum((0, 1))
    of_x = scale / root / 6 * (6 * g - of_offset - unit * of_scale)
    for got, expected in zip(found, (normal, mean, variance, normal, of_x, of_scale, of_offset), strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-5)


# -- random numbers, transforms, systems


def test_random_numbers(run: Any) -> None:
    text = """func.func @main() -> (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xi32>) {
      %n = stablehlo.constant dense<1000> : tensor<1xi64>
      %a = stablehlo.constant dense<2.0> : tensor<f32>
      %b = stablehlo.constant dense<5.0> : tensor<f32>
      %i = stablehlo.constant dense<-3> : tensor<i32>
      %j = stablehlo.constant dense<4> : tensor<i32>
      %0 = stablehlo.rng %a, %b, %n, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<1000xf32>
      %1 = stablehlo.rng %a, %b, %n, distribution = NORMAL
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<1000xf32>
      %2 = stablehlo.rng %i, %j, %n, distribution = UNIFORM
        : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<1000xi32>
      return %0, %1, %2 : tensor<1000xf32>, tensor<1000xf32>, tensor<1000xi32>
    }"""
    uniform, normal, whole = run(text)
    assert uniform.min() >= 2 and uniform.max() < 5 and abs(uniform.mean() - 3.5) < 0.1
    assert abs(normal.mean() - 2) < 0.6 and abs(normal.std() - 5) < 0.5 and np.isfinite(normal).all()
    assert set(whole.tolist()) == set(range(-3, 4))


@pytest.mark.parametrize(("kind", "lengths"), [("FFT", (6,)), ("IFFT", (4, 6)), ("RFFT", (6,)), ("RFFT", (4, 6)),
                                               ("IRFFT", (10,)), ("IRFFT", (4, 11)), ("FFT", (3, 4, 6))])  # fmt: skip
def test_fourier_transforms(run: Any, kind: str, lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3, 4, 6)) + 1j * rng.normal(size=(3, 4, 6))
    x = x.real.astype(np.float32) if kind == "RFFT" else x.astype(np.complex64)
    axes = tuple(range(3 - len(lengths), 3))
    if kind == "IRFFT":  # what a real signal has
        x = np.fft.rfftn(rng.normal(size=(3, 4, lengths[-1])), axes=axes).astype(np.complex64)
    transform = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[kind]
    expected = transform(x, lengths, axes)
    before, after = ("f32" if np.isrealobj(a) else "complex<f32>" for a in (x, expected))
    types = f"({t(x.shape, before)}) -> {t(expected.shape, after)}"
    text = f"""func.func @main(%x: {t(x.shape, before)}) -> {t(expected.shape, after)} {{
      %0 = stablehlo.fft %x, type = {kind}, length = {list(lengths)} : {types}
      return %0 : {t(expected.shape, after)}
    }}"""
    np.testing.assert_allclose(run(text, x)[0], expected, 1e-4, 1e-4)


@pytest.mark.parametrize(("left", "lower", "transpose", "unit"), list(itertools.product((True, False), repeat=4)))
def test_triangular_systems(run: Any, left: bool, lower: bool, transpose: bool, unit: bool) -> None:
    rng = np.random.default_rng(5)
    a = (rng.normal(size=(2, 4, 4)) + 4 * np.eye(4)).astype(np.float32)
    y = rng.normal(size=(2, 4, 3) if left else (2, 3, 4)).astype(np.float32)
    word = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    flags = f"left_side = {left}, lower = {lower}, unit_diagonal = {unit}".lower()
    text = f"""func.func @main(%a: {t(a.shape)}, %y: {t(y.shape)}) -> {t(y.shape)} {{
      %0 = "stablehlo.triangular_solve"(%a, %y) <{{{flags}, transpose_a = #stablehlo<transpose {word}>}}>
        : ({t(a.shape)}, {t(y.shape)}) -> {t(y.shape)}
      return %0 : {t(y.shape)}
    }}"""
    used = np.tril(a) if lower else np.triu(a)
    if unit:
        used = used - used * np.eye(4) + np.eye(4)
    op = used.transpose(0, 2, 1) if transpose else used
    if left:
        expected = np.linalg.solve(op, y)
    else:
        expected = np.linalg.solve(op.transpose(0, 2, 1), y.transpose(0, 2, 1)).transpose(0, 2, 1)
    np.testing.assert_allclose(run(text, a, y)[0], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(run: Any, lower: bool) -> None:
    x = np.random.default_rng(6).normal(size=(4, 4)).astype(np.float32)
    x = x @ x.T + 4 * np.eye(4, dtype=np.float32)
    text = f"""func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {{
      %0 = stablehlo.cholesky %a, lower = {str(lower).lower()} : tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }}"""
    found = np.tril(run(text, x)[0]) if lower else np.triu(run(text, x)[0])
    np.testing.assert_allclose(found @ found.T if lower else found.T @ found, x, 1e-4, 1e-4)


@pytest.mark.parametrize(("array", "element"), [
    (np.arange(4.0) / 3, "f32"), (np.arange(4), "i32"), (np.arange(4.0) / 3, "bf16"),
    ((np.arange(4) / 3).astype(ml_dtypes.bfloat16), "bf16"), (np.array(1.5), "f32"), (np.array(True), "f32"),
])  # fmt: skip
def test_parameters_are_converted_to_the_types_of_arguments(array: Any, element: str) -> None:
    type = f"tensor<{''.join(f'{n}x' for n in array.shape)}{element}>"
    text = f"func.func @main(%w: {type}) -> {type} {{ %y = stablehlo.add %w, %w : {type} return %y : {type} }}"
    module = module_of(text, "twice", ReadOptions(bound=[("w", array)]))
    numpy_type = {"f32": np.float32, "i32": np.int32, "bf16": ml_dtypes.bfloat16}[element]
    result = np.asarray(pd.device("cpu").load(pd.compile(module)).main())
    np.testing.assert_array_equal(result, array.astype(numpy_type) * 2)
