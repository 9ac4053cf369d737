"""Operators that cut parts out of tensors, and that put elements around them."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Expr, Size, maximum, minimum
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import indexing, padding, shapes

_LIMIT = 1 << 40  # no size is larger; files write "to the end" as the largest number of a type


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
        low, high = (_clamped(c, place, size, 0, size) for place in (start, end))
        return shapes.slice_axis(c.b, x, axis, low, maximum(low, high), min(step, _LIMIT))
    # From `start` down to above `end`: the same of the reversed axis.
    low, high = _clamped(c, start, size, 0, size - 1), _clamped(c, end, size, -1, size - 1)
    x = indexing.reverse(c.b, x, [axis])
    first, last = size - 1 - low, size - 1 - high
    return shapes.slice_axis(c.b, x, axis, first, maximum(first, last), min(-step, _LIMIT))


def _clamped(c: Call, place: Place, size: Size, least: int, most: Size) -> Size:
    """Return a place clamped to the range from `least` to `most`; `most` takes precedence. A negative place counts from
    the end.
    """
    if isinstance(place, SSAValue):
        return _clamped_value(c, place, size, least, most)
    if not isinstance(place, Expr):
        if place > _LIMIT:
            return most
        if place < -_LIMIT:
            return minimum(least, most)
        if place < 0:
            place = size + place
    if place == size:
        return most
    return minimum(maximum(least, place), most)


def _clamped_value(c: Call, place: SSAValue, size: Size, least: int, most: Size) -> Size:
    b = c.b
    n = b.index(size)
    is_negative = b.add(arith.CmpiOp(place, b.index(0), "slt")).result
    place = b.add(arith.SelectOp(is_negative, b.add(arith.AddiOp(place, n)).result, place)).result
    place = b.add(arith.MinSIOp(b.add(arith.MaxSIOp(place, b.index(least))).result, b.index(most))).result
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
    """Crop or pad each axis on both sides to a size."""
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


TABLE: dict[str, Conversion] = {
    "Slice": _slice,
    "Pad": _pad,
    "CenterCropPad": _center_crop_pad,
}
