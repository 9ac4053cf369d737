"""Encoding of scalar operands of a dispatch: 32-bit words in the constants of the layout, low word first."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute

from pydispatch.errors import CompileError, Location


def bit_width(type: Attribute) -> int | None:
    """Return the bits of a scalar type, 64 for `index`; None for a type that is no scalar."""
    if isinstance(type, IndexType):
        return 64
    if isinstance(type, IntegerType):
        return type.width.data
    bits = getattr(type, "bitwidth", None)  # xDSL's float types have this attribute
    return bits if isinstance(bits, int) else None


def words_of(type: Attribute, location: Location | None = None) -> int:
    """Return the number of 32-bit words that a scalar operand of a dispatch takes: 1 or 2.

    Raises:
        CompileError: The type is no scalar of up to 64 bits; `location` is the location of the error.
    """
    bits = bit_width(type)
    if bits is None or not 0 < bits <= 64:
        raise CompileError(
            f"{type} cannot be an operand of a dispatch", location, "use a scalar of up to 64 bits or a tensor"
        )
    return 2 if bits > 32 else 1
