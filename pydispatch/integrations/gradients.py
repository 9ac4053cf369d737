"""Derivatives of kernels and programs in Python, which are registered with their PyTorch and JAX operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch._core.public import PublicFunction
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.called_kernels import Kernel
from pydispatch.integrations.interface import public_function
from pydispatch.integrations.python_programs import TracedProgram
from pydispatch.patterns.types import TensorType


@dataclass(frozen=True)
class Gradient:
    """Function that computes the gradients of some arguments of another function.

    `positions` has the indices of these arguments, in the order of the results of the rule.
    """

    rule: PublicFunction
    positions: tuple[int, ...]


def vjp(function: Kernel | TracedProgram, rule: TracedProgram, wrt: Sequence[str] | None = None) -> None:
    """Set the derivative of a kernel or a program in Python; `to_torch` and `to_jax` register it with the function.

    Args:
        function: kernel or program whose derivative is set.
        rule: a program (`@pydispatch.program`). Its arguments are those of the function, followed by the gradient of
            each result. The results of a kernel are the views that it writes, in the order of its parameters. The rule
            returns the gradients of the arguments in `wrt`, in that order, with the types and shapes of the arguments.
        wrt: names of the arguments that have gradients; by default all arrays of floats except those that a kernel
            writes. Other arguments have no gradient.

    Raises:
        InvalidArgumentError: for objects of other types, and for names that are not arrays among the arguments.
        CompileError: for a function that is not a valid kernel.
    """
    if not isinstance(function, Kernel | TracedProgram):
        raise InvalidArgumentError(f"vjp: function: expected a kernel or a program in Python, got {function!r}")
    if not isinstance(rule, TracedProgram):
        raise InvalidArgumentError(f"vjp: rule: expected a program in Python (@pydispatch.program), got {rule!r}")
    types = _types(function)
    arrays = [name for name, type_ in types.items() if type_.shape is not None]
    names = _default(function, types) if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
    if not names or not set(names) <= set(arrays):
        raise InvalidArgumentError(
            f"vjp: wrt: expected names of arrays among the arguments of '{function.name}' ({', '.join(arrays)}), got "
            f"{names if wrt is None else wrt!r}"
        )
    function.derivative = rule, tuple(list(types).index(name) for name in names)


def loaded(value: Any) -> tuple[PublicFunction, Gradient | None]:
    """Return a function on the CPU and its derivative, or None. Kernels and programs in Python are compiled for this
    CPU.

    Raises:
        InvalidArgumentError: The object is no function, or the derivative does not match it.
    """
    if not isinstance(value, Kernel | TracedProgram):
        return public_function(value), None
    function = _function(value)
    if value.derivative is None:
        return function, None
    rule, positions = value.derivative
    derivative = _function(rule)
    inputs = [argument.type for argument in (*function.inputs, *function.outputs)]
    types = [argument.type for argument in derivative.inputs]
    results = [(function.inputs[i].dtype, len(function.inputs[i].shape or ())) for i in positions]
    if [(v.dtype, len(v.shape or ())) for v in derivative.inputs] != [
        (v.dtype, len(v.shape or ())) for v in (*function.inputs, *function.outputs)
    ]:
        raise InvalidArgumentError(
            f"the derivative '{rule.name}' of '{value.name}' takes ({', '.join(map(str, types))}); expected its "
            f"arguments and a gradient for each result, ({', '.join(map(str, inputs))})"
        )
    if [(v.dtype, len(v.shape or ())) for v in derivative.outputs] != results:
        names = ", ".join(function.inputs[i].name for i in positions)
        raise InvalidArgumentError(
            f"the derivative '{rule.name}' of '{value.name}' gives "
            f"({', '.join(str(v.type) for v in derivative.outputs)}); expected the gradients of {names}, of their types"
        )
    return function, Gradient(derivative, positions)


def _function(value: Kernel | TracedProgram) -> PublicFunction:
    """Compile a kernel or program for this CPU, and return its function."""
    import pydispatch

    artifact = pydispatch.compile(value, targets="cpu", cpu="native")
    return public_function(pydispatch.device("cpu").load(artifact).functions[value.name])


def _types(function: Kernel | TracedProgram) -> dict[str, TensorType]:
    """Return the types of the arguments by name."""
    if isinstance(function, Kernel):
        return {parameter.name: parameter.type for parameter in function.passed if parameter.type is not None}
    return {name: type_ for name, type_ in function.parameters.items() if type_ is not None}


def _default(function: Kernel | TracedProgram, types: dict[str, TensorType]) -> list[str]:
    """Return the arguments that have gradients by default: float arrays that a kernel does not write."""
    written = [function.passed[i].name for i in function.written] if isinstance(function, Kernel) else []
    return [
        name for name, type_ in types.items()
        if type_.shape is not None and "f" in type_.dtype and name not in written
    ]  # fmt: skip
