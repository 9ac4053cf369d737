"""Rows of A of a product by block-quantized weights, copied into workgroup memory as f32 or as digits.

A row is divided into blocks of steps of K, as the weights are: a block is the adjacent steps whose weights in a column
share a scale. A chunk is some adjacent blocks. Where the CPU multiplies bytes, the elements of each block become
integers of up to 24 bits, relative to the largest one, which consist of up to three signed bytes, the digits
(`row_digits.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.block_quantized import BlockQuantized
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.cpu.row_digits import DigitConversion, Digits, f32_constant
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements


@dataclass(frozen=True)
class RowBuffers:
    """Workgroup memory for a chunk of a workgroup's rows of A.

    Attributes:
        copy: Buffer of f32, [row][step of the chunk]: the elements of A.
        digits: The elements quantized to integers, as digits, with one scale for each block of a row; None if products
            are of f32.
        sums: Buffer of f32, [row][block]: the sum of the elements in a block, or of their integers if `digits` is not
            None. Zero points and offsets of the weights are multiplied by this sum.
    """

    copy: SSAValue
    digits: Digits | None
    sums: SSAValue


@dataclass(frozen=True)
class RowConversion:
    """Emitter of the copy of a workgroup's rows of A into workgroup memory, a chunk of K at a time.

    K is the reduced dimension of the product, and a step of K one of its indices: an element of each row of A.

    Attributes:
        elements: Tensors of the dispatch function.
        match: The product. It has the number of blocks of K, and the number of steps in a block.
        rows: Rows of A that the workgroup copies.
        digit_count: Number of signed bytes, the digits, of the integer that an element becomes, 1 to 3; 0 if elements
            remain f32.
        first_row: The first of these rows.
        end_row: The number of rows of A.
        repeats_last: Whether some of the workgroup's rows may be beyond the last row of A. Such rows become copies of
            the last row.
        blocks: Number of blocks of K in a chunk.
        lanes: Number of blocks that are converted to digits at a time: as many as a vector has 32-bit elements.
    """

    elements: Elements
    match: BlockQuantized
    rows: int
    digit_count: int
    first_row: Index
    end_row: int
    repeats_last: bool
    blocks: int
    lanes: int

    @property
    def steps(self) -> int:
        """Number of steps of K in a chunk: elements of a row that are copied at a time."""
        return self.blocks * self.match.steps_per_block

    @cached_property
    def _digits(self) -> DigitConversion | None:
        """The conversion of the copied rows to integers of signed bytes, the digits; None if they remain f32."""
        if self.digit_count == 0:
            return None
        return DigitConversion.allocate(
            self.elements,
            self._copy,
            rows=self.rows,
            blocks=self.blocks,
            steps=self.match.steps_per_block,
            digit_count=self.digit_count,
            lanes=self.lanes,
        )

    @cached_property
    def _copy(self) -> SSAValue:
        """Buffer of f32 for a chunk of the rows."""
        return self.elements.fresh(f32, self.rows * self.steps)

    @cached_property
    def buffers(self) -> RowBuffers:
        """The buffers that receive a chunk of the rows; `digits` is None if elements are not converted to integers."""
        if self._digits is not None:
            return RowBuffers(copy=self._copy, digits=self._digits.digits, sums=self._digits.digits.sums)
        copy = self._copy  # a property that allocates the copy when it is first read: here, before the sums
        return RowBuffers(copy=copy, digits=None, sums=self.elements.fresh(f32, self.rows * self.blocks))

    def emit(self, build: Builder, first_block: Index) -> None:
        """Emit the stores into `buffers` for the chunk of K that begins with the block `first_block`.

        The rows of A are copied as f32. If elements are converted to integers, the integers and the sum of the integers
        of each block are computed from the copy. Otherwise, the sum of the f32 elements of each block is.
        """
        rows = self.buffers
        self.copy_rows(build, rows.copy, self.steps, first_block, self.blocks)
        if self._digits is not None:
            self._digits.emit(build)
            return
        build.parallel(0, self.rows * self.blocks, lambda inner, i: self._sum_block(inner, rows.copy, rows.sums, i))

    def copy_rows(self, build: Builder, copy: SSAValue, stride: int, first_block: Index, blocks: Index) -> None:
        """Emit the copy of rows of A to `copy`, [row][step of the chunk], as f32.

        Args:
            build: Receives the code.
            copy: Buffer that receives the rows: element [row, step] is at row * `stride` + step.
            stride: Elements of `copy` between rows.
            first_block, blocks: First block of K, and number of blocks.
        """
        row_copy = _RowCopy(self, copy, stride, first_block)
        build.parallel(0, self.rows, lambda inner, row: row_copy.emit(inner, row, blocks))

    def indices_in_a(self, build: Builder, row: Index) -> dict[int, Index]:
        """Return {loop of the contraction over rows: its index} for a row of the workgroup.

        Rows of A may be counted by several loops: row 7 is {0: 1, 1: 3} for the loops 0 and 1 of sizes 2 and 4. `row`
        is counted from the first row of the workgroup. A row beyond the end of A has the indices of the last row.
        """
        match = self.match
        row_of_a = build.plus(row, self.first_row)
        if self.repeats_last:  # some rows may be beyond the end
            row_of_a = build.least(row_of_a, self.end_row - 1)
        sizes = [match.contraction.generic.extent(d) for d in match.row_loops]
        return dict(zip(match.row_loops, build.split(row_of_a, sizes), strict=True))

    def _sum_block(self, build: Builder, copy: SSAValue, sums: SSAValue, block: Index) -> None:
        """Emit the sum of the elements of one block in `copy`, the rows of A, and store it in `sums`.

        `copy` is [row][block][step], and `sums` is [row][block]. `block` counts the blocks of all rows: it is the index
        of the sum.
        """
        first_element = build.times(block, self.match.steps_per_block)
        flags = arith.FastMathFlagsAttr([FastMathFlag.REASSOC])  # allows lanes of a vector to add up separate steps

        def add_step(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Return the sum up to step `k` of the block; `carried` has the sum before it."""
            value = load(inner, copy, inner.plus(first_element, k))
            return [inner.add(arith.AddfOp(carried[0], value, flags))]

        (total,) = build.loop(0, self.match.steps_per_block, [f32_constant(build, 0.0)], add_step)
        self.elements.store(build, total, sums, [block])


