"""Discrimination tree over many patterns: a trie of keys in pre-order, which is walked along with the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.graph.expressions import ValueNumber
from pydispatch.compiler.match.graph.nodes import Node
from pydispatch.compiler.match.graph.view import GraphView

T = TypeVar("T")  # item of a tree, such as a pattern


class _Branch(Generic[T]):
    """A node of the trie, which stands for the paths that begin with the keys on the way to it.

    Attributes:
        by_key: Next key -> branch.
        wildcard: Branch of the wildcard as the next key; None if no path has it.
        items: Items whose paths end here.
    """

    __slots__ = ("by_key", "items", "wildcard")

    def __init__(self) -> None:
        """Begin without further branches and without items."""
        self.by_key: dict[ValueNumber, _Branch[T]] = {}
        self.wildcard: _Branch[T] | None = None
        self.items: list[T] = []


class Tree(Generic[T]):
    """Discrimination tree: an index of patterns, which returns the few that may match an operation of a program.

    `add` files an item, such as a pattern, under a path: the keys of its operations in pre-order. `find` walks the tree
    along an operation and its producers. It returns all items that match, and perhaps others, which the caller rejects.
    """

    def __init__(self) -> None:
        self._root: _Branch[T] = _Branch()

    def add(self, path: Sequence[ValueNumber | None], item: T) -> None:
        """Add an item under a path: the keys of a pattern in pre-order, None for a wildcard, which matches a node with
        all nodes below it. The path may be truncated.
        """
        branch = self._root
        for key in path:
            if key is None:
                branch.wildcard = branch.wildcard or _Branch()
                branch = branch.wildcard
            else:
                branch = branch.by_key.setdefault(key, _Branch())
        branch.items.append(item)

    def find(self, op: Operation, view: GraphView) -> list[T]:
        """Return the items whose paths fit the first result of an operation and its producers, in no defined order.

        view: nodes of the program that has the operation.
        """
        if not op.results:
            return []
        nodes = view.nodes(op)
        matches: list[T] = []
        nodes_to_visit = (nodes[0], None)  # a linked list: (first node, list of the others), None at its end
        self._walk(self._root, nodes_to_visit, view, matches)
        return matches

    def _walk(self, branch: _Branch[T], nodes_to_visit: object, view: GraphView, matches: list[T]) -> None:
        """Append to `matches` the matching items below a branch.

        An item is a pattern, which the tree has under its path: the keys of its nodes in pre-order, with a wildcard for
        each input. One call consumes the first node of the list in two ways. The branch of the wildcard skips the node
        with all its operands. The branch of the node's key replaces the node by its operands: in the list [%s, %t],
        where %s is `arith.subf %a, %b`, the branch of "arith.subf" continues with [%a, %b, %t].

        Args:
            branch: The branch of the keys of the nodes that were visited.
            nodes_to_visit: The following nodes in pre-order, as a linked list (head, tail), None at its end. Branches
                share the tails.
            view: Nodes of the program.
            matches: Receives the items.
        """
        matches += branch.items  # items whose last key is that of this branch
        if nodes_to_visit is None:
            return
        # The branch of the wildcard.
        assert isinstance(nodes_to_visit, tuple)
        child: SSAValue | Node = nodes_to_visit[0]
        later: object = nodes_to_visit[1]
        if branch.wildcard is not None:
            self._walk(branch.wildcard, later, view, matches)  # the wildcard also stands for the children
        if not branch.by_key:
            return
        # The branch of the next node's key; its operands are visited before the later nodes.
        node: Node = view.node(child)
        inner = branch.by_key.get(node.key)
        if inner is None:
            return
        # Both orders of the operands of a commutative operation.
        children: Sequence[SSAValue | Node] = node.children
        earlier_count = len(matches)
        orders = (children, children[::-1]) if node.commutative else (children,)
        for order in orders:
            operands_and_later = later
            for operand in reversed(order):  # put before the list, the last one first
                operands_and_later = (operand, operands_and_later)
            self._walk(inner, operands_and_later, view, matches)
        if node.commutative and len(matches) > earlier_count + 1:  # both orders may lead to the same items
            matches[earlier_count:] = list({id(item): item for item in matches[earlier_count:]}.values())
