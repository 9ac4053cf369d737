"""Workgroups of products by block-quantized weights in panels: rows of A times some panels, in chunks of K.

A panel is some adjacent columns of the weights. A block of K is the adjacent steps whose weights in a column share a
scale; a chunk is some adjacent blocks, for which rows of A are copied to workgroup memory at a time. The totals are the
sums of a workgroup over the steps of K that are done so far, f32 in workgroup memory, [panel][row][column].
`first_total` is the index of a panel's first sum in the totals. Subclasses emit the products of a panel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.block_quantized import WORD_BYTES, BlockQuantized, PerBlock
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output
from pydispatch.compiler.kernels.matmul.cpu.panel_sizes import BlockSizes
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.matmul.cpu.quantized_rows import RowConversion
from pydispatch.compiler.kernels.matmul.cpu.row_digits import f32_constant
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load


@dataclass(frozen=True)
class PanelWorkgroup(ABC):
    """Emitter of a workgroup's code: it multiplies some rows by quantized weights in panels of adjacent columns.

    Workgroups of the same panels follow each other, and share them in a cache.

    Attributes:
        frame: The kernel function, and its inputs and results.
        match: The product.
        sizes: Sizes of the blocks and chunks in which it is computed.
        outputs: The values that are computed from the sums and stored.
        rows_of_a: The range of rows of A that this workgroup multiplies; it emits their copy into workgroup memory.
        totals: Buffer of the sums over the steps of K that are done so far, [row][column] for each panel.
    """

    frame: Frame
    match: BlockQuantized
    sizes: BlockSizes
    outputs: Sequence[Output]
    rows_of_a: RowConversion
    totals: SSAValue

    @abstractmethod
    def _convert_rows(self, build: Builder, first_block: Index) -> None:
        """Emit the copy of the rows of A, for the chunk of K whose first block is `first_block`."""

    @abstractmethod
    def _multiply(self, build: Builder, panel: Index, first_block: Index, first_total: Index) -> None:
        """Emit the products of all rows with the chunk of a panel from `first_block` on, added to the totals."""

    def emit(self, build: Builder, panel_group: Index) -> None:
        """Emit the sums of the panels in the group with the index `panel_group`, and the results computed from them."""
        panels = self._panels_of_group(build, panel_group)
        if self._has_one_chunk:
            self._emit_by_panel(build, panels)
        else:
            self._emit_by_chunk(build, panels)

    def _emit_by_panel(self, build: Builder, panels: tuple[Index, Index]) -> None:
        """Emit the sums and results of one panel after the other, where all of K is a single chunk.

        `panels` is the first panel and the exclusive end. All panels use the same memory for their sums: `first_total`
        is 0.
        """
        self._convert_rows(build, first_block=0)

        def emit_panel(inner: Builder, panel: Index, first_total: Index) -> None:
            """Emit the sums and results of a panel; `first_total` is the index of its first sum in the totals."""
            self._clear(inner, first_total)
            self._multiply(inner, panel, first_block=0, first_total=first_total)
            self._finish(inner, panel, first_total)

        self._for_each_panel(build, panels, emit_panel)

    def _emit_by_chunk(self, build: Builder, panels: tuple[Index, Index]) -> None:
        """Emit the products of all panels with one chunk of K after the other, and then the results.

        `panels` is the first panel and the exclusive end. Each panel has memory of its own for its sums, to which each
        chunk adds. A chunk of the rows of A is copied once for all panels.
        """

        def emit_chunk(inner: Builder, first_block: Index) -> None:
            """Emit the products of all `panels` with the chunk of K whose first block is `first_block`."""
            # Each chunk overwrites the copy of the rows of A: loads from it must stay in the loop over chunks.
            pinned = inner.without_load_motion()
            self._convert_rows(pinned, first_block)
            self._for_each_panel(
                pinned, panels, lambda b, panel, first_total: self._multiply(b, panel, first_block, first_total)
            )

        self._for_each_panel(build, panels, lambda b, _panel, first_total: self._clear(b, first_total))
        emit_loop(build, self.match.blocks, self.sizes.blocks, emit_chunk)
        self._for_each_panel(build, panels, self._finish)

    @property
    def _has_one_chunk(self) -> bool:
        """Whether all of K is one chunk."""
        return self.sizes.blocks == self.match.blocks

    def _panels_of_group(self, build: Builder, panel_group: Index) -> tuple[Index, Index]:
        """Return the first panel of a group, and the exclusive end of its panels; the last group may have fewer."""
        first = build.times(panel_group, self.sizes.panels)
        end = build.plus(first, self.sizes.panels)
        are_groups_full = self.match.panels % self.sizes.panels == 0
        return first, end if are_groups_full else build.least(end, self.match.panels)

    def _for_each_panel(
        self, build: Builder, panels: tuple[Index, Index], body: Callable[[Builder, Index, Index], None]
    ) -> None:
        """Emit a loop over panels, from the first one of `panels` up to its exclusive end.

        `body` emits the code for a panel, from a builder, the panel, and the index of its first sum in the totals.
        """
        first_panel, end = panels

        def iteration(inner: Builder, panel: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit `body` for one panel of the workgroup, from `first_panel` on; no values are carried."""
            # If K is one chunk, all panels use the same memory for their totals; else each has its own, in order.
            buffer_of_panel = 0 if self._has_one_chunk else inner.minus(panel, first_panel)
            totals_of_panel = self.sizes.padded_rows * self.match.width
            first_total = inner.times(buffer_of_panel, totals_of_panel)
            # Panels write the totals and load them again: these loads must not be moved out of the loop.
            body(inner.without_load_motion(), panel, first_total)
            return []

        build.loop(first_panel, end, carried=[], body=iteration, index_below=self.match.panels)

    def _clear(self, build: Builder, first_total: Index) -> None:
        """Emit the stores of 0 to the sums of a panel, whose first one is at `first_total` in the totals."""
        zero, store = f32_constant(build, 0.0), self.frame.elements.store
        count = self.sizes.padded_rows * self.match.width
        build.parallel(0, count, lambda b, i: store(b, zero, self.totals, [b.plus(first_total, i)]))

    def weights(self, build: Builder, panel: Index, block: Index, column: Index, columns: int) -> SSAValue:
        """Emit a view of the weights of some columns of a panel in one block of K, and return it.

        The view is [group][column][step of the group]; a group is the steps whose weights share four bytes. All weights
        are the argument [panel][block][group][column of the panel][step of the group].

        Args:
            build: Receives the code.
            panel, block: The panel, and the block of K.
            column: First column of the view in the panel.
            columns: Number of columns of the view.
        """
        match = self.match
        group_steps = WORD_BYTES * 8 // match.bits
        buffer = self.frame.buffers[self.frame.tensors.index(match.argument)]
        block_of_weights = build.plus(build.times(panel, match.blocks), block)
        weights_per_block = match.width * match.steps_per_block
        start = build.plus(build.times(block_of_weights, weights_per_block), build.times(column, group_steps))
        sizes, strides = [match.groups, columns, group_steps], [match.width * group_steps, group_steps, 1]
        return view_as(build, buffer, start, sizes, strides)

    def _load_parameter(
        self, build: Builder, per_block: PerBlock, panel: Index, block: Index, column: Index
    ) -> SSAValue:
        """Emit the load of a zero point, scale or offset, as f32: the element of `per_block` for a column of a panel,
        and for the block of K if `per_block` has an element for each block.
        """
        index = [panel, block, column] if per_block.has_blocks else [panel, column]
        value = self.frame.elements.at(build, per_block.tensor, index)
        if isinstance(value.type, IntegerType):
            return build.add(arith.SIToFPOp(build.add(arith.ExtUIOp(value, i32)), f32))
        return value if value.type == f32 else build.add(arith.ExtFOp(value, f32))

    def _finish(self, build: Builder, panel: Index, first_total: Index) -> None:
        """Emit the code that computes the results of the dispatch from the sums of a panel, and stores them."""
        rows: Index = self.sizes.rows
        total_rows = self.rows_of_a.end_row  # the number of rows of A
        if total_rows % self.sizes.rows:  # the last workgroup has fewer rows
            rows = build.least(rows, build.minus(total_rows, self.rows_of_a.first_row))

        def finish_row(inner: Builder, row: Index) -> None:
            """Emit the results of the panel in a row, which is counted from the first one of the workgroup."""
            inner.parallel(
                0, self.match.width, lambda b, column: self._finish_element(b, panel, first_total, row, column)
            )

        build.parallel(0, rows, finish_row)

    def _finish_element(self, build: Builder, panel: Index, first_total: Index, row: Index, column: Index) -> None:
        """Emit the results that are computed from one sum, such as relu(sum), and their stores.

        `row` is counted from the first one of the workgroup, and `column` from the first one of the panel.
        """
        contraction, elements = self.match.contraction, self.frame.elements
        indices = self._result_indices(build, panel, row, column)
        initial = elements.at(build, contraction.generic.outputs[0], indices)  # the program adds the sum to this value
        index_of_total = build.plus(build.times(row, self.match.width), column)
        total = load(build, self.totals, build.plus(first_total, index_of_total))
        # Register the element of the contraction's result: `elements.at` computes elements of the outputs from it.
        elements.define(build, contraction.op.results[0], indices, build.add(arith.AddfOp(total, initial)))
        for output in self.outputs:
            # `dims` are the contraction's dimensions in the order of the output's: [1, 0] for a transposed output.
            output_indices = [indices[d] for d in output.dims]
            output.store(build, elements.at(build, output.value, output_indices), output_indices)

    def _result_indices(self, build: Builder, panel: Index, row: Index, column: Index) -> list[Index]:
        """Return the indices of a sum in the contraction's result, for the arguments of `_finish_element`."""
        match, generic = self.match, self.match.contraction.generic
        # Indices of the contraction's loops. Those of reduced loops stay 0: the result does not depend on them.
        loops: list[Index] = [0] * len(generic.iterators)
        loops[match.panel_loop], loops[match.column_loop] = panel, column
        row_of_a = build.plus(row, self.rows_of_a.first_row)
        row_indices = build.split(row_of_a, [generic.extent(d) for d in match.row_loops])
        for dim, index in zip(match.row_loops, row_indices, strict=True):
            loops[dim] = index
        return evaluate(build, generic.output_maps[0], loops)
