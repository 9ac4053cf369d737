"""Operators that cut parts out of tensors, and that put elements around them."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Expr, Size, maximum, minimum
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import indexing, padding, shapes

_LIMIT = 1 << 40  # no size is larger; files write "to the end" as the largest number of a type


def _slice(
    call: NodeCall, x: Tensor, starts: Tensor | None = None, ends: Tensor | None = None, axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:  # fmt: skip
    begins: list[Bound]
    limits: list[Bound]
    if call.version < 10:
        begins, limits, which, strides = (
            [*call.integers("starts")],
            [*call.integers("ends")],
            call.maybe_integers("axes"),
            None,
        )
    else:
        if starts is None or ends is None:
            raise call.fail("its starts or ends are missing")
        begins, limits = _positions(call, starts), _positions(call, ends)
        which = None if axes is None else [int(n) for n in call.numbers(axes, "axes").reshape(-1)]
        strides = None if steps is None else [int(n) for n in call.numbers(steps, "steps").reshape(-1)]
    count = len(begins)
    which = call.axes(which if which is not None else range(count), x.rank)
    strides = strides if strides is not None else [1] * count
    if any(len(bounds) != count for bounds in (limits, which, strides)):
        raise call.fail(f"{count} starts, {len(limits)} ends, {len(which)} axes and {len(strides)} steps are given")
    for n, axis in enumerate(which):
        x = _slice_axis(call, x, axis, begins[n], limits[n], strides[n])
    return x


Bound = Any  # a number, a size, or a value of type index that may be negative


def _positions(call: NodeCall, of: Tensor) -> list[Bound]:
    known = call.maybe_sizes(of)
    return known if known is not None else call.tracer.read_indices(of)


def _slice_axis(call: NodeCall, x: Tensor, axis: int, start: Bound, end: Bound, step: int) -> Tensor:
    size = x.shape[axis]
    if step == 0:
        raise call.fail("a step is 0")
    if step > 0:
        low, high = (_clamped(call, position, size, 0, size) for position in (start, end))
        return shapes.slice_axis(call.b, x, axis, low, maximum(low, high), min(step, _LIMIT))
    # From `start` down to above `end`: the same of the reversed axis.
    low, high = _clamped(call, start, size, 0, size - 1), _clamped(call, end, size, -1, size - 1)
    x = indexing.reverse(call.b, x, [axis])
    first, last = size - 1 - low, size - 1 - high
    return shapes.slice_axis(call.b, x, axis, first, maximum(first, last), min(-step, _LIMIT))


def _clamped(call: NodeCall, position: Bound, size: Size, least: int, most: Size) -> Size:
    """Return a position clamped to the range from `least` to `most`; `most` takes precedence. A negative position
    counts from the end.
    """
    if isinstance(position, SSAValue):
        return _clamped_value(call, position, size, least, most)
    if not isinstance(position, Expr):
        if position > _LIMIT:
            return most
        if position < -_LIMIT:
            return minimum(least, most)
        if position < 0:
            position = size + position
    if position == size:
        return most
    return minimum(maximum(least, position), most)


def _clamped_value(call: NodeCall, position: SSAValue, size: Size, least: int, most: Size) -> Size:
    b = call.b
    n = b.index(size)
    is_negative = b.add(arith.CmpiOp(position, b.index(0), "slt")).result
    position = b.add(arith.SelectOp(is_negative, b.add(arith.AddiOp(position, n)).result, position)).result
    position = b.add(arith.MinSIOp(b.add(arith.MaxSIOp(position, b.index(least))).result, b.index(most))).result
    return b.size_of(position)


# -- pad


def _pad(
    call: NodeCall, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    mode = call.text("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    amounts: list[Size]
    if call.version < 11:
        amounts = list(call.integers("pads"))
        fill: Tensor | complex = call.real("value", 0.0)
    else:
        if pads is None:
            raise call.fail("its pads are missing")
        amounts = call.sizes(pads, "pads")
        fill = value if value is not None else 0.0
    which = list(range(x.rank)) if axes is None else call.axes([int(n) for n in call.numbers(axes, "axes")], x.rank)
    if len(amounts) != 2 * len(which):
        raise call.fail(f"{len(amounts)} pads are given for {len(which)} axes")
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for n, axis in enumerate(which):
        low[axis], high[axis] = amounts[n], amounts[len(which) + n]
    if mode == "constant":
        return shapes.pad(call.b, x, low, high, fill if isinstance(fill, Tensor) else _number(fill, x.dtype))
    return padding.pad_with(call.b, x, low, high, mode)


def _number(value: complex, dtype: DType) -> Any:
    return bool(value) if dtype.is_bool else int(value.real) if dtype.is_integer else value


def _center_crop_pad(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    """Crop or pad each axis on both sides to a size."""
    axes = call.axes(call.integers("axes", list(range(x.rank))), x.rank)
    for axis, target in zip(axes, (int(n) for n in call.numbers(shape, "shape").reshape(-1)), strict=True):
        size = x.shape[axis]
        if isinstance(size, Expr):
            raise call.fail(f"axis {axis} of {x} has a size that calls decide")
        low: list[Size] = [0] * x.rank
        high: list[Size] = [0] * x.rank
        if target > size:
            low[axis] = (target - size) // 2
            high[axis] = target - size - low[axis]
            x = shapes.pad(call.b, x, low, high, _number(0, x.dtype))
        else:
            start = (size - target) // 2
            x = shapes.slice_axis(call.b, x, axis, start, start + target)
    return x


TABLE: dict[str, Conversion] = {
    "Slice": _slice,
    "Pad": _pad,
    "CenterCropPad": _center_crop_pad,
}
