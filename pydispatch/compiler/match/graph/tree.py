"""Discrimination tree over many patterns: a trie of keys in pre-order, which is walked along with the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.graph.nodes import Node
from pydispatch.compiler.match.graph.view import GraphView

T = TypeVar("T")


class _Branch(Generic[T]):
    """A node of the trie. by_key: the branch of each key; any: the branch of the wildcard; here: the items that end
    here.
    """

    __slots__ = ("any", "by_key", "here")

    def __init__(self) -> None:
        self.by_key: dict[int, _Branch[T]] = {}
        self.any: _Branch[T] | None = None
        self.here: list[T] = []


class Tree(Generic[T]):
    """Discrimination tree: an index of items by path. find() returns a superset of the items that match."""

    def __init__(self) -> None:
        self._root: _Branch[T] = _Branch()

    def add(self, path: Sequence[int | None], item: T) -> None:
        """Add an item under a path: the keys of a pattern in pre-order, None for a wildcard. The path may be
        truncated.
        """
        branch = self._root
        for key in path:
            if key is None:
                branch.any = branch.any or _Branch()
                branch = branch.any
            else:
                branch = branch.by_key.setdefault(key, _Branch())
        branch.here.append(item)

    def find(self, op: Operation, view: GraphView) -> list[T]:
        """Return the items whose paths fit the first result of an operation and its producers, in no order."""
        if not op.results:
            return []
        nodes = view.nodes(op)
        matches: list[T] = []
        nodes_to_visit = (nodes[0], None)  # a linked list: (first node, list of the others)
        self._walk(self._root, nodes_to_visit, view, matches)
        return matches

    def _walk(self, branch: _Branch[T], rest: object, view: GraphView, matches: list[T]) -> None:
        """Append the matching items below a branch. rest: the nodes still to visit, as a linked list (head, tail),
        which branches share.
        """
        matches += branch.here
        if rest is None:
            return
        assert isinstance(rest, tuple)
        child: SSAValue | Node = rest[0]
        later: object = rest[1]
        if branch.any is not None:
            self._walk(branch.any, later, view, matches)
        if not branch.by_key:
            return
        node: Node = view.node(child)
        inner = branch.by_key.get(node.key)
        if inner is None:
            return
        children: Sequence[SSAValue | Node] = node.children
        before = len(matches)
        for order in (children, children[::-1]) if node.commutative else (children,):
            into = later
            for operand in reversed(order):
                into = (operand, into)
            self._walk(inner, into, view, matches)
        if node.commutative and len(matches) > before + 1:  # Both orders may lead to the same.
            matches[before:] = list({id(f): f for f in matches[before:]}.values())
