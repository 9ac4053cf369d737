"""The values of floating-point formats of 8 bits and less, for machines without ml_dtypes.

Sources: OCP 8-bit Floating Point Specification (E5M2, E4M3FN), OCP Microscaling Formats (E8M0, E2M1), and the *FNUZ and
B11 forms of LLVM's APFloat.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Name -> bits of the exponent, bits of the fraction, bias, and what the largest codes are: "ieee" infinities and NaNs,
# "fn" one NaN above all values, "fnuz" NaN in the place of -0, "finite" numbers like the others.
FORMATS: dict[str, tuple[int, int, int, str]] = {
    "f8E5M2": (5, 2, 15, "ieee"),
    "f8E4M3": (4, 3, 7, "ieee"),
    "f8E3M4": (3, 4, 3, "ieee"),
    "f8E4M3FN": (4, 3, 7, "fn"),
    "f8E5M2FNUZ": (5, 2, 16, "fnuz"),
    "f8E4M3FNUZ": (4, 3, 8, "fnuz"),
    "f8E4M3B11FNUZ": (4, 3, 11, "fnuz"),
    "f4E2M1FN": (2, 1, 1, "finite"),
}


@functools.cache
def values(name: str) -> NDArray[np.float64]:
    """The value of every code of a format, in order. KeyError for a name that is not in FORMATS or f8E8M0FNU."""
    if name == "f8E8M0FNU":  # powers of two, without sign and zero
        table = np.ldexp(1.0, np.arange(256) - 127)
        table[255] = np.nan
        return table
    exponent_bits, fraction_bits, bias, special = FORMATS[name]
    half = 1 << (exponent_bits + fraction_bits)
    code = np.arange(half)
    exponent, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    mantissa = np.where(exponent > 0, fraction + (1 << fraction_bits), fraction)
    positive = np.ldexp(mantissa.astype(np.float64), np.maximum(exponent, 1) - bias - fraction_bits)
    if special == "ieee":
        largest = exponent == (1 << exponent_bits) - 1
        positive[largest] = np.where(fraction[largest] == 0, np.inf, np.nan)
    elif special == "fn":
        positive[-1] = np.nan
    table = np.concatenate([positive, -positive])
    if special == "fnuz":
        table[half] = np.nan
    return table


def decode(codes: NDArray[Any], name: str) -> NDArray[np.float64]:
    """The values of an array of codes, one per element."""
    return values(name)[codes.view(np.uint8)]
