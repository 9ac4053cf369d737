"""Slices of tensors, their concatenation, and padding by a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import builtin, tensor
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Block, Region, SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.size_functions import ceil_div, divisor, maximum, minimum, one_unless_empty
from pydispatch.graph.sizes import Expr, Shape, Size, UndecidedError, differ, sign
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.operations.shapes import axis_of, expand_dims, is_small, reshape, scalar_parts


def slice_(
    builder: Builder, x: Tensor, starts: Sequence[Size], limits: Sequence[Size], strides: Sequence[int] | None = None
) -> Tensor:
    """Return x[starts[0]:limits[0]:strides[0], ...].

    Slices must be in bounds, with limits not below starts and strides of at least 1. Violations by static sizes raise
    CompileError.
    """
    strides = [1] * x.rank if strides is None else strides
    shape = tuple(ceil_div(limit - start, stride) for start, limit, stride in zip(starts, limits, strides, strict=True))
    for d, (start, limit, n) in enumerate(zip(starts, limits, x.shape, strict=True)):
        try:
            if sign(start) < 0 or sign(limit - start) < 0 or sign(n - limit) < 0:
                raise builder.fail(f"slice {start}:{limit} of axis {d} of {x} is out of bounds")
        except UndecidedError:  # dynamic sizes are not checked
            continue
    if shape == x.shape:  # in bounds, a slice of all sizes is the whole tensor
        return x
    # A small constant is sliced at compile time.
    if is_small(x) and x.known is not None and not any(isinstance(n, Expr) for n in (*starts, *limits)):
        taken = tuple(slice(s, n, step) for s, n, step in zip(starts, limits, strides, strict=True))
        return Tensor(x.dtype, shape, known=x.known[taken])
    return builder.wrap(x.dtype, shape, *(_sliced(builder, part, starts, shape, strides) for part in builder.parts(x)))


def _sliced(
    builder: Builder, value: SSAValue, starts: Sequence[Size], shape: Shape, strides: Sequence[int]
) -> SSAValue:
    """Emit the slice of one SSA tensor that begins at `starts`; `shape` is the shape of the slice."""

    def static(sizes: Sequence[Size]) -> DenseArrayBase[Any]:
        """Return sizes as an attribute. DYNAMIC stands for each symbolic size, which is an operand instead."""
        return DenseArrayBase.from_list(builtin.i64, [DYNAMIC if isinstance(n, Expr) else n for n in sizes])

    slice_op = tensor.ExtractSliceOp.build(
        operands=[value, builder.indices(starts), builder.indices(shape), []],
        properties={"static_offsets": static(starts), "static_sizes": static(shape), "static_strides": static(strides)},
        result_types=[tensor_type(value.type.element_type, shape)],  # type: ignore[attr-defined]
    )
    return builder.add(slice_op).result


def slice_axis(builder: Builder, x: Tensor, axis: int, start: Size, limit: Size, stride: int = 1) -> Tensor:
    """Return a slice along one axis."""
    starts: list[Size] = [0] * x.rank
    limits, strides = list(x.shape), [1] * x.rank
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return slice_(builder, x, starts, limits, strides)


def counted_from_start(position: Size, n: Size) -> Size:
    """Convert a position that may be negative, as in Python's x[-1], to one that counts from the start of the axis.

    For an axis of n = 5 elements, -1 becomes 4, and 3 remains 3. Whether a symbolic position is negative may be known
    in a call only: then n * is_negative is added, with is_negative 0 or 1.
    """
    # n - 1 counts from the start by definition. As a symbol it would be -1 for an empty axis, and n would be added.
    if position == n - 1:
        return position
    is_negative = one_unless_empty(maximum(-position, 0))  # min(max(-position, 0), 1)
    return position + n * is_negative


def clamped_bounds(start: Size, limit: Size, n: Size) -> tuple[Size, Size]:
    """Return the start and the limit of a slice of an axis of n elements, clamped by Python's rules.

    Both are counted from the start of the axis, and may be out of bounds. The slice from 1 to n - 1 of an axis of n
    begins at min(n, 1) and has n - min(n, 2) elements. A slice of min(n, 1) elements, such as x[:1] or x[-1:], is taken
    to have one, so that it broadcasts: it is out of bounds of an empty axis.
    """
    if start == 0 and limit == n:
        return start, limit
    start = maximum(start, 0)
    count = maximum(minimum(limit, n) - start, 0)
    start = minimum(start, n)
    if isinstance(count, Expr) and count == one_unless_empty(n):  # min(n, 1), as of x[:1]
        count = 1
    return start, start + count


def split(builder: Builder, x: Tensor, axis: int, sizes: Sequence[Size]) -> list[Tensor]:
    """Divide x into consecutive slices of these sizes along an axis, from its first element on."""
    slices, start = [], 0
    for n in sizes:
        limit: Any = start + n
        slices.append(slice_axis(builder, x, axis, start, limit))
        start = limit
    return slices


def concat(builder: Builder, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate tensors of one type along an axis. Raise CompileError if types or other sizes differ."""
    first = tensors[0]
    axis = axis_of(builder, axis, first.rank)
    for other in tensors[1:]:  # `zip` ignores axes beyond the lower rank: ranks are compared separately
        sizes = enumerate(zip(first.shape, other.shape, strict=False))
        sizes_differ = any(d != axis and differ(m, n) for d, (m, n) in sizes)
        if other.rank != first.rank or other.dtype != first.dtype or sizes_differ:
            raise builder.fail(f"{first} and {other} cannot be joined along axis {axis}")
    # Small constants are joined at compile time; of the others, those that are empty along the axis are left out.
    total: Any = sum((t.shape[axis] for t in tensors), 0)
    shape = tuple(total if d == axis else n for d, n in enumerate(first.shape))
    if all(is_small(t) for t in tensors):
        import numpy as np

        joined = np.concatenate([t.known for t in tensors if t.known is not None], axis)
        return builder.constant(joined, first.dtype)
    non_empty = [t for t in tensors if t.shape[axis] != 0]
    if len(non_empty) <= 1:  # the result is that tensor, or an empty one like the first
        return non_empty[0] if non_empty else first
    parts = zip(*(builder.parts(t) for t in non_empty), strict=True)  # the values; if complex, real and imaginary parts
    result = tensor_type(first.dtype.element, shape)
    return builder.wrap(
        first.dtype, shape, *(builder.add(tensor.ConcatOp(list(p), axis, result)).result for p in parts)
    )


