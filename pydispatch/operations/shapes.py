"""Rearrangement of elements: reshape, transpose, broadcast, repeat."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from xdsl.dialects import tensor
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Expr, Shape, Size, UndecidedError, differ, product, sign_unless_empty
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.ir.dialects.flow.tensors import TensorReshapeOp
from pydispatch.operations.elementwise import MOST_FOLDED_ELEMENTS, apply_several


def axis_of(builder: Builder, axis: SupportsIndex, rank: int) -> int:
    """Return an axis as an int from 0; -1 is the last axis. A scalar (rank 0) permits the axes of a vector, 0 and -1.

    Raise CompileError if it is out of range.
    """
    index, count = operator.index(axis), max(rank, 1)
    if not -count <= index < count:
        raise builder.fail(f"axis {index} of a tensor of rank {rank}; axes are {-count} to {count - 1}")
    return index % count


def axes_of(builder: Builder, axes: Sequence[int] | None, rank: int) -> list[int]:
    """Return distinct non-negative axes in ascending order, for axes that may count from the end; all axes for None."""
    result = sorted(axis_of(builder, a, rank) for a in (range(rank) if axes is None else axes))
    if len(set(result)) != len(result):
        raise builder.fail(f"axes {list(axes or ())} of a tensor of rank {rank} name one twice")
    return result


def is_small(x: Tensor) -> bool:
    """Return whether a tensor is a constant small enough to evaluate operations on it at compile time."""
    return x.known is not None and x.known.size <= MOST_FOLDED_ELEMENTS


# -- reshape


def reshape(builder: Builder, x: Tensor, shape: Sequence[Size]) -> Tensor:
    """Return x in another shape of as many elements; their row-major order is unchanged.

    One size may be -1: it is inferred from the others.
    """
    shape = inferred(builder, x, shape)
    if x.shape == shape:
        return x
    if x.known is not None and all(not isinstance(n, Expr) for n in shape):
        return Tensor(x.dtype, shape, known=x.known.reshape(shape))
    # A complex tensor has two parts.
    return builder.wrap(x.dtype, shape, *(_reshaped(builder, part, x.shape, shape) for part in builder.parts(x)))


def inferred(builder: Builder, x: Tensor, shape: Sequence[Size]) -> Shape:
    """Return a shape with its size of -1, if any, inferred from the number of elements of x. Raise CompileError if the
    static counts differ; dynamic ones are not compared.
    """
    total = product(x.shape)
    if sum(n == -1 for n in shape) > 1:
        raise builder.fail(f"a shape has more than one -1: {list(shape)}")
    # The shape, in which the number of elements divided by the other sizes replaces -1.
    if -1 not in shape:
        result = tuple(shape)
    else:
        stated = product(n for n in shape if n != -1)
        if not isinstance(total, Expr) and not isinstance(stated, Expr) and (stated == 0 or total % stated):
            raise builder.fail(f"{x} cannot have the shape {list(shape)}: {total} elements are no multiple of {stated}")
        result = tuple(total // stated if n == -1 else n for n in shape)
    # Checks of static numbers.
    new = product(result)
    if not isinstance(total, Expr) and not isinstance(new, Expr) and total != new:
        raise builder.fail(f"{x} cannot have the shape {list(result)}: it has {total} elements, not {new}")
    if any(not isinstance(n, Expr) and n < 0 for n in result):
        raise builder.fail(f"a shape has a negative size: {list(result)}")
    return result


Group = tuple[list[int], list[int]]
"""(axes of the old shape, axes of the new shape) of a reshape whose sizes have the same product, such as
([0, 1], [0]).
"""


def _groups(old: Shape, new: Shape) -> list[Group] | None:
    """Return groups of adjacent axes of both shapes that have equal numbers of elements, in order.

    [2, 3, 4] and [6, 2, 2] have the groups ([0, 1], [0]) and ([2], [1, 2]). Return None if dynamic sizes leave open how
    the axes correspond.
    """
    groups: list[Group] = []
    i = j = 0
    while i < len(old) or j < len(new):
        sides = _first_group(old[i:], new[j:])
        if sides is None:
            return None
        old_axes, new_axes = sides
        groups.append((list(range(i, i + old_axes)), list(range(j, j + new_axes))))
        i, j = i + old_axes, j + new_axes
    return groups


def _first_group(old: Shape, new: Shape) -> tuple[int, int] | None:
    """Return how many axes of each shape are its first group, as for `_groups`: 2 and 1 for [2, 3, 4] and [6, 2, 2]."""
    old_axes, new_axes = min(1, len(old)), min(1, len(new))
    old_count, new_count = old[0] if old else 1, new[0] if new else 1  # of elements
    while old_count != new_count:  # add an axis on the side with fewer elements, or on the only side that has one
        if old_axes < len(old) and (new_axes == len(new) or _is_fewer(old_count, new_count)):
            old_count, old_axes = old_count * old[old_axes], old_axes + 1
        elif new_axes < len(new):
            new_count, new_axes = new_count * new[new_axes], new_axes + 1
        else:
            return None
    return old_axes, new_axes


def _is_fewer(count: Size, other: Size) -> bool:
    """Return whether a number of elements is less than another one; if it is undecided, whether only it is static."""
    try:
        return sign_unless_empty(other - count) > 0
    except UndecidedError:
        return isinstance(other, Expr) and not isinstance(count, Expr)


def _without_groups_of_ones(groups: list[Group]) -> list[Group]:
    """Merge each group that has no axes in one of the two shapes with a neighbouring group, and return the groups.

    A group is a pair of lists: axes of the old shape, and the axes of the new shape that have as many elements. Axes
    without a counterpart in the other shape have size 1. Only a group without neighbours can remain one-sided.
    """
    merged: list[Group] = []
    for old, new in groups:
        if not merged:
            merged.append((old, new))
            continue
        old_before, new_before = merged[-1]
        are_two_sided = all((old_before, new_before, old, new))  # each of these lists has axes
        if are_two_sided:
            merged.append((old, new))
        else:
            merged[-1] = (old_before + old, new_before + new)
    return merged


def _reshaped(builder: Builder, value: SSAValue, old: Shape, new: Shape) -> SSAValue:
    """Emit a reshape of one value from the shape `old` to `new`.

    Where groups of neighbouring axes have equal products, each group is collapsed to one axis and expanded to the new
    ones: [2, 3, 4] becomes [6, 4] by a `tensor.collapse_shape`, and then [6, 2, 2] by a `tensor.expand_shape`. Where
    dynamic sizes do not tell the groups, a `flow.tensor.reshape`, whose sizes are operands, is emitted.
    """
    if any(n == 0 for n in (*old, *new)):  # products of 0 do not tell which axes correspond
        return builder.empty(value.type.element_type, new)  # type: ignore[attr-defined]
    groups = _groups(old, new)
    if groups is None:
        dims = [builder.indices(old), builder.indices(new)]
        result = tensor_type(value.type.element_type, new)  # type: ignore[attr-defined]
        return builder.add(TensorReshapeOp(operands=[value, *dims], result_types=[result])).result
    groups = _without_groups_of_ones(groups)  # a reassociation has no group without an axis
    if not old or not new:  # a scalar has no axes to group
        return builder.expand(value, [], new) if not old else builder.collapse(value, [], new)
    middle = tuple(product(old[d] for d in group) for group, _ in groups)  # one axis for each group
    if len(middle) != len(old):
        value = builder.collapse(value, [group for group, _ in groups], middle)
    if len(middle) != len(new):
        value = builder.expand(value, [group for _, group in groups], new)
    return value


def expand_dims(builder: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Insert axes of size 1 into x. `axes` are their positions in the result."""
    rank = x.rank + len(axes)
    new = axes_of(builder, axes, rank)
    sizes = iter(x.shape)
    return reshape(builder, x, [1 if d in new else next(sizes) for d in range(rank)])


