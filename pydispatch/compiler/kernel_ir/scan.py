"""Index of the operations of a function by name, built in one walk."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.readers import UNREGISTERED, op_name

Ops = dict[str, list[Operation]]
"""Name of an operation -> all operations of a function with this name, in the order of `ops_by_name`."""


def ops_by_name(function: FuncOp) -> Ops:
    """Return the operations of a function by name.

    In each list, the operations of a block are in order, and all of them precede the operations of nested blocks. An
    operation that is not registered in the context is listed by the name that the program has for it.
    """
    ops: Ops = {}
    blocks = list(function.body.blocks)
    while blocks:
        op = blocks.pop().first_op
        while op is not None:
            name = op.name
            if name == UNREGISTERED:
                name = op_name(op)
            ops_of_name = ops.get(name)
            if ops_of_name is None:
                ops[name] = [op]
            else:
                ops_of_name.append(op)
            if op.regions:
                for region in op.regions:
                    blocks += region.blocks
            op = op.next_op
    return ops
