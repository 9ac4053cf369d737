"""Equivalence classes of the axes of a pattern's inputs: axes of one class have equal sizes."""

from __future__ import annotations

Axis = tuple[int, int]
"""(number of an input or, in `ProgramSizes`, another tensor; axis)."""


class SameSizes:
    """A union-find structure over axes; the least axis of a class is its representative."""

    def __init__(self) -> None:
        self._parent: dict[Axis, Axis] = {}  # axis → a lesser one of its class; none for a representative

    def find(self, axis: Axis) -> Axis:
        """Return the representative of the class of an axis."""
        while axis in self._parent:
            axis = self._parent[axis]
        return axis

    def join(self, lhs: Axis, rhs: Axis) -> None:
        """Merge the classes of two axes."""
        lhs, rhs = self.find(lhs), self.find(rhs)
        if lhs != rhs:
            self._parent[max(lhs, rhs)] = min(lhs, rhs)
