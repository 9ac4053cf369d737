"""Choice of register blocks for reductions on GPUs: an invocation computes elements whose reductions share loads.

In a matrix product each element of B is used by all rows: an invocation that computes several rows of a column loads it
once, and its elements of A are uniform in the workgroup. Convolutions and batched products are the same. Elementwise
operations on the result are computed before it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.gpu.vector_loads import PairedInput, paired_inputs
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.nests import Partition
from pydispatch.compiler.kernels.loops.trial import Trial, emit_trial
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import EmittedElement
from pydispatch.compiler.kernels.ops.generics import structured_of
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
    has_whole_blocks = is_multiple(dims[row_dim], rows)
    return _with_pairs(frame, block, dims[-1]) if pairs and has_whole_blocks else block


def _block_shape(rows_of_nest: Index, columns_of_nest: Index) -> tuple[int, int]:
    """Return the rows and columns of a block: (8, 2) for 64 rows and 128 columns, (8, 1) for dynamic sizes.

    The columns of the nest are divided among the `LANES` invocations of a workgroup. A block has the largest number of
    `COLUMNS` with which no invocation is without work, and the largest of `ROWS` that divides the rows of the nest. If
    none of `ROWS` divides them, it has the largest of all, and the last block computes its last row repeatedly.
    """
    rows = next((r for r in ROWS if is_multiple(rows_of_nest, r)), ROWS[0])
    most_columns = columns_of_nest // LANES if isinstance(columns_of_nest, int) else 1
    columns = next((c for c in COLUMNS if c <= most_columns), 1)  # the largest candidate: they descend to 1
    return rows, columns


def is_multiple(size: Index, divisor: int) -> bool:
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
    columns = next((c for c in COLUMNS if c > 1 and is_multiple(row_length, LANES * c)), None)
    if columns is None:
        return block
    row_and_column_loops = (block.loop_of_dim[block.row_dim], block.loop_of_dim[-1])
    generic = structured_of(frame.elements, block.value.op)
    paired = paired_inputs(frame.elements, generic, row_and_column_loops)
    return replace(block, columns=columns, paired_inputs=paired) if paired else block


def _dim_with_most_reuse(generic: Structured, loop_of_dim: Sequence[int], dims: Sequence[Index]) -> int | None:
    """Return the dimension of the nest that the most inputs do not depend on, of those that may count rows.

    For `C[i, j] = sum over k of A[i, k] * B[k, j]` and a nest over (i, j) it is 0: B does not depend on i.

    The rows of a block along this dimension share the loads of these inputs. Its columns are along the last dimension,
    which is no candidate, nor are dimensions shorter than the smallest block. Of several with equal reuse the innermost
    is taken. Inputs that the body does not read, and scalars, do not count. None: all inputs depend on all candidates.

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
    candidates = [dim for dim, size in enumerate(dims[:-1]) if not isinstance(size, int) or size >= min(ROWS)]

    def reuse(dim: int) -> int:
        """Return the number of inputs that do not depend on a dimension."""
        return sum(loop_of_dim[dim] not in loops for loops in loops_of_inputs)

    best = max(reversed(candidates), key=reuse, default=None)  # the innermost of several: `max` returns the first
    return best if best is not None and reuse(best) else None


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
