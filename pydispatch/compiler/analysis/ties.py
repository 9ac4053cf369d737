"""What formation and code generation agree on about a dispatch function: its grid, and which results are updates of an
argument, written where the argument lies."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import BlockArgument, Operation, SSAValue

GRID = "grid"
"""The attribute of regions and dispatch functions that compute on tensors on a grid chosen by hand."""

UPDATES = {"tensor.insert_slice": 1, "tensor.insert": 1, "tensor.scatter": 1}
"""Operations that give their destination with some elements replaced -> the operand that is the destination."""

_VIEWS = ("flow.dispatch.tie_shape",)


def tied_arguments(function: func.FuncOp) -> list[int]:
    """For each result of a dispatch function the argument that it updates in place, -1 when it is a new tensor.

    A result is tied when it is a chain of updates that begins at an argument and nothing else in the function reads
    that argument or a link of the chain: the kernel then writes the updates and leaves all other elements alone.
    """
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    found = [_root(value) for value in end.arguments]
    return [n if n >= 0 and found.count(n) == 1 else -1 for n in found]


def _root(value: SSAValue) -> int:
    updates = 0
    while isinstance(value.owner, Operation):
        if value.uses.get_length() != 1:
            return -1
        owner = value.owner
        if owner.name in UPDATES:
            value = owner.operands[UPDATES[owner.name]]
            updates += 1
        elif owner.name in _VIEWS:
            value = owner.operands[0]
        else:
            return -1
    assert isinstance(value, BlockArgument)
    return value.index if updates and value.uses.get_length() == 1 else -1
