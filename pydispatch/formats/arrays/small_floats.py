"""The values of floating-point formats of 8 bits and less, and of bf16, for machines without ml_dtypes.

Sources: OCP 8-bit Floating Point Specification (E5M2, E4M3FN), OCP Microscaling Formats (E8M0, E2M1), and the *FNUZ and
B11 forms of LLVM's APFloat.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FloatFormat(NamedTuple):
    """Format of a float with sign, exponent and fraction.

    Attributes:
        exponent: Bits of the exponent.
        fraction: Bits of the fraction.
        bias: Bias of the exponent.
        special: Which codes are special. "ieee": those of the largest exponent are infinities and NaNs; "fn": the
            largest code of each sign is a NaN; "fnuz": the code of -0 is the only NaN; "finite": none.
    """

    exponent: int
    fraction: int
    bias: int
    special: str


FORMATS = {
    "f8E5M2": FloatFormat(exponent=5, fraction=2, bias=15, special="ieee"),
    "f8E4M3": FloatFormat(exponent=4, fraction=3, bias=7, special="ieee"),
    "f8E3M4": FloatFormat(exponent=3, fraction=4, bias=3, special="ieee"),
    "f8E4M3FN": FloatFormat(exponent=4, fraction=3, bias=7, special="fn"),
    "f8E5M2FNUZ": FloatFormat(exponent=5, fraction=2, bias=16, special="fnuz"),
    "f8E4M3FNUZ": FloatFormat(exponent=4, fraction=3, bias=8, special="fnuz"),
    "f8E4M3B11FNUZ": FloatFormat(exponent=4, fraction=3, bias=11, special="fnuz"),
    "f6E2M3FN": FloatFormat(exponent=2, fraction=3, bias=1, special="finite"),
    "f6E3M2FN": FloatFormat(exponent=3, fraction=2, bias=3, special="finite"),
    "f4E2M1FN": FloatFormat(exponent=2, fraction=1, bias=1, special="finite"),
}
"""Element type, by its name in MLIR → its format."""

EXPONENT_ONLY = "f8E8M0FNU"
"""Name of the format of eight exponent bits: powers of two from 2^-127, without sign and zero."""
_EXPONENT_ONLY_BIAS, _EXPONENT_ONLY_NAN = 127, 255
"""Bias of the exponents of EXPONENT_ONLY, and its only code for NaN."""


def width(name: str) -> int:
    """Return how many bits a number has in the format `name`, a key of FORMATS or EXPONENT_ONLY."""
    return 8 if name == EXPONENT_ONLY else 1 + FORMATS[name].exponent + FORMATS[name].fraction


def least_normal(name: str) -> float:
    """Return the smallest positive normal number of a format; that of EXPONENT_ONLY is its smallest number."""
    exponent = -_EXPONENT_ONLY_BIAS if name == EXPONENT_ONLY else 1 - FORMATS[name].bias
    return 2.0**exponent


@functools.cache
def values(name: str) -> NDArray[np.float64]:
    """Return a table with the value of each code of a format, indexed by the code.

    A code has, from its highest bit on, the sign, the exponent and the fraction. The table of f4E2M1FN is [0, 0.5, 1,
    1.5, 2, 3, 4, 6] and then the same with signs: code 0b1010 (10), with exponent 0b01 and fraction 0, is -1.

    Raises KeyError for a name that is neither in FORMATS nor EXPONENT_ONLY.
    """
    import numpy as np

    if name == EXPONENT_ONLY:
        table = np.ldexp(1.0, np.arange(256) - _EXPONENT_ONLY_BIAS)
        table[_EXPONENT_ONLY_NAN] = np.nan
        return table
    positive = _positive_values(name)
    table = np.concatenate([positive, -positive])
    if FORMATS[name].special == "fnuz":
        table[len(positive)] = np.nan  # instead of -0
    return table


def _positive_values(name: str) -> NDArray[np.float64]:
    """Return the values of the codes without a sign of a format in FORMATS."""
    import numpy as np

    exponent_bits, fraction_bits, bias, special = FORMATS[name]
    code = np.arange(1 << (exponent_bits + fraction_bits))
    exponent, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    mantissa = np.where(exponent > 0, fraction + (1 << fraction_bits), fraction)  # normal numbers have an implicit one
    # A normal number is (1 + fraction / 2^fraction_bits) * 2^(exponent - bias); `mantissa` is its first factor times
    # 2^fraction_bits. Subnormal numbers, of exponent 0, are scaled as those of exponent 1.
    positive = np.ldexp(mantissa.astype(np.float64), np.maximum(exponent, 1) - bias - fraction_bits)
    if special == "ieee":  # the largest exponent is for infinity (fraction 0) and NaN
        largest = exponent == (1 << exponent_bits) - 1
        positive[largest] = np.where(fraction[largest] == 0, np.inf, np.nan)
    elif special == "fn":
        positive[-1] = np.nan  # the largest code: all bits of exponent and fraction are 1
    # "finite" has no special code; that of "fnuz" has a sign.
    return positive


def limits(name: str) -> tuple[float, float]:
    """Return the least and the greatest value of a floating-point type, its infinities if it has them."""
    if name not in FORMATS and name != EXPONENT_ONLY:
        return -math.inf, math.inf
    import numpy as np

    table = values(name)
    return float(np.nanmin(table)), float(np.nanmax(table))


@functools.cache
def _boundaries(name: str) -> tuple[NDArray[np.float64], int]:
    """Return the rounding boundaries of a format in FORMATS, and the code of an overflow: of larger magnitudes.

    Boundary i is the midpoint between the magnitudes with codes i and i + 1; the last one separates the largest finite
    magnitude from overflow. A number on a boundary is a tie.

    The magnitudes of f4E2M1FN are 0, 0.5, 1, 1.5, 2, 3, 4 and 6, and 8 would follow. So the boundaries are 0.25, 0.75,
    1.25, 1.75, 2.5, 3.5, 5 and 7. A magnitude above 7 overflows: it has code 7, of the largest number.
    """
    import numpy as np

    # The finite magnitudes, which increase with their codes.
    exponent_bits, fraction_bits, _, special = FORMATS[name]
    sign_bit = 1 << (exponent_bits + fraction_bits)
    positive = values(name)[:sign_bit]
    finite = positive[np.isfinite(positive)]
    overflow_code = {
        "ieee": len(finite),  # infinity
        "fn": sign_bit - 1,  # NaN
        "fnuz": sign_bit,  # NaN, with the code of -0
        "finite": len(finite) - 1,  # the largest number
    }[special]
    next_magnitude = 2 * finite[-1] - finite[-2]  # that would follow the largest one
    return (np.append(finite[1:], next_magnitude) + finite) / 2, overflow_code


def encode(numbers: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Convert numbers to codes of a format, rounded to the nearest number, or to the even code of two in a tie.

    encode([0.3, -2.5, 100], "f4E2M1FN") is [1, 12, 7]: 0.5; -2, the even code of -2 and -3; and the largest number, 6.

    Overflow gives infinity; NaN in formats without infinity; the largest number in formats without both. A NaN becomes
    -0 in formats without NaN. f8E8M0FNU takes the exponent without rounding and ignores the sign, as MLIR does.
    """
    import numpy as np

    wide = _wide(numbers)
    if name == EXPONENT_ONLY:
        return _encode_exponents(wide)
    exponent_bits, fraction_bits, _, special = FORMATS[name]
    sign_bit = 1 << (exponent_bits + fraction_bits)
    code = _encode_magnitudes(np.abs(wide), name)
    sign = np.where(np.signbit(wide), sign_bit, 0)
    nan = {  # code of a NaN
        "ieee": sign_bit - (1 << max(fraction_bits - 1, 0)),  # quiet: of the fraction only the highest bit is set
        "fn": sign_bit - 1,
        "fnuz": sign_bit,
        "finite": sign_bit,  # -0, because there is no NaN
    }[special]
    # A zero of "fnuz" has no sign, because the code of -0 is NaN.
    number_sign = np.where(code == 0, 0, sign) if special == "fnuz" else sign
    return np.where(np.isnan(wide), nan | sign, code | number_sign).astype(np.uint8)


