"""Indices of tensors behind reshapes, as sums of mixed-radix digits of loops.

A reshape computes quotients and remainders of an index. In a mixed-radix system these only regroup digits: 32 * b + i
with i < 32 has the quotient b and the remainder i by 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr


@dataclass(frozen=True)
class Digit:
    """Digit of a loop index in a mixed-radix system: `index // place_value % size`.

    Attributes:
        loop: Dimension of the loop.
        place_value: Number of iterations of the loop after which the digit changes: the product of the sizes of the
            lower digits.
        size: Radix of the digit.
    """

    loop: int
    place_value: int
    size: int


Position = tuple[tuple[int, Digit], ...]
"""Index along one dimension as pairs (stride, digit): the sum of stride * digit. Strides descend, and no digit has size
1. The empty tuple is the index 0."""


_Term = tuple[int, Position]
"""Stride and index: a term of a sum of stride * index."""


def loop_index(loop: int, size: int, place_value: int = 1) -> Position:
    """Return the index of a loop of `size` iterations; with `place_value`, its digit `index // place_value % size`."""
    return ((1, Digit(loop, place_value, size)),) if size > 1 else ()


def digits_of(loop: int, positions: Iterable[Position]) -> Iterator[Digit]:
    """Yield the digits of one loop that an index reads; positions: the index along each dimension."""
    return (digit for position in positions for _, digit in position if digit.loop == loop)


def combined(terms: Iterable[_Term]) -> Position:
    """Return the sum of stride * index over (stride, index) terms; adjacent digits of a loop become one.

    For example, 32 * (k // 32) + 1 * (k % 32) becomes k.
    """
    by_descending_stride = sorted(
        ((inner_stride * stride, digit) for stride, position in terms for inner_stride, digit in position),
        key=lambda term: -term[0],
    )
    merged: list[tuple[int, Digit]] = []
    for stride, digit in by_descending_stride:
        if merged:  # the last term has the next larger stride: only its digit can be the next higher one of the loop
            higher_stride, higher = merged[-1]
            is_adjacent = higher.loop == digit.loop and higher.place_value == digit.place_value * digit.size
            if is_adjacent and higher_stride == stride * digit.size:
                merged[-1] = (stride, Digit(digit.loop, digit.place_value, digit.size * higher.size))
                continue
        merged.append((stride, digit))
    return tuple(merged)


def divided(position: Position, divisor: int) -> tuple[Position, Position] | None:
    """Return quotient and remainder of an index by a divisor; None if they are not recognized as sums of digits.

    An index is a sum of stride * digit, where a digit is `loop // place_value % size`.

    Examples, by 32: 32 * b + i, with i of 32 iterations, gives b and i. A loop k of 256 iterations gives its digits
    k // 32 and k % 32.
    """
    quotient_terms, remainder_terms = list[_Term](), list[_Term]()
    for stride, digit in position:
        terms = _divided_term(stride, digit, divisor)
        if terms is None:
            return None
        quotient_terms.append(terms[0])
        remainder_terms.append(terms[1])
    remainder = combined(remainder_terms)
    largest_remainder = sum(stride * (digit.size - 1) for stride, digit in remainder)
    if largest_remainder >= divisor:  # each term is below the divisor, but the sum may carry into the quotient
        return None
    return combined(quotient_terms), remainder


def _divided_term(stride: int, digit: Digit, divisor: int) -> tuple[_Term, _Term] | None:
    """Return quotient and remainder of stride * digit by a divisor; None if they are not recognized."""
    if stride % divisor == 0:  # 64 * b by 32: the quotient 2 * b
        return (stride // divisor, ((1, digit),)), (1, ())
    if stride * (digit.size - 1) < divisor:  # its largest value is below the divisor
        return (1, ()), (stride, ((1, digit),))
    low_size = divisor // stride
    if divisor % stride != 0 or digit.size % low_size != 0:
        return None
    # 8 * k by 32, for a k below 16: k is 4 * (k // 4) + k % 4, so that k // 4 and 8 * (k % 4) are the results.
    low_digit = loop_index(digit.loop, low_size, place_value=digit.place_value)
    high_digit = loop_index(digit.loop, digit.size // low_size, place_value=digit.place_value * low_size)
    return (1, high_digit), (stride, low_digit)


def expanded(position: Position, sizes: Sequence[int]) -> list[Position] | None:
    """Return the index along each of the dimensions of `sizes` that one dimension is expanded to.

    For sizes [8, 32], the index 32 * b + i gives b and i. Return None if an index is no sum of digits.

    position: the index along the dimension before the expansion.
    """
    if not sizes:  # a dimension of size 1 may be expanded to none
        return []
    indices: list[Position] = []
    for size in reversed(sizes[1:]):
        quotient_and_remainder = divided(position, size)
        if quotient_and_remainder is None:
            return None
        position, remainder = quotient_and_remainder
        indices.insert(0, remainder)
    return [position, *indices]  # the quotient that remains is the index along the first dimension


def collapsed(positions: Sequence[Position], sizes: Sequence[int]) -> Position:
    """Return the index along the one dimension that dimensions of `sizes` are collapsed into; inverse of `expanded`.

    For sizes [8, 32], the indices b and i give 32 * b + i.
    """
    terms, stride = list[_Term](), 1
    for position, size in zip(reversed(positions), reversed(sizes), strict=True):
        terms.append((stride, position))
        stride *= size
    return combined(terms)


def substituted(position: Position, loops: Mapping[int, Position]) -> Position | None:
    """Return an index over other loops; None if it is no sum of their digits.

    The index k // 32 over a loop k that is replaced by 32 * b + i, with i < 32, becomes b.

    loops: each loop that the index reads → its index over the other loops.
    """
    terms = list[_Term]()
    for stride, digit in position:  # a digit of a loop is `loop // place_value % size`
        by_place_value = divided(loops[digit.loop], digit.place_value)
        if by_place_value is None:
            return None
        quotient, _ = by_place_value  # loop // place_value
        by_size = divided(quotient, digit.size)
        if by_size is None:
            return None
        _, new_digit = by_size  # loop // place_value % size
        terms.append((stride, new_digit))
    return combined(terms)


def affine(position: Position, sizes: Mapping[int, int | None]) -> AffineExpr | None:
    """Return an index as an affine expression of loops; None if it has a quotient or remainder of a loop's index.

    A position is a sum of stride * digit, where a digit is `loop // place_value % size`. It is affine if each digit is
    the index of a whole loop: 32 * d0 + d1 // 1 % 32 is 32 * d0 + d1 if loop 1 has 32 iterations. If it has 64, the
    remainder stays, and the result is None.

    sizes: loop → number of its iterations; None where dynamic.
    """
    expression: AffineExpr | None = None
    for stride, digit in position:
        if digit.place_value != 1 or digit.size != sizes.get(digit.loop):
            return None
        dim = AffineExpr.dimension(digit.loop)
        term = dim if stride == 1 else dim * stride
        expression = term if expression is None else expression + term
    return AffineExpr.constant(0) if expression is None else expression
