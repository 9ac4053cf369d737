"""Sizes of tensors as terms: polynomials over symbols, equal when their normal forms are.

A size is an int or an `Expr`. Operators work between both, and in NumPy's arrays of objects, so that the arithmetic of
shapes in a model is done by NumPy while the program is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from pydispatch.patterns.types import ComputedSize


class UndecidedError(Exception):
    """The order of two sizes depends on the sizes of the arguments of a call."""


@dataclass(frozen=True, order=True)
class SizeSymbol:
    """A size that a call decides, at least 0."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Term:
    """An operation that is no polynomial: "//", "%", "max" or "min" of two sizes."""

    op: str
    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{self.op}({self.a}, {self.b})" if self.op.isalpha() else f"({self.a} {self.op} {self.b})"


Atom = SizeSymbol | Term
Monomial = tuple[Atom, ...]


def _key(atom: Atom) -> tuple[bool, str]:
    return isinstance(atom, Term), str(atom)


class Expr(ComputedSize):
    """A sum of products of symbols and terms, with a factor for each; never a plain number (see `size`)."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = tuple(sorted(terms.items(), key=lambda item: [_key(atom) for atom in item[0]]))
        self._hash = hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms

    def __add__(self, other: Size) -> Size:
        return _sum(((self, 1), (other, 1)))

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        return _sum(((self, 1), (other, -1)))

    def __rsub__(self, other: Size) -> Size:
        return _sum(((other, 1), (self, -1)))

    def __neg__(self) -> Size:
        return _sum(((self, -1),))

    def __mul__(self, other: Size) -> Size:
        coefficients: dict[Monomial, int] = {}
        for a, m in self.terms:
            for b, n in _terms(other):
                product = tuple(sorted((*a, *b), key=_key))
                coefficients[product] = coefficients.get(product, 0) + m * n
        return size(coefficients)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        exact = _quotient(self, other)
        return _term("//", self, other) if exact is None else exact

    def __rfloordiv__(self, other: Size) -> Size:
        return 0 if other == 0 else _term("//", other, self)

    def __truediv__(self, other: Size) -> Size:
        return self // other

    def __mod__(self, other: Size) -> Size:
        return _term("%", self, other) if _quotient(self, other) is None else 0

    def __rmod__(self, other: Size) -> Size:
        return 0 if other == 0 else _term("%", other, self)

    def __lt__(self, other: Size) -> bool:
        return not _at_least(self, other)

    def __le__(self, other: Size) -> bool:
        return _at_least(other, self)

    def __gt__(self, other: Size) -> bool:
        return not _at_least(other, self)

    def __ge__(self, other: Size) -> bool:
        return _at_least(self, other)

    def __str__(self) -> str:
        shown = []
        for atoms, factor in self.terms:
            factors = [str(factor)] if factor != 1 or not atoms else []
            shown.append("*".join([*factors, *map(str, atoms)]))
        return " + ".join(shown)

    __repr__ = __str__


Size = int | Expr
Shape = tuple[Size, ...]


def symbol(name: str) -> Expr:
    """Return the size that a symbol of this name stands for."""
    return Expr({(SizeSymbol(name),): 1})


def size(terms: Mapping[Monomial, int]) -> Size:
    """Return the sum of products of symbols as a size; an int when no symbol is left."""
    kept = {atoms: factor for atoms, factor in terms.items() if factor}
    if not kept:
        return 0
    return kept[()] if kept.keys() == {()} else Expr(kept)


def _terms(of: Size) -> Iterable[tuple[Monomial, int]]:
    return of.terms if isinstance(of, Expr) else (((), int(of)),)


def _sum(parts: Iterable[tuple[Size, int]]) -> Size:
    coefficients: dict[Monomial, int] = {}
    for part, factor in parts:
        for atoms, n in _terms(part):
            coefficients[atoms] = coefficients.get(atoms, 0) + factor * n
    return size(coefficients)


def _term(op: str, lhs: Size, rhs: Size) -> Size:
    return Expr({(Term(op, lhs, rhs),): 1})


def _quotient(lhs: Expr, rhs: Size) -> Size | None:
    """Return a / b where the division leaves no remainder whatever the symbols are; None where it may."""
    if lhs == rhs:
        return 1
    divisor = list(_terms(rhs))
    if len(divisor) != 1:
        return None
    (atoms, factor), coefficients = divisor[0], {}
    if factor == 0:
        return None
    for other, n in lhs.terms:
        rest = list(other)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if n % factor:
            return None
        coefficients[tuple(rest)] = n // factor
    return size(coefficients)


def sign(of: Size) -> int:
    """-1, 0 or 1 where that holds for all sizes of at least 1. UndecidedError where it depends on them."""
    if not isinstance(of, Expr):
        return (of > 0) - (of < 0)
    for of_sign, direction in ((of, 1), (-of, -1)):
        least = _least(of_sign)
        if least is not None and least > 0:
            return direction
    raise UndecidedError(f"whether {of} is positive depends on the sizes of a call")


def _least(of: Size) -> int | None:
    """Return a lower bound of a size, whatever its symbols are; None when no bound is known."""
    if not isinstance(of, Expr):
        return of
    total = 0
    for atoms, factor in of.terms:
        least = [_least_atom(atom) for atom in atoms]
        if atoms and (factor < 0 or any(n is None or n < 0 for n in least)):
            return None
        total += factor * prod(n for n in least if n is not None)
    return total


def _least_atom(atom: Atom) -> int | None:
    if isinstance(atom, SizeSymbol):
        return 1
    if atom.op == "%":
        return 0 if not isinstance(atom.b, Expr) and atom.b > 0 else None
    a, b = _least(atom.a), _least(atom.b)
    if atom.op == "//":
        return None if a is None or isinstance(atom.b, Expr) or atom.b <= 0 else a // atom.b
    if atom.op == "max":
        return max((n for n in (a, b) if n is not None), default=None)
    return None if a is None or b is None else min(a, b)


def _at_least(lhs: Size, rhs: Size) -> bool:
    """Return whether a >= b in every call; False when a is less in every call. UndecidedError where the sizes of a call
    decide.
    """
    difference = _sum(((lhs, 1), (rhs, -1)))
    above, below = _least(difference), _least(_sum(((difference, -1),)))
    if above is not None and above >= 0:
        return True
    if below is not None and below > 0:
        return False
    raise UndecidedError(f"whether {lhs} is at least {rhs} depends on the sizes of a call")


def equal(lhs: Size, rhs: Size) -> bool:
    """Return whether two sizes are equal in every call. UndecidedError where that depends on the call."""
    return lhs == rhs or sign(lhs - rhs) == 0


def maximum(lhs: Size, rhs: Size) -> Size:
    """Return the larger of two sizes."""
    return _chosen("max", lhs, rhs)


def minimum(lhs: Size, rhs: Size) -> Size:
    """Return the smaller of two sizes."""
    return _chosen("min", lhs, rhs)


def _chosen(op: str, lhs: Size, rhs: Size) -> Size:
    for first, second in ((lhs, rhs), (rhs, lhs)):
        above = _least(_sum(((first, 1), (second, -1))))
        if above is not None and above >= 0:
            return first if op == "max" else second
    return _term(op, lhs, rhs)


def ceil_div(lhs: Size, rhs: Size) -> Size:
    """Return a / b, rounded up."""
    return -((-lhs) // rhs)


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of all sizes."""
    total: Size = 1
    for n in sizes:
        total = total * n
    return total


def is_static(shape: Iterable[Size]) -> bool:
    """Return whether every size is a number."""
    return all(not isinstance(n, Expr) for n in shape)


def static_product(shape: Shape) -> int | None:
    """Return how many elements a shape has; None when a size is not known."""
    count = product(shape)
    return None if isinstance(count, Expr) else count
