"""The order in which formation keeps its groups, against sets of everything that a node needs."""

from __future__ import annotations

import random

import pytest

from pydispatch.compiler.fusion import group_order as order_module
from pydispatch.compiler.fusion.group_order import GroupOrder, TooFarError


class Reference:
    """All nodes that each node needs, updated for every node at each merge."""

    def __init__(self) -> None:
        self.needed: dict[int, set[int]] = {}

    def add(self, number: int, sources: set[int]) -> None:
        self.needed[number] = sources.union(*(self.needed[source] for source in sources))

    def merge(self, a: int, into: int) -> None:
        both = self.needed[into] | self.needed.pop(a)
        for node, needed in self.needed.items():
            if node == into or needed & {a, into}:
                self.needed[node] = needed - {a} | both - {a} | {into}
        self.needed[into] = both - {a, into}

    def is_circular(self, a: int, b: int) -> bool:
        """Return whether another node needs one of two and is needed by the other one."""
        return any(self.needed[between] & {a, b} for between in (self.needed[a] | self.needed[b]) - {a, b})


@pytest.mark.parametrize("seed", range(40))
def test_merges_of_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    order, reference = GroupOrder(), Reference()
    reach = rng.choice([3, 10, 1000])
    refused = merged = 0
    for number in range(rng.randrange(20, 90)):
        earlier = sorted(reference.needed)[-reach:]
        sources = set(rng.sample(earlier, min(len(earlier), rng.choice([0, 1, 1, 2, 4]))))
        order.add(number, sources)
        reference.add(number, sources)
        for _ in range(rng.choice([0, 1, 3])):
            if len(reference.needed) < 2:
                continue
            a, b = rng.sample(sorted(reference.needed), 2)
            is_circular = order.needs((order.sources(a) | order.sources(b)) - {a, b}, [a, b])
            assert is_circular == reference.is_circular(a, b)
            if not is_circular:
                order.merge(a, b)
                reference.merge(a, b)
                merged += 1
            refused += is_circular
        for node, needed in reference.needed.items():
            assert all(order.needs([node], [other]) == (other in needed) for other in reference.needed if other != node)
    assert merged


def test_a_merge_that_closes_a_circle_is_a_fault() -> None:
    order = GroupOrder()
    for number in range(3):
        order.add(number, {number - 1} & {0, 1})
    assert order.needs([1], [0, 2])
    with pytest.raises(AssertionError, match="would need itself"):
        order.merge(2, 0)


def test_long_searches_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "MOST_VISITED", 10)
    order = GroupOrder()
    for number in range(30):
        order.add(number, {number - 1} if number > 1 else ())
    with pytest.raises(TooFarError):
        order.needs([29], [0])
    with pytest.raises(TooFarError):
        order.require_near(0, 29)
    order.require_near(0, 5)
    order.merge(5, 0)
    assert order.needs([6], [0])


@pytest.mark.parametrize("count", [500, 1000])
def test_a_chain_of_merges_visits_few_nodes(count: int) -> None:
    order = GroupOrder()
    for number in range(count):
        order.add(number, {order.node(number - 1)} if number else ())
        if number % 50:
            order.merge(number, order.node(number - 1))
    assert order.visited == 0
