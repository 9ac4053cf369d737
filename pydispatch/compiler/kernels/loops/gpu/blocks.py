"""Register blocking of reductions on GPUs: an invocation computes a block of elements whose reductions share loads.

In a matrix product each element of B is used by all rows: an invocation that computes several rows of a column loads it
once, and its elements of A are uniform in the workgroup. Convolutions and batched products are the same. Elementwise
operations on the result are computed before it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.analysis import LoopNest, Trial, emit_trial
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.gpu.vector_loads import PairedBlock, PairedInput, paired_inputs, reduce_paired
from pydispatch.compiler.kernels.loops.nests import Partition
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements, EmittedElement
from pydispatch.compiler.kernels.ops.generics import body_at, loop_sizes, view_of
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured

LANES = 64
"""Invocations of a workgroup, which compute adjacent elements of the last dimension."""

NARROWEST = 32
"""Size of the last dimension below which too many lanes of a workgroup would be idle for blocks to pay."""

ROWS = (8, 4, 2)
"""Candidates for the rows of a block, largest first: the first that divides the dimension, else 8."""

COLUMNS = (8, 4, 2, 1)
"""Candidates for the columns of a block, which are LANES apart: the first for which all invocations have work. A block
of 8x8 needs 16 loads for 64 products. On lavapipe, where a load takes as long as eight products, 512x512x512 takes 33
ms with 8x8 blocks, 285 ms with 16x1, and 317 ms without blocks; with loads of pairs 17 ms."""

UNROLLED = 64
"""Products of a block in one iteration of the innermost loop, at most: it bounds the unroll factor."""


@dataclass(frozen=True)
class OutputBlock:
    """Block of elements that an invocation computes.

    `block_of` creates it. The rows of a block are adjacent, its columns are `LANES` apart, so that the invocations of a
    workgroup load adjacent elements. In the product `C[i, j] = sum over k of A[i, k] * B[k, j]`, whose nest has the
    dimensions (i, j), a block of 8x2 has `dim` 0 and `loop_of_dim` (0, 1). Invocation l of the workgroup that begins at
    row r and column c computes rows r to r + 7 of the columns c + l and c + l + 64.

    Attributes:
        value: Result of the reduction.
        dim: Dimension of the nest that the rows of a block are along; columns are along the last one.
        rows, columns: Size of a block in elements.
        loop_of_dim: For each dimension of the nest, the loop of the reduction that it counts.
        paired_inputs: Inputs that are loaded in pairs. If there are any, the columns of a block are adjacent in pairs:
            c + 2 * l, c + 2 * l + 1, c + 2 * l + 128, ...
    """

    value: SSAValue
    dim: int
    rows: int
    columns: int
    loop_of_dim: tuple[int, ...]
    paired_inputs: tuple[PairedInput, ...] = ()


def block_of(frame: Frame, nest: LoopNest, pairs: bool = True) -> OutputBlock | None:
    """Return the block that an invocation computes of a nest with one reduction and elementwise operations on it.

    A block is a few rows by a few columns of elements whose reductions share loads: of a matrix product, 8 rows and 2
    columns. Return None for other nests, for a last dimension that is shorter than a workgroup can use, and if no input
    serves several rows.

    `pairs` is whether the device can load two adjacent elements of 32 bits as one i64. A block that uses such loads has
    columns that are adjacent in pairs.
    """
    trial = emit_trial(frame, nest, depth=None)
    dims, row_length = trial.dims, trial.dims[-1] if trial.dims else 0
    if len(dims) < 2 or (isinstance(row_length, int) and row_length < NARROWEST):
        return None
    # The reduction, and the dimension along which most of its loads are shared.
    reduced = _only_reduction(trial)
    if reduced is None:
        return None
    value = reduced.value
    assert isinstance(value, OpResult)
    reduction = view_of(trial.elements, value.op)
    loop_of_dim = _loops_of_dims(reduction, value.index, reduced.indices, trial.indices)
    dim = -1 if loop_of_dim is None else _dim_with_most_reuse(reduction, loop_of_dim, dims)
    if loop_of_dim is None or dim < 0:
        return None
    size = dims[dim]
    # The shape of the block. Its rows divide the size; else they are the most, and the last block repeats its last row
    # (`emit_block`).
    rows = next((r for r in ROWS if isinstance(size, int) and size % r == 0), ROWS[0])
    most_columns = row_length // LANES if isinstance(row_length, int) else 1  # for each of LANES invocations
    columns = next((c for c in COLUMNS if c <= most_columns), 1)  # the largest candidate: they descend to 1
    block = OutputBlock(value=value, dim=dim, rows=rows, columns=columns, loop_of_dim=loop_of_dim)
    has_full_blocks = isinstance(size, int) and size % rows == 0
    if pairs and has_full_blocks and isinstance(row_length, int):
        return _with_pairs(frame, block, row_length)
    return block


def _only_reduction(trial: Trial) -> EmittedElement | None:
    """Return the element of the only reduction that a trial emitted; None for several elements, or none.

    A trial is an emission of the loop nest that is only analyzed, and then discarded. A block has one accumulator per
    element. So the reduction must have one result, the nest must read only one element of it in each iteration, and the
    indices of this element must be those of the nest in some order.
    """
    elements = trial.elements
    reductions = {id(op) for op, _ in elements.emitted_reductions}
    results = {reduced.value for reduced in elements.reduced_elements}
    if len(reductions) != 1 or len(results) != 1:
        return None
    reduced = elements.reduced_elements[0]
    assert isinstance(reduced.value, OpResult)
    is_read_at_one_point = all(other.indices == reduced.indices for other in elements.reduced_elements)
    is_permutation = sorted(map(id, reduced.indices)) == sorted(map(id, trial.indices))
    has_one_result = len(reduced.value.op.results) == 1
    return reduced if is_read_at_one_point and has_one_result and is_permutation else None


def _loops_of_dims(
    reduction: Structured, result: int, indices: Sequence[Index], nest_indices: Sequence[Index]
) -> tuple[int, ...] | None:
    """Return, for each dimension of the nest, the loop of the reduction that has the same index.

    In `C[i, j] = sum over k of A[i, k] * B[k, j]` with the loops (i, j, k), a nest over (j, i) that reads C[i, j] gives
    (1, 0). Return None if an axis of the result is not indexed by a single loop of the reduction.

    Args:
        reduction: The reduction.
        result: Number of its result that the nest reads.
        indices: Indices at which the result is read, a permutation of `nest_indices`.
        nest_indices: Index of the loop over each dimension of the nest.
    """
    loop_of_dim = [-1] * len(nest_indices)
    for index, map_result in zip(indices, reduction.output_maps[result].results, strict=True):
        if not isinstance(map_result, AffineDimExpr):
            return None
        loop_of_dim[list(nest_indices).index(index)] = map_result.position
    return tuple(loop_of_dim)


def _with_pairs(frame: Frame, block: OutputBlock, row_length: int) -> OutputBlock:
    """Return `block` with inputs that are loaded in pairs of elements, if that is possible; else `block` itself.

    Its columns are then 0, 1, 2 * LANES, 2 * LANES + 1 and so on: adjacent in pairs. The columns of all lanes together
    must divide `row_length`, the size of the last dimension.
    """
    assert isinstance(block.value, OpResult)
    columns = next((c for c in COLUMNS if c > 1 and row_length % (LANES * c) == 0), 0)
    loops_of_block = (block.loop_of_dim[block.dim], block.loop_of_dim[-1])
    generic = view_of(frame.elements, block.value.op)
    paired = paired_inputs(frame.elements, generic, loops_of_block) if columns else ()
    return replace(block, columns=columns, paired_inputs=paired) if paired else block


def _dim_with_most_reuse(generic: Structured, loop_of_dim: Sequence[int], dims: Sequence[Index]) -> int:
    """Return the dimension of the nest, except the last, that the most inputs do not depend on; -1 for none.

    For `C[i, j] = sum over k of A[i, k] * B[k, j]` and a nest over (i, j) it is 0: B does not depend on i.

    Elements of a block along this dimension share the loads of these inputs. Dimensions shorter than the smallest block
    do not qualify, and of several with equal reuse the innermost is taken. Inputs that the body does not read, and
    scalars, do not count.

    Args:
        generic: The reduction.
        loop_of_dim: For each dimension of the nest, the loop of the reduction that it counts.
        dims: Sizes of the dimensions of the nest.
    """
    best, best_dim = 0, -1
    for dim in range(len(dims) - 1):
        size = dims[dim]
        smallest_block = ROWS[-1]
        if isinstance(size, int) and size < smallest_block:
            continue
        dims_of_inputs = [
            dims_in(m)
            for n, m in enumerate(generic.maps[: len(generic.inputs)])
            if generic.block.args[n].uses and m.results
        ]
        count = sum(loop_of_dim[dim] not in d for d in dims_of_inputs)
        if count and count >= best:  # at equal reuse, the inner one
            best, best_dim = count, dim
    return best_dim


def partition_block(block: OutputBlock, dims: Sequence[Index], build: Builder) -> Partition:
    """Return the partition of a nest into workgroups of `LANES` blocks that are adjacent along the last dimension.

    Its outer iterations are rows of blocks, of `block.rows` elements each: a workgroup computes one.
    """
    outer = build.product([n for i, n in enumerate(dims[:-1]) if i != block.dim])
    blocks = build.times(outer, build.ceil_quotient(dims[block.dim], block.rows))
    width = LANES * block.columns
    tiles = build.ceil_quotient(dims[-1], width)
    return Partition(outer=blocks, rows=1, tile=width, tiles=tiles, workgroups=build.times(blocks, tiles))


def emit_block(
    elements: Elements, nest: LoopNest, block: OutputBlock, build: Builder, group: Index, dims: list[Index]
) -> None:
    """Emit the code of workgroup `group`: each invocation computes a block of elements.

    Workgroups count tiles of `LANES * block.columns` columns first, then rows of blocks: for a nest over 64 x 256 with
    blocks of 8x2, `dims` is [64, 256], workgroup 3 is tile 1 (columns 128 to 255) of block 1 (rows 8 to 15).
    """
    # The position of the workgroup: its tile, and the index along each dimension before the last.
    width = LANES * block.columns
    tiles = build.ceil_quotient(dims[-1], width)
    tile, block_index = build.remainder(group, tiles), build.quotient(group, tiles)
    sizes = list(dims[:-1])  # along `block.dim`, the number of blocks replaces the number of rows
    sizes[block.dim] = build.ceil_quotient(dims[block.dim], block.rows)
    outer = build.split(block_index, sizes)
    first_row = build.times(outer[block.dim], block.rows)
    rows = _rows_of_block(build, first_row, block.rows, dims[block.dim])
    low = build.times(tile, width)
    if block.paired_inputs:
        _emit_paired(elements, nest, block, build, low, [*outer[: block.dim], first_row, *outer[block.dim + 1 :]])
        return
    # The parallel loop counts the first columns of all lanes, `low` to `high`; their other columns are LANES apart.
    high = build.plus(low, LANES)
    has_all_columns = isinstance(dims[-1], int) and dims[-1] % width == 0
    if not has_all_columns:
        high = build.least(high, dims[-1])

    def lane(builder: Builder, column: Index) -> None:
        """Emit the block of the invocation whose first column is `column`: reductions, then operations on them and
        stores.
        """
        columns = [builder.plus(column, LANES * c) for c in range(block.columns)]
        if not has_all_columns:  # the first one exists; the others may not, and are clamped to the last column
            columns = [column, *(builder.least(c, builder.minus(dims[-1], 1)) for c in columns[1:])]
        points = [[*outer[: block.dim], row, *outer[block.dim + 1 :], c] for row in rows for c in columns]
        for indices, result in zip(points, _reduce(elements, builder, block, points), strict=True):
            result_indices = _result_indices(elements, builder, block, indices)
            elements.define(builder, block.value, result_indices, result)
        for indices in points:
            for value, buffer in nest.stores:
                elements.store(builder, elements.at(builder, value, indices), buffer, indices)

    build.parallel(low, high, lane, index_below=dims[-1])


def _rows_of_block(build: Builder, first_row: Index, count: int, size: Index) -> list[Index]:
    """Return the indices of `count` rows from `first_row` on; rows from `size` on are replaced by the last row.

    Such a row is computed several times, and stores of equal values to the same element are harmless.
    """
    rows = [build.plus(first_row, r) for r in range(count)]
    has_full_blocks = isinstance(size, int) and size % count == 0
    return rows if has_full_blocks else [build.least(row, build.minus(size, 1)) for row in rows]


def _emit_paired(
    elements: Elements, nest: LoopNest, block: OutputBlock, build: Builder, first_column: Index, outer: Sequence[Index]
) -> None:
    """Emit the code of a workgroup with full blocks, whose columns are adjacent in pairs.

    Two adjacent elements of 32 bits are loaded as one i64. An invocation computes two adjacent columns of every 2 *
    LANES: with LANES = 64 and 4 columns, invocation 3 computes the columns 6, 7, 134 and 135 of its workgroup.

    Args:
        elements: Tensors of the kernel.
        nest: The nest.
        block: The block of an invocation.
        build: The builder.
        first_column: First column of the workgroup, an even number.
        outer: Indices of the workgroup's first row in all dimensions but the last.
    """
    assert isinstance(block.value, OpResult)
    value, generic = block.value, view_of(elements, block.value.op)

    def column_offset(column: int) -> int:
        """Return the distance of a column of a block from its first one: 0, 1, 2 * LANES, 2 * LANES + 1 ..."""
        pair, second = divmod(column, 2)
        return 2 * LANES * pair + second

    def emit_lane(builder: Builder, lane: Index) -> None:
        """Emit the code of invocation `lane`: reduce its block with loads of pairs, and store the results."""
        column = builder.plus(first_column, builder.times(lane, 2))
        corner = _loop_indices(generic, block, [*outer, column])  # the block's first element
        # Of each element of the block, its (row, column) relative to the corner.
        offsets = [(r, column_offset(c)) for r in range(block.rows) for c in range(block.columns)]
        row_dim = block.dim  # dimension of the nest that the rows of a block are along
        paired_block = PairedBlock(
            paired=block.paired_inputs,
            corner=corner,
            dims=(block.loop_of_dim[row_dim], block.loop_of_dim[-1]),
            offsets=offsets,
            column_pair=builder.plus(builder.quotient(first_column, 2), lane),  # column / 2
        )
        # Reduce the block. The elements of the nest are then computed from these results, and stored.
        results = reduce_paired(elements, builder, generic, paired_block)
        for (down, right), result in zip(offsets, results, strict=True):
            indices = [*outer, builder.plus(column, right)]
            indices[row_dim] = builder.plus(outer[row_dim], down)
            elements.define(builder, value, _result_indices(elements, builder, block, indices), result)
            for stored, buffer in nest.stores:
                elements.store(builder, elements.at(builder, stored, indices), buffer, indices)

    build.parallel(0, LANES, emit_lane, index_below=LANES)


def _loop_indices(generic: Structured, block: OutputBlock, indices: Sequence[Index]) -> list[Index]:
    """Return the index of each loop of the reduction for one element of the loop nest; 0 for reduced dimensions.

    `indices` has the element's index in each dimension of the nest.
    """
    point: list[Index] = [0] * len(generic.iterators)
    for loop, index in zip(block.loop_of_dim, indices, strict=True):
        point[loop] = index
    return point


def _result_indices(elements: Elements, build: Builder, block: OutputBlock, indices: Sequence[Index]) -> list[Index]:
    """Return the indices of the reduction's result for the element at `indices` of the loop nest."""
    assert isinstance(block.value, OpResult)
    generic = view_of(elements, block.value.op)
    return list(evaluate(build, generic.output_maps[0], _loop_indices(generic, block, indices)))


