"""Nodes of a `linalg.generic`: one for each scalar operation of an elementwise one, else one for the whole."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.expressions import ScalarBody, intern_key, operation_key
from pydispatch.compiler.match.graph.nodes import Node, read_through
from pydispatch.ir.affine_maps import is_identity, with_unit_loops
from pydispatch.ir.structured import Structured, structured


def generic_nodes(op: GenericOp) -> list[Node]:
    """Return a node for each result of a generic.

    An elementwise generic becomes a graph with a node for each scalar operation of its body; the returned nodes are
    those of the yielded values. Any other generic has one node per result, with the whole body as its key.
    """
    generic = structured(op)
    block = generic.block
    last = block.last_op
    assert last is not None
    if not _is_elementwise(generic):
        return _whole_nodes(op, generic)
    scalars: dict[SSAValue, SSAValue | Node] = {}
    return [
        _scalar_root(generic, value, result, scalars) for result, value in zip(op.results, last.operands, strict=True)
    ]


def _is_elementwise(generic: Structured) -> bool:
    """Return whether a generic overwrites its outputs with a scalar computation for each element, without regions."""
    output_args = generic.block.args[len(generic.inputs) :]
    reads_outputs = any(list(arg.uses) for arg in output_args)
    has_regions = any(inner.regions for inner in generic.block.ops)  # a region would need nodes of its own
    is_parallel = all(kind == "parallel" for kind in generic.iterators)
    writes_in_order = all(is_identity(m) for m in generic.output_maps)
    return is_parallel and writes_in_order and not reads_outputs and not has_regions


def _whole_nodes(op: GenericOp, generic: Structured) -> list[Node]:
    """Create a node for each result of a generic `op`, whose key is its loops, its maps and its body.

    A node is compared by its key, the computation without its operands, and by its children, the operands. The body of
    a row sum adds its two arguments, the elements of the input %x and of the output %init. The key then has the kinds
    of loops, both maps, and the value number of this addition; the children are %x and %init.
    """
    block = generic.block
    body = ScalarBody(block)
    yields = body.yields()
    # Outputs whose initial contents the body reads, such as those of a sum, are children of the node.
    out_args = block.args[len(generic.inputs) :]
    read = [o for o, a in zip(generic.outputs, out_args, strict=True) if list(a.uses)]
    overwritten = [o for o, a in zip(generic.outputs, out_args, strict=True) if not list(a.uses)]
    last = block.last_op
    assert last is not None
    parts = [  # texts for messages about a difference
        ("iterator_types", str(list(generic.iterators))),
        ("indexing_maps", str([str(m) for m in generic.maps])),
        ("body", "yield " + ", ".join(body.text(v) for v in last.operands)),
    ]
    # The number of inputs tells whether an argument of the body is an element of an input or of an output.
    key = ("structured", generic.iterators, tuple(str(m) for m in generic.maps), yields, len(generic.inputs))
    children = [*generic.inputs, *read, *body.captured]
    return [
        Node(
            intern_key((*key, i)), children, r.type, op=op, label="linalg.generic", value=r, parts=parts,
            overwritten=overwritten,
        )
        for i, r in enumerate(op.results)
    ]  # fmt: skip


def _scalar_root(
    generic: Structured, value: SSAValue, result: SSAValue, scalars: dict[SSAValue, SSAValue | Node]
) -> Node:
    """Return the node of one result of an elementwise generic: the node of the scalar that it yields, with the result
    as its value.

    There are three cases:
    - The body yields an element of an input that it broadcasts or transposes: a node with a map.
    - The body yields a scalar that it computes: the node of this computation, such as `arith.addf` of %a and %b.
    - The body yields an element of an input, or a value from outside, as it is: a node of a copy, whose child this is.

    Args:
        generic: The generic.
        value: The scalar that the body yields for the result.
        result: The result.
        scalars: Scalar of the body → its node, or the SSA value of the program for an element of an input that is not
            broadcast or transposed. Receives new entries.
    """
    overwritten = generic.outputs  # an elementwise generic reads none of them
    child = _scalar(generic, value, result.type, scalars)
    if isinstance(child, Node) and child.index_map is not None:  # an input that the body broadcasts or transposes
        return read_through(child.children[0], child.index_map, result.type, generic.op, result, overwritten)
    if isinstance(child, Node):  # computed in this generic
        assert child.value is None
        return replace(child, type=result.type, op=generic.op, value=result, overwritten=overwritten)
    key = intern_key(("copy",))  # the body yields an input, or a value from outside, as it is
    return Node(key, [child], result.type, op=generic.op, label="a copy", value=result, overwritten=overwritten)


def _scalar(
    generic: Structured, value: SSAValue, type: Attribute, scalars: dict[SSAValue, SSAValue | Node]
) -> SSAValue | Node:
    """Return the node of a scalar of an elementwise body: its computation for all elements, as a tensor.

    An element of an input at the position of the result has no node: the input, an SSA value, is returned. The nodes of
    operands are created first, without recursion, because bodies may be long.

    Args:
        generic: The generic.
        value: The scalar.
        type: Type of the result, whose shape all nodes have.
        scalars: Nodes of scalars of the body; receives new ones.
    """
    pending = [value]
    while pending:
        top = pending[-1]
        if top in scalars:
            pending.pop()
            continue
        inner = top.owner
        if isinstance(inner, Operation) and inner.parent is generic.body:
            missing = [v for v in inner.operands if v not in scalars]
            if missing:  # they get their nodes first, and then `top` is visited again
                pending += missing
                continue
        pending.pop()
        scalars[top] = _scalar_child(generic, top, type, scalars)
    return scalars[value]


def _scalar_child(
    generic: Structured, value: SSAValue, type: Attribute, scalars: dict[SSAValue, SSAValue | Node]
) -> SSAValue | Node:
    """Return the node of a scalar whose operands have their nodes in `scalars`: as a tensor of the shape of `type`.

    A scalar that the body reads is the tensor or scalar of the program itself, or a node with a map if the generic
    broadcasts or transposes the tensor. Example: the body is `%r = arith.addf %x, %y`, where %x is an element of the
    matrix %a, and %y an element of the vector %b, which is added to each row. The node of %x is %a. That of %y reads %b
    by the map (d0, d1) -> (d1). That of %r is an `arith.addf` with these two as children.

    Args:
        generic: The generic.
        value: The scalar.
        type: Type of the result, whose shape all nodes have.
        scalars: Nodes of scalars of the body.
    """
    inner, op = value.owner, generic.op
    assert isinstance(type, TensorType)
    if inner is generic.body:
        return _operand_child(generic, generic.block.args.index(value), type)
    if not isinstance(inner, Operation) or inner.parent is not generic.body:  # captured from outside
        return value
    # A constant, or another operation of the body.
    wide = TensorType(value.type, type.get_shape())  # the scalar of all elements, as a tensor
    if inner.name == "arith.constant":
        attribute = inner.properties.get("value")
        constant_id = intern_key(expressions.constant_key(attribute) or ("constant", attribute))
        text = expressions.constant_text(attribute)
        return Node(constant_id, (), wide, op=op, label="constant", parts=[("value", text)])
    key, commutes, swapped = operation_key(inner)
    children = [scalars[v] for v in inner.operands]
    if swapped:  # the key belongs to the operation with exchanged operands: `a < b` has the key of `b > a`
        children.reverse()
    index = inner.results.index(value)
    parts = [(name, str(attr)) for name, attr in sorted(inner.properties.items())]
    regions = ()  # part of the key, as for other operations; operations with regions are not elementwise
    id_ = intern_key(("op", key, regions, index))
    return Node(id_, children, wide, op=op, label=inner.name, commutative=commutes, parts=parts)


def _operand_child(generic: Structured, index: int, type: TensorType[Attribute]) -> SSAValue | Node:
    """Return the node of the elements of operand `index` that a generic reads, in the shape of `type`."""
    operand = generic.operands[index]
    map = with_unit_loops(generic.maps[index], type.get_shape())  # index 0 along a loop of size 1 is that loop
    if not map.results or is_identity(map):  # a scalar, or the element at the position of the result
        return operand
    return read_through(operand, map, type, generic.op)
