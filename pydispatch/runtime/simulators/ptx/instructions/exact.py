"""Sums, products, quotients and roots of floats in any rounding mode: rn (to nearest even), rz (toward zero), rm (down)
and rp (up). NumPy rounds to nearest; from its result and the exact error of the result the other modes are derived.

Error-free transformations: Knuth's TwoSum, Dekker's product with Veltkamp's split; the fused sum after Boldo and
Melquiond ("Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008). Where these do
not hold (products at the ends of the range of f64), rational numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import copysign, inf, nextafter
from typing import Any

import numpy as np

_SPLIT = np.float64(2.0**27 + 1)
"""Veltkamp's factor: it splits the 53 bits of an f64 into two halves whose products are exact."""
_LEAST_PRODUCT, _LARGEST_PRODUCT, _LARGEST_FACTOR = 2.0**-900, 2.0**1000, 2.0**990
"""Magnitudes between which two_product() is exact: nothing in it overflows, and its error is no subnormal."""
_LARGEST_F64 = 1.7976931348623157e308
"""Largest finite f64."""
_BELOW_F32, _HALF_F32 = np.uint64((1 << 29) - 1), np.uint64(1 << 28)
"""In the bits of an f64: those below the last place of f32, and half of that place."""
_LEAST_SAFE_F32 = 2.0**-125
"""Magnitude below which a sum may round to a subnormal f32, which has fewer bits than `_BELOW_F32` assumes."""


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """Return (s, e) with s + e = x + y exactly: the sum of f64, rounded to nearest, and its error (Knuth)."""
    s = x + y
    y_in_sum = s - x
    x_in_sum = s - y_in_sum
    return s, (x - x_in_sum) + (y - y_in_sum)


def two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """Return (p, e) with p + e = x * y exactly: the product of f64, rounded to nearest, and its error (Dekker).

    That holds where `_has_exact_error` does.
    """
    p = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    # e = x * y - p, where x * y is the sum of the exact products of halves.
    return p, x_low * y_low - (((p - x_high * y_high) - x_low * y_high) - x_high * y_low)


def _has_exact_error(x: Any, y: Any, product: Any) -> Any:
    """Return where two_product(x, y) is exact: no step of it overflows, or loses bits to underflow. product: x * y."""
    magnitude = np.abs(product)
    is_product_in_range = (magnitude > _LEAST_PRODUCT) & (magnitude < _LARGEST_PRODUCT)
    return is_product_in_range & (np.abs(x) < _LARGEST_FACTOR) & (np.abs(y) < _LARGEST_FACTOR)


def _halves(x: Any) -> tuple[Any, Any]:
    """Split f64 into (high, low) of at most 26 bits each, with high + low = x exactly (Veltkamp)."""
    scaled = _SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def round_to_odd(total: Any, error: Any) -> Any:
    """Round the exact number total + error to odd: if it is between two f64, return the one whose last bit is 1.

    Rounding the result again, to a narrower type, then gives the same as rounding the exact number once, in any mode.
    That holds for significands of at most 51 bits, two less than those of f64. The odd last bit marks the result as
    inexact: 1 + 2**-80 becomes 1 + 2**-52, which the mode "rp" correctly rounds up to the next f32. Rounded to nearest,
    it would become 1, and "rp" would not round that up.

    Args:
        total: The f64 nearest to the exact number.
        error: The exact number minus `total`, or any number of the same sign; 0 if `total` is exact.
    """
    is_inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    if not is_inexact.any():
        return total
    bits = np.ascontiguousarray(total, np.float64).view(np.int64)
    # `total` is one neighbour of the exact number. If it is even, the other one is odd, and is the result.
    even = is_inexact & (bits & 1 == 0)
    is_away = (error > 0) == (total > 0)  # the exact number, and so the other neighbour, is farther from zero
    # A total of 0 has no error, so a step of the bits, which are sign and magnitude, does not cross zero.
    return np.where(even, bits + np.where(is_away, 1, -1), bits).view(np.float64)


def round_to_odd_sum(x: Any, y: Any) -> Any:
    """Add f64, rounded to odd (see `round_to_odd`)."""
    return round_to_odd(*two_sum(x, y))


