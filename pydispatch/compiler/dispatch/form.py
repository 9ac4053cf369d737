"""Outlines what is left on tensors in host functions into executables (`flow.executable`).

A group of elementwise operations becomes one function over tensors and one `flow.dispatch`. All tensors of a group
have the same sizes, so its dispatch is one-dimensional: the workload is the number of elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.dispatch.fusion import form_groups, inputs_of
from pydispatch.compiler.dispatch.regions import outline_regions
from pydispatch.ir import flow
from pydispatch.ir.location import set_location

HOST_FUNCTIONS = ("func.func", "util.func")


def host_functions(module: ModuleOp) -> list[Operation]:
    """The functions of the host program that have a body, in order."""
    return [op for op in module.body.block.ops if op.name in HOST_FUNCTIONS and op.regions[0].blocks]


def symbol_name(op: Operation) -> str:
    """The name that an operation defines."""
    name = op.properties.get("sym_name", op.attributes.get("sym_name"))
    assert isinstance(name, StringAttr)
    return name.data


def form_dispatches(module: ModuleOp) -> None:
    """Rewrites every host function of `module` in place; executables are put in front of its function."""
    outline_regions(module, [(symbol_name(function), function) for function in host_functions(module)])
    for function in host_functions(module):
        name = symbol_name(function)
        for block in function.regions[0].blocks:
            for number, group in enumerate(form_groups(block)):
                executable = _outline(group, f"{name}_dispatch_{number}")
                module.body.block.insert_op_before(executable, function)
            sort_topologically(block)


def is_splat(value: SSAValue) -> bool:
    """True for a constant tensor whose elements are all equal."""
    if not isinstance(value, OpResult) or value.op.name != "arith.constant":
        return False
    attribute = value.op.properties.get("value")
    return isinstance(attribute, DenseIntOrFPElementsAttr) and attribute.is_splat()


def _outline(group: list[Operation], name: str) -> flow.ExecutableOp:
    """Moves `group` into a new executable and puts a dispatch of it in its place."""
    members = set(group)
    inputs: dict[SSAValue, None] = {}
    splats: dict[SSAValue, None] = {}
    for op in group:
        for value in op.operands:
            if isinstance(value, OpResult) and value.op in members:
                continue
            (splats if is_splat(value) else inputs)[value] = None
    outputs = [r for op in group for r in op.results if any(use.operation not in members for use in r.uses)]
    if not outputs:
        outputs = list(group[-1].results)
    tensors = [v for v in inputs if isinstance(v.type, TensorType)]
    scalars = [v for v in inputs if not isinstance(v.type, TensorType)]

    last = group[-1]
    block = last.parent
    assert block is not None
    dims, count = _sizes(block, last, outputs[0].type, tensors)
    workload = [] if count is None else [count]
    arguments = [*tensors, *scalars, *workload]
    function = _function(group, arguments, list(splats), outputs, export_name(name, outputs[0].type))
    dispatch = flow.DispatchOp(
        operands=[workload, arguments, [d for _ in tensors for d in dims], [d for _ in outputs for d in dims]],
        result_types=[[o.type for o in outputs]],
        properties={"entry_points": ArrayAttr([SymbolRefAttr(name, [function.sym_name.data])])},
    )
    set_location(dispatch, group[0])
    block.insert_op_before(dispatch, last)
    for output, result in zip(outputs, dispatch.results, strict=True):
        result.name_hint = output.name_hint
        output.replace_all_uses_with(result)
    for op in reversed(group):
        op.detach()
        op.erase(safe_erase=False)
    export = flow.ExecutableExportOp.create(
        properties={"sym_name": StringAttr(function.sym_name.data), "sym_visibility": StringAttr("public")},
        regions=[Region()],
    )
    inner = ModuleOp([function])
    executable = flow.ExecutableOp.create(
        properties={"sym_name": StringAttr(name), "sym_visibility": StringAttr("private")},
        regions=[Region(Block([export, inner]))],
    )
    for op in (executable, export, inner, function):
        set_location(op, dispatch)
    return executable


def export_name(name: str, type: Attribute) -> str:
    """`f_dispatch_0` and `tensor<?x4xf32>` → `f_dispatch_0_elementwise_Dx4xf32`."""
    assert isinstance(type, TensorType)
    shape = "".join(f"{'D' if d < 0 else d}x" for d in type.get_shape())
    return f"{name}_elementwise_{shape}{type.element_type}"


def _sizes(
    block: Block, at: Operation, type: Attribute, tensors: Sequence[SSAValue]
) -> tuple[list[SSAValue], SSAValue | None]:
    """Values of the dynamic sizes and of the number of elements (None when it is static), made in front of `at`."""
    assert isinstance(type, TensorType)
    shape = type.get_shape()
    if all(d >= 0 for d in shape):
        return [], None

    def add(op: Operation) -> SSAValue:
        block.insert_op_before(op, at)
        set_location(op, at)
        return op.results[0]

    dims: list[SSAValue] = []
    factors: list[SSAValue] = []
    for axis, size in enumerate(shape):
        if size < 0:
            index = add(arith.ConstantOp.from_int_and_width(axis, IndexType()))
            dims.append(add(tensor.DimOp(tensors[0], index)))
            factors.append(dims[-1])
        elif size != 1:
            factors.append(add(arith.ConstantOp.from_int_and_width(size, IndexType())))
    count = factors[0]
    for factor in factors[1:]:
        count = add(arith.MuliOp(count, factor))
    return dims, count


def _function(
    group: list[Operation],
    arguments: Sequence[SSAValue],
    splats: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    name: str,
) -> func.FuncOp:
    """The group as a function over its inputs."""
    body = Block(arg_types=[a.type for a in arguments])
    mapping: dict[SSAValue, SSAValue] = dict(zip(arguments, body.args, strict=True))
    for argument, inner in zip(arguments, body.args, strict=True):
        inner.name_hint = argument.name_hint
    for op in [*(s.owner for s in splats), *group]:
        assert isinstance(op, Operation)
        copy = op.clone(mapping)
        set_location(copy, op)
        body.add_op(copy)
    body.add_op(func.ReturnOp(*(mapping[o] for o in outputs)))
    types = ([a.type for a in arguments], [o.type for o in outputs])
    return func.FuncOp(name, types, Region(body))


def sort_topologically(block: Block) -> None:
    """Reorders a block so that every value stands before its uses; keeps the order otherwise."""
    ops = list(block.ops)
    placed: set[Operation] = set()
    order: list[Operation] = []

    def place(op: Operation) -> None:
        stack = [op]
        while stack:
            top = stack[-1]
            if top in placed:
                stack.pop()
                continue
            missing = [
                v.op for v in inputs_of(top) if isinstance(v, OpResult) and v.op.parent is block and v.op not in placed
            ]  # fmt: skip
            if missing:
                stack += reversed(missing)
            else:
                placed.add(top)
                order.append(top)
                stack.pop()

    for op in ops:
        place(op)
    if order != ops:
        for op in ops:
            op.detach()
        block.add_ops(order)
