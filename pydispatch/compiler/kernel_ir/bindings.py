"""What a function's subspans state about its bindings."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.readers import attribute, integer
from pydispatch.compiler.kernel_ir.types import alignment, checked_memref

SUBSPAN = "hal.interface.binding.subspan"


@dataclass
class BindingFacts:
    """What the subspans of one binding state together: the largest alignment; read-only when all of them say so."""

    alignment: int = 1
    read_only: bool = True


def bindings_of(function: FuncOp) -> dict[int, BindingFacts]:
    """The bindings that the function names."""
    facts: dict[int, BindingFacts] = {}
    for op in function.walk():
        if op.name == SUBSPAN and isinstance(op.results[0].type, MemRefType):
            binding = facts.setdefault(integer(op, "binding"), BindingFacts())
            memref = checked_memref(op.results[0].type)
            binding.alignment = max(binding.alignment, integer(op, "alignment", 1), alignment(memref.element_type))
            binding.read_only &= _read_only(op)
    return facts


def _read_only(op: Operation) -> bool:
    flags = attribute(op, "flags")
    return isinstance(flags, ArrayAttr) and any("ReadOnly" in str(flag) for flag in flags.data)