def narrow(x: Any, dtype: Any, mode: str) -> Any:
    """Round f64 to f32 or f16.

    Args:
        x: Numbers, f64.
        dtype: NumPy type of the result.
        mode: "rn" (to nearest even), "rz" (toward zero), "rm" (down, to -inf) or "rp" (up, to +inf). Other functions of
            this module have the same modes.
    """
    nearest = x.astype(dtype)
    if mode == "rn":
        return nearest
    # Where nearest is on the wrong side of x (for "rm": above x), the result is its neighbour on the other side.
    nearest_f64 = nearest.astype(np.float64)
    zero, low, high = dtype.type(0), dtype.type(-inf), dtype.type(inf)
    if mode == "rz":
        return np.where(np.abs(nearest_f64) > np.abs(x), np.nextafter(nearest, zero), nearest)
    if mode == "rm":
        return np.where(nearest_f64 > x, np.nextafter(nearest, low), nearest)
    return np.where(nearest_f64 < x, np.nextafter(nearest, high), nearest)


def round_to_odd_f32(x: Any) -> Any:
    """Round f64 to f32 with rounding to odd, so that rounding the f32 to 16 bits gives the same as rounding the f64."""
    truncated = narrow(x, np.dtype("f4"), "rz")
    is_inexact = (truncated.astype(np.float64) != x) & ~np.isnan(x)
    return (truncated.view(np.uint32) | is_inexact).view(np.float32)  # sets the last bit where x is inexact


def directed(total: Any, error: Any, mode: str) -> Any:
    """Round total + error to f64, where `total` is the f64 nearest to that sum."""
    if mode == "rn":
        return total
    # Whether the exact sum is below or above its nearest f64.
    sum_is_below, sum_is_above = (error < 0) & np.isfinite(total), (error > 0) & np.isfinite(total)
    if mode == "rz":
        sum_is_nearer_to_zero = (sum_is_below & (total > 0)) | (sum_is_above & (total < 0))
        return np.where(sum_is_nearer_to_zero, np.nextafter(total, 0.0), total)
    if mode == "rm":
        return np.where(sum_is_below, np.nextafter(total, -inf), total)
    return np.where(sum_is_above, np.nextafter(total, inf), total)


def with_sign_of_zero_sum(result: Any, x: Any, y: Any, mode: str) -> Any:
    """Return the sum `result` of x and y with the sign of its zeros: -0 when rounding down, unless both are +0.

    In other modes the sign that NumPy computes is that of IEEE 754 already.
    """
    if mode != "rm":
        return result
    return np.where((result == 0) & (np.signbit(x) | np.signbit(y)), -result.dtype.type(0), result)


def rounded(exact: Fraction, mode: str) -> float:
    """Round a rational number to f64: to nearest, then to the neighbour if `mode` rounds in the other direction."""
    try:
        nearest = exact.numerator / exact.denominator
    except OverflowError:
        nearest = inf if exact > 0 else -inf
    if mode == "rn":
        return nearest
    if nearest in (inf, -inf):  # an overflow: rounded toward zero, it is the largest finite number
        is_toward_zero = mode == "rz" or mode == ("rm" if nearest > 0 else "rp")
        return copysign(_LARGEST_F64, nearest) if is_toward_zero else nearest
    nearest_fraction = Fraction(nearest)
    if nearest_fraction > exact and (mode == "rm" or (mode == "rz" and exact > 0)):
        return nextafter(nearest, -inf)
    if nearest_fraction < exact and (mode == "rp" or (mode == "rz" and exact < 0)):
        return nextafter(nearest, inf)
    return nearest


def _one_by_one(result: Any, is_hard: Any, exact: Callable[..., float], *values: Any) -> Any:
    """Replace the elements of `result` where `is_hard` holds by those that `exact` computes in rational numbers.

    Args:
        result: Elements, in any number of dimensions: none if all operands are immediates.
        is_hard: Mask of the elements for which the fast formula may be wrong, which are replaced: bool, as `result`.
        exact: Function that returns an element for one element of each of `values`.
        values: Operands, which broadcast to the shape of `result`.
    """
    if not is_hard.any():
        return result
    result = np.array(result)
    values = np.broadcast_arrays(*values)
    for element in np.flatnonzero(is_hard):
        result.flat[element] = exact(*(float(value.flat[element]) for value in values))
    return result


