"""arith.mulsi_extended and mului_extended of integers that a target has no wider ones for."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.numbers import Word, choose


def extended_product(lhs: Word, rhs: Word, is_signed: bool) -> tuple[Word, Word]:
    """Return the low and the high half of a product of two words, each as wide as a factor; the width is even.

    `is_signed` is whether the factors, and so the high half, are signed; the low half is the same. The high half is
    computed from products of half words, which fit into a word.
    """
    half = lhs.width // 2
    mask = (1 << half) - 1
    low_a, high_a, low_b, high_b = lhs & mask, lhs >> half, rhs & mask, rhs >> half
    # The two middle products, each with the carry of what is below it: no sum overflows a word.
    middle_1 = high_a * low_b + (low_a * low_b >> half)
    middle_2 = low_a * high_b + (middle_1 & mask)
    high = high_a * high_b + (middle_1 >> half) + (middle_2 >> half)
    if is_signed:  # as an unsigned number, a negative factor is larger by 2^width
        high = high - choose(lhs < 0, rhs, otherwise=0) - choose(rhs < 0, lhs, otherwise=0)
    return lhs * rhs, high
