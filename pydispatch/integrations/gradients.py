"""Derivatives of kernels and programs in Python, which are registered with their PyTorch and JAX operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch._core.public import PublicFunction
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.called_kernels import Kernel
from pydispatch.integrations.derived_programs import Pullback
from pydispatch.integrations.interface import public_function
from pydispatch.integrations.kernel_batches import KernelBatches, load
from pydispatch.integrations.python_programs import TracedProgram
from pydispatch.patterns.types import TensorType

Rule = Kernel | TracedProgram
"""Kernel or program that computes gradients."""


@dataclass(frozen=True)
class Gradient:
    """Function that computes the gradients of some arguments of another function.

    Attributes:
        rule: The function that computes the gradients, with its own derivative if it has one.
        operands: For each argument of the rule an index into the concatenated list of the other function's arguments,
            its results, and the gradients of its results.
        positions: For each result of the rule the index of the argument of the other function that it is the gradient
            of.
    """

    rule: LoadedFunction
    operands: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True)
class LoadedFunction:
    """Function on the CPU as an operator of PyTorch or JAX.

    Attributes:
        function: The compiled function.
        gradient: Its derivative; None without one.
        batches: Versions of a kernel's function over a batch, for `vmap`; None for other functions.
    """

    function: PublicFunction
    gradient: Gradient | None = None
    batches: KernelBatches | None = None


def vjp(function: Kernel | TracedProgram, rule: Rule | None = None, wrt: Sequence[str] | str | None = None) -> Rule:
    """Set the derivative (vector-Jacobian product) of a kernel or a program in Python, and return it.

    `to_torch` and `to_jax` register the derivative with the function. `grad` and `value_and_grad` of a program use the
    rules that are given here, for the program itself and for the kernels and programs that it calls, instead of
    differentiating their operations.

    Args:
        function: kernel or program whose derivative is set.
        rule: kernel or program (`@pydispatch.program`) that computes gradients, and may have a derivative itself.
            The rule of a kernel takes what it needs by name: arguments of the kernel, `y` for a view that the kernel
            writes, and `dy` for its gradient. A kernel as a rule writes `dx`, the gradient of the argument `x`, which
            begins as zeros where the rule reads it or adds to it. A program as a rule returns the gradients of the
            arguments in `wrt`, in that order, with their types and shapes. The rule of a program is a program of all
            arguments, followed by the gradient of each result; its static parameters have the values of those of the
            program that have the same names. None: for a program, the rule is derived from its operations by reverse
            mode (docs/derivatives.md).
        wrt: names of the arguments that have gradients; by default all arrays of floats except those that a kernel
            writes. A kernel as a rule names them by the views that it writes. Other arguments have no gradient.

    Returns:
        The rule; for a program without one, the program that computes its gradients.

    Raises:
        InvalidArgumentError: for objects of other types, and for names that are not arrays among the arguments.
        CompileError: for a function that is not a valid kernel or program.

    Example:
        ```python
        @pydispatch.kernel(workgroup=64)
        def cubed(x: Vector, y: Vector) -> None:  # y = x ** 3
            ...

        @pydispatch.kernel(workgroup=64)
        def cubed_backward(x: Vector, dy: Vector, dx: Vector) -> None:  # dx = 3 * x ** 2 * dy
            ...

        pydispatch.vjp(cubed, cubed_backward)
        hidden_backward = pydispatch.vjp(hidden)  # a program, whose derivative is derived from its operations
        ```
    """
    if not isinstance(function, Rule):
        raise InvalidArgumentError(f"vjp: function: expected a kernel or a program in Python, got {function!r}")
    if rule is None:
        rule = _derived(function, wrt)
        function.derivative = rule, rule.wrt
        return rule
    if not isinstance(rule, Rule):
        raise InvalidArgumentError(
            f"vjp: rule: expected a kernel or a program in Python (@pydispatch.kernel, @pydispatch.program), got "
            f"{rule!r}; call the program that vjp(function) returns with arguments and the gradients of results"
        )
    function.derivative = rule, _arguments_with_gradients(function, rule, wrt)
    return rule


def _arguments_with_gradients(function: Rule, rule: Rule, wrt: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the names of the arguments of `function` whose gradients `rule` computes.

    If `rule` is a kernel, they are named by the views that it writes: `dx` for x. If it is a program, they are `wrt`
    or, if that is None, all arrays of floats that `function` does not write. Raise InvalidArgumentError for `wrt` with
    a kernel, and for names that are no arrays among the arguments.
    """
    types = _types(function)
    if isinstance(rule, Kernel):
        if wrt is not None:
            raise InvalidArgumentError(
                f"vjp: wrt: the kernel '{rule.name}' names the arguments that have gradients by the views that it "
                f"writes; leave it out"
            )
        names = _written_gradients(function, rule, types)
    elif wrt is None:
        names = _differentiable_arguments(function, types)  # arrays of floats that `function` does not write
    else:
        names = [wrt] if isinstance(wrt, str) else list(wrt)
    # `wrt` must name arrays, and a rule must compute at least one gradient.
    arrays = [name for name, type_ in types.items() if type_.shape is not None]
    if not names or not set(names) <= set(arrays):
        raise InvalidArgumentError(
            f"vjp: wrt: expected names of arrays among the arguments of '{function.name}' ({', '.join(arrays)}), got "
            f"{names if wrt is None else wrt!r}"
        )
    return tuple(names)