def _signed(value: float, *signs: float) -> float:
    """Return a value; if it is zero, with the sign of the product of `signs`, because rational numbers have no -0."""
    if value != 0:
        return value
    negative_count = sum(copysign(1, sign) < 0 for sign in signs)
    return -0.0 if negative_count % 2 else 0.0


def add64(x: Any, y: Any, mode: str) -> Any:
    """Add f64 with the rounding rn, rz, rm or rp."""
    s, e = two_sum(x, y)
    if mode == "rn":
        return s
    # Where the nearest sum is infinite, its error is not known.
    overflows = np.isinf(s) & np.isfinite(x) & np.isfinite(y)
    result = with_sign_of_zero_sum(directed(s, e, mode), x, y, mode)
    return _one_by_one(result, overflows, lambda p, q: rounded(Fraction(p) + Fraction(q), mode), x, y)


def mul64(x: Any, y: Any, mode: str) -> Any:
    """Multiply f64 with the rounding rn (to nearest), rz (toward zero), rm (down) or rp (up).

    `two_product` returns the nearest product and its error. Where it is exact, the sign of the error tells whether the
    result is the nearest product or its neighbour. Other finite factors, except 0, are multiplied one by one as
    fractions. Products with 0, an infinity or NaN need no rounding.
    """
    if mode == "rn":
        return x * y
    p, e = two_product(x, y)
    is_regular = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    is_safe = _has_exact_error(x, y, p)
    result = np.where(is_safe, directed(p, e, mode), p)

    def exact_product(a: float, b: float) -> float:
        """Return a * b, rounded once in `mode`; a product that is rounded to 0 keeps its sign."""
        return _signed(rounded(Fraction(a) * Fraction(b), mode), a, b)

    return _one_by_one(result, is_regular & ~is_safe, exact_product, x, y)


def div64(x: Any, y: Any, mode: str) -> Any:
    """Divide f64 with the rounding rn, rz, rm or rp."""
    q = x / y
    if mode == "rn":
        return q
    # Other quotients are exact, infinite or NaN.
    is_regular = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)

    def exact_quotient(a: float, b: float) -> float:
        """Return a / b, rounded once in `mode`; a quotient that is rounded to 0 keeps its sign."""
        return _signed(rounded(Fraction(a) / Fraction(b), mode), a, b)

    return _one_by_one(q, is_regular, exact_quotient, x, y)


def sqrt64(x: Any, mode: str) -> Any:
    """Compute the square root of f64 with the rounding rn, rz, rm or rp."""
    s = np.sqrt(x)
    if mode == "rn":
        return s

    def exact_root(a: float) -> float:
        """Return the root of `a`, rounded up if `mode` is "rp", else down. NumPy's root is off by less than a step."""
        near, exact = Fraction(float(np.sqrt(a))), Fraction(a)
        if near * near == exact:
            return float(near)
        low = float(near) if near * near < exact else nextafter(float(near), 0.0)
        return nextafter(low, inf) if mode == "rp" else low

    return _one_by_one(s, np.isfinite(x) & (x > 0), exact_root, x)


