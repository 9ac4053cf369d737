"""Products of the register blocks of a tile: the memrefs of their operands, and `pyd.contract` on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Nest, Region, Span
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.prefetch import PrefetchOp

MAX_PREFETCH_DISTANCE_BYTES = 128 << 10
"""Maximum number of bytes that a product reads of a page while it prefetches the next page. Lines that are prefetched
further ahead leave the L2 cache before they are used: 4 heads of 128 in pages of 1,024 took 298 us with prefetches and
244 without (AMD EPYC Zen 4, one worker)."""


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
class BlockSums:
    """The sums of a register block in memory, row-major from the element `offset` of `buffer` on."""

    buffer: SSAValue
    offset: Index

    def element(self, build: Builder, i: Index, j: Index, width: int) -> Index:
        """Return the index in `buffer` of the sum in row `i` and column `j` of a block of `width` columns."""
        return build.plus(self.offset, build.plus(build.times(i, width), j))


@dataclass(frozen=True)
class Products:
    """Emitter of the products of register blocks: the blocks of a tile's sums that fit into vector registers.

    The emitter of a tile creates one for each kernel, and calls `emit` wherever the loop nest multiplies a block.

    Attributes:
        nest: The loop nest of the kernel.
        a, b: The factors as the blocks read them: in the memory of an argument, or in a packed copy.
    """

    nest: Nest
    a: OperandView
    b: OperandView

    def reduced_dims(self, build: Builder, region: Region) -> ReducedDims:
        """Return how the product of a block runs over the reduced dimensions; `region` has the extent of K.

        The steps of K are one dimension. A reduction, another reduced dimension, that continues K in the memory of both
        operands is merged with K, for one longer loop. The other reductions are dimensions of `pyd.contract`, or loops
        around it if vectors are along K.

        Example:
            A convolution by 3 x 3 filters over an image [row, column, channel] that is read in place. K is the 64
            channels. The other reduced dimensions are the 3 rows and the 3 columns of a filter. The channels of the
            next column are 64 steps further in both operands. So `k_steps` is 64 * 3 = 192, and `contract_dims` has the
            rows.
        """
        plan, k = self.nest.plan, self.nest.plan.contraction.k
        k_steps = region.extent(k)
        dims_left = list(plan.inner_reductions)
        # The elements of another dimension follow those of K only if the region has all of K, as it has if sums stay in
        # registers. They do not if K is stored in groups of steps, since zeros may fill up its last group.
        if plan.group == 1 and isinstance(k_steps, int) and plan.sums_in_registers:
            while (dim := self._dim_continuing_k(build, dims_left, k_steps)) is not None:
                size = self.nest.sizes[dim]
                assert isinstance(size, int)
                k_steps *= size
                dims_left.remove(dim)
        dims = tuple(d for d in dims_left if self.nest.sizes[d] != 1)
        if plan.vectorizes_k:  # a product with vectors along K has one reduced dimension
            return ReducedDims(k_steps, loop_dims=dims, contract_dims=())
        return ReducedDims(k_steps, loop_dims=(), contract_dims=dims)

    def _dim_continuing_k(self, build: Builder, reductions: Sequence[int], count: int) -> int | None:
        """Return one of `reductions` whose neighbours are `count` steps of K apart in memory, in both operands.

        `count` is the size of K, so that this dimension and K are one longer dimension. Return None if there is none.
        Inner dimensions, the last ones, are tried first.
        """
        k = self.nest.plan.contraction.k
        for dim in reversed(reductions):
            operands = (self.a, self.b)
            if all(o.stride(build, dim) == build.times(o.stride(build, k), count) for o in operands):
                return dim
        return None

    def emit(self, build: Builder, region: Region, block: Block, sums: BlockSums, accumulate: bool) -> None:
        """Emit the product of the rows of A and the columns of B of one register block.

        Args:
            build: Emits the operations.
            region: The tile, and the current range of each reduction.
            block: The block.
            sums: The sums of the block in memory.
            accumulate: Whether the product is added to the sums; otherwise it overwrites them.
        """
        schedule = self.nest.plan.schedule
        self._prefetch_page(build, region, block)
        factors, shape = (self.a, self.b), (schedule.mr, schedule.nr)
        self.emit_factors(build, region, factors, block, shape, sums, accumulate)

    def _prefetch_page(self, build: Builder, region: Region, block: Block) -> None:
        """Emit the prefetch of the elements of the next page of B at the position of this block; nothing without one.

        Pages are blocks of rows of B that are anywhere in memory, and that a table selects. The CPU's prefetchers do
        not find the next page. Rows are along K or along N. Pages of more than `MAX_PREFETCH_DISTANCE_BYTES` are not
        prefetched.

        Example:
            With pages of 256 rows along K, and chunks of 64 steps, a block that reads the steps 0 to 63 prefetches the
            steps 256 to 319 of its columns. With pages of 16 rows along N, a block that reads the columns 8 to 15
            prefetches the columns 24 to 31, at the same steps of K.
        """
        plan, contraction = self.nest.plan, self.nest.plan.contraction
        if plan.pages is None or contraction.n is None:
            return
        # Each index of `row_dim`, K or N, is a row of a page. The other one, `contiguous_dim`, is along the rows.
        (row_dim,) = contraction.b.coordinates[plan.pages.axis].dims
        steps, columns = region.extent(contraction.k), plan.schedule.nr
        if not isinstance(steps, int):  # a prefetched block has static sizes
            return
        if row_dim == contraction.n:
            shape, contiguous_dim = [columns, steps], contraction.k
        else:
            shape, contiguous_dim = [steps, columns], contraction.n
        if not self._pays_prefetching_pages(plan.pages.rows, self.nest.sizes[contiguous_dim]):
            return
        first_of_next_page = build.plus(region.first(row_dim), plan.pages.rows)
        next_page = region.with_span(row_dim, Span(first_of_next_page, region.extent(row_dim)))
        # The first row that the block reads, counted from the first row of the region. A block has all of the region's
        # steps of K, but not all of its columns.
        first_row = block.column if row_dim == contraction.n else 0
        indices = {contraction.n: block.column}

        def prefetch(inner: Builder) -> None:
            """Emit the prefetch of the elements of B at the block's `indices` in `next_page`, in number `shape`."""
            offset = self._offset(inner, next_page, self.b, indices, panel_dim=None)
            strides = [self.b.stride(inner, row_dim), self.b.stride(inner, contiguous_dim)]
            inner.add(PrefetchOp(operands=[view_as(inner, self.b.buffer, offset, shape, strides)]))

        has_next = build.less(build.plus(first_of_next_page, first_row), self.nest.end(row_dim))
        build.when(has_next, prefetch)

    def _pays_prefetching_pages(self, rows: int, elements_of_row: Index) -> bool:
        """Return whether the next page is prefetched: pages have a known size of up to `MAX_PREFETCH_DISTANCE_BYTES`.

        Args:
            rows: Rows of a page.
            elements_of_row: Elements of a row.
        """
        problem = self.nest.plan.problem
        if not isinstance(elements_of_row, int):
            return False
        element_bytes = problem.b.element_bytes or problem.sum_bytes  # 0: as a packed element
        return rows * elements_of_row * element_bytes <= MAX_PREFETCH_DISTANCE_BYTES

    def emit_factors(
        self,
        build: Builder,
        region: Region,
        factors: tuple[OperandView, OperandView],
        block: Block,
        shape: tuple[int, int],
        sums: BlockSums,
        accumulate: bool = True,
    ) -> None:
        """Emit the product of rows of one operand and columns of another, as `pyd.contract` in the necessary loops.

        A block of 14 x 32 sums of f32 over 64 steps of K is one operation:

            pyd.contract %a, %b, %sums accumulate : memref<14x64xf32 …>, memref<64x32xf32 …>, memref<14x32xf32 …>

        If vectors are along K, other reductions are loops around it (`ReducedDims.loop_dims`).

        Args:
            build: Emits the operations.
            region: The tile, and the current range of each reduction.
            factors: The operand with the rows, and the one with the columns: A and B, or a matrix of ones in place of
                one of them. The product by ones is the sum of the other factor (`FactorSums`).
            block: The block, which locates the product: both have the same first row and first column.
            shape: Rows and columns of the product.
            sums: The sums in memory.
            accumulate: Whether the product is added to the sums; otherwise it replaces them.
        """
        contraction, (height, width) = self.nest.plan.contraction, shape
        reduced, (factor_a, factor_b) = self.reduced_dims(build, region), factors
        properties = self._properties(factors, accumulate)

        def emit_loops(build: Builder, dims: Sequence[int], indices: Mapping[int, Index]) -> None:
            """Emit loops over `dims`, and in the innermost one the product of `height` rows and `width` columns.

            `indices` maps the dimensions of the enclosing loops to their indices.
            """
            if dims:
                dim, *inner_dims = dims
                emit_loop(
                    build,
                    self.nest.sizes[dim],
                    step=1,
                    body=lambda inner, i: emit_loops(inner, inner_dims, {**indices, dim: i}),
                )
                return
            indices_of_a = indices if contraction.m is None else {**indices, contraction.m: block.row}
            left = self._memref_a(build, region, factor_a, indices_of_a, height, reduced)
            indices_of_b = indices if contraction.n is None else {**indices, contraction.n: block.column}
            right = self._memref_b(build, region, factor_b, indices_of_b, width, reduced, block)
            result = view_as(build, sums.buffer, sums.offset, [height, width], [width, 1])
            build.add(ContractOp(operands=[left, right, result], properties=properties))

        emit_loops(build, reduced.loop_dims, indices={})

    def _properties(self, factors: tuple[OperandView, OperandView], accumulate: bool) -> dict[str, Attribute]:
        """Return the properties of `pyd.contract` on two operands: accumulation, unsigned bytes, prefetching.

        {accumulate, unsigned_a, prefetch = 4096, into_l2} adds products of unsigned and signed bytes to the sums, and
        prefetches the rows of B that are 4,096 bytes ahead into the second-level cache.
        """
        plan, arithmetic = self.nest.plan, self.nest.plan.arithmetic
        unsigned_a, unsigned_b = arithmetic.unsigned_a, arithmetic.unsigned_b
        # With matrix registers, A and B may have the same sign. But products by ones (`FactorSums`) are computed in
        # vector registers, whose instructions multiply unsigned by signed bytes only. A byte of 1 is the same number
        # signed and unsigned: ones get the opposite sign of the other factor. If A and B are signed, the flags of the
        # product of A and ones are (False, True).
        if arithmetic.matrix_steps and unsigned_a == unsigned_b:
            unsigned_a ^= factors[0].is_ones
            unsigned_b ^= factors[1].is_ones
        flags = {"accumulate": accumulate, "unsigned_a": unsigned_a, "unsigned_b": unsigned_b}
        properties: dict[str, Attribute] = {name: UnitAttr() for name, value in flags.items() if value}
        if plan.prefetch_bytes:
            properties["prefetch"] = IntegerAttr(plan.prefetch_bytes, i64)
            # Rows of B that are not in panels are far apart: in the L1 cache they would share a few sets and evict each
            # other before they are read.
            if plan.panels is None:
                properties["into_l2"] = UnitAttr()
        return properties

    def _memref_a(
        self,
        build: Builder,
        region: Region,
        view: OperandView,
        indices: Mapping[int, Index],
        rows: int,
        reduced: ReducedDims,
    ) -> SSAValue:
        """Return rows of an operand from `indices` on as a memref of [rows, `reduced.contract_dims` ..., steps of K].

        `indices` maps dimensions to indices in the tile; the index of a dimension without an entry is 0.
        """
        offset = self._offset(build, region, view, indices, panel_dim=None)  # only B is in panels
        return self._memref(build, region, view, offset, rows, reduced, is_b=False)

    def _memref_b(
        self,
        build: Builder,
        region: Region,
        view: OperandView,
        indices: Mapping[int, Index],
        columns: int,
        reduced: ReducedDims,
        block: Block,
    ) -> SSAValue:
        """Return the columns of an operand as a memref of [`reduced.contract_dims` ..., steps of K, columns].

        Args:
            build: Emits the arithmetic of the offset.
            region: The tile.
            view: The operand: B, or ones in its place.
            indices: Dimension of the contraction -> first index to read, counted from the tile's; 0 for all others.
            columns: Number of columns.
            reduced: The reduced dimensions of the memref.
            block: The block. If columns are stored in panels, the position of the block locates them, not `indices`.
        """
        in_panels = view.panel_stride is not None
        panel_dim = self.nest.plan.contraction.n if in_panels else None
        offset = self._offset(build, region, view, indices, panel_dim)
        if in_panels:  # the offset of the block's columns, which `_offset` has left out
            offset = build.plus(offset, self._offset_in_panels(build, region, view, block))
        return self._memref(build, region, view, offset, columns, reduced, is_b=True)

    def _offset(
        self, build: Builder, region: Region, view: OperandView, indices: Mapping[int, Index], panel_dim: int | None
    ) -> Index:
        """Return the offset of a block's first element in the memory of an operand, in elements.

        Example:
            A coordinate 2 * d0 + d3 + 1 of an argument has the index 2 * (first(d0) + i0) + first(d3) + i3 + 1, where
            first(d) is the first index of the tile and i0, i3 are `indices`. In a packed copy it is 2 * i0 + i3.

        Args:
            build: Emits the arithmetic.
            region: The tile. An argument is addressed from its beginning, so that the tile's first indices and the
                constants of coordinates are added; a packed copy begins with the tile.
            view: The operand.
            indices: Dimension -> index, counted from the tile's first index; 0 for dimensions without an entry.
            panel_dim: Dimension that is left out: N if B is in panels, since the caller adds the offset of the columns
                in the panels. None for no dimension.
        """
        positions: list[Index] = []
        for coordinate in view.factor.coordinates:
            position: Index = coordinate.constant if view.uses_tensor_indices else 0
            for dim, coefficient in coordinate.terms:
                if dim == panel_dim:
                    continue
                index = indices.get(dim, 0)
                if view.uses_tensor_indices:
                    index = build.plus(region.first(dim), index)
                position = build.plus(position, build.times(index, coefficient))
            positions.append(position)
        return view.offset(build, positions)

    def _offset_in_panels(self, build: Builder, region: Region, view: OperandView, block: Block) -> Index:
        """Return the offset of a block's columns in the panels of B, in elements.

        A packed copy has only the columns of the tile, and each panel is a register block. An argument has panels of
        all columns of B, which may be wider than a register block.
        """
        plan = self.nest.plan
        assert view.panel_stride is not None and plan.contraction.n is not None
        if plan.panels is None:  # packed panels are as wide as a register block
            return build.times(block.column_index, view.panel_stride)
        column, layout = build.plus(region.first(plan.contraction.n), block.column), plan.panels.layout
        panel = build.times(build.quotient(column, layout.width), view.panel_stride)
        column_in_panel = build.remainder(column, layout.width)
        # Each column has `group` adjacent elements, steps of K, before those of the next column.
        return build.plus(panel, build.times(column_in_panel, layout.group))

    def _memref(
        self,
        build: Builder,
        region: Region,
        view: OperandView,
        offset: Index,
        extent: int,
        reduced: ReducedDims,
        is_b: bool,
    ) -> SSAValue:
        """Return the memref of an operand from the element `offset` on, for `pyd.contract`.

        `extent` is the number of rows of A or, if `is_b`, of columns of B. If an instruction multiplies groups of g
        adjacent indices of K, A is [rows, ..., K / g, g], and B is [..., K / g, columns, g].

        Example:
            B in panels of 32 columns, in groups of 4 steps, with 64 steps of K, is a memref<16x32x4xi8> with the
            strides [128, 4, 1]. Its `view` has the strides 32 along K and 1 along N, as if there were no groups.
        """
        plan = self.nest.plan
        contraction, group = plan.contraction, plan.group
        k_extent = reduced.k_steps  # in steps, or in groups of them
        extent_stride = view.stride(build, contraction.n if is_b else contraction.m)
        k_stride = view.stride(build, contraction.k)
        if group > 1:
            # The strides of a view are for single steps, as if there were no groups. Neighbouring groups are `group`
            # times as far apart, and so are neighbouring columns of B, each of which has the steps of a group.
            k_stride = build.times(k_stride, group)
            k_extent = build.ceil_quotient(region.extent(contraction.k), group)
            extent_stride = build.times(extent_stride, group) if is_b else extent_stride
        # The reduced dimensions, then rows before them or columns after them, then the steps of a group.
        shape: list[Index] = [*(self.nest.sizes[d] for d in reduced.contract_dims), k_extent]
        strides: list[Index] = [*(view.stride(build, d) for d in reduced.contract_dims), k_stride]
        position = len(shape) if is_b else 0
        shape.insert(position, extent)
        strides.insert(position, extent_stride)
        if group > 1:
            shape, strides = [*shape, group], [*strides, 1]
        return view_as(build, view.buffer, offset, shape, strides)


def emit_loop(build: Builder, end: Index, step: int, body: Callable[[Builder, Index], None]) -> None:
    """Emit a sequential loop over 0, `step`, 2 * `step`, ... below `end` that carries no values."""

    def iteration(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit one iteration, which carries no values."""
        body(inner, index)
        return []

    build.loop(0, end, [], iteration, step)
