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
from pydispatch.compiler.kernels.ops.generics import body_at, loop_sizes, structured_of
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

MAX_UNROLLED_PRODUCTS = 64
"""Products of a block in one iteration of the innermost loop, at most: it bounds the unroll factor."""


@dataclass(frozen=True)
class OutputBlock:
    """Block of elements that an invocation computes.

    `block_of` creates it. The rows of a block are adjacent, its columns are `LANES` apart, so that the invocations of a
    workgroup load adjacent elements. In the product `C[i, j] = sum over k of A[i, k] * B[k, j]`, whose nest has the
    dimensions (i, j), a block of 8x2 has `row_dim` 0 and `loop_of_dim` (0, 1). Invocation l of the workgroup that
    begins at row r and column c computes rows r to r + 7 of the columns c + l and c + l + 64.

    Attributes:
        value: Result of the reduction.
        row_dim: Dimension of the nest that the rows of a block are along; columns are along the last one.
        rows, columns: Size of a block in elements.
        loop_of_dim: For each dimension of the nest, the position of the loop of the reduction that has its index.
        paired_inputs: Inputs that are loaded in pairs. If there are any, the columns of a block are adjacent in pairs:
            c + 2 * l, c + 2 * l + 1, c + 2 * l + 128, ...
    """

    value: SSAValue
    row_dim: int
    rows: int
    columns: int
    loop_of_dim: tuple[int, ...]
    paired_inputs: tuple[PairedInput, ...] = ()


def block_of(frame: Frame, nest: LoopNest, pairs: bool = True) -> OutputBlock | None:
    """Return the block that an invocation computes of a nest with one reduction and elementwise operations on it.

    A block is a few rows by a few columns of elements whose reductions share loads: of a matrix product, 8 rows and 2
    columns. Return None for other nests, for a last dimension with fewer elements than `NARROWEST`, which would leave
    too many invocations without work, and if no input serves several rows.

    `pairs` is whether the device can load two adjacent elements of 32 bits as one i64. A block that uses such loads has
    columns that are adjacent in pairs.
    """
    trial = emit_trial(frame, nest, depth=None)  # code of the nest that is only analyzed, and then discarded
    dims = trial.dims
    if len(dims) < 2 or (isinstance(dims[-1], int) and dims[-1] < NARROWEST):
        return None
    reduced_element = _only_reduced_element(trial)
    if reduced_element is None:
        return None
    result = reduced_element.value
    assert isinstance(result, OpResult)
    reduction = structured_of(trial.elements, result.op)
    loop_of_dim = _loops_of_dims(reduction, result.index, reduced_element.indices, trial.indices)
    if loop_of_dim is None:
        return None
    row_dim = _dim_with_most_reuse(reduction, loop_of_dim, dims)
    if row_dim is None:
        return None
    rows, columns = _block_shape(dims[row_dim], dims[-1])
    block = OutputBlock(value=result, row_dim=row_dim, rows=rows, columns=columns, loop_of_dim=loop_of_dim)
    # Pairs are loaded at constant offsets from the first row, so that no block may have its last row repeated.
    has_whole_blocks = _is_multiple(dims[row_dim], rows)
    return _with_pairs(frame, block, dims[-1]) if pairs and has_whole_blocks else block


def _block_shape(rows_of_nest: Index, columns_of_nest: Index) -> tuple[int, int]:
    """Return the rows and columns of a block: (8, 2) for 64 rows and 128 columns, (8, 1) for dynamic sizes.

    The columns of the nest are divided among the `LANES` invocations of a workgroup. A block has the largest number of
    `COLUMNS` with which no invocation is without work, and the largest of `ROWS` that divides the rows of the nest. If
    none of `ROWS` divides them, it has the largest of all, and the last block computes its last row repeatedly.
    """
    rows = next((r for r in ROWS if _is_multiple(rows_of_nest, r)), ROWS[0])
    most_columns = columns_of_nest // LANES if isinstance(columns_of_nest, int) else 1
    columns = next((c for c in COLUMNS if c <= most_columns), 1)  # the largest candidate: they descend to 1
    return rows, columns


def _is_multiple(size: Index, divisor: int) -> bool:
    """Return whether a size is known at compile time and a multiple of `divisor`."""
    return isinstance(size, int) and size % divisor == 0


