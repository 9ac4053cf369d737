"""Operators that make tensors of nothing, or of sizes."""

from __future__ import annotations

import math

import numpy as np

from pydispatch.frontends.graph.dtypes import DTYPES, I64
from pydispatch.frontends.graph.sizes import Expr, Size, ceil_div, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, shapes
from pydispatch.frontends.ops.formulas import Element, formula, positions


def _constant(c: Call) -> Tensor:
    """Return the tensor that one of the attributes states."""
    if c.has("value"):
        return c.tensor("value")
    if c.has("value_float"):
        return c.b.constant(np.float32(c.real("value_float")))
    if c.has("value_floats"):
        return c.b.constant(np.array(c.reals("value_floats"), np.float32))
    if c.has("value_int"):
        return c.b.constant(np.int64(c.integer("value_int")))
    if c.has("value_ints"):
        return c.b.constant(np.array(c.integers("value_ints"), np.int64))
    raise c.fail("its value is no tensor of numbers; strings and sparse tensors are not supported")


def _constant_of_shape(c: Call, shape: Tensor) -> Tensor:
    sizes = c.sizes(shape, "shape")
    if any(not isinstance(n, Expr) and n < 0 for n in sizes):
        raise c.fail(f"a shape has a negative size: {sizes}")
    value = c.tensor("value") if c.has("value") else c.b.constant(np.zeros(1, np.float32))
    return shapes.broadcast_to(c.b, shapes.reshape(c.b, value, [1] * len(sizes)), sizes)


def _range(c: Call, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """start, start + delta, ... while below the limit."""
    dtype = start.dtype
    if dtype.is_integer and all(c.maybe_sizes(t) is not None for t in (start, limit, delta)):
        (first,), (last,), (step,) = (c.sizes(t, "start") for t in (start, limit, delta))
        if step == 0:
            raise c.fail("its step is 0")
        count: Size = ceil_div(last - first, step)
        count = count if isinstance(count, Expr) else max(count, 0)
    else:
        count = _count_of_range(c, start, limit, delta)
    place = shapes.iota(c.b, [count], 0, dtype)
    if start.known is not None and delta.known is not None and place.known is not None:
        return elementwise.binary(c.b, "add", start, elementwise.binary(c.b, "mul", place, delta))
    return formula(c.b, lambda i, a, d: a + i * d, place, _scalar(c, start), _scalar(c, delta))


def _count_of_range(c: Call, start: Tensor, limit: Tensor, delta: Tensor) -> Size:
    known = [n for n in (c.maybe_numbers(t) for t in (start, limit, delta)) if n is not None]
    if len(known) == 3:
        first, last, step = (float(n.reshape(-1)[0]) for n in known)
        if step == 0:
            raise c.fail("its step is 0")
        return max(0, math.ceil((last - first) / step))
    exact = start.dtype if start.dtype.is_float else DTYPES["f64"]

    def counted(a: Element, n: Element, d: Element) -> Element:
        return ((n.to(exact) - a.to(exact)) / d.to(exact)).of("ceil").at_least(0.0).to(I64)

    return c.b.size_of(c.b.scalar(formula(c.b, counted, start, limit, delta)))


def _scalar(c: Call, x: Tensor) -> Tensor:
    return shapes.reshape(c.b, x, [])


def _eye_like(c: Call, x: Tensor) -> Tensor:
    dtype = dtype_of(c.integer("dtype")) if c.has("dtype") else x.dtype
    k = c.integer("k", 0)
    return positions(c.b, lambda e: (e.at(1) - e.at(0)).is_equal(k).to(dtype), x.shape)


def _shape(c: Call, x: Tensor) -> Tensor:
    start, end = c.integer("start", 0), c.integer("end", x.rank)
    sizes = x.shape[slice(start, end)]
    array = np.empty(len(sizes), object)
    array[:] = sizes
    return c.b.constant(array, I64)


def _size(c: Call, x: Tensor) -> Tensor:
    array = np.empty((), object)
    array[()] = product(x.shape)
    return c.b.constant(array, I64)


TABLE: dict[str, Conversion] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "EyeLike": _eye_like,
    "Shape": _shape,
    "Size": _size,
}
