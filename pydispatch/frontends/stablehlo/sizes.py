"""Names and lower bounds of the dynamic sizes of arguments. JAX passes them as arguments from `main` to the function
proper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.frontends.mlir.trace import ArgumentAxis
from pydispatch.frontends.stablehlo.types import shape_of


class LowerBound(NamedTuple):
    """Lower bound of a dynamic size, and the error message of calls with a smaller size."""

    least: int
    message: str


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
            joined, kept = equal[b], equal[a]  # the representatives of two sets, which become one
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


def bounds_of_sizes(entry: func.FuncOp, names: Mapping[ArgumentAxis, str]) -> dict[str, LowerBound]:
    """Return the lower bounds of dynamic sizes of arguments, by name, that assertions of a function state.

    JAX asserts that each size is at least 1, and computes with sizes as if they were. Of several bounds
    of one size the largest counts. Bounds of 0 or less are left out: every size satisfies them.
    """
    bounds: dict[str, LowerBound] = {}
    for op, (size, bound) in _comparisons(entry, "GE"):
        # (-1, -1) is no key of `names`: values that are no size of an argument have no name.
        name, least = names.get(_argument_axis(size, entry) or (-1, -1)), _constant(bound)
        if name is not None and least is not None and least > (bounds[name].least if name in bounds else 0):
            message = op.properties.get("error_message") or op.attributes.get("error_message")
            text = message.data if isinstance(message, StringAttr) else f"the size {name} is less than {least}"
            bounds[name] = LowerBound(least, text)
    return bounds


def _constant(value: SSAValue) -> int | None:
    """Return the integer of a constant of one element; None for other values."""
    elements = getattr(value.owner, "properties", {}).get("value")
    if not isinstance(elements, DenseIntOrFPElementsAttr) or elements.type.get_shape() != ():
        return None
    (element,) = elements.get_values()
    return element if isinstance(element, int) else None


def _asserted(entry: func.FuncOp) -> list[tuple[ArgumentAxis, ArgumentAxis]]:
    """Return the pairs of sizes of arguments that assertions state to be equal."""
    pairs = ((_argument_axis(lhs, entry), _argument_axis(rhs, entry)) for _, (lhs, rhs) in _comparisons(entry, "EQ"))
    return [(lhs, rhs) for lhs, rhs in pairs if lhs is not None and rhs is not None]


def _comparisons(entry: func.FuncOp, direction: str) -> Iterator[tuple[Operation, tuple[SSAValue, SSAValue]]]:
    """Yield each `shape_assertion`, a custom call that JAX emits, whose condition is a comparison in a direction such
    as "EQ", with the two operands of the comparison.
    """
    for op in entry.body.blocks[0].ops:
        target = op.properties.get("call_target_name")
        if not isinstance(target, StringAttr) or target.data != "shape_assertion" or not op.operands:
            continue
        test = op.operands[0].owner
        stated = getattr(test, "properties", {}).get("comparison_direction")
        if isinstance(test, Operation) and stated is not None and stated.data == direction:
            lhs, rhs = test.operands
            yield op, (lhs, rhs)


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
