"""Reductions of many short blocks of memory at once: each lane of a vector has the result of one block.

The lanes of a block's vectors are first combined to one vector for each block. These partial results are transposed, so
that the rows to combine are vectors over blocks. Reducing the lanes of each block by itself would take about three
times the instructions, and would leave results that scalar instructions must process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import StridedBlock, transpose_block
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements

MOST_VECTORS = 8
"""Maximum number of vectors of a block that are combined by straight code; a longer block has a loop over chunks."""


@dataclass(frozen=True)
class Partials:
    """Memory for partial results of the reductions of a group of blocks.

    A block is reduced in vectors, so that it has a partial result for each lane: with vectors of 16, lane j has that of
    the elements j, j + 16, and so on.

    Attributes:
        width: Number of partial results of a block.
        by_block: Buffers, one for each reduction: [block][partial result].
        by_lane: Buffers for the transposed partial results, one for each reduction: [partial result][block].
    """

    width: int
    by_block: tuple[SSAValue, ...]
    by_lane: tuple[SSAValue, ...]

    @staticmethod
    def allocate(elements: Elements, type_: Attribute, count: int, lanes: int, steps: int) -> Partials:
        """Return memory for `count` reductions of `lanes` blocks of `steps` elements each, with results of `type_`."""
        width = gcd(lanes, steps)  # lanes that the elements of a block fill: 16 of 16 for 32 steps, 8 for 24
        by_block = tuple(elements.fresh(type_, lanes * width) for _ in range(count))
        by_lane = tuple(elements.fresh(type_, lanes * width) for _ in range(count))
        return Partials(width=width, by_block=by_block, by_lane=by_lane)


@dataclass(frozen=True)
class Reductions:
    """Reductions of each block, one or more, whose terms are computed together.

    Attributes:
        start: For each reduction, a value that does not change its result, however often it is combined with terms: 0
            for a sum, a lower bound of the terms for a maximum.
        combine: Operation on two values, such as `arith.AddiOp`, that may be applied in any order.
        terms: Emits the term of each reduction, from a builder, a block of the group and a step of the block.
    """

    start: Sequence[SSAValue]
    combine: Callable[[SSAValue, SSAValue], Operation]
    terms: Callable[[Builder, Index, Index], Sequence[SSAValue]]

    def combined(self, build: Builder, results: Sequence[SSAValue], values: Iterable[SSAValue]) -> list[SSAValue]:
        """Emit the combination of the result of each reduction with one of `values`, and return the new results."""
        return [build.add(self.combine(result, value)) for result, value in zip(results, values, strict=True)]


@dataclass(frozen=True)
class LaneReduction:
    """Emitter of reductions of the blocks of a group: the terms of each block, one for each step, become one value.

    The terms of a block are first combined to a partial result for each lane of a vector. The partial results of all
    blocks are a matrix [block][lane], which is transposed. Each lane then combines the partial results of one block.

    Attributes:
        elements: Tensors of the dispatch function.
        lanes: Number of blocks of a whole group: the lanes of a vector.
        steps: Number of terms of a block.
        blocks: Number of blocks of this group; the last group may have fewer than `lanes`.
        partials: Memory for partial results; it is overwritten.
    """

    elements: Elements
    lanes: int
    steps: int
    blocks: Index
    partials: Partials

    def emit(
        self,
        build: Builder,
        reductions: Reductions,
        finish: Callable[[Builder, Index, Sequence[SSAValue]], None],
    ) -> None:
        """Emit reductions of each block, and the code that uses their results.

        Example:
            With 16 lanes and blocks of 32 steps, lane j of a block's partial results has the terms of the steps j and
            j + 16. The partial results of 16 blocks are a matrix of 16 x 16, whose transposed rows are added up.

        Args:
            build: Receives the code.
            reductions: The reductions; `partials` may have memory for more.
            finish: Emits code that uses the result of each reduction, from a builder, a block of the group and the
                results. All lanes run the code. With fewer blocks than lanes, the others have meaningless results.
        """
        emit_loop(build, self.blocks, 1, lambda inner, block: self._combine_steps(inner, block, reductions))
        count, width, lanes = len(reductions.start), self.partials.width, self.lanes
        by_lane = self.partials.by_lane[:count]
        for source, target in zip(self.partials.by_block[:count], by_lane, strict=True):
            block_rows, lane_rows = StridedBlock(source, 0, stride=width), StridedBlock(target, 0, stride=lanes)
            transpose_block(build, source=block_rows, target=lane_rows, rows=lanes, columns=width)

        def finish_block(inner: Builder, block: Index) -> None:
            """Emit the results of a block from column `block` of each matrix `by_lane`, and pass them to `finish`."""
            results = list(reductions.start)
            for partial_result in range(width):
                index = inner.plus(block, partial_result * lanes)
                results = reductions.combined(inner, results, (load(inner, buffer, index) for buffer in by_lane))
            finish(inner, block, results)

        build.parallel(0, lanes, finish_block)

    def _combine_steps(self, build: Builder, block: Index, reductions: Reductions) -> None:
        """Emit the partial results of a block: each lane of a vector combines the terms of its steps.

        With vectors of 16, lane j has the steps j, j + 16, and so on. The vectors of a block are divided into equal
        chunks of at most `MOST_VECTORS` vectors. The code of a chunk has no loop over its vectors. Between two chunks,
        the partial results are in memory.
        """
        buffers, width = self.partials.by_block[: len(reductions.start)], self.partials.width
        vector_count = self.steps // width
        vectors_per_chunk = max(n for n in range(1, MOST_VECTORS + 1) if vector_count % n == 0)

        def combine_chunk(inner: Builder, first_step: Index, lane: Index, is_first: bool) -> None:
            """Emit the terms of a lane in the chunk from `first_step` on, and store its new partial result.

            Terms are combined with `start` in the first chunk, and with the stored partial result in later ones.
            """
            index = inner.plus(inner.times(block, width), lane)
            results = list(reductions.start) if is_first else [load(inner, buffer, index) for buffer in buffers]
            for vector in range(vectors_per_chunk):
                step = inner.plus(inner.plus(first_step, vector * width), lane)
                results = reductions.combined(inner, results, reductions.terms(inner, block, step))
            for result, buffer in zip(results, buffers, strict=True):
                self.elements.store(inner, result, buffer, [index])

        build.parallel(0, width, lambda inner, lane: combine_chunk(inner, 0, lane, is_first=True))

        def combine_later_chunk(inner: Builder, index: Index) -> None:
            """Emit the partial results of all lanes for a chunk after the first; `index` 0 is the second chunk."""
            first_step = inner.times(inner.plus(index, 1), vectors_per_chunk * width)
            inner.parallel(0, width, lambda b, lane: combine_chunk(b, first_step, lane, is_first=False))

        emit_loop(build, end=vector_count // vectors_per_chunk - 1, step=1, body=combine_later_chunk)
