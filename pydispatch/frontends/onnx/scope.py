"""The values that nodes of a graph see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx import model


class Values:
    """The values of a graph by name; those of the graphs around it are seen too. makers: the node that computes each
    name; stated: the types that the graph states."""

    def __init__(
        self,
        outer: Values | None,
        nodes: Sequence[model.NodeProto],
        stated: Mapping[str, model.ValueInfoProto] | None = None,
    ) -> None:
        self.outer = outer
        self.makers = {name: node for node in nodes for name in node.output}
        self.stated = stated or {}
        self.by_name: dict[str, Tensor] = {}

    def find(self, name: str) -> Tensor | None:
        """Return the value of a name; None when nothing above has it."""
        scope: Values | None = self
        while scope is not None:
            if name in scope.by_name:
                return scope.by_name[name]
            scope = scope.outer
        return None

    def origins(self, name: str) -> list[str]:
        """Return the names that a value is computed from and that no node computes."""
        origins: dict[str, None] = {}
        seen: set[str] = set()
        pending = [name]
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            producer = self._maker(name)
            if producer is None:
                origins[name] = None
            else:
                pending += reversed(producer.input)
        return [name for name in origins if name]

    def _maker(self, name: str) -> model.NodeProto | None:
        scope: Values | None = self
        while scope is not None:
            if name in scope.makers:
                return scope.makers[name]
            scope = scope.outer
        return None
