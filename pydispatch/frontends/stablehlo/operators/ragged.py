"""Conversion of CHLO's ragged dot product, in which groups of consecutive elements along one dimension have their own
operand or result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import I32, I64
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import products, shapes
from pydispatch.frontends.ops.reductions import reduce
from pydispatch.frontends.stablehlo.operators.products import dimension_pairs
from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer


def _ragged_dot(tracer: StablehloTracer, op: Operation, operands: list[Tensor]) -> Tensor:
    """Return a product in which one dimension of x, the ragged one, is divided into groups of given sizes.

    If the ragged dimension is a row of x, each group of rows has its own right operand: [b, m, k] by [g, b, k, n] is
    [b, m, n]. If it is contracted, each group has its own result: [b, m, k] by [b, k, n] is [g, b, m, n]. If it is a
    batch dimension, the groups have no effect. Elements that belong to no group count as zeros.
    """
    x, y, sizes = operands
    name = "ragged_dot_dimension_numbers"
    numbers = tracer.record(op, name)
    batching, contracting = dimension_pairs(tracer, numbers, name, x, y)
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise tracer.b.fail(f"{name} has {len(numbers.lhs_ragged_dimensions)} ragged dimensions, expected 1")
    (ragged,) = tracer.axes(numbers.lhs_ragged_dimensions, name, x.rank)
    batch, contracted = ([pair[0] for pair in pairs] for pairs in (batching, contracting))
    rows = [d for d in range(x.rank) if d not in batch and d not in contracted]
    groups = tracer.axes(numbers.rhs_group_dimensions, name, y.rank)
    if len(groups) != (ragged in rows) or any(pair[1] in groups for pair in (*batching, *contracting)):
        wanted = "one group dimension of its own" if ragged in rows else "no group dimension"
        raise tracer.b.fail(f"{name}: dimension {ragged} of {x} is ragged, so {y} has {wanted}, got {list(groups)}")
    if ragged in batch:
        return products.dot_general(tracer.b, x, y, batching, contracting, tracer.dtype(op))
    prefix = [*batch, *rows[: rows.index(ragged)]] if ragged in rows else [
        *batch, *contracted[: contracted.index(ragged)]
    ]  # fmt: skip
    spread = _grouped(tracer, x, ragged, sizes, prefix)
    batching, contracting = ([(d + 1, e) for d, e in pairs] for pairs in (batching, contracting))
    if ragged in rows:
        return products.dot_general(tracer.b, spread, y, batching, [*contracting, (0, groups[0])], tracer.dtype(op))
    product = products.dot_general(tracer.b, spread, y, batching, contracting, tracer.dtype(op))
    groups_axis = len(batching)  # the groups are the first free dimension of the left operand
    return shapes.transpose(tracer.b, product, [groups_axis, *(d for d in range(product.rank) if d != groups_axis)])


def _grouped(tracer: StablehloTracer, x: Tensor, ragged: int, sizes: Tensor, prefix: Sequence[int]) -> Tensor:
    """Return x repeated for each group along a new first axis, with zeros in place of elements of other groups.

    sizes is [g], or [..., g] with group sizes for each element along the dimensions `prefix` of x.
    """
    b = tracer.b
    expected = (*(x.shape[d] for d in prefix), sizes.shape[-1] if sizes.rank else 0)
    if not sizes.dtype.is_integer or (sizes.rank != 1 and sizes.shape != expected) or sizes.rank == 0:
        raise b.fail(f"the sizes of groups of {x} are integers of shape [g] or {list(expected)}, got {sizes}")
    count = sizes.shape[-1]
    # ends[..., g] is the sum of the sizes of all groups up to and including g.
    later = ew.compare(b, "ge", shapes.iota(b, (count, count), 0, I32), shapes.iota(b, (count, count), 1, I32))
    wide = ew.convert(b, sizes, I64)
    listed = ew.select(b, later, shapes.expand_dims(b, wide, [sizes.rank - 1]), b.constant(0, I64))
    ends = reduce(b, "add", listed, [sizes.rank])
    starts = ew.binary(b, "sub", ends, wide)
    ordered = sorted(range(len(prefix)), key=lambda n: prefix[n]) if sizes.rank > 1 else []
    at = {prefix[n] + 1: x.shape[prefix[n]] for n in ordered} | {0: count}
    shape = [at.get(d, 1) for d in range(x.rank + 1)]
    bounds = [shapes.reshape(b, shapes.transpose(b, bound, [sizes.rank - 1, *ordered]), shape)
              for bound in (starts, ends)]  # fmt: skip
    along_ragged = [x.shape[ragged] if d == ragged + 1 else 1 for d in range(x.rank + 1)]
    index = shapes.iota(b, along_ragged, ragged + 1, I64)
    inside = ew.binary(b, "and", ew.compare(b, "le", bounds[0], index), ew.compare(b, "lt", index, bounds[1]))
    return ew.select(b, inside, shapes.expand_dims(b, x, [0]), b.constant(0, x.dtype))


ROWS: dict[str, Convert] = {"chlo.ragged_dot": _ragged_dot}
