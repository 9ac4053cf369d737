"""Convolutions, pooling, reductions and arrangements against NumPy, written from the specification's loops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tosa_programs import Array, Const, Runner, Shape, program

RNG = np.random.default_rng(7)
FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def convolved(x: Array, w: Array, pad: list[int], stride: list[int], dilation: list[int]) -> Array:
    """x [n, spatial..., c] by w [f, spatial..., c], one place of the kernel at a time."""
    x = np.pad(x, [(0, 0), *zip(pad[::2], pad[1::2], strict=True), (0, 0)])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[1:-1], dilation, strict=True)]
    out = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:-1], reach, stride, strict=True)]
    found = np.zeros((x.shape[0], *out, w.shape[0]), x.dtype)
    for place in np.ndindex(*w.shape[1:-1]):
        at = tuple(slice(p * d, p * d + (n - 1) * s + 1, s)
                   for p, d, n, s in zip(place, dilation, out, stride, strict=True))  # fmt: skip
        found += np.einsum("n...c,fc->n...f", x[(slice(None), *at)], w[(slice(None), *place)])
    return found


def listed(name: str, numbers: list[int]) -> str:
    return f"{name} = array<i64: {', '.join(map(str, numbers))}>"


QUANTIZED = [
    (np.float32, np.float32, np.float32, "f32", (0, 0)), (np.int8, np.int8, np.int32, "i32", (-7, 3)),
    (np.int8, np.int8, np.int32, "i32", (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("source", "weights", "out", "acc", "zeros"), QUANTIZED)
@FEW
@given(data=st.data())
def test_convolutions(tosa: Runner, source: Any, weights: Any, out: Any, acc: str, zeros: tuple[int, int],
                      data: st.DataObject) -> None:  # fmt: skip
    spatial = data.draw(st.integers(2, 3))
    pad, stride, dilation = ([data.draw(st.integers(low, 2)) for _ in range(n)]
                             for low, n in ((0, 2 * spatial), (1, spatial), (1, spatial)))  # fmt: skip
    kernel = [data.draw(st.integers(1, 3)) for _ in range(spatial)]
    make = floats if source is np.float32 else lambda *shape: integers(source, *shape)
    x, w = make(2, *(6 + n for n in range(spatial)), 3), make(4, *kernel, 3)
    bias = make(data.draw(st.sampled_from([1, 4]))).astype(out)
    exact = np.float64 if source is np.float32 else np.int64
    wanted = convolved(x.astype(exact) - zeros[0], w.astype(exact) - zeros[1], pad, stride, dilation) + bias
    operands = [x, w, bias, *(Const(np.array([z], t)) for z, t in zip(zeros, (source, weights), strict=True))]
    attributes = f"acc_type = {acc}, {listed('pad', pad)}, {listed('stride', stride)}, {listed('dilation', dilation)}"
    is_float = acc == "f32"
    tosa.check(f"conv{spatial}d", operands, wanted.astype(out), attributes, rtol=2e-5 * is_float, atol=1e-4 * is_float)


def test_convolutions_of_sixteen_bits(tosa: Runner) -> None:
    x, w = integers(np.int16, 1, 5, 5, 40), integers(np.int8, 2, 3, 3, 40)
    bias = np.array([1 << 40, -(1 << 41)], np.int64)
    wanted = convolved(x.astype(np.int64), w.astype(np.int64), [1, 1, 0, 0], [1, 2], [1, 1]) + bias
    assert np.abs(wanted).max() > 1 << 40
    text = """func.func @main(
        %x: tensor<1x5x5x40xi16>, %w: tensor<2x3x3x40xi8>, %b: tensor<2xi48>) -> tensor<1x5x2x2xi48> {
      %i = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
      %j = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
      %0 = tosa.conv2d %x, %w, %b, %i, %j {acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 0, 0>,
        stride = array<i64: 1, 2>} : (tensor<1x5x5x40xi16>, tensor<2x3x3x40xi8>, tensor<2xi48>, tensor<1xi16>,
        tensor<1xi8>) -> tensor<1x5x2x2xi48>
      return %0 : tensor<1x5x2x2xi48>
    }"""
    np.testing.assert_array_equal(tosa.text(text, x, w, bias)[0], wanted)


def test_weights_of_four_bits(tosa: Runner) -> None:
    x, w = integers(np.int8, 1, 4, 4, 3), RNG.integers(-8, 8, (5, 2, 2, 3)).astype(np.int8)
    bias = np.zeros(5, np.int32)
    wanted = convolved(x.astype(np.int64), w.astype(np.int64), [0] * 4, [1, 1], [1, 1]).astype(np.int32)
    operands = [x, Const(w, "i4"), bias, Const(np.zeros(1, np.int8)), Const(np.zeros(1, np.int8), "i4")]
    attributes = f"acc_type = i32, {listed('pad', [0] * 4)}, {listed('stride', [1, 1])}, {listed('dilation', [1, 1])}"
    tosa.check("conv2d", operands, wanted, attributes)


@pytest.mark.parametrize(("source", "zeros"), [(np.float32, (0, 0)), (np.int8, (4, -9))])
def test_depthwise_convolutions(tosa: Runner, source: Any, zeros: tuple[int, int]) -> None:
    is_float = source is np.float32
    make = floats if is_float else lambda *shape: integers(source, *shape)
    out, exact = (np.float32, np.float64) if is_float else (np.int32, np.int64)
    for m in (1, 3):
        x, w, bias = make(2, 7, 6, 4), make(3, 2, 4, m), make(4 * m).astype(out)
        pad, stride, dilation = [1, 0, 1, 2], [2, 1], [1, 2]
        wanted = np.concatenate([
            convolved((x.astype(exact) - zeros[0])[..., c : c + 1],
                      (w.astype(exact) - zeros[1])[:, :, c : c + 1].transpose(3, 0, 1, 2), pad, stride, dilation)
            for c in range(4)], -1)  # fmt: skip
        operands = [x, w, bias, *(Const(np.array([z], source)) for z in zeros)]
        attributes = (
            f"acc_type = {'f32' if is_float else 'i32'}, {listed('pad', pad)}, {listed('stride', stride)}, "
            f"{listed('dilation', dilation)}"
        )
        tosa.check("depthwise_conv2d", operands, (wanted + bias).astype(out), attributes, rtol=1e-4 * is_float,
                   atol=1e-5 * is_float)  # fmt: skip


@pytest.mark.parametrize(("source", "zeros"), [(np.float32, (0, 0)), (np.int8, (4, -9))])
@pytest.mark.parametrize(
    ("around", "stride"), [([0, 0, 0, 0], [1, 1]), ([1, 2, 0, 1], [2, 3]), ([-1, 0, -2, -1], [2, 2])]
)
def test_transposed_convolutions(tosa: Runner, source: Any, zeros: tuple[int, int], around: list[int],
                                 stride: list[int]) -> None:  # fmt: skip
    is_float = source is np.float32
    make = floats if is_float else lambda *shape: integers(source, *shape)
    out, exact = (np.float32, np.float64) if is_float else (np.int32, np.int64)
    x, w, bias = make(2, 4, 3, 2), make(5, 3, 3, 2), make(5).astype(out)
    height, width = (3 * stride[0] + sum(around[:2]) + 3, 2 * stride[1] + sum(around[2:]) + 3)
    wanted = np.zeros((2, height, width, 5), exact)
    for iy, ix, ky, kx in np.ndindex(4, 3, 3, 3):
        oy, ox = iy * stride[0] + around[0] + ky, ix * stride[1] + around[2] + kx
        if 0 <= oy < height and 0 <= ox < width:
            wanted[:, oy, ox] += (x[:, iy, ix].astype(exact) - zeros[0]) @ (w[:, ky, kx].astype(exact) - zeros[1]).T
    operands = [x, w, bias, *(Const(np.array([z], source)) for z in zeros)]
    attributes = f"acc_type = {'f32' if is_float else 'i32'}, {listed('out_pad', around)}, {listed('stride', stride)}"
    tosa.check("transpose_conv2d", operands, (wanted + bias).astype(out), attributes, rtol=1e-4 * is_float,
               atol=1e-5 * is_float)  # fmt: skip


def test_matrix_products(tosa: Runner) -> None:
    x, y = floats(2, 5, 7), floats(2, 7, 3)
    zero = Const(np.zeros(1, np.float32))
    tosa.check("matmul", [x, y, zero, zero], (x.astype(float) @ y).astype(np.float32), rtol=1e-5, atol=1e-6)
    for dynamic in (False, True):
        a, c = integers(np.int8, 2, 5, 7), integers(np.int8, 2, 7, 3)
        zeros = [Const(np.array([11], np.int8)), Const(np.array([-128], np.int8))]
        tosa.check("matmul", [a, c, *zeros], (a.astype(np.int32) - 11) @ (c.astype(np.int32) + 128), dynamic=dynamic)
    tosa.check("matmul", [a, c], (a.astype(np.int32) - 1) @ (c.astype(np.int32) - 2),
               "quantization_info = #tosa.matmul_quant<a_zp = 1, b_zp = 2>")  # fmt: skip
    a, c = integers(np.int16, 1, 3, 700), integers(np.int16, 1, 700, 2)
    zero = Const(np.zeros(1, np.int16))
    text, *arrays = program("matmul", [a, c, zero, zero], ["tensor<1x3x2xi48>"])
    np.testing.assert_array_equal(tosa.text(text, *arrays)[0], a.astype(np.int64) @ c.astype(np.int64))
    half = floats(1, 4, 6).astype(np.float16)
    zero = Const(np.zeros(1, np.float16))
    tosa.check("matmul", [half, half.transpose(0, 2, 1).copy(), zero, zero],
               half.astype(np.float32) @ half.transpose(0, 2, 1).astype(np.float32), rtol=1e-5)  # fmt: skip
    x, w, bias = floats(4, 6), floats(5, 6), floats(5)
    tosa.check("fully_connected", [x, w, bias], (x @ w.T + bias), rtol=1e-4, atol=1e-5)


def windows(x: Array, kernel: list[int], stride: list[int], pad: list[int]) -> Any:
    """The place of each result, and the elements of its window that are no padding."""
    _, height, width, _ = x.shape
    rows = (height + pad[0] + pad[1] - kernel[0]) // stride[0] + 1
    columns = (width + pad[2] + pad[3] - kernel[1]) // stride[1] + 1
    for oy, ox in np.ndindex(rows, columns):
        y, z = oy * stride[0] - pad[0], ox * stride[1] - pad[2]
        yield (oy, ox, rows, columns), x[:, max(y, 0) : max(y + kernel[0], 0), max(z, 0) : max(z + kernel[1], 0)]


def pooled(x: Array, kernel: list[int], stride: list[int], pad: list[int], function: Any, dtype: Any) -> Array:
    found: Any = None
    for (oy, ox, rows, columns), part in windows(x, kernel, stride, pad):
        found = np.zeros((x.shape[0], rows, columns, x.shape[3]), dtype) if found is None else found
        found[:, oy, ox] = function(part.reshape(x.shape[0], -1, x.shape[3]))
    return found


def mean_of_integers(part: Array, zeros: tuple[int, int], dtype: Any) -> Array:
    """`reciprocal_scale` and `apply_scale_32` with whole numbers of any size."""
    count = part.shape[1]
    k = (count - 1).bit_length()
    multiplier, shift = (((1 << 30) + 1) << k) // count, 30 + k
    total = (part.astype(np.int64) - zeros[0]).sum(1).astype(object)
    info = np.iinfo(dtype)
    return np.clip(((total * multiplier + (1 << (shift - 1))) >> shift) + zeros[1], info.min, info.max)


@FEW
@given(data=st.data())
def test_pooling(tosa: Runner, data: st.DataObject) -> None:
    kernel, stride = ([data.draw(st.integers(1, 3)) for _ in range(2)] for _ in range(2))
    pad = [data.draw(st.integers(0, kernel[n // 2] - 1)) for n in range(4)]
    attributes = f"{listed('kernel', kernel)}, {listed('stride', stride)}, {listed('pad', pad)}"
    dynamic = data.draw(st.booleans())
    x = floats(2, 7, 6, 3)
    tosa.check("max_pool2d", [x], pooled(x, kernel, stride, pad, lambda p: p.max(1), np.float32), attributes, dynamic)
    zero = Const(np.zeros(1, np.float32))
    tosa.check("avg_pool2d", [x, zero, zero], pooled(x, kernel, stride, pad, lambda p: p.mean(1), np.float32),
               f"acc_type = f32, {attributes}", dynamic, rtol=1e-5, atol=1e-6)  # fmt: skip
    for dtype, zeros in ((np.int8, (-20, 9)), (np.int16, (0, 0))):
        a = integers(dtype, 1, 7, 6, 3)
        tosa.check("max_pool2d", [a], pooled(a, kernel, stride, pad, lambda p: p.max(1), dtype), attributes)
        wanted = pooled(a, kernel, stride, pad, partial(mean_of_integers, zeros=zeros, dtype=dtype), dtype)
        operands = [a, *(Const(np.array([z], dtype)) for z in zeros)]
        tosa.check("avg_pool2d", operands, wanted, f"acc_type = i32, {attributes}", dynamic)


def test_pooling_with_operands(tosa: Runner) -> None:
    x = floats(1, 6, 6, 2)
    sizes = [Shape([2, 3]), Shape([2, 1]), Shape([0, 0, 1, 0])]
    wanted = pooled(x, [2, 3], [2, 1], [0, 0, 1, 0], lambda p: p.max(1), np.float32)
    tosa.check("max_pool2d_adaptive", [x, *sizes], wanted)
    zero = Const(np.zeros(1, np.float32))
    wanted = pooled(x, [2, 3], [2, 1], [0, 0, 1, 0], lambda p: p.mean(1), np.float32)
    tosa.check("avg_pool2d_adaptive", [x, zero, zero, *sizes], wanted, "acc_type = f32", rtol=1e-5)
    x[0, 1, 1, 0] = np.nan
    attributes = f"{listed('kernel', [2, 2])}, {listed('stride', [2, 2])}, {listed('pad', [0] * 4)}"
    tosa.check("max_pool2d", [x], pooled(x, [2, 2], [2, 2], [0] * 4, lambda p: p.max(1), np.float32), attributes)
    tosa.check("max_pool2d", [x], pooled(x, [2, 2], [2, 2], [0] * 4, lambda p: np.nanmax(p, 1), np.float32),
               f"{attributes}, nan_mode = IGNORE")  # fmt: skip


def test_reductions(tosa: Runner) -> None:
    functions = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "reduce_product": np.prod,
                 "reduce_prod": np.prod, "reduce_any": np.any, "reduce_all": np.all}  # fmt: skip
    for name, function in functions.items():
        truths = name in ("reduce_any", "reduce_all")
        x = RNG.random((3, 5, 4)) < 0.7 if truths else floats(3, 5, 4)
        for axis in range(3):
            wanted = np.asarray(function(x, axis=axis, keepdims=True)).astype(x.dtype)
            tosa.check(name, [x], wanted, f"axis = {axis} : i32", dynamic=False, rtol=1e-5, atol=1e-6)
        if name in ("reduce_sum", "reduce_max", "reduce_min"):
            a = RNG.integers(-(2**20), 2**20, (3, 5, 4)).astype(np.int32)
            tosa.check(name, [a], function(a, axis=1, keepdims=True).astype(np.int32), "axis = 1 : i32")
    x = floats(3, 5)
    x[1, 2] = np.nan
    for name, keep, drop in (("reduce_max", np.max, np.nanmax), ("reduce_min", np.min, np.nanmin)):
        tosa.check(name, [x], keep(x, axis=1, keepdims=True), "axis = 1 : i32")
        tosa.check(name, [x], drop(x, axis=1, keepdims=True), "axis = 1 : i32, nan_mode = IGNORE")


def test_places_of_the_largest(tosa: Runner) -> None:
    x = RNG.integers(-3, 3, (4, 5, 6)).astype(np.float32)
    for axis in range(3):
        tosa.check("argmax", [x], x.argmax(axis).astype(np.int32), f"axis = {axis} : i32")
    a = integers(np.int8, 4, 9)
    tosa.check("argmax", [a], a.argmax(1).astype(np.int32), "axis = 1 : i32")
    x[0, 2, 0] = np.nan
    tosa.check("argmax", [x], x.argmax(1).astype(np.int32), "axis = 1 : i32, nan_mode = PROPAGATE")
    tosa.check("argmax", [x], np.nanargmax(x, 1).astype(np.int32), "axis = 1 : i32, nan_mode = IGNORE")


ELEMENTS = [np.float32, np.int8, np.int32, np.bool_, np.float16]


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_arrangements(tosa: Runner, dtype: Any) -> None:
    x = RNG.integers(-9, 9, (3, 4, 5)).astype(dtype)
    y = RNG.integers(-9, 9, (3, 2, 5)).astype(dtype)
    tosa.check("concat", [x, y, x], np.concatenate([x, y, x], 1), "axis = 1 : i32")
    value = np.array([1]).astype(dtype)
    tosa.check("pad", [x, Shape([1, 0, 0, 2, 3, 1]), Const(value)],
               np.pad(x, [(1, 0), (0, 2), (3, 1)], constant_values=value[0]))  # fmt: skip
    tosa.check("reshape", [x, Shape([2, 30])], x.reshape(2, 30))
    tosa.check("reshape", [x, Shape([5, -1])], x.reshape(5, 12))
    tosa.check("reshape", [x], x.reshape(60), "new_shape = array<i64: 60>")
    for axis in range(3):
        tosa.check("reverse", [x], np.flip(x, axis), f"axis = {axis} : i32")
    tosa.check("slice", [x, Shape([1, 0, 2]), Shape([2, -1, 2])], x[1:3, :, 2:4])
    tosa.check("slice", [x], x[1:2, 1:3], "start = array<i64: 1, 1, 0>, size = array<i64: 1, 2, 5>")
    tosa.check("tile", [x, Shape([2, 1, 3])], np.tile(x, (2, 1, 3)))
    tosa.check("transpose", [x], x.transpose(2, 0, 1), "perms = array<i32: 2, 0, 1>")
    tosa.check("transpose", [x, Const(np.array([1, 0, 2], np.int32))], x.transpose(1, 0, 2))


def test_arrangements_of_sizes_that_calls_decide(tosa: Runner) -> None:
    x = floats(3, 4, 5)
    tosa.check("transpose", [x], x.transpose(2, 0, 1), "perms = array<i32: 2, 0, 1>", dynamic=True)
    tosa.check("reverse", [x], np.flip(x, 1), "axis = 1 : i32", dynamic=True)
    tosa.check("pad", [x, Shape([1, 0, 0, 2, 3, 1]), Const(np.zeros(1, np.float32))],
               np.pad(x, [(1, 0), (0, 2), (3, 1)]), dynamic=True)  # fmt: skip
    tosa.check("tile", [x, Shape([2, 1, 3])], np.tile(x, (2, 1, 3)), dynamic=True)
    tosa.check("concat", [x, x], np.concatenate([x, x], 2), "axis = 2 : i32", dynamic=True)
    tosa.check("reduce_sum", [x], x.sum(1, keepdims=True), "axis = 1 : i32", dynamic=True, rtol=1e-5, atol=1e-6)


def test_arithmetic_of_sizes(tosa: Runner) -> None:
    text = """func.func @main(%x: tensor<?x6x?xf32>) -> tensor<?x?xf32> {
      %n = tosa.dim %x {axis = 0 : i32} : (tensor<?x6x?xf32>) -> !tosa.shape<1>
      %six = tosa.dim %x {axis = 1 : i32} : (tensor<?x6x?xf32>) -> !tosa.shape<1>
      %m = tosa.dim %x {axis = 2 : i32} : (tensor<?x6x?xf32>) -> !tosa.shape<1>
      %two = tosa.const_shape {values = dense<2> : tensor<1xindex>} : () -> !tosa.shape<1>
      %three = tosa.div_floor_shape %six, %two : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
      %rows = tosa.mul_shape %n, %three : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
      %columns = tosa.mul_shape %m, %two : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
      %shape = tosa.concat_shape %rows, %columns : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<2>
      %0 = tosa.reshape %x, %shape : (tensor<?x6x?xf32>, !tosa.shape<2>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""
    x = floats(2, 6, 5)
    np.testing.assert_array_equal(tosa.text(text, x)[0], x.reshape(6, 10))
    a, c = [7, 9, 12], [2, 4, 5]
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div_floor": np.floor_divide, "mod": np.mod,
                 "max": np.maximum, "min": np.minimum, "div_ceil": lambda p, q: -(-p // q)}  # fmt: skip
    for name, function in functions.items():
        made = function(np.array(a), np.array(c)).tolist()
        text = f"""func.func @main(%x: tensor<1x1x1xf32>) -> tensor<{"x".join(map(str, made))}xf32> {{
          %a = tosa.const_shape {{values = dense<{a}> : tensor<3xindex>}} : () -> !tosa.shape<3>
          %c = tosa.const_shape {{values = dense<{c}> : tensor<3xindex>}} : () -> !tosa.shape<3>
          %n = tosa.{name}_shape %a, %c : (!tosa.shape<3>, !tosa.shape<3>) -> !tosa.shape<3>
          %first = "tosa.const"() <{{values = dense<0> : tensor<1xi32>}}> : () -> tensor<1xi32>
          %all = "tosa.const"() <{{values = dense<3> : tensor<1xi32>}}> : () -> tensor<1xi32>
          %m = tosa.slice_shape %n, %first, %all : (!tosa.shape<3>, tensor<1xi32>, tensor<1xi32>) -> !tosa.shape<3>
          %0 = tosa.tile %x, %m : (tensor<1x1x1xf32>, !tosa.shape<3>) -> tensor<{"x".join(map(str, made))}xf32>
          return %0 : tensor<{"x".join(map(str, made))}xf32>
        }}"""
        assert tosa.text(text, np.ones((1, 1, 1), np.float32))[0].shape == tuple(made)


@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_at_places(tosa: Runner, dynamic: bool) -> None:
    for dtype in (np.float32, np.int8):
        table = RNG.integers(-9, 9, (2, 6, 3)).astype(dtype)
        for index in (np.int32, np.int64):
            at = RNG.integers(0, 6, (2, 4)).astype(index)
            tosa.check("gather", [table, at], np.stack([table[n, at[n]] for n in range(2)]), dynamic=dynamic)
        at = np.stack([RNG.permutation(6)[:4] for _ in range(2)]).astype(np.int32)
        rows = RNG.integers(-9, 9, (2, 4, 3)).astype(dtype)
        wanted = table.copy()
        for n in range(2):
            wanted[n, at[n]] = rows[n]
        tosa.check("scatter", [table, at, rows], wanted, dynamic=dynamic)


def test_places_outside_harm_nothing(tosa: Runner) -> None:
    table = floats(1, 4, 2)
    at = np.array([[-5, 2, 1 << 30]], np.int32)
    tosa.check("gather", [table, at], table[:, [0, 2, 3]])
    rows = floats(1, 3, 2)
    wanted = table.copy()
    wanted[0, 2] = rows[0, 1]
    tosa.check("scatter", [table, at, rows], wanted)


RESIZES = [
    ([4, 2, 4, 2], [-1, -1], [1, 1]), ([2, 1, 3, 1], [0, 0], [0, 0]), ([16, 2, 16, 2], [-7, -7], [7, 7]),
    ([1, 2, 1, 1], [0, 0], [0, 0]), ([4, 2, 6, 3], [1, 0], [1, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("scale", "offset", "border"), RESIZES)
@pytest.mark.parametrize("mode", ["BILINEAR", "NEAREST_NEIGHBOR"])
def test_images_in_another_size(
    tosa: Runner, scale: list[int], offset: list[int], border: list[int], mode: str
) -> None:
    for source, out in ((np.float32, np.float32), (np.int8, np.int32), (np.int16, np.int64)):
        x = floats(2, 5, 7, 3) if source is np.float32 else integers(source, 2, 5, 7, 3)
        wanted = resized(x, scale, offset, border, mode)
        to = out if mode == "BILINEAR" else source
        operands = [x, Shape(scale), Shape(offset), Shape(border)]
        element = "i48" if to is np.int64 else ""
        tosa.check("resize", operands, wanted.astype(to), f"mode = {mode}", rtol=1e-5, atol=1e-6, element=element,
                   dynamic=scale[1] == 1 and source is np.float32)  # fmt: skip


def resized(x: Array, scale: list[int], offset: list[int], border: list[int], mode: str) -> Array:
    """The loops of the specification."""
    is_float = x.dtype == np.float32
    out = [((x.shape[1 + d] - 1) * scale[2 * d] - offset[d] + border[d]) // scale[2 * d + 1] + 1 for d in range(2)]
    found = np.zeros((x.shape[0], *out, x.shape[3]), np.float64 if is_float else np.int64)
    for oy, ox in np.ndindex(*out):
        low, high, near = [], [], []
        for d, o in enumerate((oy, ox)):
            n = o * scale[2 * d + 1] + offset[d]
            whole, rest = n // scale[2 * d], n % scale[2 * d]
            last = x.shape[1 + d] - 1
            places = [min(max(whole, 0), last), min(max(whole + 1, 0), last)]
            low.append((places[0], scale[2 * d] - rest))
            high.append((places[1], rest))
            near.append(places[1] if 2 * rest >= scale[2 * d] else places[0])
        if mode == "NEAREST_NEIGHBOR":
            found[:, oy, ox] = x[:, near[0], near[1]]
            continue
        for y, wy in (low[0], high[0]):
            for z, wz in (low[1], high[1]):
                weight = wy * wz / (scale[0] * scale[2]) if is_float else wy * wz
                found[:, oy, ox] += x[:, y, z].astype(found.dtype) * weight
    return found


def test_former_attributes_of_resizing(tosa: Runner) -> None:
    x = floats(1, 3, 3, 2)
    wanted = resized(x, [4, 2, 4, 2], [-1, -1], [1, 1], "BILINEAR").astype(np.float32)
    sizes = f"{listed('scale', [4, 2, 4, 2])}, {listed('offset', [-1, -1])}, {listed('border', [1, 1])}"
    tosa.check("resize", [x], wanted, f'mode = "BILINEAR", {sizes}', rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dynamic", [False, True])
def test_fourier_transforms(tosa: Runner, dynamic: bool) -> None:
    x, y = floats(2, 4, 8), floats(2, 4, 8)
    z = np.fft.fft2(x + 1j * y)
    parts = [z.real.astype(np.float32), z.imag.astype(np.float32)]
    tosa.check("fft2d", [x, y], parts, "inverse = false", dynamic, atol=2e-5)
    z = np.fft.ifft2(x + 1j * y) * 32
    parts = [z.real.astype(np.float32), z.imag.astype(np.float32)]
    tosa.check("fft2d", [x, y], parts, "inverse = true", dynamic, atol=2e-5)
    z = np.fft.rfft2(x)
    parts = [z.real.astype(np.float32), z.imag.astype(np.float32)]
    tosa.check("rfft2d", [x], parts, "", dynamic, atol=2e-5)
