"""Conversions of quantized operators. A quantized number q stands for (q - zero point) * scale."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators import products
from pydispatch.frontends.onnx.operators.elementwise import cast_to
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import F32, I32, U8, DType
from pydispatch.graph.size_functions import ceil_div
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.products import matmul


def quantize(call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None, to: DType, saturate: bool = True) -> Tensor:
    """Return x / scale, rounded half to even, plus the zero point, clamped to the range of type `to`.

    Scale and zero point must broadcast to x; a zero point of None is 0. If `to` is a float, the sum is only converted
    to it; with `saturate`, numbers out of its range become the largest finite number.
    """
    inner = F32 if x.dtype.bits < 32 or not x.dtype.is_float else x.dtype  # type of the division: at least f32
    operands = [x, scale] + ([] if zero is None else [cast_to(call, zero, inner)])
    if to.is_float:
        scaled = formula(call.b, lambda v, s, *z: v.to(inner) / s.to(inner) + (z[0] if z else 0.0), *operands)
        return cast_to(call, scaled, to, saturate)
    low, high = float(reductions.least(to)), float(reductions.largest(to))

    def quantized_element(value: Element, s: Element, *z: Element) -> Element:
        """Return one quantized element, as a float. `s` is its scale, `z` its zero point if there is one."""
        stored = (value.to(inner) / s.to(inner)).unary("round_even")
        stored = stored + z[0] if z else stored
        return stored.max(low).min(high)

    rounded = formula(call.b, quantized_element, *operands)
    if to.bits < 8:  # only `cast_to` converts to types that are packed into bytes
        return cast_to(call, rounded, to)
    # Machines convert vectors of floats to integers of 32 bits and more only.
    return formula(call.b, lambda v: v.to(I32).to(to) if to.bits < 32 else v.to(to), rounded)


def dequantize(call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return (x - zero point) * scale in the type of the scale. Both must broadcast to x; a zero point of None is 0."""
    inner = F32 if x.dtype.is_float else I32
    values = cast_to(call, x, inner)
    operands = [values, scale] + ([] if zero is None else [cast_to(call, zero, inner)])

    def dequantized_element(value: Element, s: Element, *z: Element) -> Element:
        """Return the float of one quantized element. `s` is its scale, `z` its zero point if there is one."""
        shifted = value - z[0] if z else value
        return (shifted.to(F32) * s.to(F32)).to(scale.dtype)

    return formula(call.b, dequantized_element, *operands)


def _broadcast_to_axis(call: NodeCall, t: Tensor | None, x: Tensor, axis: int, block: int) -> Tensor | None:
    """Return scales or zero points `t` in a shape that broadcasts to x; None for None.

    `t` is a scalar or a vector along `axis`: for x [2, 3, 4] and axis 1, a vector of 3 becomes [1, 3, 1]. If `block` is
    not 0, `t` instead has the shape of x except along `axis`, where it has one number for each `block` elements; the
    last block may be shorter. For x [1, 5], axis 1 and the block size 3, [[a, b]] becomes [[a, a, a, b, b]].

    Raise CompileError if `t` has another shape, or if there are blocks along an axis of dynamic size.
    """
    if t is None or t.rank == 0:
        return t
    if block:
        size = x.shape[axis]
        if t.rank != x.rank or isinstance(size, Expr) or t.shape[axis] != ceil_div(size, block):
            raise call.fail(f"{t} does not have a number for each {block} elements of {x} along axis {axis}")
        # Repeat each number `block` times along a new axis, merge this axis with `axis`, and cut off what exceeds x.
        wide = shapes.expand_dims(call.b, t, [axis + 1])
        repeated = shapes.broadcast_to(call.b, wide, [*wide.shape[: axis + 1], block, *wide.shape[axis + 2 :]])
        flat = shapes.reshape(call.b, repeated, [*t.shape[:axis], t.shape[axis] * block, *t.shape[axis + 1 :]])
        return slicing.slice_axis(call.b, flat, axis, start=0, limit=size)
    if t.rank == 1 and t.shape[0] == 1:  # one number for all of x, whatever the size of the axis
        return shapes.reshape(call.b, t, [])
    if t.rank != 1:
        raise call.fail(f"its scales are {t}; expected a number or a vector")
    return shapes.reshape(call.b, t, [t.shape[0] if d == axis else 1 for d in range(x.rank)])


def _axis(call: NodeCall, x: Tensor, scale: Tensor) -> tuple[int, int]:
    """Return the axis along which scales differ, and the number of its elements that share a scale (0: no blocks).

    The axis is 0 if there is only one scale.
    """
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    if scale.rank == 0 or (scale.rank == 1 and scale.shape[0] == 1 and not block):
        return 0, block
    return call.axis(axis, x.rank), block


