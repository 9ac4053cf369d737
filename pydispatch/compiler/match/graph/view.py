"""View of a program as data-flow nodes, independent of how the computation is written.

Elementwise `linalg.generic`s, fused or not, and `arith`/`math` on tensors have the same nodes, one for each scalar
operation. Named operations have the nodes of their normalised form. Casts between static and dynamic sizes are skipped.
The initial contents of an output tensor that is overwritten are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.broadcasts import map_of_unit_axes
from pydispatch.compiler.match.graph.expressions import ScalarBody, intern_id, operation_key
from pydispatch.errors import CompileError
from pydispatch.ir.affine_maps import is_identity, with_unit_loops
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import Structured, structured

_CASTS = ("tensor.cast",)
# Operations whose other operands are only sizes.
_SPLATS = ("tensor.splat", "flow.tensor.splat")


@dataclass(eq=False, slots=True)
class Node:
    """Node of the data-flow graph: one computed value. Nodes are compared by identity.

    Attributes:
        key: Interned id of the computation without its operands: equal keys are equal functions of the children. For
            an operation: `("op", operation_key(...), keys of its regions, number of the result)`.
        children: Operands, in order.
        type: Type of the value.
        op: Operation of the program that the node is part of; None for an argument.
        label: Name of the computation in messages.
        value: The SSA value; None for a node inside a generic, whose scalar is no tensor of the program.
        commutative: Whether the two operands may be exchanged; set to false for another number of operands.
        parts: Details for messages, as (name, text).
        unread: Operands that are initial contents of a result and overwritten without being read; they are no children.
        reads: Map from the index of an element to that of the operand's element, for an operand that is broadcast or
            transposed; None for other nodes.
    """

    key: int
    children: Sequence[SSAValue | Node]
    type: Attribute
    _: KW_ONLY
    op: Operation | None
    label: str
    value: SSAValue | None = None
    commutative: bool = False
    parts: Sequence[tuple[str, str]] = ()
    unread: Sequence[SSAValue] = ()
    reads: AffineMap | None = None

    def __post_init__(self) -> None:
        self.commutative = self.commutative and len(self.children) == 2

    @property
    def is_constant(self) -> bool:
        """Whether the node is a scalar or splat constant."""
        return self.label == "constant"


class GraphView:
    """The nodes of one program or pattern, created on demand."""

    def __init__(self) -> None:
        self._nodes: dict[Operation, list[Node]] = {}
        self._outside: dict[SSAValue, Node] = {}

    def node(self, child: SSAValue | Node) -> Node:
        """Return the node of a value; casts are skipped."""
        if isinstance(child, Node):
            return child
        child = source_of(child)
        if not isinstance(child, OpResult):
            known = self._outside.get(child)
            if known is None:
                key = intern_id(("outside", id(child)))
                known = self._outside[child] = Node(key, (), child.type, op=None, label="an argument", value=child)
            return known
        return self.nodes(child.op)[child.index]

    def nodes(self, op: Operation) -> list[Node]:
        """Return one node for each result of an operation."""
        known = self._nodes.get(op)
        if known is None:
            known = self._nodes[op] = _nodes_of(op, self)
        return known

    def forget(self, op: Operation) -> None:
        """Remove the cached nodes of an operation, and of reshapes that read its operand through it.

        Callers use it after the operands of `op` changed.
        """
        self._nodes.pop(op, None)
        if op.name in _CASTS or map_of_unit_axes(op) is not None:
            for use in op.results[0].uses:
                self.forget(use.operation)


COMPARED_OPERANDS = {"tensor.expand_shape": 1}
"""Number of operands before the sizes of the result, which are left out because the result type has them. All operands
of an operation that is not listed are compared."""


def source_of(value: SSAValue) -> SSAValue:
    """Return the source of casts that only change static size information."""
    while isinstance(value, OpResult) and value.op.name in _CASTS:
        value = value.op.operands[0]
    return value


def _nodes_of(op: Operation, view: GraphView) -> list[Node]:
    """Create the nodes of the results of an operation."""
    if isinstance(op, GenericOp):
        return _of_generic(op)
    if op.name == "arith.constant":
        value = op.properties.get("value")
        key = expressions.constant_key(value) or ("constant", value)
        text = expressions.constant_text(value)
        result = op.results[0]
        return [Node(intern_id(key), (), result.type, op=op, label="constant", value=result, parts=[("value", text)])]
    if op.name in _SPLATS:
        return [_splat(op, op.operands[0], view, unread=())]
    unit_axes = map_of_unit_axes(op)
    if unit_axes is not None:
        return [_reshaped(op, unit_axes, view)]
    if _is_named(op):
        named = _of_named(op, view)
        if named is not None:
            return named
    key, commutes, swapped = operation_key(op)
    captured: list[SSAValue] = []
    regions = tuple(expressions.region_key(op, captured)) if op.regions else ()
    operands = list(reversed(op.operands)) if swapped else list(op.operands)
    parts = [(name, str(value)) for name, value in sorted(op.properties.items())]
    children = [*operands[: COMPARED_OPERANDS.get(op.name)], *captured]
    keys = [intern_id(("op", key, regions, i)) for i in range(len(op.results))]
    return [
        Node(id_, children, r.type, op=op, label=op.name, value=r, commutative=commutes, parts=parts)
        for id_, r in zip(keys, op.results, strict=True)
    ]


def _reshaped(op: Operation, reads: AffineMap, view: GraphView) -> Node:
    """Return the node of a tensor whose axes of size 1 are others than those of its operand; reads: the map of both.

    Operands that differ from their own operands in such axes alone are skipped.
    """
    result, operand = op.results[0], op.operands[0]
    source = source_of(operand)
    if isinstance(source.owner, Operation) and map_of_unit_axes(source.owner) is not None:
        inner = view.node(source)
        assert inner.reads is not None
        return _read(inner.children[0], inner.reads.compose(reads), result.type, op, result)
    return _read(operand, reads, result.type, op, result)


def _read(
    operand: SSAValue | Node, reads: AffineMap, type: Attribute, op: Operation, value: SSAValue | None = None,
    unread: Sequence[SSAValue] = (),
) -> Node:  # fmt: skip
    """Return the node of a tensor whose elements are those of an operand, as a map states."""
    label = f"an operand read by {reads}"
    return Node(intern_id(("map",)), [operand], type, op=op, label=label, value=value, unread=unread, reads=reads)


def _splat(op: Operation, scalar: SSAValue, view: GraphView, unread: Sequence[SSAValue]) -> Node:
    """Return the node of a splat tensor; it equals a scalar constant if its element is constant."""
    inner = view.node(scalar)
    result = op.results[0]
    if inner.is_constant:
        return Node(inner.key, (), result.type, op=op, label="constant", value=result, parts=inner.parts, unread=unread)
    return Node(intern_id(("splat",)), [scalar], result.type, op=op, label="splat", value=result, unread=unread)


# --- linalg.generic ---


def _of_generic(op: GenericOp) -> list[Node]:
    """Create the nodes of a generic: those of its scalar operations if it is elementwise, else one for the whole."""
    generic = structured(op)
    block = generic.block
    out_args = block.args[len(generic.inputs) :]
    elementwise = (
        all(kind == "parallel" for kind in generic.iterators)
        and all(is_identity(m) for m in generic.output_maps)
        and not any(list(a.uses) for a in out_args)
        and not any(inner.regions for inner in block.ops)
    )
    if elementwise:
        last = block.last_op
        assert last is not None
        scalars: dict[SSAValue, SSAValue | Node] = {}
        nodes: list[Node] = []
        for result, value in zip(op.results, last.operands, strict=True):
            nodes.append(_scalar_root(generic, value, result, scalars))
        return nodes
    body = ScalarBody(block)
    yields = body.yields()
    read = [o for o, a in zip(generic.outputs, out_args, strict=True) if list(a.uses)]
    unread = [o for o, a in zip(generic.outputs, out_args, strict=True) if not list(a.uses)]
    last = block.last_op
    assert last is not None
    parts = [
        ("iterator_types", str(list(generic.iterators))),
        ("indexing_maps", str([str(m) for m in generic.maps])),
        ("body", "yield " + ", ".join(body.text(v) for v in last.operands)),
    ]
    key = ("structured", generic.iterators, tuple(str(m) for m in generic.maps), yields, len(generic.inputs))
    children = [*generic.inputs, *read, *body.captured]
    return [
        Node(intern_id((*key, i)), children, r.type, op=op, label="linalg.generic", value=r, parts=parts, unread=unread)
        for i, r in enumerate(op.results)
    ]


def _scalar_root(
    generic: Structured, value: SSAValue, result: SSAValue, scalars: dict[SSAValue, SSAValue | Node]
) -> Node:
    """Return the node of one result of an elementwise generic: the node of the scalar that it yields, with the result
    as its value. Arguments are those of `_scalar`, and `result`.
    """
    child = _scalar(generic, value, result.type, scalars)
    if isinstance(child, Node) and child.reads is not None:
        return _read(child.children[0], child.reads, result.type, generic.op, result, generic.outputs)
    if isinstance(child, Node) and child.value is None:  # computed in this generic
        return replace(child, type=result.type, op=generic.op, value=result, unread=generic.outputs)
    key = intern_id(("copy",))
    return Node(key, [child], result.type, op=generic.op, label="a copy", value=result, unread=generic.outputs)


def _scalar(
    generic: Structured, value: SSAValue, type: Attribute, scalars: dict[SSAValue, SSAValue | Node]
) -> SSAValue | Node:
    """Return the node of a scalar of an elementwise body: its computation for all elements, as a tensor.

    The nodes of its operands are created first, without recursion, because bodies may be long.

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
            if missing:
                pending += missing
                continue
        pending.pop()
        scalars[top] = _scalar_child(generic, top, type, scalars)
    return scalars[value]


