"""Scalar types of kernel IR: what they are, and how they lie in memory."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, Signedness
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.types import _FLOATS, SMALL_FLOATS, memory
from pydispatch.errors import CompileError

_MEMORY_WIDTHS = (8, 16, 32, 64, 128)


def is_float(type_: Attribute) -> bool:
    """f64, f32, bf16, f16, or one of the f8, f6 and f4 kinds."""
    return type(type_) in _FLOATS


def small_float(type_: Attribute) -> str | None:
    """The name of a float of 8 bits and less, None for any other type."""
    return SMALL_FLOATS.get(type(type_))


def is_integer(type_: Attribute) -> bool:
    """A signless integer or index."""
    # By their exact types: isinstance of such classes asks their metaclass wherever the answer is no.
    kind = type(type_)
    return kind is IndexType or (kind is IntegerType and type_.signedness.data == Signedness.SIGNLESS)  # type: ignore[attr-defined]


def bit_width(type_: Attribute) -> int:
    """Bits of a scalar type; 64 for index."""
    kind = type(type_)
    if kind is IntegerType:
        return int(type_.width.data)  # type: ignore[attr-defined]
    return 64 if kind is IndexType else _FLOATS[kind][1]


def storage_bits(type_: Attribute) -> int:
    """Bits of an element in memory: 2 and 4 when packed, else whole bytes."""
    memory(type_)
    width = bit_width(type_)
    return width if width in (2, 4) else -(-width // 8) * 8


def packed(type_: Attribute) -> bool:
    """Whether several elements share a byte."""
    return storage_bits(type_) < 8


def storage_bytes(type_: Attribute, count: int) -> int:
    """Bytes of `count` elements that lie one behind the other."""
    return -(-count * storage_bits(type_) // 8)


def byte_size(type_: Attribute) -> int:
    """Bytes of an element in memory, or of the byte that it shares; its natural alignment too."""
    return max(1, storage_bits(type_) // 8)


def alignment(type_: Attribute) -> int:
    """The natural alignment of an element, in bytes."""
    return byte_size(type_)


def checked_memref(type_: Attribute) -> MemRefType:
    """`type_` as a ranked memref of scalars with a strided layout. Raises CompileError otherwise."""
    if not isinstance(type_, MemRefType):
        raise CompileError(
            f"type {type_} is not a ranked memref", note="unranked memrefs and tensors have no kernel form"
        )
    memory(type_.element_type)
    strides = type_.get_strides()
    if strides is None or len(strides) != type_.get_num_dims():
        raise CompileError(f"layout of {type_} is not strided", note="use strided<[...], offset: ...>")
    return type_
