"""Packing: copies of a factor's elements in workgroup memory, which the operations fused into the factor compute.

The copy has the order in which register blocks read it: panels of columns for B, rows for A, groups of steps of K where
one instruction multiplies several.

A factor has a coordinate for each axis of its tensor. Loops over the coordinates are emitted one inside of the other:
`outer` are the positions along the leading coordinates, whose loops are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.transpose_blocks import SIDE, StridedBlock, transpose_block
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import unextended
from pydispatch.compiler.kernels.matmul.cpu.in_place import argument_of
from pydispatch.compiler.kernels.matmul.cpu.nest import Nest, Region
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView, view_in_place
from pydispatch.compiler.kernels.matmul.cpu.packed_positions import PaddedPosition, PanelColumn, Position, StepGroup
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.linear import LinearIndex
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.ops.bodies import clone_op, resolve
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import equal, opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import zero_attribute

MIN_TRANSPOSED_SIDE = 4
"""Side of the smallest squares of elements for which a transposition in registers pays."""


@dataclass(frozen=True)
class Packing:
    """Emitter of the code that packs the elements of a factor that a region reads.

    Padding that blocks read beyond the edges is filled with zeros. The sums of padding are never used, but stale
    memory may contain subnormal numbers, which some CPUs multiply a hundred times more slowly.

    Attributes:
        frame: The kernel that is emitted, with its tensors and buffers.
        nest: Its loop nest.
        region: The range of each loop dimension that is packed.
        packed: The packed copy, which is written.
        is_b: Whether the factor is B.
    """

    frame: Frame
    nest: Nest
    region: Region
    packed: OperandView
    is_b: bool

    @property
    def plan(self) -> Plan:
        """Plan of the product."""
        return self.nest.plan

    @property
    def contraction(self) -> Contraction:
        """The product."""
        return self.plan.contraction

    @property
    def factor(self) -> Factor:
        """The factor that is packed."""
        return self.packed.factor

    def emit(self, build: Builder) -> None:
        """Emit the packing of all elements of the region.

        Its loads are neither hoisted before the packing loops nor reused after them.
        """
        self._emit_coordinate_loops(build.without_load_motion(), outer=[])

    def _extent(self, build: Builder, coordinate: LinearIndex) -> Index:
        """Return the length of the range of a coordinate, a linear function of loop indices, in the region.

        Example:
            i + 2 * j, with 5 values of i and 3 of j, has the length 1 + 1 * (5 - 1) + 2 * (3 - 1) = 9.
        """
        total: Index = 1
        for dim, coefficient in coordinate.terms:
            total = build.plus(total, build.times(build.minus(self.region.extent(dim), 1), coefficient))
        return total

    def _emit_coordinate_loops(self, build: Builder, outer: Sequence[Position]) -> None:
        """Emit loops over the coordinates of the factor from `len(outer)` on, around the copy of one element.

        The code for one coordinate calls this method again for the next one, inside of its loop.

        Example:
            A packed A[m, k] has a loop over rows around a loop over steps of K. If the last register block reads rows
            beyond the end of A, a second loop over these rows stores zeros.
        """
        if len(outer) == len(self.factor.coordinates):
            self._copy(build, outer)
            return
        coordinate, n = self.factor.coordinates[len(outer)], self.contraction.n
        has_panels = self.is_b and self.packed.panel_stride is not None
        # The columns of B, where the copy has them in panels of nr adjacent columns.
        if has_panels and n is not None and n in coordinate.dims:
            self._panels(build, outer)  # emits the loops over this coordinate and all later ones
            return
        # The steps of K, where an instruction multiplies groups of them that are adjacent in the copy.
        if self.plan.group > 1 and coordinate.is_identity(self.contraction.k):
            self._groups(build, outer)  # emits the loops over this coordinate and all later ones
            return
        # Any other coordinate: the elements of the factor, then zeros as padding.
        extent = self._extent(build, coordinate)
        build.parallel(0, extent, lambda b, i: self._emit_coordinate_loops(b, [*outer, Position(i)]))
        end = build.plus(extent, self._padding(build, coordinate))
        if end != extent:
            build.parallel(extent, end, lambda b, i: self._emit_coordinate_loops(b, [*outer, PaddedPosition(i)]))

    def _padding(self, build: Builder, coordinate: LinearIndex) -> Index:
        """Return how many values of a coordinate beyond its end the last register block reads; 0 if it reads none.

        Only rows of A and columns of B are divided into register blocks: 0 for any other coordinate.
        """
        contraction, schedule = self.contraction, self.plan.schedule
        dim, block = (contraction.n, schedule.nr) if self.is_b else (contraction.m, schedule.mr)
        if dim is None or dim not in coordinate.dims:
            return 0
        # If the last block overlaps the block before it, it has elements of that block instead of padding. With vectors
        # along K it always does, since blocks have at most M rows and N columns.
        if self.plan.vectorizes_k or self.plan.last_block_overlaps(dim, self.nest.sizes[dim], block):
            return 0
        extent = self.region.extent(dim)
        padded_extent = build.times(build.ceil_quotient(extent, block), block)
        return build.times(build.minus(padded_extent, extent), coordinate.coefficient(dim))

    def _panels(self, build: Builder, outer: Sequence[Position]) -> None:
        """Emit the loop over panels of nr columns of B, and in it the packing of each panel.

        If N is known to have at least nr columns, the last panel begins early enough to be full, and packs some columns
        again, as the last register block does (`Nest.block_start`). Otherwise zeros fill it up.
        """
        n, nr = self.contraction.n, self.plan.schedule.nr
        assert n is not None
        panels = build.ceil_quotient(self.region.extent(n), nr)
        build.parallel(0, panels, lambda inner, panel: self._panel(inner, outer, panel, n))

    def _panel(self, build: Builder, outer: Sequence[Position], panel: Index, n: int) -> None:
        """Emit the packing of the nr columns of panel number `panel`: zeros for those beyond B's edge.

        A full panel whose columns are contiguous along K in an argument is transposed in registers instead of copied
        element by element. `n` is the loop of the contraction over columns.
        """
        nr = self.plan.schedule.nr
        # Counted from the first column of the tile. The last panel may begin before panel * nr, to be full.
        first_column = self.nest.block_start(build, self.region, n, panel, nr)
        count = self.nest.block_extent(build, self.region, n, first_column, nr)  # columns of the panel before B's edge
        first = PanelColumn(index=first_column, panel=panel, column=0, group=self.plan.group)
        if count == nr and self._can_transpose_in_registers(axis_of_n=len(outer)):
            self._transposed_panel(build, outer, first)
            return
        pack_column = partial(self._panel_column, outer, first)
        pack_padding = partial(self._panel_column, outer, replace(first, is_padding=True))
        if isinstance(count, int):
            build.parallel(0, count, pack_column)
            build.parallel(count, nr, pack_padding)
            return
        # The count is known at run time only. A full panel has a loop of its own, whose length is static.
        is_partial = build.less(count, nr)
        build.when(is_partial, lambda b: b.parallel(0, count, pack_column))
        build.when(is_partial, lambda b: b.parallel(count, nr, pack_padding))
        build.when(opposite(build, is_partial), lambda b: b.parallel(0, nr, pack_column))

    def _panel_column(self, outer: Sequence[Position], first: PanelColumn, build: Builder, i: Index) -> None:
        """Emit the packing of column `i` of a panel whose first column is `first`, or of zeros if `first` is padding.

        This is the body of a loop over `i`, inside of those over the positions `outer`.
        """
        column = replace(first, index=build.plus(first.index, i), column=i)
        self._emit_coordinate_loops(build, [*outer, column])

    def _can_transpose_in_registers(self, axis_of_n: int) -> bool:
        """Return whether a panel can be loaded along K and transposed in registers, in whole squares.

        The panel can be transposed if B is a dispatch argument of shape [..., N, K] whose elements have the type of
        packed ones, and steps of K are not grouped.

        axis_of_n: the position in `factor.coordinates` of the coordinate that N indexes.
        """
        coordinates, value = self.factor.coordinates, self.contraction.tensor_of(self.factor)
        is_n_before_k = axis_of_n == len(coordinates) - 2 and coordinates[-1].is_identity(self.contraction.k)
        # Elements are copied unchanged from an argument: nothing is computed or converted.
        has_packed_type = isinstance(value.type, TensorType) and value.type.element_type == self.plan.compute
        is_copy = self.factor.is_element and has_packed_type and argument_of(value) is not None
        is_whole_squares = self.plan.schedule.nr % MIN_TRANSPOSED_SIDE == 0
        return is_n_before_k and is_copy and is_whole_squares and self.plan.group == 1

    def _transposed_panel(self, build: Builder, outer: Sequence[Position], column: PanelColumn) -> None:
        """Emit the packing of a full panel of nr columns from an argument B of shape [..., N, K].

        The copy is [step of K][column], a transposition. It is done in registers for `SIDE` (16) steps of K at a time;
        the remaining steps are copied element by element. Of 40 steps, 0 to 15 and 16 to 31 are transposed, and 32 to
        39 are copied. `column` is the first column of the panel.
        """
        packed, nr = self.packed, self.plan.schedule.nr
        source = view_in_place(self.frame, self.plan, build, self.factor)
        steps = self._extent(build, self.factor.coordinates[-1])
        read_offset, written_offset = self._panel_offsets(build, source, outer, column)  # of step 0 of K
        column_stride, step_stride = source.strides[-2], packed.strides[-1]  # N is the last coordinate but one, K last

        def transpose_steps(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the transposition of SIDE steps of K from `k` on, from columns of `source` to rows of `packed`."""
            columns_of_b = StridedBlock(source.buffer, inner.plus(read_offset, k), stride=column_stride)
            first_written = inner.plus(written_offset, inner.times(k, step_stride))
            steps_of_panel = StridedBlock(packed.buffer, first_written, stride=step_stride)
            transpose_block(inner, source=columns_of_b, target=steps_of_panel, rows=nr, columns=SIDE)
            return []

        transposed_steps = build.times(build.quotient(steps, SIDE), SIDE)
        build.loop(0, transposed_steps, carried=[], body=transpose_steps, step=SIDE)

        def copy_remaining_steps(inner: Builder, i: Index) -> None:
            """Emit the copy of column `i` of the panel, at the steps from `transposed_steps` to `steps`."""
            position = replace(column, index=inner.plus(column.index, i), column=i)
            inner.parallel(transposed_steps, steps, lambda b, k: self._copy(b, [*outer, position, Position(k)]))

        if transposed_steps != steps:
            build.parallel(0, nr, copy_remaining_steps)

    def _panel_offsets(
        self, build: Builder, source: OperandView, outer: Sequence[Position], column: PanelColumn
    ) -> tuple[Index, Index]:
        """Return the offsets of the element at step 0 of a panel's first column: in the argument, and in the copy.

        A panel is nr adjacent columns of B, which the copy stores as [panel][other coordinates ...][column]. `source`
        is B in its argument, where indices count from the beginning of the tensor.
        """
        packed = self.packed
        positions = [*outer, column, Position(0)]  # one for each coordinate; step 0 of K is the last
        read_offset: Index = 0
        written_offset: Index = build.times(column.panel, packed.panel_stride or 0)  # no stride: there is one panel
        for position, packed_stride, coordinate, source_stride in zip(
            positions, packed.strides, self.factor.coordinates, source.strides, strict=True
        ):
            source_index = self._index(build, coordinate, position, step=0)
            read_offset = build.plus(read_offset, build.times(source_index, source_stride))
            # The column has no offset but that of its panel, which is counted already: it is the first of the panel.
            if position is not column:
                written_offset = build.plus(written_offset, build.times(position.index, packed_stride))
        return read_offset, written_offset

    def _groups(self, build: Builder, outer: Sequence[Position]) -> None:
        """Emit the packing of all groups of steps of K; zeros fill up the last one.

        A group is the adjacent steps of K that one instruction multiplies, such as 4 steps of bytes. For 10 steps in
        groups of 4, a loop packs the steps 0 to 7, and code without a loop packs the steps 8 and 9, and two zeros.
        """
        steps, group = self._extent(build, self.factor.coordinates[len(outer)]), self.plan.group
        self._whole_groups(build, outer, steps)
        # The last group, of 1 to group - 1 steps. With a static number of steps, at most one `when` emits code.
        remainder = build.remainder(steps, group)
        for count in range(1, group):
            build.when(equal(build, remainder, count), partial(self._last_group, outer, steps, count))

    def _whole_groups(self, build: Builder, outer: Sequence[Position], steps: Index) -> None:
        """Emit the loop over the whole groups of the `steps` steps of K.

        If the steps of K are the innermost loop, and contiguous in the copy, they are copied as single steps, since
        LLVM vectorizes such a loop. They are not contiguous in panels: there, the groups of all columns of the panel
        are stored before the next group of K.
        """
        position_of_k, group = len(outer), self.plan.group
        is_contiguous = self.packed.strides[position_of_k] == 1
        is_innermost = position_of_k == len(self.factor.coordinates) - 1
        group_count = build.quotient(steps, group)
        if is_contiguous and is_innermost:
            grouped_steps = build.times(group_count, group)
            build.parallel(0, grouped_steps, lambda b, i: self._emit_coordinate_loops(b, [*outer, Position(i)]))
            return

        def pack_group(inner: Builder, i: Index) -> None:
            """Emit the packing of all steps of group `i`."""
            self._emit_coordinate_loops(inner, [*outer, StepGroup(inner.times(i, group), steps_in_k=group)])

        build.parallel(0, group_count, pack_group)

    def _last_group(self, outer: Sequence[Position], steps: Index, count: int, build: Builder) -> None:
        """Emit the packing of the last group of K for the case that `count` of its steps are among the `steps` of K."""
        self._emit_coordinate_loops(build, [*outer, StepGroup(build.minus(steps, count), steps_in_k=count)])

    def _copy(self, build: Builder, positions: Sequence[Position]) -> None:
        """Emit the packing of the element at `positions`, one for each coordinate of the factor.

        If the position along K is a `StepGroup`, the adjacent steps of K that one instruction multiplies, emit the
        packing of the elements of all its steps. Zero is stored for a step beyond the end of K, and at a position that
        is padding.
        """
        packed_type = self.plan.compute
        has_group = any(isinstance(position, StepGroup) for position in positions)
        for step in range(self.plan.group if has_group else 1):
            if all(position.exists(step) for position in positions):  # else it is padding
                value = self._element(build, positions, step)
            else:
                value = build.pure(arith.ConstantOp(zero_attribute(packed_type)))
            offset: Index = 0
            for position, stride in zip(positions, self.packed.strides, strict=True):
                offset = build.plus(offset, position.offset(build, self.packed, stride, step))
            self.frame.elements.store(build, value, self.packed.buffer, [offset])

    def _element(self, build: Builder, positions: Sequence[Position], step: int) -> SSAValue:
        """Emit the load of the factor's element at `positions`, and its conversion to the type of packed elements.

        An offset of packed integers is subtracted: 128 if unsigned bytes are packed as signed ones. `step` is the
        position of the element in its group of steps of K; 0 without groups.
        """
        arithmetic, elements = self.plan.arithmetic, self.frame.elements
        indices = [
            self._index(build, coordinate, position, step)
            for coordinate, position in zip(self.factor.coordinates, positions, strict=True)
        ]
        value = factor_at(elements, build, self.contraction, self.factor, indices)
        offset = arithmetic.b_offset if self.is_b else arithmetic.a_offset
        if offset:
            assert isinstance(value.type, IntegerType)
            constant = build.pure(arith.ConstantOp(IntegerAttr(offset, value.type)))
            value = build.pure(arith.SubiOp(value, constant))
        return converted(build, value, self.plan.compute)

    def _index(self, build: Builder, coordinate: LinearIndex, position: Position, step: int) -> Index:
        """Return the index in the factor's tensor of a position, which is counted from the first index of the tile.

        For the coordinate 2 * i + 1 in a tile that begins at i = 10, position 3 is the index 3 + 1 + 2 * 10.
        If the position is a group of steps of K, `step` selects one of them.
        """
        total = build.plus(position.index_in_tile(build, step), coordinate.constant)
        for dim, coefficient in coordinate.terms:
            total = build.plus(total, build.times(self.region.first(dim), coefficient))
        return total


