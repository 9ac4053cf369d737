"""Chains: a contraction, rows computed from its result, and a contraction of these rows. Attention is one.

A workgroup computes some rows of the first product, all of what follows row by row, and its part of the second product
from them, so that neither the products of queries and keys nor their softmax leave the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, Float64Type, TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.kernels.matmul.match import Contraction, contractions
from pydispatch.compiler.kernels.matmul.results import Places, dependents, positions
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of

MOST_COLUMNS = 4096
"""The longest row of the first product: a register block's rows of it stay in the second-level cache."""


@dataclass(frozen=True)
class Chain:
    """scores: what is computed from the first product place by place. rows: what the second reads, computed from whole
    rows of `scores`, along the last dimension. Both have the dimensions of the first product. parts: the operations of
    the first product, of the rows and of the second product, each a dispatch by itself."""

    first: Contraction
    second: Contraction
    scores: SSAValue
    rows: SSAValue
    parts: tuple[list[Operation], list[Operation], list[Operation]]

    @property
    def outer(self) -> list[int]:
        """The dimensions of the rows that are outer ones of both products."""
        return [d for d in range(len(shape_of(self.rows)) - 1) if self.second_loops[d] != self.second.m]

    @property
    def first_loops(self) -> list[int]:
        """For each dimension of the rows the loop of the first product that it is."""
        return _positions(self.first.generic.output_maps[0].results)

    @property
    def second_loops(self) -> list[int]:
        """The same of the second product."""
        return [c.terms[0][0] for c in self.second.a.coordinates]


def chain_of(operations: Sequence[Operation]) -> Chain | None:
    """Return the chain that operations are, in an order in which they can run; None when they are none."""
    found = contractions(operations)
    if len(found) != 2:
        return None
    first, second = found
    members = set(operations)
    after_first = dependents(first.op, operations)
    if second.op not in after_first:
        return None
    known: Places = {}
    scores = _scores(first, second, after_first, members, known)
    rows = second.generic.inputs[second.a.main]
    if scores is None or not second.a.direct or rows is scores or rows.owner not in after_first:
        return None
    parts = _parts(first, second, scores, after_first, operations, known)
    if parts is None or any(
        use.operation not in members
        for op in (*parts[0], *parts[1]) if info_of(op).cost is not Cost.FREE
        for result in op.results for use in result.uses
    ):  # fmt: skip
        return None
    chain = Chain(first, second, scores, rows, parts)
    return chain if _fits(chain) and _aligned(chain) else None


def _scores(
    first: Contraction, second: Contraction, after: Collection[Operation], members: set[Operation], known: Places
) -> SSAValue | None:  # fmt: skip
    """Return the one value that is computed from the first product place by place and that something else is computed
    from.
    """
    result = first.op.results[0]
    found: list[SSAValue] = []
    rank = len(shape_of(result))
    for value in (result, *(r for op in after if op is not second.op for r in op.results)):
        if not isinstance(value.type, TensorType) or positions(value, result, known) != list(range(rank)):
            continue
        users = [use.operation for use in value.uses]
        if any(user not in members for user in users):
            return None
        if any(all(positions(r, result, known) is None for r in user.results) for user in users):
            found.append(value)
    return found[0] if len(found) == 1 else None


def _parts(
    first: Contraction, second: Contraction, scores: SSAValue, after_first: Collection[Operation],
    operations: Sequence[Operation], known: Places,
) -> tuple[list[Operation], list[Operation], list[Operation]] | None:  # fmt: skip
    """Return the operations of the first product, of the rows and of the second product: each is where it is needed."""
    after_second = dependents(second.op, operations)
    result = first.op.results[0]
    home: dict[Operation, int] = {first.op: 0, second.op: 2}
    for op in operations:
        if op in after_second:
            home[op] = 2
        elif op in after_first and op not in home:
            home[op] = 0 if all(positions(r, result, known) is not None for r in op.results) else 1
    for op in reversed(operations):
        if op in home:
            continue
        readers = {home[user] for user in operations if user in home and any(v.owner is op for v in inputs_of(user))}
        if len(readers) != 1 and info_of(op).cost is not Cost.FREE:
            return None
        home[op] = min(readers, default=0)
    parts: tuple[list[Operation], list[Operation], list[Operation]] = ([], [], [])
    for op in operations:
        if info_of(op).cost is Cost.FREE:
            for part in parts:
                part.append(op)
        else:
            parts[home[op]].append(op)
    crossing = {
        v for op in operations for v in inputs_of(op)
        if isinstance(v.owner, Operation) and v.owner in home and home.get(op, 0) != home[v.owner]
        and info_of(v.owner).cost is not Cost.FREE
    }  # fmt: skip
    return parts if crossing == {scores, second.generic.inputs[second.a.main]} else None


def _fits(chain: Chain) -> bool:
    """Return whether both products have the rows in the same places, of sizes and types that the kernel
    has code for.
    """
    first, second = chain.first, chain.second
    values = (chain.scores, chain.rows, second.op.results[0])
    types = [v.type.element_type for v in values if isinstance(v.type, TensorType)]
    if len(set(types)) != 1 or not isinstance(types[0], Float32Type | Float64Type):
        return False
    if shape_of(chain.rows) != shape_of(chain.scores) or not 0 < shape_of(chain.rows)[-1] <= MOST_COLUMNS:
        return False
    if any(n is None or n < 1 for g in (first.generic, second.generic) for n in g.extents):
        return False
    a = second.a.coordinates
    if any(len(c.terms) != 1 or not c.is_identity(c.terms[0][0]) for c in a) or second.reductions:
        return False
    above, below = chain.first_loops, chain.second_loops
    if len(set(below)) != len(below) or below[-1] != second.k or above[-1] != first.n or -1 in above:
        return False
    row_of_first = None if first.m is None else above.index(first.m)
    row_of_second = None if second.m is None else below.index(second.m) if second.m in below else -1
    inner = {first.m, first.n, second.m, second.n}
    outer_fits = {below[d] for d in chain.outer} == set(second.outer) and set(first.outer) == {
        above[d] for d in chain.outer
    }
    return row_of_first == row_of_second and outer_fits and inner != {None}


def _positions(results: Sequence[object]) -> list[int]:
    return [r.position if isinstance(r, AffineDimExpr) else -1 for r in results]


def _aligned(chain: Chain) -> bool:
    """Return whether a row of `rows` is computed from the row of `scores` in the same place, and from nothing else of
    it.
    """
    rank = len(shape_of(chain.scores))
    known: dict[SSAValue, list[int]] = {chain.scores: list(range(rank))}
    for op in chain.parts[1]:
        reads = [(number, known[v]) for number, v in enumerate(op.operands) if v in known]
        if not reads:
            continue
        if op.name != GENERIC:
            rule = rule_of(op)
            if rule is None or not rule.is_pointwise(op) or any(dims != reads[0][1] for _, dims in reads):
                return False
            known.update((r, reads[0][1]) for r in op.results)
            continue
        g, of_loop = structured(op), dict[int, int]()
        for number, dims in reads:
            for place, dim in zip(_positions(g.maps[number].results), dims, strict=True):
                if place < 0 or of_loop.setdefault(place, dim) != dim:
                    return False
        if len(set(of_loop.values())) != len(of_loop) or any(of_loop.get(loop) != rank - 1 for loop in g.loops):
            return False
        for result, map_ in zip(op.results, g.output_maps, strict=True):
            places = _positions(map_.results)
            if any(place not in of_loop for place in places):
                return False
            known[result] = [of_loop[place] for place in places]
    return isinstance(chain.rows, OpResult) and known.get(chain.rows) == list(range(rank))
