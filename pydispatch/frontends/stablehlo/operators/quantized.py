"""Conversions of quantized types. A stored integer represents (stored - zero point) * scale; most operations work on
these numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.frontends.stablehlo.types import dtype_of, quantization_of
from pydispatch.graph.dtypes import I32, I64, DType, of_element
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.quant import Quantization
from pydispatch.operations import elementwise as ew


def _along(
    tracer: StablehloTracer, values: tuple[Any, ...], quantization: Quantization, x: Tensor, dtype: DType
) -> Tensor:
    """Return scales or zero points as a constant that broadcasts to x.

    For x [2, 4], one scale for each position along axis 1, {1, 2, 3, 4}, gives [[1, 2, 3, 4]]. Scales for blocks of
    1 position along axis 0 and 2 along axis 1, {{1, 2}, {3, 4}}, give [[1, 1, 2, 2], [3, 3, 4, 4]].

    Args:
        tracer: Tracer of the function.
        values: The scales or zero points of `quantization`, in row-major order: one number for all of x; or one for
            each position, or block of positions, along `quantization.axes`.
        quantization: The quantized type; its `shape` is the number of scales along each of its axes.
        x: The quantized tensor.
        dtype: Type of the constant.

    Raises:
        CompileError: The scales do not fit the sizes of x, or one of these sizes is dynamic.
    """
    table = np.array(values).reshape(quantization.shape)
    if not quantization.axes:
        return tracer.b.constant(table, dtype)
    tracer.axes(quantization.axes, "the axes of the scales", x.rank)  # raises for axes that x lacks
    # Repeat each number for all positions of its block.
    for position, axis in enumerate(quantization.axes):
        size = quantization.blocks[position] if quantization.blocks else 1
        n = x.shape[axis]
        if not isinstance(n, int) or size < 1 or n != table.shape[position] * size:
            raise tracer.b.fail(f"{table.shape[position]} scales for blocks of {size} do not fit axis {axis} of {x}")
        table = np.repeat(table, size, position)
    # Bring the axes of the table to those of x, with size 1 for axes that it lacks.
    shape = [1] * x.rank
    for axis, n in zip(quantization.axes, table.shape, strict=True):
        shape[axis] = n
    order = np.argsort(quantization.axes)  # the table has the axes as the type lists them, x in ascending order
    return tracer.b.constant(np.transpose(table, order).reshape(shape), dtype)


def dequantized(tracer: StablehloTracer, x: Tensor, quantization: Quantization) -> Tensor:
    """Return the real numbers that stored integers represent."""
    dtype = of_element(quantization.expressed)
    # The difference of a stored integer of 32 bits and a zero point may exceed 32 bits, as unsigned integers do.
    is_wide = x.dtype.bits == 32 and (x.dtype.is_unsigned or any(quantization.zero_points))
    inner = I64 if is_wide else I32
    scales, zero_points = (
        _along(tracer, quantization.scales, quantization, x, dtype),
        _along(tracer, quantization.zero_points, quantization, x, inner),
    )

    def number_of(s: Any, stored: Any, scale: Any, zero_point: Any) -> Any:
        """Return (stored - zero point) * scale of one element; `s` emits the operations."""
        return s.binary("mul", s.convert(s.binary("sub", s.convert(stored, inner), zero_point), dtype), scale)

    return ew.apply(tracer.b, number_of, x, scales, zero_points)


def quantized(tracer: StablehloTracer, x: Tensor, quantization: Quantization, dtype: DType) -> Tensor:
    """Return the nearest stored integers, as `dtype`: x / scale rounded half to even, plus the zero point, clamped to
    the range of the quantized type.
    """
    scales, zero_points = (
        _along(tracer, quantization.scales, quantization, x, x.dtype),
        _along(tracer, quantization.zero_points, quantization, x, x.dtype),
    )

    def integer_of(s: Any, value: Any, scale: Any, zero_point: Any) -> Any:
        """Return round(value / scale) + zero point of one element, clamped to the range of the quantized type.

        `s` emits the operations.
        """
        stored = s.binary("add", s.unary("round_even", s.binary("div", value, scale)), zero_point)
        low, high = (s.const(float(limit), x.dtype) for limit in (quantization.low, quantization.high))
        return s.convert(s.binary("min", s.binary("max", stored, low), high), dtype)

    return ew.apply(tracer.b, integer_of, x, scales, zero_points)


def _quantize(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Quantize the operand to the result's type. A quantized operand is dequantized first."""
    before = quantization_of(op.operands[0].type)
    if before is not None:
        x = dequantized(tracer, x, before)
    after = quantization_of(op.results[0].type)
    if after is None:
        raise tracer.b.fail(f"'stablehlo.uniform_quantize' gives a quantized type, got {op.results[0].type}")
    return quantized(tracer, x, after, dtype_of(op.results[0].type))