def roll(builder: Builder, x: Tensor, shift: Size, axis: int) -> Tensor:
    """Rotate elements along an axis by `shift` positions; a negative shift rotates towards the start."""
    n = x.shape[axis]
    period = divisor(n)  # max(n, 1): an empty axis has no remainder
    # Number of leading elements that move to the end. The remainder of sizes has the sign of `shift`.
    moved = (period - shift % period) % period
    return concat(builder, split(builder, x, axis, [moved, n - moved])[::-1], axis)


def stack(builder: Builder, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Stack tensors of one shape along a new axis."""
    return concat(builder, [expand_dims(builder, t, [axis]) for t in tensors], axis)


def pad(
    builder: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size], value: Tensor | complex = 0,
    interior: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """Pad x with a value: `low` elements before, `high` after each axis, `interior` between neighbours.

    For example, [1, 2, 3] with low 1, high -1 and interior 1 becomes [0, 1, 0, 2, 0]. The interior is padded first:
    [1, 0, 2, 0, 3] is then cropped and padded at its ends.

    Negative static `low` and `high` crop; dynamic ones must not be negative: `pad_or_crop` is for these. The value is a
    number, or a tensor of one element.
    """
    if interior is not None and any(interior):
        x = _pad_interior(builder, x, interior, value)
    if any(not isinstance(n, Expr) and n < 0 for n in (*low, *high)):
        return pad_or_crop(builder, x, low, high, value)
    if all(n == 0 for n in (*low, *high)):
        return x
    shape = tuple(n + a + c for n, a, c in zip(x.shape, low, high, strict=True))
    parts_and_fills = zip(builder.parts(x), _fills(builder, value, x.dtype), strict=True)
    padded = [_padded(builder, part, low, high, shape, fill) for part, fill in parts_and_fills]
    return builder.wrap(x.dtype, shape, *padded)


def pad_or_crop(
    builder: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size], value: Tensor | complex = 0
) -> Tensor:
    """Pad x like `pad`, and crop it by dynamic amounts in calls in which they are negative.

    Padding on one side and cropping on the other may leave no element of x: [1, 2] with low -3 and high 4 becomes
    [0, 0, 0]. A call in which both sides crop more than the elements of an axis fails.
    """
    if x.rank == 0:
        return x
    # For each axis: start and number of the elements that remain, and numbers of padding elements before and after.
    retained = [_retained(builder, x, axis, *sides) for axis, *sides in zip(range(x.rank), low, high, strict=True)]
    starts, counts, before, after = zip(*retained, strict=True)
    cropped = slice_(builder, x, starts, [start + count for start, count in zip(starts, counts, strict=True)])
    return pad(builder, cropped, before, after, value)


def crop(builder: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size]) -> Tensor:
    """Crop x by `low` and `high` where they are negative: `-low` elements before and `-high` after each axis."""
    return pad_or_crop(builder, x, [minimum(n, 0) for n in low], [minimum(n, 0) for n in high])


def _retained(builder: Builder, x: Tensor, axis: int, low: Size, high: Size) -> tuple[Size, Size, Size, Size]:
    """Return the start and the number of the elements along an axis that padding by `low` and `high` retains, and the
    numbers of padding elements before and after them; none of them is negative.

    Add a check that the size of the result is not negative. Raise CompileError if it is known to be.
    """
    n = x.shape[axis]
    size, crop_low, crop_high = n + low + high, maximum(-low, 0), maximum(-high, 0)
    if crop_low == crop_high == 0:
        return 0, n, low, high
    is_known_to_fit = minimum(size, 0) == 0  # size >= 0 in all calls
    if not is_known_to_fit:
        builder.require_positive(size + 1, f"negative padding crops more of axis {axis} of {x} than the axis has")
    pad_low, pad_high, count = maximum(low, 0), maximum(high, 0), n - crop_low - crop_high
    if 0 in (low, high) or pad_low == pad_high == 0:  # no side pads where the other one crops
        return crop_low, count, pad_low, pad_high
    # A side may crop more than the elements of x; it then crops the padding of the other side, too. For 2 elements with
    # low 4 and high -3, the size is 3: count is 0, and only 3 of the 4 padding elements remain before.
    count = maximum(count, 0)
    before = minimum(pad_low, size - count)
    return minimum(crop_low, n), count, before, size - count - before


def _fills(builder: Builder, value: Tensor | complex, dtype: DType) -> list[SSAValue]:
    """Return the padding value as scalar SSA values: one, or real and imaginary part."""
    if not isinstance(value, Tensor):
        return [builder.scalar_constant(p, dtype) for p in ([value.real, value.imag] if dtype.is_complex else [value])]
    return scalar_parts(builder, value)


def _padded(
    builder: Builder, value: SSAValue, low: Sequence[Size], high: Sequence[Size], shape: Shape, fill: SSAValue
) -> SSAValue:
    """Emit the padding of one SSA tensor by the scalar `fill`; `shape` is the shape of the result.

    `low` and `high` are the numbers of padding elements before and after the elements of each axis.
    """
    block = Block([tensor.YieldOp(fill)], arg_types=[builtin.IndexType()] * len(shape))
    static_low, static_high = ([DYNAMIC if isinstance(n, Expr) else n for n in sizes] for sizes in (low, high))
    result = tensor_type(value.type.element_type, shape)  # type: ignore[attr-defined]
    operands = builder.indices(low), builder.indices(high)
    return builder.add(tensor.PadOp(value, *operands, Region(block), static_low, static_high, result)).result


def _pad_interior(builder: Builder, x: Tensor, interior: Sequence[int], value: Tensor | complex) -> Tensor:
    """Return x with `interior` padding elements between neighbours along each axis."""
    for d, between in enumerate(interior):
        if not between or x.shape[d] in (0, 1):  # fewer than two elements are no neighbours
            continue
        # Each element is padded to a row of its own; the rows are joined, and the padding after the last element is cut
        # off: [a, b] becomes [[a, 0], [b, 0]], [a, 0, b, 0], then [a, 0, b].
        rows = expand_dims(builder, x, [d + 1])
        high: list[Size] = [0] * rows.rank
        high[d + 1] = between
        rows = pad(builder, rows, [0] * rows.rank, high, value)
        merged = reshape(builder, rows, [*x.shape[:d], x.shape[d] * (between + 1), *x.shape[d + 1 :]])
        x = slice_axis(builder, merged, d, start=0, limit=merged.shape[d] - between * one_unless_empty(x.shape[d]))
    return x
