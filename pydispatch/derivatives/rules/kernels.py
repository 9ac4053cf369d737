"""Derivatives of kernels written in Python, which `pydispatch.vjp` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.graph.dtypes import of_element
from pydispatch.graph.values import Tensor
from pydispatch.kernels.kernel import KernelSource
from pydispatch.kernels.module import Lowered
from pydispatch.operations import shapes
from pydispatch.programs.array import Array
from pydispatch.programs.launch import launch
from pydispatch.programs.trace import Trace


def _call(cotangents: Cotangents, op: Operation) -> None:
    """Add the gradients of a kernel's arguments to the cotangents, by a call of its rule: the kernel or program that
    `pydispatch.vjp` names to compute them.

    The rule may take, by name, the arguments and results of the kernel and, as `dx` for a result `x`, the gradients of
    the results. For a kernel `scale(x, s, y)` that computes y = s * x, these are x, s, y and dy. The rule computes the
    gradient of x, which is added to the cotangent of the operand of the call that is passed as x. Of a view that the
    kernel overwrites without reading, such as y, only the result can be taken: its elements before the call have no
    effect.

    Raise CompileError for a kernel without a rule, and for an array that the kernel reads and changes, if its gradient
    is needed: the name `x` would mean both the argument and the result.
    """
    assert isinstance(op, func.CallOp)
    kernel, lowered = _called(cotangents, op)
    if kernel.derivative is None:
        raise cotangents.trace.fail(
            f"kernel '{kernel.name}' has no derivative",
            f"name its backward kernel: pydispatch.vjp({kernel.name}, {kernel.name}_backward)",
        )
    rule, names = kernel.derivative  # names: the arguments whose gradients the rule computes
    # Parameter that is passed at run time → operand of the call. The grid, if it is an argument, follows in the call.
    operands = {parameter.name: value for parameter, value in zip(kernel.passed, op.operands, strict=False)}
    for position in set(lowered.written) - set(lowered.overwritten):
        name = kernel.passed[position].name
        if operands[name] in cotangents.active:
            raise cotangents.refuse(f"the array that kernel '{kernel.name}' takes as '{name}' and changes")

    # What the rule takes: arguments, results and the gradients of these; their names must differ.
    overwritten = [kernel.passed[position].name for position in lowered.overwritten]
    taken = {name: value for name, value in operands.items() if name not in overwritten}
    # An argument or a result `dy` beside a result `y`: the rule could not tell it from the gradient.
    results = [kernel.passed[position].name for position in lowered.written]
    ambiguous = next((f"d{name}" for name in results if f"d{name}" in taken or f"d{name}" in results), None)
    if ambiguous is not None:
        raise cotangents.trace.fail(
            f"kernel '{kernel.name}' has an argument '{ambiguous}', and its derivative takes a gradient of that name",
            "rename the argument",
        )
    of_results = _of_results(cotangents, kernel, lowered, op)  # y: the result, dy: its gradient
    values = {**of_results, **_arrays(cotangents, taken)}
    gradients = _gradients(cotangents, kernel, rule, names, values)
    cotangents.add_stated(rule.name, {name: operands[name] for name in names}, gradients)


def _called(cotangents: Cotangents, op: func.CallOp) -> tuple[KernelSource, Lowered]:
    """Return the kernel that is called, and its lowering. Raise CompileError for a function that is no kernel."""
    name = op.callee.string_value()
    for (kernel, _takes_grid), (lowered, function) in cotangents.trace.kernel_functions.items():
        if function.sym_name.data == name:
            return kernel, lowered
    raise cotangents.refuse(f"the function '{name}'")


def _of_results(cotangents: Cotangents, kernel: KernelSource, lowered: Lowered, op: func.CallOp) -> dict[str, Array]:
    """Return the results of a kernel call, by the names of its written parameters, and their gradients.

    The gradient of a result `y` is under the name `dy`, and is zero if the result has no cotangent.
    """
    values = {}
    for position, result in zip(lowered.written, op.results, strict=True):
        name, gradient = kernel.passed[position].name, cotangents.of(result)
        values[name] = Array(cotangents.trace, cotangents.program_tensor(result))
        values[f"d{name}"] = Array(cotangents.trace, cotangents.zeros(result) if gradient is None else gradient)
    return values


def _arrays(cotangents: Cotangents, operands: dict[str, SSAValue]) -> dict[str, Array]:
    """Return the operands of a kernel call as arrays under their parameters' names; a number is an array of rank 0."""
    trace = cotangents.trace
    arrays = {}
    for name, value in operands.items():
        if isinstance(value.type, TensorType):
            tensor = cotangents.program_tensor(value)
        else:
            tensor = trace.wrap(of_element(value.type), (), trace.splat(value, ()))
        arrays[name] = Array(trace, tensor)
    return arrays


def _gradients(
    cotangents: Cotangents, kernel: KernelSource, rule: Any, names: Sequence[str], values: dict[str, Array]
) -> list[Tensor]:
    """Call the rule of a kernel, and return the gradients of its arguments `names` as tensors, in this order.

    For a kernel `scale(x, s, y)` that computes y = s * x, and the names ["x"], the rule is either a kernel
    `backward(s, dy, dx)` that writes the gradient of x into dx, or a program `backward(s, dy)` that returns it.

    Args:
        cotangents: Cotangents of the program.
        kernel: The kernel whose derivative the rule is.
        rule: A kernel that writes the gradients into arrays of zeros, or a program that returns them. Its parameters
            have names that are keys of `values`; a kernel also has `dx` for each `x` in `names`.
        names: Arguments of `kernel` whose gradients the rule computes.
        values: Arguments and results of the kernel, and gradients of the results, by name.
    """
    trace = cotangents.trace
    if isinstance(rule, KernelSource):
        # Launching the kernel gives the arrays that it writes new tensors.
        written = {f"d{name}": Array(trace, _zeros_like(trace, values[name].tensor)) for name in names}
        arguments = _by_name(trace, kernel, rule, [parameter.name for parameter in rule.passed], {**values, **written})
        launch(rule, arguments, grid=None)  # None: the grid that the rule itself states
        return [gradient.tensor for gradient in written.values()]
    # Parameters of a program without a type are static: the program itself holds their values.
    parameters = [name for name, type in rule.parameters.items() if type is not None]
    arguments = _by_name(trace, kernel, rule, parameters, values)
    returned = rule.traced(**dict(zip(parameters, arguments, strict=True)))
    return [trace.tensor_of(gradient) for gradient in rule.named(trace, returned).values()]


def _zeros_like(trace: Trace, like: Tensor) -> Tensor:
    """Return zeros with the type and shape of a tensor."""
    return shapes.full(trace, 0, like.shape, like.dtype)


def _by_name(
    trace: Trace, kernel: KernelSource, rule: Any, names: Sequence[str], values: dict[str, Array]
) -> list[Array]:
    """Return the values of a rule's parameters, `names`, in order. Raise CompileError for a name without a value.

    kernel: the kernel whose derivative the rule is, for the message.
    """
    unknown = next((name for name in names if name not in values), None)
    if unknown is not None:
        raise trace.fail(
            f"the derivative '{rule.name}' of '{kernel.name}' takes '{unknown}'; it may take {', '.join(values)}"
        )
    return [values[name] for name in names]


KERNEL_RULES: dict[str, Rule] = {"func.call": _call}
"""Name of an operation → its derivative."""
