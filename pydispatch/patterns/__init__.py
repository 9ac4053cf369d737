"""Patterns in Python: a function that is traced into the computation to find, and kernels that replace it.

@pydispatch.pattern
def mul_abs_negate(lhs: pydispatch.f32["n"], rhs: pydispatch.f32["n"]):
    return -abs(lhs * rhs)

mul_abs_negate.replace(pydispatch.CFunction("functions.c", "mul_abs_negate"), when=lambda m: m.n % 64 == 0)
artifact = pydispatch.compile("model.mlir", patterns=[mul_abs_negate])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from pydispatch.errors import InvalidArgumentError
from pydispatch.patterns.closures import closure_of
from pydispatch.patterns.kernels import (
    CFunction,
    CustomOperation,
    Generated,
    Kernel,
    WholeKernel,
    kernel_of,
    ptx,
    shader,
)
from pydispatch.patterns.trace import Value, argmax, elementwise, maximum, minimum, outputs_of, reduce
from pydispatch.patterns.types import (
    DType,
    TensorType,
    bf16,
    f8E4M3FN,
    f8E5M2,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
    index,
    type_of,
    u8,
    u16,
    u32,
    u64,
)

__all__ = [
    "CFunction",
    "CustomOperation",
    "DType",
    "Generated",
    "Pattern",
    "Replacement",
    "TensorType",
    "Value",
    "WholeKernel",
    "argmax",
    "bf16",
    "ceil",
    "cos",
    "erf",
    "exp",
    "exp2",
    "f8E4M3FN",
    "f8E5M2",
    "f16",
    "f32",
    "f64",
    "floor",
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "index",
    "log",
    "log2",
    "matcher",
    "maximum",
    "minimum",
    "pattern",
    "ptx",
    "reduce",
    "rsqrt",
    "shader",
    "sin",
    "sqrt",
    "tanh",
    "u8",
    "u16",
    "u32",
    "u64",
]  # fmt: skip

When = Callable[[Any], bool]
"""Function when(match) -> whether a match is replaced; it may return a string instead of False: the reason."""


@dataclass(frozen=True)
class Replacement:
    """Kernel that replaces a match.

    Attributes:
        kernel: The kernel.
        when: Predicate that the match must satisfy; None for any match.
    """

    kernel: Kernel
    when: When | None = None


@dataclass(eq=False)
class Pattern:
    """Computation to find in a program, and the kernels that replace it.

    `pattern` creates one from a function, which it traces, or from a program. `matcher` creates one from a matcher: a
    function that is called with each operation, and returns the values to replace, or why the operation does not match.
    `replace` and `generate` then add replacements, and `pydispatch.compile(..., patterns=[...])` applies the pattern.

    Attributes:
        name: Name of the decorated function, for messages.
        inputs: (name, type) of each parameter; () for a matcher.
        outputs: Traced results; () for a matcher.
        benefit: Patterns with a higher benefit are applied first, equal ones in the order of `patterns=`.
        phase: Phase of the compiler that applies the pattern, see `pydispatch.compile`.
        match_op: The function of a matcher, which is called with each operation; None for other patterns.
        replacements: Replacements, of which the first one whose predicate holds is used.
        program: Module of a pattern that is a program, whose `outputs` state types only; None for other patterns.
    """

    name: str
    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[Value, ...]
    benefit: int = 1
    phase: str = "preprocessing"
    match_op: Callable[[Any], Any] | None = None
    replacements: list[Replacement] = field(default_factory=list)
    program: Any = None

    def replace(self, kernel: object = None, *, when: When | None = None) -> Any:
        """Add a replacement: a kernel for the matches for which `when(match)` holds. Return the pattern.

        Args:
            kernel: A CFunction, a WholeKernel, or a function over the same inputs that is traced. Without a kernel this
                is a decorator of such a function.
            when: Predicate that the match must satisfy; None for any match.
        """
        if when is not None and not callable(when):
            raise InvalidArgumentError(f"pattern '{self.name}': when: expected a function of the match, got {when!r}")
        if kernel is not None:
            self.replacements.append(Replacement(kernel_of(kernel, self.name), when))
            return self
        # The decorator leaves the function as it is: `replace` returns the pattern, which is true.
        return lambda function: self.replace(function, when=when) and function

    def generate(self, make: Callable[[Any], Any] | None = None, *, when: When | None = None) -> Any:
        """Register a function that returns a kernel for each match: C text, a CFunction or a WholeKernel. Also a
        decorator.

        Its argument is the match: sizes by name, `shape(name)`, `dtype(name)`, `symbol` (the required name of the C
        function) and `targets`.
        """
        if not (make is None or callable(make)) or not (when is None or callable(when)):
            raise InvalidArgumentError(f"pattern '{self.name}': generate: expected functions of the match")
        if make is None:  # a decorator, as in `replace`
            return lambda function: self.generate(function, when=when) and function
        self.replacements.append(Replacement(Generated(make, f"{self.name}_kernel"), when))
        return self

    def __call__(self, *values: Value) -> Any:
        """Raise InvalidArgumentError: unlike the decorated function, a pattern is passed to `compile`, not called."""
        raise InvalidArgumentError(
            f"pattern '{self.name}' is no function: pass it to pydispatch.compile(..., patterns=[{self.name}])"
        )


@overload
def pattern(function: Callable[..., Any], /) -> Pattern: ...
@overload
def pattern(*, benefit: int = 1, phase: str = "preprocessing") -> Callable[[Callable[..., Any]], Pattern]: ...
def pattern(function: Callable[..., Any] | None = None, /, *, benefit: int = 1, phase: str = "preprocessing") -> Any:
    """Return a pattern: the computation to find in programs, traced from a function over typed parameters.

    Without `function`, return a decorator with these options.

    Args:
        function: The function, or a program: `@pydispatch.pattern` over `@pydispatch.program`.
        benefit: Patterns with a higher benefit are applied first.
        phase: Phase of the compiler that applies the pattern.

    Raises:
        InvalidArgumentError: The function cannot be traced. Errors of tracing a program are raised unchanged.
    """
    _check("pattern", function, benefit, phase)
    if function is None:
        return lambda f: pattern(f, benefit=benefit, phase=phase)  # type: ignore[call-overload]
    return _traced(function, benefit, phase)


def _check(what: str, function: object, benefit: object, phase: object) -> None:
    """Raise InvalidArgumentError for arguments of the wrong type. The compiler checks the names of phases.

    what: name of the decorator.
    """
    if function is not None and not (callable(function) and hasattr(function, "__name__")):
        raise InvalidArgumentError(f"{what}: expected a function, got {function!r}; write @pydispatch.{what} over one")
    if not isinstance(benefit, int) or isinstance(benefit, bool):
        raise InvalidArgumentError(f"{what}: benefit: expected a whole number, got {benefit!r}")
    if not isinstance(phase, str):
        raise InvalidArgumentError(f"{what}: phase: expected the name of a phase, got {phase!r}")


def _traced(function: Callable[..., Any], benefit: int, phase: str) -> Pattern:
    """Return the pattern of a function or a program. phase: the phase of the compiler that applies the pattern."""
    if hasattr(function, "module") and hasattr(function, "parameters"):
        return _pattern_of_program(function, benefit, phase)
    name = function.__name__
    inputs = tuple(_typed_parameters(function))
    # The `detail` of an input is its position among the parameters.
    values = [Value("input", type, detail=position) for position, (_, type) in enumerate(inputs)]
    outputs = tuple(outputs_of(function(*values), name))
    return Pattern(name, inputs, outputs, benefit, phase)


def _pattern_of_program(program: Any, benefit: int, phase: str) -> Pattern:
    """Return the pattern that matches the computation of a program."""
    module = program.module()
    function = next(op for op in module.body.block.ops if op.name == "func.func" and op.sym_name.data == program.name)
    # Parameters without a type are captured values, which are constants of the module.
    inputs = tuple((name, type) for name, type in program.parameters.items() if type is not None)
    _check_names(inputs)
    outputs = []
    results = zip(function.function_type.outputs, function.res_attrs, strict=True)
    for ordinal, (type, result_attributes) in enumerate(results):
        size_names = result_attributes.data.get("pyd.shape")  # a text for each size of a result with dynamic sizes
        texts = [n.data for n in size_names.data] if size_names is not None else map(str, type.get_shape())
        shape = tuple(int(text) if text.isdigit() else text for text in texts)
        outputs.append(Value("program", TensorType(str(type.element_type), shape), index=ordinal))
    return Pattern(program.name, inputs, tuple(outputs), benefit, phase, program=module)


def _typed_parameters(function: Callable[..., Any]) -> Sequence[tuple[str, TensorType]]:
    """Return the (name, type) of each parameter of a function."""
    scope = getattr(function, "__globals__", {}), closure_of(function)
    inputs = []
    for parameter in inspect.signature(function).parameters:
        annotation = function.__annotations__.get(parameter)
        if isinstance(annotation, str):  # from __future__ import annotations
            try:
                annotation = eval(annotation, *scope)
            except (NameError, AttributeError, TypeError, SyntaxError) as error:
                raise InvalidArgumentError(
                    f"the type of parameter '{parameter}' of a pattern is wrong: {error}"
                ) from None
        inputs.append((parameter, type_of(annotation, parameter)))
    _check_names(inputs)
    return inputs


def _check_names(inputs: Sequence[tuple[str, TensorType]]) -> None:
    """Raise InvalidArgumentError for reserved names, and for a parameter and a size with the same name.

    `CFunction.arguments` refers to inputs and sizes by name. It reserves `out`, `out0`, `out1`, ... for outputs,
    `first` for the workgroup's first element, and `id` for the workgroup's index.
    """
    sizes = {size for _, type in inputs for size in type.shape or () if isinstance(size, str)}
    for name in (*(p for p, _ in inputs), *sizes):
        if name in ("first", "id") or (name.startswith("out") and (name[3:] or "0").isdigit()):
            raise InvalidArgumentError(f"'{name}' is what kernels call something else: give it another name")
        if name in sizes and any(name == p for p, _ in inputs):
            raise InvalidArgumentError(f"'{name}' is a parameter and a size: give one of them another name")


def matcher(function: Callable[[Any], Any] | None = None, /, *, benefit: int = 1, phase: str = "preprocessing") -> Any:
    """Create a pattern from a function over one operation. Without `function`, return a decorator with these options.

    The argument of `function` is an operation (`name`, `operands`, `results`, `attributes`, `producer(i)`, `loops`). It
    returns None or a string (why it does not match), or the (inputs, outputs) to replace, each a list of values.
    """
    _check("matcher", function, benefit, phase)
    if function is None:
        return lambda f: matcher(f, benefit=benefit, phase=phase)
    # `match_op` returns the inputs and outputs of each match.
    return Pattern(function.__name__, inputs=(), outputs=(), benefit=benefit, phase=phase, match_op=function)


def exp(x: Any) -> Any:
    """Return e to the power of x, elementwise.

    Like all elementwise functions below, it is for patterns, kernels and arrays.
    """
    return elementwise("exp", x)


def log(x: Any) -> Any:
    """Return the natural logarithm, elementwise."""
    return elementwise("log", x)


def sqrt(x: Any) -> Any:
    """Return the square root, elementwise."""
    return elementwise("sqrt", x)


def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x), elementwise."""
    return elementwise("rsqrt", x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent, elementwise."""
    return elementwise("tanh", x)


def exp2(x: Any) -> Any:
    """Return 2 to the power of x, elementwise."""
    return elementwise("exp2", x)


def log2(x: Any) -> Any:
    """Return the logarithm to base 2, elementwise."""
    return elementwise("log2", x)


def sin(x: Any) -> Any:
    """Return the sine of x in radians, elementwise."""
    return elementwise("sin", x)


def cos(x: Any) -> Any:
    """Return the cosine of x in radians, elementwise."""
    return elementwise("cos", x)


def erf(x: Any) -> Any:
    """Return the error function, elementwise."""
    return elementwise("erf", x)


def floor(x: Any) -> Any:
    """Return the largest integer that is not greater than x, elementwise."""
    return elementwise("floor", x)


def ceil(x: Any) -> Any:
    """Return the smallest integer that is not less than x, elementwise."""
    return elementwise("ceil", x)
