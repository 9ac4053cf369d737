"""Cost estimates that decide between rematerializing a value and storing it."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.generics import generic_of
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import Structured

EXPENSIVE_BODY = 12
"""Operations of a body above which its elements are not computed twice."""


def is_expensive(op: Operation, generics: dict[Operation, Structured]) -> bool:
    """Return whether computing an element of the result of `op` costs more than loading it."""
    if op.name == "linalg.generic":
        body = list(op.regions[0].block.ops)
        return len(body) > EXPENSIVE_BODY or any(info_of(o).cost >= Cost.SHORT for o in body)
    return info_of(op).cost >= Cost.DIVISION


def is_costly(value: SSAValue) -> bool:
    """Return whether computing an element of `value` through its elementwise producers involves an expensive
    operation."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        v = pending.pop()
        if not isinstance(v, OpResult) or v in seen or info_of(v.op).cost is Cost.FREE:
            continue
        seen.add(v)
        reduces = v.op.name == "linalg.generic" and bool(generic_of(v.op).loops)
        if not reduces and is_expensive(v.op, {}):
            return True
        if not reduces:
            pending += v.op.operands
    return False
