"""A contraction with all that is fused around it → kernel IR for a GPU.

A workgroup computes a tile of C. Tiles of A and B go through workgroup memory, some steps at a time; while one is
multiplied, the invocations fetch their parts of the next. Sums stay in the invocations' own memory, which becomes
registers, until the results of the dispatch are computed from them. Whatever makes A and B is computed on the way into
the tile. The order of sums depends on the shape and the variant alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, StridedLayoutAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.gpu.lower import finish
from pydispatch.compiler.kernels.loops.lower import packed
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.gpu.load import PRIVATE, Staging, fitted, state_alignment, storage
from pydispatch.compiler.kernels.matmul.gpu.plan import Plan, few, grid, groups, joined, plans_of, tile_of
from pydispatch.compiler.kernels.matmul.results import starts_at_zero
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, opposite
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.mma import LANES, MmaOp, RematerializeOp, lane_layout, run_of


def lower_contraction_gpu(source: func.FuncOp, backend: Backend, generation: int) -> Kernel | None:
    """Return the kernel of a dispatch function that is one contraction with elementwise code around it, else None.

    generation: see `Backend.mma_generation`.
    """
    found = contraction_in(source)
    if found is None:
        return None
    c, results = found
    frame = Frame(source, backend)
    if any(argument >= 0 for argument in frame.updated) or any(packed(value) > 1 for value in frame.returned):
        return None
    plans = plans_of(c, frame.elements, generation)
    if not plans:
        return None
    frame.bind()
    number, few_rows = frame.workgroup(), len(plans) > 1
    if not few_rows:
        Writer(frame, frame.build, plans[0], results).run(number)
    else:
        low = few(plans[0], frame.build, loop_sizes(frame.elements, c.generic))
        frame.build.when(low, lambda b: Writer(frame, b, plans[1], results).run(number))
        frame.build.when(opposite(frame.build, low), lambda b: Writer(frame, b, plans[0], results).run(number))
    kernel = finish(frame, lambda e, build: grid(plans, build, loop_sizes(e, c.generic)))
    kernel.function.attributes["pyd.invocations"] = IntegerAttr(plans[0].tile.invocations, 64)
    together = plans[0].tile.together  # two plans take a few registers more
    kernel.function.attributes["pyd.groups_per_core"] = IntegerAttr(min(together, 3) if few_rows else together, 64)
    return kernel


class Writer:
    """Emitter of the kernel of one plan."""

    def __init__(self, frame: Frame, build: Builder, plan: Plan, results: list[list[int]]) -> None:
        self.frame, self.plan, self.results = frame, plan, results
        self.e, self.c, self.tile, self.build = frame.elements, plan.c, plan.tile, build
        self.sizes = loop_sizes(self.e, plan.c.generic)
        self.a = Staging(self.e, plan, plan.a, plan.tile.height, True)
        self.b = Staging(self.e, plan, plan.b, plan.tile.width, False)
        self.sums = storage(self.e.entry, plan.sums, plan.tile.slots, PRIVATE)
        run = run_of(bit_width(plan.sums) or 64)
        self.layout = lane_layout(plan.form, plan.tile.rows, plan.tile.columns, run)

    def run(self, number: SSAValue) -> None:
        """Emit the code of workgroup `number`."""
        build, plan = self.build, self.plan
        self.number = build.bounded(number, groups(plan, build, self.sizes))
        self._locate(build, self.number)
        iterations = build.ceil_quotient(joined(build, self.sizes, plan.steps), self.tile.depth)
        self._invocations(build, self._start)
        if iterations == 0:
            self._invocations(build, self._finish)
            return
        build.when(build.less(0, iterations), lambda b: self._invocations(b, lambda i, at: self._take(i, at, 0)))

        def iteration(builder: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            self._invocations(builder, self._put)
            following = builder.plus(index, 1)

            def prefetch(inner: Builder) -> None:
                if isinstance(following, SSAValue):
                    inner.bounded(following, iterations)
                self._invocations(inner, lambda i, at: self._take(i, at, following))

            builder.when(builder.less(following, iterations), prefetch)
            self._invocations(builder, self._multiply)
            return []

        build.loop(0, iterations, [], iteration)
        self._invocations(build, self._finish)

    def _locate(self, build: Builder, number: SSAValue) -> None:
        """Set the place of the tile of a workgroup."""
        batch, row, column = tile_of(self.plan, build, number, self.sizes)
        self.at: dict[int, Index] = dict.fromkeys(range(len(self.sizes)), 0)
        self.at.update(zip(self.plan.outer, batch, strict=True))
        self.low = (row, column)

    def _invocations(self, build: Builder, body: Callable[[Builder, Index], None]) -> None:
        """Emit a parallel loop that runs `body` in every invocation of the workgroup."""
        build.parallel(0, self.tile.invocations, body, limit=self.tile.invocations)

    # An iteration over the depth of the tile

    def _take(self, build: Builder, invocation: Index, iteration: Index) -> None:
        self.a.take(build, invocation, self.low[0], iteration, self.at, self.sizes)
        self.b.take(build, invocation, self.low[1], iteration, self.at, self.sizes)

    def _put(self, build: Builder, invocation: Index) -> None:
        self.a.put(build, invocation)
        self.b.put(build, invocation)

    def _multiply(self, build: Builder, invocation: Index) -> None:
        tile = self.tile
        lane, row, column = self._block(build, invocation)
        left = _view(build, self.a, self.a.place(build, row, 0), [tile.rows, tile.depth], self.a.strides)
        right = _view(build, self.b, self.b.place(build, column, 0), [tile.depth, tile.columns], self.b.strides[::-1])
        form = StringAttr(self.plan.form)
        build.add(MmaOp(operands=[build.value(lane), left, right, self.sums], properties={"form": form}))

    def _block(self, build: Builder, invocation: Index) -> tuple[Index, Index, Index]:
        """(lane, first row and column in the tile) of an invocation's block."""
        tile = self.tile
        lane, block = build.remainder(invocation, LANES), build.quotient(invocation, LANES)
        across = tile.width // tile.columns
        row = build.times(build.quotient(block, across), tile.rows)
        return lane, row, build.times(build.remainder(block, across), tile.columns)

    # What comes before and after

    def _start(self, build: Builder, invocation: Index) -> None:
        """Emit stores of the initial values of the sums of an invocation."""
        fence = Builder(build.block, build.source, build, guarded=True)
        if starts_at_zero(self.c.generic.outputs[0]):
            zero = fence.add(arith.ConstantOp(zero_attribute(self.plan.sums)))
            for slot in range(self.tile.slots):
                fence.add(memref.StoreOp.get(zero, self.sums, [fence.index(slot)]))
            return
        for slot, (_, where) in enumerate(self._places(fence, invocation)):
            value = self.e.at(fence, self.c.generic.outputs[0], where)
            fence.add(memref.StoreOp.get(fitted(fence, value, self.plan.sums), self.sums, [fence.index(slot)]))

    def _finish(self, build: Builder, invocation: Index) -> None:
        """Compute the results of the dispatch from the sums and stores them."""
        fence = Builder(build.block, build.source, build, guarded=True)
        result = self.c.op.results[0]
        same = fence.add(RematerializeOp(operands=[build.value(invocation)], result_types=[IndexType()]))
        invocation = fence.bounded(same, self.tile.invocations)
        number = fence.add(RematerializeOp(operands=[self.number], result_types=[IndexType()]))
        self._locate(fence, fence.bounded(number, groups(self.plan, fence, self.sizes)))
        places = list(self._places(fence, invocation))
        for slot, (_, where) in enumerate(places):
            total = fence.add(memref.LoadOp.get(self.sums, [fence.index(slot)]))
            fence.remember((result, tuple(where)), fitted(fence, total, self.c.acc))
        found = [[self.e.at(fence, value, [where[d] for d in dims]) for _, where in places]
                 for value, dims in zip(self.frame.returned, self.results, strict=True)]  # fmt: skip
        slot = 0
        while slot < len(places):
            inside = places[slot][0]
            last = slot
            while last < len(places) and places[last][0] is inside:
                last += 1
            part = range(slot, last)
            fence.when(inside, lambda b, part=part: self._store(b, found, places, part))  # type: ignore[misc]
            slot = last

    def _store(
        self, build: Builder, found: Sequence[Sequence[SSAValue]],
        places: Sequence[tuple[SSAValue | bool, list[Index]]], slots: Sequence[int],
    ) -> None:  # fmt: skip
        for values, dims, buffer in zip(found, self.results, self.frame.results, strict=True):
            run = self._run_of(dims)
            for slot in slots:
                where = [build.value(places[slot][1][d]) for d in dims]
                store = memref.StoreOp.get(values[slot], buffer, where)
                if run > 1 and self.layout.columns[slot] % run == 0:
                    state_alignment(store, run * max(8, bit_width(values[slot].type) or 64) // 8)
                build.add(store)

    def _run_of(self, dims: Sequence[int]) -> int:
        """Return how many neighbours of a result an invocation has, from a multiple of their number on."""
        n, run = self.c.n, self.layout.right
        size = self.sizes[n] if n is not None else None
        last = self.c.generic.output_maps[0].results[dims[-1]] if dims else None
        fits = isinstance(last, AffineDimExpr) and last.position == n and isinstance(size, int) and size % run == 0
        return run if fits else 1

    def _places(self, build: Builder, invocation: Index) -> list[tuple[SSAValue | bool, list[Index]]]:
        """(whether it exists, indices of the contraction's result or of an element beside it) of each slot."""
        plan, tile, layout = self.plan, self.tile, self.layout
        lane, row, column = self._block(build, invocation)
        row = build.plus(row, build.times(build.quotient(lane, layout.across), layout.down))
        column = build.plus(column, build.times(build.remainder(lane, layout.across), layout.right))
        rows, columns = (joined(build, self.sizes, side.dims) for side in (plan.a, plan.b))
        down = _Axis(build, row, self.low[0], tile.height, rows, 1)
        right = _Axis(build, column, self.low[1], tile.width, columns, layout.right)
        found = []
        both: dict[tuple[int, int], SSAValue | bool] = {}
        for r, k in zip(layout.rows, layout.columns, strict=True):
            here, y = down.at(r)
            there, x = right.at(k)
            key = (id(here), id(there))
            if key not in both:
                both[key] = _and(build, here, there)
            where = dict(self.at)
            where.update(zip(plan.a.dims, build.split(y, [self.sizes[d] for d in plan.a.dims]), strict=True))
            where.update(zip(plan.b.dims, build.split(x, [self.sizes[d] for d in plan.b.dims]), strict=True))
            point = [where[d] for d in range(len(self.sizes))]
            found.append((both[key], evaluate(build, self.c.generic.output_maps[0], point)))
        return found


class _Axis:
    """The rows or columns of an invocation's slots. run: neighbours that exist together or not at all where the
    size is a multiple of them."""

    def __init__(self, build: Builder, own: Index, tile: Index, extent: int, size: Index, run: int) -> None:
        self.build, self.size = build, size
        self.run = run if isinstance(size, int) and size % run == 0 else 1
        self.whole = isinstance(size, int) and size % extent == 0
        self.first = build.plus(build.times(tile, extent), own)
        self.known: dict[int, tuple[SSAValue | bool, Index]] = {}

    def at(self, offset: int) -> tuple[SSAValue | bool, Index]:
        """(whether it exists, the index or the last one)."""
        build, start = self.build, offset // self.run * self.run
        if self.whole:
            return True, build.plus(self.first, offset)
        if start not in self.known:
            index = build.plus(self.first, start)
            inside = build.less(index, build.minus(self.size, self.run - 1))
            self.known[start] = inside, build.least(index, build.minus(self.size, self.run))
        inside, index = self.known[start]
        return inside, build.plus(index, offset - start)


def _and(build: Builder, lhs: SSAValue | bool, rhs: SSAValue | bool) -> SSAValue | bool:
    if isinstance(lhs, bool):
        return rhs if lhs else False
    if isinstance(rhs, bool):
        return lhs if rhs else False
    return build.pure(arith.AndIOp(lhs, rhs))


def _view(build: Builder, side: Staging, offset: Index, shape: Sequence[int], strides: Sequence[int]) -> SSAValue:
    """Return a part of a tile as a matrix."""
    layout = StridedLayoutAttr(list(strides), offset if isinstance(offset, int) else None)
    type_ = MemRefType(side.plan.element, list(shape), layout, IntegerAttr(WORKGROUP, 64))
    return build.add(memref.ReinterpretCastOp.from_dynamic(side.buffer, [offset], list(shape), list(strides), type_))
