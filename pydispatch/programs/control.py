"""Branches and loops on values of traced arrays. Outside of a program they run as Python does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch.errors import InvalidArgumentError
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, elementwise
from pydispatch.programs.array import Array, arrays_of
from pydispatch.programs.trace import Trace, current


def cond(condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *args: Any) -> Any:
    """Return `then(*args)` if a condition holds, else `otherwise(*args)`.

    In a program, `cond(x.sum() > 0, lambda x: x + 1, lambda x: -x, x)` becomes an operation with both branches, of
    which a call runs one. Outside of a program, or with a condition that is no traced array, this is a Python `if`.

    Args:
        condition: A truth value, or an array of one element.
        then, otherwise: Functions that return an array each, or tuples of equal length, with equal types.
        args: Arguments of both functions.

    Raises:
        CompileError: The functions return different types.
    """
    trace = current()
    if trace is None or not isinstance(condition, Array):
        return then(*args) if condition else otherwise(*args)
    is_tuple: list[bool] = []  # whether each branch returned a tuple; of a constant condition, `if_` traces only one
    with trace.here():
        results = control.if_(
            trace, condition.tensor, _branch(trace, then, args, is_tuple), _branch(trace, otherwise, args, is_tuple)
        )
    return _as_arrays(trace, results, is_tuple[0])


def loop(count: Any, body: Callable[..., Any], *first: Any) -> Any:
    """Run a body repeatedly on values, and return the last values: one, or a tuple.

    Args:
        count: A number or a size; `body(i, *values)` then returns the next values. Or a function of the values;
            `body(*values)` runs as long as it returns true.
        body: Returns the next values, with the shapes of the current ones. They are converted to the types of `first`.
        first: Initial values.

    Raises:
        CompileError: The body returns another number of values, or one that its initial value's type cannot hold: a
            float for an integer, a complex number for a float, or a number for a condition.
        InvalidArgumentError: There are no initial values, or outside of a program, the body returns such a value.
    """
    if not first:
        raise InvalidArgumentError("loop: expected values that the body changes: loop(count, body, x)")
    trace = current()
    # Without a traced array nothing depends on the call: the loop runs in Python now, each iteration by itself.
    is_traced = callable(count) or isinstance(count, Expr) or any(isinstance(value, Array) for value in first)
    if trace is None or not is_traced:
        return _run_untraced(count, body, first)
    with trace.here():
        start = [trace.tensor_of(value) for value in first]

        def step(tensors: list[Tensor], *lead: Any) -> list[Tensor]:
            """Trace the body once for the current values, and return its results in the types of the initial values.

            lead: the iteration of a counted loop, which is the body's first argument; nothing for other loops.
            """
            values = _listed(body(*lead, *arrays_of(trace, tensors)))
            if len(values) != len(start):
                raise trace.fail(f"the body of a loop returns {len(values)} values, expected {len(start)}")
            arrays = arrays_of(trace, [trace.tensor_of(value) for value in values])
            for array, initial in zip(arrays, arrays_of(trace, start), strict=True):
                _require_kind(initial.dtype, array.dtype)
            return [elementwise.convert(trace, x.tensor, s.dtype) for x, s in zip(arrays, start, strict=True)]

        # `while_` and `for_` call the lambdas with the tensors of the current values, to record the condition and the
        # body once.
        if callable(count):
            results = control.while_(
                trace,
                start,
                lambda tensors: trace.tensor_of(count(*arrays_of(trace, tensors))),
                lambda tensors: step(tensors),
            )
        else:
            results = control.for_(trace, count, start, lambda iteration, tensors: step(tensors, iteration))
    return _as_arrays(trace, results, len(first) > 1)


def _run_untraced(count: Any, body: Callable[..., Any], first: Sequence[Any]) -> Any:
    """Run a loop on NumPy arrays, outside of a program, and return the final value, or several in a tuple.

    count: number of iterations, or the function of the values that returns whether the loop continues. body: returns
    the values after an iteration, whose index is its first argument in a counted loop. first: the initial values.
    """
    values = list(first)

    def step(*lead: int) -> list[Any]:
        """Run the body on `values`, and return its results in the types of `first`, the initial values.

        `lead` is the iteration in a counted loop.
        """
        results = _listed(body(*lead, *values))
        # Surplus values are passed on as they are, so that the next call of the body fails for their number.
        return [*map(_in_type_of, first, results), *results[len(first) :]]

    if callable(count):
        while count(*values):
            values = step()
    else:
        for iteration in range(int(count)):
            values = step(iteration)
    return tuple(values) if len(values) > 1 else values[0]


def _in_type_of(initial: Any, value: Any) -> Any:
    """Return a value after an iteration in the element type of the initial one, if that is an array.

    Numbers of Python and sizes have no element type: they are returned unchanged, and so is `value` if `initial` is
    one.
    """
    if not hasattr(initial, "dtype") or isinstance(value, Expr):
        return value
    array = value if hasattr(value, "dtype") else np.asarray(value)
    _require_kind(initial.dtype, array.dtype)
    return array if array.dtype == initial.dtype else array.astype(initial.dtype)


_KINDS = {"b": 0, "u": 1, "i": 1, "V": 2, "f": 2, "c": 3}
"""NumPy's kinds of element types -> their order: each holds the numbers of those before it. "V" are the floats that
NumPy lacks, such as bf16.
"""


def _require_kind(initial: np.dtype[Any], result: np.dtype[Any]) -> None:
    """Raise an error unless the type of a loop's initial value holds the kind of numbers that its body returns."""
    if _KINDS.get(result.kind, 0) <= _KINDS.get(initial.kind, 0):
        return
    message = f"a loop begins with a value of {initial}, and its body returns {result} for it"
    note = f"begin with that type, as in x.astype(numpy.{result}), or convert what the body returns"
    trace = current()
    raise InvalidArgumentError(f"{message}: {note}") if trace is None else trace.fail(message, note)


def _branch(
    trace: Trace, function: Callable[..., Any], args: Sequence[Any], is_tuple: list[bool]
) -> Callable[[], list[Tensor]]:
    """Return a function that traces a branch and returns its tensors. It appends to `is_tuple` whether the branch
    returned a tuple.
    """
    return lambda: [trace.tensor_of(value) for value in _listed(function(*args), is_tuple)]


def _listed(result: Any, is_tuple: list[bool] | None = None) -> list[Any]:
    """Return what a function has returned as a list of values; append to `is_tuple` whether it was a tuple or list."""
    is_sequence = isinstance(result, (tuple, list))
    if is_tuple is not None:
        is_tuple.append(is_sequence)
    return list(result) if is_sequence else [result]


def _as_arrays(trace: Trace, tensors: list[Tensor], is_tuple: bool) -> Any:
    """Return tensors as traced arrays: a tuple of them, or the first one alone."""
    arrays = arrays_of(trace, tensors)
    return tuple(arrays) if is_tuple else arrays[0]
