"""Floating-point types that NumPy lacks, and their names in the package ml_dtypes, in MLIR and in DLPack."""

from __future__ import annotations

from typing import NamedTuple


class ExtendedType(NamedTuple):
    """Floating-point element type that NumPy lacks."""

    name: str
    """Name in ml_dtypes."""
    mlir: str
    """Spelling in MLIR."""
    numerical: int
    """Numerical type in the high byte of a dtype word (docs/program.md)."""
    bits: int
    """Bits of an element in a buffer; types of 6 bits have 8 there. In a NumPy array each element has whole bytes."""
    dlpack: int | None
    """Type code of DLPack; None for types of fewer than 8 bits, which are not exchanged."""


EXTENDED_TYPES = (
    ExtendedType("bfloat16", "bf16", 0x22, 16, 4),
    ExtendedType("float8_e5m2", "f8E5M2", 0x24, 8, 12),
    ExtendedType("float8_e4m3fn", "f8E4M3FN", 0x25, 8, 10),
    ExtendedType("float8_e5m2fnuz", "f8E5M2FNUZ", 0x26, 8, 13),
    ExtendedType("float8_e4m3fnuz", "f8E4M3FNUZ", 0x27, 8, 11),
    ExtendedType("float8_e8m0fnu", "f8E8M0FNU", 0x28, 8, 14),
    ExtendedType("float8_e4m3", "f8E4M3", 0x29, 8, 8),
    ExtendedType("float8_e3m4", "f8E3M4", 0x2A, 8, 7),
    ExtendedType("float8_e4m3b11fnuz", "f8E4M3B11FNUZ", 0x2B, 8, 9),
    ExtendedType("float4_e2m1fn", "f4E2M1FN", 0x2C, 4, None),
    ExtendedType("float6_e2m3fn", "f6E2M3FN", 0x2D, 8, None),
    ExtendedType("float6_e3m2fn", "f6E3M2FN", 0x2E, 8, None),
)
"""All floating-point types that NumPy lacks."""
BY_NAME = {row.name: row for row in EXTENDED_TYPES}
"""The types by their names in ml_dtypes."""
BY_MLIR = {row.mlir: row for row in EXTENDED_TYPES}
"""The types by their spellings in MLIR."""
