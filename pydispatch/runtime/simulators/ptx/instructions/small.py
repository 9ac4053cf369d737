"""Helpers of PTX instructions on floats: bf16 numbers by their bits, packed pairs of 16-bit numbers, subnormals to
zero, canonical NaN. Arguments are arrays with an element for each thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_TINY = {4: np.float32(2.0**-126), 2: np.float16(2.0**-14), 8: np.float64(2.0**-1022)}
"""Bytes of a float type → its smallest normal number."""
CANONICAL_NAN = np.uint32(0x7FFFFFFF)
"""Bits of the f32 that GPUs return for every NaN."""
_NAN32 = CANONICAL_NAN.view(np.float32)  # as f32
_NAN16 = np.uint16(0x7FFF)  # bits of NaN as f16 or bf16


def flush(x: Any) -> Any:
    """Return a float array with its subnormals replaced by zeros of their sign (.ftz)."""
    small = np.abs(x) < _TINY[x.dtype.itemsize]
    return np.where(small, np.copysign(x.dtype.type(0), x), x) if small.any() else x


def make_nans_canonical(x: Any) -> None:
    """Replace every NaN of an f32 array by the canonical NaN of GPUs, in place."""
    is_nan = np.isnan(x)
    if is_nan.any():
        x[is_nan] = _NAN32


def saturate(x: Any) -> Any:
    """Clamp floats to [0, 1]; NaN becomes 0 (.sat)."""
    one, zero = x.dtype.type(1), x.dtype.type(0)
    return np.where(x > 0, np.minimum(x, one), zero)


def rectify(x: Any) -> Any:
    """Return max(x, 0), NaN for NaN (.relu)."""
    return np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))


def from_bf16(bits: Any) -> Any:
    """Return the f32 of a bf16 that is given by its bits."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(x: Any, mode: str = "rn") -> Any:
    """Round f32 to the bits of bf16: to nearest even (rn), half away from zero (rna), to zero (rz), down (rm) or up
    (rp).

    A bf16 is the upper half of an f32, sign and magnitude: 1 is added to it where the number is rounded away from
    zero, which may carry into the exponent, up to infinity. NaN becomes the canonical one.
    """
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32)
    dropped = bits & np.uint32(0xFFFF)
    high = bits >> np.uint32(16)
    negative = bits >> np.uint32(31) != 0
    if mode == "rn":
        rounds_up = (dropped > 0x8000) | ((dropped == 0x8000) & (high & np.uint32(1) != 0))
    elif mode == "rna":
        rounds_up = dropped >= 0x8000
    elif mode == "rz":
        rounds_up = np.zeros(x.shape, bool)
    else:
        # Away from zero is down for negative numbers, and up for others.
        rounds_up = (dropped != 0) & (negative if mode == "rm" else ~negative)
    result = (high + rounds_up).astype(np.uint16)
    nan = np.isnan(x)
    return np.where(nan, _NAN16, result) if nan.any() else result


def unpacked(value: Any, type_: str) -> Any:
    """Return a register's value to compute with: the f32 of the bits of a bf16, values of other types unchanged."""
    return from_bf16(value) if type_ == "bf16" else value


def parts_of(value: Any, type_: str) -> tuple[Any, Any]:
    """Return the low and high half of a packed register (u32): f16 as f16, bf16 as f32.

    type_: "f16x2" or "bf16x2".
    """
    value = np.asarray(value)
    low, high = value.astype(np.uint16), (value >> np.uint32(16)).astype(np.uint16)
    if type_ == "bf16x2":
        return from_bf16(low), from_bf16(high)
    return low.view(np.float16), high.view(np.float16)


def bits16(value: Any, type_: str) -> Any:
    """Return the bits, u16, of a value as f16 or as bf16, with canonical NaN.

    value: f16, or f32 that is rounded if `type_` is "bf16" or "bf16x2".
    """
    if type_.startswith("bf16"):
        return to_bf16(value)
    value = np.asarray(value, np.float16)
    nan = np.isnan(value)
    bits = value.view(np.uint16)
    return np.where(nan, _NAN16, bits) if nan.any() else bits


def joined(low: Any, high: Any) -> Any:
    """Return two halves' bits as one u32."""
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
