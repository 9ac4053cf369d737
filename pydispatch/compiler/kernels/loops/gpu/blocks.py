"""Reductions that share what they read, on GPUs: an invocation computes a block of elements along one dimension.

In a matrix product every element of B serves all rows: an invocation that computes several rows of one column loads it
once, and what it reads of A is the same for all lanes of a workgroup. The same holds for convolutions and batched
products; whatever follows the reduction element by element is computed on the way to memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.analysis import LoopNest, _try
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.gpu.vector_loads import Wide, reduce_wide, wide_inputs
from pydispatch.compiler.kernels.loops.nests import Cut
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import body_at, loop_sizes, view_of
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured

LANES = 64
"""Elements of the last dimension that a workgroup computes, one for each invocation."""

NARROWEST = 32
ROWS = (8, 4, 2)
"""Elements of a block along its dimension: the first that the dimension has as a factor, else the first."""

COLUMNS = (8, 4, 2, 1)
"""And along the last one, LANES apart: the first for which every invocation has work. Eight by eight elements need
sixteen loads for 64 products; lavapipe, where a load takes eight times as long as a product, does 512 x 512 x 512 in
33 ms with them, in 285 ms with sixteen by one, and in 317 ms element by element. In pairs it does them in 17 ms."""

UNROLLED = 64
"""Products that one turn of the innermost loop does at least, where its steps have such a factor."""


@dataclass(frozen=True)
class OutputBlock:
    """value: the reduction; dim: of the nest, along which blocks lie; rows, columns: of a block; point: for each
    dimension of the nest the loop dimension of the reduction that it is; wide: inputs that are read two by two, whose
    columns then lie in pairs; empty for none."""

    value: SSAValue
    dim: int
    rows: int
    columns: int
    point: tuple[int, ...]
    wide: tuple[Wide, ...] = ()


def block_of(frame: Frame, nest: LoopNest, pairs: bool = True) -> OutputBlock | None:
    """Return the block of an elementwise nest with one reduction; None where elements share nothing. pairs: whether the
    device has integers of 64 bits.
    """
    trial = _try(frame, nest, None)
    dims, e = trial.dims, trial.e
    if len(dims) < 2 or len({id(op) for op, _ in e.reduced}) != 1 or len({v for v, _, _ in e.finished}) != 1:
        return None
    last = dims[-1]
    if isinstance(last, int) and last < NARROWEST:
        return None
    value, _, where = e.finished[0]
    assert isinstance(value, OpResult)
    if any(other != where for _, _, other in e.finished) or len(value.op.results) != 1:
        return None
    g = view_of(e, value.op)
    if sorted(map(id, where)) != sorted(map(id, trial.indices)):
        return None
    point = [-1] * len(dims)
    for index, result in zip(where, g.output_maps[value.index].results, strict=True):
        if not isinstance(result, AffineDimExpr):
            return None
        point[trial.indices.index(index)] = result.position
    dim = _shared(g, point, dims)
    if dim < 0:
        return None
    size = dims[dim]
    rows = next((r for r in ROWS if isinstance(size, int) and size % r == 0), ROWS[0])
    if pairs and isinstance(size, int) and isinstance(last, int) and size % rows == 0:
        whole = next((c for c in COLUMNS[:-1] if last % (LANES * c) == 0), 0)
        inner = view_of(frame.elements, value.op)
        wide = wide_inputs(frame.elements, inner, (point[dim], point[-1])) if whole else ()
        if wide:
            return OutputBlock(value, dim, rows, whole, tuple(point), wide)
    columns = next(c for c in COLUMNS if c == 1 or (isinstance(last, int) and last >= LANES * c))
    return OutputBlock(value, dim, rows, columns, tuple(point))


def _shared(generic: Structured, point: Sequence[int], dims: Sequence[Index]) -> int:
    """Return the dimension, not the last, along which the most inputs are the same; -1 for none."""
    best, best_dim = 0, -1
    for dim in range(len(point) - 1):
        size = dims[dim]
        if isinstance(size, int) and size < ROWS[-1]:
            continue
        used = [
            dims_in(m)
            for n, m in enumerate(generic.maps[: len(generic.inputs)])
            if generic.block.args[n].uses and m.results
        ]
        count = sum(point[dim] not in d for d in used)
        if count and count >= best:
            best, best_dim = count, dim
    return best_dim


def cut_block(block: OutputBlock, dims: Sequence[Index], build: Builder) -> Cut:
    """Return the cut of a nest into one workgroup for each block and run of lanes."""
    outer = build.product([n for i, n in enumerate(dims[:-1]) if i != block.dim])
    blocks = build.times(outer, build.ceil_quotient(dims[block.dim], block.rows))
    width = LANES * block.columns
    tiles = build.ceil_quotient(dims[-1], width)
    return Cut(blocks, 1, width, tiles, build.times(blocks, tiles))


def emit_block(
    elements: Elements, nest: LoopNest, block: OutputBlock, build: Builder, group: Index, dims: list[Index]
) -> None:
    """Emit the code of workgroup number `group`: each invocation computes a block of elements."""
    width = LANES * block.columns
    tiles = build.ceil_quotient(dims[-1], width)
    tile, block_index = build.remainder(group, tiles), build.quotient(group, tiles)
    sizes = list(dims[:-1])
    sizes[block.dim] = build.ceil_quotient(dims[block.dim], block.rows)
    outer = build.split(block_index, sizes)
    first = build.times(outer[block.dim], block.rows)
    size = dims[block.dim]
    whole = isinstance(size, int) and size % block.rows == 0
    # Rows beyond the end are the last one once more.
    rows = [build.plus(first, r) for r in range(block.rows)]
    if not whole:
        rows = [build.least(row, build.minus(size, 1)) for row in rows]
    low = build.times(tile, width)
    if block.wide:
        _emit_wide(elements, nest, block, build, low, [*outer[: block.dim], first, *outer[block.dim + 1 :]])
        return
    high = build.plus(low, LANES)
    full = isinstance(dims[-1], int) and dims[-1] % width == 0
    if not full:
        high = build.least(high, dims[-1])

    def lane(builder: Builder, column: Index) -> None:
        columns = [builder.plus(column, LANES * c) for c in range(block.columns)]
        if not full:
            columns = [column, *(builder.least(c, builder.minus(dims[-1], 1)) for c in columns[1:])]
        points = [[*outer[: block.dim], row, *outer[block.dim + 1 :], c] for row in rows for c in columns]
        for indices, result in zip(points, _reduce(elements, builder, block, points), strict=True):
            where = _where(elements, builder, block, indices)
            builder.remember((block.value, tuple(where)), result)
        for indices in points:
            for value, buffer in nest.stores:
                elements.store(builder, elements.at(builder, value, indices), buffer, indices)

    build.parallel(low, high, lane, limit=dims[-1])


def _emit_wide(
    elements: Elements, nest: LoopNest, block: OutputBlock, build: Builder, low: Index, outer: Sequence[Index]
) -> None:
    """Emit the code of a workgroup whose rows and columns all exist, with columns in pairs.

    An invocation computes two adjacent columns of every 2 * LANES. low: the first column of the workgroup. outer: the
    indices of the first row, without the column.
    """
    assert isinstance(block.value, OpResult)
    value, g = block.value, view_of(elements, block.value.op)

    def lane(builder: Builder, lane: Index) -> None:
        column = builder.plus(low, builder.times(lane, 2))
        corner = _point(g, block, [*outer, column])
        offsets = [(r, 2 * LANES * (c // 2) + c % 2) for r in range(block.rows) for c in range(block.columns)]
        dims = block.point[block.dim], block.point[-1]
        results = reduce_wide(
            elements, builder, g, block.wide, corner, dims, offsets, builder.plus(builder.quotient(low, 2), lane)
        )
        for (row, step), result in zip(offsets, results, strict=True):
            indices = [*outer, builder.plus(column, step)]
            indices[block.dim] = builder.plus(outer[block.dim], row)
            builder.remember((value, tuple(_where(elements, builder, block, indices))), result)
            for stored, buffer in nest.stores:
                elements.store(builder, elements.at(builder, stored, indices), buffer, indices)

    build.parallel(0, LANES, lane, limit=LANES)


def _point(generic: Structured, block: OutputBlock, indices: Sequence[Index]) -> list[Index]:
    point: list[Index] = [0] * len(generic.iterators)
    for position, index in zip(block.point, indices, strict=True):
        point[position] = index
    return point


def _where(elements: Elements, build: Builder, block: OutputBlock, indices: Sequence[Index]) -> list[Index]:
    """Return the indices of the reduction's result."""
    assert isinstance(block.value, OpResult)
    g = view_of(elements, block.value.op)
    return list(evaluate(build, g.output_maps[0], _point(g, block, indices)))


