"""Indexing maps of generics: evaluated on indices, and solved for the loop dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.ir.affine import AffineBinaryOpKind as Kind

from pydispatch.compiler.kernels.ops.builder import Builder, Index


def evaluate(build: Builder, map: AffineMap, dims: Sequence[Index]) -> list[Index]:
    """The results of a map without symbols."""
    return [_value(build, e, dims) for e in map.results]


def _value(build: Builder, e: AffineExpr, dims: Sequence[Index]) -> Index:
    if isinstance(e, AffineDimExpr):
        return dims[e.position]
    if isinstance(e, AffineConstantExpr):
        return e.value
    if not isinstance(e, AffineBinaryOpExpr):
        raise ValueError(f"the map uses the symbol {e}")
    a, b = _value(build, e.lhs, dims), _value(build, e.rhs, dims)
    if e.kind is Kind.Add:
        return build.plus(a, b)
    if e.kind is Kind.Mul:
        return build.times(a, b)
    if not isinstance(b, int) or b < 1:
        raise ValueError(f"the map divides by {b}")
    if e.kind is Kind.CeilDiv:
        a = build.plus(a, b - 1)
    if _positive(e.lhs):
        return build.remainder(a, b) if e.kind is Kind.Mod else build.quotient(a, b)
    if isinstance(a, int):
        return a % b if e.kind is Kind.Mod else a // b
    down = build.pure(arith.FloorDivSIOp(a, build.index(b)))
    return build.minus(a, build.times(down, b)) if e.kind is Kind.Mod else down


def _positive(e: AffineExpr) -> bool:
    """Whether an expression cannot be negative where its dimensions are not."""
    if isinstance(e, AffineConstantExpr):
        return e.value >= 0
    if isinstance(e, AffineBinaryOpExpr):
        return _positive(e.lhs) and _positive(e.rhs)
    return isinstance(e, AffineDimExpr)


def dims_in(map: AffineMap) -> set[int]:
    """The dimensions that a map's results use."""
    return {e.position for result in map.results for e in result.dfs() if isinstance(e, AffineDimExpr)}


def is_projection(map: AffineMap) -> bool:
    """Whether every result is a dimension, none twice, or the constant 0."""
    plain = [r.position for r in map.results if isinstance(r, AffineDimExpr)]
    zeros = sum(isinstance(r, AffineConstantExpr) and r.value == 0 for r in map.results)
    return len(plain) == len(set(plain)) and len(plain) + zeros == len(map.results)


def is_identity(map: AffineMap) -> bool:
    """Whether the results are all dimensions, in order."""
    return [r.position if isinstance(r, AffineDimExpr) else -1 for r in map.results] == list(range(map.num_dims))


def is_exact(e: AffineExpr) -> bool:
    """Whether the ends of an expression's range follow from those of its parts: no dimension counts twice."""
    dims = [d.position for d in e.dfs() if isinstance(d, AffineDimExpr)]
    return len(dims) == len(set(dims)) and all(
        part.kind is not Kind.Mod or isinstance(part.lhs, AffineDimExpr)
        for part in e.dfs() if isinstance(part, AffineBinaryOpExpr)
    )  # fmt: skip
