"""The SPIR-V types of registers, and of the elements of buffers. What registers hold is in `shaders/values.py`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

from pydispatch.compiler.emit.shaders.values import NATIVE, MemRef, is_f32_or_f64, register_width
from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.kernel_ir.types import storage_bits
from pydispatch.errors import CompileError

Index = int | Id
"""An index: a plain int when it is known while compiling, else an id."""

Value = Index | MemRef
"""An index or another scalar, or a memref."""


def register_type(module: Module, type_: Attribute, index_width: int) -> Id:
    """Return the SPIR-V type of the register of a scalar; an index has `index_width` bits."""
    width = register_width(type_, index_width)
    if type(type_) in NATIVE:
        return module.float(width)
    return module.bool() if width == 1 else module.int(width)


@dataclass(frozen=True)
class Unit:
    """Element type of the array that a buffer is declared as.

    A function that accesses a binding both as i8 and as f32 declares it twice, as arrays of the units of 8 bits and of
    32 bits; both variables have the same binding number.

    Attributes:
        bits: 8, 16, 32 or 64.
        is_float: Whether it is an f32 or f64; otherwise it is an integer, also for the bits of smaller floats.
    """

    bits: int
    is_float: bool

    def type(self, module: Module) -> Id:
        """Return the type, with the capability that its width needs in buffers."""
        if self.bits == 8:
            module.capability("StorageBuffer8BitAccess")
        if self.bits == 16:
            module.capability("StorageBuffer16BitAccess")
        return module.float(self.bits) if self.is_float else module.int(self.bits)


def unit_of(element: Attribute) -> Unit:
    """Return the element type that a buffer of such elements is declared with; packed elements (2 or 4 bits) are bytes.

    Raises:
        CompileError: An element takes more than 64 bits.
    """
    bits = max(8, storage_bits(element))
    if bits > 64:
        raise CompileError(f"elements of type {element} cannot lie in a buffer of this target")
    return Unit(bits, is_f32_or_f64(element))