def _reduce(
    elements: Elements, build: Builder, block: OutputBlock, points: Sequence[Sequence[Index]]
) -> list[SSAValue]:
    """Emit the reduction at several places, in one nest of loops, and return its results."""
    assert isinstance(block.value, OpResult)
    g = view_of(elements, block.value.op)
    sizes = loop_sizes(elements, g)
    iterations = [_point(g, block, indices) for indices in points]
    initial = [elements.at(build, g.outputs[0], evaluate(build, g.output_maps[0], point)) for point in iterations]
    where: dict[int, Index] = {}

    def step(inner: Builder, carried: list[SSAValue]) -> list[SSAValue]:
        results = []
        for point, value in zip(iterations, carried, strict=True):
            full = [where.get(dim, index) for dim, index in enumerate(point)]
            results += body_at(elements, inner, g, full, [value])
        return results

    def level(inner: Builder, depth: int, carried: list[SSAValue]) -> list[SSAValue]:
        if depth == len(g.loops):
            return step(inner, carried)
        dim = g.loops[depth]
        size = sizes[dim]
        many = 1
        if depth == len(g.loops) - 1 and isinstance(size, int):
            many = next((u for u in (8, 4, 2) if size % u == 0 and size > u and u * len(points) <= UNROLLED), 1)

        def body(deeper: Builder, index: Index, values: list[SSAValue]) -> list[SSAValue]:
            for turn in range(many):
                where[dim] = deeper.plus(index, turn)
                values = level(deeper, depth + 1, values)
            return values

        return inner.loop(0, size, carried, body, step=many)

    return level(build, 0, initial)
