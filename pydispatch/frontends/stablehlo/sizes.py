"""Names of the dynamic sizes of arguments. JAX passes them as arguments from `main` to the function proper."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import OpResult, SSAValue

from pydispatch.frontends.mlir.trace import ArgumentAxis
from pydispatch.frontends.stablehlo.types import shape_of


def names_of_sizes(entry: func.FuncOp) -> dict[ArgumentAxis, str]:
    """Return the name of each dynamic size by argument and axis; sizes that are asserted equal have the same name.

    A size that JAX does not name is named by one of the sizes that equal it, such as d0_1 for axis 1 of argument 0.
    """
    # The dynamic sizes as (argument, axis), joined into sets of equal ones by the assertions of the program.
    arguments = entry.body.blocks[0].args
    open_axes = [(n, axis) for n, argument in enumerate(arguments) if hasattr(argument.type, "get_shape")
              for axis, size in enumerate(shape_of(argument.type)) if size is None]  # fmt: skip
    equal = {key: key for key in open_axes}  # size -> the representative of the sizes that equal it
    for a, b in _asserted(entry):
        if a in equal and b in equal:
            joined, kept = equal[b], equal[a]
            equal = {key: kept if root == joined else root for key, root in equal.items()}
    # The name of each set, by its representative: one from JAX, else one made of the representative.
    given_names = {equal[key]: name for key, name in _named(entry) if key in equal}
    names: dict[ArgumentAxis, str] = {}
    for key in open_axes:
        root = equal[key]
        names[key] = given_names.setdefault(root, f"d{root[0]}_{root[1]}")
    return names


def _argument_axis(value: SSAValue, entry: func.FuncOp) -> ArgumentAxis | None:
    """Return (argument, axis) if a value is the size of an axis of an argument of `entry`; None for other values.

    The operation `stablehlo.get_dimension_size` of argument 0 with the dimension 1 gives (0, 1).
    """
    op = value.owner if isinstance(value, OpResult) else None
    if op is None or getattr(op, "name", "") != "stablehlo.get_dimension_size":
        return None
    source = op.operands[0]
    arguments = list(entry.body.blocks[0].args)
    index = next((n for n, argument in enumerate(arguments) if argument is source), None)
    return None if index is None else (index, op.properties["dimension"].value.data)  # type: ignore[attr-defined]


def _asserted(entry: func.FuncOp) -> list[tuple[ArgumentAxis, ArgumentAxis]]:
    """Return the pairs of sizes of arguments that are equal by a `shape_assertion`, a custom call that JAX emits."""
    pairs = []
    for op in entry.body.blocks[0].ops:
        target = op.properties.get("call_target_name")
        if not isinstance(target, StringAttr) or target.data != "shape_assertion" or not op.operands:
            continue
        test = op.operands[0].owner
        direction = getattr(test, "properties", {}).get("comparison_direction")
        if direction is not None and direction.data == "EQ":
            pair = [_argument_axis(operand, entry) for operand in test.operands]
            if pair[0] is not None and pair[1] is not None:
                pairs.append((pair[0], pair[1]))
    return pairs


def _named(entry: func.FuncOp) -> list[tuple[ArgumentAxis, str]]:
    """Return the sizes that calls in `entry` pass to arguments with the attribute `jax.global_constant`, which is the
    name of the size.

    Example, where %x is argument 1 of `entry`; the result is [((1, 0), "b")]:

        %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>
        %1 = call @inner(%0, %x) : (tensor<i32>, tensor<?x6xf32>) -> tensor<?x6xf32>

        func.func private @inner(%n: tensor<i32> {jax.global_constant = "b"}, %x: tensor<?x6xf32>) -> ...
    """
    module = entry.parent_op()
    if not isinstance(module, ModuleOp):
        return []
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    named = []
    for op in entry.body.blocks[0].ops:
        callee = functions.get(op.callee.root_reference.data) if isinstance(op, func.CallOp) else None
        if callee is None or callee.arg_attrs is None:
            continue
        for operand, attributes in zip(op.operands, callee.arg_attrs, strict=False):
            name = attributes.data.get("jax.global_constant") if isinstance(attributes, DictionaryAttr) else None
            key = _argument_axis(operand, entry)
            # An argument that JAX computes from a size, such as n from 2*n, has the empty name.
            if isinstance(name, StringAttr) and name.data and key is not None:
                named.append((key, name.data))
    return named
