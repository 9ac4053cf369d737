"""Elimination of common subexpressions and of unused operations."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation

from pydispatch.compiler.analysis.kinds import has_effects, is_pure
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk

_UNMERGED = ("arith.constant", "flow.tensor.dynamic_constant")
"""Constants that are not merged if they are tensors: comparing large ones costs more than merging them saves."""


def erase_unused(function: Operation) -> bool:
    """Erase the operations of a host function that have no effects and no used results; return whether there were
    any. Dispatches and operations without results stay.
    """
    changed = False
    for op in reversed(list(walk(function))):
        is_unused = op.results and not any(result.uses for result in op.results)
        if not is_unused or op.parent is None:
            continue
        if not has_effects(op) and op.name != "flow.dispatch":
            erase_op(op, safe_erase=False)
            changed = True
    return changed


def merge_equal_operations(block: Block, op_by_key: dict[object, Operation]) -> None:
    """Eliminate common subexpressions of a block: merge pure operations with equal names, operands and attributes.

    Of two `tensor.dim %x, %c0`, the first one also replaces the second. Operations with regions are not merged.

    op_by_key: the operations of enclosing blocks, by name, operands and attributes; they replace equal ones here.
    """
    op_by_key = dict(op_by_key)  # a copy: enclosing blocks cannot use the operations of this one
    for op in list(block.ops):
        if op.name.startswith("scf."):  # control flow; the scalar code of generics is not merged
            for inner in (block for region in op.regions for block in region.blocks):
                merge_equal_operations(inner, op_by_key)
        if not is_pure(op) or op.regions or not op.results:
            continue
        # Comparing large constants costs more than merging them saves.
        if op.name in _UNMERGED and isinstance(op.results[0].type, TensorType):
            continue
        key = (
            op.name, tuple(op.operands), tuple(r.type for r in op.results), tuple(op.properties.items()),
            tuple(op.attributes.items()),
        )  # fmt: skip
        first = op_by_key.setdefault(key, op)  # the first operation with this key, perhaps `op` itself
        if first is not op:
            for old, new in zip(op.results, first.results, strict=True):
                old.replace_all_uses_with(new)
            erase_op(op)