def _only_reduced_element(trial: Trial) -> EmittedElement | None:
    """Return the only element of a reduction's result that an iteration of a nest reads; None for several, or none.

    A trial is an emission of the nest that is only analyzed, and then discarded. It has recorded the reductions whose
    loops were emitted, and each element of a result that such loops compute. A block has one accumulator for each of
    its elements. So there must be one reduction with one result, and its element must have the indices of the nest, in
    any order: C[i, j] or C[j, i], not C[i, 0].
    """
    elements = trial.elements
    reductions = {id(op) for op, _builder in elements.emitted_reductions}
    results = {element.value for element in elements.reduced_elements}
    if len(reductions) != 1 or len(results) != 1:
        return None
    first_element = elements.reduced_elements[0]
    assert isinstance(first_element.value, OpResult)
    has_one_result = len(first_element.value.op.results) == 1
    is_read_at_one_point = all(element.indices == first_element.indices for element in elements.reduced_elements)
    has_indices_of_nest = sorted(map(id, first_element.indices)) == sorted(map(id, trial.indices))
    return first_element if has_one_result and is_read_at_one_point and has_indices_of_nest else None


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


def _with_pairs(frame: Frame, block: OutputBlock, row_length: Index) -> OutputBlock:
    """Return `block` with inputs that are loaded in pairs of elements, if that is possible; else `block` itself.

    Its columns are then 0, 1, 2 * LANES, 2 * LANES + 1 and so on: adjacent in pairs. The columns of all lanes together
    must divide `row_length`, the size of the last dimension.
    """
    assert isinstance(block.value, OpResult)
    columns = next((c for c in COLUMNS if c > 1 and _is_multiple(row_length, LANES * c)), None)
    if columns is None:
        return block
    row_and_column_loops = (block.loop_of_dim[block.row_dim], block.loop_of_dim[-1])
    generic = structured_of(frame.elements, block.value.op)
    paired = paired_inputs(frame.elements, generic, row_and_column_loops)
    return replace(block, columns=columns, paired_inputs=paired) if paired else block


def _dim_with_most_reuse(generic: Structured, loop_of_dim: Sequence[int], dims: Sequence[Index]) -> int | None:
    """Return the dimension of the nest, except the last, that the most inputs do not depend on; None for none.

    For `C[i, j] = sum over k of A[i, k] * B[k, j]` and a nest over (i, j) it is 0: B does not depend on i.

    Elements of a block along this dimension share the loads of these inputs. Dimensions shorter than the smallest block
    do not qualify, and of several with equal reuse the innermost is taken. Inputs that the body does not read, and
    scalars, do not count.

    Args:
        generic: The reduction.
        loop_of_dim: For each dimension of the nest, the loop of the reduction that it counts.
        dims: Sizes of the dimensions of the nest.
    """
    loops_of_inputs = [
        dims_in(map)
        for index, map in enumerate(generic.maps[: len(generic.inputs)])
        if generic.block.args[index].uses and map.results
    ]
    smallest_block = ROWS[-1]
    most_reuse, best_dim = 0, None
    for dim, size in enumerate(dims[:-1]):
        if isinstance(size, int) and size < smallest_block:
            continue
        reuse = sum(loop_of_dim[dim] not in loops for loops in loops_of_inputs)  # inputs that do not depend on `dim`
        if reuse and reuse >= most_reuse:  # at equal reuse, the inner one
            most_reuse, best_dim = reuse, dim
    return best_dim


def partition_block(block: OutputBlock, dims: Sequence[Index], build: Builder) -> Partition:
    """Return the partition of a nest into workgroups of `LANES` blocks that are adjacent along the last dimension.

    An outer iteration of the partition is a row of blocks, which has `block.rows` rows of elements. A workgroup
    computes a tile of one row of blocks.
    """
    outer = build.product([n for i, n in enumerate(dims[:-1]) if i != block.row_dim])
    blocks = build.times(outer, build.ceil_quotient(dims[block.row_dim], block.rows))
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
    width = LANES * block.columns
    tiles = build.ceil_quotient(dims[-1], width)
    tile, block_index = build.remainder(group, tiles), build.quotient(group, tiles)
    sizes = list(dims[:-1])  # along `block.row_dim`, the number of blocks replaces the number of rows
    sizes[block.row_dim] = build.ceil_quotient(dims[block.row_dim], block.rows)
    outer = build.split(block_index, sizes)
    first_row = build.times(outer[block.row_dim], block.rows)
    rows = [
        [*outer[: block.row_dim], row, *outer[block.row_dim + 1 :]]
        for row in _rows_of_block(build, first_row, block.rows, dims[block.row_dim])
    ]
    first_column = build.times(tile, width)
    if block.paired_inputs:
        _emit_paired(elements, nest, block, build, rows, first_column)
    else:
        _emit_strided(elements, nest, block, build, rows, first_column, dims[-1])


