"""Column reductions: over outer dimensions of operands that are contiguous along the last dimension of the result.

A workgroup takes a range of columns, with their accumulators in workgroup memory. The reduced dimensions are sequential
loops around a parallel loop over columns, which is vectorized: a pass over the accumulators. A pass takes several steps
of the innermost reduced loop where that pays (unroll and jam). Each column is summed in order. Long sums are cut into
blocks of `BLOCK_STEPS` steps with separate accumulators, which are then added to the total of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.tiles import COLUMN_BYTES
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.cost import is_costly, is_expensive
from pydispatch.compiler.kernels.ops.elements import Elements, EmittedElement, IndexMap
from pydispatch.compiler.kernels.ops.generics import are_sums, body_at, loop_sizes, structured_of
from pydispatch.compiler.kernels.ops.sums import negative_zero
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.structured import Structured

BLOCK_STEPS = 1024
"""Steps of a sum per block. Larger: larger rounding errors; smaller: more passes over the accumulators."""

Point = list[Index]
"""Index of each loop of a reduction."""

JAMMED_STEPS = 4
"""Steps of the innermost reduced loop that one pass over the accumulators takes. Fewer: accumulators are loaded and
stored more often; more: rows whose distance is a power of two displace each other in the first-level cache."""

FEWEST_JAMMED_COLUMNS = 16
"""Columns below which a pass over the accumulators adds one row of the reduction, not several: LLVM unrolls such short
loops over columns instead of vectorizing them."""


@dataclass(frozen=True)
class ColumnReduction:
    """A reduction that runs for a range of columns at once.

    Attributes:
        op: The reduction.
        nest_dims: For each loop of the reduction, the dimension of the nest that counts it; -1 for a reduced loop and
            for one of a single iteration.
    """

    op: Operation
    nest_dims: tuple[int, ...]


def find_column_reductions(
    elements: Elements, reduced_elements: Sequence[EmittedElement], indices: Sequence[Index]
) -> list[ColumnReduction]:
    """Return the column reductions of a nest, producers first; an empty list unless all of its reductions are such.

    The nest was emitted on trial: its code is analyzed here, and then discarded.

    A column reduction reduces outer dimensions of inputs that are contiguous along the last dimension of the nest, the
    columns. For `r[j] = sum over i of x[i, j]`, whose loops are (i, j) and whose nest has the dimension j alone, the
    result has `nest_dims` (-1, 0): loop i is reduced, loop j is counted by dimension 0 of the nest.

    Each column has one accumulator for each result, so that all results of a reduction must be read at the same point.

    Args:
        elements: Tensors of the trial emission.
        reduced_elements: The elements of results of reductions that the trial emitted, producers first.
        indices: Counters of the loops of the trial, one for each dimension of the nest.
    """
    reductions: list[ColumnReduction] = []
    for element in reduced_elements:
        reduction = _column_reduction(elements, element, indices)
        if reduction is None:
            return []
        if reduction in reductions:  # the nest reads another result of the same reduction at the same point
            continue
        is_read_elsewhere = any(other.op is reduction.op for other in reductions)
        if is_read_elsewhere:  # at another point, which would need accumulators of its own
            return []
        reductions.append(reduction)
    return reductions


def _column_reduction(elements: Elements, element: EmittedElement, indices: Sequence[Index]) -> ColumnReduction | None:
    """Return the reduction of an element as a column reduction; None if it is none. `indices` are those of the nest."""
    value = element.value
    assert isinstance(value, OpResult)
    generic = structured_of(elements, value.op)
    nest_dims = [-1] * len(generic.iterators)  # for each loop the dimension of the nest; -1: reduced
    for index, result in zip(element.indices, generic.output_maps[value.index].results, strict=True):
        is_constant_zero = not isinstance(index, SSAValue) and index == 0
        if is_constant_zero:  # a dimension of size 1, which no loop of the nest counts
            continue
        if index not in indices or not isinstance(result, AffineDimExpr):  # such as j + 1: not one of the columns
            return None
        nest_dims[result.position] = list(indices).index(index)
    last_dim = len(indices) - 1
    if nest_dims.count(last_dim) != 1:  # no loop counts the columns, or several do
        return None
    if not _reads_along_columns(generic, nest_dims.index(last_dim)) or _has_subbyte_results(value.op):
        return None
    return ColumnReduction(value.op, nest_dims=tuple(nest_dims))


def _has_subbyte_results(op: Operation) -> bool:
    """Return whether an element of a result has fewer than 8 bits: parallel columns would then write the same byte."""
    return any(bits_of(tensor_type(r).element_type) < 8 for r in op.results)


def _reads_along_columns(generic: Structured, column: int) -> bool:
    """Return whether more inputs are contiguous along the columns than along a reduced dimension.

    `column` is the loop of the reduction that counts columns.
    """
    column_inputs = reduced_inputs = 0
    input_maps = generic.maps[: len(generic.inputs)]  # without those of the outputs
    for index, (value, map) in enumerate(zip(generic.inputs, input_maps, strict=True)):
        is_scalar = not isinstance(value.type, TensorType) or not map.results
        is_read = bool(generic.block.args[index].uses)
        if is_scalar or not is_read:
            continue
        # The loops that the index of the last axis is computed from.
        last_axis_loops = {d.position for d in map.results[-1].dfs() if isinstance(d, AffineDimExpr)}
        if column in last_axis_loops:
            column_inputs += 1
        elif last_axis_loops & set(generic.reduced_loops):
            reduced_inputs += 1
    return column_inputs > reduced_inputs


def max_columns(reductions: Sequence[ColumnReduction]) -> int:
    """Return the largest number of columns of a workgroup: accumulators of one result take at most `COLUMN_BYTES`."""
    size = max(bits_of(tensor_type(r).element_type) // 8 for reduction in reductions for r in reduction.op.results)
    return COLUMN_BYTES // size


class ColumnRange(NamedTuple):
    """The columns of a nest that a workgroup computes at some indices of the other dimensions.

    Attributes:
        outer: Indices of the dimensions of the nest before the last one, which counts the columns.
        dims: Sizes of all dimensions of the nest.
        low, high: Half-open range of columns.
    """

    outer: Sequence[Index]
    dims: Sequence[Index]
    low: Index
    high: Index


@dataclass(frozen=True)
class ColumnBuffers:
    """Workgroup memory for the accumulators of a range of columns; element 0 of a buffer is that of its first column.

    Attributes:
        totals: Result of a column reduction -> buffer of its totals.
        block_sums: Result that is summed in blocks of steps (`sums_in_blocks`) -> buffer of the sums of the current
            block.
    """

    totals: dict[SSAValue, SSAValue]
    block_sums: dict[SSAValue, SSAValue]

    @staticmethod
    def allocate(elements: Elements, reductions: Sequence[ColumnReduction], columns: int) -> ColumnBuffers:
        """Allocate the buffers of all results of `reductions`, for `columns` columns each."""
        buffers = ColumnBuffers(totals={}, block_sums={})
        for reduction in reductions:
            for result in reduction.op.results:
                element = tensor_type(result).element_type
                buffers.totals[result] = elements.fresh(element, columns)
                if sums_in_blocks(elements, reduction):
                    buffers.block_sums[result] = elements.fresh(element, columns)
        return buffers

    def forget(self, elements: Elements) -> None:
        """Unregister the totals of a range of columns, which are valid for this range and row only."""
        for result in self.totals:
            elements.forget(result)


def emit_column_reductions(
    elements: Elements,
    build: Builder,
    reductions: Sequence[ColumnReduction],
    columns: ColumnRange,
    buffers: ColumnBuffers,
) -> None:
    """Emit the reductions, producers first, for a range of columns, whose results are stored in `buffers`.

    The results are registered as stored, so that later code of the nest loads them.
    """
    for reduction in reductions:
        emitter = _ColumnEmitter(elements, reduction, columns, buffers)
        emitter.emit(build)
        for result, map, buffer in zip(reduction.op.results, emitter.generic.output_maps, emitter.totals, strict=True):
            loops = [axis.position if isinstance(axis, AffineDimExpr) else None for axis in map.results]
            column_axis = loops.index(emitter.column)  # the axis of the result that columns index
            elements.materialize(result, buffer, _column_offset(column_axis, columns.low))


class _ColumnEmitter:
    """Emitter of one column reduction for a range of columns, whose accumulators are in memory.

    A point is the index of each loop of the reduction in one step.

    Attributes:
        elements: Tensors of the kernel.
        generic: The reduction.
        low, high: Half-open range of columns.
        row_point: Point of the current row, the indices of the nest's outer dimensions. It has placeholders, 0, for
            reduced loops and for the loop over columns.
        column: The loop of the reduction that runs over columns.
        sizes: Size of each loop of the reduction.
        jammed_steps: Steps of the innermost reduced loop that one pass over the accumulators takes.
        column_count: Number of all columns: a bound that the index of a column is known to be below.
        steps_per_block: Iterations of the outermost reduced loop whose sums are added to the totals at once; 0 if the
            reduction is not cut into blocks.
        totals: For each result, the buffer of the accumulators of all steps.
        sums: For each result, the buffer that steps are added to: of the current block's sums, or `totals`.
    """

    def __init__(
        self, elements: Elements, reduction: ColumnReduction, columns: ColumnRange, buffers: ColumnBuffers
    ) -> None:
        """Create the emitter of `reduction` for a range of columns, with its buffers."""
        self.elements, self.generic = elements, structured_of(elements, reduction.op)
        self.low, self.high, self.column_count = columns.low, columns.high, columns.dims[-1]
        columns_dim = len(columns.dims) - 1  # of the nest
        self.column = reduction.nest_dims.index(columns_dim)
        # Reduced loops and loops of one iteration have the dimension -1.
        self.row_point: Point = [0 if dim in (-1, columns_dim) else columns.outer[dim] for dim in reduction.nest_dims]
        self.sizes = loop_sizes(elements, self.generic)
        self.steps_per_block = _steps_per_block(elements, self.generic, self.sizes)
        self.jammed_steps = JAMMED_STEPS if self._is_jamming_faster(reduction.op) else 1
        self.totals = [buffers.totals[result] for result in reduction.op.results]
        has_blocks = self.steps_per_block > 0
        self.sums = [buffers.block_sums[result] for result in reduction.op.results] if has_blocks else self.totals

    def _is_jamming_faster(self, op: Operation) -> bool:
        """Return whether unroll-and-jam is faster: whether a pass over the columns should add several steps at once.

        It is faster for inexpensive sums of floats over enough columns. The steps of a column in one pass depend on
        each other. Additions of floats have a short latency. Maxima take several instructions, for which the next step
        would wait.
        """
        # A range of unknown size is assumed to have enough columns.
        count = (
            self.high - self.low if isinstance(self.high, int) and isinstance(self.low, int) else FEWEST_JAMMED_COLUMNS
        )
        is_inexpensive = not is_expensive(op) and not any(is_costly(value) for value in self.generic.inputs)
        return count >= FEWEST_JAMMED_COLUMNS and is_inexpensive and all(are_sums(self.elements, self.generic))

    def emit(self, build: Builder) -> None:
        """Emit the initial totals of all columns, and then the steps of the reduction, which are added to them."""
        build.parallel(self.low, self.high, self._initialize_totals, index_below=self.column_count)
        self._emit_loops(build, depth=0, point=self.row_point)

    def _initialize_totals(self, build: Builder, index: Index) -> None:
        """Emit the initial totals of column `index`: the elements of the output operands."""
        point = _with_index(self.row_point, self.column, index)
        for output, map, buffer in zip(self.generic.outputs, self.generic.output_maps, self.totals, strict=True):
            element = self.elements.at(build, output, evaluate(build, map, point))
            self.elements.store(build, element, buffer, [build.minus(index, self.low)])

    def _emit_loops(self, build: Builder, depth: int, point: Point) -> None:
        """Emit the loops over the reduced dimensions from `depth` on, around the parallel loop over the columns.

        Only the outermost one, at depth 0, is cut into blocks, so that rounding errors of a long float sum do not grow
        with its length. The sum over n rows of x becomes, with blocks of `BLOCK_STEPS` = 1024 steps,

            for first = 0 to n step 1024 {
              parallel column { sums[column] = -0 }
              for i = first to min(first + 1024, n) { parallel column { sums[column] += x[i, column] } }
              parallel column { totals[column] += sums[column] }
            }

        where the loop over i takes `jammed_steps` rows at a time. Without blocks, steps are added to `totals` directly.
        `point` has the index of each loop of the reduction, and placeholders for the loops that are emitted here.
        """
        if depth == len(self.generic.reduced_loops):
            self._emit_pass(build, [point])
            return
        size = self.sizes[self.generic.reduced_loops[depth]]

        def emit_block(inner: Builder, first: Index) -> None:
            """Emit the sums of the block of steps from `first` on, starting from -0, and add them to the totals."""
            inner.parallel(self.low, self.high, self._clear_block_sums, index_below=self.column_count)
            end = inner.least(inner.plus(first, self.steps_per_block), size)
            self._emit_iterations(inner, depth, point, first, end)
            inner.parallel(self.low, self.high, self._add_to_total, index_below=self.column_count)

        if self.steps_per_block and depth == 0:
            build.sequential(0, size, emit_block, step=self.steps_per_block, index_below=size)
        else:
            self._emit_iterations(build, depth, point, first=0, end=size)

    def _emit_iterations(self, build: Builder, depth: int, point: Point, first: Index, end: Index) -> None:
        """Emit the iterations `first` to `end` of the reduced loop at `depth`, with the loops inside it.

        A pass is a loop over the columns that loads each accumulator, adds some steps and stores it. Each pass takes
        `jammed_steps` iterations of the innermost loop; remaining ones take a pass each. With 4 jammed steps, 10
        iterations take the passes 0 to 3, 4 to 7, 8 and 9.

        `point` has the index of each loop of the reduction, and placeholders for the loops that are emitted here.
        """
        loop = self.generic.reduced_loops[depth]

        def emit_iteration(inner: Builder, index: Index) -> None:
            """Emit the loops inside of `loop` at an index of it."""
            self._emit_loops(inner, depth + 1, _with_index(point, loop, index))

        is_innermost = depth == len(self.generic.reduced_loops) - 1
        if is_innermost and self.jammed_steps > 1:
            first = self._emit_jammed_iterations(build, point, first, end)  # the first of the remaining iterations
        build.sequential(first, end, emit_iteration, index_below=self.sizes[loop])

    def _emit_jammed_iterations(self, build: Builder, point: Point, first: Index, end: Index) -> Index:
        """Emit passes of `jammed_steps` iterations of the innermost reduced loop each.

        A pass is a loop over the columns that loads each accumulator, adds some steps and stores it. For the iterations
        0 to 9 and 4 steps, the passes begin at 0 and 4.

        Args:
            build: Receives the code.
            point: Index of each loop of the reduction; that of the innermost reduced loop is a placeholder.
            first, end: Half-open range of the iterations.

        Returns:
            The iteration after those of the last pass: 8 for 0 to 9. The remaining ones are fewer than `jammed_steps`.
        """
        loop = self.generic.reduced_loops[-1]
        size = self.sizes[loop]

        def emit_jammed(inner: Builder, index: Index) -> None:
            """Emit one pass over the accumulators for the `jammed_steps` iterations from `index` on."""
            steps = [inner.plus(index, step) for step in range(self.jammed_steps)]
            for step in steps:
                if isinstance(step, SSAValue):
                    inner.assume_below(step, size)
            self._emit_pass(inner, [_with_index(point, loop, step) for step in steps])

        jammed_end = build.minus(end, build.remainder(build.minus(end, first), self.jammed_steps))
        build.sequential(first, jammed_end, emit_jammed, step=self.jammed_steps, index_below=size)
        return jammed_end

    def _emit_pass(self, build: Builder, points: Sequence[Point]) -> None:
        """Emit the loop over the columns that adds a step at each of `points`, in order, to the accumulators.

        A point has the index of each loop of the reduction; that of the loop over the columns is a placeholder.
        """

        def emit_column(inner: Builder, column: Index) -> None:
            """Emit the steps of one column at all `points`, between the loads and the stores of its accumulators."""
            offset = inner.minus(column, self.low)
            accumulators = [load(inner, buffer, offset) for buffer in self.sums]
            for point in points:
                column_point = _with_index(point, self.column, column)
                accumulators = body_at(self.elements, inner, self.generic, column_point, accumulators)
            for accumulator, buffer in zip(accumulators, self.sums, strict=True):
                self.elements.store(inner, accumulator, buffer, [offset])

        build.parallel(self.low, self.high, emit_column, index_below=self.column_count)

    def _clear_block_sums(self, build: Builder, index: Index) -> None:
        """Emit the reset of the block sums of column `index` to -0, the neutral element of float addition."""
        for buffer in self.sums:
            assert isinstance(buffer.type, MemRefType)
            zero = negative_zero(build, buffer.type.element_type)
            self.elements.store(build, zero, buffer, [build.minus(index, self.low)])

    def _add_to_total(self, build: Builder, index: Index) -> None:
        """Emit the addition of the block sums of column `index` to its totals."""
        offset = build.minus(index, self.low)
        for sums_of_block, totals in zip(self.sums, self.totals, strict=True):
            total = load(build, totals, offset)
            new_total = build.add(arith.AddfOp(total, load(build, sums_of_block, offset)))
            self.elements.store(build, new_total, totals, [offset])


def _with_index(point: Point, loop: int, index: Index) -> Point:
    """Return a point with another index for one of the loops."""
    return [*point[:loop], index, *point[loop + 1 :]]


def sums_in_blocks(elements: Elements, reduction: ColumnReduction) -> bool:
    """Return whether a reduction is a long float sum, whose steps are added up in blocks."""
    generic = structured_of(elements, reduction.op)
    return _steps_per_block(elements, generic, loop_sizes(elements, generic)) > 0


def _steps_per_block(elements: Elements, generic: Structured, sizes: Sequence[Index]) -> int:
    """Return the number of iterations of the outermost reduced loop per block, with about `BLOCK_STEPS` steps in all.

    With 1024 steps per block, a sum over 5000 x 100 elements has blocks of 10 outermost iterations. Return 0 if the
    reduction is not cut into blocks: if it is no float sum that may be reassociated, is short, or has an inner loop of
    dynamic size. `sizes` has the size of each loop of the reduction.
    """
    if not generic.reduced_loops or not all(are_sums(elements, generic)):
        return 0
    outermost, *inner_sizes = [sizes[dim] for dim in generic.reduced_loops]
    if not all(isinstance(size, int) for size in inner_sizes):
        return 0
    inner_steps = prod(size for size in inner_sizes if isinstance(size, int))  # of one outermost iteration
    is_short = isinstance(outermost, int) and outermost * inner_steps <= BLOCK_STEPS
    return 0 if is_short else max(1, BLOCK_STEPS // max(1, inner_steps))


def _column_offset(column_axis: int, low: Index) -> IndexMap:
    """Return the map from the indices of an element of a result to its offset in a buffer of the columns from `low` on.

    The buffer has one row, so that only the index along `column_axis` counts.
    """
    return lambda build, indices: [build.minus(indices[column_axis], low)]
