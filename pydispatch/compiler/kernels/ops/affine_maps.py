"""Evaluation of indexing maps of generics: emission of the index arithmetic of a map."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.ir.affine import AffineBinaryOpKind as Kind

from pydispatch.compiler.kernels.ops.builder import Builder, Index


def evaluate(build: Builder, map: AffineMap, dims: Sequence[Index]) -> list[Index]:
    """Emit the results of a map at `dims`, the values of its dimensions, and return them. The map has no symbols."""
    return [_value(build, e, dims) for e in map.results]


def _value(build: Builder, expr: AffineExpr, dims: Sequence[Index]) -> Index:
    """Emit the value of an affine expression for `dims`, the value of each dimension, and return it.

    Constants are folded: with integers for all dimensions, the result is an integer and nothing is emitted. As in MLIR,
    `floordiv` rounds towards negative infinity, and `-1 mod 4` is 3.

    Raises:
        ValueError: The expression has a symbol, or divides by something else than a positive constant.
    """
    if isinstance(expr, AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if not isinstance(expr, AffineBinaryOpExpr):
        raise ValueError(f"the map uses the symbol {expr}")
    a, b = _value(build, expr.lhs, dims), _value(build, expr.rhs, dims)
    if expr.kind is Kind.Add:
        return build.plus(a, b)
    if expr.kind is Kind.Mul:
        return build.times(a, b)
    # The others divide `a` by `b`.
    if not isinstance(b, int) or b < 1:
        raise ValueError(f"the map divides by {b}")
    if expr.kind is Kind.CeilDiv:
        a = build.plus(a, b - 1)
    if _is_never_negative(expr.lhs):  # nor is a + b - 1, with which CeilDiv rounds up
        return build.remainder(a, b) if expr.kind is Kind.Mod else build.quotient(a, b)
    if isinstance(a, int):
        return a % b if expr.kind is Kind.Mod else a // b
    # An SSA value that may be negative: the quotient that is rounded down, and from it the remainder.
    down = build.pure(arith.FloorDivSIOp(a, build.index(b)))
    return build.minus(a, build.times(down, b)) if expr.kind is Kind.Mod else down


def _is_never_negative(expr: AffineExpr) -> bool:
    """Return whether an expression is known to be nonnegative for nonnegative dimensions."""
    if isinstance(expr, AffineConstantExpr):
        return expr.value >= 0
    if isinstance(expr, AffineBinaryOpExpr):
        return _is_never_negative(expr.lhs) and _is_never_negative(expr.rhs)
    return isinstance(expr, AffineDimExpr)
