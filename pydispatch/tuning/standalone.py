"""Extraction of a dispatch into a function of its own, by which it is compiled and measured alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.analysis.kinds import CONSTANTS, is_view
from pydispatch.compiler.flatten.inline import DERIVED
from pydispatch.formats.artifact.dispatches import DispatchEntry
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.functions import FUNCTIONS, symbol_name


def is_constant(value: SSAValue) -> bool:
    """Return whether a value is a constant or a view of one."""
    while isinstance(value, OpResult) and len(value.op.operands) == 1 and is_view(value.op):
        value = value.op.operands[0]
    return isinstance(value, OpResult) and value.op.name in CONSTANTS


def dispatches_of(module: ModuleOp) -> dict[tuple[str, str], list[flow.DispatchOp]]:
    """Return the dispatches of host functions, by the names (executable, export), except those of load-time
    initializers.
    """
    dispatches: dict[tuple[str, str], list[flow.DispatchOp]] = {}
    for host in module.body.block.ops:
        if host.name in FUNCTIONS and DERIVED not in host.attributes:
            for op in walk(host):
                if isinstance(op, flow.DispatchOp):
                    entry = op.entry_point
                    names = entry.root_reference.data, entry.nested_references.data[-1].data
                    dispatches.setdefault(names, []).append(op)
    return dispatches


def fewest_constants(uses: Sequence[flow.DispatchOp]) -> flow.DispatchOp:
    """Return the dispatch of an export that passes the fewest constants.

    A constant operand may be packed for the kernel before the first call, but only if all dispatches of the export pass
    a constant there. The dispatch with the fewest constants lets the trial assume the least.
    """
    return min(uses, key=lambda use: sum(map(is_constant, use.arguments)))


def can_run_standalone(dispatch: flow.DispatchOp) -> bool:
    """Return whether a dispatch has one entry point and static sizes only, so that arguments can be generated."""
    values = (*dispatch.arguments, *dispatch.results)
    static = all(v.type.has_static_shape() for v in values if isinstance(v.type, TensorType))
    sizes = (*dispatch.workload, *dispatch.argument_dims, *dispatch.result_dims)
    return static and len(dispatch.entry_points.data) == 1 and all(is_constant(v) for v in sizes)


def add_standalone(
    module: ModuleOp, executable: Operation, export: str, use: flow.DispatchOp, trial: int
) -> DispatchEntry:
    """Add a function that runs a copy of a dispatch, called `trial_0` if `trial` is 0, and the dispatch's executable.

    Tensors that are not constants become arguments of the function. Constant tensors are replaced by splats, since
    their values do not affect the time. Constant scalars are copied, and other scalars become 1.

    Example: for `%c = flow.dispatch @exe::@matmul(%a, %b)`, where %b is a constant, the module receives

        func.func public @trial_0(%0: tensor<64x32xf32>) -> tensor<64x16xf32> {
          %1 = arith.constant dense<0.5> : tensor<32x16xf32>
          %2 = flow.dispatch @executable_0::@matmul_0(%0, %1) : ...
          return %2 : tensor<64x16xf32>
        }

    Args:
        module: Module that receives the executable and the function.
        executable: Copy of the executable, which is renamed and moved to `module`. The export of a `flow.executable` is
            renamed, too.
        export: Name of the export in `executable`.
        use: Dispatch of the export that is copied.
        trial: Number that makes the names unique in the module.

    Returns:
        The new names of the executable and of the export.
    """
    name, new_export = f"executable_{trial}", export
    executable.properties["sym_name"] = StringAttr(name)
    # The compilation may merge `flow.executable`s into one, where the names of exports must differ.
    if isinstance(executable, flow.ExecutableOp):
        new_export = f"{export}_{trial}"
        for op in walk(executable):
            if "sym_name" in op.properties and symbol_name(op) == export:
                op.properties["sym_name"] = StringAttr(new_export)
    module.body.block.add_op(executable)
    # The function, which calls the export by its new name.
    module.body.block.add_op(_host(use, SymbolRefAttr(name, [StringAttr(new_export)]), f"trial_{trial}"))
    return DispatchEntry(name, new_export, ops=())


def _host(use: flow.DispatchOp, entry: SymbolRefAttr, name: str) -> func.FuncOp:
    """Return a host function called `name`, which runs a copy of the dispatch `use` with the entry point `entry`."""
    block = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for value in use.operands:
        if value not in mapping:
            mapping[value] = _replacement_operand(block, value)
    dispatch = use.clone(mapping)
    dispatch.properties["entry_points"] = ArrayAttr([entry])
    block.add_op(dispatch)
    block.add_op(func.ReturnOp(*dispatch.results))
    types = [v.type for v in block.args], [v.type for v in dispatch.results]
    return func.FuncOp(name, types, Region(block), visibility="public")


def _replacement_operand(block: Block, value: SSAValue) -> SSAValue:
    """Return the replacement for an operand of a dispatch: an argument of the function, or a constant.

    The time of a dispatch is not expected to depend on values: constant tensors become splats, and unknown scalars 1.
    Constant scalars are copied, as they may be sizes.
    """
    if isinstance(value.type, TensorType):
        if not is_constant(value):
            return block.insert_arg(value.type, len(block.args))
        return _insert(block, _splat(value.type))
    if isinstance(value, OpResult) and value.op.name in CONSTANTS:
        return _insert(block, value.op.clone())
    return _insert(block, _scalar_one(value.type))


def _insert(block: Block, op: Operation) -> SSAValue:
    """Append `op` to `block`, and return its first result."""
    block.add_op(op)
    return op.results[0]


def _splat(type_: TensorType[Any]) -> Operation:
    """Return a constant tensor of 0.5 or 1: values that neither vanish nor overflow."""
    value = 0.5 if isinstance(type_.element_type, AnyFloat) else 1
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [value]), type_)


def _scalar_one(type_: Attribute) -> Operation:
    """Return a constant 1 of a float, integer or index type."""
    if isinstance(type_, AnyFloat):
        return arith.ConstantOp(FloatAttr(1.0, type_))
    assert isinstance(type_, IntegerType | IndexType)
    return arith.ConstantOp(IntegerAttr(1, type_))
