"""The functions of kernels under plain Python, for one invocation or, with tiles, for a workgroup."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.kernels.emulation.tile_functions import TileFunctions, dtype_of
from pydispatch.kernels.emulation.views import ArrayView, tile
from pydispatch.patterns.types import DType

Meet = Callable[["Invocation", str, tuple[Any, ...]], Any]
"""Function meet(invocation, name of a collective, its arguments) that waits for the other invocations and returns the
collective's result."""


class Invocation(TileFunctions):
    """Running invocation: the functions of `kernels.functions` under plain Python, which are methods of the same names.

    Attributes:
        local: Index in the workgroup along each axis; None for a workgroup that runs as a whole.
        group: Index of the workgroup along each axis.
        extents: Invocations of a workgroup along each axis.
        counts: Workgroups along each axis.
        shared_memory: Workgroup memory in the order of its allocation, which all invocations of the workgroup share.
        meet: Called for a collective with the arguments of this invocation. It waits for the other invocations, and
            returns the result.
    """

    def __init__(
        self, local: Sequence[int] | None, group: Sequence[int], extents: Sequence[int], counts: Sequence[int],
        shared_memory: list[ArrayView], meet: Meet,
    ) -> None:  # fmt: skip
        """Create the invocation `local` of the workgroup `group`; `local` is None for a kernel with tiles.

        Along each axis, a workgroup has `extents` invocations, and the grid `counts` workgroups. `meet` waits at a
        collective for the other invocations.
        """
        self.local, self.group, self.extents, self.counts = local, group, extents, counts
        self.shared_memory, self.meet = shared_memory, meet
        self._allocations = 0  # calls of `shared` so far by this invocation

    # ---- positions

    def global_id(self, axis: int) -> int:
        """Return the index of this invocation along an axis of the whole grid."""
        return self.group[axis] * self.extents[axis] + self.local_id(axis)

    def local_id(self, axis: int) -> int:
        """Return the index of this invocation along an axis of its workgroup."""
        assert self.local is not None
        return self.local[axis]

    def group_id(self, axis: int) -> int:
        """Return the index of the workgroup along an axis."""
        return self.group[axis]

    def group_size(self, axis: int) -> int:
        """Return the number of invocations of a workgroup along an axis."""
        return self.extents[axis]

    def grid_size(self, axis: int) -> int:
        """Return the number of workgroups along an axis."""
        return self.counts[axis]

    # ---- memory

    def shared(self, shape: Any, dtype: DType) -> ArrayView:
        """Return the workgroup memory of the next `shared` call in program order.

        The first invocation that reaches the call allocates the memory; later ones return the same memory.
        """
        self._allocations += 1
        if self._allocations > len(self.shared_memory):
            self.shared_memory.append(_undefined("workgroup memory", shape, dtype))
        return self.shared_memory[self._allocations - 1]

    def private(self, shape: Any, dtype: DType) -> ArrayView:
        """Return new memory of this invocation, whose content is undefined."""
        return _undefined("an array of the invocation", shape, dtype)

    # ---- collectives

    def barrier(self) -> None:
        """Wait until all invocations of the workgroup have reached the barrier."""
        self.meet(self, "barrier", ())

    def group_sum(self, value: Any) -> Any:
        """Return the sum of the values of all invocations of the workgroup."""
        return self.meet(self, "group_sum", (value,))

    def group_max(self, value: Any) -> Any:
        """Return the largest of the values of all invocations of the workgroup."""
        return self.meet(self, "group_max", (value,))

    def group_min(self, value: Any) -> Any:
        """Return the smallest of the values of all invocations of the workgroup."""
        return self.meet(self, "group_min", (value,))

    def subgroup_shuffle(self, value: Any, lane: Any) -> Any:
        """Return the value of the invocation `lane` of the subgroup; the own value if it does not exist."""
        return self.meet(self, "subgroup_shuffle", (value, lane))

    def subgroup_sum(self, value: Any) -> Any:
        """Return the sum of the values of the subgroup."""
        return self.meet(self, "subgroup_sum", (value,))

    def subgroup_max(self, value: Any) -> Any:
        """Return the largest of the values of the subgroup."""
        return self.meet(self, "subgroup_max", (value,))

    def subgroup_min(self, value: Any) -> Any:
        """Return the smallest of the values of the subgroup."""
        return self.meet(self, "subgroup_min", (value,))

    def subgroup_ballot(self, condition: Any) -> Any:
        """Return a u32 whose bit n is the condition of invocation n of the subgroup."""
        return self.meet(self, "subgroup_ballot", (condition,))

    # ---- atomic operations

    def atomic_add(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Add to an element and return its old value."""
        return _updated(memory, index, value, operator.add)

    def atomic_max(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Replace an element by the maximum of it and a value, and return its old value."""
        return _updated(memory, index, value, np.maximum)

    def atomic_min(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Replace an element by the minimum of it and a value, and return its old value."""
        return _updated(memory, index, value, np.minimum)

    def atomic_exchange(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Replace an element and return its old value."""
        return _updated(memory, index, value, lambda _, new: new)

    def atomic_and(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Replace an element by its bitwise and with a value, and return its old value."""
        return _updated(memory, index, value, operator.and_)

    def atomic_or(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Replace an element by its bitwise or with a value, and return its old value."""
        return _updated(memory, index, value, operator.or_)

    def atomic_xor(self, memory: ArrayView, index: Any, value: Any) -> Any:
        """Replace an element by its bitwise exclusive or with a value, and return its old value."""
        return _updated(memory, index, value, operator.xor)

    def atomic_cas(self, memory: ArrayView, index: Any, expected: Any, value: Any) -> Any:
        """Replace an element by `value` if it equals `expected`, and return the element before."""
        return _updated(memory, index, value, lambda old, new: new if old == expected else old)

    # ---- numbers

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """Return `a` if the condition holds, else `b`; for a tile of conditions, choose element by element."""
        if isinstance(condition, np.ndarray):
            return tile(np.where(condition, a, b))
        return a if condition else b

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a * b + c, computed in f64 and then rounded to the type of the operands."""
        kind = np.result_type(a, b, c)
        return kind.type(np.float64(a) * np.float64(b) + np.float64(c))

    def cdiv(self, a: Any, b: Any) -> Any:
        """Return a / b rounded up. -(-a // b) would be wrong for unsigned integers, whose negation wraps."""
        return a // b + (a % b != 0)

    def bitcast(self, value: Any, dtype: DType) -> Any:
        """Return the bits of a number as another type."""
        return np.asarray(value).view(dtype_of(dtype))[()]


def _undefined(what: str, shape: Any, dtype: DType) -> ArrayView:
    """Return memory whose content is undefined in a kernel; `what` names it in errors.

    It is filled with NaN or the largest integer, so that reads of unwritten elements are noticed; bools are false.
    """
    kind = dtype_of(dtype)
    if kind.kind in "iu":
        content = np.iinfo(kind).max
    else:
        content = kind.type(False if kind.kind == "b" else np.nan)
    return ArrayView(what, np.full(shape, content, kind))


def _updated(memory: ArrayView, index: Any, value: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Replace an element by combine(element, value), and return the element before.

    If the index, one of its items or the value is a tile, they are broadcast, one element is replaced for each element
    of the tiles, indices outside of the view are skipped, and the result is None.
    """
    if not isinstance(memory, ArrayView):
        raise KernelError(f"an atomic operation on {memory!r}: give a view, then the index, then the value")
    indices = index if isinstance(index, tuple) else (index,)
    # An array of rank 0 is a number.
    tiles = [operand for operand in (*indices, value) if isinstance(operand, np.ndarray) and operand.ndim]
    if not tiles:  # one element
        element = memory.element(indices)
        old = memory.array[element]
        memory.array[element] = combine(old, value)
        return old
    # An element for each index of the tiles. If indices are equal, each update sees the ones before it.
    shape = np.broadcast_shapes(*(operand.shape for operand in tiles))
    flat_indices = [np.broadcast_to(index, shape).ravel() for index in indices]
    for *position, new in zip(*flat_indices, np.broadcast_to(value, shape).ravel(), strict=True):
        if all(0 <= index < size for index, size in zip(position, memory.shape, strict=True)):
            memory.array[tuple(position)] = combine(memory.array[tuple(position)], new)
    return None