def encode_bfloat(numbers: NDArray[Any]) -> NDArray[np.uint16]:
    """Convert numbers to bits of bf16, rounded once to the nearest number, or to the even one of two in a tie.

    Overflow gives infinity. A NaN becomes the quiet one with its sign.
    """
    import numpy as np

    wide = _wide(numbers)
    with np.errstate(all="ignore"):
        floats = wide.astype(np.float32)
        error = wide - floats  # 0 unless the elements are wider than f32
    bits = floats.view(np.uint32)
    # bf16 is the upper half of f32. Adding 0x7FFF to the f32 rounds its upper half to nearest, with ties (0x8000 in the
    # lower half) towards zero. One more rounds ties away from zero: if the number has a larger magnitude than its f32,
    # and so is no tie, or if it is equal to its f32 and the upper half is odd.
    is_above = (error != 0) & (np.signbit(error) == np.signbit(floats))
    is_odd = ((bits >> 16) & 1).astype(np.bool_)
    rounds_tie_away = is_above | ((error == 0) & is_odd)
    rounded = (bits + np.uint32(0x7FFF) + rounds_tie_away) >> 16
    quiet_nan = np.where(np.signbit(floats), 0xFFC0, 0x7FC0)  # the addition may turn NaN into another number
    return np.where(np.isnan(floats), quiet_nan, rounded).astype(np.uint16)


