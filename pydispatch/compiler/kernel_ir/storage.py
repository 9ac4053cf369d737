"""Storage classes of memrefs in kernel IR: workgroup memory, private memory, bindings."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.readers import attribute

STORAGE = "pyd.storage"
"""On an allocation: whether the workgroup shares it, "workgroup", or each invocation has its own, "private". Passes set
it; without it, the memory space of the type decides."""


COHERENT_BINDINGS = "pyd.met"
"""On an entry point: ordinals of the bindings in which invocations of a workgroup read what others of it wrote."""


READ_ONLY_NOTE = "take ReadOnly off its subspan; in a stream executable, tie a result of the dispatch to the operand"
"""Advice in the error about a write to a binding that is declared to be read only."""


def is_workgroup(type_: MemRefType) -> bool:
    """Return whether a memref is in workgroup memory: #gpu.address_space<workgroup>, or 3."""
    space = type_.memory_space
    if isinstance(space, IntegerAttr):
        return bool(space.value.data == 3)
    return "workgroup" in str(space)


def is_private(type_: MemRefType) -> bool:
    """Return whether a memref is private to each invocation: #gpu.address_space<private>, or 5."""
    space = type_.memory_space
    if isinstance(space, IntegerAttr):
        return bool(space.value.data == 5)
    return "private" in str(space)


def is_shared_by_workgroup(op: Operation, type_: MemRefType) -> bool:
    """Return whether an allocation with a result of this type is shared by the workgroup.

    The attribute `STORAGE` states it; without one, the memory space of the type.
    """
    stated = attribute(op, STORAGE)
    return stated.data == "workgroup" if isinstance(stated, StringAttr) else is_workgroup(type_)
