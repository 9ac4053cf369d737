"""log, log2, log10, log1p and the inverse hyperbolic functions: x = 2^k (1 + f), and a polynomial of f."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import Float64Type

from pydispatch.compiler.kernel_ir.math.coefficients import LOG
from pydispatch.compiler.kernel_ir.math.formats import (
    F32,
    F64,
    INFINITY,
    NAN,
    Constants,
    format_of,
    polynomial,
    power2,
    quotient,
    root_pair,
    two_product,
    upper,
)
from pydispatch.compiler.kernel_ir.math.numbers import Number, Word, choose
from pydispatch.compiler.kernel_ir.math.pairs import Pair, fast_sum, two_sum


class Parts(NamedTuple):
    """The parts of log x = k log 2 + f - half + tail, where x = 2^k (1 + f).

    `k` is an integer as a float. `half` is f²/2 for f64; None for f32, whose `tail` has that term.
    """

    k: Number
    f: Number
    half: Number | None
    tail: Number


def _parts_of(k: Number, f: Number) -> Parts:
    """Return the parts of log(x) for x = 2^k (1 + f): k, f, and the difference log(1 + f) - f.

    For f32 this difference is f² (f P(f) - 1/2). For f64 it is s (f²/2 + s² R(s²)) - f²/2 with s = f / (2 + f), where
    f²/2 is a separate part. P and R are polynomials.
    """
    if not format_of(f).computes_in_pairs:
        return Parts(k, f, None, (f * f) * f.fma(polynomial(f, "log"), -0.5))
    s = f / (2.0 + f)
    z, half = s * s, 0.5 * f * f
    return Parts(k, f, half, s * (half + z * polynomial(z, "log")))


def _normal(x: Number, scale_exponent: int) -> tuple[Word, Number]:
    """Return the bits of a positive x, scaled to be normal, and the exponent of the scale, an integer as a float.

    A subnormal x is multiplied by 2^scale_exponent; another x is not scaled, and the exponent is 0.
    """
    small = x < format_of(x).least_normal
    return choose(small, x * 2.0**scale_exponent, x).bits(), choose(small, x.new(float(scale_exponent)), 0.0)


def _split_exponent(bits: Word, *, least_mantissa: int) -> tuple[Word, Word]:
    """Split the float 2^k m that has these bits, where the mantissa m is from a least one to twice that.

    `least_mantissa` has the bits of the least mantissa as a float. Return k, and k shifted to the position of the
    exponent: `bits` minus the latter are the bits of m. For 6.0 and least mantissas near 0.7, k is 3, and m is 0.75.
    """
    fraction_bits = (F32 if bits.width == 32 else F64).fraction
    exponent_bits = (bits - least_mantissa) & (-1 << fraction_bits)
    return exponent_bits.shifted_signed(fraction_bits), exponent_bits


def _parts(x: Number) -> Parts:
    """Return the parts of the logarithm of a positive finite x."""
    format = format_of(x)
    bits, scale_exponent = _normal(x, scale_exponent=format.fraction)
    # The mantissa 1 + f is from sqrt(1/2) to sqrt(2) for f64, and from 2/3 to 4/3 for f32.
    k, exponent_bits = _split_exponent(bits, least_mantissa=format.root_half)
    mantissa = (bits - exponent_bits).as_float()
    return _parts_of(k.to_float() - scale_exponent, mantissa - 1.0)


def _sum(parts: Parts) -> Number:
    """Return the natural logarithm from its parts: k log 2 + f - half + tail, where no `half` counts as 0."""
    format, (k, f, half, tail) = format_of(parts.f), parts
    ln2_head, ln2_tail = format.ln2_cut  # log 2 as a sum; k * ln2_head is exact
    low = k.fma(ln2_tail, tail)
    return k.fma(ln2_head, f + low if half is None else f - (half - low))


def _in_base(parts: Parts, factor: Constants, log_of_2: Constants | None = None) -> Number:
    """Return the logarithm in another base from the parts of the natural logarithm, k log 2 + f - half + tail.

    It is k * log_of_2 + (f - half + tail) * factor. For x = 6 and base 10, with k = 3 and 1 + f = 3/4, that is
    3 * 0.30103 + log(3/4) * 0.43429.

    Args:
        parts: The parts; `half` is None for f32, whose `tail` includes it.
        factor: The logarithm of e in the other base, as the sum of two floats.
        log_of_2: The logarithm of 2 in the other base, as the sum of two floats, of which the product of the first with
            k is exact; None for base 2, where it is 1.
    """
    k, f, half, tail = parts
    factor_head, factor_tail = factor
    # k * log_of_2 is k_log + k_log_tail; for base 2 it is k, without a tail.
    k_log, k_log_tail = (k * log_of_2[0], k * log_of_2[1]) if log_of_2 else (k, None)
    if half is None:  # f32 computes in single numbers: smallest terms first, by multiply-adds
        low = tail * factor_head if k_log_tail is None else tail.fma(factor_head, k_log_tail)
        return k_log + f.fma(factor_head, f.fma(factor_tail, low))
    # f64 computes in sums of two numbers, since its result is to be within 1 unit in the last place.
    high = f - half  # high + low is log(1 + f)
    low = (f - high) - half + tail
    product, product_low = two_product(high, high.new(factor_head))
    product_low = product_low + (low * factor_head + high * factor_tail)
    total, total_low = two_sum(k_log, product)
    return total + (total_low + (product_low if k_log_tail is None else product_low + k_log_tail))


def _special(x: Number, y: Number, pole: float) -> Number:
    """Return a logarithm for any x, from `y`, its value for finite x above the pole: -inf at `pole`, NaN below it."""
    y = choose(x.equals(INFINITY), x, y)
    y = choose(x.equals(pole), -INFINITY, y)
    y = choose(x < pole, NAN, y)
    return choose(x.is_nan(), x, y)


def log(x: Number) -> Number:
    """Return the natural logarithm of x."""
    return _special(x, _sum(_parts(x)), 0.0)


def log2(x: Number) -> Number:
    """Return the logarithm of x to base 2."""
    return _special(x, _in_base(_parts(x), format_of(x).log2e), 0.0)


def log10(x: Number) -> Number:
    """Return the logarithm of x to base 10."""
    format = format_of(x)
    return _special(x, _in_base(_parts(x), format.log10e, format.log10_2), pole=0.0)


def log1p(x: Number) -> Number:
    """Return log(1 + x), also for tiny x, of which a rounded sum 1 + x would lose digits; -inf at the pole -1.

    It is log(2^k (1 + f)). The rounded sum only gives k; f is computed from x itself: 2^k (1 + f) = 1 + x means
    f = x 2^-k + (2^-k - 1). For x = 5, k is 3, and f = 5/8 + (1/8 - 1) = -1/4.

    For large x the addend 1 is below the precision, and f is the f of log(x).
    """
    format = format_of(x)
    bits = (1.0 + x).bits()
    k, exponent_bits = _split_exponent(bits, least_mantissa=format.root_half)  # 1 + f from near sqrt(1/2) on
    far = k > format.log1p_far  # there, log(1 + x) rounds to log(x)
    # 2^-k; for a large x, where it is not used, a power that is a normal number.
    power = power2(choose(far, -format.log1p_far, 0 - k))
    scaled, power_less_1 = x * power, power - 1.0
    near = scaled + power_less_1  # f, where 1 + x is not large
    mantissa = (bits - exponent_bits).as_float()  # 1 + f for large x
    parts = _parts_of(k.to_float(), choose(far, mantissa - 1.0, near))
    # f64: the rounding error of `near`, as `two_sum` computes it. 1 / (1 + f) is the derivative of log(1 + f).
    if format.computes_in_pairs:
        error = (scaled - (near - power_less_1)) + (power_less_1 - (near - (near - power_less_1)))
        parts = parts._replace(tail=parts.tail + choose(far, 0.0, error / (1.0 + parts.f)))
    return choose(x.equals(0.0), x, _special(x, _sum(parts), pole=-1.0))


# The logarithm as a sum of two numbers, which powers and f64's inverse hyperbolic functions need.


def log_pair(x: Number) -> Pair:
    """Return log x of a positive finite x, with at least a third more digits than x has."""
    return _table_pair(x) if format_of(x).computes_in_pairs else _polynomial_pair(x)


def _polynomial_pair(x: Number) -> Pair:
    """Return log x of a positive finite f32 as a pair, from the polynomial of log(1 + f)."""
    format = format_of(x)
    ln2_head, ln2_tail = format.ln2_cut  # log 2 as a sum; k * ln2_head is exact
    k, f, _, _ = _parts(x)  # x = 2^k (1 + f)
    # log x = k log 2 + log(1 + f), and log(1 + f) = f - f²/2 + f³ P(f) with the polynomial P.
    square, square_low = two_product(f, f)  # square + square_low is f² exactly
    half = 0.5 * square
    high = f - half  # high + low is log(1 + f)
    low = ((f - high) - half) - 0.5 * square_low + (f * square) * polynomial(f, "log")
    total, total_low = two_sum(k * ln2_head, high)
    return fast_sum(total, k.fma(ln2_tail, total_low + low))


def _table_pair(x: Number) -> Pair:
    """Return log x of a positive finite f64 as a pair, the sum of two numbers, from a table of 128 numbers c.

    With x = 2^k z, where z is from 0.6875 to 1.375, it is k log 2 - log c + log1p(f) with f = z c - 1. The table has a
    number c near 1/z for each of 128 intervals of z, so that f is small and few terms of log1p(f) suffice. c has so few
    digits that a sum of two numbers is exactly z c - 1.
    """
    format = format_of(x)
    bits, scale_exponent = _normal(x, scale_exponent=54)  # any exponent that makes all subnormal numbers normal
    bits_of_least_z = 0x3FE6000000000000  # the bits of 0.6875; z is from 0.6875 to 1.375
    k, exponent_bits = _split_exponent(bits, least_mantissa=bits_of_least_z)
    # The row of z in the table: the first 7 of the 52 fraction bits, counted from the least z. The exponent bits of
    # the difference, which are those of k, are masked.
    row = ((bits - bits_of_least_z) >> 45) & 127
    z = (bits - exponent_bits).as_float()
    head, whole = upper(z), k.to_float() - scale_exponent  # the leading half of the digits of z; k of the original x
    # A row of the table LOG has c, and -log c as a sum of two numbers.
    inverse, base, base_low = (
        Number(x.body, (row * 3 + part).element_of("log", LOG, Float64Type())) for part in range(3)
    )
    # f = z c - 1, and log1p(f) = f - f^2 / 2 + f^3 P(f). Both products are exact, and so is the first difference.
    f, f_low = two_sum(head * inverse - 1.0, (z - head) * inverse)
    square, square_low = two_product(f, f)
    ln2_head, ln2_tail = format.ln2_cut
    # The sum, from its largest terms on.
    base = whole * ln2_head + base  # exact: both are multiples of 2^-42
    s, s_low = two_sum(base, f)
    t, t_low = two_sum(s, -0.5 * square)
    # The lower parts; -f * f_low is the change of -f^2 / 2 by f_low.
    low = whole * ln2_tail + base_low + (f_low - 0.5 * square_low - f * f_low)
    return fast_sum(t, low + (square * f * polynomial(f, "log of pairs") + (s_low + t_low)))


def _log_of_pair(high: Number, low: Number) -> Number:
    """Return the logarithm of high + low, rounded."""
    y, y_low = log_pair(high)
    return y + (y_low + low / high)


def asinh(x: Number) -> Number:
    """Return the inverse of sinh: sign(x) log(|x| + sqrt(x² + 1)); log(2 |x|) for large x, x itself for tiny x."""
    format, size = format_of(x), x.magnitude()
    # From 2^30 on, sqrt(x² + 1) differs from |x| by a relative 2^-61 or less: the logarithm rounds to log(2 |x|).
    large = size > 2.0**30
    inner = choose(large, 1.0, size)  # 1 where this formula is not used, so that squares do not overflow
    if format.computes_in_pairs:
        square, square_low = two_product(inner, inner)
        high, low = two_sum(size.new(1.0), square)
        root, root_low = root_pair(high, low + square_low)
        total, total_low = two_sum(root, inner)
        near = _log_of_pair(*fast_sum(total, total_low + root_low))
    else:
        # x + sqrt(x² + 1) = 1 + (x + x² / (1 + sqrt(x² + 1))), which loses no digits of a small x.
        square = inner * inner
        near = log1p(inner + square / (1.0 + (square + 1.0).sqrt()))
    y = choose(large, _log_of_twice(choose(large, size, 1.0)), near).with_sign_of(x)
    return choose((size >= format.tiny) & (size < INFINITY), y, x)


def acosh(x: Number) -> Number:
    """Return the inverse of cosh: log(x + sqrt(x² - 1)); log(2 x) for large x, NaN below 1."""
    format = format_of(x)
    # From 2^30 on, sqrt(x² - 1) differs from x by a relative 2^-61 or less: the logarithm rounds to log(2 x).
    large, finite = x > 2.0**30, x < INFINITY
    inner = choose((x > 1.0) & ~large, x, 2.0)  # 2 where this formula is not used: its operations stay finite
    if format.computes_in_pairs:  # f64 computes the argument of the logarithm as a sum of two numbers
        square, square_low = two_product(inner, inner)
        high, low = two_sum(square, -1.0)
        root, root_low = root_pair(*two_sum(high, low + square_low))
        total, total_low = two_sum(inner, root)
        near = _log_of_pair(*fast_sum(total, total_low + root_low))
    else:  # with t = x - 1, x² - 1 is t (t + 2), which loses no digits near x = 1, and x + root is 1 + (t + root)
        t = inner - 1.0
        near = log1p(t + (t * (t + 2.0)).sqrt())
    y = choose(large, _log_of_twice(choose(large & finite, x, 1.0)), near)
    y = choose(finite, y, x)  # infinity and NaN
    y = choose(x.equals(1.0), 0.0, y)
    return choose(x < 1.0, NAN, y)


def _log_of_twice(x: Number) -> Number:
    """Return log(2 x), where 2 x may overflow."""
    y, y_low = log_pair(x) if format_of(x).computes_in_pairs else (log(x), 0.0)
    return y + (y_low + format_of(x).ln2[0])


def atanh(x: Number) -> Number:
    """Return the inverse of tanh: log((1 + x) / (1 - x)) / 2; infinite at 1 and -1, NaN beyond, x itself for tiny x."""
    size = x.magnitude()
    inner = choose(size < 1.0, size, 0.5)  # 1/2 where there is another result, so that nothing divides by 0
    if format_of(x).computes_in_pairs:
        y = 0.5 * _log_of_pair(*quotient(two_sum(size.new(1.0), inner), two_sum(size.new(1.0), -inner)))
    else:  # (1 + x) / (1 - x) = 1 + 2 x / (1 - x)
        y = 0.5 * log1p(2.0 * inner / (1.0 - inner))
    y = choose(size.equals(1.0), INFINITY, y).with_sign_of(x)
    y = choose(size < format_of(x).tiny, x, y)
    return choose(size > 1.0, NAN, choose(x.is_nan(), x, y))
