"""Lowering of functions over bindings and operands (`stream`) to kernel IR, which accesses them through
`hal.interface`.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IndexType, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.kernel import Binding, Layout
from pydispatch.compiler.kernel_ir.readers import KERNEL_RETURNS
from pydispatch.compiler.kernel_ir.words import words_of
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects import stream
from pydispatch.ir.dialects.hal import dialect as hal

# Query of the workgroup id, count or size in a program, such as "flow.dispatch.workgroup.id" -> the operation for it in
# kernels.
WORKGROUP_QUERIES = {
    f"{dialect}.dispatch.workgroup.{quantity}": op
    for dialect in ("stream", "flow")
    for quantity, op in (
        ("id", hal.InterfaceWorkgroupIDOp),
        ("count", hal.InterfaceWorkgroupCountOp),
        ("size", hal.InterfaceWorkgroupSizeOp),
    )
}


def lower_interface(function: func.FuncOp, written: Collection[int] | None) -> Layout:
    """Rewrite `function` in place so that it has no arguments, and return its layout: its push constants and bindings.

    Scalar arguments become loads of push constants, and subspans of bindings name their binding by its number. Raises
    CompileError if the function has several blocks, or uses a binding other than by a subspan.

    written: numbers of the bindings that some dispatch writes; None if unknown.
    """
    if len(function.body.blocks) != 1:
        name = function.sym_name.data
        count = len(function.body.blocks) or "no"
        raise CompileError(
            f"the kernel @{name} has {count} blocks, expected one",
            location_of(function),
            "an export names a function with a body, whose control flow is scf",
        )
    # The layout: scalars become push constants, arguments of type !stream.binding bindings, in their order.
    constants = _load_scalars(function)
    bindings = [argument for argument in function.body.block.args if isinstance(argument.type, stream.BindingType)]
    ordinals: dict[object, int] = {argument: ordinal for ordinal, argument in enumerate(bindings)}
    # If it is unknown which bindings are written, none is read only.
    is_read_only = [written is not None and ordinal not in written for ordinal in range(len(bindings))]
    layout = Layout(constants, tuple(Binding(read_only=read_only) for read_only in is_read_only))
    # The accesses to bindings, after which no operation uses an argument.
    for op in list(walk(function)):
        if isinstance(op, stream.BindingSubspanOp):
            _subspan(op, ordinals, layout)
    _erase_arguments(function)
    return layout


def _load_scalars(function: func.FuncOp) -> int:
    """Replace the uses of scalar arguments by loads of push constants; return the number of 32-bit words loaded.

    A load states the index of its first word: the arguments (i32, i64, f32) have the words 0, 1 and 2, and 3.
    """
    block, word_count = function.body.block, 0
    insertion_point = block.first_op
    for argument in block.args:
        if isinstance(argument.type, stream.BindingType):
            continue
        load = hal.InterfaceConstantLoadOp.create(
            result_types=[argument.type], properties={"ordinal": IntegerAttr(word_count, IndexType())}
        )
        word_count += words_of(argument.type, location_of(function))
        load.results[0].name_hint = argument.name_hint
        set_location(load, function)
        assert insertion_point is not None
        block.insert_op_before(load, insertion_point)
        argument.replace_all_uses_with(load.results[0])
    return word_count


def _erase_arguments(function: func.FuncOp) -> None:
    """Erase the arguments of a kernel, which have been replaced; raise CompileError if a binding is still used."""
    block = function.body.block
    for argument in reversed(list(block.args)):
        if list(argument.uses):
            user = next(iter(argument.uses)).operation
            raise CompileError(f"'{user.name}' cannot use a binding directly", location_of(user),
                               "take a view of it with stream.binding.subspan")  # fmt: skip
        block.erase_arg(argument)
    function.properties["function_type"] = FunctionType.from_lists([], [])
    function.properties.pop("arg_attrs", None)


def lower_common(module: ModuleOp) -> None:
    """Lower the workgroup queries of `stream` and `flow`, and the return operations of all dialects, in the functions
    of a kernel module, to those of kernel IR.
    """
    for op in list(walk(module)):
        if op.name in WORKGROUP_QUERIES:
            query = WORKGROUP_QUERIES[op.name]
            _replace(op, query.create(result_types=[r.type for r in op.results], properties=op.properties))
        # KERNEL_RETURNS has the names of return operations. One in a region of another operation, such as the count
        # region of an export, is not lowered.
        elif op.name in KERNEL_RETURNS and isinstance(op.parent_op(), func.FuncOp) and op.name != "func.return":
            _replace(op, func.ReturnOp(*op.operands))


def _replace(op: Operation, new: Operation) -> None:
    """Replace an operation by a new one in the same place."""
    block = op.parent
    assert block is not None
    set_location(new, op)
    block.insert_op_before(new, op)
    replace_op(op, *new.results)


def _subspan(op: stream.BindingSubspanOp, ordinals: dict[object, int], layout: Layout) -> None:
    """Replace the view of a binding that is a function argument by a view of a binding of the interface.

    `stream.binding.subspan %arg1[%c64]` becomes `hal.interface.binding.subspan binding(1) offset(%c64)`. Raises
    CompileError if the binding is no argument.

    Args:
        op: The view.
        ordinals: Argument of the function → number of the binding.
        layout: The interface of the function.
    """
    if op.binding not in ordinals:
        raise CompileError("the binding of stream.binding.subspan is not an argument of the function", location_of(op))
    ordinal = ordinals[op.binding]
    flags = ArrayAttr([StringAttr("ReadOnly")] if layout.bindings[ordinal].read_only else [])
    new = hal.InterfaceBindingSubspanOp(
        operands=[[op.byte_offset], list(op.dynamic_dims)],
        result_types=[op.result.type],
        properties={"binding": IntegerAttr(ordinal, IndexType()), "flags": flags},
    )
    _replace(op, new)
