"""Memrefs of the operands of a register block's product, in the memory of an argument or of a packed copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Nest, Region
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.ops.builder import Builder, Index


@dataclass(frozen=True)
class ReducedDims:
    """The reduced dimensions of the product of one register block: how `pyd.contract` runs over them.

    Attributes:
        k_steps: Steps of K in one `pyd.contract`. If the elements of another reduced dimension follow those of K in the
            memory of both operands, both are one longer dimension, and `k_steps` is the product of their sizes.
        loop_dims: The remaining reduced dimensions if vectors are along K: they are loops around `pyd.contract`.
        contract_dims: The remaining reduced dimensions otherwise: they are dimensions of `pyd.contract`, so that sums
            stay in registers.
    """

    k_steps: Index
    loop_dims: tuple[int, ...]
    contract_dims: tuple[int, ...]


@dataclass(frozen=True)
class BlockOperand:
    """An operand of the product of a register block, from which memrefs for `pyd.contract` are emitted.

    The methods take `indices`, the index of each loop around the product: dimension of the contraction -> index,
    counted from the first one of the tile; 0 for dimensions without an entry.

    Attributes:
        nest: The loop nest of the kernel.
        region: The tile, and the current range of each reduction.
        block: The register block.
        view: The operand: a factor as register blocks read it, or ones in its place.
        reduced: The reduced dimensions of the product.
    """

    nest: Nest
    region: Region
    block: Block
    view: OperandView
    reduced: ReducedDims

    def rows(self, build: Builder, indices: Mapping[int, Index], count: int) -> SSAValue:
        """Return `count` rows of the block as a memref of [rows, `reduced.contract_dims` ..., steps of K]."""
        m = self.nest.plan.contraction.m
        indices_of_block = indices if m is None else {**indices, m: self.block.row}
        offset = element_offset(build, self.region, self.view, indices_of_block)
        return self._memref(build, offset, count, is_b=False)

    def columns(self, build: Builder, indices: Mapping[int, Index], count: int) -> SSAValue:
        """Return `count` columns of the block as a memref of [`reduced.contract_dims` ..., steps of K, columns]."""
        n = self.nest.plan.contraction.n
        if self.view.panel_stride is not None:  # the block locates the columns in the panels
            offset = element_offset(build, self.region, self.view, indices, omitted_dim=n)
            offset = build.plus(offset, self._offset_in_panels(build, self.view.panel_stride))
        else:
            indices_of_block = indices if n is None else {**indices, n: self.block.column}
            offset = element_offset(build, self.region, self.view, indices_of_block)
        return self._memref(build, offset, count, is_b=True)

    def _offset_in_panels(self, build: Builder, panel_stride: int) -> Index:
        """Return the offset of the block's columns in the panels of B, in elements.

        A packed copy has only the columns of the tile, and each panel is a register block. An argument has panels of
        all columns of B, which may be wider than a register block.
        """
        plan = self.nest.plan
        assert plan.contraction.n is not None
        if plan.panels is None:  # packed panels are as wide as a register block
            return build.times(self.block.column_index, panel_stride)
        layout = plan.panels.layout
        column = build.plus(self.region.first(plan.contraction.n), self.block.column)
        panel = build.times(build.quotient(column, layout.width), panel_stride)
        column_in_panel = build.remainder(column, layout.width)
        # Each column has `group` adjacent elements, steps of K, before those of the next column.
        return build.plus(panel, build.times(column_in_panel, layout.group))

    def _memref(self, build: Builder, offset: Index, count: int, is_b: bool) -> SSAValue:
        """Return the memref of `count` rows of A or, if `is_b`, columns of B, from the element `offset` on.

        If an instruction multiplies groups of g adjacent indices of K, A is [rows, ..., K / g, g], and B is [..., K /
        g, columns, g].

        Example:
            B in panels of 32 columns, in groups of 4 steps, with 64 steps of K, is a memref<16x32x4xi8> with the
            strides [128, 4, 1]. Its `view` has the strides 32 along K and 1 along N, as if there were no groups.
        """
        plan, view = self.nest.plan, self.view
        contraction, group = plan.contraction, plan.group
        k_steps = self.reduced.k_steps  # in steps, or in groups of them
        stride = view.stride(build, contraction.n if is_b else contraction.m)  # from row to row, or column to column
        k_stride = view.stride(build, contraction.k)
        if group > 1:
            # The strides of a view are for single steps, as if there were no groups. Neighbouring groups are `group`
            # times as far apart, and so are neighbouring columns of B, each of which has the steps of a group.
            k_stride = build.times(k_stride, group)
            k_steps = build.ceil_quotient(self.region.extent(contraction.k), group)
            stride = build.times(stride, group) if is_b else stride
        # (size, stride) of each dimension of the memref.
        reduced: list[tuple[Index, Index]] = [
            (self.nest.sizes[d], view.stride(build, d)) for d in self.reduced.contract_dims
        ]
        reduced.append((k_steps, k_stride))
        dims: list[tuple[Index, Index]] = [*reduced, (count, stride)] if is_b else [(count, stride), *reduced]
        if group > 1:
            dims.append((group, 1))
        return view_as(build, view.buffer, offset, [size for size, _ in dims], [step for _, step in dims])


def element_offset(
    build: Builder, region: Region, view: OperandView, indices: Mapping[int, Index], omitted_dim: int | None = None
) -> Index:
    """Return the offset of an element of an operand in its memory, in elements.

    Example:
        A coordinate 2 * d0 + d3 + 1 of an argument has the index 2 * (first(d0) + i0) + first(d3) + i3 + 1, where
        first(d) is the first index of the tile and i0, i3 are `indices`. In a packed copy it is 2 * i0 + i3.

    Args:
        build: Emits the arithmetic.
        region: The tile. An argument is addressed from its beginning, so that the tile's first indices and the
            constants of coordinates are added; a packed copy begins with the tile.
        view: The operand.
        indices: Dimension -> index, counted from the tile's first index; 0 for dimensions without an entry.
        omitted_dim: Dimension that does not count: N if B is in panels, since the caller adds the offset of the columns
            in the panels. None for no dimension.
    """
    positions: list[Index] = []
    for coordinate in view.factor.coordinates:
        position: Index = coordinate.constant if view.uses_tensor_indices else 0
        for dim, coefficient in coordinate.terms:
            if dim == omitted_dim:
                continue
            index = indices.get(dim, 0)
            if view.uses_tensor_indices:
                index = build.plus(region.first(dim), index)
            position = build.plus(position, build.times(index, coefficient))
        positions.append(position)
    return view.offset(build, positions)
