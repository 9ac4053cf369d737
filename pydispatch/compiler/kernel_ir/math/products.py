"""arith.mulsi_extended and mului_extended of integers that a target has no wider ones for."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.numbers import Word, choose


def extended_product(lhs: Word, rhs: Word, is_signed: bool) -> tuple[Word, Word]:
    """Return the low and the high half of a product, computed from products of half words; the width is even."""
    half = lhs.width // 2
    mask = (1 << half) - 1
    low_a, high_a, low_b, high_b = lhs & mask, lhs >> half, rhs & mask, rhs >> half
    middle = high_a * low_b + (low_a * low_b >> half)
    other = low_a * high_b + (middle & mask)
    high = high_a * high_b + (middle >> half) + (other >> half)
    if is_signed:  # a negative factor counted 2^width too much
        high = high - choose(lhs < 0, rhs, otherwise=0) - choose(rhs < 0, lhs, otherwise=0)
    return lhs * rhs, high
