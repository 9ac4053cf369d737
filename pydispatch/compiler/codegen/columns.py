"""Reductions over outer dimensions whose data lies side by side along the last dimension of the result.

A workgroup takes a run of columns and keeps their accumulators in workgroup memory; the reduced dimensions are loops
around independent points, which become vectors. Every column adds up in order; long sums go in blocks of ROWS, each with
accumulators of its own, which are then added to the column's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.codegen.affine_maps import dims_in, evaluate
from pydispatch.compiler.codegen.bits import bits_of
from pydispatch.compiler.codegen.builder import Builder, Index
from pydispatch.compiler.codegen.elements import Elements, IndexMap, tensor_type
from pydispatch.compiler.codegen.generics import Generic, body_at, loop_sizes, view_of
from pydispatch.compiler.codegen.sums import are_sums, nothing
from pydispatch.compiler.codegen.tiles import COLUMN_BYTES

ROWS = 1024
"""Steps that the accumulators of a block of columns take."""


@dataclass(frozen=True)
class Stage:
    """One reduction in columns. point: for each loop dimension the dimension of the nest that it is, -1 for none."""

    op: Operation
    point: tuple[int, ...]


def find_stages(
    e: Elements, finished: Sequence[tuple[SSAValue, Builder, tuple[Index, ...]]], indices: Sequence[Index]
) -> list[Stage]:
    """The reductions of a nest as stages, dependencies first; none when one of them does not run over columns.

    finished: the reductions of a trial whose loops have the counters `indices`.
    """
    stages: list[Stage] = []
    for value, _, where in finished:
        assert isinstance(value, OpResult)
        if any(stage.op is value.op for stage in stages):
            continue
        g = view_of(e, value.op)
        point = [-1] * len(g.iterators)
        for index, result in zip(where, g.output_maps[value.index].results, strict=True):
            if index == 0 and not isinstance(index, SSAValue):
                continue
            if index not in indices or not isinstance(result, AffineDimExpr):
                return []
            point[result.position] = list(indices).index(index)
        last = len(indices) - 1
        if point.count(last) != 1 or not _side_by_side(g, point.index(last)) or _small(value.op):
            return []
        stages.append(Stage(value.op, tuple(point)))
    return stages


def _small(op: Operation) -> bool:
    return any(bits_of(tensor_type(r).element_type) < 8 for r in op.results)


def _side_by_side(g: Generic, column: int) -> bool:
    """Whether most of what is read lies along the columns and not along the innermost reduced dimension."""
    across = along = 0
    for number, (value, map) in enumerate(zip(g.inputs, g.maps, strict=False)):
        if not isinstance(value.type, TensorType) or not map.results or not g.block.args[number].uses:
            continue
        last = {d.position for d in map.results[-1].dfs() if isinstance(d, AffineDimExpr)}
        across += column in last
        along += bool(last & set(g.loops)) and column not in last
        if column not in dims_in(map) and not last & set(g.loops):
            continue
    return across > along


def widest(stages: Sequence[Stage]) -> int:
    """How many columns a workgroup takes at most."""
    size = max(bits_of(tensor_type(r).element_type) // 8 for stage in stages for r in stage.op.results)
    return COLUMN_BYTES // size


def run_stages(
    e: Elements,
    build: Builder,
    stages: Sequence[Stage],
    outer: Sequence[Index],
    dims: Sequence[Index],
    low: Index,
    high: Index,
    buffers: dict[SSAValue, SSAValue],
    parts: dict[SSAValue, SSAValue],
) -> None:
    """Writes the stages for the columns `low` to `high` and says that their results lie in `buffers`.

    parts: buffers for the blocks of those that `in_blocks` names.
    """
    column = len(dims) - 1
    for stage in stages:
        g = view_of(e, stage.op)
        sizes = loop_sizes(e, g)
        memory = [buffers[r] for r in stage.op.results]
        point: list[Index] = [0 if p in (-1, column) else outer[p] for p in stage.point]
        where = stage.point.index(column)
        blocks = _rows_of_blocks(e, g, sizes)
        partial = [parts[r] for r in stage.op.results] if blocks else memory

        def start(b: Builder, index: Index) -> None:
            point[where] = index  # noqa: B023  (called inside this turn of the loop)
            for output, map, buffer in zip(g.outputs, g.output_maps, memory, strict=True):  # noqa: B023
                e.store(b, e.at(b, output, evaluate(b, map, point)), buffer, [b.minus(index, low)])  # noqa: B023

        def step(b: Builder, index: Index) -> None:
            point[where] = index  # noqa: B023
            place = b.value(b.minus(index, low))
            carried = [b.add(memref.LoadOp.get(buffer, [place])) for buffer in partial]  # noqa: B023
            for element, buffer in zip(body_at(e, b, g, list(point), carried), partial, strict=True):  # noqa: B023
                e.store(b, element, buffer, [place])

        def clear(b: Builder, index: Index) -> None:
            for buffer in partial:  # noqa: B023
                type_ = buffer.type
                assert isinstance(type_, MemRefType)
                e.store(b, nothing(b, type_.element_type), buffer, [b.minus(index, low)])

        def total(b: Builder, index: Index) -> None:
            place = b.value(b.minus(index, low))
            for part, buffer in zip(partial, memory, strict=True):  # noqa: B023
                both = [b.add(memref.LoadOp.get(each, [place])) for each in (buffer, part)]
                e.store(b, b.add(arith.AddfOp(*both)), buffer, [place])

        def level(b: Builder, depth: int) -> None:
            if depth == len(g.loops):  # noqa: B023
                b.points(low, high, step, limit=dims[column])
                return

            def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
                point[g.loops[depth]] = index  # noqa: B023
                level(inner, depth + 1)
                return []

            size = sizes[g.loops[depth]]  # noqa: B023
            if depth or not blocks:  # noqa: B023
                b.loop(0, size, [], body)
                return

            def block(inner: Builder, first: Index, carried: list[SSAValue]) -> list[SSAValue]:
                inner.points(low, high, clear, limit=dims[column])
                inner.loop(first, inner.least(inner.plus(first, blocks), size), [], body, limit=size)  # noqa: B023
                inner.points(low, high, total, limit=dims[column])
                return []

            b.loop(0, size, [], block, step=blocks, limit=size)  # noqa: B023

        build.points(low, high, start, limit=dims[column])
        level(build, 0)
        for result, map, buffer in zip(stage.op.results, g.output_maps, memory, strict=True):
            position = next(
                i for i, r in enumerate(map.results) if isinstance(r, AffineDimExpr) and r.position == where
            )
            e.materialize(result, buffer, _shifted(position, low))


def in_blocks(e: Elements, stage: Stage) -> bool:
    """Whether a stage goes in blocks."""
    g = view_of(e, stage.op)
    return _rows_of_blocks(e, g, loop_sizes(e, g)) > 0


def _rows_of_blocks(e: Elements, g: Generic, sizes: Sequence[Index]) -> int:
    """Steps of the outermost loop that make a block; 0 for none."""
    loops = [sizes[dim] for dim in g.loops]
    if not loops or not all(are_sums(e, g)) or not all(isinstance(n, int) for n in loops[1:]):
        return 0
    inner = prod(n for n in loops[1:] if isinstance(n, int))
    if isinstance(loops[0], int) and loops[0] * inner <= ROWS:
        return 0
    return max(1, ROWS // max(1, inner))


def _shifted(position: int, low: Index) -> IndexMap:
    return lambda build, indices: [build.minus(indices[position], low)]
