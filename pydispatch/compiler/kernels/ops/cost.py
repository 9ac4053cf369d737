"""Cost estimates that decide between rematerializing a value and storing it."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.generics import generic_of
from pydispatch.ir.op_info import Cost, info_of

EXPENSIVE_BODY = 12
"""Maximum number of operations of a body whose elements are rematerialized, rather than stored and loaded again."""


def is_expensive(op: Operation) -> bool:
    """Return whether computing an element of the result of `op`, from elements of its operands, costs more than loading
    it from memory.
    """
    if op.name == "linalg.generic":
        body = list(op.regions[0].block.ops)
        return len(body) > EXPENSIVE_BODY or any(info_of(o).cost >= Cost.SHORT for o in body)
    return info_of(op).cost >= Cost.DIVISION


def is_costly(value: SSAValue) -> bool:
    """Return whether the computation of an element of `value` has an expensive operation, see `is_expensive`.

    The search through its producers ends at arguments, constants and reductions, which are not counted themselves.
    """
    pending, seen = [value], set[SSAValue]()
    while pending:
        operand = pending.pop()
        if not isinstance(operand, OpResult) or operand in seen:
            continue
        seen.add(operand)
        producer = operand.op
        is_reduction = producer.name == "linalg.generic" and bool(generic_of(producer).reduced_loops)
        if is_reduction or info_of(producer).cost is Cost.FREE:
            continue
        if is_expensive(producer):
            return True
        pending += producer.operands
    return False