def _wide(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Convert numbers to f64 such that rounding the result to a format of this module rounds only once.

    Integers with more bits than the fraction of f64 are rounded to odd: 2^60 + 1 becomes 2^60 + 2^11, which is still
    above 2^60. Rounded to the nearest f64 it would become 2^60, and a number next to a tie would become the tie.
    """
    import numpy as np

    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8:
        high = numbers >> 53
        is_exact = (high == 0) | (high == -1)  # in [-2^53, 2^53)
        # The low 11 bits of 64 are dropped. Bit 11, the lowest one of the others, becomes 1 if any of them was set.
        has_remainder = (numbers & 0x7FF) != 0
        numbers = np.where(is_exact, numbers, ((numbers >> 11) | has_remainder) << 11)
    return numbers.astype(np.float64)


def _encode_exponents(wide: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Convert numbers to codes of EXPONENT_ONLY: the biased exponents of their magnitudes, rounded down; 0 for zero.

    The sign is dropped. Infinities and NaN become NaN.
    """
    import numpy as np

    magnitude = np.abs(wide)
    # frexp is for mantissas in [0.5, 1): its exponents are 1 larger than for those in [1, 2).
    exponent = np.frexp(np.where((magnitude > 0) & np.isfinite(magnitude), magnitude, 1.0))[1] - 1
    # A number that is too large becomes NaN, whose code follows that of the largest power of two.
    code = np.where(magnitude > 0, np.clip(exponent + _EXPONENT_ONLY_BIAS, 0, _EXPONENT_ONLY_NAN), 0)
    return np.where(np.isfinite(wide), code, _EXPONENT_ONLY_NAN).astype(np.uint8)


def _encode_magnitudes(magnitude: NDArray[np.float64], name: str) -> NDArray[np.int64]:
    """Return the codes, without the sign bit, of the numbers of a format nearest to magnitudes; ties go to even codes.

    name: key of the format in FORMATS. A NaN, or a magnitude that is too large, becomes the format's overflow code.
    """
    import numpy as np

    boundaries, overflow_code = _boundaries(name)
    code = np.searchsorted(boundaries, magnitude)  # the lower one of two codes in case of a tie
    overflows = code >= len(boundaries)
    upper_boundary = boundaries[np.minimum(code, len(boundaries) - 1)]  # the minimum keeps the index in bounds
    is_tie = ~overflows & (upper_boundary == magnitude)
    code = np.where(is_tie & (code % 2 == 1), code + 1, code)  # to the even code
    return np.where(code >= len(boundaries), overflow_code, code)


def decode(codes: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Return the values of an array of codes, one byte each, in the format `name`. The shape is that of `codes`."""
    import numpy as np

    return values(name)[codes.view(np.uint8)]
