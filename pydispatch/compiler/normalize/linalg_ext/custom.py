"""Rule that replaces `custom_op` by its body on whole tensors, since pydispatch chooses tiles itself."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.ir.dialects.iree_linalg_ext.custom import CustomOp


def _cast(build: Build, value: SSAValue, type: Attribute) -> SSAValue:
    """Cast a tensor to a type that has static sizes where its own has dynamic ones, or the reverse.

    Return other values, and a tensor that has this type, unchanged.
    """
    if value.type == type or not isinstance(type, TensorType):
        return value
    return build.add(tensor.CastOp(value, type)).dest


def _custom_op(op: Operation, build: Build) -> None:
    """Replace a custom operation by the operations of its body.

    The body computes one tile. It is applied to the whole operands, as the only tile. Operands and results are cast
    where the body states other sizes, such as dynamic ones.
    """
    assert isinstance(op, CustomOp)
    block = op.body.block
    values: dict[SSAValue, SSAValue] = {
        argument: _cast(build, operand, argument.type)
        for argument, operand in zip(block.args, op.operands, strict=True)
    }
    # Copies of the body's operations, and the values that it yields.
    terminator = block.last_op
    assert terminator is not None
    for inner in block.ops:
        if inner is not terminator:
            copy = build.add(inner.clone(values))
            values.update(zip(inner.results, copy.results, strict=True))
    tiles = [values.get(value, value) for value in terminator.operands]
    build.replace(*(_cast(build, tile, result.type) for tile, result in zip(tiles, op.results, strict=True)))


ROWS: dict[str, Row] = {"iree_linalg_ext.custom_op": _custom_op}
"""Name of an operation → function that replaces it."""