def _derived(function: Rule, wrt: Sequence[str] | str | None) -> Pullback:
    """Return the derivative of a program by reverse mode. Raise InvalidArgumentError for a kernel."""
    if isinstance(function, Kernel):
        raise InvalidArgumentError(
            f"vjp: rule: the kernel '{function.name}' needs a kernel or a program that computes its gradients; only "
            f"those of programs are derived"
        )
    return Pullback(function, wrt)


def loaded(value: Any) -> LoadedFunction:
    """Return a function on the CPU, with its derivative, and with its versions over a batch if it is a kernel.

    value: a kernel or program in Python, which is compiled for this CPU, or any other object that `public_function`
    accepts. The views that a kernel writes completely become results, which each call allocates, instead of parameters.

    Raises:
        InvalidArgumentError: The object is no function, or the derivative does not match it.
    """
    if not isinstance(value, Rule):
        return LoadedFunction(public_function(value))
    return _loaded(value, allocated=value.computed if isinstance(value, Kernel) else ())


def _loaded(value: Rule, allocated: Sequence[str]) -> LoadedFunction:
    """Load a kernel or program and, if it has one, its derivative, which is a kernel or program as well.

    The derivative takes arguments of the function, results, or gradients of results. It returns one gradient for each
    argument that the user named, of its type. For y = f(a, b) and a derivative (a, dy) -> db, the `Gradient` of the
    result has operands=(0, 3), indices into (a, b, y, dy), and positions=(1,): b is argument 1.

    allocated: names of the views that a kernel returns and does not take: each call allocates them. Raise
    InvalidArgumentError for a derivative of the wrong interface.
    """
    function = load(value.lowered(allocated=allocated).text if isinstance(value, Kernel) else value, value.name)
    batches = KernelBatches(value, allocated) if isinstance(value, Kernel) else None
    if value.derivative is None:
        return LoadedFunction(function, gradient=None, batches=batches)
    # Load the derivative, which may have a derivative itself.
    rule, names = _derivative_of(value)
    derivative = _loaded(rule, allocated=[f"d{name}" for name in names])
    # Find the positions of what it takes and returns in the interface of the function.
    arguments = [argument.name for argument in function.inputs]
    overwritten = next((name for name in names if name not in arguments), None)
    if overwritten is not None:
        raise InvalidArgumentError(
            f"vjp: wrt: '{value.name}' returns '{overwritten}', a view that it writes as a whole, and does not take "
            f"it: its elements before the call have no gradient; leave '{overwritten}' out"
        )
    positions = tuple(arguments.index(name) for name in names)
    operands = _operands(value, function, rule, derivative.function)
    # Compare the types. A gradient has the type of its result, so the results stand for their gradients here.
    gradients_of_results = function.outputs
    possible_operands = [*function.inputs, *function.outputs, *gradients_of_results]
    subject = f"the derivative '{rule.name}' of '{value.name}'"
    expected = [possible_operands[index] for index in operands]
    if not _have_equal_kinds(derivative.function.inputs, expected):
        raise InvalidArgumentError(
            f"{subject} takes ({_types_text(derivative.function.inputs)}); expected {_expected(value)}, "
            f"({_types_text(expected)})"
        )
    if not _have_equal_kinds(derivative.function.outputs, [function.inputs[n] for n in positions]):
        raise InvalidArgumentError(
            f"{subject} gives ({_types_text(derivative.function.outputs)}); expected the gradients of "
            f"{', '.join(names)}, of their types"
        )
    return LoadedFunction(function, Gradient(derivative, operands=operands, positions=positions), batches)


def _derivative_of(function: Rule) -> tuple[Rule, Sequence[str]]:
    """Return the rule of the derivative of a function that has one: the kernel or program that computes gradients.

    The second result has the names of the arguments whose gradients the rule computes.

    The derivative of a program is specialized to the values that the program has for static parameters of the same
    names.
    """
    rule, names = function.derivative
    if isinstance(function, TracedProgram):
        statics = rule.statics_among(function.statics)
        if statics:
            rule = rule.specialize(**statics)
    return rule, names


