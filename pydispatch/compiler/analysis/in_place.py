"""Grid and in-place updates of a dispatch function: facts that dispatch formation and code generation share."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis.kinds import is_constant, is_fill, is_view
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.rule import Update
from pydispatch.ir.dialects.flow.base import ShapedCall

GRID = "grid"
"""Attribute of dispatch regions and functions whose workgroup counts the program states, and whose body computes from
the workgroup id the part of the tensors that one workgroup writes."""


BARRIER = "util.optimization_barrier"
"""Name of the operation that returns its operands unchanged, and that the formation of dispatches does not look
through. The destination of an update may be the result of a barrier: it has no other reader, so that the update is made
in place. The functions below then take the barrier's operand for the overwritten tensor."""


def destination_operand(op: Operation) -> int | None:
    """Return the index of the operand whose elements an update overwrites; None for other operations."""
    rule = rule_of(op)
    return rule.destination if isinstance(rule, Update) else None


def overwritten_values(op: Operation) -> list[SSAValue]:
    """Return the tensors in whose memory an operation makes its results: the destination of an update, or the operands
    that results of a dispatch or call are tied to.

    A tensor that passes through optimization barriers is returned as the operand of the first barrier.
    """
    if isinstance(op, ShapedCall):
        values = op.overwritten_arguments()
    else:
        destination = destination_operand(op)
        values = [] if destination is None else [op.operands[destination]]
    return [_behind_barriers(value) for value in values]


def _behind_barriers(value: SSAValue) -> SSAValue:
    """Return the operand of the first of the optimization barriers that `value` has passed through; `value` itself if
    it is no result of a barrier.
    """
    while isinstance(value, OpResult) and value.op.name == BARRIER:
        value = value.op.operands[value.index]
    return value


def _is_filled(value: SSAValue) -> bool:
    """Return whether a fill computes a value, so that no memory is read for it."""
    return isinstance(value, OpResult) and is_fill(value.op)


def other_readers(op: Operation) -> list[Operation]:
    """Return the operations that read a tensor that `op` overwrites, also through views and inside regions.

    If all of them run before `op`, the tensor is overwritten in place; otherwise it is copied. Readers of constants and
    fills are left out: a constant is copied in any case, and each reader of a fill computes its own copy.
    """
    readers: dict[Operation, None] = {}
    values = [v for v in overwritten_values(op) if not is_constant(v) and not _is_filled(v)]
    pending = [use.operation for value in values for use in value.uses]
    while pending:
        reader = pending.pop()
        # `overwritten_values` looks through barriers, which `op` reads itself: they are no other readers.
        if reader.name != BARRIER and reader is not op and reader not in readers:
            readers[reader] = None
            if is_view(reader):  # readers of the view read the tensor
                pending += [use.operation for result in reader.results for use in result.uses]
    return list(readers)


def updated_arguments(function: func.FuncOp) -> list[int | None]:
    """Return, for each result of a dispatch function, the argument that it updates in place; None for a new tensor.

    A result updates an argument in place when a sequence of updates leads from the argument to the result, and nothing
    else in the function reads the argument or an intermediate tensor of the sequence. The kernel then writes the
    updated elements only.
    """
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    roots = [_root(value) for value in end.arguments]
    # Two results cannot have the memory of one argument.
    return [index if roots.count(index) == 1 else None for index in roots]


def _root(value: SSAValue) -> int | None:
    """Return the index of the function argument whose memory `value` overwrites; None if it is a new tensor.

    `value` must be the argument after one or more updates, operations that overwrite elements of their destination. The
    index is 0 for %0 in

        func.func @f(%x: tensor<8xf32>, %row: tensor<2xf32>) -> tensor<8xf32> {
          %0 = tensor.insert_slice %row into %x[2] [2] [1] : tensor<2xf32> into tensor<8xf32>
          return %0 : tensor<8xf32>
        }

    Every tensor on the way, including `value` and the argument, must have the next operation as its only reader:
    another one might see the updated elements.
    """
    updates = 0  # an argument that is returned unchanged is not updated in place
    while isinstance(value.owner, Operation):
        if value.uses.get_length() != 1:
            return None
        owner = value.owner
        destination = destination_operand(owner)
        if destination is not None:
            value = owner.operands[destination]
            updates += 1
        elif owner.name == "flow.dispatch.tie_shape":  # states the dynamic sizes of its operand, and returns it
            value = owner.operands[0]
        else:
            return None
    assert isinstance(value, BlockArgument)
    return value.index if updates and value.uses.get_length() == 1 else None