def factor_at(
    elements: Elements, build: Builder, contraction: Contraction, factor: Factor, indices: Sequence[Index]
) -> SSAValue:
    """Emit the scalar code of a factor at the given indices along its coordinates, and return its value."""
    mapping: dict[SSAValue, SSAValue] = {}
    for ordinal, positions in factor.inputs.items():
        operand = contraction.generic.inputs[ordinal]
        argument = contraction.generic.block.args[ordinal]
        if isinstance(operand.type, TensorType):
            # Each axis of the tensor has the number of one of the factor's coordinates, or a constant index.
            operand_indices = [indices[p] if isinstance(p, int) else p.constant for p in positions]
            mapping[argument] = elements.at(build, operand, operand_indices)
        else:
            mapping[argument] = elements.scalar(operand)
    for op in factor.code:
        clone_op(elements, build, op, mapping, point=[])  # `point` is for `linalg.index`, which no factor contains
    return resolve(elements, mapping, factor.value)


def converted(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return an element in the packed type `to`, which represents all values that the element may have."""
    if value.type == to:
        return value
    if isinstance(to, IntegerType):  # truncation loses nothing: `to` was chosen for the range of the values
        return build.pure(arith.TruncIOp(value, to))
    # A value that is an extension from `to` is replaced by the value before it; a narrower one is extended to `to`.
    return unextended(value, to) or widened(build, value, to)


def widened(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return a float extended to a type of at least its width."""
    return value if value.type == to else build.pure(arith.ExtFOp(value, to))