def fma64(x: Any, y: Any, z: Any, mode: str) -> Any:
    """Compute x * y + z of f64 with one rounding: rn (to nearest), rz (toward zero), rm (down) or rp (up).

    There are three ways, chosen for each element:

    - a factor of zero, an infinity or NaN: NumPy's x * y + z, in which nothing is rounded;
    - rn, where products and sums stay within the range of f64: the algorithm of Boldo and Melquiond, on arrays;
    - all others: rational numbers, one element after the other, which is slow.
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    # Zero, infinite and NaN operands. If z is infinite and x and y are finite, the result is z, even if x * y overflows
    # to the other infinity, whose sum with z is NaN.
    adds_infinity = np.isinf(z) & np.isfinite(x) & np.isfinite(y)
    default = np.where(adds_infinity, z, with_sign_of_zero_sum(x * y + z, x * y, z, mode))
    is_regular = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
    if not is_regular.any():
        return default
    result, is_hard = default, is_regular
    if mode == "rn":  # programs seldom use other modes, which are computed one by one
        p, e = two_product(x, y)  # x * y = p + e exactly
        # Safe: no step of the computation overflows or loses bits to underflow.
        is_safe = is_regular & _has_exact_error(x, y, p) & (np.abs(z) < _LARGEST_PRODUCT)
        # x * y + z = p + e + z = p + high + low = sum_high + remainder + low, exactly. The last two are added with
        # rounding to odd, so that rounding the final sum to nearest gives the same as rounding the exact sum.
        high, low = two_sum(z, e)
        sum_high, remainder = two_sum(p, high)
        result = np.where(is_safe, sum_high + round_to_odd_sum(remainder, low), default)
        is_hard = is_regular & ~is_safe
    return _one_by_one(result, is_hard, lambda lhs, rhs, c: _exact_fma(lhs, rhs, c, mode), x, y, z)


def _exact_fma(lhs: float, rhs: float, c: float, mode: str) -> float:
    """Return lhs * rhs + c, rounded once. The factors are finite and not 0; a zero gets the sign of IEEE 754."""
    exact = Fraction(lhs) * Fraction(rhs) + Fraction(c)
    if exact == 0:  # c is the opposite of the product: the sum is +0, or -0 when rounding down
        return -0.0 if mode == "rm" else 0.0
    return _signed(rounded(exact, mode), 1.0 if exact > 0 else -1.0)


def fma32(x: Any, y: Any, z: Any, mode: str) -> Any:
    """Compute x * y + z of f32 with one rounding: rn (to nearest), rz (toward zero), rm (down) or rp (up).

    The product is exact in f64. The sum is rounded to f64 first and then to f32. Where rounding twice could differ from
    rounding once, the sum in f64 is rounded to odd: an inexact sum gets a last bit of 1, so that it is never taken for
    a tie or for an exact number.
    """
    product = x.astype(np.float64) * y  # 24 bits by 24 bits: 48 of the 53 bits of an f64
    z = z.astype(np.float64)
    s = product + z
    single = np.dtype("f4")
    if mode != "rn":
        exact_sum = with_sign_of_zero_sum(round_to_odd_sum(product, z), product, z, mode)
        return narrow(exact_sum, single, mode)
    # s is rounded already. Rounding it again, to f32, errs only if s is half-way between two singles: the exact sum may
    # be just below or above s, but the tie goes to the even single. Of the 29 bits of an f64 below the last bit of f32,
    # a half-way point has the highest one set alone.
    is_halfway = s.view(np.uint64) & _BELOW_F32 == _HALF_F32
    # Half-way points between subnormal singles have other bits, so that small sums are always rounded to odd.
    if is_halfway.any() or (np.abs(s) < _LEAST_SAFE_F32).any():
        s = round_to_odd_sum(product, z)
    return s.astype(single)


def div32(x: Any, y: Any, mode: str) -> Any:
    """Compute x / y of f32, in a mode of `narrow`.

    In the directed modes, the quotient in f64 is rounded to odd by the sign of its error, then to f32.
    """
    if mode == "rn":
        return x / y
    x, y = x.astype(np.float64), y.astype(np.float64)
    q = x / y
    p, e = two_product(q, y)
    # x - q * y, times the sign of y, has the sign of x / y - q.
    remainder = ((x - p) - e) * np.sign(y)
    remainder = np.where(np.isfinite(remainder), remainder, 0.0)
    return narrow(round_to_odd(q, remainder), np.dtype("f4"), mode)


def sqrt32(x: Any, mode: str) -> Any:
    """Compute the square root of f32 with the rounding rn, rz, rm or rp."""
    if mode == "rn":
        return np.sqrt(x)
    x = x.astype(np.float64)
    s = np.sqrt(x)
    p, e = two_product(s, s)
    remainder = (x - p) - e  # x - s * s, which has the sign of the exact root minus s
    remainder = np.where(np.isfinite(remainder), remainder, 0.0)
    return narrow(round_to_odd(s, remainder), np.dtype("f4"), mode)
