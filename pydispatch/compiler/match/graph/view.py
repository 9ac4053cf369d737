"""View of a program as data-flow nodes, independent of how the computation is written.

Elementwise `linalg.generic`s, fused or not, and `arith`/`math` on tensors have the same nodes, one for each scalar
operation. Named operations have the nodes of their normalised form. Casts between static and dynamic sizes are skipped.
The initial contents of an output tensor that is overwritten are ignored.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.match.graph import expressions
from pydispatch.compiler.match.graph.broadcasts import map_of_unit_axes
from pydispatch.compiler.match.graph.expressions import intern_key, operation_key
from pydispatch.compiler.match.graph.generics import generic_nodes
from pydispatch.compiler.match.graph.nodes import Node, read_through
from pydispatch.errors import CompileError
from pydispatch.ir.core.walk import walk

CASTS = ("tensor.cast",)
"""Operations that change only which sizes a type states; matching skips them."""
# Operations whose other operands are only sizes.
_SPLATS = ("tensor.splat", "flow.tensor.splat")


class GraphView:
    """The nodes of one program or pattern, created on demand and cached.

    A node describes one value by the computation that defines it (`Node`). A pattern and the program each have a view
    of their own. A caller queries `node` for a value, or `nodes` for an operation, and calls `forget` for an operation
    whose operands it changes.
    """

    def __init__(self) -> None:
        """Begin without nodes."""
        self._nodes: dict[Operation, list[Node]] = {}  # operation -> a node for each result
        self._arguments: dict[SSAValue, Node] = {}  # block argument -> its node

    def node(self, child: SSAValue | Node) -> Node:
        """Return the node of a value; casts are skipped. A node is returned as it is."""
        if isinstance(child, Node):
            return child
        value = source_of(child)
        if isinstance(value, OpResult):
            return self.nodes(value.op)[value.index]
        node = self._arguments.get(value)
        if node is None:
            key = intern_key(("outside", value))  # unique: an argument equals itself alone
            node = self._arguments[value] = Node(key, (), value.type, op=None, label="an argument", value=value)
        return node

    def nodes(self, op: Operation) -> list[Node]:
        """Return one node for each result of an operation."""
        nodes = self._nodes.get(op)
        if nodes is None:
            nodes = self._nodes[op] = _nodes_of(op, self)
        return nodes

    def forget(self, op: Operation) -> None:
        """Remove the cached nodes of an operation, after its operands changed.

        If it is a cast or only adds or drops unit axes, the nodes of its users are removed, too: they skip such an
        operation, and were created from its operand.
        """
        self._nodes.pop(op, None)
        if op.name in CASTS or map_of_unit_axes(op) is not None:
            for use in op.results[0].uses:
                self.forget(use.operation)


COMPARED_OPERANDS = {"tensor.expand_shape": 1}
"""Operation -> how many of its operands, the first ones, are compared. The others are sizes of the result, which its
type has. All operands of an operation that is not listed are compared."""


def source_of(value: SSAValue) -> SSAValue:
    """Return the value before the casts that define `value`, if any. They only make sizes static or dynamic."""
    while isinstance(value, OpResult) and value.op.name in CASTS:
        value = value.op.operands[0]
    return value


def _nodes_of(op: Operation, view: GraphView) -> list[Node]:
    """Create a node for each result of an operation. Pattern matching compares nodes instead of operations.

    The first description that applies is used: a `linalg.generic` by its body, a constant, a splat, a tensor with other
    unit axes than its operand, the generics to which a named operation is normalized, or the operation itself.

    view: Nodes of the program or pattern with `op`; it creates those of the operands on demand.
    """
    if isinstance(op, GenericOp):
        return generic_nodes(op)
    if op.name == "arith.constant":
        value = op.properties.get("value")
        key = expressions.constant_key(value) or ("constant", value)
        text = expressions.constant_text(value)
        result = op.results[0]
        return [Node(intern_key(key), (), result.type, op=op, label="constant", value=result, parts=[("value", text)])]
    # A splat is a node of its scalar, and a reshape of unit axes one that reads its operand by a map.
    if op.name in _SPLATS:
        return [_splat(op, op.operands[0], view)]
    unit_axes = map_of_unit_axes(op)
    if unit_axes is not None:
        return [_reshaped(op, unit_axes, view)]
    if _has_normal_form(op):
        named = _nodes_of_named(op, view)
        if named is not None:
            return named
    return _plain_nodes(op)


def _plain_nodes(op: Operation) -> list[Node]:
    """Create a node for each result of an operation without a lowering to generics.

    It matches operations of its own name. Its children are the operands, without those that only state sizes, and the
    values from outside that its regions read.
    """
    key, commutes, swapped = operation_key(op)  # swapped: `a < b` has the key of `b > a`
    operands = list(reversed(op.operands)) if swapped else list(op.operands)
    compared_count = COMPARED_OPERANDS.get(op.name)  # None, so that the slice has all operands, for most operations
    captured: list[SSAValue] = []
    regions = tuple(expressions.region_key(op, captured)) if op.regions else ()  # region_key() fills `captured`, too
    children = [*operands[:compared_count], *captured]
    # Keys of results do not contain the operands: operands are compared as children.
    keys = [intern_key(("op", key, regions, i)) for i in range(len(op.results))]
    parts = [(name, str(value)) for name, value in sorted(op.properties.items())]  # for messages about differences
    return [
        Node(id_, children, r.type, op=op, label=op.name, value=r, commutative=commutes, parts=parts)
        for id_, r in zip(keys, op.results, strict=True)
    ]


def _reshaped(op: Operation, index_map: AffineMap, view: GraphView) -> Node:
    """Return the node of a tensor that differs from its operand in axes of size 1 alone.

    A chain of such reshapes is one node, which reads the tensor before them.

    Args:
        op: The reshape.
        index_map: Index of the result -> index of the operand.
        view: Nodes of the program.
    """
    result, operand = op.results[0], op.operands[0]
    source = source_of(operand)
    if isinstance(source.owner, Operation) and map_of_unit_axes(source.owner) is not None:
        inner = view.node(source)
        assert inner.index_map is not None
        return read_through(inner.children[0], inner.index_map.compose(index_map), result.type, op, result)
    return read_through(operand, index_map, result.type, op, result)


def _splat(op: Operation, scalar: SSAValue, view: GraphView) -> Node:
    """Return the node of a splat tensor whose elements are `scalar`.

    If that is constant, the node has the key of the scalar constant, as a dense constant of equal elements has.
    """
    inner, result = view.node(scalar), op.results[0]
    if inner.is_constant:  # without operands, as a scalar constant
        return Node(inner.key, (), result.type, op=op, label="constant", value=result, parts=inner.parts)
    return Node(key=intern_key(("splat",)), children=[scalar], type=result.type, op=op, label="splat", value=result)


def _has_normal_form(op: Operation) -> bool:
    """Return whether `normalize/` has a lowering of the operation to generics."""
    from pydispatch.compiler.normalize import row_of

    return row_of(op.name) is not None


def _nodes_of_named(op: Operation, view: GraphView) -> list[Node] | None:
    """Return the nodes of a named operation, as its normal form (one or several `linalg.generic`) has them.

    A pattern with the named operation then also matches equal generics, and the other way around.

    The operation is copied into a scratch function, which is normalized. The nodes of the values that the function
    returns are translated to the program: `linalg.add ins(%a, %b) outs(%o)` has the node of `arith.addf` with the
    children %a and %b, as a `linalg.generic` with this body has.

    Return None if normalization fails or keeps the operation, or if a result is an operand itself.
    """
    from pydispatch.compiler.normalize import normalize

    scratch, value_of_argument = _scratch_function(op)
    try:
        normalize(ModuleOp([scratch]))
    except (CompileError, NotImplementedError):
        return None
    body = scratch.body.block
    last = body.last_op
    assert last is not None
    if any(inner.name == op.name for inner in body.ops):  # normalization has kept it
        return None
    # The nodes of the results in the scratch function, translated to the program.
    scratch_view = GraphView()
    nodes: list[Node] = []
    for result, value in zip(op.results, last.operands, strict=True):
        node = _translated(scratch_view.node(value), scratch_view, value_of_argument, op, translations={})
        if not isinstance(node, Node):  # the result is an operand itself
            return None
        # A splat whose scalar is an operand of `op`, as in a `linalg.fill` of a constant. In the scratch function the
        # scalar is an argument. In the program it may be a constant: then the splat is a constant, too.
        if node.label == "splat" and view.node(node.children[0]).is_constant:
            _become_constant(node, scalar=view.node(node.children[0]))
        node.value, node.type = result, result.type
        # Outputs of which the computation reads no element: their initial contents are overwritten.
        node.overwritten = [o for o in getattr(op, "outputs", ()) if not _reads(node, o)]
        nodes.append(node)
    return nodes


def _scratch_function(op: Operation) -> tuple[FuncOp, dict[SSAValue, SSAValue]]:
    """Copy an operation into a new function, to normalize it there: the program is left as it is.

    The function has an argument for each operand, and for each value from outside that the regions of `op` read. It
    returns the results of the copy.

    Returns:
        The function, and a dict from each of its arguments to the value of the program that it stands for.
    """
    # An argument for each operand, then one for each value from outside.
    body = Block(arg_types=[o.type for o in op.operands])
    argument_of: dict[SSAValue, SSAValue] = dict(zip(op.operands, body.args, strict=True))
    for inner in walk(op):
        for v in inner.operands:
            # A value from outside of `op` that has no argument yet.
            if v not in argument_of and not (isinstance(v.owner, Operation | Block) and _inside(v, op)):
                argument_of[v] = body.insert_arg(v.type, len(body.args))
    values = {argument: value for value, argument in argument_of.items()}
    # An operand that is passed twice has two arguments. `argument_of` has one of them; both stand for the operand.
    for operand, argument in zip(op.operands, body.args, strict=False):  # without the arguments for regions
        values[argument] = operand
    # The copy, whose operands are the arguments at their positions, also those that are passed twice.
    copy = op.clone(dict(argument_of))
    for i in range(len(op.operands)):
        copy.operands[i] = body.args[i]
    body.add_op(copy)
    body.add_op(ReturnOp(*copy.results))
    type_ = FunctionType.from_lists([a.type for a in body.args], [r.type for r in op.results])
    return FuncOp("scratch", type_, Region(body)), values


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


def _become_constant(node: Node, scalar: Node) -> None:
    """Turn a node into the constant tensor whose elements are all the constant `scalar`."""
    node.key, node.label, node.children, node.parts = scalar.key, "constant", (), scalar.parts


def _translated(
    node: Node,
    scratch_view: GraphView,
    value_of_argument: dict[SSAValue, SSAValue],
    op: Operation,
    translations: dict[Node, SSAValue | Node],
) -> SSAValue | Node:
    """Translate a node of the scratch function, in which `op` was normalized, to a node or value of the program.

    The node of an argument becomes the operand that the argument stands for. Any other node becomes a copy with
    translated children, which belongs to `op`. It has no SSA value: the program has none for an intermediate result of
    `op`.

    Args:
        node: The node.
        scratch_view: Nodes of the scratch function.
        value_of_argument: Argument of the scratch function → operand of the operation.
        op: The operation, to which the new nodes belong.
        translations: Nodes that have been translated, and their translations.
    """
    if node in translations:
        return translations[node]
    if node.value in value_of_argument:
        return value_of_argument[node.value]
    children = [
        _translated(scratch_view.node(c), scratch_view, value_of_argument, op, translations) for c in node.children
    ]
    overwritten = [value_of_argument[v] for v in node.overwritten if v in value_of_argument]
    translations[node] = replace(node, children=children, op=op, value=None, overwritten=overwritten)
    return translations[node]
