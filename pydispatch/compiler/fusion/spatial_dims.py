"""Collapse of the spatial dimensions of a product into one dimension, which fills more register blocks.

A 1x1 convolution is a product of all pixels of an image with its filter. Computed row by row, a row of 7 pixels fills
half of a vector or of a register block, and the filter is read once for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.fusion.build import indices_over, rewrite_loops
from pydispatch.compiler.fusion.collapse import DimGroups, collapse_axes, move_below_readers, replace_by_expanded
from pydispatch.compiler.kernels.matmul.match import Contraction, contraction_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, is_reduction, structured
from pydispatch.ir.values import shape_of

SHORT_COLUMNS, SHORT_ROWS = 64, 12
"""Maximum number of pixels of a short row of an image: the first where pixels are columns of the result (channels
first), the second where they are its rows (channels last). 64 columns fill four vectors of AVX-512, 12 rows at most one
register block."""


def collapse_spatial_dims(function: Operation) -> None:
    """Collapse the spatial dimensions of the products of a host function in place where that pays. Values are
    unchanged. Products that a softmax or the like reads are left alone: collapsing would prevent their fusion.
    """
    for op in list(walk(function)):
        # An operation without a parent was erased when an earlier product was collapsed.
        if op.name != GENERIC or op.parent is None:
            continue
        contraction = contraction_of(op)
        dims = None if contraction is None else _collapsible_dims(contraction)
        if dims is not None and not _is_reduced_and_read(op):
            _collapse_dims(cast(GenericOp, op), dims)


def _collapsible_dims(contraction: Contraction) -> tuple[int, ...] | None:
    """Return the loops of a contraction to collapse, in order of the result's dimensions.

    All of these loops index the same factor, and not the other one. In each operand that they index, they index
    adjacent dimensions, in order. The first such run of loops is chosen. A 1x1 convolution with the result [channels,
    height, width], over loops 0, 1 and 2, gives (1, 2).

    Return None if there is no run of at least two loops, or if a size is dynamic. Return None also if the last loop of
    the run is not short: a long row of pixels fills vectors and register blocks by itself.
    """
    generic = contraction.generic
    if any(n is None or n < 0 for n in generic.extents) or any(n < 0 for v in generic.operands for n in shape_of(v)):
        return None
    # The loop that indexes each dimension of the result; -1 for another expression.
    result_loops = [r.position if isinstance(r, AffineDimExpr) else -1 for r in generic.maps[-1].results]
    # The first run of loops that index adjacent dimensions of the result, and of the factor that they index.
    run: list[int] = []
    for first, second in pairwise(result_loops):
        are_dims = first >= 0 and second >= 0
        if are_dims and _belong_to_one_factor(contraction, first, second) and _are_adjacent(generic, first, second):
            if run and run[-1] != first:  # a second run begins
                break
            run = run or [first]
            run.append(second)
    if len(run) < 2:  # there is none
        return None
    # The collapsed pixels are columns if they are the last dimension of the result, else rows.
    are_pixels_columns = run[-1] == result_loops[-1]
    most_pixels = SHORT_COLUMNS if are_pixels_columns else SHORT_ROWS
    return tuple(run) if generic.extent(run[-1]) <= most_pixels else None


def _belong_to_one_factor(contraction: Contraction, *dims: int) -> bool:
    """Return whether one factor depends on all of these loops, and the other factor on none."""
    return any(
        set(dims) <= factor.dims and not set(dims) & other.dims
        for factor, other in ((contraction.a, contraction.b), (contraction.b, contraction.a))
    )


def _are_adjacent(generic: Structured, first: int, second: int) -> bool:
    """Return whether the loops `first` and `second` index adjacent dimensions, in this order, of each operand that they
    index at all.
    """
    for map_ in generic.maps:
        positions = [r.position if isinstance(r, AffineDimExpr) else -1 for r in map_.results]  # -1: not a loop alone
        all_dims = [d for r in map_.results for d in r.used_dims()]
        if first not in all_dims and second not in all_dims:
            continue
        are_consecutive = (first, second) in pairwise(positions)
        if not are_consecutive or all_dims.count(first) != 1 or all_dims.count(second) != 1:
            return False
    return True


def _is_reduced_and_read(op: Operation) -> bool:
    """Return whether one user reduces the result and another one reads it, as in a softmax.

    Collapsing would prevent their fusion.
    """
    users = {use.operation for use in op.results[0].uses}
    return len(users) > 1 and any(is_reduction(user) for user in users)


def _collapse_dims(op: GenericOp, run: tuple[int, ...]) -> None:
    """Replace a product by one in which the loops `run` are collapsed into the first of them, and an expand_shape.

    The expand_shape restores the shape of the result. It is moved below elementwise readers of the product, so that
    they fuse with it.

    Example: a 1x1 convolution of an image [64, 14, 14] with the result [8, 14, 14] and the run of both loops over
    pixels. The image is collapsed to [64, 196], the product has the result [8, 196], which is expanded to [8, 14, 14].

    Args:
        op: The product.
        run: Two or more loops. Each operand that they index has their dimensions adjacent and in order, and no other
            index that depends on them (`_collapsible_dims`).
    """
    generic, removed_loops = structured(op), run[1:]
    remaining_loops = [d for d in range(len(generic.iterators)) if d not in removed_loops]
    # No index of a remaining axis depends on a removed loop, for which `new_indices` has 0.
    new_indices = indices_over(remaining_loops, len(generic.iterators))
    # For each operand, the axes that each dimension of the collapsed operand combines. The index of the first of these
    # axes becomes the index of the dimension.
    axis_groups = [_axis_groups(map_, removed_loops) for map_ in generic.maps]
    operands, maps = list[SSAValue](), list[AffineMap]()
    for value, map_, groups in zip(generic.operands, generic.maps, axis_groups, strict=True):
        operands.append(collapse_axes(op, value, groups))
        indices = [map_.results[group[0]].replace_dims_and_symbols(new_indices, []) for group in groups]
        maps.append(AffineMap(len(remaining_loops), 0, tuple(indices)))
    product = rewrite_loops(op, operands, maps, iterators=[generic.iterators[d] for d in remaining_loops])
    result_groups = axis_groups[-1]  # the last operand is the output, which has the type of the result
    move_below_readers(replace_by_expanded(op, product, result_groups), result_groups)


def _axis_groups(map_: AffineMap, removed_loops: Sequence[int]) -> DimGroups:
    """Return the axes of an operand in groups: an axis that a removed loop indexes joins the group before it.

    If loop 2 is removed, and the map is (d0, d1, d2, d3) -> (d3, d1, d2), the groups are [[0], [1, 2]].
    """
    groups: DimGroups = []
    for axis, index in enumerate(map_.results):
        if isinstance(index, AffineDimExpr) and index.position in removed_loops:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups
