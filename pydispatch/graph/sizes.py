"""Symbolic tensor sizes: polynomials over symbols in a normal form, so that equal sizes compare equal.

A size is an int or an `Expr`. Both support Python's operators, also as elements of NumPy object arrays, so that NumPy
evaluates the shape arithmetic of a model at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from pydispatch.patterns.types import ComputedSize


class UndecidedError(Exception):
    """Error: the result of a comparison of two sizes depends on the sizes of a call."""


@dataclass(frozen=True, order=True)
class SizeSymbol:
    """Symbol for a dynamic size, written as its name.

    Comparisons assume that its value is at least `least`, which is 0 for a size that no check bounds; None stands for
    an integer of any sign.
    """

    name: str
    least: int | None = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Term:
    """Operation `op` of two sizes whose result is no polynomial: a // b, a % b, max(a, b) or min(a, b).

    Expressions use it as a factor, like a symbol.
    """

    op: str
    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{self.op}({self.a}, {self.b})" if self.op.isalpha() else f"({self.a} {self.op} {self.b})"


Atom = SizeSymbol | Term
"""Symbolic factor of a monomial: a symbol, such as n, or an operation that is not simplified, such as n // 2."""
EXTREMA = ("max", "min")
_MAX_EXPONENT = 8
"""Largest exponent of a power that becomes a product. A power of a sum has more monomials with each factor."""
Monomial = tuple[Atom, ...]
"""Product of atoms, sorted by `_key`: (m, n, n) is m * n * n, and () is 1."""


def _key(atom: Atom) -> tuple[bool, str]:
    """Return the sort key of an atom: symbols before terms, then by text."""
    return isinstance(atom, Term), str(atom)


class Expr(ComputedSize):
    """Polynomial of the sizes of a call, such as 2*n*m + n + 1: a sum of monomials with integer coefficients.

    A monomial is a product of symbols, such as n, and of operations that are not simplified, such as n // 2 (`Term`).
    An Expr is never a constant: `size` returns constants as ints. `terms` has pairs (monomial, coefficient, not 0).
    Comparisons such as `<` return whether they hold in every call, and raise UndecidedError if that depends on it.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        """Sort the terms, a mapping from monomials to coefficients that are not 0."""
        # Sorted by monomials, so that equal polynomials have equal terms.
        self.terms = tuple(sorted(terms.items(), key=lambda item: [_key(atom) for atom in item[0]]))
        self._hash = hash(self.terms)

    def as_symbol(self) -> SizeSymbol | None:
        """Return the symbol if the expression is one symbol and nothing else, such as n but not 2*n; else None."""
        (atoms, coefficient), *others = self.terms
        is_atom = not others and coefficient == 1 and len(atoms) == 1
        return atoms[0] if is_atom and isinstance(atoms[0], SizeSymbol) else None

    @property
    def is_product(self) -> bool:
        """Whether it is more than a sum or difference of sizes: a monomial has several atoms, or a factor but 1."""
        return any(len(atoms) > 1 or (atoms and abs(factor) > 1) for atoms, factor in self.terms)

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
        """Return the product, expanded to a sum of monomials."""
        coefficients: dict[Monomial, int] = {}
        for a, m in self.terms:
            for b, n in terms_of(other):
                product = tuple(sorted((*a, *b), key=_key))
                coefficients[product] = coefficients.get(product, 0) + m * n
        return size(coefficients)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        """Return the quotient: a polynomial if the division is exact, else an opaque term `self // other`."""
        exact = _quotient(self, other)
        return term("//", self, other) if exact is None else exact

    def __rfloordiv__(self, other: Size) -> Size:
        return 0 if other == 0 else term("//", other, self)

    def __truediv__(self, other: Size) -> Size:  # a size is an integer, also in a model that divides by "/"
        return self // other

    def __mod__(self, other: Size) -> Size:
        """Return the remainder: 0 if the division is exact for all values of the symbols, else a term `%`."""
        return term("%", self, other) if _quotient(self, other) is None else 0

    def __rmod__(self, other: Size) -> Size:
        return 0 if other == 0 else term("%", other, self)

    def __pow__(self, exponent: int) -> Size:
        """Return the power, expanded to a sum of monomials, for an int from 0 to _MAX_EXPONENT."""
        if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_EXPONENT:
            return NotImplemented
        return product([self] * exponent)

    def __lt__(self, other: Size) -> bool:
        """Return whether self < other. Raise UndecidedError unless that is known to be the same in every call."""
        return not _at_least(self, other)

    def __le__(self, other: Size) -> bool:
        """Return whether self <= other. Raise UndecidedError unless that is known to be the same in every call."""
        return _at_least(other, self)

    def __gt__(self, other: Size) -> bool:
        """Return whether self > other. Raise UndecidedError unless that is known to be the same in every call."""
        return not _at_least(other, self)

    def __ge__(self, other: Size) -> bool:
        """Return whether self >= other. Raise UndecidedError unless that is known to be the same in every call."""
        return _at_least(self, other)

    def __str__(self) -> str:
        """Return the sum as text, such as `2*n*m + n + 1`."""
        products = []
        for atoms, factor in self.terms:
            factors = [str(factor)] if factor != 1 or not atoms else []
            products.append("*".join([*factors, *map(str, atoms)]))
        return " + ".join(products)

    __repr__ = __str__


Size = int | Expr
"""Size of an axis: a number, or an expression over the sizes of a call."""
Shape = tuple[Size, ...]
"""Sizes of a tensor."""


def symbol(name: str, least: int | None = 0) -> Expr:
    """Return the size that a symbol of this name stands for. It is assumed to be at least `least`, unless that is
    None.
    """
    return Expr({(SizeSymbol(name, least),): 1})


def size(terms: Mapping[Monomial, int]) -> Size:
    """Return a sum of monomials as a size: an int if it is constant.

    terms: monomials and their coefficients; that of () is the constant term.
    """
    nonzero = {atoms: factor for atoms, factor in terms.items() if factor}
    if not nonzero:
        return 0
    return nonzero[()] if nonzero.keys() == {()} else Expr(nonzero)


def terms_of(of: Size) -> Iterable[tuple[Monomial, int]]:
    """Return the monomials of a size with their coefficients; () is the monomial of a constant."""
    return of.terms if isinstance(of, Expr) else (((), int(of)),)


def _sum(parts: Iterable[tuple[Size, int]]) -> Size:
    """Return the sum of sizes times integers, from pairs (size, factor)."""
    coefficients: dict[Monomial, int] = {}
    for part, factor in parts:
        for atoms, n in terms_of(part):
            coefficients[atoms] = coefficients.get(atoms, 0) + factor * n
    return size(coefficients)


def term(op: str, lhs: Size, rhs: Size) -> Size:
    """Return the size that is one operation, such as n // 2, without simplification. `op` is that of `Term`."""
    return Expr({(Term(op, lhs, rhs),): 1})


