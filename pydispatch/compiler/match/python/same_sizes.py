"""Equivalence classes of the axes of a pattern's inputs: axes of one class have equal sizes."""

from __future__ import annotations

Axis = tuple[int, int]
"""(number of an input, number of one of its axes)."""


class SameSizes:
    """Axes that are equal, as sets of which one member is the first."""

    def __init__(self) -> None:
        self._parent: dict[Axis, Axis] = {}

    def first(self, axis: Axis) -> Axis:
        while axis in self._parent:
            axis = self._parent[axis]
        return axis

    def join(self, lhs: Axis, rhs: Axis) -> None:
        lhs, rhs = self.first(lhs), self.first(rhs)
        if lhs != rhs:
            self._parent[max(lhs, rhs)] = min(lhs, rhs)