def _scalar_child(
    generic: Structured, value: SSAValue, type: Attribute, scalars: dict[SSAValue, SSAValue | Node]
) -> SSAValue | Node:
    """Return the node of a scalar whose operands have their nodes in `scalars`: as a tensor of the shape of `type`.

    A scalar that the body reads is the tensor or scalar of the program itself. Arguments are those of `_scalar`.
    """
    inner, op = value.owner, generic.op
    assert isinstance(type, TensorType)
    if inner is generic.body:
        index = generic.block.args.index(value)
        operand = generic.operands[index]
        map = with_unit_loops(generic.maps[index], type.get_shape())
        if not map.results or is_identity(map):
            return operand
        return _read(operand, map, type, op)
    if not isinstance(inner, Operation) or inner.parent is not generic.body:
        return value
    wide = TensorType(value.type, type.get_shape())
    if inner.name == "arith.constant":
        attribute = inner.properties.get("value")
        constant_id = intern_id(expressions.constant_key(attribute) or ("constant", attribute))
        text = expressions.constant_text(attribute)
        return Node(constant_id, (), wide, op=op, label="constant", parts=[("value", text)])
    key, commutes, swapped = operation_key(inner)
    children = [scalars[v] for v in inner.operands]
    if swapped:
        children.reverse()
    index = inner.results.index(value)
    parts = [(name, str(attr)) for name, attr in sorted(inner.properties.items())]
    regions = ()  # operations with regions are not elementwise
    id_ = intern_id(("op", key, regions, index))
    return Node(id_, children, wide, op=op, label=inner.name, commutative=commutes, parts=parts)


