"""Instantiation of the model-local functions of an ONNX model, whose bodies are inlined at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace

from pydispatch.errors import CompileError
from pydispatch.frontends.onnx import model

DEPTH = 64
"""Maximum nesting depth of function calls and of subgraphs; it bounds the recursion of the reader."""


def bound_node(
    node: model.NodeProto,
    bound: Mapping[str, model.AttributeProto],
    omitted: Set[str],
    too_deep: Callable[[], CompileError],
    depth: int = 0,
) -> model.NodeProto:
    """Return a copy of a function's node with the attributes and without the operands that the calling node omits.

    References to attributes are replaced by the attributes of the calling node; a reference to one without a value is
    omitted in the copy, as are operands that the calling node omits. Nodes in subgraphs are copied, too.

    Args:
        node: Node of the function's body.
        bound: Attributes of the calling node, and defaults of those that it omits, by name.
        omitted: Names of the function's inputs for which the calling node has no operand.
        too_deep: Makes the error for subgraphs that are nested deeper than DEPTH.
        depth: Number of subgraphs of the body that contain the node.
    """
    if depth > DEPTH:
        raise too_deep()
    attributes = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            argument = bound.get(attribute.ref_attr_name)
            if argument is not None:
                attributes.append(replace(argument, name=attribute.name))
        elif attribute.g is not None:
            # Values of the subgraph hide inputs of the function that have the same name.
            graph = attribute.g
            hidden = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            nodes = [bound_node(inner, bound, omitted - hidden, too_deep, depth + 1) for inner in graph.node]
            attributes.append(replace(attribute, g=replace(graph, node=nodes)))
        else:
            attributes.append(attribute)
    operands = ["" if name in omitted else name for name in node.input]
    return replace(node, input=operands, attribute=attributes)
