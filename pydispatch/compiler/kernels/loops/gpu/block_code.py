"""Code of register blocks on GPUs: an invocation computes a block of elements whose reductions share loads.

`blocks.py` chooses the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.loops.gpu.blocks import LANES, OutputBlock, is_multiple
from pydispatch.compiler.kernels.loops.gpu.vector_loads import PairedBlock, reduce_paired
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import body_at, loop_sizes, structured_of
from pydispatch.ir.structured import Structured

MAX_UNROLLED_PRODUCTS = 64
"""Products of a block in one iteration of the innermost loop, at most: it bounds the unroll factor."""


def emit_block(
    elements: Elements, nest: LoopNest, block: OutputBlock, build: Builder, group: Index, dims: list[Index]
) -> None:
    """Emit the code of workgroup `group`: each invocation computes a block of elements.

    Workgroups count tiles of `LANES * block.columns` columns first, then rows of blocks: for a nest over 64 x 256 with
    blocks of 8x2, `dims` is [64, 256], workgroup 3 is tile 1 (columns 128 to 255) of block 1 (rows 8 to 15).
    """
    width = LANES * block.columns
    tiles = build.ceil_quotient(dims[-1], width)
    tile, row_of_blocks = build.remainder(group, tiles), build.quotient(group, tiles)
    assert isinstance(block.value, OpResult)
    emitter = _BlockEmitter(
        elements=elements,
        stores=nest.stores,
        block=block,
        generic=structured_of(elements, block.value.op),
        rows=_rows_of_block(build, block, row_of_blocks, dims),
        first_column=build.times(tile, width),
        row_length=dims[-1],
    )
    if block.paired_inputs:
        build.parallel(0, LANES, emitter.emit_paired, index_below=LANES)
    else:
        build.parallel(
            emitter.first_column, emitter.end_of_first_columns(build), emitter.emit_strided, index_below=dims[-1]
        )


def _rows_of_block(
    build: Builder, block: OutputBlock, row_of_blocks: Index, dims: Sequence[Index]
) -> list[list[Index]]:
    """Return, for each row of a block, its index in each dimension of the nest but the last.

    Rows after the end of the nest are replaced by its last row. It may be computed several times, which is harmless:
    all stores of an element store the same value. `dims` are the sizes of the nest.
    """
    row_dim, size = block.row_dim, dims[block.row_dim]
    counts = list(dims[:-1])  # along `row_dim`, the number of blocks replaces the number of rows
    counts[row_dim] = build.ceil_quotient(size, block.rows)
    outer = build.split(row_of_blocks, counts)
    first_row = build.times(outer[row_dim], block.rows)
    rows = [build.plus(first_row, r) for r in range(block.rows)]
    if not is_multiple(size, block.rows):
        rows = [build.least(row, build.minus(size, 1)) for row in rows]
    return [[*outer[:row_dim], row, *outer[row_dim + 1 :]] for row in rows]


@dataclass(frozen=True)
class _BlockEmitter:
    """Emitter of the code of an invocation that computes a block.

    A point is the index of an element in each dimension of the nest. An iteration is the index of each loop of the
    reduction.

    Attributes:
        elements: Tensors of the kernel.
        stores: The results of the nest, each with its buffer.
        block: The block of an invocation.
        generic: The reduction that computes `block.value`.
        rows: For each row of the block, its index in each dimension of the nest but the last.
        first_column: First column of the workgroup.
        row_length: Size of the last dimension of the nest.
    """

    elements: Elements
    stores: Sequence[tuple[SSAValue, SSAValue]]
    block: OutputBlock
    generic: Structured
    rows: Sequence[Sequence[Index]]
    first_column: Index
    row_length: Index

    @property
    def has_all_columns(self) -> bool:
        """Whether the columns of all workgroups exist."""
        return is_multiple(self.row_length, LANES * self.block.columns)

    def end_of_first_columns(self, build: Builder) -> Index:
        """Return the end of the columns that are the first one of an invocation; blocks are not paired."""
        end = build.plus(self.first_column, LANES)
        return end if self.has_all_columns else build.least(end, self.row_length)

    def emit_strided(self, build: Builder, column: Index) -> None:
        """Emit the invocation whose first column is `column`: its columns are `LANES` apart.

        Columns after the end of the row are replaced by the last column, which several invocations then compute.
        """
        columns = [build.plus(column, LANES * c) for c in range(self.block.columns)]
        if not self.has_all_columns:  # `column` itself is in the row: it is below `end_of_first_columns()`
            columns = [column, *(build.least(c, build.minus(self.row_length, 1)) for c in columns[1:])]
        points = [[*row, c] for row in self.rows for c in columns]
        for point, reduced in zip(points, self._reduce(build, points), strict=True):
            self._define(build, point, reduced)
        for point in points:
            self._store(build, point)

    def emit_paired(self, build: Builder, lane: Index) -> None:
        """Emit invocation `lane`, whose columns are adjacent in pairs; all of them exist.

        Two adjacent elements of 32 bits are loaded as one i64. An invocation computes two adjacent columns of every 2 *
        LANES: with LANES = 64 and 4 columns, invocation 3 computes the columns 6, 7, 134 and 135 of its workgroup.
        """
        block, first_column = self.block, self.first_column
        # (row, column) of each element of a block, relative to its first: columns are 0, 1, 2 * LANES, 2 * LANES + 1...
        offsets = [(r, 2 * LANES * (c // 2) + c % 2) for r in range(block.rows) for c in range(block.columns)]
        column = build.plus(first_column, build.times(lane, 2))
        paired_block = PairedBlock(
            paired=block.paired_inputs,
            corner=self._iteration([*self.rows[0], column]),
            dims=(block.loop_of_dim[block.row_dim], block.loop_of_dim[-1]),
            offsets=offsets,
            column_pair=build.plus(build.quotient(first_column, 2), lane),  # column / 2
        )
        reduced_elements = reduce_paired(self.elements, build, self.generic, paired_block)
        for (row_offset, column_offset), reduced in zip(offsets, reduced_elements, strict=True):
            point = [*self.rows[row_offset], build.plus(column, column_offset)]
            self._define(build, point, reduced)
            self._store(build, point)

    def _iteration(self, point: Sequence[Index]) -> list[Index]:
        """Return the iteration of the reduction for the element at a point; 0 for reduced loops."""
        iteration: list[Index] = [0] * len(self.generic.iterators)
        for loop, index in zip(self.block.loop_of_dim, point, strict=True):
            iteration[loop] = index
        return iteration

    def _define(self, build: Builder, point: Sequence[Index], reduced: SSAValue) -> None:
        """Record the reduction's result at a point, from which the elements of the nest's results are computed."""
        indices = evaluate(build, self.generic.output_maps[0], self._iteration(point))
        self.elements.define(build, self.block.value, indices, reduced)

    def _store(self, build: Builder, point: Sequence[Index]) -> None:
        """Emit the elements of the nest's results at a point, and their stores."""
        for value, buffer in self.stores:
            self.elements.store(build, self.elements.at(build, value, point), buffer, point)

    def _reduce(self, build: Builder, points: Sequence[Sequence[Index]]) -> list[SSAValue]:
        """Emit the reduction for the elements at all points in one loop nest, and return their results."""
        generic = self.generic
        sizes = loop_sizes(self.elements, generic)
        iterations = [self._iteration(point) for point in points]
        initial = [
            self.elements.at(build, generic.outputs[0], evaluate(build, generic.output_maps[0], iteration))
            for iteration in iterations
        ]
        loops = [(loop, sizes[loop]) for loop in generic.reduced_loops]
        return self._reduced_loops(build, loops, iterations, initial)

    def _reduced_loops(
        self,
        build: Builder,
        loops: Sequence[tuple[int, Index]],
        iterations: Sequence[Sequence[Index]],
        values: list[SSAValue],
    ) -> list[SSAValue]:
        """Emit reduced loops that carry a value for each element of the block, and return the values after them.

        For `C[i, j] = sum over k of A[i, k] * B[k, j]`, a block of 2x1 and an unroll factor of 2, it emits

            for k = 0 to n step 2, carrying c0, c1 {
              c0 += A[i, k] * B[k, j],  c1 += A[i + 1, k] * B[k, j]
              c0 += A[i, k + 1] * B[k + 1, j],  c1 += A[i + 1, k + 1] * B[k + 1, j]
            }

        where `elements` loads B[k, j] once.

        Args:
            build: Receives the code.
            loops: The loops to emit, outermost first, each with its size. Only the innermost is unrolled.
            iterations: For each element, its iteration: (i, j, 0) and (i + 1, j, 0). The indices of `loops` are
                placeholders, which are replaced here.
            values: For each element, the value before the loops.
        """
        if not loops:  # in the innermost loop
            return [
                body_at(self.elements, build, self.generic, iteration, [value])[0]
                for iteration, value in zip(iterations, values, strict=True)
            ]
        (loop, size), *inner_loops = loops
        unroll = 1 if inner_loops else _unroll_factor(size, len(iterations))

        def emit_unrolled(inner: Builder, first_index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the `unroll` iterations of `loop` from `first_index` on, and the loops inside it."""
            for unrolled in range(unroll):
                index = inner.plus(first_index, unrolled)
                inner_iterations = [[*point[:loop], index, *point[loop + 1 :]] for point in iterations]
                carried = self._reduced_loops(inner, inner_loops, inner_iterations, carried)
            return carried

        return build.loop(0, size, values, emit_unrolled, step=unroll)


def _unroll_factor(size: Index, points: int) -> int:
    """Return the unroll factor of a reduced loop with `size` iterations, which it divides; the loop remains a loop.

    An iteration has one step of the reduction for each of the `points` elements of a block. It is unrolled only if at
    most `MAX_UNROLLED_PRODUCTS` of these steps result.
    """
    if not isinstance(size, int):
        return 1
    return next((u for u in (8, 4, 2) if size % u == 0 and size > u and u * points <= MAX_UNROLLED_PRODUCTS), 1)
