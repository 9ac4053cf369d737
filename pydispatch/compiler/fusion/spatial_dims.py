"""Collapse of the spatial dimensions of a product into one dimension, which fills more register blocks.

A 1x1 convolution is a product of all pixels of an image with its filter. Computed row by row, a row of 7 pixels fills
half of a vector or of a register block, and the filter is read once for each row.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.edit import before
from pydispatch.compiler.fusion.build import reassociation, rewrite_loops
from pydispatch.compiler.fusion.collapse import DimGroups, collapsed, sink
from pydispatch.compiler.kernels.matmul.match import Contraction, contraction_of
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import Structured, is_reduction
from pydispatch.ir.values import shape_of

SHORT_COLUMNS, SHORT_ROWS = 64, 12
"""Pixels up to which a row of an image is short: as columns (channels first), a row has less than four vectors of
AVX-512; as rows it has less than a register block."""


def collapse_spatial_dims(function: Operation) -> None:
    """Rewrite the products of a host function for which it pays, in place. No value changes."""
    for op in list(walk(function)):
        if op.name == "linalg.generic" and op.parent is not None:
            c = contraction_of(op)
            run = None if c is None else _run(c)
            if c is not None and run is not None and not _is_row_of_a_reduction(op):
                _rewrite(cast(GenericOp, op), c.generic, run)


def _run(contraction: Contraction) -> tuple[int, ...] | None:
    """Return the dimensions, all of one factor only, that are neighbours, in order, in each operand that has one of
    them. None when there are fewer than two, the last of them is not short, or a size is dynamic.
    """
    g = contraction.generic
    if any(n is None or n < 0 for n in g.extents) or any(n < 0 for v in g.operands for n in shape_of(v)):
        return None
    out = [r.position if isinstance(r, AffineDimExpr) else -1 for r in g.maps[-1].results]
    run: list[int] = []
    for first, second in pairwise(out):
        if (
            first >= 0
            and second >= 0
            and _only_one_factor(contraction, first, second)
            and _neighbours(g, first, second)
        ):
            if run and run[-1] != first:
                break
            run = run or [first]
            run.append(second)
    if len(run) < 2:
        return None
    short = SHORT_COLUMNS if run[-1] == out[-1] else SHORT_ROWS
    return tuple(run) if g.extent(run[-1]) <= short else None


def _only_one_factor(contraction: Contraction, *dims: int) -> bool:
    return any(
        set(dims) <= own.dims and not set(dims) & other.dims
        for own, other in ((contraction.a, contraction.b), (contraction.b, contraction.a))
    )


def _neighbours(generic: Structured, first: int, second: int) -> bool:
    for map_ in generic.maps:
        positions = [r.position if isinstance(r, AffineDimExpr) else -1 for r in map_.results]
        used = [d for r in map_.results for d in r.used_dims()]
        if first not in used and second not in used:
            continue
        together = (first, second) in pairwise(positions)
        if not together or used.count(first) != 1 or used.count(second) != 1:
            return False
    return True


def _is_row_of_a_reduction(op: Operation) -> bool:
    """Return whether something reduces the rows of the result and something else reads them, as a softmax does."""
    users = {use.operation for use in op.results[0].uses}
    return len(users) > 1 and any(is_reduction(user) for user in users)


def _rewrite(op: GenericOp, generic: Structured, run: tuple[int, ...]) -> None:
    kept = [d for d in range(len(generic.iterators)) if d not in run[1:]]
    at = [
        AffineExpr.dimension(kept.index(d)) if d in kept else AffineExpr.constant(0)
        for d in range(len(generic.iterators))
    ]
    operands: list[SSAValue] = []
    maps: list[AffineMap] = []
    out: DimGroups = []
    for value, map_ in zip(generic.operands, generic.maps, strict=True):
        dims = [r.position if isinstance(r, AffineDimExpr) else -1 for r in map_.results]
        groups: DimGroups = []
        for axis, dim in enumerate(dims):
            if dim in run[1:]:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        rest = [r for r, dim in zip(map_.results, dims, strict=True) if dim not in run[1:]]
        maps.append(AffineMap(len(kept), 0, tuple(r.replace_dims_and_symbols(at, []) for r in rest)))
        shape = shape_of(value)
        whole = len(groups) == len(dims)
        operands.append(
            value if whole else collapsed(op, value, groups, [math.prod(shape[i] for i in group) for group in groups])
        )
        out = groups
    product = rewrite_loops(op, operands, maps, [generic.iterators[d] for d in kept])
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    expand = tensor.ExpandShapeOp(product, [], reassociation(out), list(type_.get_shape()), type_)
    before(expand, op)
    replace_op(op, expand.results[0])
    sink(expand, out)
