"""NumPy functions on traced arrays that change shapes, join and divide arrays, or fill new ones."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch.graph.dtypes import I64
from pydispatch.graph.size_functions import maximum
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import indexing, matrices, padding, shapes, slicing
from pydispatch.programs.array import Array, as_size, is_size, shape_of
from pydispatch.programs.functions.common import (
    as_type,
    axes_of,
    axis_of,
    dtype_from,
    ordered_axes,
    promoted,
    reduced_axes,
    vector_and_axis,
)
from pydispatch.programs.functions.indexing import slice_range
from pydispatch.programs.trace import Trace


def reshape(trace: Trace, a: Any, shape: Any, copy: bool | None = None) -> Array:
    """Return elements in another shape, in row-major order; one size may be -1.

    With `copy`, `Array._called` does not make the result a view of `a`.
    """
    x = trace.tensor_of(a)
    return Array(trace, shapes.reshape(trace, x, shapes.inferred(trace, x, shape_of(shape))))


def transpose(trace: Trace, a: Any, axes: Any = None) -> Array:
    """Permute axes; without `axes` reverse them."""
    x = trace.tensor_of(a)
    order = None if axes is None else ordered_axes(trace, axes, x.rank)
    return Array(trace, shapes.transpose(trace, x, order))


def matrix_transpose(trace: Trace, a: Any) -> Array:
    """Exchange the last two axes."""
    return swapaxes(trace, a, axis1=-1, axis2=-2)


def swapaxes(trace: Trace, a: Any, axis1: int, axis2: int) -> Array:
    """Exchange two axes."""
    x = trace.tensor_of(a)
    order = list(range(x.rank))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return Array(trace, shapes.transpose(trace, x, order))


def moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> Array:
    """Move axes to other positions; the other axes keep their order."""
    x = trace.tensor_of(a)
    sources, targets = ordered_axes(trace, source, x.rank), ordered_axes(trace, destination, x.rank)
    order = [dimension for dimension in range(x.rank) if dimension not in sources]
    # In ascending order, each axis is inserted where it stays.
    for target, from_ in sorted(zip(targets, sources, strict=True)):
        order.insert(target, from_)
    return Array(trace, shapes.transpose(trace, x, order))


def expand_dims(trace: Trace, a: Any, axis: Any) -> Array:
    """Insert axes of size 1 at positions of the result."""
    return Array(trace, shapes.expand_dims(trace, trace.tensor_of(a), axes_of(axis) or []))


def squeeze(trace: Trace, a: Any, axis: Any = None) -> Array:
    """Remove axes of size 1: the axes in `axis`, or all axes of this size."""
    x = trace.tensor_of(a)
    return Array(trace, shapes.squeeze(trace, x, reduced_axes(trace, axis, x)))


def broadcast_to(trace: Trace, a: Any, shape: Any) -> Array:
    """Repeat elements along new axes and axes of size 1."""
    x = trace.tensor_of(a)
    return Array(trace, shapes.broadcast_to(trace, x, shape_of(shape)))


def concatenate(trace: Trace, arrays: Sequence[Any], axis: int | None = 0) -> Array:
    """Join arrays along an axis; if it is None, their elements in row-major order."""
    tensors = promoted(trace, *arrays)
    if axis is None:
        tensors, axis = [shapes.reshape(trace, x, shapes.inferred(trace, x, (-1,))) for x in tensors], 0
    return Array(trace, slicing.concat(trace, tensors, axis_of(trace, axis, tensors[0])))


def stack(trace: Trace, arrays: Sequence[Any], axis: int = 0) -> Array:
    """Join arrays along a new axis."""
    tensors = promoted(trace, *arrays)
    return Array(trace, slicing.stack(trace, tensors, shapes.axis_of(trace, axis, tensors[0].rank + 1)))


def split(trace: Trace, a: Any, parts: Any, axis: int = 0) -> list[Array]:
    """Divide an array along an axis. `parts` is the number of equal parts, or a list of the positions that begin all
    parts but the first.

    For 6 elements, `parts` 3 gives three parts of 2, and [1, 4] gives the slices [:1], [1:4] and [4:]. Positions are
    ends of slices: negative ones count from the end, and those beyond the axis give empty parts.
    """
    x = trace.tensor_of(a)
    axis = axis_of(trace, axis, x)
    size = x.shape[axis]
    if is_size(parts):
        parts = operator.index(parts)
        message = f"{x} cannot be divided into {parts} equal parts along axis {axis}"
        if parts < 1 or (isinstance(size, int) and size % parts):
            raise trace.fail(message, "give the positions that begin the parts but the first, as a list")
        # A symbolic size is checked in each call.
        trace.require_equal(size % parts, 0, f"{message}: {{a}} elements are left over")
        return [Array(trace, tensor) for tensor in slicing.split(trace, x, axis, [size // parts] * parts)]
    # The end of each part is the start of the next one; None is the start and the end of the axis.
    ends = [as_size(position) for position in parts]
    ranges = [slice(*pair) for pair in zip([None, *ends], [*ends, None], strict=True)]
    return [Array(trace, slice_range(trace, x, axis, key)) for key in ranges]


def flip(trace: Trace, a: Any, axis: Any = None) -> Array:
    """Reverse the order of elements along axes; along all without `axis`."""
    x = trace.tensor_of(a)
    axes = range(x.rank) if axis is None else [axis_of(trace, stated, x) for stated in axes_of(axis) or ()]
    return Array(trace, indexing.reverse(trace, x, shapes.axes_of(trace, axes, x.rank)))


def roll(trace: Trace, a: Any, shift: Any, axis: Any = None) -> Array:
    """Rotate elements along axes; shifts and axes broadcast together. Without `axis`, rotate in row-major order."""
    x = trace.tensor_of(a)
    if axis is None:
        return reshape(trace, roll(trace, reshape(trace, a, (-1,)), shift, axis=0), x.shape)
    for offset, along in np.broadcast(np.asarray(shift, object), axis):
        x = slicing.roll(trace, x, offset, axis_of(trace, int(along), x))
    return Array(trace, x)


def tile(trace: Trace, a: Any, reps: Any) -> Array:
    """Repeat the whole array along each axis. The shorter one of `reps` and the shape is extended by ones in front."""
    x, repeats = trace.tensor_of(a), shape_of(reps)
    if len(repeats) < x.rank:
        repeats = [1] * (x.rank - len(repeats)) + list(repeats)
    if len(repeats) > x.rank:
        x = shapes.expand_dims(trace, x, range(len(repeats) - x.rank))
    return Array(trace, shapes.tile(trace, x, repeats))


def repeat(trace: Trace, a: Any, repeats: Size, axis: int | None = None) -> Array:
    """Repeat each element along an axis; without `axis` in row-major order."""
    x, axis = vector_and_axis(trace, trace.tensor_of(a), axis)
    repeats = as_size(repeats)
    # [..., n, ...] becomes [..., n, 1, ...], [..., n, repeats, ...], then [..., n * repeats, ...].
    wide = shapes.broadcast_to(
        trace, shapes.expand_dims(trace, x, [axis + 1]), [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]]
    )
    return Array(trace, shapes.reshape(trace, wide, [*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]]))


def pad(trace: Trace, a: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Array:
    """Return an array with elements added around it: `constant_values`, or elements of the array by `mode`.

    pad_width: elements before and after each axis, or anything that broadcasts to these pairs. constant_values
    broadcasts to such pairs, too; the axes are padded in order, so that the values of the last one are at the corners.
    """
    x = trace.tensor_of(a)
    # One row per axis: (elements before, elements after).
    widths = np.broadcast_to(np.asarray(pad_width, dtype=object), (x.rank, 2))
    low, high = ([as_size(width) for width in side] for side in widths.T)
    if any(not isinstance(width, Expr) and width < 0 for width in (*low, *high)):
        raise trace.fail(f"numpy.pad of {x} by negative widths, {pad_width}", "a slice removes elements: x[1:-1]")
    if mode == "constant":
        values = np.broadcast_to(np.asarray(constant_values, dtype=object), (x.rank, 2))
        if len(set(values.flat)) <= 1:  # one value everywhere: all axes at once
            return Array(trace, slicing.pad(trace, x, low, high, value=values.flat[0] if x.rank else 0))
        for axis, (before, after) in enumerate(values):  # each side of each axis has a value of its own
            x = _pad_axis(trace, x, axis, (low[axis], 0), before)
            x = _pad_axis(trace, x, axis, (0, high[axis]), after)
        return Array(trace, x)
    if mode not in ("edge", "reflect", "wrap"):
        raise trace.fail(
            f"numpy.pad with mode '{mode}' is not a part of programs", "there are constant, edge, reflect and wrap"
        )
    return Array(trace, padding.pad_with(trace, x, low, high, mode))


def _pad_axis(trace: Trace, x: Tensor, axis: int, widths: tuple[Size, Size], value: complex) -> Tensor:
    """Return x with `widths` elements of a value before and after an axis."""
    low, high = ([width if d == axis else 0 for d in range(x.rank)] for width in widths)
    return slicing.pad(trace, x, low, high, value=value)


def _filled_like(value: float) -> Callable[..., Array]:
    """Return the handler of zeros_like and empty_like (0) or ones_like (1): arrays of the shape and type of another."""

    def filled_like(trace: Trace, like: Any, dtype: Any = None, shape: Any = None) -> Array:
        """Return an array whose elements are `value`, with the shape and type of `like` unless others are stated."""
        x = trace.tensor_of(like)
        new_shape = x.shape if shape is None else shape_of(shape)
        new_dtype = dtype_from(dtype) if dtype else x.dtype
        return Array(trace, shapes.full(trace, value, new_shape, new_dtype))

    return filled_like


def _filled_of_shape(value: float) -> Callable[..., Array]:
    """Return the handler of `numpy.zeros(shape, like=x)` and `numpy.empty` (0), or `numpy.ones` (1).

    The shape of `numpy.ones` may have dynamic sizes. NumPy does not pass those of `numpy.zeros` and `numpy.empty` to
    the handler.
    """

    def filled(trace: Trace, shape: Any, dtype: Any = None) -> Array:
        """Return an array of a shape whose elements are `value`, of f64 unless another type is stated."""
        return Array(trace, shapes.full(trace, value, shape_of(shape), dtype_from(dtype or np.float64)))

    return filled


def full(trace: Trace, shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """Return an array of a shape whose elements all equal a value."""
    value = trace.tensor_of(fill_value) if dtype is None else as_type(trace, fill_value, dtype_from(dtype))
    return Array(trace, shapes.broadcast_to(trace, value, shape_of(shape)))


def asarray(trace: Trace, a: Any, dtype: Any = None) -> Array:
    """Return `numpy.asarray(a, like=x)`: a traced array, so that arrays of NumPy can be indexed by traced ones."""
    return Array(trace, trace.tensor_of(a) if dtype is None else as_type(trace, a, dtype_from(dtype)))


def arange(trace: Trace, *limits: Any, dtype: Any = None) -> Array:
    """Return `numpy.arange(..., like=x)` of whole numbers; limits may be symbolic sizes, the step is an int."""
    # One limit is the stop, two are start and stop, three are all.
    start, stop, step = {1: (0, *limits, 1), 2: (*limits, 1)}.get(len(limits), limits)
    has_float_limit = isinstance(start, float) or isinstance(stop, float)
    if not isinstance(step, int) or step == 0 or has_float_limit:
        raise trace.fail("numpy.arange has whole limits in programs, and a known step", "np.arange(n, like=x) * 0.5")
    # (stop - start) / step, rounded up; both operands are positive in the quotient.
    count = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    size = maximum(count, 0)
    result = Array(trace, shapes.iota(trace, (size,), axis=0, dtype=I64)) * step + start
    return result if dtype is None else Array(trace, as_type(trace, result, dtype_from(dtype)))


def full_like(trace: Trace, like: Any, value: Any, dtype: Any = None) -> Array:
    """Return an array of a value, with the shape and type of another array."""
    x = trace.tensor_of(like)
    filled = as_type(trace, value, dtype_from(dtype) if dtype else x.dtype)
    return Array(trace, shapes.broadcast_to(trace, filled, x.shape))


def triangle(trace: Trace, a: Any, k: int, keeps_lower: bool) -> Array:
    """Return matrices with 0 above (`keeps_lower`) or below diagonal k, which counts from the main one upwards."""
    x = trace.tensor_of(a)
    if x.rank == 1:  # as in NumPy, a vector is every row of a square matrix
        x = shapes.broadcast_to(trace, x, (x.shape[0], x.shape[0]))
    return Array(trace, matrices.triangle(trace, x, "le" if keeps_lower else "ge", trace.constant(k, I64)))


Array.FUNCTIONS |= {
    "reshape": reshape, "transpose": transpose, "permute_dims": transpose, "matrix_transpose": matrix_transpose,
    "swapaxes": swapaxes, "moveaxis": moveaxis, "expand_dims": expand_dims, "squeeze": squeeze,
    "broadcast_to": broadcast_to, "concatenate": concatenate, "concat": concatenate, "stack": stack, "split": split,
    "flip": flip, "roll": roll, "tile": tile, "repeat": repeat, "pad": pad,
    "ravel": lambda t, a: reshape(t, a, (-1,)), "zeros_like": _filled_like(0), "ones_like": _filled_like(1),
    "empty_like": _filled_like(0), "full_like": full_like, "zeros": _filled_of_shape(0), "ones": _filled_of_shape(1),
    "empty": _filled_of_shape(0), "full": full, "arange": arange, "asarray": asarray,
    "tril": lambda t, a, k=0: triangle(t, a, k, keeps_lower=True),
    "triu": lambda t, a, k=0: triangle(t, a, k, keeps_lower=False),
}  # fmt: skip
