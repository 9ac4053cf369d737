"""Properties of a function that other runtimes query before they call it: element types and sizes of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch._core.arrays import ElementType
from pydispatch._core.public import PublicFunction
from pydispatch._core.scalars import array_of_number
from pydispatch._core.target import Target
from pydispatch.errors import InvalidArgumentError


def public_function(value: Any) -> PublicFunction:
    """Return a function of a program on the CPU. Raise InvalidArgumentError for any other object."""
    if not isinstance(value, PublicFunction):
        raise InvalidArgumentError(
            f"function: expected a function of a program on the CPU, got {value!r}; pass program.main, not program"
        )
    return value


def check_types(function: PublicFunction, has: Callable[[ElementType, bool], bool], runtime: str) -> None:
    """Raise InvalidArgumentError if a runtime lacks the type of an argument or result.

    Args:
        function: The function.
        has: has(element type, is_number) returns whether the runtime can pass this type to functions: as a number if
            `is_number`, else as the elements of tensors.
        runtime: Name of the runtime in errors, such as "XLA".
    """
    # A number has neither dimensions nor a rank.
    values = [("argument", i, kind, dims is None) for i, (_, kind, dims) in enumerate(function.arguments)]
    values += [("result", i, kind, rank is None) for i, (kind, rank) in enumerate(function.results)]
    for side, i, kind, is_number in values:
        if not has(kind, is_number):
            raise InvalidArgumentError(
                f"@{function.name}: {side} {i} {'is a number' if is_number else 'has elements'} of type {kind.name}, "
                f"which {runtime} does not pass to functions"
            )


def array_of_rank_0(function: PublicFunction, position: int, value: Any) -> np.ndarray[Any, Any] | None:
    """Return a number as an array of rank 0 for the argument at `position` (from 0); None if `value` is no number.

    Raise InvalidArgumentError for a number that the element type does not take.
    """
    _, element, _ = function.arguments[position]
    try:
        return array_of_number(value, element)
    except (TypeError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{argument_label(function, position)}: expected {element.name}, got {type(value).__name__} {value}: "
            f"{error}"
        ) from None


def argument_label(function: PublicFunction, position: int) -> str:
    """Return the name of an argument for error messages, such as "@main: argument 0 'x'". `position` is from 0."""
    name = function.inputs[position].name
    return f"@{function.name}: argument {position}" + (f" '{name}'" if name else "")


def result_shapes(
    function: PublicFunction, target: Target, arguments: Sequence[Any], check: Callable[[Any, str], None]
) -> list[tuple[Any, ...]]:
    """Return the shape of each result, () for a number; None in a shape is a size that is known only after the call.

    Example: f(x: float32[n, 4], k: int64) -> (float32[n * 4], float32[k], float32[d0]), where d0 is the number of
    positive elements of x. The arguments [(3, 4), 2] give [(12,), (2,), (None,)].

    Args:
        function: The function.
        target: Target of the function. It computes the sizes that are no expressions over sizes and numbers of
            arguments, if they depend on the shapes of the arguments only.
        arguments: For each argument its shape; for a number its value, or None if that is unknown. Sizes and numbers
            may be symbolic.
        check: check(condition, text) raises an error with the text unless the condition, which may be symbolic, holds.
    """
    sizes = _sizes_of(function, arguments, check)
    tensors = [shape for value, shape in zip(function.inputs, arguments, strict=True) if value.shape is not None]
    shapes = [tuple(_size(n, sizes) for n in value.shape or ()) for value in function.outputs]
    # Only the compiled function can compute a size that is no expression of names; it takes static shapes, not symbols.
    has_unknown_sizes = any(n is None for shape in shapes for n in shape)
    if has_unknown_sizes and all(isinstance(n, int) for shape in tensors for n in shape):
        computed = target.result_shapes(tensors)  # None if a size depends on more than the shapes of arguments
        if computed is not None:
            return [shape or () for shape in computed]  # None is the shape of a number
    return shapes


def _sizes_of(
    function: PublicFunction, arguments: Sequence[Any], check: Callable[[Any, str], None]
) -> dict[str, Any]:  # fmt: skip
    """Return the values of the dynamic sizes, and of the arguments that are known numbers, by name.

    An argument of type "n x 4" with the shape (3, 4) gives {"n": 3}.

    arguments: for each argument its shape; for a number its value, or None if that is unknown. check: called with
    (condition, text of the error) for each size, which must equal the size that the type or an earlier argument states.
    """
    sizes: dict[str, Any] = {}
    for value, shape in zip(function.inputs, arguments, strict=True):
        if value.shape is None:
            if shape is not None:  # None: a number that is not known, whose name may also be that of a size
                sizes.setdefault(value.name, shape)
            continue
        for axis, (wanted, size) in enumerate(zip(value.shape, shape, strict=True)):
            known = sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted
            check(
                known == size,
                f"@{function.name}: '{value.name}' has {size} elements along axis {axis}, expected {known}: "
                + function.text(),
            )
    return sizes


def _size(size: int | str, sizes: dict[str, Any]) -> Any:
    """Return the value of a size of a result, which may be symbolic; None if it depends on an unknown size or number.

    For example, "4 * (n + 1)" with {"n": 3} is 16. The text is parsed recursively, from the outermost operator.

    Args:
        size: A size of a function's interface: a number, or text with names, numbers, " + ", " * " and parentheses.
        sizes: Name → value of the sizes and known numbers that the arguments have.
    """
    if isinstance(size, int):
        return size
    if size in sizes:
        return sizes[size]
    if size.isdecimal():
        return int(size)
    for sign in (" + ", " * "):  # sums first, since products bind more tightly
        parts = _split(size, sign)
        if len(parts) > 1:
            values = [_size(part, sizes) for part in parts]
            if any(value is None for value in values):
                return None
            result = values[0]
            for value in values[1:]:
                result = result + value if sign == " + " else result * value
            return result
    is_in_parentheses = size[:1] == "(" and size[-1:] == ")"
    return _size(size[1:-1], sizes) if is_in_parentheses else None  # None: a name without a value


def _split(text: str, sign: str) -> list[str]:
    """Return the operands of a sum or product: "(a + b) + c" gives "(a + b)" and "c". `sign` is " + " or " * ".

    Operators in parentheses are not split, so a text without `sign` outside of them is returned as the only operand.
    """
    parts, depth, start = [], 0, 0  # `depth` of parentheses; `start` of the current operand
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text.startswith(sign, i):
            parts.append(text[start:i])
            start = i + len(sign)
    return [*parts, text[start:]]
