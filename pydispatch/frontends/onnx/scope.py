"""The values that nodes of a graph see."""

from __future__ import annotations

from collections.abc import Mapping

from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx import model


class Values:
    """The values of a graph by name; those of the graphs around it are seen too. made_here: the names that its nodes
    define; stated: the types that the graph states."""

    def __init__(
        self, outer: Values | None, made_here: frozenset[str], stated: Mapping[str, model.ValueInfo] | None = None
    ) -> None:
        self.outer = outer
        self.made_here = made_here
        self.stated = stated or {}
        self.by_name: dict[str, Tensor] = {}

    def find(self, name: str) -> Tensor | None:
        """The value of a name; None when nothing above has it."""
        scope: Values | None = self
        while scope is not None:
            if name in scope.by_name:
                return scope.by_name[name]
            scope = scope.outer
        return None