def _operands(
    primal: Rule, primal_function: PublicFunction, rule: Rule, rule_function: PublicFunction
) -> tuple[int, ...]:
    """Return the operands of a derivative as indices into (arguments, results, gradients of results) of the function.

    For y = f(a, b), the indices of a, b, y and dy are 0, 1, 2 and 3. The derivative of a program takes all arguments,
    then the gradients of the results: (0, 1, 3). That of a kernel says by the names of its parameters what it takes: if
    they are (a, dy), the operands are (0, 3).

    primal: the function in Python, of which `primal_function` is compiled. rule: its derivative in Python, of which
    `rule_function` is compiled.
    """
    if isinstance(primal, Kernel):
        # A kernel does not take the views that it writes as a whole, so only its compiled function has the names.
        names = [v.name for v in rule_function.inputs] if isinstance(rule, Kernel) else list(_types(rule))
        return _named_operands(primal, primal_function, rule.name, names)
    inputs, results = len(primal_function.inputs), len(primal_function.outputs)
    return (*range(inputs), *range(inputs + results, inputs + 2 * results))


def _named_operands(kernel: Kernel, function: PublicFunction, derivative: str, names: Sequence[str]) -> tuple[int, ...]:
    """Return the operands of the derivative of a kernel as indices into (arguments, results, gradients of results).

    For a kernel with the arguments a and b that writes a view y, the names ("a", "dy") give (0, 3). `x` is an argument
    or, if there is none, the result in the view `x`; `dx` is the gradient of a view `x` that the kernel writes. Raise
    InvalidArgumentError for a name that is none of these, or that is ambiguous.

    Args:
        kernel: The kernel.
        function: Its compiled function.
        derivative: Name of the derivative, for messages.
        names: Names of the derivative's parameters.
    """
    inputs, results = len(function.inputs), len(function.outputs)
    written = [kernel.passed[position].name for position in kernel.written]
    values = {name: inputs + n for n, name in enumerate(written)}
    values |= {argument.name: n for n, argument in enumerate(function.inputs)}  # replaces a result of the same name
    gradients = {f"d{name}": inputs + results + n for n, name in enumerate(written)}
    operands: list[int] = []
    for name in names:
        if name in values and name in gradients:
            raise InvalidArgumentError(
                f"the derivative '{derivative}' of '{kernel.name}' takes '{name}', which is both an argument and the "
                f"gradient of '{name[1:]}'; rename the argument of '{kernel.name}'"
            )
        if name not in values and name not in gradients:
            raise InvalidArgumentError(
                f"the derivative '{derivative}' of '{kernel.name}' takes '{name}'; it may take "
                f"{', '.join(dict.fromkeys([*_types(kernel), *gradients]))}"
            )
        operands.append(values[name] if name in values else gradients[name])
    return tuple(operands)


def _expected(value: Rule) -> str:
    """Return words that say what the arguments of the derivative of `value` must be, for an error."""
    if isinstance(value, Kernel):
        return "the types of the values that it names"
    return "its arguments and a gradient for each result"


def _kind(value: Any) -> tuple[Any, int]:
    """Return (element type, rank) of an argument or a result; the rank of a number is 0."""
    return value.dtype, len(value.shape or ())


def _have_equal_kinds(values: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Return whether arguments or results have the element types and ranks of the expected ones, in order."""
    return [_kind(value) for value in values] == [_kind(value) for value in expected]


def _types_text(values: Sequence[Any]) -> str:
    """Return the types of arguments or results as text, for an error."""
    return ", ".join(str(value.type) for value in values)


def _types(function: Rule) -> dict[str, TensorType]:
    """Return the types of the arguments of a call by name, without static parameters."""
    if isinstance(function, Kernel):
        return {parameter.name: parameter.type for parameter in function.passed if parameter.type is not None}
    return {name: type_ for name, type_ in function.parameters.items() if type_ is not None}


def _differentiable_arguments(function: Rule, types: Mapping[str, TensorType]) -> list[str]:
    """Return the names of the arguments that have gradients by default: float arrays that a kernel does not write.

    types: the types of the arguments by name.
    """
    written = [function.passed[i].name for i in function.written] if isinstance(function, Kernel) else []
    return [
        name for name, type_ in types.items()
        if type_.shape is not None and "f" in type_.dtype and name not in written  # "f32", "bf16"
    ]  # fmt: skip


def _written_gradients(function: Rule, rule: Kernel, types: Mapping[str, TensorType]) -> list[str]:
    """Return the names of the arguments of a kernel `function` whose gradients a kernel `rule` writes, without the `d`.

    types: the types of these arguments by name. Raise InvalidArgumentError if `rule` writes a view of another name, and
    for a program, whose results have no names.
    """
    if not isinstance(function, Kernel):
        raise InvalidArgumentError(
            f"vjp: rule: the results of the program '{function.name}' have no names by which a kernel could take "
            f"their gradients; write a program (@pydispatch.program) that calls '{rule.name}'"
        )
    written = [rule.passed[position].name for position in rule.written]
    arguments = {f"d{name}": name for name in _differentiable_arguments(function, types)}
    unknown = next((name for name in written if name not in arguments), None)
    if unknown is not None:
        raise InvalidArgumentError(
            f"vjp: rule: the kernel '{rule.name}' writes '{unknown}', which is no gradient of an argument of "
            f"'{function.name}'; there may be {', '.join(arguments)}"
        )
    return [arguments[name] for name in written]
