"""Conversions of operators that slice, pad and crop tensors."""

from __future__ import annotations

from typing import Any

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.dtypes import DType
from pydispatch.graph.size_functions import maximum, minimum, one_unless_empty
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import indexing, padding, slicing
from pydispatch.operations.chosen_axes import ChosenAxes
from pydispatch.operations.host_integers import HostInteger, Integer

_LIMIT = 1 << 40  # no size is larger; files write "to the end" as the largest number of a type


@ONNX.converts("Slice")
def _slice(
    call: NodeCall, x: Tensor, starts: Tensor | None = None, ends: Tensor | None = None, axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return x[starts:ends:steps] along `axes`, by default the first ones, with the clamping of Python slices.

    starts [1, 0], ends [9, -1] and axes [0, 2] of x [4, 5, 6] give x[1:4, :, 0:5]. Before version 10 these operands are
    attributes, without steps. Otherwise each of them may be computed at run time. Its elements are then HostIntegers,
    which the host reads back in each call; computed axes are ChosenAxes.

    Raise CompileError if starts or ends are missing, or the operands have different lengths.
    """
    # Read the operands or attributes: a start, an end and a step for each of the axes.
    begins: list[Integer]
    limits: list[Integer]
    chosen_axes: list[int] | ChosenAxes  # ChosenAxes if the axes are computed at run time
    if call.version < 10:
        begins, limits, strides = [*call.integers("starts")], [*call.integers("ends")], None
        chosen_axes = call.axes(call.integers("axes", list(range(len(begins)))), x.rank)
    else:
        if starts is None or ends is None:
            raise call.fail("its starts or ends are missing")
        begins, limits = call.integers_of(starts, "starts"), call.integers_of(ends, "ends")
        chosen_axes = call.axes(range(len(begins)), x.rank) if axes is None else call.axes_of(axes, x.rank)
        strides = None if steps is None else call.integers_of(steps, "steps")
    count = len(begins)
    strides = strides if strides is not None else [1] * count
    known_axes = chosen_axes.axes if isinstance(chosen_axes, ChosenAxes) else chosen_axes
    if any(len(bounds) != count for bounds in (limits, known_axes, strides)):
        raise call.fail(
            f"{count} starts, {len(limits)} ends, {len(known_axes)} axes and {len(strides)} steps are given"
        )
    if isinstance(chosen_axes, ChosenAxes):
        # Which axes are sliced is known only at run time, so all axes of x are: `scattered` returns for each axis its
        # value if it is chosen, else the default, which selects the whole axis.
        ones: list[Integer] = [1] * x.rank
        begins = [*chosen_axes.scattered(begins, [0] * x.rank)]
        limits = [*chosen_axes.scattered(limits, x.shape)]
        strides = ones if steps is None else [*chosen_axes.scattered(strides, ones)]
        chosen_axes = list(range(x.rank))
    # Slice one axis after the other.
    for axis, begin, limit, stride in zip(chosen_axes, begins, limits, strides, strict=True):
        if isinstance(stride, int):
            x = _slice_axis(call, x, axis, begin, limit, stride)
        else:
            x = _slice_by_computed_step(call, x, axis, begin, limit, HostInteger.of(call.b, stride))
    return x


def _slice_by_computed_step(
    call: NodeCall, x: Tensor, axis: int, start: Integer, end: Integer, step: HostInteger
) -> Tensor:
    """Slice along an axis by a step that the host computes in each call, so that its sign is unknown."""
    size, is_forward = HostInteger.of(call.b, x.shape[axis]), step > 0
    (is_forward | (step < 0)).require("Slice: a step is 0")
    # Forwards, both positions are from 0 to size. Backwards, the start is from 0, the end from -1, to size - 1.
    first, last = is_forward.where(0, -1), is_forward.where(size, size - 1)
    low, high = (_from_end(call, position, size) for position in (start, end))
    low, high = low.max(0).min(last), high.max(first).min(last)
    # ceil((high - low) / step) by a floor division: forwards (high - low - 1) // step + 1, backwards
    # (high - low + 1) // step + 1.
    count = ((high - low - is_forward.where(1, -1)) // step + 1).max(0)
    return indexing.strided_axis(call.b, x, axis, low, count.size(hint="count"), step)


def _from_end(call: NodeCall, position: Integer, size: Integer) -> HostInteger:
    """Return a position that may count from the end of an axis of `size` elements, counted from its start.

    The result is from -1, the position before the first element, to `size`.
    """
    size = HostInteger.of(call.b, size)
    position = HostInteger.of(call.b, position).max(-1 - size).min(size)  # so that the sum does not overflow
    return (position < 0).where(position + size, position)


def _slice_axis(call: NodeCall, x: Tensor, axis: int, start: Integer, end: Integer, step: int) -> Tensor:
    """Return the elements from `start` up to `end` (exclusive) along an axis; a negative step goes backwards."""
    size = x.shape[axis]
    if step == 0:
        raise call.fail("a step is 0")
    is_reversed = step < 0
    first, last = (_position(call, position, size, is_reversed) for position in (start, end))
    if is_reversed:
        # Backwards from `start` to `end` (exclusive) is forwards in the reversed axis. The start is one of its
        # elements, the end may be after them.
        x = indexing.reverse(call.b, x, [axis])
        # size - one_unless_empty(size): the index of the last element, or 0 on an empty axis.
        first = minimum(maximum(first, 0), size - one_unless_empty(size))
        last = maximum(first, minimum(last, size))
    else:
        first, last = slicing.clamped_bounds(first, last, size)
    # A step of _LIMIT exceeds every size: like a larger one, it takes the first element alone.
    return slicing.slice_axis(call.b, x, axis, first, last, min(abs(step), _LIMIT))


def _position(call: NodeCall, position: Integer, size: Size, is_reversed: bool) -> Size:
    """Return a position on an axis of `size` elements, counted from the start of the axis. It may be out of bounds.

    On an axis of 5, the position -2 becomes 3. A number beyond `_LIMIT`, by which files write "to the end", is an end
    of the axis.

    Args:
        call: The node.
        position: Start or end of a slice; negative numbers count from the end. A HostInteger is clamped to the axis at
            run time.
        size: Size of the axis.
        is_reversed: Whether the result is on the reversed axis, where index i is size - 1 - i: -2 becomes 1.
    """
    if isinstance(position, HostInteger):
        position = _from_end(call, position, size)
        return (-1 - position + size if is_reversed else position).max(0).size()
    if not isinstance(position, Expr) and abs(position) > _LIMIT:
        # Negative: the start, else the end. On the reversed axis these two change places.
        return 0 if (position < 0) != is_reversed else size
    position = slicing.counted_from_start(position, size)
    return size - 1 - position if is_reversed else position


# -- pad


@ONNX.converts("Pad")
def _pad(
    call: NodeCall, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    """Pad x by the mode: with a constant, by default 0, or with elements of x. Negative pads crop.

    `pads` has the amounts before each of the `axes`, by default all, and then those after them: [1, 2, 3, 4] adds 1
    element before and 3 after axis 0, and 2 before and 4 after axis 1. It is an attribute before version 11. `pads` and
    `axes` may be computed at run time: their elements are then HostIntegers, which the host reads back in each call,
    and the axes are ChosenAxes.

    Raise CompileError if pads are missing, or there are not two for each axis.
    """
    mode = call.text("mode", "constant", ("constant", "reflect", "edge", "wrap"))
    amounts: list[Integer]
    if call.version < 11:
        amounts = list(call.integers("pads"))
        fill: Tensor | complex = call.real("value", 0.0)
    else:
        if pads is None:
            raise call.fail("its pads are missing")
        amounts = call.integers_of(pads, "pads")
        fill = value if value is not None else 0.0
    padded_axes = list(range(x.rank)) if axes is None else call.axes_of(axes, x.rank)
    count = len(padded_axes.axes if isinstance(padded_axes, ChosenAxes) else padded_axes)
    if len(amounts) != 2 * count:
        raise call.fail(f"{len(amounts)} pads are given for {count} axes")
    low, high = (_of_all_axes(part, padded_axes, x.rank) for part in (amounts[:count], amounts[count:]))
    before, after = ([n.size(least=None) if isinstance(n, HostInteger) else n for n in pair] for pair in (low, high))
    if mode == "constant":
        return slicing.pad_or_crop(
            call.b, x, before, after, fill if isinstance(fill, Tensor) else _number(fill, x.dtype)
        )
    # As in onnxruntime, the elements that remain after the crop are put around it.
    cropped = slicing.crop(call.b, x, before, after)
    return padding.pad_with(call.b, cropped, [maximum(n, 0) for n in before], [maximum(n, 0) for n in after], mode)


def _of_all_axes(amounts: list[Integer], axes: list[int] | ChosenAxes, rank: int) -> list[Integer]:
    """Return the amount of padding for each axis of a tensor: those of `axes`, and 0 for the others."""
    if isinstance(axes, ChosenAxes):  # all axes are padded, those that a call does not choose by 0
        return [*axes.scattered(amounts, [0] * rank)]
    amount_of = dict(zip(axes, amounts, strict=True))
    return [amount_of.get(axis, 0) for axis in range(rank)]


def _number(value: complex, dtype: DType) -> Any:
    """Return a number as a bool if `dtype` is one, as an int if it is an integer, else unchanged."""
    return bool(value) if dtype.is_bool else int(value.real) if dtype.is_integer else value


@ONNX.converts("CenterCropPad")
def _center_crop_pad(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    """Crop or zero-pad each of the axes on both sides to the size that `shape` has for it.

    If the number of elements to remove or to add is odd, the larger half is that at the end of the axis: an axis of 5
    that becomes 2 loses 1 element at its start and 2 at its end.
    """
    axes = call.axes(call.integers("axes", list(range(x.rank))), x.rank)
    for axis, target in zip(axes, call.sizes(shape, "shape"), strict=True):
        size = x.shape[axis]
        taken, missing = minimum(size, target), maximum(target - size, 0)
        start = maximum(size - target, 0) // 2
        x = slicing.slice_axis(call.b, x, axis, start, start + taken)
        low: list[Size] = [0] * x.rank
        high: list[Size] = [0] * x.rank
        low[axis] = missing // 2
        high[axis] = missing - low[axis]
        # The size of the result is an expression of minima and maxima, which equals `target`.
        x = call.b.as_shape(
            slicing.pad(call.b, x, low, high, _number(0, x.dtype)), [*x.shape[:axis], target, *x.shape[axis + 1 :]]
        )
    return x
