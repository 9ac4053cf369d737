"""The functions that kernels call. Their bodies say what to do where one is called outside a kernel."""

from __future__ import annotations

from typing import Any, NoReturn

from pydispatch.errors import InvalidArgumentError


def outside(name: str) -> NoReturn:
    raise InvalidArgumentError(
        f"pydispatch.{name} is for functions under @pydispatch.kernel; it computes nothing outside"
    )


def global_id(axis: int) -> int:
    """Return the number of this invocation along an axis of the grid, of type index. Axis 0 runs along the last
    dimension of the result.
    """
    outside("global_id")


def local_id(axis: int) -> int:
    """Return the number of this invocation in its workgroup along an axis, of type index."""
    outside("local_id")


def group_id(axis: int) -> int:
    """Return the number of this workgroup along an axis of the grid, of type index."""
    outside("group_id")


def group_size(axis: int) -> int:
    """Invocations of a workgroup along an axis; known when the kernel is compiled."""
    outside("group_size")


def grid_size(axis: int) -> int:
    """Workgroups along an axis of the grid. index."""
    outside("grid_size")


def barrier() -> None:
    """Wait for all invocations of the workgroup; their earlier writes are visible to each of them afterwards."""
    outside("barrier")


def shared(shape: Any, dtype: Any) -> Any:
    """Allocate memory of the workgroup, which all of its invocations share. Its initial content is undefined."""
    outside("shared")


def atomic_add(memory: Any, index: Any, value: Any) -> None:
    """memory[index] += value, whatever other invocations do with it at the same time."""
    outside("atomic_add")


def atomic_max(memory: Any, index: Any, value: Any) -> None:
    """memory[index] = the larger of it and value, whatever other invocations do with it at the same time."""
    outside("atomic_max")


def atomic_min(memory: Any, index: Any, value: Any) -> None:
    """memory[index] = the smaller of it and value, whatever other invocations do with it at the same time."""
    outside("atomic_min")


def group_sum(value: Any) -> Any:
    """Return the sum of a value over the invocations of the workgroup, the same for all of them."""
    outside("group_sum")


def group_max(value: Any) -> Any:
    """Return the largest value over the invocations of the workgroup; NaN when one of them is NaN."""
    outside("group_max")


def group_min(value: Any) -> Any:
    """Return the smallest value over the invocations of the workgroup; NaN when one is."""
    outside("group_min")


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return a where the condition holds, else b; both are computed."""
    outside("where")


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    outside("fma")


def bitcast(value: Any, dtype: Any) -> Any:
    """Return the bits of a value as another type of the same width."""
    outside("bitcast")


def cdiv(a: int, b: int) -> int:
    """Return a / b rounded up, of integers; b > 0. Works on sizes of kernels and programs, and on Python numbers."""
    return -(-a // b)
