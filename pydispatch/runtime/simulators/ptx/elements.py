"""NumPy types of PTX types, and literals as NumPy scalars. Floats without a NumPy type are integers with their bits."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Immediate

Array = Any
"""A NumPy array over threads, or a scalar that holds for all of them."""

_NAMED = {
    "pred": "?", "f16": "f2", "f32": "f4", "f64": "f8", "s8": "i1", "s16": "i2", "s32": "i4", "s64": "i8",
}  # fmt: skip
"""PTX type → NumPy type of its values; the other types are computed as unsigned integers of their size."""
UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}
"""Bytes of a type → unsigned NumPy integer."""
SIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("i1"), 2: np.dtype("i2"), 4: np.dtype("i4"), 8: np.dtype("i8")}
"""Bytes of a type → signed NumPy integer."""
FLOAT: dict[int, np.dtype[Any]] = {2: np.dtype("f2"), 4: np.dtype("f4"), 8: np.dtype("f8")}
"""Bytes of a type → NumPy float."""
BOOL: np.dtype[Any] = np.dtype("?")
"""The type of predicates."""


def aligned(size: int, alignment: int) -> int:
    """Return a number of bytes, rounded up to a multiple of `alignment` bytes."""
    return -(-size // alignment) * alignment


def is_type(name: str) -> bool:
    """Return whether a modifier is a type that instructions here accept: all PTX types but b128."""
    return name in SIZES and name != "b128"


def dtype_of(type_: str) -> np.dtype[Any]:
    """Return the NumPy type that computes a PTX type: unsigned integers for b8..b64, bf16, tf32 and packed types."""
    named = _NAMED.get(type_)
    return np.dtype(named) if named else UNSIGNED[SIZES[type_]]


def is_float(type_: str) -> bool:
    """Return whether a PTX type is a float, or a packed pair of floats."""
    return type_ in ("f16", "f32", "f64", "bf16", "f16x2", "bf16x2", "tf32")


def _float_literal(value: Immediate, dtype: np.dtype[Any]) -> Any:
    """Return a literal as a scalar of a float dtype.

    A hexadecimal float, 0f3F800000 or 0d3FF0000000000000, is taken by its bits if dtype has its size, so that a NaN
    keeps them, else by its value. An integer literal for an f16, such as 0x3C00 for 1.0, gives the bits of the result.
    """
    scalar, bits = value.value, value.bits
    if bits is not None:
        if dtype.itemsize == 4 and bits >> 32 == 0 and _is_single(scalar, bits):  # 0f3F800000 as f32
            return np.uint32(bits).view(dtype)
        if dtype.itemsize == 8 and not _is_single(scalar, bits):  # 0d3FF0000000000000 as f64
            return np.uint64(bits).view(dtype)
        return dtype.type(scalar)  # a literal of the other size
    if isinstance(scalar, int) and dtype.itemsize == 2:
        return np.uint16(scalar & 0xFFFF).view(dtype)
    return dtype.type(scalar)


def literal(value: Immediate, dtype: np.dtype[Any]) -> Any:
    """Return a literal as a scalar of dtype. An integer dtype gets the low bits of an integer, or those of a float."""
    scalar, bits = value.value, value.bits
    if dtype == BOOL:
        return np.bool_(bool(scalar))
    if dtype.kind == "f":
        return _float_literal(value, dtype)
    if isinstance(scalar, float):  # a decimal literal, whose bits are None, is an f64
        if bits is None:
            bits = struct.unpack("<Q", struct.pack("<d", scalar))[0]
        scalar = bits
    size = dtype.itemsize
    return UNSIGNED[size].type(scalar & ((1 << 8 * size) - 1)).view(dtype)


def _is_single(value: float, bits: int) -> bool:
    """Return whether the bits of a literal are those of a 32-bit float (0f) of that value, not of a 64-bit one (0d)."""
    if bits >> 32:  # also every NaN of 64 bits
        return False
    return math.isnan(value) or bool(np.uint32(bits).view(np.float32) == value)
