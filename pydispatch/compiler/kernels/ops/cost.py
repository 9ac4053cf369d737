"""Cost estimates that decide between rematerializing a value and storing it."""

from __future__ import annotations

from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.generics import generic_of
from pydispatch.ir.op_info import Cost, info_of

EXPENSIVE_BODY = 12
"""Maximum number of operations of a body whose elements are rematerialized, rather than stored and loaded again."""


def is_expensive(op: Operation) -> bool:
    """Return whether computing an element of the result of `op`, from elements of its operands, costs more than loading
    the element from memory.

    The body of a `linalg.generic` is expensive from operations of a few instructions (`Cost.SHORT`) on, other tensor
    operations are expensive from divisions on.
    """
    if op.name == "linalg.generic":
        body = list(op.regions[0].block.ops)
        return len(body) > EXPENSIVE_BODY or any(info_of(o).cost >= Cost.SHORT for o in body)
    return info_of(op).cost >= Cost.DIVISION


def is_costly(value: SSAValue) -> bool:
    """Return whether an expensive operation (`is_expensive`) is among those that compute an element of `value`.

    The search follows operands. It ends at arguments, constants and reductions, which do not count as expensive.
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