def _dequantize(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Tensor:
    """Return the real numbers that the stored integers of the operand represent."""
    before = quantization_of(op.operands[0].type)
    if before is None:
        raise tracer.b.fail(f"'stablehlo.uniform_dequantize' takes a quantized type, got {op.operands[0].type}")
    return dequantized(tracer, operands[0], before)


_OF_STORED = frozenset({
    "func.call", "stablehlo.bitcast_convert", "stablehlo.broadcast_in_dim", "stablehlo.case", "stablehlo.composite",
    "stablehlo.concatenate", "stablehlo.constant", "stablehlo.custom_call", "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_gather", "stablehlo.dynamic_reshape", "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice", "stablehlo.gather", "stablehlo.get_dimension_size", "stablehlo.if",
    "stablehlo.optimization_barrier", "stablehlo.pad", "stablehlo.real_dynamic_slice", "stablehlo.reshape",
    "stablehlo.reverse", "stablehlo.select", "stablehlo.slice", "stablehlo.transpose", "stablehlo.uniform_dequantize",
    "stablehlo.uniform_quantize", "stablehlo.while",
})  # fmt: skip
"""Operations that work on the stored integers themselves, because they only move elements, or convert
quantized types."""


def on_numbers(convert: Convert) -> Convert:
    """Wrap a conversion so that quantized operands are dequantized before it, and its results quantized."""

    def converted(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
        """Run the conversion on real numbers, unless no type is quantized or the operation only moves stored
        integers.
        """
        types = [v.type for v in (*op.operands, *op.results)]
        if op.name in _OF_STORED or not any(isinstance(ty, TensorType) and quantization_of(ty) for ty in types):
            return convert(tracer, op, *operands)
        # `_dequantized` and `_stored` return tensors unchanged whose types are not quantized.
        dequantized = [_dequantized(tracer, x, v.type) for x, v in zip(operands, op.operands, strict=True)]
        with tracer.on_real_numbers(op):  # within it, the result types of `op` are those of the real numbers
            computed = convert(tracer, op, *dequantized)
        results = [computed] if isinstance(computed, Tensor) else list(computed)
        return [_stored(tracer, x, r.type) for x, r in zip(results, op.results, strict=True)]

    return converted


def _dequantized(tracer: StablehloTracer, x: Tensor, type: Attribute) -> Tensor:
    """Return the real numbers of a quantized tensor; other tensors are returned unchanged."""
    q = quantization_of(type)
    return x if q is None else dequantized(tracer, x, q)


def _stored(tracer: StablehloTracer, x: Tensor, type: Attribute) -> Tensor:
    """Return real numbers quantized to a type; unchanged if the type is not quantized."""
    q = quantization_of(type)
    return x if q is None else quantized(tracer, x, q, dtype_of(type))


ROWS: dict[str, Convert] = {
    "stablehlo.uniform_dequantize": _dequantize,
    "stablehlo.uniform_quantize": _quantize,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
