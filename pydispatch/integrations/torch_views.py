"""Outputs of a traced graph that share memory: the program computes one tensor, and the outputs are views of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def shared_roots(nodes: Sequence[Any]) -> dict[Any, Any]:
    """Return output node → the node that allocates its memory, for the outputs that share memory with another output.

    Views of inputs are excluded: AOTAutograd creates these itself.
    """
    roots = {node: root(node) for node in nodes if _storage(node) is not None}
    users: dict[Any, int] = {}  # node that allocates memory → number of outputs in this memory
    for origin in roots.values():
        users[origin] = users.get(origin, 0) + 1
    # Memory that the graph allocates is the result of a function; that of inputs is not (op "placeholder").
    return {node: origin for node, origin in roots.items() if users[origin] > 1 and origin.op == "call_function"}


def root(node: Any) -> Any:
    """Return the node that allocated the memory of a node's tensor: the first one of the chain of views that leads to
    it. It may be an input of the graph.
    """
    # Follow the first operand, the tensor that a view shows, as long as it has the same memory.
    while node.op == "call_function" and node.args and hasattr(node.args[0], "meta"):
        source = node.args[0]
        if isinstance(source.meta.get("val"), (tuple, list)) and source.args and hasattr(source.args[0], "meta"):
            source = source.args[0]  # `node` selects an item of a list of views, such as that of `split`
        if _storage(source) is None or _storage(source) != _storage(node):
            break
        node = source
    return node


def _storage(node: Any) -> int | None:
    """Return the identity of the memory of a node's tensor; None for other values."""
    value: Any = getattr(node, "meta", {}).get("val")
    return int(value.untyped_storage()._cdata) if hasattr(value, "untyped_storage") else None


def is_node(value: Any) -> bool:
    """Return whether a value is a node of a torch.fx graph, as opposed to a constant."""
    return hasattr(value, "meta")


def computed(value: Any, known: Mapping[Any, Any]) -> Any:
    """Return the value of a node, of a constant, or of a list or tuple of these.

    `known` has values of nodes. Other nodes are evaluated by calling their targets (functions) with the values of their
    arguments.
    """
    if isinstance(value, (tuple, list)):
        return [computed(item, known) for item in value]
    if not is_node(value):
        return value
    if value in known:
        return known[value]
    keywords = {name: computed(item, known) for name, item in value.kwargs.items()}
    return value.target(*(computed(item, known) for item in value.args), **keywords)
