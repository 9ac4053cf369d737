"""Scalar types of kernel IR, and their layout in memory.

In memory i2, i4 and f4 are packed, low bits first; i1 and other types below 8 bits take one byte each. All other types
but memrefs of these scalars are refused with a CompileError.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    Signedness,
)
from xdsl.ir import Attribute

from pydispatch.errors import CompileError
from pydispatch.formats.arrays.small_floats import width

SMALL_FLOATS: dict[type[Attribute], str] = {
    Float8E5M2Type: "f8E5M2",
    Float8E4M3Type: "f8E4M3",
    Float8E3M4Type: "f8E3M4",
    Float8E4M3FNType: "f8E4M3FN",
    Float8E5M2FNUZType: "f8E5M2FNUZ",
    Float8E4M3FNUZType: "f8E4M3FNUZ",
    Float8E4M3B11FNUZType: "f8E4M3B11FNUZ",
    Float8E8M0FNUType: "f8E8M0FNU",
    Float6E2M3FNType: "f6E2M3FN",
    Float6E3M2FNType: "f6E3M2FN",
    Float4E2M1FNType: "f4E2M1FN",
}
"""Floats of 8 bits and less -> their names."""

_FLOATS: dict[type[Attribute], int] = {
    Float16Type: 16,
    BFloat16Type: 16,
    Float32Type: 32,
    Float64Type: 64,
    **{type_: width(name) for type_, name in SMALL_FLOATS.items()},
}
"""Float types -> their bits."""

_MEMORY_WIDTHS = (8, 16, 32, 64, 128)
"""Widths in bits of the integers that are stored without padding."""


def is_float(type_: Attribute) -> bool:
    """Return whether a type is f64, f32, bf16, f16, or one of the f8, f6 and f4 kinds."""
    return type(type_) in _FLOATS


def small_float(type_: Attribute) -> str | None:
    """Return the name of a float of 8 bits or less, such as "f8E5M2"; None for another type."""
    return SMALL_FLOATS.get(type(type_))


def is_integer(type_: Attribute) -> bool:
    """Return whether a type is a signless integer or index."""
    # Exact types are compared, because `isinstance` with a class of xDSL calls a slow metaclass method if it is False.
    kind = type(type_)
    return kind is IndexType or (kind is IntegerType and type_.signedness.data == Signedness.SIGNLESS)  # type: ignore[attr-defined]


def bit_width(type_: Attribute) -> int:
    """Return the width of a scalar type in bits; 64 for index."""
    kind = type(type_)
    if kind is IntegerType:
        return int(type_.width.data)  # type: ignore[attr-defined]
    return 64 if kind is IndexType else _FLOATS[kind]


def scalar_width(type_: Attribute) -> int:
    """Return the width of a scalar in a register, in bits.

    Raises:
        CompileError: The type is not a scalar of kernel IR.
    """
    if type(type_) in _FLOATS or (is_integer(type_) and 1 <= bit_width(type_) <= 128):
        return bit_width(type_)
    raise CompileError(
        f"type {type_} has no machine form here",
        note="kernel IR computes on i1 to i128 (signless), index, f64 to f4, and on memrefs of them",
    )


def memory_width(type_: Attribute) -> int:
    """Return the bits of the memory access for an element: 8 for a packed one, which is read with others of its byte.

    Raises:
        CompileError: Elements of this width cannot be stored.
    """
    bits = _FLOATS.get(type(type_)) or scalar_width(type_)  # raises if the type is no scalar
    if bits < 8:
        return 8
    if bits not in _MEMORY_WIDTHS and is_integer(type_):
        raise CompileError(
            f"elements of type {type_} cannot lie in memory",
            note="use elements of up to 8, or of 16, 32 or 64 bits, and extend or truncate after the load",
        )
    return bits


def storage_bits(type_: Attribute) -> int:
    """Return the number of bits that an element takes in memory: 2 or 4 if it is packed, else whole bytes.

    Raises:
        CompileError: Elements of this type cannot be stored.
    """
    access_bits = memory_width(type_)  # raises CompileError for a type that bit_width() does not know
    bits = bit_width(type_)
    if access_bits == 8:
        return bits if bits in (2, 4) else 8  # 8 / 2 or 8 / 4 elements share a byte
    return -(-bits // 8) * 8  # rounded up to bytes


def packed(type_: Attribute) -> bool:
    """Return whether several elements share a byte."""
    return storage_bits(type_) < 8


def storage_bytes(type_: Attribute, count: int) -> int:
    """Return the size in bytes of `count` contiguous elements; the last byte of packed ones may be partly unused."""
    return -(-count * storage_bits(type_) // 8)


def byte_size(type_: Attribute) -> int:
    """Return the size and natural alignment, in bytes, of an element in memory; 1 for elements that share a byte."""
    return max(1, storage_bits(type_) // 8)


def alignment(type_: Attribute) -> int:
    """Return the natural alignment of an element, in bytes."""
    return byte_size(type_)


def element_of(type_: Attribute) -> Attribute:
    """Return the element type of a ranked memref.

    Raises:
        CompileError: The type is no ranked memref.
    """
    if not isinstance(type_, MemRefType):
        raise CompileError(
            f"type {type_} is not a ranked memref", note="unranked memrefs and tensors have no kernel form"
        )
    return type_.element_type


def checked_memref(type_: Attribute) -> MemRefType:
    """Return a type as a ranked memref of scalars with a strided layout.

    Raises:
        CompileError: The type is no such memref.
    """
    memref, _ = _require_strided(type_)
    return memref


def _require_strided(type_: Attribute) -> tuple[MemRefType, tuple[int | None, ...]]:
    """Return a type as a ranked memref of scalars, and its strides in elements, one for each axis; None if dynamic.

    Raises:
        CompileError: The type is no such memref, or its layout is not strided.
    """
    memory_width(element_of(type_))  # raises for other types and elements
    assert isinstance(type_, MemRefType)
    strides = type_.get_strides()
    if strides is None or len(strides) != len(type_.shape.data):
        raise CompileError(f"layout of {type_} is not strided", note="use strided<[...], offset: ...>")
    return type_, tuple(strides)


class StridedLayout(NamedTuple):
    """Strided layout of a memref type, in elements; a size, stride or offset that is dynamic is None."""

    offset: int | None
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]


def layout_of(type_: Attribute) -> StridedLayout:
    """Return the layout of a memref type; errors are as of `checked_memref`."""
    memref, strides = _require_strided(type_)
    sizes = tuple([None if size.data == DYNAMIC_INDEX else size.data for size in memref.shape.data])
    return StridedLayout(memref.get_offset(), sizes, strides)
