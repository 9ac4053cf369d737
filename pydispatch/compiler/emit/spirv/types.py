"""How kernel IR's scalars lie in SPIR-V's registers and memory.

Registers: i1 is a bool; integers of up to 32 bits are 32-bit integers and those of up to 64 bits are 64-bit integers,
extended with their sign; f32 and f64 are themselves; floats of 16 bits and less are their bits, as integers of that
width. So kernels compute on every type with 32-bit integers and floats alone, and need capabilities only for i64 and
f64, and for storage of 8 and 16 bits.

Buffers hold elements as they lie in memory: i1 in a byte, i2, i4 and f4 packed, low bits first. Memory of workgroups
and invocations holds what registers hold.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, MemRefType
from xdsl.ir import Attribute

from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.kernel_ir.types import bit_width, checked_memref, is_float, is_integer, layout_of, storage_bits
from pydispatch.errors import CompileError

Index = int | Id
"""An index: a plain int when it is known while compiling, else an id."""

NATIVE = (Float32Type, Float64Type)


def known(value: Index) -> bool:
    """Whether a value is a number known while compiling."""
    return type(value) is int


def register_width(type_: Attribute, index_width: int) -> int:
    """Bits of the register of a scalar type: 1, 32 or 64. CompileError for what has no register."""
    kind = type(type_)
    if kind is Float32Type:
        return 32
    if kind is IndexType:
        return index_width
    if is_float(type_) or is_integer(type_):
        width = bit_width(type_)
        if width <= 64:
            return 1 if width == 1 else 32 if width <= 32 else 64
        raise CompileError(f"type {type_} has no register on this target", note="SPIR-V has integers of up to 64 bits")
    raise CompileError(
        f"type {type_} has no machine form here",
        note="kernel IR computes on i1 to i64 (signless), index, f64 to f4, and on memrefs of them",
    )


def register_type(m: Module, type_: Attribute, index_width: int) -> Id:
    """The SPIR-V type of a scalar's register."""
    width = register_width(type_, index_width)
    if type(type_) in NATIVE:
        return m.float(width)
    return m.bool() if width == 1 else m.int(width)


def is_native_float(type_: Attribute) -> bool:
    """f32 and f64."""
    return type(type_) in NATIVE


def signed(value: int, width: int) -> int:
    """The low bits of a number as a signed one."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def single_bits(value: float) -> int:
    """The bits of an f32."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def double_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


@dataclass(frozen=True)
class Root:
    """Where elements lie. kind: binding, workgroup, function or constant; key: for comparison; variable: of memory that
    is one variable; a binding has one variable per kind of element."""

    kind: str
    key: object
    binding: int = -1
    variable: int = 0
    read_only: bool = False


@dataclass(frozen=True)
class MemRef:
    """A memref. base and offset: in elements; views count from `base`."""

    root: Root
    base: Index
    offset: Index
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]
    element: Attribute

    def over(self, offset: Index, sizes: tuple[Index, ...], strides: tuple[Index, ...]) -> MemRef:
        """The same storage seen through another shape."""
        return replace(self, offset=offset, sizes=sizes, strides=strides)


Value = Index | MemRef


def open_parts(type_: MemRefType) -> int:
    """How many numbers of a memref travel with it: base, and what its type leaves open."""
    offset, sizes, strides = layout_of(checked_memref(type_))
    return 1 + sum(part is None for part in (offset, *sizes, *strides))


def flatten(value: MemRef, type_: MemRefType) -> list[Index]:
    """Those numbers."""
    offset, sizes, strides = layout_of(type_)
    parts = zip((value.offset, *value.sizes, *value.strides), (offset, *sizes, *strides), strict=True)
    return [value.base, *(part for part, fixed in parts if fixed is None)]


def unflatten(parts: list[Index], type_: MemRefType, root: Root) -> MemRef:
    """The memref that `flatten` took apart."""
    rest = iter(parts)
    base = next(rest)
    offset, sizes, strides = layout_of(type_)
    found = [part if part is not None else next(rest) for part in (offset, *sizes, *strides)]
    rank = len(sizes)
    return MemRef(root, base, found[0], tuple(found[1 : 1 + rank]), tuple(found[1 + rank :]), type_.element_type)


@dataclass(frozen=True)
class Unit:
    """What a buffer is an array of: an integer or a float of so many bits."""

    bits: int
    is_float: bool

    def type(self, m: Module) -> Id:
        if self.bits == 8:
            m.capability("StorageBuffer8BitAccess")
        if self.bits == 16:
            m.capability("StorageBuffer16BitAccess")
        return m.float(self.bits) if self.is_float else m.int(self.bits)


def unit_of(element: Attribute) -> Unit:
    """How elements lie in a buffer; packed ones lie in bytes."""
    bits = max(8, storage_bits(element))
    if bits > 64:
        raise CompileError(f"elements of type {element} cannot lie in a buffer of this target")
    return Unit(bits, is_native_float(element))
