"""Indexing, assignment to elements, sorting and softmax of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, Size, UndecidedError
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, gathers, indexing, normalization, ordering, shapes, slicing
from pydispatch.programs.array import Array, as_size, is_size
from pydispatch.programs.functions.common import as_type, axis_of, floats, vector_and_axis
from pydispatch.programs.trace import Trace


def get(trace: Trace, a: Array, index: Any) -> Array:
    """Return a[index] with numbers, slices, None, ..., and arrays of integers.

    A number slices one element, and its axis is dropped; beside arrays a number is an index array as well, as in NumPy.
    Slices are applied first, one axis after the other. Then axes are dropped and added, or elements gathered.

    For an array a of the shape [5, 6, 7] and a vector i of n positions, a[1, None, 2:4] is sliced to [1, 2, 7],
    squeezed to [2, 7], and expanded to [1, 2, 7]. a[i, 0, 2:4] is sliced to [5, 6, 2], and gathered at i and 0 along
    the first two axes to [n, 2].
    """
    result, keys = a.tensor, _keys(trace, a, index)
    has_arrays = any(map(_is_array, keys))
    axis = 0  # of `a`, to which the next key that is not None applies
    dropped = list[int]()  # axes of `a` that numbers index
    added = list[int]()  # positions of new axes in the result
    advanced: list[Tensor | None] = []  # index tensor of each axis of `a`; None for an axis with a slice or a number
    for key in keys:
        if key is None:
            # Before it, the result has an axis for each axis of `a` so far that is not dropped, and each new axis.
            added.append(axis - len(dropped) + len(added))
            continue
        tensor = _index_tensor(trace, key) if _is_array(key) or (has_arrays and is_size(key)) else None
        if tensor is not None:
            advanced.append(tensor)
        else:
            advanced.append(None)
            if is_size(key):
                start = slicing.counted_from_start(key, result.shape[axis])
                result = slicing.slice_axis(trace, result, axis, start, start + 1)
                dropped.append(axis)
            else:
                result = slice_range(trace, result, axis, key)
        axis += 1
    if has_arrays:
        # The new axes are added to the operand, and are read whole. Their positions in the result are also those in the
        # operand, since beside arrays no axis is dropped before the gather.
        for position in added:
            advanced.insert(position, None)
        return Array(trace, gathers.index(trace, shapes.expand_dims(trace, result, added), advanced))
    if dropped:
        result = shapes.squeeze(trace, result, dropped)
    return Array(trace, shapes.expand_dims(trace, result, added) if added else result)


def _is_array(key: Any) -> bool:
    """Return whether an entry of an index is an array of positions."""
    return isinstance(key, (Array, np.ndarray, list))


def _keys(trace: Trace, a: Array, index: Any) -> list[Any]:
    """Return an index as a list with an entry for each axis, and None for each new axis. `...` becomes whole axes.

    An entry is None, an array, an int or a symbolic size, or a slice of such numbers.
    """
    keys = [_key(trace, key) for key in (index if isinstance(index, tuple) else (index,))]
    count = sum(key is not None and key is not Ellipsis for key in keys)
    if count > a.ndim:
        raise trace.fail(f"{count} indices of {a.tensor}")
    positions = [position for position, key in enumerate(keys) if key is Ellipsis]
    if len(positions) > 1:
        raise trace.fail("an index has '...' once")
    whole_axes = [slice(None)] * (a.ndim - count)
    if not positions:
        return [*keys, *whole_axes]
    (position,) = positions
    return [*keys[:position], *whole_axes, *keys[position + 1 :]]


def _key(trace: Trace, key: Any) -> Any:
    """Return an entry of an index with its integers as ints. Raise CompileError for floats, bools and other objects."""
    if isinstance(key, slice):
        return slice(*(None if end is None else _key(trace, end) for end in (key.start, key.stop, key.step)))
    if key is None or key is Ellipsis or _is_array(key):
        return key
    if not is_size(key):
        raise trace.fail(f"an index has the entry {key!r}", "use integers, slices, None, ... and arrays of integers")
    return as_size(key)


def _index_tensor(trace: Trace, key: Any) -> Tensor:
    """Return an array of positions as a tensor of integers. Raise CompileError for conditions and floats."""
    positions = trace.tensor_of(key)
    if positions.dtype.is_bool:
        raise trace.fail("an index of conditions gives as many elements as hold", "use numpy.where(condition, x, 0)")
    if not positions.dtype.is_integer:
        raise trace.fail(f"an index of {positions.dtype}", "convert it: index.astype(numpy.int64)")
    return positions


def slice_range(trace: Trace, x: Tensor, axis: int, key: slice) -> Tensor:
    """Return the elements along an axis that a slice of ints and symbolic sizes selects."""
    step = 1 if key.step is None else key.step
    if _is_whole(key):
        return x
    if not isinstance(step, int) or step == 0:
        raise trace.fail(f"a slice with a step of {step!r}", "the step is a number other than 0")
    size = x.shape[axis]
    if step < 0:  # only x[::-n]: the reversed axis with the step n
        if key.start is not None or key.stop is not None:
            raise trace.fail("a slice backwards has no ends in programs", "turn it around first: x[::-1][a:b]")
        backwards = indexing.reverse(trace, x, [axis])
        return slicing.slice_axis(trace, backwards, axis, start=0, limit=size, stride=-step)
    start, stop = _ends(trace, key, size)
    return slicing.slice_axis(trace, x, axis, start, stop, step)


def _is_whole(key: slice) -> bool:
    """Return whether a slice is `:`."""
    return key.start is None and key.stop is None and key.step is None


def _ends(trace: Trace, key: slice, size: Size) -> tuple[Size, Size]:
    """Return the start and the exclusive end of a slice of an axis of `size` elements, counted from its first element.

    Both are clamped to the axis if all are ints, and if the end may be before the start, as for x[1:] of no elements.
    Other slices with symbolic sizes, such as x[:2], are not clamped: a call in which the axis is shorter is refused.
    """
    if any(map(_is_array, (key.start, key.stop))):
        raise trace.fail(
            "the ends of a slice are values of arrays, so that its size is not known",
            "index by positions: x[i + numpy.arange(4)] for four elements from i on",
        )
    start = 0 if key.start is None else slicing.counted_from_start(key.start, size)
    stop = size if key.stop is None else slicing.counted_from_start(key.stop, size)
    if any(isinstance(n, Expr) for n in (start, stop, size)):
        try:
            is_in_order = bool(stop - start >= 0)
        except UndecidedError:  # the order depends on the call: clamp below
            pass
        else:
            return (start, stop) if is_in_order else (start, start)
    return slicing.clamped_bounds(start, stop, size)


def put(trace: Trace, a: Array, index: Any, value: Any) -> Array:
    """Return the array `a` with the elements at an index replaced by a value, which broadcasts to them.

    The index consists of numbers, slices and arrays of integers. With arrays it is a scatter, otherwise an update of
    one slice: for a [5, 6], the value of a[1, 2:4] broadcasts to [2] and replaces the slice [1, 2] that begins at
    (1, 2).

    Raise CompileError if None, a new axis, is in the index.
    """
    x, keys = a.tensor, _keys(trace, a, index)
    if any(key is None for key in keys):
        raise trace.fail(f"elements cannot be assigned at {index!r}", "leave None out, and reshape the value")
    update = as_type(trace, value, x.dtype)
    if any(map(_is_array, keys)):
        indices: list[Tensor | assignment.Range | None] = []  # None for a whole axis
        for key, size in zip(keys, x.shape, strict=True):
            if not isinstance(key, slice):
                indices.append(_index_tensor(trace, key))
            else:
                indices.append(None if _is_whole(key) else _assigned_range(trace, key, size))
        return Array(trace, assignment.put(trace, x, indices, update))
    # Without arrays: the range of each axis that is replaced.
    ranges = []
    for key, size in zip(keys, x.shape, strict=True):
        if isinstance(key, slice):
            ranges.append(_assigned_range(trace, key, size))
        else:
            ranges.append(assignment.Range(slicing.counted_from_start(key, size), 1))
    # The value broadcasts to a[index], which lacks the axes of numbers; the update has them with size 1.
    indexed_shape = [along.size for along, key in zip(ranges, keys, strict=True) if isinstance(key, slice)]
    broadcast = shapes.broadcast_to(trace, update, indexed_shape)
    update = shapes.reshape(trace, broadcast, [along.size for along in ranges])
    starts = [trace.constant(along.start, I64) for along in ranges]
    return Array(trace, indexing.dynamic_update_slice(trace, x, update, starts))


def _assigned_range(trace: Trace, key: slice, size: Size) -> assignment.Range:
    """Return the positions that a slice selects of an axis of `size` elements, to assign to them.

    Raise CompileError for a slice with a step.
    """
    if key.step not in (None, 1):
        raise trace.fail("elements are assigned to slices without a step", "use numpy.where")
    start, end = _ends(trace, key, size)
    return assignment.Range(start, end - start)


def take(trace: Trace, a: Any, indices: Any, axis: int | None = None) -> Array:
    """Return the slices at positions along an axis; without `axis`, elements in row-major order."""
    x, axis = vector_and_axis(trace, trace.tensor_of(a), axis)
    return Array(trace, gathers.take(trace, x, _index_tensor(trace, indices), axis))


def take_along_axis(trace: Trace, a: Any, indices: Any, axis: int = -1) -> Array:
    """Return an array of the shape of `indices`: element [i, j] is a[i, indices[i, j]] for two axes and axis 1."""
    x = trace.tensor_of(a)
    axis = axis_of(trace, axis, x)
    return Array(trace, gathers.take_along(trace, x, _index_tensor(trace, indices), axis))


def sort(trace: Trace, a: Any, axis: int | None = -1) -> Array:
    """Sort elements along an axis; without one, in row-major order."""
    x = trace.tensor_of(a)
    x, axis = vector_and_axis(trace, x, axis if axis is None else axis_of(trace, axis, x))
    (result,) = ordering.sort(trace, [x], axis, lambda s, u, v: ordering.less(s, u[0], v[0]))
    return Array(trace, result)


def argsort(trace: Trace, a: Any, axis: int | None = -1) -> Array:
    """Return the positions of the sorted elements along an axis; without one, in row-major order."""
    x, axis = vector_and_axis(trace, trace.tensor_of(a), axis)
    return Array(trace, ordering.sort_with_indices(trace, x, axis)[1])


def softmax(trace: Trace, a: Any, axis: int = -1) -> Array:
    """Return exp(a) divided by its sum along an axis."""
    (x,) = floats(trace, a)
    return Array(trace, normalization.softmax(trace, x, axis_of(trace, axis, x)))


Array.FUNCTIONS |= {
    "<get>": get, "<set>": put, "take": take, "take_along_axis": take_along_axis, "sort": sort, "argsort": argsort,
    "softmax": softmax,
}  # fmt: skip
