"""The functions that kernels call.

The compiler replaces calls of them by operations, and never runs them. Under `kernel.python` they call methods of the
running invocation (`emulation/invocations.py`); elsewhere they raise an error, except `cdiv` and `range`.
"""

from __future__ import annotations

import builtins
import threading
from typing import Any, NoReturn

from pydispatch.errors import InvalidArgumentError

running = threading.local()
"""State of a thread: `running.invocation` is the Invocation whose kernel runs in it under Python. The functions below
call its methods of the same names."""


def outside(name: str) -> NoReturn:
    """Raise InvalidArgumentError: a function that only kernels can call was called elsewhere."""
    remedy = '; to load a program: pydispatch.device("cpu").load(artifact)' if name == "load" else ""
    raise InvalidArgumentError(
        f"pydispatch.{name} is for functions under @pydispatch.kernel; it computes nothing outside{remedy}"
    )


def emulated(name: str, *arguments: Any) -> Any:
    """Call the method `name` of the invocation that runs in this thread under Python, and return its result.

    The functions below, but for `cdiv` and `range`, do only this: code that the compiler generates does not call them.
    Raise InvalidArgumentError if no invocation runs.
    """
    invocation = getattr(running, "invocation", None)
    if invocation is None:
        outside(name)  # raises the error
    return getattr(invocation, name)(*arguments)


def global_id(axis: int) -> int:
    """Return the index of this invocation along an axis of the whole grid, of type index.

    axis: 0, 1 or 2. Axis 0 is for the last dimension of views, so that neighbours access neighbouring elements.
    """
    return emulated("global_id", axis)


def local_id(axis: int) -> int:
    """Return the index of this invocation in its workgroup along an axis, of type index."""
    return emulated("local_id", axis)


def group_id(axis: int) -> int:
    """Return the index of this workgroup along an axis of the grid, of type index."""
    return emulated("group_id", axis)


def group_size(axis: int) -> int:
    """Return the number of invocations of a workgroup along an axis; it is known at compile time."""
    return emulated("group_size", axis)


def grid_size(axis: int) -> int:
    """Return the number of workgroups along an axis of the grid, of type index."""
    return emulated("grid_size", axis)


def barrier() -> None:
    """Wait for all invocations of the workgroup; their earlier writes are visible to each of them afterwards."""
    emulated("barrier")


def shared(shape: Any, dtype: Any) -> Any:
    """Allocate workgroup memory, shared by all invocations of the workgroup. Its initial content is undefined."""
    return emulated("shared", shape, dtype)


def private(shape: Any, dtype: Any) -> Any:
    """Allocate an array of each invocation, in registers where its indices are known when the kernel is compiled.

    Its content is undefined at first, and again after the next barrier: values that must outlive a barrier are stored
    in workgroup memory (`shared`) or in plain variables.
    """
    return emulated("private", shape, dtype)


def atomic_add(memory: Any, index: Any, value: Any) -> Any:
    """Add a value to `memory[index]` as one atomic operation, and return the element before.

    index: of the element, a number or a tuple of one number for each dimension. In kernels with tiles, index and value
    may be tiles, of which each element updates an element of the memory, and nothing is returned.
    """
    return emulated("atomic_add", memory, index, value)


def atomic_max(memory: Any, index: Any, value: Any) -> Any:
    """Replace `memory[index]` by the larger of itself and a value; arguments and result are those of `atomic_add`."""
    return emulated("atomic_max", memory, index, value)


def atomic_min(memory: Any, index: Any, value: Any) -> Any:
    """Replace `memory[index]` by the smaller of itself and a value; arguments and result are those of `atomic_add`."""
    return emulated("atomic_min", memory, index, value)


def atomic_exchange(memory: Any, index: Any, value: Any) -> Any:
    """Replace `memory[index]` by a value; arguments and result are those of `atomic_add`."""
    return emulated("atomic_exchange", memory, index, value)