def _quotient(lhs: Expr, rhs: Size) -> Size | None:
    """Return lhs / rhs if the division is known to be exact for all values of the symbols, such as 2*n for
    4*n*m / (2*m); else None. Exact divisions by sums are found only if both sizes are equal.
    """
    if lhs == rhs:
        return 1
    divisor = list(terms_of(rhs))
    if len(divisor) != 1:  # a sum of several monomials, or 0
        return None
    # A monomial is a product of atoms (symbols or terms). 4*n*m has the atoms (n, m) and the coefficient (factor) 4.
    (divisor_atoms, divisor_factor), quotient = divisor[0], {}
    if divisor_factor == 0:
        return None
    # Divide each monomial of the dividend: remove the divisor's atoms from it, and divide its coefficient.
    for atoms, factor in lhs.terms:
        remaining = list(atoms)
        for atom in divisor_atoms:
            if atom not in remaining:
                return None
            remaining.remove(atom)
        if factor % divisor_factor:
            return None
        quotient[tuple(remaining)] = factor // divisor_factor
    return size(quotient)


def sign(of: Size) -> int:
    """Return -1, 0 or 1: the sign of a size for all values of its symbols. Raise UndecidedError if it is not known to
    be the same for all.
    """
    if not isinstance(of, Expr):
        return (of > 0) - (of < 0)
    for signed, direction in ((of, 1), (-of, -1)):
        bound = _lower_bound(signed)
        if bound is not None and bound > 0:
            return direction
    raise UndecidedError(f"whether {of} is positive depends on the sizes of a call")


def sign_unless_empty(of: Size) -> int:
    """Return the `sign` of a size in calls in which no tensor is empty: symbols whose bound is 0 are at least 1. Raise
    UndecidedError if it is not known to be the same in all of them.
    """
    return sign(_replaced(of, lambda atom: SizeSymbol(atom.name, least=1) if atom.least == 0 else atom))


@lru_cache(maxsize=4096)
def _lower_bound(of: Size, cases: int = 4) -> int | None:
    """Return a lower bound of a size for all values of its symbols, such as 3 for 2*n + 3; None if no bound is known.

    A minimum or maximum in the size is replaced by each of its two operands, which gives two cases. At most `cases`
    extrema inside of each other are replaced, which bounds the time.
    """
    if not isinstance(of, Expr):
        return of
    atoms_of = (atom for atoms, _ in of.terms for atom in atoms)
    extremum = next((a for a in atoms_of if isinstance(a, Term) and a.op in EXTREMA), None)
    if extremum is not None and cases:
        either = [_lower_bound(_substituted(of, extremum, n), cases - 1) for n in (extremum.a, extremum.b)]
        bounds = [n for n in either if n is not None]
        # -min(a, b) is at least -a and at least -b: each bound holds. min(a, b) is only known to be one of both: the
        # lesser bound holds.
        if extremum.op == "min":
            both_hold = _falls_with(of, extremum)
        else:
            both_hold = _falls_with(-of, extremum)  # the size does not fall with the maximum
        if both_hold:
            return max(bounds, default=None)
        return min(bounds) if len(bounds) == len(either) else None
    total = 0
    for atoms, factor in of.terms:
        lower = [_lower_bound_of_atom(atom) for atom in atoms]
        # A negative factor needs an upper bound, and a product of bounds is a bound only if none is negative.
        if atoms and (factor < 0 or any(n is None or n < 0 for n in lower)):
            return None
        total += factor * prod(n for n in lower if n is not None)
    return total


