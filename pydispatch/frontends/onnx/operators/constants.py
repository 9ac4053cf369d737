"""Conversions of operators that create tensors from constants or from sizes."""

from __future__ import annotations

import math

import numpy as np

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import I64
from pydispatch.graph.size_functions import ceil_div, maximum
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, matrices, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.host_integers import HostInteger


@ONNX.converts("Constant")
def _constant(call: NodeCall) -> Tensor:
    """Return the constant that is stored in one of the node's attributes."""
    if call.has("value"):
        return call.tensor("value")
    if call.has("value_float"):
        return call.b.constant(np.float32(call.real("value_float")))
    if call.has("value_floats"):
        return call.b.constant(np.array(call.reals("value_floats"), np.float32))
    if call.has("value_int"):
        return call.b.constant(np.int64(call.integer("value_int")))
    if call.has("value_ints"):
        return call.b.constant(np.array(call.integers("value_ints"), np.int64))
    raise call.fail("its value is no tensor of numbers; strings and sparse tensors are not supported")


@ONNX.converts("ConstantOfShape")
def _constant_of_shape(call: NodeCall, shape: Tensor) -> Tensor:
    """Return a tensor of the shape in an operand, whose elements all equal the attribute `value`, by default f32 0."""
    sizes = call.sizes(shape, "shape")
    if any(not isinstance(n, Expr) and n < 0 for n in sizes):
        raise call.fail(f"a shape has a negative size: {sizes}")
    value = call.tensor("value") if call.has("value") else call.b.constant(np.zeros(1, np.float32))
    return shapes.broadcast_to(call.b, shapes.reshape(call.b, value, [1] * len(sizes)), sizes)


@ONNX.converts("Range")
def _range(call: NodeCall, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Return the numbers start, start + delta, ... below `limit` (above it, if delta is negative)."""
    dtype = start.dtype
    count = (_count_of_integers if dtype.is_integer else _count_of_floats)(call, start, limit, delta)
    position = shapes.iota(call.b, [count], axis=0, dtype=dtype)
    # Operations on tensors whose elements are known at compile time give such a tensor; another operator may then use
    # it as a shape.
    if start.known is not None and delta.known is not None and position.known is not None:
        return elementwise.binary(call.b, "add", start, elementwise.binary(call.b, "mul", position, delta))
    return formula(call.b, lambda i, a, d: a + i * d, position, _scalar(call, start), _scalar(call, delta))


def _count_of_integers(call: NodeCall, start: Tensor, limit: Tensor, delta: Tensor) -> Size:
    """Return the length of a range of integers, max(0, ceil((limit - start) / delta)).

    The range from 2 to 9 with the step 3 is 2, 5, 8: its length is ceil(7 / 3) = 3. Each of the three operands is an
    int, an expression of dynamic sizes, or a HostInteger, which is known only when the program runs. With an int as the
    step and no HostInteger, the length is an expression. Otherwise the host computes it in each call.
    """
    operands = (start, "start"), (limit, "limit"), (delta, "delta")
    (first,), (last,), (step,) = (call.integers_of(tensor, name) for tensor, name in operands)
    if step == 0:
        raise call.fail("its step is 0")
    if isinstance(step, int) and not isinstance(first, HostInteger) and not isinstance(last, HostInteger):
        distance = last - first if step > 0 else first - last
        return ceil_div(maximum(distance, 0), abs(step))
    step = HostInteger.of(call.b, step)
    ((step > 0) | (step < 0)).require("Range: its step is 0")  # checked in each call
    quotient = -((HostInteger.of(call.b, first) - last) // step)  # ceil(a / b) is -floor(-a / b)
    return quotient.max(0).size(hint="count")  # a dynamic size with a symbol of this name


def _count_of_floats(call: NodeCall, start: Tensor, limit: Tensor, delta: Tensor) -> Size:
    """Return the length of a range of floats. The host reads it back in each call if an operand is not constant."""
    known = [n for n in (call.maybe_numbers(t) for t in (start, limit, delta)) if n is not None]
    if len(known) == 3:
        first, last, step = (float(n.reshape(-1)[0]) for n in known)
        if step == 0:
            raise call.fail("its step is 0")
        return max(0, math.ceil((last - first) / step))

    def counted(a: Element, n: Element, d: Element) -> Element:
        """Return max(0, ceil((n - a) / d)), the length of the range from a to n by steps of d."""
        return ((n - a) / d).unary("ceil").max(0.0).to(I64)

    return call.b.size_of(call.b.scalar(formula(call.b, counted, start, limit, delta)))


def _scalar(call: NodeCall, x: Tensor) -> Tensor:
    """Return a tensor of one element, of any rank, as a tensor of rank 0."""
    return shapes.reshape(call.b, x, [])


@ONNX.converts("EyeLike")
def _eye_like(call: NodeCall, x: Tensor) -> Tensor:
    """Return a matrix of the shape of x with 1 on diagonal k and 0 elsewhere."""
    dtype = dtype_of(call.integer("dtype")) if call.has("dtype") else x.dtype
    if x.rank != 2:
        raise call.fail(f"its operand is {x}; expected a matrix")
    return matrices.identity(call.b, x.shape[0], x.shape[1], dtype, call.integer("k", 0))


@ONNX.converts("Shape")
def _shape(call: NodeCall, x: Tensor) -> Tensor:
    """Return the sizes of the axes from `start` up to `end` (exclusive) as an i64 vector; dynamic sizes stay symbolic.

    Negative bounds count from the end, and bounds out of range are clamped, as in a Python slice.
    """
    start, end = call.integer("start", 0), call.integer("end", x.rank)
    sizes = x.shape[slice(start, end)]
    array = np.empty(len(sizes), object)  # objects, because sizes may be expressions
    array[:] = sizes
    return call.b.constant(array, I64)


@ONNX.converts("Size")
def _size(call: NodeCall, x: Tensor) -> Tensor:
    """Return the number of elements as an i64 scalar."""
    array = np.empty((), object)  # the product may be an expression of dynamic sizes, which is stored as an object
    array[()] = product(x.shape)
    return call.b.constant(array, I64)
