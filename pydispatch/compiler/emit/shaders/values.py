"""Scalars and memrefs of kernel IR in a shader: widths of registers, and memrefs as a storage and strides.

Registers: i1 is a truth value; integers of up to 32 bits have 32 bits and those of up to 64 bits have 64, extended with
their sign; f32 and f64 are themselves; floats of 16 bits and less are their bits, as integers of that width. So kernels
compute on every type with 32-bit integers and floats, and need more only for i64 and f64, and for storage of 8 and 16
bits.

Buffers have the elements of kernel IR in memory: i1 in a byte, i2, i4 and f4 packed, low bits first. Memory of
workgroups and invocations has elements as in registers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, MemRefType
from xdsl.ir import Attribute

from pydispatch.compiler.kernel_ir.types import bit_width, checked_memref, is_float, is_integer, layout_of
from pydispatch.errors import CompileError

Index = Any
"""An index: a plain int when it is known while compiling, else what the language names values by."""

NATIVE = (Float32Type, Float64Type)
"""Types of float registers; floats of other types are their bits in integer registers."""

MAX_PRIVATE = 16 * 1024
"""Maximum size in bytes of one allocation in the private memory of an invocation; a larger one is a CompileError."""


def known(value: Index) -> bool:
    """Return whether a value is an int that is known at compile time, not a value of the language."""
    return type(value) is int


def register_width(type_: Attribute, index_width: int) -> int:
    """Return the bits of the register of a scalar type: 1, 32 or 64; an index has `index_width`.

    Raises:
        CompileError: The type has no register.
    """
    kind = type(type_)
    if kind is Float32Type:
        return 32
    if kind is IndexType:
        return index_width
    if is_float(type_) or is_integer(type_):
        width = bit_width(type_)
        if width == 1:
            return 1
        if width <= 64:
            return 32 if width <= 32 else 64
        note = "shaders have integers of up to 64 bits"
        raise CompileError(f"type {type_} has no register on this target", note=note)
    raise CompileError(
        f"type {type_} has no machine form here",
        note="kernel IR computes on i1 to i64 (signless), index, f64 to f4, and on memrefs of them",
    )


def is_f32_or_f64(type_: Attribute) -> bool:
    """Return whether a type is f32 or f64."""
    return type(type_) in NATIVE


def signed(value: int, width: int) -> int:
    """Return the low `width` bits of a number as a signed integer: 255 of 8 bits is -1."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def single_bits(value: float) -> int:
    """Return the bits of a float rounded to f32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def double_bits(value: float) -> int:
    """Return the bits of an f64."""
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


@dataclass(frozen=True)
class Root:
    """Storage that one or more memrefs of a shader are views of: a binding, a variable or a constant table.

    Attributes:
        kind: "binding", "workgroup", "function" (private) or "constant".
        key: Identifies the storage: memrefs of equal keys may alias.
        binding: Ordinal of a binding, else -1.
        variable: Name or id of the variable in the language.
        read_only: Whether no code writes to it.
    """

    kind: str
    key: object
    binding: int = -1
    variable: Any = 0
    read_only: bool = False


@dataclass(frozen=True)
class MemRef:
    """Memref as the emitters of shaders describe it at compile time: a storage with offset, sizes and strides.

    Element [i, j] is number `base + offset + i * strides[0] + j * strides[1]` of the storage. `base` takes the place of
    the pointer in LLVM's memref descriptor: `memref.reinterpret_cast` replaces the offset, and retains the base.

    Attributes:
        root: The storage: a binding, an allocation, or a constant table.
        base: Number of the element of the storage from which `offset` counts, such as the first one of a subspan.
        offset, sizes, strides: In elements, as an int if known while compiling. The type of the memref in kernel IR
            states those of them that are static; `base` is in no type.
        element: Type of an element.
    """

    root: Root
    base: Index
    offset: Index
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]
    element: Attribute

    def over(self, offset: Index, sizes: tuple[Index, ...], strides: tuple[Index, ...]) -> MemRef:
        """Return a view of the storage with another offset, shape and strides."""
        return replace(self, offset=offset, sizes=sizes, strides=strides)


def whole_storage(memref: MemRefType, root: Root) -> MemRef:
    """Return the memref that covers all of a storage, with the sizes and strides of its type, which are static."""
    _offset, sizes, strides = layout_of(memref)  # the storage is that of this memref alone: both begin at element 0
    # A dynamic size or stride is None. `ShaderFunction.storage` has refused these: the 0 is for the type checker.
    known_sizes, known_strides = tuple(s or 0 for s in sizes), tuple(s or 0 for s in strides)
    return MemRef(root=root, base=0, offset=0, sizes=known_sizes, strides=known_strides, element=memref.element_type)


def passed_index_count(type_: MemRefType) -> int:
    """Return how many indices a memref is passed as: its base, and the dynamic ones of offset, sizes and strides."""
    offset, sizes, strides = layout_of(checked_memref(type_))
    return 1 + sum(static_value is None for static_value in (offset, *sizes, *strides))


def flatten(value: MemRef, type_: MemRefType) -> list[Index]:
    """Return the indices that a memref is passed as: its base, and the dynamic ones of offset, sizes and strides.

    The base is the index of the element of the storage from which the offset counts. The type states all other numbers.
    """
    offset, sizes, strides = layout_of(type_)
    parts = zip((value.offset, *value.sizes, *value.strides), (offset, *sizes, *strides), strict=True)
    return [value.base, *(part for part, static_value in parts if static_value is None)]


def unflatten(parts: list[Index], type_: MemRefType, root: Root) -> MemRef:
    """Return the memref in the storage `root` that is passed as the indices `parts`: the inverse of `flatten`.

    parts: The base, then those of the offset, the sizes and the strides that are dynamic in `type_`, in this order.
    """
    base, *dynamic_parts = parts
    remaining = iter(dynamic_parts)
    offset, sizes, strides = layout_of(type_)
    layout = [
        static_value if static_value is not None else next(remaining) for static_value in (offset, *sizes, *strides)
    ]
    rank = len(sizes)
    return MemRef(
        root=root,
        base=base,
        offset=layout[0],
        sizes=tuple(layout[1 : 1 + rank]),
        strides=tuple(layout[1 + rank :]),
        element=type_.element_type,
    )