def squeeze(builder: Builder, x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Remove axes of size 1 from x: those of `axes`, or all for None.

    Raise CompileError for an axis of another static size. A call fails if a dynamic size in `axes` is not 1.
    """
    removed = [d for d, n in enumerate(x.shape) if n == 1] if axes is None else axes_of(builder, axes, x.rank)
    for d in removed:
        if not isinstance(x.shape[d], Expr) and x.shape[d] != 1:
            raise builder.fail(f"axis {d} of {x} has size {x.shape[d]}, not 1")
    return reshape(builder, x, [n for d, n in enumerate(x.shape) if d not in removed])


# -- transpose, broadcast, constants


def transpose(builder: Builder, x: Tensor, order: Sequence[int] | None = None) -> Tensor:
    """Permute the axes of x: axis d of the result is axis order[d] of x. Without an order the axes are reversed."""
    order = [axis_of(builder, d, x.rank) for d in order] if order is not None else list(range(x.rank))[::-1]
    if sorted(order) != list(range(x.rank)):
        raise builder.fail(f"{order} is no order of the axes of {x}")
    shape = tuple(x.shape[d] for d in order)
    if is_small(x) and x.known is not None:
        return Tensor(x.dtype, shape, known=x.known.transpose(order))
    # If the axes of other sizes than 1 keep their order, so do the elements.
    if [d for d in order if x.shape[d] != 1] == [d for d in range(x.rank) if x.shape[d] != 1]:
        return reshape(builder, x, shape)
    result_axes = [order.index(d) for d in range(x.rank)]  # axis of the result that axis d of x becomes
    return rearranged(builder, x, shape, AffineMap(x.rank, 0, tuple(AffineExpr.dimension(d) for d in result_axes)))


def rearranged(builder: Builder, x: Tensor, shape: Shape, source: AffineMap) -> Tensor:
    """Return the tensor of a shape whose element at index i is x[source(i)]."""
    parts = []  # one result, or the real and the imaginary one
    identity = AffineMap.identity(len(shape))
    for part in builder.parts(x):
        out = builder.empty(x.dtype.element, shape)
        parts += builder.generic(
            [(part, source)], [(out, identity)], parallel=[True] * len(shape), body=lambda _, args: args[:1]
        )
    return builder.wrap(x.dtype, shape, *parts)


def broadcast_to(builder: Builder, x: Tensor, shape: Sequence[Size], axes: Sequence[int] | None = None) -> Tensor:
    """Repeat x to a shape. `axes` are the axes of the result that x's axes become, in ascending order; None for the
    last ones.

    For example, x [3] with axes [1] becomes the result [2, 3, 4] whose element [i, j, k] is x[j].

    A size of x that is not known to be 1 has to equal that of the result: a call with dynamic sizes that differ raises
    an error.
    """
    shape = tuple(shape)
    if axes is None:
        if len(shape) < x.rank:
            raise builder.fail(f"{x} does not broadcast to {list(shape)}")
        axes = range(len(shape) - x.rank, len(shape))
    for d, axis in enumerate(axes):
        n, to = x.shape[d], shape[axis]
        if n != 1:
            if differ(n, to):
                raise builder.fail(f"{x} does not broadcast to {list(shape)}: {n} and {to} at axis {axis}")
            builder.require_equal(n, to, f"{x} does not broadcast to {list(shape)}: {{a}} and {{b}} at axis {axis}")
    if x.shape == shape and list(axes) == list(range(len(shape))):
        return x
    # Known elements are numbers (`numbers`), or expressions over sizes (`is_symbolic`); `known` has either.
    if x.numbers is not None and x.numbers.size == 1 and not x.dtype.is_complex:
        # One number for all elements needs no loop: it is a constant, or a splat if that would be large.
        value = x.numbers.reshape(-1)[0]
        if all(not isinstance(n, Expr) for n in shape) and product(shape) <= MOST_FOLDED_ELEMENTS:
            import numpy as np

            return Tensor(x.dtype, shape, known=np.full(shape, value, dtype=x.numbers.dtype))
        return builder.wrap(x.dtype, shape, builder.splat(element(builder, x), shape))
    # A constant of sizes remains one, so that its elements can be the sizes of other tensors (`known_integers`).
    if x.is_symbolic and x.known is not None and all(not isinstance(n, Expr) for n in shape):
        import numpy as np

        placed = x.known.reshape(_with_missing_axes(x.shape, axes, rank=len(shape)))
        return Tensor(x.dtype, shape, known=np.broadcast_to(placed, shape).copy())  # type: ignore[arg-type]
    # An axis of x is read at the index along its axis of the result; one of size 1 always at 0.
    source = tuple(
        AffineExpr.constant(0) if n == 1 else AffineExpr.dimension(axis) for n, axis in zip(x.shape, axes, strict=True)
    )
    return rearranged(builder, x, shape, AffineMap(len(shape), 0, source))


def _with_missing_axes(shape: Shape, axes: Sequence[int], rank: int) -> list[Any]:
    """Return the size of each axis of a result of rank `rank`; it is 1 for axes that the operand lacks.

    `shape` is the shape of the operand, whose axis i becomes axis axes[i] of the result.
    """
    sizes = dict(zip(axes, shape, strict=True))
    return [sizes.get(d, 1) for d in range(rank)]


def element(builder: Builder, x: Tensor) -> SSAValue:
    """Return the element of a tensor of one element, which is not complex, as a scalar SSA value."""
    (value,) = scalar_parts(builder, x)
    return value


def scalar_parts(builder: Builder, t: Tensor) -> list[SSAValue]:
    """Return the element of a tensor of one element as scalar SSA values: one, or real and imaginary part."""
    if t.numbers is not None and t.dtype.has_numpy_values:
        value = t.numbers.reshape(-1)[0].item()
        return [
            builder.scalar_constant(p, t.dtype) for p in ([value.real, value.imag] if t.dtype.is_complex else [value])
        ]
    positions = [builder.index(0)] * t.rank
    return [builder.add(tensor.ExtractOp(part, positions, t.dtype.element)).result for part in builder.parts(t)]


def full(builder: Builder, value: complex | bool, shape: Sequence[Size], dtype: DType) -> Tensor:
    """Return a tensor with all elements equal to a number."""
    parts = [value.real, value.imag] if dtype.is_complex else [value]
    return builder.wrap(dtype, shape, *(builder.splat(builder.scalar_constant(p, dtype), shape) for p in parts))


def iota(builder: Builder, shape: Sequence[Size], axis: int, dtype: DType) -> Tensor:
    """Return a tensor whose elements are their own index along an axis."""
    import numpy as np

    shape = tuple(shape)
    if len(shape) == 1 and not isinstance(shape[0], Expr) and shape[0] <= MOST_FOLDED_ELEMENTS and not dtype.is_complex:
        return builder.constant(np.arange(shape[0]), dtype)
    return apply_several(builder, lambda s: s.convert(s.position(axis), dtype), shape=shape)[0]


def tile(builder: Builder, x: Tensor, repeats: Sequence[Size]) -> Tensor:
    """Return x repeated `repeats[d]` times along each axis d."""
    # [n, m] becomes [1, n, 1, m], which is broadcast to [repeats[0], n, repeats[1], m] and joined.
    spread = expand_dims(builder, x, [2 * d for d in range(x.rank)])
    shape = [n for pair in zip(repeats, x.shape, strict=True) for n in pair]
    joined = [n * m for n, m in zip(repeats, x.shape, strict=True)]
    return reshape(builder, broadcast_to(builder, spread, shape), joined)
