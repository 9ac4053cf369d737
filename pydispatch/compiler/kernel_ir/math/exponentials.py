"""exp, exp2, expm1, sinh, cosh and tanh: x = k log 2 + r, and a polynomial of r."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.formats import format_of, polynomial, power2, rounded, scaled, two_product
from pydispatch.compiler.kernel_ir.math.numbers import Number, Word, choose
from pydispatch.compiler.kernel_ir.math.pairs import two_sum


def expm1_reduced(r: Number, low: Number | None = None) -> Number:
    """Return e^(r + low) - 1 for |r| <= log(2)/2, where `low` is tiny; `low` is None for 0.

    It is r + r^2 (1/2 + r P(r)) with a polynomial P, and low (1 + r) if `low` is not 0.
    """
    inner = r.fma(polynomial(r, "exp"), 0.5)
    return (r * r).fma(inner, r) if low is None else r + ((r * r) * inner + (low + low * r))


def exp_parts(x: Number, low: Number | None = None) -> tuple[Number, Word]:
    """Return m and the integer k of e^(x + low) = 2^k (1 + m), where |log(1 + m)| <= log(2)/2; `low` is None for 0."""
    format = format_of(x)
    log2e, _ = format.log2e  # the rounded value suffices to find the nearest integer
    ln2_head, ln2_tail = format.ln2_cut
    n, k = rounded(x * log2e)  # the nearest integer, as a float and as a word
    head, tail = x - n * ln2_head, n * ln2_tail  # x - n log 2: the first difference is exact
    tail = -tail if low is None else low - tail
    r = head + tail
    rounding_error = (head - r) + tail if format.computes_in_pairs else None  # r + rounding_error is exact
    return expm1_reduced(r, rounding_error), k


def exp(x: Number) -> Number:
    """Return e^x."""
    # The ends of the range, where e^x is 0 and infinity already, stand for all numbers beyond.
    m, k = exp_parts(x.clamp(*format_of(x).exp_range))  # e^x = 2^k (1 + m)
    return scaled(1.0 + m, k)


def exp2(x: Number) -> Number:
    """Return 2^x: 2^k times the exponential of the fraction times log 2."""
    format = format_of(x)
    t = x.clamp(*format.exp2_range)  # at the ends of the range, 2^t is 0 and infinity already
    n, k = rounded(t)  # the same integer, as a float and as a word
    f = t - n
    if format.computes_in_pairs:  # the reduced argument is a sum of two floats, and so is log 2
        high, low = two_product(f, f.new(format.ln2[0]))
        return scaled(1.0 + expm1_reduced(high, low + f * format.ln2[1]), k)
    return scaled(1.0 + expm1_reduced(f * format.ln2[0]), k)


def expm1(x: Number) -> Number:
    """Return exp(x) - 1 as 2^k m + (2^k - 1), where exp(x) = 2^k (1 + m).

    2^k may overflow where the result does not: half of it is computed with 2^(k - 1), and doubled.
    """
    format = format_of(x)
    _, overflows_from = format.exp_range  # at `expm1_least`, the lower end below, the result is -1 already
    m, k = exp_parts(x.clamp(format.expm1_least, overflows_from))
    half = power2(k - 1)
    if format.computes_in_pairs:  # 2^(k-1) - 1/2 is a sum of two floats
        high, low = two_sum(half, -0.5)
        y = 2.0 * (high + (half * m + low))
    else:
        y = 2.0 * half.fma(m, half - 0.5)
    is_tiny = x.magnitude() < 2.0 ** -(format.fraction + 2)  # x^2 / 2 is below half of the last digit of x
    return choose(is_tiny, x, y)


def half_exp(x: Number) -> Number:
    """Return e^x / 2, also where e^x just overflows; x is up to `Format.hyperbolic_end`."""
    m, k = exp_parts(x)
    return scaled(1.0 + m, k - 1)


def sinh(x: Number) -> Number:
    """Return the hyperbolic sine: a polynomial below 1, else (e^|x| - e^-|x|) / 2 with the sign of x."""
    size = x.magnitude()
    half = half_exp(size.at_most(format_of(x).hyperbolic_end))  # e^|x| / 2; then e^-|x| / 2 is 1/4 over it
    z = x * x
    near = (size * z).fma(polynomial(z, "sinh"), size)
    return choose(size < 1.0, near, half - 0.25 / half).with_sign_of(x)


def cosh(x: Number) -> Number:
    """Return the hyperbolic cosine: (e^|x| + e^-|x|) / 2."""
    half = half_exp(x.magnitude().at_most(format_of(x).hyperbolic_end))  # e^|x| / 2; then e^-|x| / 2 is 1/4 over it
    return half + 0.25 / half


def tanh(x: Number) -> Number:
    """Return the hyperbolic tangent: an odd polynomial near zero; beyond, 1 - 2 / (e^2x + 1), in the end 1."""
    format, size, z = format_of(x), x.magnitude(), x * x
    m, k = exp_parts(2.0 * size.at_most(format.tanh_end))  # e^2|x| = 2^k (1 + m)
    power = power2(k)
    far = 1.0 - 2.0 / (power.fma(m, power) + 1.0)
    near = (size * z).fma(polynomial(z, "tanh"), size)
    return choose(size < format.tanh_near, near, far).with_sign_of(x)
