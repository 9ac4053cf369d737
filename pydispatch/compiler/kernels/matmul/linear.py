"""Indices of tensors that are linear in the loops of a generic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from pydispatch.compiler.kernels.ops.builder import Builder, Index


@dataclass(frozen=True)
class LinearIndex:
    """An index along one axis of an operand, linear in loop indices: `2 * d0 + d3 + 1` has `terms` ((0, 2), (3, 1)).

    Attributes:
        terms: (loop dimension, positive coefficient) of each term, in order of the dimensions.
        constant: Integer that is added to the terms.
    """

    terms: tuple[tuple[int, int], ...]
    constant: int

    @property
    def dims(self) -> tuple[int, ...]:
        """The loop dimensions that the index depends on."""
        return tuple(dim for dim, _ in self.terms)

    def coefficient(self, dim: int) -> int:
        """Return the coefficient of a loop dimension; 0 if the index does not depend on it."""
        return dict(self.terms).get(dim, 0)

    def extent(self, extents: Mapping[int, int]) -> int:
        """Return the length of the range of the index, from its least to its greatest value.

        `2 * d0 + d3` has 2 * 4 + 1 * 2 + 1 = 11 for the extents {0: 5, 3: 3}: it is 0 to 10.

        extents: loop -> its number of iterations.
        """
        return sum(coefficient * (extents[dim] - 1) for dim, coefficient in self.terms) + 1

    def is_identity(self, dim: int) -> bool:
        """Return whether the linear index is the index of loop `dim` itself: coefficient 1, no offset."""
        return self.terms == ((dim, 1),) and self.constant == 0

    def emit(self, build: Builder, indices: Mapping[int, Index]) -> Index:
        """Emit the index at `indices`: loop -> its index."""
        total: Index = self.constant
        for dim, coefficient in self.terms:
            total = build.plus(total, build.times(indices[dim], coefficient))
        return total


def linear_index(expression: AffineExpr) -> LinearIndex | None:
    """Return an affine expression as a linear index; None if it has a division, a remainder or a coefficient below 1.

    The linear index has pairs of (loop, coefficient), ordered by loop, and a constant: `(d3 + 2 * d0) + 5` has the
    terms ((0, 2), (3, 1)) and the constant 5.
    """
    if isinstance(expression, AffineDimExpr):
        return LinearIndex(terms=((expression.position, 1),), constant=0)
    if isinstance(expression, AffineConstantExpr):
        return LinearIndex(terms=(), constant=expression.value)
    if not isinstance(expression, AffineBinaryOpExpr):
        return None
    left, right = linear_index(expression.lhs), linear_index(expression.rhs)
    if left is None or right is None:
        return None
    if expression.kind is AffineBinaryOpKind.Add:
        return _sum(left, right)
    if expression.kind is AffineBinaryOpKind.Mul:
        return _product(right, left) if left.terms else _product(left, right)
    return None


def _sum(left: LinearIndex, right: LinearIndex) -> LinearIndex:
    coefficients = dict(left.terms)
    for dim, coefficient in right.terms:
        coefficients[dim] = coefficients.get(dim, 0) + coefficient
    return LinearIndex(tuple(sorted(coefficients.items())), left.constant + right.constant)


def _product(multiplier: LinearIndex, index: LinearIndex) -> LinearIndex | None:
    """Return a linear index times another; None if `multiplier` is no constant of at least 1."""
    factor = multiplier.constant
    if multiplier.terms or factor < 1:
        return None
    return LinearIndex(tuple((dim, c * factor) for dim, c in index.terms), index.constant * factor)
