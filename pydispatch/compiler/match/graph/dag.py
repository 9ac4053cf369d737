"""Patterns as DAGs of operations, which `search.py` compares with an operation of a program and its producers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.match.graph.expressions import ValueNumber
from pydispatch.compiler.match.graph.nodes import Node
from pydispatch.compiler.match.graph.view import GraphView, source_of

NAME_ONLY = "match.operation_name_only"
"""On an operation of a pattern: it matches any operation of its name, with any operands and attributes."""
_PATH_KEYS = 48
"""Maximum number of keys of a pattern's path: more of them tell patterns apart that begin alike, but take memory."""


class DagPattern:
    """Pattern of operations: a directed acyclic graph from a root operation to inputs.

    Attributes:
        block: Block that contains the operations.
        root: The operation whose results are those of the pattern.
        inputs: Arguments of the block, which stand for any value of their type.
        nodes: A node for each result of the root; the children of nodes are other nodes or values.
        view: Cache of the nodes of the pattern.
        unused: Inputs that the root does not depend on.
    """

    def __init__(self, block: Block, root: Operation) -> None:
        self.block, self.root = block, root
        self.view = GraphView()
        self.inputs = list(block.args)
        self.nodes = self.view.nodes(root)  # one for each result of the root
        self._input_index: dict[SSAValue, int] = {a: i for i, a in enumerate(block.args)}  # input → its position
        used, self._path = self._inputs_and_path()  # inputs that the root depends on, and the attribute `path`
        self.unused = [a for a in block.args if a not in used]  # inputs that the root does not depend on

    @property
    def path(self) -> Sequence[ValueNumber | None]:
        """The first keys of the nodes in pre-order, None for any node, by which a discrimination tree (`tree.py`) finds
        the patterns that an operation may match.
        """
        return self._path

    def _inputs_and_path(self) -> tuple[set[SSAValue], list[ValueNumber | None]]:
        """Return the inputs that the root depends on, and the pattern's `path`.

        A pattern is a graph of operations from a root to inputs; a node is one of its operations. Patterns that an
        operation may match are looked up by their paths. The path has the keys of the nodes from the root's first
        result on in pre-order, each before those of its operands, and at most `_PATH_KEYS` of them. For
        `addf(mulf(%x, 2.0), exp(%y))` the path is [key of addf, key of mulf, None, key of 2.0, key of exp, None].

        The path has None, which any node matches, and no keys of operands for these children:
        - an input,
        - an operation of which only the name is compared,
        - an operand that is broadcast or transposed.
        """
        used: set[SSAValue] = set()
        path: list[ValueNumber | None] = []
        seen: set[Node] = set()
        pending: list[SSAValue | Node] = [self.nodes[0]] if self.nodes else []
        while pending:
            child = pending.pop()
            # An input, or an operation of which only the name is compared.
            if self.input_index_of(child) is not None or self.name_only(child) is not None:
                if not isinstance(child, Node):
                    used.add(source_of(child))
                path.append(None)
                continue
            node = self.view.node(child)
            # An operand that is broadcast or transposed. The program may have the operand itself in its place: a
            # broadcast of tensor<1x8xf32> to tensor<?x8xf32> repeats nothing where the program's size is 1. So any key
            # must match here.
            if node.index_map is not None:
                path.append(None)
                self._add_used_inputs(node, used, seen)
                continue
            path.append(node.key)
            used.update(source_of(v) for v in node.overwritten)  # initial contents of results may be inputs
            # The inputs below a shared node are in `used` after the first walk. Another walk adds only keys, which are
            # not needed once the path is full.
            if node in seen and len(path) > _PATH_KEYS:
                continue
            seen.add(node)
            pending += reversed(node.children)
        for node in self.nodes[1:]:  # of the other results of the root
            self._add_used_inputs(node, used, seen)
        return used, path[:_PATH_KEYS]

    def _add_used_inputs(self, node: Node, used: set[SSAValue], seen: set[Node]) -> None:
        """Add to `used` the inputs that a node depends on, and those that it overwrites without a read.

        Children of a node are values or nodes. An input may have casts between it and its user: `used` has the value
        before them.

        seen: nodes whose inputs are in `used` already; they are skipped. Receives the visited nodes.
        """
        pending: list[SSAValue | Node] = [node]
        while pending:
            child = pending.pop()
            if self.input_index_of(child) is not None:
                used.add(source_of(child))  # type: ignore[arg-type]
                continue
            inner = self.view.node(child)  # of the operation that computes the value
            if inner in seen:
                continue
            seen.add(inner)
            used.update(source_of(v) for v in inner.overwritten)
            pending += inner.children

    def input_index_of(self, child: SSAValue | Node) -> int | None:
        """Return the index of the pattern's input that a child is, or is a cast of; None for other children."""
        if isinstance(child, Node):
            return None
        return self._input_index.get(source_of(child))

    def name_only(self, child: SSAValue | Node) -> str | None:
        """Return the operation name of a child if the pattern compares only its name (`NAME_ONLY`), else None."""
        op = child.op if isinstance(child, Node) else source_of(child).owner
        return op.name if isinstance(op, Operation) and NAME_ONLY in op.attributes else None
