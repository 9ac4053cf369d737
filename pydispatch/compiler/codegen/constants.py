"""Constants of a kernel's module and its workgroup memory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue

if TYPE_CHECKING:
    from pydispatch.compiler.codegen.elements import Elements

WORKGROUP = 3
"""The memory space that a workgroup shares."""


def table_of(e: Elements, attribute: DenseIntOrFPElementsAttr, type_: MemRefType[Attribute]) -> SSAValue:
    """A `memref.global` with the elements of `attribute`, gotten at the entry."""
    known = e.entry.recall(("table", attribute))
    if known is not None:
        return known
    digest = hashlib.sha256(str(attribute).encode()).hexdigest()[:12]
    name = f"{e.source.sym_name.data}_table_{digest}"
    e.globals.append(memref.GlobalOp.get(StringAttr(name), type_, attribute, constant=UnitAttr()))
    value = e.entry.add(memref.GetGlobalOp(name, type_))
    e.entry.remember(("table", attribute), value)
    return value


def workgroup_memory(element: Attribute, size: int) -> MemRefType[Attribute]:
    """`memref<size x element>` in workgroup memory."""
    return MemRefType(element, [size], NoneAttr(), IntegerAttr(WORKGROUP, 64))
