"""Products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import I32
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import products, shapes
from pydispatch.frontends.ops.indexing import reverse
from pydispatch.frontends.ops.reductions import reduce
from pydispatch.frontends.stablehlo.tracer import Convert, Tracer
from pydispatch.ir.dialects.stablehlo.attributes import Conv, integers


def _dot(t: Tracer, op: Operation, operands: list[Tensor]) -> Tensor:
    x, y = operands
    if not 0 < x.rank < 3 or not 0 < y.rank < 3:
        raise t.b.fail(f"'stablehlo.dot' of {x} and {y}: both are vectors or matrices")
    return products.dot_general(t.b, x, y, [], [(x.rank - 1, 0)], t.dtype(op))


def _dot_general(t: Tracer, op: Operation, operands: list[Tensor]) -> Tensor:
    x, y = operands
    numbers = t.record(op, "dot_dimension_numbers")
    pairs = []
    for what in ("batching", "contracting"):
        lhs, rhs = (getattr(numbers, f"{side}_{what}_dimensions") for side in ("lhs", "rhs"))
        if len(lhs) != len(rhs):
            raise t.b.fail(f"{len(lhs)} {what} dimensions of the left operand, {len(rhs)} of the right one")
        pairs.append(list(zip(lhs, rhs, strict=True)))
    for side, operand in enumerate((x, y)):
        t.axes([pair[side] for pair in (*pairs[0], *pairs[1])], "dot_dimension_numbers", operand.rank)
    return products.dot_general(t.b, x, y, pairs[0], pairs[1], t.dtype(op))


def _ragged_dot(t: Tracer, op: Operation, operands: list[Tensor]) -> Tensor:
    """Rows of the left operand in groups, each with a matrix of its own: [m, k] by [g, k, n] → [m, n]."""
    x, y, sizes = operands
    numbers = t.record(op, "ragged_dot_dimension_numbers")
    plain = (numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions,
             numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions)  # fmt: skip
    if plain != ((), (1,), (1,), (0,), (0,)) or (x.rank, y.rank, sizes.rank) != (2, 3, 1):
        raise t.b.fail(f"'chlo.ragged_dot' of {x} and {y} is supported for rows in groups: [m, k] by [g, k, n]")
    # Row i belongs to the group of which the sum of sizes before it is at most i.
    groups = y.shape[0]
    ends = reduce(t.b, "add", ew.select(t.b, _lower(t, groups), shapes.expand_dims(t.b, sizes, [0]),
                                        t.b.constant(0, sizes.dtype)), [1])  # fmt: skip
    rows = shapes.iota(t.b, (x.shape[0], 1), 0, sizes.dtype)
    before = ew.convert(t.b, ew.compare(t.b, "ge", rows, shapes.expand_dims(t.b, ends, [0])), I32)
    group = shapes.expand_dims(t.b, reduce(t.b, "add", before, [1]), [1])
    mask = ew.compare(t.b, "eq", group, shapes.iota(t.b, (1, groups), 1, I32))
    spread = ew.select(t.b, shapes.expand_dims(t.b, mask, [2]), shapes.expand_dims(t.b, x, [1]),
                       t.b.constant(0, x.dtype))  # fmt: skip
    return products.dot_general(t.b, spread, y, [], [(1, 0), (2, 1)], t.dtype(op))


def _lower(t: Tracer, n: Size) -> Tensor:
    return ew.compare(t.b, "ge", shapes.iota(t.b, (n, n), 0, I32), shapes.iota(t.b, (n, n), 1, I32))


def _convolution(t: Tracer, op: Operation, operands: list[Tensor]) -> Tensor:
    x, w = operands
    spatial = x.rank - 2
    padding = integers(op.properties.get("padding"))
    padding = padding * (2 * spatial) if len(padding) == 1 else padding or (0,) * (2 * spatial)
    t.entries(padding, 2 * spatial, "padding")
    return convolution(t, op, x, w, padding[::2], padding[1::2])


def convolution(t: Tracer, op: Operation, x: Tensor, w: Tensor, low: Sequence[Size], high: Sequence[Size]) -> Tensor:
    """A convolution with this padding and the other properties of the operation."""
    conv = op.properties["dimension_numbers"]
    assert isinstance(conv, Conv)
    image, kernel, result = conv.data
    spatial = x.rank - 2
    if w.rank != x.rank or any(len(part.spatial) != spatial for part in conv.data):
        raise t.b.fail(f"the dimension numbers do not describe a convolution of {x} by {w}")
    ones = [1] * spatial
    strides, dilations, input_dilations = (
        t.entries(t.numbers(op, name, ones), spatial, name, 1)
        for name in ("window_strides", "rhs_dilation", "lhs_dilation")
    )
    flipped = t.entries(t.numbers(op, "window_reversal", [0] * spatial), spatial, "window_reversal")
    x = shapes.transpose(t.b, x, (image.first, image.second, *image.spatial))
    w = shapes.transpose(t.b, w, (kernel.second, kernel.first, *kernel.spatial))
    if any(flipped):
        w = reverse(t.b, w, [2 + d for d in range(spatial) if flipped[d]])
    groups, batches = t.number(op, "feature_group_count", 1), t.number(op, "batch_group_count", 1)
    if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
        raise t.b.fail(f"feature_group_count {groups} and batch_group_count {batches}: one of them is 1")
    if batches > 1:
        x, groups = _groups_of_batches(t, x, batches), batches
    window = products.Window(strides, tuple(low), tuple(high), dilations)
    last = result.second == x.rank - 1
    made = products.convolution(
        t.b, x, w, window, groups=groups, input_dilations=input_dilations, dtype=t.dtype(op), channels_last=last
    )
    places = [0] * x.rank
    for place, axis in enumerate((result.first, result.second, *result.spatial)):
        places[axis] = place
    return shapes.transpose(t.b, made, places)


def _groups_of_batches(t: Tracer, x: Tensor, groups: int) -> Tensor:
    """[g n, c, ...] → [n, g c, ...]: each part of the batch becomes a group of channels."""
    n, c = x.shape[:2]
    if isinstance(n, Expr) or n % groups:
        raise t.b.fail(f"batch_group_count {groups} does not divide the batch of {x}")
    split = shapes.reshape(t.b, x, [groups, n // groups, c, *x.shape[2:]])
    moved = shapes.transpose(t.b, split, [1, 0, *range(2, split.rank)])
    return shapes.reshape(t.b, moved, [n // groups, c * groups, *x.shape[2:]])


ROWS: dict[str, Convert] = {
    "chlo.ragged_dot": _ragged_dot,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
}
