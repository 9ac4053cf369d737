"""Functions of symbolic sizes whose results are no polynomials: extrema, and quotients that are rounded."""

from __future__ import annotations

import operator

from pydispatch.graph.sizes import EXTREMA, Expr, Size, Term, is_at_least, sign, size, term, terms_of


def maximum(lhs: Size, rhs: Size) -> Size:
    """Return the larger of two sizes."""
    return _extremum("max", lhs, rhs)


def minimum(lhs: Size, rhs: Size) -> Size:
    """Return the smaller of two sizes."""
    return _extremum("min", lhs, rhs)


def _extremum(op: str, lhs: Size, rhs: Size) -> Size:
    """Return the "max" or "min" (`op`) of two sizes: one of them if their order is known, else a term.

    Equal extrema have equal terms: max(n - 1, 0) is n - min(n, 1), also as the size of the slice from min(1, n) to n.
    """
    for upper, lower in ((lhs, rhs), (rhs, lhs)):
        if is_at_least(upper, lower):
            return upper if op == "max" else lower
    # The difference lhs - rhs is a - b for sums a and b of its positive and negative monomials: a minimum is
    # min(a, b) + (lhs - a), and a maximum is the sum of both sizes less their minimum.
    difference = list(terms_of(lhs - rhs))
    a = size({atoms: factor for atoms, factor in difference if factor > 0})
    b = size({atoms: -factor for atoms, factor in difference if factor < 0})
    rest = lhs - a
    if any(isinstance(atom, Term) and atom.op not in EXTREMA for atoms, _ in terms_of(rest) for atom in atoms):
        # The expression below would contain a quotient of `rest` twice. With n quotients inside of each other, it would
        # contain the innermost one 2^n times.
        return term(op, lhs, rhs)
    least = _minimum_term(a, b) + rest
    return least if op == "min" else lhs + rhs - least


def _minimum_term(a: Size, b: Size) -> Size:
    """Return min(a, b) for sizes whose order is not known, and which have no common monomials.

    An operand of a minimum within a or b that cannot be the least of all is left out: min(n, min(n, 1) + 1) is
    min(n, 2).
    """
    # In the example, outer is n, inner is min(n, 1) + 1, nested is min(n, 1) and rest is 1. The operand n of `nested`
    # is left out, because rest + n >= outer; the operand 1 remains.
    for outer, inner in ((a, b), (b, a)):
        for atoms, factor in terms_of(inner):
            (nested,) = atoms if len(atoms) == 1 else (None,)
            if factor != 1 or not isinstance(nested, Term) or nested.op != "min":
                continue
            rest = inner - Expr({atoms: 1})
            for remaining, left_out in ((nested.a, nested.b), (nested.b, nested.a)):
                if is_at_least(rest + left_out, outer):
                    return minimum(outer, rest + remaining)
    # A number is the second operand; other operands are sorted by their text.
    first, second = sorted((a, b), key=lambda n: (not isinstance(n, Expr), str(n)))
    return term("min", first, second)


def divisor(of: Size) -> Size:
    """Return max(of, 1), a divisor that is not 0 in calls with empty tensors."""
    return term("max", of, rhs=1) if isinstance(of, Expr) else max(of, 1)


def one_unless_empty(of: Size) -> Size:
    """Return min(of, 1) for the size `of` of a tensor: 0 in calls in which the tensor is empty, else 1.

    `of - one_unless_empty(of)` is the number of elements without the last one, also if there is none.
    """
    return minimum(of, 1)


def ceil_div(lhs: Size, rhs: Size) -> Size:
    """Return lhs / rhs, rounded up."""
    return -((-lhs) // rhs)


def truncated_quotient(lhs: Size, rhs: Size) -> Size:
    """Return lhs / rhs, rounded towards zero. Raise UndecidedError if the sign of rhs depends on the call."""
    return sign(rhs) * _of_magnitudes("//", lhs, rhs)


def truncated_remainder(lhs: Size, rhs: Size) -> Size:
    """Return the remainder of `truncated_quotient`, which has the sign of lhs. Raise UndecidedError if the sign of rhs
    depends on the call.
    """
    return _of_magnitudes("%", lhs, rhs)


def _of_magnitudes(op: str, lhs: Size, rhs: Size) -> Size:
    """Return `op`, // or %, of the absolute values of two sizes, with the sign of lhs."""
    divisor, function = rhs * sign(rhs), operator.floordiv if op == "//" else operator.mod
    # One of the two terms is 0. If the sign of lhs is known, that one is removed here.
    return function(maximum(lhs, 0), divisor) - function(maximum(-lhs, 0), divisor)
