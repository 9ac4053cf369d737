"""Properties of the bindings of a function, collected from its subspans (the operations that access bindings)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernel_ir.readers import attribute, integer
from pydispatch.compiler.kernel_ir.scan import Ops, ops_by_name
from pydispatch.compiler.kernel_ir.types import alignment, element_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

SUBSPAN = "hal.interface.binding.subspan"
"""Operation that returns a binding, or a part of it, as a memref."""


@dataclass
class BindingFacts:
    """Properties of one binding, merged from all subspans of it.

    Attributes:
        alignment: The largest alignment in bytes that a subspan states, or that its elements need.
        read_only: Whether all subspans state that the binding is only read.
    """

    alignment: int = 1
    read_only: bool = True


def bindings_of(ops: Ops) -> dict[int, BindingFacts]:
    """Return the properties of each binding that a function accesses, by the binding's ordinal.

    A subspan is the operation that returns a binding as a memref; several may name one binding. With one subspan of
    binding 0 that states `alignment(64)` and ReadOnly, and one of `memref<4xf32>` that states neither, the result is
    {0: BindingFacts(alignment=64, read_only=False)}.

    Args:
        ops: The operations of the function by name.

    Raises:
        CompileError: A subspan is no memref of scalars.
    """
    facts: dict[int, BindingFacts] = {}
    for op in ops.get(SUBSPAN, ()):
        binding, (result,) = facts.setdefault(integer(op, "binding"), BindingFacts()), op.results
        try:
            natural = alignment(element_of(result.type))  # bytes to which every element of this type is aligned
        except CompileError as error:
            raise CompileError(error.message, location_of(op), error.note) from None
        binding.alignment = max(binding.alignment, integer(op, "alignment", default=1), natural)
        binding.read_only &= _has_read_only_flag(op)
    return facts


def read_only_memrefs(function: FuncOp) -> frozenset[SSAValue]:
    """Return the memrefs of the bindings that a function only reads, as all of their subspans state."""
    ops = ops_by_name(function)
    facts = bindings_of(ops)
    subspans = ops.get(SUBSPAN, ())
    return frozenset(op.results[0] for op in subspans if facts[integer(op, "binding")].read_only)


def _has_read_only_flag(op: Operation) -> bool:
    """Return whether a subspan has the flag that its binding is only read."""
    flags = attribute(op, "flags")
    return flags is not None and isinstance(flags, ArrayAttr) and any(map(_says_read_only, flags.data))


def _says_read_only(flag: Attribute) -> bool:
    """Return whether one of the flags of a binding is ReadOnly: a string, or an attribute printed with this word."""
    return flag.data == "ReadOnly" if isinstance(flag, StringAttr) else "ReadOnly" in str(flag)
