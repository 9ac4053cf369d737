"""Topological order of a graph whose nodes are merged: answers which node depends on which while groups grow.

Nodes have ranks, in which producers come before consumers (the algorithm of Pearce and Kelly for dynamic graphs). A
search between two nodes visits only nodes whose ranks are between theirs. A merge changes only the ranks of such nodes
that depend on one of the two, or that one of the two depends on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

MOST_VISITED = 4096
"""Maximum number of nodes that one search visits. With a larger limit, the time to form groups is quadratic in the
number of operations; with a smaller one, more groups that are far apart in long programs are not merged."""


class TooFarError(Exception):
    """Signal that a search between two nodes visited more than `MOST_VISITED` others. The nodes are then not merged."""


class GroupOrder:
    """Acyclic dependence graph of the operations of a block, whose nodes are merged as fusion groups grow.

    Nodes are added by `add` in the order of the block, and merged by `merge` after `needs` has shown that no cycle
    would arise. A node has a number; a merged node keeps one of the two numbers.

    `needs` and `require_near` raise TooFarError.
    """

    def __init__(self) -> None:
        """Begin with a graph without nodes."""
        self.visited = 0
        """Number of nodes that all searches have visited, as a measure of their cost."""
        self._rank: dict[int, int] = {}  # a topological order: the sources of a node have lower ranks
        self._next_rank = 0
        self._sources: dict[int, set[int]] = {}  # node → nodes that it reads
        self._readers: dict[int, set[int]] = {}  # node → nodes that read it
        self._merged: dict[int, int] = {}  # from a removed node to the node that it was merged into

    def node(self, node: int) -> int:
        """Return the node that `node` was merged into, or `node` itself."""
        end = node
        while end in self._merged:
            end = self._merged[end]
        # Path compression: later calls find `end` in one step.
        while node != end:
            self._merged[node], node = end, self._merged[node]
        return end

    def add(self, node: int, sources: Iterable[int]) -> None:
        """Add a node that depends on `sources`, as the last one of the order."""
        self._rank[node], self._next_rank = self._next_rank, self._next_rank + 1
        self._sources[node] = {self.node(source) for source in sources}
        self._readers[node] = set()
        for source in self._sources[node]:
            self._readers[source].add(node)

    def sources(self, node: int) -> set[int]:
        """Return the direct predecessors of a node."""
        return self._neighbours(self._sources, node)

    def needs(self, nodes: Iterable[int], others: Collection[int]) -> bool:
        """Return whether one of `nodes` depends on one of `others`, directly or transitively.

        Raises TooFarError if the search visits more than MOST_VISITED nodes.
        """
        # A node's rank is its position in a topological order. A node that depends on another has a higher rank:
        # neither lower nodes nor paths through them matter.
        lowest_rank = min(self._rank[other] for other in others)
        candidates = [node for node in nodes if self._rank[node] > lowest_rank]
        if not candidates:
            return False
        above = lowest_rank - 1  # excluded, so that `others` themselves are visited
        sources = self._search(self._sources, candidates, above=above, below=self._next_rank, limit=MOST_VISITED)
        return not sources.isdisjoint(others)

    def require_near(self, lhs: int, rhs: int) -> None:
        """Raise TooFarError if `merge` of two nodes would visit more than MOST_VISITED others."""
        self._between(lhs, rhs, MOST_VISITED)

    def merge(self, a: int, into: int) -> None:
        """Merge node `a` into node `into`, whose number remains. No other node may be on a path between the two.

        Each node has a rank, its position in a topological order: nodes that it reads have lower ranks.
        """
        # Both sets are nodes with ranks between the two: predecessors of the later node, successors of the earlier one.
        predecessors, successors = self._between(a, into, limit=None)  # None: any number of nodes
        assert not predecessors & successors, "the merged node would need itself"
        by_rank = self._rank.__getitem__
        # The merged node belongs after the predecessors and before the successors. So the ranks of all these nodes are
        # assigned again in this order; other nodes keep theirs. The rank after the merged node's remains unused,
        # because two nodes become one. Example: the reader r of `into`, and p, which `a` reads, are between the two:
        #
        #     rank      1      2       3        4
        #     before    into   r       p        a
        #     after     p      into    unused   r
        new_order = (*sorted(predecessors, key=by_rank), into, a, *sorted(successors, key=by_rank))
        self._rank.update(zip(new_order, sorted(map(by_rank, new_order)), strict=True))
        del self._rank[a]
        self._merged[a] = into
        # Other nodes keep `a` in their edges; `_merged` leads from it to `into`.
        for edges in (self._sources, self._readers):
            smaller, larger = sorted((edges.pop(a), edges[into]), key=len)
            larger |= smaller
            larger -= {a, into}
            edges[into] = larger

    def _between(self, lhs: int, rhs: int, limit: int | None) -> tuple[set[int], set[int]]:
        """Return the transitive predecessors of the later node, and the transitive successors of the earlier one.

        Both sets contain only nodes whose ranks are between those of the two. Raises TooFarError if one of them would
        have more than `limit` nodes; None for no limit.
        """
        earlier, later = sorted((lhs, rhs), key=self._rank.__getitem__)
        lowest_rank, highest_rank = self._rank[earlier], self._rank[later]
        predecessors = self._search(self._sources, [later], above=lowest_rank, below=highest_rank, limit=limit)
        successors = self._search(self._readers, [earlier], above=lowest_rank, below=highest_rank, limit=limit)
        return predecessors, successors

    def _search(
        self, edges: dict[int, set[int]], starts: Iterable[int], above: int, below: int, limit: int | None
    ) -> set[int]:
        """Return the nodes reachable from `starts` along `edges` over nodes with ranks between `above` and `below`,
        both excluded.

        The rank of a node is its position in a topological order. Paths through nodes with other ranks lead to no node
        between `above` and `below`, and are not followed. The number of reached nodes is added to `visited`, which
        measures the cost of all searches.

        limit: raise TooFarError if more nodes are reached; None for no limit.
        """
        reached: set[int] = set()
        pending = list(starts)
        while pending:
            for node in self._neighbours(edges, pending.pop()):
                if node not in reached and above < self._rank[node] < below:
                    reached.add(node)
                    pending.append(node)
            if limit is not None and len(reached) > limit:
                raise TooFarError
        self.visited += len(reached)
        return reached

    def _neighbours(self, edges: dict[int, set[int]], node: int) -> set[int]:
        """Return the neighbours of a node in `edges`, with merged nodes replaced by their current numbers."""
        neighbours = edges[node]
        # A merge does not update the edges of other nodes: they are updated here, on first use.
        if not self._merged.keys().isdisjoint(neighbours):
            neighbours = edges[node] = {self.node(other) for other in neighbours} - {node}
        return neighbours