@dataclass(frozen=True)
class _RowCopy:
    """Emitter of the copy of a row of A, in the steps of K of a chunk, to workgroup memory as f32.

    Attributes:
        conversion: The rows of the workgroup.
        copy: Buffer that receives the rows: element [row, step of the chunk] is at row * `stride` + step.
        stride: Elements of `copy` between rows.
        first_block: First block of K of the chunk.
    """

    conversion: RowConversion
    copy: SSAValue
    stride: int
    first_block: Index

    def emit(self, build: Builder, row: Index, blocks: Index) -> None:
        """Emit the copy of a row of the workgroup, in the first `blocks` blocks of the chunk."""
        steps_per_block = self.conversion.match.steps_per_block
        row_indices = self.conversion.indices_in_a(build, row)
        if self._are_blocks_contiguous:  # a single loop, over the steps of all blocks
            steps = build.times(blocks, steps_per_block)
            build.parallel(0, steps, lambda b, step: self._copy_element(b, row, row_indices, 0, step))
            return

        def copy_block(inner: Builder, block: Index) -> None:
            """Emit the copy of one block of the row."""
            inner.parallel(0, steps_per_block, lambda b, step: self._copy_element(b, row, row_indices, block, step))

        build.parallel(0, blocks, copy_block)

    @property
    def _are_blocks_contiguous(self) -> bool:
        """Whether A is indexed by K as if it had no blocks, as in A[row, 32 * block + step] with blocks of 32 steps."""
        match = self.conversion.match
        return all(
            coordinate.coefficient(match.block_loop) == match.steps_per_block * coordinate.coefficient(match.step_loop)
            for coordinate in match.row_factor.coordinates
        )

    def _copy_element(
        self, build: Builder, row: Index, row_indices: Mapping[int, Index], block: Index, step: Index
    ) -> None:
        """Emit the copy of the element of a row at a step of a block.

        `row_indices` has the index of each loop of the contraction that counts rows of A. `block` is counted from the
        first block of the chunk, and `step` from the first step of the block. If blocks are contiguous in A, `block`
        may be 0, and `step` beyond its end.
        """
        match, elements = self.conversion.match, self.conversion.elements
        coordinates = self._coordinates_in_a(build, row_indices, block, step)
        value = factor_at(elements, build, match.contraction, match.row_factor, coordinates)
        step_of_chunk = build.plus(build.times(block, match.steps_per_block), step)
        elements.store(build, value, self.copy, [build.plus(step_of_chunk, build.times(row, self.stride))])

    def _coordinates_in_a(
        self, build: Builder, row_indices: Mapping[int, Index], block: Index, step: Index
    ) -> list[Index]:
        """Return the coordinates of an element of A: for each axis of its tensor, the index that the loops give.

        K is two loops of the contraction, over blocks, whose weights share a scale, and over the steps of a block. With
        blocks of 32 steps, block 2 and step 5 of A[row, 32 * block + step] have the coordinates (row, 69).
        """
        match = self.conversion.match
        coordinates: list[Index] = []
        for coordinate in match.row_factor.coordinates:
            index: Index = coordinate.constant
            for dim, coefficient in coordinate.terms:
                if dim in row_indices:  # the terms of the two loops of K are added below
                    index = build.plus(index, build.times(row_indices[dim], coefficient))
            block_of_k = build.plus(self.first_block, block)
            index = build.plus(index, build.times(block_of_k, coordinate.coefficient(match.block_loop)))
            coordinates.append(build.plus(index, build.times(step, coordinate.coefficient(match.step_loop))))
        return coordinates
