"""Conversion of functions over `!hal.buffer_view` to functions over tensors; callers pass and receive arrays either
way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FunctionType, IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal.device import BufferViewType
from pydispatch.ir.dialects.hal.tensor import TensorExportOp, TensorImportOp
from pydispatch.ir.functions import CALLS, RETURNS, callee_name

IMPORT, EXPORT, ALIAS = "hal.tensor.import", "hal.tensor.export", "hal.tensor.alias"
"""Conversion of a buffer view to a tensor, of a tensor to a buffer view, store of a tensor in the caller's memory."""


def buffer_views_to_tensors(functions: Mapping[str, Operation]) -> None:
    """Convert host functions over buffer views to functions over tensors, in place.

    Raise CompileError for a buffer view of unknown tensor type, and for writes to the caller's memory.
    """
    converted: set[str] = set()
    for name in functions:
        _convert(name, functions, converted)


def _convert(name: str, functions: Mapping[str, Operation], converted: set[str]) -> None:
    """Convert a function from buffer views, opaque handles of tensors, to tensors, after its callees.

    Calls of functions that are missing or have no body are left to later passes, which convert or refuse them.

    Args:
        name: Name of the function.
        functions: Name → function.
        converted: Names of the functions that were converted before, or whose callees are being converted.
    """
    function = functions.get(name)
    if name in converted or function is None or not function.regions[0].blocks:
        return
    converted.add(name)
    # Callees first: their calls then pass and return tensors.
    for op in list(walk(function)):
        if op.name == ALIAS:
            raise CompileError(
                f"'{ALIAS}' writes into memory of the caller", location_of(op),
                "return the tensor: a caller that wants it in an array of its own passes out=",
            )  # fmt: skip
        if op.name in CALLS and any(_is_view(v) for v in (*op.operands, *op.results)):
            _convert(callee_name(op), functions, converted)
            if callee_name(op) in functions:
                _call_with_tensors(op, cast(FunctionType, functions[callee_name(op)].properties["function_type"]))
    # Arguments, then imports of tensors that this function exports, then results.
    entry = function.regions[0].blocks[0]
    for argument in entry.args:
        if _is_view(argument):
            _convert_argument(entry, argument)
    for op in list(walk(function)):
        if op.name == IMPORT and (exported := _exported(op.operands[0])) is not None:
            _import_of_export(op, exported)  # the import of an exported tensor is that tensor
    _return_tensors(function)


def _return_tensors(function: Operation) -> None:
    """Make a function return the exported tensors instead of buffer views."""
    type = cast(FunctionType, function.properties["function_type"])
    outputs = list(type.outputs)
    blocks = list(function.regions[0].blocks)
    for block in blocks:
        last = block.last_op
        if last is not None and last.name in RETURNS:
            operands: list[SSAValue] = []
            for value in last.operands:
                exported_tensor = _exported(value)  # None for a value that is no exported tensor
                operands.append(value if exported_tensor is None else exported_tensor)
            last.operands = operands
            outputs = [v.type for v in operands]
    function.properties["function_type"] = FunctionType.from_lists([a.type for a in blocks[0].args], outputs)
    for op in list(function.regions[0].walk(reverse=True)):
        if op.name == EXPORT and not list(op.results[0].uses):
            erase_op(op)


def _exported(value: SSAValue) -> SSAValue | None:
    """Return the tensor that a buffer view was exported from; None for other values."""
    return value.op.operands[0] if isinstance(value, OpResult) and value.op.name == EXPORT else None


def _is_view(value: SSAValue) -> bool:
    """Return whether a value is a buffer view."""
    return isinstance(value.type, BufferViewType)


def _call_with_tensors(call: Operation, type: FunctionType) -> None:
    """Adapt a call to a callee that was converted to tensors: import its arguments before it, export its
    results after.

    Args:
        call: The call, which passes and returns buffer views.
        type: Type of the callee, over tensors.
    """
    if (len(type.inputs), len(type.outputs)) != (len(call.operands), len(call.results)):
        return  # inlining refuses the call, and states both signatures
    operands = [_imported(call, value, input) for value, input in zip(call.operands, type.inputs, strict=True)]
    # For each result of the call: whether the converted callee returns a tensor instead of a buffer view.
    becomes_tensor = [
        _is_view(result) and isinstance(output, TensorType)
        for result, output in zip(call.results, type.outputs, strict=True)
    ]
    result_types = [
        output if is_tensor else result.type
        for result, output, is_tensor in zip(call.results, type.outputs, becomes_tensor, strict=True)
    ]
    new_call = cast(Any, call).create(
        operands=operands, result_types=result_types, properties=call.properties, attributes=call.attributes
    )
    for old, new, is_tensor in zip(call.results, _insert_before(call, new_call), becomes_tensor, strict=True):
        replacement = new
        if is_tensor:
            export_op = TensorExportOp(operands=[new, []], result_types=[old.type])  # no sizes
            (replacement,) = _insert_before(call, export_op)
        replacement.name_hint = old.name_hint
        old.replace_all_uses_with(replacement)
    erase_op(call)


