"""Instantiation of the model-local functions of an ONNX model, whose bodies are inlined at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pydispatch.errors import CompileError
from pydispatch.frontends.onnx import model

DEPTH = 64
"""Maximum nesting depth of function calls and of subgraphs; it bounds the recursion of the reader."""


def bound_node(
    node: model.NodeProto,
    bound: Mapping[str, model.AttributeProto],
    too_deep: Callable[[], CompileError],
    depth: int = 0,
) -> model.NodeProto:
    """Return a copy of a function's node with references to attributes replaced by the attributes of the calling node.

    A reference to an attribute without a value is omitted in the copy. Nodes in subgraphs are copied, too.

    Args:
        node: Node of the function's body.
        bound: Attributes of the calling node, and defaults of those that it omits, by name.
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
            nodes = [bound_node(inner, bound, too_deep, depth + 1) for inner in attribute.g.node]
            attributes.append(replace(attribute, g=replace(attribute.g, node=nodes)))
        else:
            attributes.append(attribute)
    return replace(node, attribute=attributes)


def without_operand(node: model.NodeProto, name: str) -> model.NodeProto:
    """Return a copy of a node in which the operand `name` is omitted."""
    return replace(node, input=["" if operand == name else operand for operand in node.input])
