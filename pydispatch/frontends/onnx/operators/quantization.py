"""Operators on numbers that stand for others by a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import F32, I32, U8, DType
from pydispatch.frontends.graph.sizes import Expr, ceil_div
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.operators import products
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.products import matmul


def bounds(dtype: DType) -> tuple[float, float]:
    """Return the least and the largest number of an integer type."""
    if dtype.is_unsigned:
        return 0.0, float((1 << dtype.bits) - 1)
    return float(-(1 << dtype.bits - 1)), float((1 << dtype.bits - 1) - 1)


def quantize(c: Call, x: Tensor, scale: Tensor, zero: Tensor | None, to: DType, saturate: bool = True) -> Tensor:
    """x / scale, rounded to even, plus the zero point, within the type. All broadcast to x."""
    inner = F32 if x.dtype.bits < 32 or not x.dtype.is_float else x.dtype
    given = [x, scale] + ([] if zero is None else [cast_to(c, zero, inner)])
    if to.is_float:
        scaled = formula(c.b, lambda v, s, *z: v.to(inner) / s.to(inner) + (z[0] if z else 0.0), *given)
        return cast_to(c, scaled, to, saturate)
    low, high = bounds(to)

    def written(v: Element, s: Element, *z: Element) -> Element:
        made = (v.to(inner) / s.to(inner)).of("round_even")
        made = made + z[0] if z else made
        return made.at_least(low).at_most(high)

    made = formula(c.b, written, *given)
    if to.bits < 8:
        return cast_to(c, made, to)
    return formula(c.b, lambda v: v.to(I32).to(to) if to.bits < 32 else v.to(to), made)


def dequantize(c: Call, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """(x - zero point) * scale, in the type of the scale. All broadcast to x."""
    inner = F32 if x.dtype.is_float else I32
    values = cast_to(c, x, inner)
    given = [values, scale] + ([] if zero is None else [cast_to(c, zero, inner)])

    def written(v: Element, s: Element, *z: Element) -> Element:
        apart = v - z[0] if z else v
        return (apart.to(F32) * s.to(F32)).to(scale.dtype)

    return formula(c.b, written, *given)


def _spread(c: Call, t: Tensor | None, x: Tensor, axis: int, block: int) -> Tensor | None:
    """Return scales or zero points so that they broadcast to x: one, a vector along an axis, or one for each block of
    an axis.
    """
    if t is None or t.rank == 0:
        return t
    if block:
        size = x.shape[axis]
        if t.rank != x.rank or isinstance(size, Expr) or t.shape[axis] != ceil_div(size, block):
            raise c.fail(f"{t} does not have a number for each {block} elements of {x} along axis {axis}")
        wide = shapes.expand_dims(c.b, t, [axis + 1])
        repeated = shapes.broadcast_to(c.b, wide, [*wide.shape[: axis + 1], block, *wide.shape[axis + 2 :]])
        flat = shapes.reshape(c.b, repeated, [*t.shape[:axis], t.shape[axis] * block, *t.shape[axis + 1 :]])
        return shapes.slice_axis(c.b, flat, axis, 0, size)
    if t.rank == 1 and t.shape[0] == 1:
        return shapes.reshape(c.b, t, [])
    if t.rank != 1:
        raise c.fail(f"its scales are {t}; expected a number or a vector")
    return shapes.reshape(c.b, t, [t.shape[0] if d == axis else 1 for d in range(x.rank)])


def _axis(c: Call, x: Tensor, scale: Tensor) -> tuple[int, int]:
    axis, block = c.integer("axis", 1), c.integer("block_size", 0)
    if scale.rank == 0 or (scale.rank == 1 and scale.shape[0] == 1 and not block):
        return 0, block
    return c.axis(axis, x.rank), block


def _quantize_linear(c: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    to = zero.dtype if zero is not None else dtype_of(c.integer("output_dtype", 0) or 2)
    c.ignore("output_dtype", "precision")
    axis, block = _axis(c, x, scale)
    saturate = c.flag("saturate", True)
    return quantize(c, x, _need(c, scale, x, axis, block), _spread(c, zero, x, axis, block), to, saturate)


def _dequantize_linear(c: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = _axis(c, x, scale)
    c.ignore("output_dtype")
    return dequantize(c, x, _need(c, scale, x, axis, block), _spread(c, zero, x, axis, block))


def _need(c: Call, t: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    spread = _spread(c, t, x, axis, block)
    assert spread is not None
    return spread


def dynamic_quantize(c: Call, x: Tensor) -> Sequence[Tensor]:
    """x as bytes between its own extremes, with 0 among them; gives the scale and the zero point too."""
    least, most = (reductions.reduce(c.b, name, x) for name in ("min", "max"))
    scale = formula(c.b, lambda a, n: (n.at_least(0.0) - a.at_most(0.0)) / 255.0, least, most)
    scale = formula(c.b, lambda s: s.is_equal(0.0).choose(1.0, s), scale)
    zero = formula(
        c.b,
        lambda a, s: (0.0 - a.at_most(0.0) / s).at_least(0.0).at_most(255.0).of("round_even").to(I32).to(U8),
        least,
        scale,
    )
    return [quantize(c, x, scale, zero, U8), scale, zero]


def requantize(c: Call, x: Tensor, scales: Sequence[Tensor], out_scale: Tensor, out_zero: Tensor, to: DType) -> Tensor:
    """Return sums of products as numbers of another scale. scales: of both factors; all broadcast to x."""

    def written(v: Element, a: Element, b: Element, s: Element) -> Element:
        return v.to(F32) * (a.to(F32) * b.to(F32) / s.to(F32))

    scaled = formula(c.b, written, x, *scales, out_scale)
    one = c.b.constant(1.0, F32)
    return quantize(c, scaled, one, out_zero, to)


def _qlinear_matmul(
    c: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    rows, columns = products.without_zero_point(c, x, x_zero, -2), products.without_zero_point(c, y, y_zero, -1)
    made = matmul(c.b, rows, columns, I32)
    x_scale = _along(c, x_scale, made, made.rank - 2)
    return requantize(c, made, [x_scale, _along(c, y_scale, made, made.rank - 1)], scale, zero, zero.dtype)


def _along(c: Call, t: Tensor, x: Tensor, axis: int) -> Tensor:
    if t.rank != 1 or t.shape[0] == 1:
        return shapes.reshape(c.b, t, []) if t.rank == 1 else t
    return shapes.reshape(c.b, t, [t.shape[0] if d == axis else 1 for d in range(x.rank)])


def _qlinear_conv(
    c: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor, scale: Tensor,
    zero: Tensor, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    made = products.conv_integer(c, x, w, x_zero, w_zero)
    made = products.with_bias(c, made, bias, I32)
    return requantize(c, made, [x_scale, _along(c, w_scale, made, 1)], scale, zero, zero.dtype)


TABLE: dict[str, Conversion] = {
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
}