def _imported(call: Operation, value: SSAValue, type: Attribute) -> SSAValue:
    """Return the argument that a call passes for `value`: a buffer view is imported if the callee takes a tensor."""
    if not _is_view(value) or not isinstance(type, TensorType):
        return value
    import_op = TensorImportOp(operands=[value, [], []], result_types=[type])  # no sizes and no fence
    (tensor,) = _insert_before(call, import_op)
    return tensor


def _import_of_export(op: Operation, value: SSAValue) -> None:
    """Replace the result of an import by the tensor whose export created the imported buffer view.

    A cast is inserted if the static sizes of the two types differ. Raise CompileError if the element types or ranks
    differ.

    Args:
        op: The import.
        value: The exported tensor.
    """
    type = cast("TensorType[Any]", op.results[0].type)
    if value.type != type:
        exported = cast("TensorType[Any]", value.type)
        if (exported.element_type, exported.get_num_dims()) != (type.element_type, type.get_num_dims()):
            raise CompileError(f"a buffer view of {exported} is imported as {type}", location_of(op),
                               "import it with its type")  # fmt: skip
        (value,) = _insert_before(op, tensor.CastOp(value, type))
    op.results[0].replace_all_uses_with(value)
    erase_op(op)


def _imported_type(argument: SSAValue, uses: Sequence[Operation]) -> Attribute:
    """Return the tensor type that a function imports a buffer view as. Raises CompileError for none, or several."""
    imports = [op for op in uses if op.name == IMPORT]
    if not imports:
        raise CompileError("the type of this buffer view is not known", location_of(argument),
                           "take it with hal.tensor.import, or give the function tensors")  # fmt: skip
    types: set[Attribute] = {op.results[0].type for op in imports}
    if len(types) != 1:
        raise CompileError(f"a buffer view is imported as {', '.join(sorted(map(str, types)))}",
                           location_of(imports[0]), "import it once and cast the tensor")  # fmt: skip
    return types.pop()


def _convert_argument(block: Block, argument: SSAValue) -> None:
    """Convert an argument of a function from a buffer view to the tensor type that the function imports it as.

    An argument without uses stays a buffer view. Raise CompileError if there is no such type, or several.

    Args:
        block: The entry block of the function.
        argument: The argument, of that block.
    """
    uses = [use.operation for use in argument.uses]
    if not uses:
        return
    new = block.insert_arg(_imported_type(argument, uses), cast(Any, argument).index)
    new.name_hint = argument.name_hint
    for op in uses:
        if op.name == IMPORT:
            op.results[0].replace_all_uses_with(new)
        elif op.name == "hal.buffer_view.dim":
            _replace_dim(op, new)
        elif op.name == "hal.buffer_view.rank":
            op.results[0].replace_all_uses_with(_index_constant(op, cast(Any, new.type).get_num_dims()))
        elif op.name in RETURNS:
            op.operands = [new if value is argument else value for value in op.operands]
            continue  # all other uses are replaced by values, and erased
        elif op.name in CALLS:
            raise CompileError(f"'@{callee_name(op)}' takes a buffer view of which it does not say the type",
                               location_of(op), "take it there with hal.tensor.import")  # fmt: skip
        else:
            raise CompileError(f"'{op.name}' is not supported in host code", location_of(op),
                               "of a buffer view only its sizes and the tensor can be asked for")  # fmt: skip
        erase_op(op)
    block.erase_arg(cast(Any, argument))


def _insert_before(op: Operation, new: Operation) -> Sequence[SSAValue]:
    """Insert `new` before `op`, and return its results."""
    block = op.parent
    assert block is not None
    set_location(new, op)
    block.insert_op_before(new, op)
    return new.results


def _index_constant(op: Operation, value: int) -> SSAValue:
    """Insert an index constant before `op`, and return it."""
    return _insert_before(op, arith.ConstantOp(IntegerAttr(value, IndexType())))[0]


def _replace_dim(op: Operation, value: SSAValue) -> None:
    """Replace `hal.buffer_view.dim` by `tensor.dim` of the tensor `value`."""
    axis = op.properties.get("index", op.attributes.get("index"))
    assert isinstance(axis, IntegerAttr)
    (size,) = _insert_before(op, tensor.DimOp(value, _index_constant(op, axis.value.data)))
    op.results[0].replace_all_uses_with(size)
