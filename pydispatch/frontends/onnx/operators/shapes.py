"""Operators that make tensors, and that give elements another place without a look at them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import DTYPES, I64, DType
from pydispatch.frontends.graph.sizes import Expr, Size, ceil_div, maximum, minimum, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, indexing, padding, shapes
from pydispatch.frontends.ops.formulas import Element, formula, positions

_LIMIT = 1 << 40  # no size is larger; files write "to the end" as the largest number of a type

# -- constants


def _constant(c: Call) -> Tensor:
    """The tensor that one of the attributes states."""
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


# -- reshape


def _reshape(c: Call, x: Tensor, shape: Tensor) -> Tensor:
    """-1 stands for what is left, 0 for the size that x has there."""
    allow_zero = c.flag("allowzero")
    if c.maybe_sizes(shape) is None:
        return shapes.reshape(c.b, x, _read_shape(c, x, shape, allow_zero))
    sizes = c.sizes(shape, "shape")
    if not allow_zero:
        if any(n == 0 for n in sizes[x.rank :]):
            raise c.fail(f"shape {sizes} has a 0 for an axis that {x} lacks")
        sizes = [x.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    return shapes.reshape(c.b, x, sizes)


def _read_shape(c: Call, x: Tensor, shape: Tensor, allow_zero: bool) -> list[Size]:
    """The sizes of a shape that is computed, as `_reshape` understands them."""
    b = c.b
    values: list[SSAValue] = []
    for d, value in enumerate(c.tracer.read_indices(shape)):
        if not allow_zero and d < x.rank:
            is_zero = b.add(arith.CmpiOp(value, b.index(0), "eq")).result
            value = b.add(arith.SelectOp(is_zero, b.index(x.shape[d]), value)).result
        values.append(value)
    everything = b.index(1)
    for value in values:
        everything = b.add(arith.MuliOp(everything, value)).result
    # With one -1 the product is minus that of the others.
    others = b.add(arith.SubiOp(b.index(0), everything)).result
    left = b.add(arith.DivSIOp(b.index(product(x.shape)), b.add(arith.MaxSIOp(others, b.index(1))).result)).result
    found = []
    for value in values:
        is_open = b.add(arith.CmpiOp(value, b.index(0), "slt")).result
        found.append(b.size_of(b.add(arith.SelectOp(is_open, left, value)).result))
    return found


def _flatten(c: Call, x: Tensor) -> Tensor:
    axis = c.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise c.fail(f"axis {axis} is not within the {x.rank} axes of its operand")
    axis += x.rank if axis < 0 else 0
    return shapes.reshape(c.b, x, [product(x.shape[:axis]), product(x.shape[axis:])])


def axes_operand(c: Call, axes: Tensor | None, since: int) -> list[int] | None:
    """Axes that are an attribute, and since a version an operand. None when they are left out."""
    if c.version < since:
        return c.maybe_integers("axes")
    return None if axes is None else [int(n) for n in c.numbers(axes, "axes").reshape(-1)]


def _squeeze(c: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = axes_operand(c, axes, 13)
    return shapes.squeeze(c.b, x, None if given is None else c.axes(given, x.rank))


def _unsqueeze(c: Call, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = axes_operand(c, axes, 13)
    if given is None:
        raise c.fail("its axes are missing")
    return shapes.expand_dims(c.b, x, c.axes(given, x.rank + len(given)))


def _transpose(c: Call, x: Tensor) -> Tensor:
    return shapes.transpose(c.b, x, c.maybe_integers("perm"))


# -- join and take apart


def _concat(c: Call, *tensors: Tensor) -> Tensor:
    if not tensors:
        raise c.fail("it has no operands")
    return shapes.concat(c.b, tensors, c.axis(c.integer("axis"), tensors[0].rank))


def _split(c: Call, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    axis = c.axis(c.integer("axis", 0), x.rank)
    given = c.maybe_integers("split") if c.version < 13 else None if sizes is None else c.sizes(sizes, "split")
    total = x.shape[axis]
    if given is None:
        parts = c.integer("num_outputs", c.results)
        if not 0 < parts <= 1 << 16:
            raise c.fail(f"it has {parts} outputs")
        each = ceil_div(total, parts)
        given = [each] * (parts - 1)
        given.append(total - each * (parts - 1))
    if total == 0:
        given = [0] * len(given)
    if not isinstance(total, Expr) and all(not isinstance(n, Expr) for n in given) and sum(given) != total:
        raise c.fail(f"parts of {given} are no {total} elements")
    return shapes.split(c.b, x, axis, given)


def _tile(c: Call, x: Tensor, repeats: Tensor) -> Tensor:
    counts = c.sizes(repeats, "repeats")
    if len(counts) != x.rank:
        raise c.fail(f"{len(counts)} repeats are given for the {x.rank} axes of {x}")
    return shapes.tile(c.b, x, counts)


def _expand(c: Call, x: Tensor, shape: Tensor) -> Tensor:
    sizes = c.sizes(shape, "shape")
    return shapes.broadcast_to(c.b, x, elementwise.broadcast_shape(c.b, x.shape, tuple(sizes)))


# -- slices


def _slice(
    c: Call, x: Tensor, starts: Tensor | None = None, ends: Tensor | None = None, axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:  # fmt: skip
    begins: list[Place]
    limits: list[Place]
    if c.version < 10:
        begins, limits, which, strides = [*c.integers("starts")], [*c.integers("ends")], c.maybe_integers("axes"), None
    else:
        if starts is None or ends is None:
            raise c.fail("its starts or ends are missing")
        begins, limits = _places(c, starts), _places(c, ends)
        which = None if axes is None else [int(n) for n in c.numbers(axes, "axes").reshape(-1)]
        strides = None if steps is None else [int(n) for n in c.numbers(steps, "steps").reshape(-1)]
    count = len(begins)
    which = c.axes(which if which is not None else range(count), x.rank)
    strides = strides if strides is not None else [1] * count
    if any(len(given) != count for given in (limits, which, strides)):
        raise c.fail(f"{count} starts, {len(limits)} ends, {len(which)} axes and {len(strides)} steps are given")
    for n, axis in enumerate(which):
        x = _slice_axis(c, x, axis, begins[n], limits[n], strides[n])
    return x


Place = Any  # a number, a size, or a value of type index that may be negative


def _places(c: Call, of: Tensor) -> list[Place]:
    known = c.maybe_sizes(of)
    return known if known is not None else c.tracer.read_indices(of)


def _slice_axis(c: Call, x: Tensor, axis: int, start: Place, end: Place, step: int) -> Tensor:
    size = x.shape[axis]
    if step == 0:
        raise c.fail("a step is 0")
    if step > 0:
        low, high = _clamped(c, start, size, 0), _clamped(c, end, size, 0)
        return shapes.slice_axis(c.b, x, axis, low, maximum(low, high), min(step, _LIMIT))
    # From `start` down to above `end`: the same of the reversed axis.
    low, high = _clamped(c, start, size, -1), _clamped(c, end, size, -1)
    x = indexing.reverse(c.b, x, [axis])
    first, last = size - 1 - low, size - 1 - high
    return shapes.slice_axis(c.b, x, axis, first, maximum(first, last), min(-step, _LIMIT))


def _clamped(c: Call, place: Place, size: Size, least: int) -> Size:
    """A place that counts from the end when it is negative, within `least` and `size` + `least`."""
    if isinstance(place, SSAValue):
        return _clamped_value(c, place, size, least)
    if not isinstance(place, Expr):
        if place > _LIMIT:
            return size + least
        if place < -_LIMIT:
            return least
        if place < 0:
            place = size + place
    if place == size:
        return size + least
    return maximum(least, minimum(place, size + least))


def _clamped_value(c: Call, place: SSAValue, size: Size, least: int) -> Size:
    b = c.b
    n = b.index(size)
    is_negative = b.add(arith.CmpiOp(place, b.index(0), "slt")).result
    place = b.add(arith.SelectOp(is_negative, b.add(arith.AddiOp(place, n)).result, place)).result
    highest = b.index(size + least)
    place = b.add(arith.MinSIOp(b.add(arith.MaxSIOp(place, b.index(least))).result, highest)).result
    return b.size_of(place)


# -- pad


def _pad(
    c: Call, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    mode = c.text("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    amounts: list[Size]
    if c.version < 11:
        amounts = list(c.integers("pads"))
        fill: Tensor | complex = c.real("value", 0.0)
    else:
        if pads is None:
            raise c.fail("its pads are missing")
        amounts = c.sizes(pads, "pads")
        fill = value if value is not None else 0.0
    which = list(range(x.rank)) if axes is None else c.axes([int(n) for n in c.numbers(axes, "axes")], x.rank)
    if len(amounts) != 2 * len(which):
        raise c.fail(f"{len(amounts)} pads are given for {len(which)} axes")
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for n, axis in enumerate(which):
        low[axis], high[axis] = amounts[n], amounts[len(which) + n]
    if mode == "constant":
        return shapes.pad(c.b, x, low, high, fill if isinstance(fill, Tensor) else _number(fill, x.dtype))
    return padding.pad_with(c.b, x, low, high, mode)


def _number(value: complex, dtype: DType) -> Any:
    return bool(value) if dtype.is_bool else int(value.real) if dtype.is_integer else value


def _center_crop_pad(c: Call, x: Tensor, shape: Tensor) -> Tensor:
    """Each axis cut or padded on both sides to a size."""
    axes = c.axes(c.integers("axes", list(range(x.rank))), x.rank)
    for axis, target in zip(axes, (int(n) for n in c.numbers(shape, "shape").reshape(-1)), strict=True):
        size = x.shape[axis]
        if isinstance(size, Expr):
            raise c.fail(f"axis {axis} of {x} has a size that calls decide")
        low: list[Size] = [0] * x.rank
        high: list[Size] = [0] * x.rank
        if target > size:
            low[axis] = (target - size) // 2
            high[axis] = target - size - low[axis]
            x = shapes.pad(c.b, x, low, high, _number(0, x.dtype))
        else:
            start = (size - target) // 2
            x = shapes.slice_axis(c.b, x, axis, start, start + target)
    return x


# -- blocks


def _depth_to_space(c: Call, x: Tensor) -> Tensor:
    block = _block(c)
    columns_first = c.text("mode", "DCR", ("DCR", "CRD")) == "DCR"
    n, depth, height, width = _image(c, x)
    if columns_first:
        parts, order = [n, block, block, depth // (block * block), height, width], [0, 3, 4, 1, 5, 2]
    else:
        parts, order = [n, depth // (block * block), block, block, height, width], [0, 1, 4, 2, 5, 3]
    made = shapes.transpose(c.b, shapes.reshape(c.b, x, parts), order)
    return shapes.reshape(c.b, made, [n, depth // (block * block), height * block, width * block])


def _space_to_depth(c: Call, x: Tensor) -> Tensor:
    block = _block(c)
    n, depth, height, width = _image(c, x)
    parts = shapes.reshape(c.b, x, [n, depth, height // block, block, width // block, block])
    made = shapes.transpose(c.b, parts, [0, 3, 5, 1, 2, 4])
    return shapes.reshape(c.b, made, [n, depth * block * block, height // block, width // block])


def _block(c: Call) -> int:
    block = c.integer("blocksize")
    if block < 1:
        raise c.fail(f"its block size is {block}")
    return block


def _image(c: Call, x: Tensor) -> Sequence[Size]:
    if x.rank != 4:
        raise c.fail(f"its operand is {x}; expected 4 axes")
    return x.shape


def _trilu(c: Call, x: Tensor, k: Tensor | None = None) -> Tensor:
    """The triangle above or below a diagonal; elsewhere 0."""
    upper = c.flag("upper", True)
    if x.rank < 2:
        raise c.fail(f"its operand is {x}; expected 2 axes or more")
    row, column = x.rank - 2, x.rank - 1
    distance = k if k is not None else c.b.constant(np.int64(0))

    def kept(v: Element, at: Element) -> Element:
        beside = v.position(column, I64) - v.position(row, I64)
        return ((beside >= at) if upper else (beside <= at)).choose(v, v.const(0))

    return formula(c.b, kept, x, shapes.reshape(c.b, distance, []))


# -- optional values: a tensor is one that is there


def _has_element(c: Call, x: Tensor | None = None) -> Tensor:
    return c.b.constant(np.bool_(x is not None))


def _get_element(c: Call, x: Tensor) -> Tensor:
    return x


TABLE: dict[str, Conversion] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "EyeLike": _eye_like,
    "Shape": _shape,
    "Size": _size,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Tile": _tile,
    "Expand": _expand,
    "Slice": _slice,
    "Pad": _pad,
    "CenterCropPad": _center_crop_pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _trilu,
    "OptionalHasElement": _has_element,
    "OptionalGetElement": _get_element,
}
