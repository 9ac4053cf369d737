"""Padding with elements of the tensor itself, and interior padding of dynamic size."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations.indexing import CoordinateBuilder, elements_at
from pydispatch.operations.slicing import pad


def pad_with(builder: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size], mode: str) -> Tensor:
    """Return x with `low` elements before and `high` after each axis; negative numbers crop.

    The mode "edge" repeats the border element, "reflect" mirrors at it, and "wrap" continues at the opposite border,
    repeatedly if necessary.
    """
    # The new shape. An axis without elements can be padded only if the result has no elements either.
    shape = tuple(n + below + above for n, below, above in zip(x.shape, low, high, strict=True))
    is_padded = [not (below == 0 and above == 0) for below, above in zip(low, high, strict=True)]
    for d in range(x.rank):
        if is_padded[d]:
            builder.require_positive(x.shape[d], f"axis {d} of {x} has no element to put around it",
                                     unless_zero=product(shape))  # fmt: skip
    sizes = [builder.index(n) for n in x.shape]
    before = [builder.index(n) for n in low]

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return the coordinates in x of an element of the result: its own position, moved into x by the mode."""
        return [
            _position(coords, mode, coords.minus(coords.loop_index(d), before[d]), size=sizes[d], known=x.shape[d])
            if is_padded[d]
            else coords.loop_index(d)
            for d in range(x.rank)
        ]

    return elements_at(builder, x, shape, coordinates)


def pad_between(
    builder: Builder, x: Tensor, low: Sequence[Size], high: Sequence[Size], value: Tensor, interior: Sequence[Size]
) -> Tensor:
    """Return x with `low` elements before, `high` after each axis, and `interior` between neighbours, which may be
    dynamic.

    Negative `low` and `high` crop. `value` is the padding element. A negative `interior` fails the call.

    Example: [a b c] with low 1, high 2, interior 1 and the value 0 becomes [0 a 0 b 0 c 0 0].
    """
    steps: list[Size] = []  # for each axis the distance of neighbouring elements of x in the result
    shape: list[Size] = []  # of the result
    for axis, (n, below, above, between) in enumerate(zip(x.shape, low, high, interior, strict=True)):
        steps.append(_step(builder, between))  # between + 1, with a check
        shape.append(below + _spread(builder, n, steps[axis]) + above)
        message = f"negative padding crops more of axis {axis} of {x} than the axis has"
        builder.require_positive(shape[axis] + 1, message)
    # Every element of the result is read from `padded`, x with one padding element after each axis: [a b c 0]. Padding
    # reads the last position along an axis, which is the size of x.
    padded = pad(builder, x, low=[0] * x.rank, high=[1] * x.rank, value=value)
    last, before, step = ([builder.index(n) for n in values] for values in (x.shape, low, steps))

    def position(coords: CoordinateBuilder, d: int) -> tuple[SSAValue, SSAValue]:
        """Return the index in x that an element of the result has along axis d, and whether it is an element of x
        rather than padding.

        With step 3, elements 0, 3 and 6 after `low` are elements 0, 1 and 2 of x; those between them are padding.
        """
        distance = coords.minus(coords.loop_index(d), before[d])  # from element 0 of x; negative in the padding before
        clamped = coords.add_op(arith.MaxSIOp(distance, coords.index_constant(0)))
        source = coords.add_op(arith.MinSIOp(coords.add_op(arith.DivSIOp(clamped, step[d])), last[d]))
        return source, coords.add_op(arith.CmpiOp(coords.times(source, step[d]), distance, "eq"))

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return the coordinates in `padded` of an element of the result: along each axis the index of an element of x,
        or for padding the index after the last element, last[d].
        """
        sources = [position(coords, d) for d in range(x.rank)]
        return [
            coords.add_op(arith.SelectOp(is_element, index, last[d])) for d, (index, is_element) in enumerate(sources)
        ]

    return elements_at(builder, padded, tuple(shape), coordinates)


def _step(builder: Builder, between: Size) -> Size:
    """Return the distance of neighbours with `between` elements between them. Add a check that this is not negative."""
    builder.require_positive(between + 1, "the interior padding is negative")
    return between + 1


def _spread(builder: Builder, n: Size, step: Size) -> Size:
    """Return the size from the first to the last of n elements, (n - 1) * step + 1; 0 if there is none."""
    formula_value = builder.index(n * step - step + 1)
    return builder.size_of(builder.add(arith.MaxSIOp(formula_value, builder.index(0))).result, "spread")


def _position(coords: CoordinateBuilder, mode: str, at: SSAValue, size: SSAValue, known: Size) -> SSAValue:
    """Return the index in an axis that a padding mode reads for the position `at`.

    Args:
        coords: The builder of positions.
        mode: "edge" (the border element), "reflect" (mirrored at it) or "wrap" (continued at the opposite border).
        at: Position relative to the first element of the axis; it is negative before the axis.
        size: Size of the axis.
        known: The size, if it is known at compile time.
    """
    one = coords.index_constant(1)
    last = coords.minus(size, one)
    if mode == "edge":
        return coords.clamped(at, last)
    if mode == "wrap":
        return _remainder(coords, at, size)
    if not isinstance(known, Expr) and known == 1:  # there is one element to reflect
        return coords.index_constant(0)
    # "reflect": one period goes from the first to the last element and back: 0 1 2 1 | 0 1 2 1. Its second half, from
    # `last` on, reads period - at.
    # Its length is 2 * last; at least 1, since a dynamic size may be 1.
    period = coords.add_op(arith.MaxSIOp(coords.plus(last, last), one))
    at = _remainder(coords, at, period)
    return coords.add_op(arith.MinSIOp(at, coords.minus(period, at)))


def _remainder(coords: CoordinateBuilder, at: SSAValue, size: SSAValue) -> SSAValue:
    """Return `at` modulo `size`, from 0 to size - 1 for a negative `at` too."""
    truncated = coords.add_op(arith.RemSIOp(at, size))
    return coords.add_op(arith.RemSIOp(coords.plus(truncated, size), size))
