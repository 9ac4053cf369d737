"""The kernel of a contraction: the tile of a workgroup, its blocks, and the results computed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.transpose_blocks import SIDE, turn
from pydispatch.compiler.kernels.matmul.cpu.block_products import BlockProducts, Place
from pydispatch.compiler.kernels.matmul.cpu.corrections import Corrections
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output
from pydispatch.compiler.kernels.matmul.cpu.pack import Packing, across, narrowed, widened
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, counts, sizes_of
from pydispatch.compiler.kernels.matmul.cpu.sides import Side, Sides
from pydispatch.compiler.kernels.matmul.cpu.tiles import Tiles, ceil
from pydispatch.compiler.kernels.matmul.results import column_values, starts_at_zero
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type, zero_attribute
from pydispatch.ir.dialects.pyd.tile_registers import ReleaseTilesOp, configure_tiles


class Writer:
    """Emitter of the kernel of one plan. a: the rows of A if they are in a buffer already, else None."""

    def __init__(
        self, frame: Frame, build: Builder, plan: Plan, outputs: Sequence[Output], a: Side | None = None
    ) -> None:
        self.frame, self.build, self.plan, self.outputs, self.given_a = frame, build, plan, outputs, a
        self.e, self.c = frame.elements, plan.c
        self.t: Tiles = plan.schedule
        self.sizes = sizes_of(plan, loop_sizes(self.e, self.c.generic))
        self.low: dict[int, Index] = {}
        self.valid: dict[int, Index] = {}
        self.batch: Index | None = None
        self.in_tail = False
        self.blocks = BlockProducts(self)

    # The tile

    def run(self, number: SSAValue) -> None:
        """Emit the code of workgroup `number`."""
        build, c, t = self.build, self.c, self.t
        grid = counts(self.plan, build, self.sizes)
        group = build.bounded(number, build.product(grid))
        *outer, self.batch, row, column = build.split(group, grid)
        self._open(dict(zip((d for d in c.outer if d not in self.plan.batched), outer, strict=True)))
        self._tile(build, c.m, row, t.mt, t.mr)
        self._tile(build, c.n, column, t.nt, t.nr)
        self._compute(build)

    def run_rows(self, outer: dict[int, Index], low: Index, valid: Index) -> None:
        """Emit the code of `valid` rows from `low` on, with all columns. outer: indices of the outer dimensions."""
        c, t = self.c, self.t
        self._open(outer)
        if c.m is not None:
            self.low[c.m], self.valid[c.m] = low, valid

        def columns(builder: Builder, j: Index) -> None:
            self._tile(builder, c.n, j, t.nt, t.nr)
            self._compute(builder)

        self.loop(self.build, 1 if c.n is None else self.build.ceil_quotient(self.sizes[c.n], t.nt), 1, columns)

    def _open(self, outer: dict[int, Index]) -> None:
        self.low = dict.fromkeys(range(len(self.sizes)), 0)
        self.valid = dict.fromkeys(range(len(self.sizes)), 1)
        self.low.update(outer)
        self.valid.update((d, self.sizes[d]) for d in self.plan.inside)

    def _tile(self, build: Builder, dim: int | None, number: Index, tile: int, block: int) -> None:
        """Set where a tile of rows or columns begins and how much of it exists."""
        if dim is None:
            return
        size = self.sizes[dim]
        exact = isinstance(size, int) and size % tile == 0
        low = build.times(number, tile)
        if self.plan.fills(dim, size, block) and not exact:
            low = build.least(low, build.minus(size, block))
        self.low[dim] = low
        self.valid[dim] = tile if exact else build.least(tile, build.minus(size, low))

    def _compute(self, build: Builder) -> None:
        """Emit the computation of the tile that `low` and `valid` describe."""
        if steps := self.plan.arithmetic.matrix_steps:
            build.add(configure_tiles(self.t.mr, self.t.nr, steps))
        self._tile_of_sums(build)
        if steps:
            build.add(ReleaseTilesOp())

    def _tile_of_sums(self, build: Builder) -> None:
        c, t = self.c, self.t
        self.sides = Sides(self.frame, self.plan)
        self.a = self.given_a or self.sides.a(build)
        self.b = self.sides.b(build)
        if self.plan.single:
            self.valid[c.k] = self.sizes[c.k]
            sums = self.e.fresh(self.plan.sums, max(t.mr, self._turned_height()) * t.nr)
            self._pack_b(build)
            self._each_of_batch(build, lambda b: self._sums_in_registers(b, sums))
            return
        self._several(build)

    def _each_of_batch(self, build: Builder, body: Callable[[Builder], None]) -> None:
        """`body` at each index of the workgroup's batch of outer dimensions, once where it has none."""
        dims = self.plan.batched
        if self.batch is None or not dims:
            body(build)
            return
        sizes = [self.sizes[d] for d in dims]
        count, every = self.plan.schedule.batch, build.product(sizes)
        first = build.times(self.batch, count)

        def one(builder: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
            self.low.update(zip(dims, builder.split(number, sizes), strict=True))
            body(builder)
            return []

        build.loop(first, build.least(build.plus(first, count), every), [], one, limit=every)

    def _sums_in_registers(self, build: Builder, sums: SSAValue) -> None:
        """Emit a tile with the whole of K in one pass, so that sums stay in registers. B must be packed already."""
        corrections = Corrections(self, build)
        self._pack_a(build)
        corrections.add(build)
        self._blocks(build, lambda b, place: self._whole_block(b, place, sums, corrections), finishing=True)

    def _several(self, build: Builder) -> None:
        """Emit a tile whose sums are in memory, because K or another reduction is cut into chunks."""
        c, t = self.c, self.t
        sums = self.e.fresh(self.plan.sums, t.mt * t.nt + max(0, self._turned_height() - t.mr) * t.nr)
        corrections = Corrections(self, build)

        def number(builder: Builder, place: Place) -> Index:
            return builder.times(builder.plus(builder.times(place.block[1], t.mt // t.mr), place.block[0]), t.mr * t.nr)

        self._blocks(build, lambda b, place: self._start(b, place, sums, number(b, place)))

        def level(builder: Builder, rest: Sequence[int]) -> None:
            if rest:

                def around(inner: Builder, i: Index) -> None:
                    self.low[rest[0]] = i
                    level(inner, rest[1:])

                self.loop(builder, self.sizes[rest[0]], 1, around)
                return

            def part(inner: Builder, k: Index) -> None:
                self.low[c.k] = k
                size = self.sizes[c.k]
                whole = isinstance(size, int) and size % t.kc == 0
                self.valid[c.k] = t.kc if whole else inner.least(t.kc, inner.minus(size, k))
                self._pack_b(inner)
                self._pack_a(inner)
                corrections.add(inner)
                self._blocks(inner, lambda bb, place: self._multiply(bb, place, sums, number(bb, place), True))

            self.loop(builder, self.sizes[c.k], t.kc, part)

        level(build, self.plan.around)

        def finish(builder: Builder, place: Place) -> None:
            self._finish(builder, place, sums, number(builder, place), corrections)

        self._blocks(build, finish, finishing=True)

    @staticmethod
    def loop(build: Builder, high: Index, step: int, body: Callable[[Builder, Index], object]) -> None:
        def inside(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            body(inner, index)
            return []

        build.loop(0, high, [], inside, step)

    # Operands

    def _pack_b(self, build: Builder) -> None:
        if not self.plan.b_in_place:
            Packing(self, self.b).run(build)

    def _pack_a(self, build: Builder) -> None:
        if not self.plan.a_in_place and self.given_a is None:
            Packing(self, self.a).run(build)

    def starts(self, build: Builder, dim: int | None, number: Index, block: int) -> Index:
        """Return the first index of a block in the tile; the last block moves back over its neighbour where there is
        one.
        """
        if dim is None:
            return 0
        start, valid, size = build.times(number, block), self.valid[dim], self.sizes[dim]
        if isinstance(valid, int) and valid % block == 0:
            return start
        if self.plan.fills(dim, size, block):
            return build.least(start, build.minus(valid, block))
        return start

    def left(self, build: Builder, dim: int | None, start: Index, block: int) -> Index:
        """Return how many rows or columns of a block exist."""
        if dim is None:
            return 1
        size = self.sizes[dim]
        if dim == self.c.n and self.in_tail:
            return self.plan.tail
        if self.plan.fills(dim, size, block) or isinstance(size, int):
            return min(block, size) if isinstance(size, int) else block
        return build.least(block, build.minus(self.valid[dim], start))

    # Blocks

    def _blocks(self, build: Builder, body: Callable[[Builder, Place], None], finishing: bool = False) -> None:
        """`body` for each register block of the tile: panels of B outside, so that each stays in the first cache.
        finishing: results are computed from the blocks."""
        c, t = self.c, self.t
        columns: Index = 1 if c.n is None else build.ceil_quotient(self.valid[c.n], t.nr)
        rows = 1 if c.m is None else build.ceil_quotient(self.valid[c.m], t.mr)
        if c.n is not None and self.plan.tail:
            columns = build.quotient(self.valid[c.n], t.nr)

        of_columns = column_values(self.frame.source, c) if finishing else []

        def across(outer: Builder, j: Index) -> None:
            for value in of_columns:
                self._keep_columns(outer, value, self.starts(outer, c.n, j, t.nr))

            def down(inner: Builder, i: Index) -> None:
                fence = Builder(inner.block, inner.source, inner, guarded=True)
                place = Place((i, j), self.starts(fence, c.m, i, t.mr), self.starts(fence, c.n, j, t.nr))
                body(fence, place)

            self.loop(outer, rows, 1, down)
            for value in of_columns:
                self.e.forget(value)

        self.loop(build, columns, 1, across)
        if c.n is not None and self.plan.tail:

            def last(inner: Builder) -> None:
                self.in_tail = True
                across(inner, columns)
                self.in_tail = False

            build.when(build.less(build.times(columns, t.nr), self.valid[c.n]), last)

    def _keep_columns(self, build: Builder, value: SSAValue, start: Index) -> None:
        """Compute the elements of `value` for the columns of a panel, which all rows of the tile read."""
        assert self.c.n is not None
        first = build.plus(self.low[self.c.n], start)
        buffer = self.e.fresh(tensor_type(value).element_type, self.t.nr)

        def element(builder: Builder, j: Index) -> None:
            self.e.store(builder, self.e.at(builder, value, [builder.plus(first, j)]), buffer, [j])

        build.parallel(0, self.left(build, self.c.n, start, self.t.nr), element, limit=self.t.nr)
        self.e.materialize(value, buffer, lambda b, indices: [b.minus(indices[0], first)])

    def _whole_block(self, build: Builder, place: Place, block: SSAValue, corrections: Corrections) -> None:
        fresh = self._starts_at_zero() and not self.blocks.loops()
        if not fresh:
            self._start(build, place, block, 0)
        self._multiply(build, place, block, 0, not fresh)
        self._finish(build, place, block, 0, corrections)

    def _multiply(self, build: Builder, place: Place, block: SSAValue, offset: Index, accumulate: bool) -> None:
        self.blocks.multiply(build, (self.a, self.b), place, (self.t.mr, self.t.nr), (block, offset), accumulate)

    # What comes before and after

    def _starts_at_zero(self) -> bool:
        return starts_at_zero(self.c.generic.outputs[0])

    def _point(self, build: Builder, place: Place, i: Index, j: Index) -> list[Index]:
        """Return indices of the contraction's result at an element of a block."""
        c = self.c
        where = dict(self.low)
        if c.m is not None:
            where[c.m] = build.plus(build.plus(self.low[c.m], place.row), i)
        if c.n is not None:
            where[c.n] = build.plus(build.plus(self.low[c.n], place.column), j)
        return evaluate(build, c.generic.output_maps[0], [where[d] for d in range(len(self.sizes))])

    def _each(
        self, build: Builder, place: Place, body: Callable[[Builder, Index, Index], None], by_columns: bool = False
    ) -> None:  # fmt: skip
        """`body` for every element of a block that exists, row by row or column by column."""
        rows = self.left(build, self.c.m, place.row, self.t.mr)
        columns = self.left(build, self.c.n, place.column, self.t.nr)
        if by_columns:
            across(build, columns, rows, self.t.mr, lambda b, j, i: body(b, i, j))
        else:
            across(build, rows, columns, self.t.nr, body)

    def _start(self, build: Builder, place: Place, block: SSAValue, offset: Index) -> None:
        """Emit stores of the initial values of the sums of a block."""
        t, sums = self.t, self.plan.sums
        edges = (self.c.m, place.row, t.mr), (self.c.n, place.column, t.nr)
        if self._starts_at_zero() or any(self.left(build, *edge) != edge[2] for edge in edges):  # see `Packing`
            zero = build.add(arith.ConstantOp(zero_attribute(sums)))
            build.parallel(0, t.mr * t.nr, lambda b, i: self.e.store(b, zero, block, [b.plus(offset, i)]))
        if self._starts_at_zero():
            return

        def element(builder: Builder, i: Index, j: Index) -> None:
            value = self.e.at(builder, self.c.generic.outputs[0], self._point(builder, place, i, j))
            self.e.store(builder, widened(builder, value, sums), block, [self._in_block(builder, offset, i, j)])

        self._each(build, place, element)

    def _in_block(self, build: Builder, offset: Index, i: Index, j: Index) -> Index:
        return build.plus(offset, build.plus(build.times(i, self.t.nr), j))

    def _finish(self, build: Builder, place: Place, block: SSAValue, offset: Index, corrections: Corrections) -> None:
        """Compute the results of the dispatch from a block and stores them."""
        result = self.c.op.results[0]
        height = self._turned_height()
        turned = self.e.fresh(self.plan.sums, self.t.nr * height) if height else block
        if height:
            turn(build, (block, offset, self.t.nr), (turned, 0, height), height, self.t.nr)

        def element(builder: Builder, i: Index, j: Index) -> None:
            point = self._point(builder, place, i, j)
            at = builder.plus(builder.times(j, height), i) if height else self._in_block(builder, offset, i, j)
            total = builder.add(memref.LoadOp.get(turned, [builder.value(at)]))
            total = corrections.applied(builder, total, place.block, i, j)
            builder.remember((result, tuple(point)), narrowed(builder, total, self.c.acc))
            for output in self.outputs:
                places = [point[d] for d in output.dims]
                output.store(builder, self.e.at(builder, output.value, places), places)

        self._each(build, place, element, bool(height))

    def _turned_height(self) -> int:
        """Return the number of rows of a block that is turned in registers, because its rows are neighbours in all
        results; they are filled up to whole squares. 0 where it stays as it is.
        """
        t, results = self.t, self.c.generic.output_maps[0].results
        along = [output.dims and results[output.dims[-1]] == AffineDimExpr(self.c.m or 0) for output in self.outputs]
        side = min(SIDE, 1 << (t.mr - 1).bit_length())
        if self.c.m is None or self.plan.rows_of_k or t.mr < 4 or t.nr % side or not all(along):
            return 0
        return ceil(t.mr, side) * side