def _emit_strided(
    elements: Elements,
    nest: LoopNest,
    block: OutputBlock,
    build: Builder,
    rows: Sequence[Sequence[Index]],
    first_column: Index,
    row_length: Index,
) -> None:
    """Emit the code of a workgroup whose invocations compute columns that are LANES apart.

    Args:
        elements: Tensors of the kernel.
        nest: The nest.
        block: The block of an invocation.
        build: The builder.
        rows: For each row of the workgroup, its index in each dimension of the nest but the last.
        first_column: First column of the workgroup.
        row_length: Size of the last dimension.
    """
    has_all_columns = _is_multiple(row_length, LANES * block.columns)
    # The parallel loop counts the first columns of the invocations.
    high = build.plus(first_column, LANES)
    if not has_all_columns:
        high = build.least(high, row_length)

    def emit_lane(builder: Builder, column: Index) -> None:
        """Emit the block of the invocation whose first column is `column`, with its stores.

        Its rows are `rows`, and its columns `column`, `column + LANES` and so on. Columns beyond the end of the row are
        replaced by the last column, which several invocations then compute.
        """
        columns = [builder.plus(column, LANES * c) for c in range(block.columns)]
        if not has_all_columns:  # the loop over the first columns ends at the row's end, so that `column` exists
            columns = [column, *(builder.least(c, builder.minus(row_length, 1)) for c in columns[1:])]
        points = [[*row, c] for row in rows for c in columns]
        # The reduction of each element. The elements of the nest's results are then computed from these.
        for indices, reduced in zip(points, _reduce(elements, builder, block, points), strict=True):
            elements.define(builder, block.value, _result_indices(elements, builder, block, indices), reduced)
        for indices in points:
            for value, buffer in nest.stores:
                elements.store(builder, elements.at(builder, value, indices), buffer, indices)

    build.parallel(first_column, high, emit_lane, index_below=row_length)


def _rows_of_block(build: Builder, first_row: Index, count: int, size: Index) -> list[Index]:
    """Return the indices of `count` rows from `first_row` on; rows from `size` on are replaced by the last row.

    The last row of the nest may be computed several times, which is harmless: all stores of an element store the same
    value.
    """
    rows = [build.plus(first_row, r) for r in range(count)]
    return rows if _is_multiple(size, count) else [build.least(row, build.minus(size, 1)) for row in rows]


