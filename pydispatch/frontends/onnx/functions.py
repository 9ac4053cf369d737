"""Functions of a model, whose bodies are inlined into their callers: nodes as a call has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pydispatch.errors import CompileError
from pydispatch.frontends.onnx import model

DEPTH = 64
"""How many functions may be in functions, and graphs in graphs."""


def bound_node(
    node: model.NodeProto,
    bound: Mapping[str, model.AttributeProto],
    too_deep: Callable[[], CompileError],
    depth: int = 0,
) -> model.NodeProto:
    """Return a node of a function in which references to attributes are replaced by the attributes of the call."""
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


def without(node: model.NodeProto, name: str) -> model.NodeProto:
    """Return a node with one operand left out."""
    return replace(node, input=["" if operand == name else operand for operand in node.input])
