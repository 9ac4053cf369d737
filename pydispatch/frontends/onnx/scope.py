"""Lexical scopes of an ONNX graph: the values that its nodes can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydispatch.frontends.onnx import model
from pydispatch.graph.values import Tensor


class Values:
    """The values of a graph by name. Lookups continue in the enclosing graphs.

    Attributes:
        outer: Values of the enclosing graph; None for the main graph and for a function, whose body sees no others.
        producers: The node of this graph that computes each name.
        stated: Declarations of values by name, for those whose types the graph declares.
        by_name: Tensors of this graph that were defined or computed so far, by name.
    """

    def __init__(
        self,
        outer: Values | None,
        nodes: Sequence[model.NodeProto],
        stated: Mapping[str, model.ValueInfoProto] | None = None,
    ) -> None:
        """Index the nodes of the graph by the names of the values that they compute; no tensor is known yet.

        `stated` has the declarations of the values whose types the graph declares, by name.
        """
        self.outer = outer
        self.producers = {name: node for node in nodes for name in node.output}
        self.stated = stated or {}
        self.by_name: dict[str, Tensor] = {}

    def find(self, name: str) -> Tensor | None:
        """Return the value of a name in this graph or an enclosing one; None if no value of that name exists yet."""
        scope: Values | None = self
        while scope is not None:
            if name in scope.by_name:
                return scope.by_name[name]
            scope = scope.outer
        return None

    def origins(self, name: str) -> list[str]:
        """Return the names of the values that a value is computed from: ["x", "w", "b"] for add(matmul(x, w), b). They
        are in the order in which its expression reads them.

        They are graph inputs, initializers, and values whose elements are known, such as sizes of an input. Values that
        only a subgraph of a node uses are not followed.
        """
        origins: dict[str, None] = {}  # a set in the order of insertion
        seen: set[str] = set()
        pending = [name]
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            producer, value = self._producer(name), self.find(name)
            if producer is None or (value is not None and value.known is not None):
                origins[name] = None
            else:
                pending += reversed(producer.input)  # the first operand is popped first
        return [name for name in origins if name]  # "" is an omitted operand

    def _producer(self, name: str) -> model.NodeProto | None:
        """Return the node that computes a name, in this graph or an enclosing one; None for inputs and initializers."""
        scope: Values | None = self
        while scope is not None:
            if name in scope.producers:
                return scope.producers[name]
            scope = scope.outer
        return None
