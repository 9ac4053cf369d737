"""Constants of a kernel's module and its workgroup memory."""

from __future__ import annotations

import hashlib
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder
from pydispatch.ir.core.dense import element_bytes, is_splat

WORKGROUP = 3
"""The memory space that a workgroup shares."""


def splat_of(attribute: Attribute | None) -> IntegerAttr | FloatAttr | None:
    """Return the element of a dense constant whose elements are all equal; None for another attribute."""
    if not isinstance(attribute, DenseIntOrFPElementsAttr) or not is_splat(attribute):
        return None
    return cast(IntegerAttr | FloatAttr, _first_element(attribute))


def _first_element(attribute: DenseIntOrFPElementsAttr) -> Attribute:
    """Return the first element of a dense constant, without unpacking the others."""
    width = element_bytes(attribute.get_element_type())
    type_ = TensorType(attribute.get_element_type(), [1])
    one = DenseIntOrFPElementsAttr(type_, BytesAttr(attribute.data.data[:width]))
    return next(iter(one.iter_attrs()))


def table_of(entry: Builder, function: str, tables: list[Operation], attribute: DenseIntOrFPElementsAttr) -> SSAValue:
    """Return the memref of a global of the module that has the elements of `attribute`. Equal attributes share one.

    The global of the kernel `conv` has a name such as `conv_table_0b9f3c1d2e4a`, with a hash of the elements.

    Args:
        entry: Builder of the start of the kernel, which receives the `memref.get_global`.
        function: Name of the kernel; the name of the global begins with it.
        tables: Receives the `memref.global` if it is new. The caller adds it to the module.
        attribute: The elements.
    """
    known = entry.recall(("table", attribute))
    if known is not None:
        return known
    type_ = MemRefType(attribute.get_element_type(), attribute.get_shape())
    digest = hashlib.sha256(str(attribute).encode()).hexdigest()[:12]
    name = f"{function}_table_{digest}"
    tables.append(memref.GlobalOp.get(StringAttr(name), type_, attribute, constant=UnitAttr()))
    value = entry.add(memref.GetGlobalOp(name, type_))
    entry.remember(("table", attribute), value)
    return value


def workgroup_memory(element: Attribute, size: int) -> MemRefType[Attribute]:
    """Return the type `memref<size x element>` in workgroup memory."""
    return MemRefType(element, [size], NoneAttr(), IntegerAttr(WORKGROUP, 64))