def _emit_paired(
    elements: Elements,
    nest: LoopNest,
    block: OutputBlock,
    build: Builder,
    rows: Sequence[Sequence[Index]],
    first_column: Index,
) -> None:
    """Emit the code of a workgroup with full blocks, whose columns are adjacent in pairs.

    Two adjacent elements of 32 bits are loaded as one i64. An invocation computes two adjacent columns of every 2 *
    LANES: with LANES = 64 and 4 columns, invocation 3 computes the columns 6, 7, 134 and 135 of its workgroup.

    Args:
        elements: Tensors of the kernel.
        nest: The nest.
        block: The block of an invocation.
        build: The builder.
        rows: For each row of the workgroup, its index in each dimension of the nest but the last.
        first_column: First column of the workgroup, an even number.
    """
    assert isinstance(block.value, OpResult)
    generic = structured_of(elements, block.value.op)
    # (row, column) of each element of a block, relative to its first: columns are 0, 1, 2 * LANES, 2 * LANES + 1 ...
    offsets = [(r, 2 * LANES * (c // 2) + c % 2) for r in range(block.rows) for c in range(block.columns)]

    def emit_lane(builder: Builder, lane: Index) -> None:
        """Emit the code of invocation `lane`: reduce its block with loads of pairs, and store the results.

        The elements of the block have the `offsets` (row, column) from its first one, which is in the first of `rows`
        and in column `first_column + 2 * lane`.
        """
        column = builder.plus(first_column, builder.times(lane, 2))
        paired_block = PairedBlock(
            paired=block.paired_inputs,
            corner=_loop_indices(generic, block, [*rows[0], column]),
            dims=(block.loop_of_dim[block.row_dim], block.loop_of_dim[-1]),
            offsets=offsets,
            column_pair=builder.plus(builder.quotient(first_column, 2), lane),  # column / 2
        )
        # The reduction of each element. The elements of the nest's results are then computed from these, and stored.
        reduced_elements = reduce_paired(elements, builder, generic, paired_block)
        for (row_offset, column_offset), reduced in zip(offsets, reduced_elements, strict=True):
            indices = [*rows[row_offset], builder.plus(column, column_offset)]
            elements.define(builder, block.value, _result_indices(elements, builder, block, indices), reduced)
            for value, buffer in nest.stores:
                elements.store(builder, elements.at(builder, value, indices), buffer, indices)

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
    generic = structured_of(elements, block.value.op)
    return list(evaluate(build, generic.output_maps[0], _loop_indices(generic, block, indices)))


def _reduce(
    elements: Elements, build: Builder, block: OutputBlock, points: Sequence[Sequence[Index]]
) -> list[SSAValue]:
    """Emit the reduction for all elements of a block in one loop nest, and return their results.

    `points` has the index of each element in each dimension of the nest.
    """
    assert isinstance(block.value, OpResult)
    generic = structured_of(elements, block.value.op)
    sizes = loop_sizes(elements, generic)
    iterations = [_loop_indices(generic, block, indices) for indices in points]
    initial = [
        elements.at(build, generic.outputs[0], evaluate(build, generic.output_maps[0], iteration))
        for iteration in iterations
    ]
    loops = [(loop, sizes[loop]) for loop in generic.reduced_loops]
    return _emit_reduced_loops(elements, build, generic, loops, iterations, initial)


def _emit_reduced_loops(
    elements: Elements,
    build: Builder,
    generic: Structured,
    loops: Sequence[tuple[int, Index]],
    iterations: Sequence[Sequence[Index]],
    values: list[SSAValue],
) -> list[SSAValue]:
    """Emit reduced loops that carry a value for each element of a block, and return the values after them.

    For `C[i, j] = sum over k of A[i, k] * B[k, j]`, a block of 2x1 and an unroll factor of 2, it emits

        for k = 0 to n step 2, carrying c0, c1 {
          c0 += A[i, k] * B[k, j],  c1 += A[i + 1, k] * B[k, j]
          c0 += A[i, k + 1] * B[k + 1, j],  c1 += A[i + 1, k + 1] * B[k + 1, j]
        }

    Args:
        elements: Tensors of the kernel, which load B[k, j] once.
        build: Receives the code.
        generic: The reduction.
        loops: The loops to emit, outermost first, each with its size. Only the innermost is unrolled.
        iterations: For each element, the index of each loop of the reduction: (i, j, 0) and (i + 1, j, 0). The indices
            of `loops` are placeholders, which are replaced here.
        values: For each element, the value before the loops.
    """
    if not loops:  # in the innermost loop
        return [
            body_at(elements, build, generic, iteration, [value])[0]
            for iteration, value in zip(iterations, values, strict=True)
        ]
    (loop, size), *inner_loops = loops
    unroll = 1 if inner_loops else _unroll_factor(size, len(iterations))

    def emit_body(inner: Builder, first_index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the iterations of `loop` with the `unroll` indices from `first_index` on, and the loops inside it.

        Each entry of `iterations` gets the index of `loop` in place of its placeholder.
        """
        for unrolled in range(unroll):
            index = inner.plus(first_index, unrolled)
            inner_iterations = [[*point[:loop], index, *point[loop + 1 :]] for point in iterations]
            carried = _emit_reduced_loops(elements, inner, generic, inner_loops, inner_iterations, carried)
        return carried

    return build.loop(0, size, values, emit_body, step=unroll)


def _unroll_factor(size: Index, points: int) -> int:
    """Return the unroll factor of a reduced loop with `size` iterations, which it divides.

    An iteration has one step of the reduction for each of the `points` elements of a block. It is unrolled only if at
    most `MAX_UNROLLED_PRODUCTS` of these steps result.
    """
    if not isinstance(size, int):
        return 1
    return next((u for u in (8, 4, 2) if size % u == 0 and size > u and u * points <= MAX_UNROLLED_PRODUCTS), 1)