@ONNX.converts("QuantizeLinear")
def _quantize_linear(call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Quantize x with scales per tensor, per axis or per block, to the type of the zero point, by default u8."""
    if zero is not None:
        to = zero.dtype
    else:
        code = call.integer("output_dtype", 0)  # 0: not stated
        to = dtype_of(code) if code else U8
    # A zero point replaces `output_dtype`. `precision` is the type of the division, which `quantize` chooses.
    call.ignore("output_dtype", "precision")
    axis, block = _axis(call, x, scale)
    saturate = call.flag("saturate", default=True)
    # Both operands get a shape that broadcasts to x. The two functions differ in their types only: the zero point may
    # be None.
    return quantize(
        call,
        x,
        _broadcast_scale(call, scale, x, axis, block),
        _broadcast_to_axis(call, zero, x, axis, block),
        to,
        saturate,
    )


@ONNX.converts("DequantizeLinear")
def _dequantize_linear(call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Dequantize x with scales per tensor, per axis or per block, to the type of the scales.

    The attribute `output_dtype` has no effect.
    """
    axis, block = _axis(call, x, scale)
    call.ignore("output_dtype")
    return dequantize(
        call, x, _broadcast_scale(call, scale, x, axis, block), _broadcast_to_axis(call, zero, x, axis, block)
    )


def _broadcast_scale(call: NodeCall, t: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Reshape scales like _broadcast_to_axis; the scale operand is always present."""
    spread = _broadcast_to_axis(call, t, x, axis, block)
    assert spread is not None
    return spread


@ONNX.converts("DynamicQuantizeLinear")
def dynamic_quantize(call: NodeCall, x: Tensor) -> Sequence[Tensor]:
    """Quantize x to u8 by its own range, extended to contain 0. Return the bytes, the scale and the zero point."""
    smallest, largest = (reductions.reduce(call.b, name, x) for name in ("min", "max"))
    scale = formula(call.b, lambda a, n: (n.max(0.0) - a.min(0.0)) / 255.0, smallest, largest)
    scale = formula(call.b, lambda s: s.is_equal(0.0).where(1.0, s), scale)  # if all elements are 0
    zero = formula(
        call.b,
        lambda a, s: (0.0 - a.min(0.0) / s).max(0.0).min(255.0).unary("round_even").to(I32).to(U8),
        smallest,
        scale,
    )
    return [quantize(call, x, scale, zero, U8), scale, zero]


def requantize(
    call: NodeCall, x: Tensor, scales: Sequence[Tensor], out_scale: Tensor, out_zero: Tensor, to: DType
) -> Tensor:
    """Quantize integer sums of products, x, to the type `to` with the scale out_scale and the zero point out_zero.

    `scales` has the scales of the two factors of the products; all scales broadcast to x.
    """

    def scaled_sum(value: Element, lhs: Element, rhs: Element, s: Element) -> Element:
        """Return value * lhs * rhs / s: a sum of products, times the scales of both factors, over the new scale."""
        return value.to(F32) * (lhs.to(F32) * rhs.to(F32) / s.to(F32))

    scaled = formula(call.b, scaled_sum, x, *scales, out_scale)
    one = call.b.constant(1.0, F32)  # the division by out_scale has been done
    return quantize(call, scaled, one, out_zero, to)


@ONNX.converts("QLinearMatMul")
def _qlinear_matmul(
    call: NodeCall,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    """Return the product of two quantized matrices, quantized with `scale` and `zero`.

    The product of x - x_zero and y - y_zero is computed in i32. Each sum s then becomes
    round(s * x_scale * y_scale / scale) + zero, clamped to the type of `zero`.

    Args:
        call: The node.
        x: Left factor, [..., m, k].
        x_scale: Scale of x: one number, or a vector with an element per row.
        x_zero: Zero point of x, in the form of x_scale.
        y: Right factor, [..., k, n].
        y_scale: Scale of y: one number, or a vector with an element per column.
        y_zero: Zero point of y, in the form of y_scale.
        scale: Scale of the result.
        zero: Zero point of the result; the result has its type.
    """
    rows, columns = (
        products.without_zero_point(call, x, x_zero, axis=-2),
        products.without_zero_point(call, y, y_zero, axis=-1),
    )
    product = matmul(call.b, rows, columns, I32)
    # Multiply by both scales, shaped along the rows and the columns of the product, and quantize with `scale`.
    x_scale = _along(call, x_scale, product, product.rank - 2)
    return requantize(
        call, product, [x_scale, _along(call, y_scale, product, product.rank - 1)], scale, zero, zero.dtype
    )


def _along(call: NodeCall, t: Tensor, x: Tensor, axis: int) -> Tensor:
    """Reshape a vector so that it broadcasts along one axis of x; scalars and vectors of one element become scalars."""
    if t.rank != 1 or t.shape[0] == 1:
        return shapes.reshape(call.b, t, []) if t.rank == 1 else t
    return shapes.reshape(call.b, t, [t.shape[0] if d == axis else 1 for d in range(x.rank)])


@ONNX.converts("QLinearConv")
def qlinear_conv(
    call: NodeCall,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Return the convolution of quantized x by quantized filters plus an i32 bias, quantized with `scale` and `zero`.

    The convolution of x - x_zero by w - w_zero is computed in i32, and the bias, whose scale is x_scale * w_scale, is
    added. Each sum s then becomes round(s * x_scale * w_scale / scale) + zero, clamped to the type of `zero`.

    Args:
        call: The node.
        x: Quantized images, [n, c, ...].
        x_scale: Scale of x.
        x_zero: Zero point of x.
        w: Quantized filters, [f, c / groups, ...].
        w_scale: Scale of w: one number, or a vector with an element per filter.
        w_zero: Zero point of w, in the form of w_scale.
        scale: Scale of the result.
        zero: Zero point of the result; the result has its type.
        bias: One i32 element per filter; None for 0.
    """
    # The sums in i32. The bias may be added to them, because its scale is that of their products.
    convolved = products.conv_integer(call, x, w, x_zero, w_zero)
    convolved = products.with_bias(call, convolved, bias, I32)
    return requantize(call, convolved, [x_scale, _along(call, w_scale, convolved, axis=1)], scale, zero, zero.dtype)