def _substituted(of: Expr, atom: Atom, value: Size) -> Size:
    """Return a size with an atom of its monomials replaced by another size."""
    return _sum((product(value if a == atom else Expr({(a,): 1}) for a in atoms), factor) for atoms, factor in of.terms)


def _falls_with(of: Size, atom: Atom) -> bool:
    """Return whether a size is known not to grow with one of its atoms."""
    for atoms, factor in terms_of(of):
        if atom not in atoms:
            continue
        others = [_lower_bound_of_atom(a) for a in atoms if a != atom]
        if factor > 0 or len(others) != len(atoms) - 1 or any(n is None or n < 0 for n in others):
            return False
    return True


def _lower_bound_of_atom(atom: Atom) -> int | None:
    """Return a lower bound of a symbol or of a term; None if no bound is known."""
    if isinstance(atom, SizeSymbol):
        return atom.least
    positive_divisor = None if isinstance(atom.b, Expr) or atom.b <= 0 else atom.b  # of "%" and "//"
    if atom.op == "%":  # a remainder by a positive number is not negative
        return None if positive_divisor is None else 0
    a, b = _lower_bound(atom.a), _lower_bound(atom.b)
    if atom.op == "//":
        return None if a is None or positive_divisor is None else a // positive_divisor
    if atom.op == "max":
        return max((n for n in (a, b) if n is not None), default=None)
    return None if a is None or b is None else min(a, b)


def is_at_least(lhs: Size, rhs: Size) -> bool:
    """Return whether lhs >= rhs is known to hold in every call."""
    least_difference = _lower_bound(_sum(((lhs, 1), (rhs, -1))))
    return least_difference is not None and least_difference >= 0


def _at_least(lhs: Size, rhs: Size) -> bool:
    """Return whether lhs >= rhs, if that is known to be the same in every call. Raise UndecidedError otherwise."""
    if is_at_least(lhs, rhs):
        return True
    if is_at_least(rhs, _sum(((lhs, 1), (1, 1)))):
        return False
    raise UndecidedError(f"whether {lhs} is at least {rhs} depends on the sizes of a call")


def equal(lhs: Size, rhs: Size) -> bool:
    """Return whether two sizes are equal, if that is known to be the same in every call. Raise UndecidedError
    otherwise.
    """
    return lhs == rhs or sign(lhs - rhs) == 0


def differ(lhs: Size, rhs: Size) -> bool:
    """Return whether two sizes are known to be unequal in every call without empty tensors, such as n and 2*n."""
    try:
        return sign_unless_empty(lhs - rhs) != 0
    except UndecidedError:
        return False


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of all sizes."""
    total: Size = 1
    for n in sizes:
        total = total * n
    return total


def _replaced(of: Size, replacement: Callable[[SizeSymbol], SizeSymbol]) -> Size:
    """Return a size with each symbol replaced by another symbol, also in its terms."""
    if not isinstance(of, Expr):
        return of

    def atom_of(atom: Atom) -> Atom:
        """Return the atom with its symbols replaced."""
        if isinstance(atom, SizeSymbol):
            return replacement(atom)
        return Term(atom.op, _replaced(atom.a, replacement), _replaced(atom.b, replacement))

    # A sum of monomials, each times its coefficient n: monomials that were different may become equal, and are added.
    return _sum((Expr({tuple(sorted(map(atom_of, atoms), key=_key)): 1}) if atoms else 1, n) for atoms, n in of.terms)


def symbols_of(size: Size) -> set[str]:
    """Return the names of the symbols in a size, also of those in its terms, such as {"n"} for n // 2 + 1."""
    if not isinstance(size, Expr):
        return set()
    names: set[str] = set()
    for atoms, _ in size.terms:
        for atom in atoms:
            if isinstance(atom, SizeSymbol):
                names.add(atom.name)
            elif isinstance(atom, Term):
                names |= symbols_of(atom.a) | symbols_of(atom.b)
    return names


def is_static(shape: Iterable[Size]) -> bool:
    """Return whether every size of a shape is an int."""
    return all(not isinstance(n, Expr) for n in shape)