def atomic_and(memory: Any, index: Any, value: Any) -> Any:
    """Clear the bits of the integer `memory[index]` that are not set in a value, and return the element before."""
    return emulated("atomic_and", memory, index, value)


def atomic_or(memory: Any, index: Any, value: Any) -> Any:
    """Set the bits of the integer `memory[index]` that are set in a value, and return the element before."""
    return emulated("atomic_or", memory, index, value)


def atomic_xor(memory: Any, index: Any, value: Any) -> Any:
    """Invert the bits of the integer `memory[index]` that are set in a value, and return the element before."""
    return emulated("atomic_xor", memory, index, value)


def atomic_cas(memory: Any, index: Any, expected: Any, value: Any) -> Any:
    """Replace the integer `memory[index]` by `value` if it equals `expected`, as one atomic operation.

    Returns:
        The element before: it was replaced if this equals `expected`.
    """
    return emulated("atomic_cas", memory, index, expected, value)


def group_sum(value: Any) -> Any:
    """Return the sum of a value over the invocations of the workgroup, the same for all of them."""
    return emulated("group_sum", value)


def group_max(value: Any) -> Any:
    """Return the largest value over the invocations of the workgroup; NaN if one of the values is NaN."""
    return emulated("group_max", value)


def group_min(value: Any) -> Any:
    """Return the smallest value over the invocations of the workgroup; NaN if one of the values is NaN."""
    return emulated("group_min", value)


def subgroup_shuffle(value: Any, lane: Any) -> Any:
    """Return the value of another invocation of the subgroup; the own one if the subgroup has no such invocation.

    A subgroup is 32 successive invocations of a workgroup, axis 0 changing fastest; the last one may have fewer.

    lane: index of the other invocation in the subgroup, 0 to 31.
    """
    return emulated("subgroup_shuffle", value, lane)


def subgroup_sum(value: Any) -> Any:
    """Return the sum of a value over the invocations of the subgroup.

    Values of two neighbours are added first, then the sums of neighbouring pairs, and so on.
    """
    return emulated("subgroup_sum", value)


def subgroup_max(value: Any) -> Any:
    """Return the largest value of the invocations of the subgroup; NaN if one of the values is NaN."""
    return emulated("subgroup_max", value)


def subgroup_min(value: Any) -> Any:
    """Return the smallest value of the invocations of the subgroup; NaN if one of the values is NaN."""
    return emulated("subgroup_min", value)


def subgroup_ballot(condition: Any) -> Any:
    """Return the u32 whose bit k (bit 0 is the lowest) is set if a condition holds in invocation k of the subgroup."""
    return emulated("subgroup_ballot", condition)


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` if the condition holds, else `b`; both are computed."""
    return emulated("where", condition, a, b)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    return emulated("fma", a, b, c)


def bitcast(value: Any, dtype: Any) -> Any:
    """Reinterpret the bits of a value as another type of the same width."""
    return emulated("bitcast", value, dtype)


def cdiv(a: int, b: int) -> int:
    """Return a / b rounded up, for integers with b > 0. Works on sizes of kernels and programs, and on Python ints."""
    invocation = getattr(running, "invocation", None)
    return -(-a // b) if invocation is None else invocation.cdiv(a, b)


def range(*bounds: int, stages: int = 1) -> builtins.range:
    """Return `range(*bounds)`, the numbers of a loop whose tiles are read ahead.

    On CUDA devices from compute capability 8.0 on, tiles that such a loop reads from views for `@` are copied while
    those of earlier iterations are used. Other devices read tiles when they are needed, with equal results.
    A loop with `break`, `return` or a negative step reads none ahead.

    Args:
        bounds: The end; the first number and the end; or these and the step.
        stages: Iterations whose tiles are in workgroup memory at a time, 1 to 8. With 1 none are read ahead.
    """
    return builtins.range(*bounds)