def _reduce(
    elements: Elements, build: Builder, block: OutputBlock, points: Sequence[Sequence[Index]]
) -> list[SSAValue]:
    """Emit the reduction at several points of the nest in one loop nest, and return its results.

    A point has an index for each dimension of the nest. The points are the elements of a block: each step of the loop
    nest takes one step of each of them, so that they share loads.
    """
    assert isinstance(block.value, OpResult)
    generic = view_of(elements, block.value.op)
    sizes = loop_sizes(elements, generic)
    loop_indices = [_loop_indices(generic, block, indices) for indices in points]  # of each point, 0 for reduced loops
    # The initial value of each point, which the loops carry.
    initial = [
        elements.at(build, generic.outputs[0], evaluate(build, generic.output_maps[0], indices))
        for indices in loop_indices
    ]
    reduction_indices: dict[int, Index] = {}  # reduced loop -> its index in the step that is emitted

    def emit_step(inner: Builder, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit one step of all points of a block."""
        results = []
        for indices, value in zip(loop_indices, carried, strict=True):
            step_indices = [reduction_indices.get(loop, index) for loop, index in enumerate(indices)]
            results += body_at(elements, inner, generic, step_indices, [value])
        return results

    def emit_loops(inner: Builder, depth: int, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the loops over the reduced dimensions from `depth` on, and return the carried values after them."""
        if depth == len(generic.reduced_loops):
            return emit_step(inner, carried)
        dim = generic.reduced_loops[depth]
        is_innermost = depth == len(generic.reduced_loops) - 1
        unroll = _unroll_factor(sizes[dim], len(points)) if is_innermost else 1

        def body(deeper: Builder, index: Index, values: list[SSAValue]) -> list[SSAValue]:
            """Emit the unrolled steps of the loop at `depth`."""
            for unrolled_step in range(unroll):
                reduction_indices[dim] = deeper.plus(index, unrolled_step)
                values = emit_loops(deeper, depth + 1, values)
            return values

        return inner.loop(0, sizes[dim], carried, body, step=unroll)

    return emit_loops(build, 0, initial)


def _unroll_factor(size: Index, points: int) -> int:
    """Return the unroll factor of a reduced loop with `size` iterations, which it divides.

    An iteration has one step of the reduction for each of the `points` elements of a block. It is unrolled only if at
    most `UNROLLED` of these steps result.
    """
    if not isinstance(size, int):
        return 1
    return next((u for u in (8, 4, 2) if size % u == 0 and size > u and u * points <= UNROLLED), 1)
