"""Indexing maps of generics, evaluated on indices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.ir.affine import AffineBinaryOpKind as Kind

from pydispatch.compiler.kernels.ops.builder import Builder, Index


def evaluate(build: Builder, map: AffineMap, dims: Sequence[Index]) -> list[Index]:
    """Return the results of a map without symbols."""
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
    """Return whether an expression cannot be negative where its dimensions are not."""
    if isinstance(e, AffineConstantExpr):
        return e.value >= 0
    if isinstance(e, AffineBinaryOpExpr):
        return _positive(e.lhs) and _positive(e.rhs)
    return isinstance(e, AffineDimExpr)
