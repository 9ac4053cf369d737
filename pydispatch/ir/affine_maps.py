"""Predicates on affine maps: projections, permutations and identities, and the dimensions that a map uses."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)


def dims_in(map: AffineMap) -> set[int]:
    """Return the positions, from 0, of the dimensions that a map's results use."""
    return {e.position for result in map.results for e in result.dfs() if isinstance(e, AffineDimExpr)}


def is_projection(map: AffineMap) -> bool:
    """Return whether every result is a dimension or the constant 0, and no dimension occurs twice."""
    positions = [r.position for r in map.results if isinstance(r, AffineDimExpr)]
    zeros = sum(isinstance(r, AffineConstantExpr) and r.value == 0 for r in map.results)
    return len(positions) == len(set(positions)) and len(positions) + zeros == len(map.results)


def is_projected_permutation(map: AffineMap) -> bool:
    """Return whether every result is a dimension, and no dimension occurs twice."""
    return is_projection(map) and all(isinstance(r, AffineDimExpr) for r in map.results)


def is_permutation(map: AffineMap) -> bool:
    """Return whether the results are all dimensions, in any order."""
    return is_projected_permutation(map) and len(map.results) == map.num_dims


def is_identity(map: AffineMap) -> bool:
    """Return whether the results are all dimensions, in order."""
    positions = [r.position if isinstance(r, AffineDimExpr) else None for r in map.results]
    return positions == list(range(map.num_dims))


def with_unit_loops(map: AffineMap, loop_sizes: Sequence[int]) -> AffineMap:
    """Return the indexing map of an operand with each result 0 replaced by its own loop, if that loop has size 1.

    For loops of the sizes (1, 8), (d0, d1) -> (0, d1) becomes (d0, d1) -> (d0, d1). d0 is always 0, so the map reads
    the same elements, and callers can recognize it by `is_identity`.

    The own loop of an axis of the operand is found as NumPy broadcasts: the last axis has the last loop, and so on
    backwards. With two loops, the only axis of a vector has the loop d1. A map that indexes an axis by anything else
    than 0 or its own loop is returned unchanged.

    Args:
        map: Loops → index of the operand at each of its axes.
        loop_sizes: Number of iterations of each loop, outermost first. Any number but 1, such as 0, may stand for a
            dynamic size.
    """
    loop_of_axis_0 = len(loop_sizes) - len(map.results)
    if loop_of_axis_0 < 0:  # more axes than loops: not every axis has a loop of its own
        return map
    exprs, zero = [], AffineExpr.constant(0)
    for loop, expr in enumerate(map.results, start=loop_of_axis_0):
        loop_index = AffineExpr.dimension(loop)
        if expr not in (zero, loop_index):
            return map
        exprs.append(loop_index if loop_sizes[loop] == 1 else expr)
    return AffineMap(map.num_dims, map.num_symbols, tuple(exprs))


def is_nondecreasing(expr: AffineExpr) -> bool:
    """Return whether an expression never gets smaller as a dimension gets larger, by the form of the expression.

    True for `d0 * 2 + d1` and `d0 floordiv 2`, False for `d0 - d1` and for every `mod`. The extremes of such an
    expression over a box of indices are its values at the lowest and at the highest corner.
    """
    if not isinstance(expr, AffineBinaryOpExpr):
        return True
    if expr.kind is AffineBinaryOpKind.Add:
        return is_nondecreasing(expr.lhs) and is_nondecreasing(expr.rhs)
    if expr.kind is AffineBinaryOpKind.Mod or not isinstance(expr.rhs, AffineConstantExpr):
        return False
    return expr.rhs.value >= 0 and is_nondecreasing(expr.lhs)  # constant factors and divisors are stored on the right


def has_exact_bounds(expr: AffineExpr) -> bool:
    """Return whether interval arithmetic on an expression gives exact bounds, given the range of each dimension.

    That is the case if `mod` applies to single dimensions only, and no dimension occurs twice: intervals do not know
    that both occurrences are equal. With d0 from 0 to 3, they give -3 to 3 for d0 - d0.
    """
    dims = [d.position for d in expr.dfs() if isinstance(d, AffineDimExpr)]
    return len(dims) == len(set(dims)) and all(
        inner.kind is not AffineBinaryOpKind.Mod or isinstance(inner.lhs, AffineDimExpr)
        for inner in expr.dfs() if isinstance(inner, AffineBinaryOpExpr)
    )  # fmt: skip
