"""Reductions of many short blocks of memory at once: each lane of a vector has the result of one block.

The lanes of a block's vectors are first combined to one vector for each block. These partial results are transposed, so
that the rows to combine are vectors over blocks. Reducing the lanes of each block by itself would take about three
times the instructions, and would leave results that scalar instructions must process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import StridedBlock, transpose_block
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements

MOST_VECTORS = 8
"""Maximum number of vectors of a block that are combined by straight code; a longer block has a loop over parts."""


@dataclass(frozen=True)
class Partials:
    """Memory for partial results of the reductions of a group of blocks.

    Attributes:
        width: Partial results of a block: those of the lanes of a vector.
        by_block: Buffers, one for each reduction: [block][partial result].
        by_lane: The same, transposed: [partial result][block].
    """

    width: int
    by_block: tuple[SSAValue, ...]
    by_lane: tuple[SSAValue, ...]

    @staticmethod
    def allocate(elements: Elements, type_: Attribute, count: int, lanes: int, steps: int) -> Partials:
        """Return memory for `count` reductions of `lanes` blocks of `steps` elements each, with results of `type_`."""
        width = gcd(lanes, steps)
        by_block, by_lane = (tuple(elements.fresh(type_, lanes * width) for _ in range(count)) for _ in range(2))
        return Partials(width, by_block, by_lane)


@dataclass(frozen=True)
class LaneReduction:
    """Emitter of reductions of the blocks of a group: for each block, its terms are combined to one value.

    Attributes:
        elements: Tensors of the dispatch function.
        lanes: Number of blocks of a group: the lanes of a vector.
        steps: Number of terms of a block.
        blocks: Number of blocks of this group, at most `lanes`.
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
        start: Sequence[SSAValue],
        combine: Callable[[SSAValue, SSAValue], Operation],
        terms: Callable[[Builder, Index, Index], Sequence[SSAValue]],
        finish: Callable[[Builder, Index, Sequence[SSAValue]], None],
    ) -> None:
        """Emit one or more reductions of each block, and the code that uses their results.

        Example:
            With 16 lanes and blocks of 32 steps, lane j of a block's partial results has the terms of the steps j and
            j + 16. The partial results of 16 blocks are a matrix of 16 x 16, whose transposed rows are added up.

        Args:
            build: Receives the code.
            start: For each reduction, the value that its terms are combined with, any number of times: 0 for a sum.
            combine: Operation on two values, such as `arith.AddiOp`, that may be applied in any order.
            terms: Emits the terms of the reductions from a block of the group and a step of the block.
            finish: Emits the use of the results of a block of the group. It is also called for blocks beyond `blocks`,
                up to `lanes`, with values of no meaning.
        """
        emit_loop(build, self.blocks, 1, lambda inner, block: self._combine_steps(inner, block, start, combine, terms))
        partials, lanes = self.partials, self.lanes
        count = len(start)  # reductions; there may be memory for more
        for by_block, by_lane in zip(partials.by_block[:count], partials.by_lane[:count], strict=True):
            source, target = StridedBlock(by_block, 0, partials.width), StridedBlock(by_lane, 0, lanes)
            transpose_block(build, source, target, lanes, partials.width)

        def finish_block(inner: Builder, block: Index) -> None:
            """Combine the partial results of a block, which are a column of the transposed ones."""
            results = list(start)
            for row in range(partials.width):
                index = inner.plus(block, row * lanes)
                for i in range(len(results)):
                    results[i] = inner.add(combine(results[i], load(inner, partials.by_lane[i], index)))
            finish(inner, block, results)

        build.parallel(0, lanes, finish_block)

    def _combine_steps(
        self,
        build: Builder,
        block: Index,
        start: Sequence[SSAValue],
        combine: Callable[[SSAValue, SSAValue], Operation],
        terms: Callable[[Builder, Index, Index], Sequence[SSAValue]],
    ) -> None:
        """Emit the partial results of a block: for each lane of a vector, its terms are combined.

        A block of more than `MOST_VECTORS` vectors is a loop over parts, whose partial results stay in memory.
        """
        buffers, width = self.partials.by_block[: len(start)], self.partials.width
        vectors = self.steps // width
        part = max(n for n in range(1, MOST_VECTORS + 1) if vectors % n == 0)  # vectors of a part

        def combine_part(inner: Builder, first_step: Index, lane: Index, is_first: bool) -> None:
            """Combine the terms that a lane has in a part of the block, and what it has of earlier parts."""
            index = inner.plus(inner.times(block, width), lane)
            results = list(start) if is_first else [load(inner, buffer, index) for buffer in buffers]
            for vector in range(part):
                step = inner.plus(inner.plus(first_step, vector * width), lane)
                pairs = zip(results, terms(inner, block, step), strict=True)
                results = [inner.add(combine(result, term)) for result, term in pairs]
            for result, buffer in zip(results, buffers, strict=True):
                self.elements.store(inner, result, buffer, [index])

        build.parallel(0, width, lambda inner, lane: combine_part(inner, 0, lane, is_first=True))

        def later_part(inner: Builder, part_index: Index) -> None:
            """Combine the terms of a part after the first."""
            first_step = inner.times(inner.plus(part_index, 1), part * width)
            inner.parallel(0, width, lambda b, lane: combine_part(b, first_step, lane, is_first=False))

        emit_loop(build, vectors // part - 1, 1, later_part)
