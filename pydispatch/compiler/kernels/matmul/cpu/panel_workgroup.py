"""Workgroups of products by block-quantized weights in panels: rows of A times some panels, in chunks of K.

The sums of a workgroup are f32 in workgroup memory, [panel][row][column]. Subclasses emit the products of a panel.
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
        conversion: Emits the copy of this workgroup's rows of A into workgroup memory.
        totals: Buffer of the sums over all of K that is done so far, [row][column] for each panel.
    """

    frame: Frame
    match: BlockQuantized
    sizes: BlockSizes
    outputs: Sequence[Output]
    conversion: RowConversion
    totals: SSAValue

    @abstractmethod
    def _convert_rows(self, build: Builder, first_block: Index) -> None:
        """Emit the copy of the rows of A, for the chunk of K whose first block is `first_block`."""

    @abstractmethod
    def _multiply(self, build: Builder, panel: Index, first_block: Index, first_total: Index) -> None:
        """Emit the products of all rows with a chunk of a panel, which are added to the totals.

        Args:
            build: Receives the code.
            panel: The panel.
            first_block: The first block of K of the chunk.
            first_total: Index of the panel's first sum in the totals.
        """

    def emit(self, build: Builder, panel_group: Index) -> None:
        """Emit the sums of the panels in the group with the index `panel_group`, and the results computed from them.

        A panel is some adjacent columns of the weights, a chunk the steps of K for which rows of A are copied to
        workgroup memory at a time. If K has several chunks, the loop over them is the outer one, so that a chunk of A
        is copied once for all panels; each panel has a buffer for its sums. If K is a single chunk, each panel is
        finished before the next one begins, and all panels use the same memory for their sums.
        """
        panels = self._panels_of_group(build, panel_group)
        if self._has_one_chunk:
            self._convert_rows(build, 0)

            def emit_panel(inner: Builder, panel: Index, total: Index) -> None:
                """Emit the sums and results of a panel; `total` is the index of its first sum."""
                self._clear(inner, total)
                self._multiply(inner, panel, 0, total)
                self._finish(inner, panel, total)

            self._for_each_panel(build, panels, emit_panel)
            return

        def emit_chunk(inner: Builder, block: Index) -> None:
            """Emit the products of the chunk from `block` on."""
            pinned = inner.without_load_motion()  # each chunk overwrites the copy of the rows of A
            self._convert_rows(pinned, block)
            self._for_each_panel(pinned, panels, lambda b, panel, total: self._multiply(b, panel, block, total))

        self._for_each_panel(build, panels, lambda b, _, total: self._clear(b, total))
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
        return first, end if self.match.panels % self.sizes.panels == 0 else build.least(end, self.match.panels)

    def _for_each_panel(
        self, build: Builder, panels: tuple[Index, Index], body: Callable[[Builder, Index, Index], None]
    ) -> None:
        """Emit a loop over panels, from the first one of `panels` up to its exclusive end.

        A panel is some adjacent columns of the weights. The totals are the sums over K of the workgroup's rows and the
        columns of its panels, in memory. `body` emits the code for a panel, from a builder, the panel, and the index of
        its first sum in the totals.
        """
        first, end = panels

        def iteration(inner: Builder, panel: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit `body` for one panel."""
            # If K is one chunk, all panels use the same memory for their totals.
            panel_of_workgroup = 0 if self._has_one_chunk else inner.minus(panel, first)
            first_total = inner.times(panel_of_workgroup, self.sizes.padded_rows * self.match.width)
            # Each panel clears the buffer of totals, and reads it at its end: no load of it may be hoisted.
            body(inner.without_load_motion(), panel, first_total)
            return []

        build.loop(first, end, [], iteration, index_below=self.match.panels)

    def _clear(self, build: Builder, first_total: Index) -> None:
        """Emit the stores of 0 to the sums of a panel."""
        zero, store = f32_constant(build, 0.0), self.frame.elements.store
        count = self.sizes.padded_rows * self.match.width
        build.parallel(0, count, lambda b, i: store(b, zero, self.totals, [b.plus(first_total, i)]))

    def weights(self, build: Builder, panel: Index, block: Index, column: Index, columns: int) -> SSAValue:
        """Emit a view of the weights of some columns of a panel in one block of K, and return it.

        The view is [group][column][step of the group]; a group is the steps whose weights share four bytes.

        column, columns: first column in the panel, and number of columns.
        """
        match = self.match
        group = WORD_BYTES * 8 // match.bits  # steps of K whose weights share four bytes
        buffer = self.frame.buffers[self.frame.tensors.index(match.argument)]
        block_of_weights = build.plus(build.times(panel, match.blocks), block)
        start = build.plus(
            build.times(block_of_weights, match.width * match.steps_per_block), build.times(column, group)
        )
        return view_as(build, buffer, start, [match.groups, columns, group], [match.width * group, group, 1])

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
        """Emit the results of the dispatch for a panel: the elements that depend on its sums, and their stores.

        `define` makes a sum the element of the product from which elements of the results, such as relu(sum), are
        computed. Results are indexed by dimensions of the product's result (`Output.dims`), such as [1, 0].

        Args:
            build: Receives the code.
            panel: The panel.
            first_total: Index of the panel's first sum in the totals, which are [row][column].
        """
        match, contraction, elements = self.match, self.match.contraction, self.frame.elements
        generic, conversion = contraction.generic, self.conversion

        def element(build: Builder, i: Index, j: Index) -> None:
            """Store the results at row `i` of the workgroup and column `j` of the panel."""
            loops: list[Index] = [0] * len(generic.iterators)
            # Indices of the contraction's loops. Those of reduced loops stay 0: the result does not depend on them.
            loops[match.panel_loop], loops[match.column_loop] = panel, j
            row_of_a = build.plus(i, conversion.first_row)
            for dim, index in zip(
                match.row_loops, build.split(row_of_a, [generic.extent(d) for d in match.row_loops]), strict=True
            ):
                loops[dim] = index
            indices = evaluate(build, generic.output_maps[0], loops)
            initial = elements.at(build, generic.outputs[0], indices)  # the value that the program adds the sum to
            total = load(build, self.totals, build.plus(first_total, build.plus(build.times(i, match.width), j)))
            elements.define(build, contraction.op.results[0], indices, build.add(arith.AddfOp(total, initial)))
            for output in self.outputs:
                output_indices = [indices[d] for d in output.dims]
                output.store(build, elements.at(build, output.value, output_indices), output_indices)

        rows: Index = self.sizes.rows
        if conversion.end_row % self.sizes.rows:  # of all rows of A: the last workgroup has fewer
            rows = build.least(rows, build.minus(conversion.end_row, conversion.first_row))
        build.parallel(0, rows, lambda b, i: b.parallel(0, match.width, lambda inner, j: element(inner, i, j)))
