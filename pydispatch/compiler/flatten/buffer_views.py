"""Functions over `!hal.buffer_view` → functions over tensors: callers pass and receive arrays either way."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FunctionType, IndexType, IntegerAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location

IMPORT, EXPORT = "hal.tensor.import", "hal.tensor.export"
TYPE = "hal.buffer_view"
RETURNS = ("func.return", "util.return")


def buffer_views_to_tensors(function: Operation) -> None:
    """Rewrites a host function in place. CompileError for a buffer view of which no type is known."""
    blocks = list(function.regions[0].blocks)
    if not blocks:
        return
    for argument in blocks[0].args:
        if argument.type.name == TYPE:
            _argument(blocks[0], argument)
    outputs = None
    for block in blocks:
        last = block.last_op
        if last is None or last.name not in RETURNS:
            continue
        for number, value in enumerate(last.operands):
            if value.type.name == TYPE and isinstance(value, OpResult) and value.op.name == EXPORT:
                last.operands[number] = value.op.operands[0]
        outputs = [v.type for v in last.operands]
    type = cast(FunctionType, function.properties["function_type"])
    inputs = [a.type for a in blocks[0].args]
    given = list(type.outputs) if outputs is None else outputs
    function.properties["function_type"] = FunctionType.from_lists(inputs, given)
    for op in list(function.regions[0].walk(reverse=True)):
        if op.name == EXPORT and not list(op.results[0].uses):
            op.detach()
            op.erase()


def _argument(block: Block, argument: SSAValue) -> None:
    imports = [use.operation for use in argument.uses if use.operation.name == IMPORT]
    if not imports:
        if not list(argument.uses):
            return
        raise CompileError("the type of this buffer view is not known", location_of(argument),
                           "take it with hal.tensor.import, or give the function tensors")  # fmt: skip
    types = {op.results[0].type for op in imports}
    if len(types) != 1:
        raise CompileError(f"a buffer view is imported as {', '.join(map(str, types))}", location_of(imports[0]),
                           "import it once and cast the tensor")  # fmt: skip
    new = block.insert_arg(types.pop(), argument.index)  # type: ignore[attr-defined]
    new.name_hint = argument.name_hint
    for use in list(argument.uses):
        op = use.operation
        if op.name == IMPORT:
            op.results[0].replace_all_uses_with(new)
        elif op.name == "hal.buffer_view.dim":
            _dim(op, new)
        elif op.name == "hal.buffer_view.rank":
            rank = tensor_rank(op, new)
            op.results[0].replace_all_uses_with(rank)
        else:
            raise CompileError(f"'{op.name}' is not supported in host code", location_of(op),
                               "of a buffer view only its sizes and the tensor can be asked for")  # fmt: skip
        op.detach()
        op.erase()
    block.erase_arg(cast(Any, argument))


def _before(op: Operation, new: Operation) -> SSAValue:
    block = op.parent
    assert block is not None
    set_location(new, op)
    block.insert_op_before(new, op)
    return new.results[0]


def tensor_rank(op: Operation, value: SSAValue) -> SSAValue:
    """The rank of a tensor as a constant before `op`."""
    return _before(op, arith.ConstantOp(IntegerAttr(cast(Any, value.type).get_num_dims(), IndexType())))


def _dim(op: Operation, value: SSAValue) -> None:
    axis = op.properties.get("index", op.attributes.get("index"))
    assert isinstance(axis, IntegerAttr)
    index = _before(op, arith.ConstantOp(IntegerAttr(axis.value.data, IndexType())))
    op.results[0].replace_all_uses_with(_before(op, tensor.DimOp(value, index)))