# --- named operations ---


def _is_named(op: Operation) -> bool:
    """Return whether an operation has a lowering to normal form."""
    from pydispatch.compiler.normalize import row_of

    return row_of(op.name) is not None


def _of_named(op: Operation, view: GraphView) -> list[Node] | None:
    """Return the nodes of a named operation as those of its normal form (generics), so that both match alike.

    The operation is copied into a scratch function, which is normalized. Return None if normalization fails or keeps
    the operation, or if a result has no node.
    """
    from pydispatch.compiler.normalize import normalize

    outer = Block(arg_types=[o.type for o in op.operands])
    mapping: dict[SSAValue, SSAValue] = dict(zip(op.operands, outer.args, strict=True))
    for inner in walk(op):
        for v in inner.operands:
            if v not in mapping and not (isinstance(v.owner, Operation | Block) and _inside(v, op)):
                mapping[v] = outer.insert_arg(v.type, len(outer.args))
    back = {a: v for v, a in mapping.items()}  # argument of the scratch function -> value of the program
    for operand, argument in zip(op.operands, outer.args, strict=False):  # values that regions read are further args
        back[argument] = operand
    copy = op.clone(dict(mapping))
    # One operand passed twice is two arguments, identified by position.
    for i in range(len(op.operands)):
        copy.operands[i] = outer.args[i]
    outer.add_op(copy)
    outer.add_op(ReturnOp(*copy.results))
    function = FuncOp("scratch", FunctionType.from_lists([a.type for a in outer.args], [r.type for r in op.results]),
                      Region(outer))  # fmt: skip
    try:
        normalize(ModuleOp([function]))
    except (CompileError, NotImplementedError):
        return None
    last = outer.last_op
    assert last is not None
    if any(inner.name == op.name for inner in outer.ops):  # only checked, or kept as it is
        return None
    inside = GraphView()
    nodes: list[Node] = []
    for result, value in zip(op.results, last.operands, strict=True):
        moved = _moved(inside.node(value), inside, back, op, {})
        if not isinstance(moved, Node):  # the result is an operand itself
            return None
        if moved.label == "splat" and view.node(moved.children[0]).is_constant:  # a constant of the program around op
            scalar = view.node(moved.children[0])
            moved.key, moved.label, moved.children, moved.parts = scalar.key, "constant", (), scalar.parts
        moved.value, moved.type = result, result.type
        moved.unread = [o for o in getattr(op, "outputs", ()) if not _reads(moved, o)]  # initial contents, overwritten
        nodes.append(moved)
    return nodes


def _reads(node: Node, value: SSAValue) -> bool:
    """Return whether a node has the value as an operand, directly or through its child nodes."""
    pending: list[SSAValue | Node] = [node]
    while pending:
        child = pending.pop()
        if child is value:
            return True
        if isinstance(child, Node):
            pending += child.children
    return False


def _inside(value: SSAValue, op: Operation) -> bool:
    """Return whether a value is defined inside the regions of `op`."""
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        return parent is not None and op.is_ancestor(parent)
    return owner is not op and op.is_ancestor(owner)


def _moved(
    node: Node, inside: GraphView, back: dict[SSAValue, SSAValue], op: Operation, done: dict[Node, SSAValue | Node]
) -> SSAValue | Node:
    """Translate a node of the scratch function to a node or value of the program.

    Args:
        node: The node.
        inside: Nodes of the scratch function.
        back: Argument of the scratch function → operand of the operation.
        op: The operation, to which the new nodes belong.
        done: Nodes that have been translated, and their translations.
    """
    if node in done:
        return done[node]
    if node.value in back:
        return back[node.value]
    children = [_moved(inside.node(c), inside, back, op, done) for c in node.children]
    unread = [back[u] for u in node.unread if u in back]
    done[node] = replace(node, children=children, op=op, value=None, unread=unread)
    return done[node]
