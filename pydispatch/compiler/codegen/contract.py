"""A contraction with all that is fused around it → kernel IR.

A workgroup computes a tile of C in register blocks (`pyd.contract`). What a block reads is packed into workgroup memory
by pulling elements of the factors, so that whatever makes them joins the packing; operands that lie well as they are
are read in place. When a block is done, the results of the dispatch are pulled from it while it is in the cache.

Blocks never hang over an edge of known size: the last one moves back and computes some elements again, with the same
bits. Where sizes are not known, blocks run over what packing left undefined, and only what exists is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StridedLayoutAttr,
    TensorType,
    UnitAttr,
    i16,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.codegen.bodies import clone_op, resolve
from pydispatch.compiler.codegen.builder import Builder, Index
from pydispatch.compiler.codegen.contract_match import Contraction, Factor, contractions, narrow_range
from pydispatch.compiler.codegen.contract_results import positions
from pydispatch.compiler.codegen.contract_tiles import Level, Tiles, choose, level_of
from pydispatch.compiler.codegen.elements import Elements, zero_attribute
from pydispatch.compiler.codegen.frame import Frame, Kernel
from pydispatch.compiler.codegen.generics import loop_sizes
from pydispatch.compiler.targets.cpu_levels import machine_of
from pydispatch.compiler.variants import target_of
from pydispatch.compiler.words import bit_width
from pydispatch.ir import hal
from pydispatch.ir.pyd_contract import ContractOp

ROW_IN_PLACE = 4096
"""Bytes between rows of B up to which it is read in place. Longer ones are a page each."""

CACHE_SETS, CACHE_WAYS = 1024, 16
"""Of a second-level cache. Rows of B at a power of two of bytes share few sets: on large pages, 1024 rows of 4 KiB ran
at 194 GFLOP/s in place and 235 packed. Twice the ways are fine, the rest is prefetched."""

SET_STRIDE = 2048
"""Rows of A that are a multiple of so many bytes apart share few cache sets: more than 8 of them are packed."""

PANEL = 512 << 10
"""Bytes of one panel of B, K steps long, that stay in the cache while the rows of a tile pass."""

BOX = 1 << 20
"""Bytes of a packed operand; reductions that would make it larger run around the packing."""


@dataclass(frozen=True)
class Plan:
    """How one contraction is done. compute: the type of packed elements; sums: of accumulators."""

    c: Contraction
    tiles: Tiles
    compute: Attribute
    sums: Attribute
    pairs: bool
    rows_of_k: bool  # vectors lie along K: B is read in place, by rows that are contiguous in K
    a_in_place: bool
    b_in_place: bool
    inside: tuple[int, ...]  # reductions within packed operands
    around: tuple[int, ...]  # reductions around the packing
    single: bool  # one packing per tile: sums stay in registers from the first to the last product
    sizes: tuple[int | None, ...]


def lower_contraction(source: func.FuncOp, target: hal.ExecutableTargetAttr) -> Kernel | None:
    """The kernel of a dispatch function that is one contraction with elementwise code around it, else None."""
    if target.backend.data != "llvm-cpu":
        return None
    found = contraction_in(source)
    if found is None:
        return None
    c, results = found
    frame = Frame(source, target.backend.data)
    if any(tie >= 0 for tie in frame.ties):
        return None
    plan = plan_of(c, frame.elements, level_of(machine_of(target_of(target))))
    if plan is None:
        return None
    frame.bind()
    Writer(frame, plan, results).run()
    return frame.finish(lambda e, build: build.product(_counts(plan, build, loop_sizes(e, c.generic))))


def contraction_in(source: func.FuncOp) -> tuple[Contraction, list[list[int]]] | None:
    """The contraction of a dispatch function, and for each result the dimensions of the contraction's result that its
    own are. None when there is not exactly one, or something else in the function reduces."""
    operations = list(source.body.block.ops)
    found = contractions(operations)
    if len(found) != 1:
        return None
    c = found[0]
    for op in operations:
        if op is not c.op and op.name == "linalg.generic" and "reduction" in str(op.properties["iterator_types"]):
            return None
    last = source.body.block.last_op
    assert last is not None
    results = [positions(value, c.op.results[0]) for value in last.operands]
    known = [r for r in results if r is not None]
    return (c, known) if known and len(known) == len(results) else None


def plan_of(c: Contraction, e: Elements, level: Level) -> Plan | None:
    """Chooses types, tiles and what is read in place. None for element types that have no block."""
    types = _types(c)
    if types is None:
        return None
    compute, sums, pairs = types
    sizes = tuple(s if isinstance(s, int) else None for s in loop_sizes(e, c.generic))
    m = 1 if c.m is None else sizes[c.m]
    n = 1 if c.n is None else sizes[c.n]
    k = sizes[c.k]
    plain = compute == c.acc == sums and not pairs
    b_here = plain and _in_place(c.b, c, compute)
    a_here = plain and _in_place(c.a, c, compute)
    rows_of_k = (
        b_here and c.b.is_last(c.k) and c.a.is_last(c.k) and m is not None and m <= 4 and n is not None
        and not c.b.is_last(c.n)
    )  # fmt: skip
    outer = prod(sizes[d] or 1 for d in c.outer)
    known = [d for d in c.reductions if sizes[d] is not None]
    reductions = prod(sizes[d] or 1 for d in known)
    size = (bit_width(sums) or 64) // 8
    tiles = choose(level, size, m, n, k, outer, reductions)
    if rows_of_k:
        assert m is not None and n is not None
        nr = max(1, min(n, 8 // max(1, m)))
        per_group = max(1, min(n, (1 << 16) // max(1, k or 1024))) if outer * n > 1 else 1
        tiles = Tiles(max(1, m), nr, max(1, m), max(nr, per_group // nr * nr), tiles.kc)
    elif b_here:
        b_here = c.b.is_last(c.n) and n is not None and m is not None and (
            m <= 4 * tiles.mr or n * size <= ROW_IN_PLACE and _spread(n * size, k or 1024))  # fmt: skip
        if b_here and n is not None and n < tiles.nr:
            tiles = choose(level, size, m, n, k, outer, reductions, padded=False)
    if not b_here:
        tiles = choose(level, size, m, n, k, outer, reductions, packed=True)
    a_here = a_here and m is not None and m >= tiles.mr and (tiles.mr <= 8 or not _crowded(c, size))
    kc = tiles.kc
    if a_here and b_here and k is not None and (k * tiles.nr * size <= PANEL or (m or 0) <= tiles.mr):
        kc = max(1, k)
    inside, around = list(known), [d for d in c.reductions if sizes[d] is None]
    if not (a_here and b_here):
        extents = _extents(c, tiles, kc, sizes, inside)
        while inside and size * max(_volume(c.a, extents), _volume(c.b, extents)) > BOX:
            around.append(inside.pop(0))
            extents = _extents(c, tiles, kc, sizes, inside)
    single = not around and k is not None and kc >= k
    tiles = Tiles(tiles.mr, tiles.nr, tiles.mt, tiles.nt, kc + kc % 2 if pairs else kc)
    return Plan(c, tiles, compute, sums, pairs, rows_of_k, a_here, b_here, tuple(inside), tuple(around), single, sizes)


def _types(c: Contraction) -> tuple[Attribute, Attribute, bool] | None:
    """(type of packed elements, type of sums, whether i16 pairs do)."""
    if isinstance(c.acc, Float16Type | BFloat16Type):
        return Float32Type(), Float32Type(), False
    if isinstance(c.acc, Float32Type | Float64Type):
        return c.acc, c.acc, False
    if not isinstance(c.acc, IntegerType) or c.acc.width.data not in (8, 16, 32, 64):
        return None
    if c.acc == i32:
        ranges = [narrow_range(c, factor) for factor in (c.a, c.b)]
        short = all(r is not None and r[0] >= -(1 << 15) and r[1] < 1 << 15 for r in ranges)
        plain = all(any(f.coordinates[p].is_plain(c.k) for p in f.where(c.k)) for f in (c.a, c.b))
        if short and plain and c.n is not None and c.b.coordinates[c.b.where(c.n)[0]].is_plain(c.n):
            return i16, i32, True
    return c.acc, c.acc, False


def argument_of(value: SSAValue) -> BlockArgument | None:
    """The argument that a value is, through ops that only state sizes."""
    while isinstance(value, OpResult) and value.op.name in ("flow.dispatch.tie_shape", "tensor.cast"):
        value = value.op.operands[0]
    return value if isinstance(value, BlockArgument) else None


def _in_place(factor: Factor, c: Contraction, compute: Attribute) -> bool:
    """Whether a factor is an element of an argument and nothing else."""
    value = c.generic.inputs[factor.main]
    return (
        factor.direct and isinstance(value.type, TensorType) and value.type.element_type == compute
        and argument_of(value) is not None
    )  # fmt: skip


def _spread(stride: int, rows: int) -> bool:
    """Whether rows so many bytes apart fit the sets of the cache that they fall into."""
    return stride % 64 != 0 or rows <= 2 * CACHE_WAYS * CACHE_SETS // gcd(stride // 64, CACHE_SETS)


def _crowded(c: Contraction, size: int) -> bool:
    """Whether rows of A, read in place, fall into few cache sets."""
    type_ = c.generic.inputs[c.a.main].type
    assert isinstance(type_, TensorType)
    at = c.a.where(c.m)[0] if c.m is not None else 0
    stride = prod(type_.get_shape()[at + 1 :]) * size
    return stride > 0 and stride % SET_STRIDE == 0


Extents = dict[int, int]


def _extents(c: Contraction, tiles: Tiles, kc: int, sizes: Sequence[int | None], inside: Sequence[int]) -> Extents:
    """How far each dimension runs inside a packed operand."""
    extents = dict.fromkeys(range(len(sizes)), 1)
    extents.update({d: max(1, sizes[d] or 1) for d in inside})
    extents[c.k] = kc
    for dim, tile in ((c.m, tiles.mt), (c.n, tiles.nt)):
        if dim is not None:
            extents[dim] = tile
    return extents


def _volume(factor: Factor, extents: Extents) -> int:
    return prod(sum(a * (extents[d] - 1) for d, a in c.terms) + 1 for c in factor.coordinates)


def _counts(plan: Plan, build: Builder, sizes: Sequence[Index]) -> list[Index]:
    """The grid: outer dimensions, then tiles of rows and columns."""
    c, tiles = plan.c, plan.tiles
    rows = 1 if c.m is None else build.ceil_quotient(sizes[c.m], tiles.mt)
    columns = 1 if c.n is None else build.ceil_quotient(sizes[c.n], tiles.nt)
    return [*(sizes[d] for d in c.outer), rows, columns]


@dataclass
class Side:
    """A factor as the blocks read it: a buffer, elements between neighbours of each coordinate, and for panels of B
    what is between them. absolute: coordinates count from the tensor's beginning, not from the tile's."""

    factor: Factor
    buffer: SSAValue
    strides: list[Index]
    absolute: bool
    panel: int | None = None
    valid: dict[int, Index] = field(default_factory=dict)

    def stride(self, build: Builder, dim: int | None) -> Index:
        """Elements between neighbours of a dimension."""
        total: Index = 0
        for coordinate, stride in zip(self.factor.coordinates, self.strides, strict=True):
            if dim is not None and coordinate.of(dim):
                total = build.plus(total, build.times(stride, coordinate.of(dim)))
        return total


class Writer:
    """Writes the kernel of one plan."""

    def __init__(self, frame: Frame, plan: Plan, results: list[list[int]]) -> None:
        self.frame, self.plan, self.results = frame, plan, results
        self.e, self.c, self.t = frame.elements, plan.c, plan.tiles
        self.sizes = loop_sizes(self.e, self.c.generic)
        self.low: dict[int, Index] = {}
        self.valid: dict[int, Index] = {}

    # The tile

    def run(self) -> None:
        build, c, t = self.frame.build, self.c, self.t
        counts = _counts(self.plan, build, self.sizes)
        group = build.bounded(self.frame.workgroup(), build.product(counts))
        *outer, row, column = build.split(group, counts)
        self.low = dict.fromkeys(range(len(self.sizes)), 0)
        self.valid = dict.fromkeys(range(len(self.sizes)), 1)
        self.low.update(zip(c.outer, outer, strict=True))
        self.valid.update((d, self.sizes[d]) for d in self.plan.inside)
        for dim, tile, block, number in ((c.m, t.mt, t.mr, row), (c.n, t.nt, t.nr, column)):
            if dim is None:
                continue
            size = self.sizes[dim]
            low = build.times(number, tile)
            if isinstance(size, int) and size >= block and size % tile:
                low = build.least(low, size - block)
            self.low[dim] = low
            exact = isinstance(size, int) and size % tile == 0
            self.valid[dim] = tile if exact else build.least(tile, build.minus(size, low))
        self.extents = _extents(c, t, t.kc, self.plan.sizes, self.plan.inside)
        self.a, self.b = self._side(build, c.a, self.plan.a_in_place), self._side(build, c.b, self.plan.b_in_place)
        if self.plan.single:
            self.valid[c.k] = self.sizes[c.k]
            self._pack(build)
            block = self.e.fresh(self.plan.sums, t.mr * t.nr)
            self._blocks(build, lambda b, place: self._whole_block(b, place, block))
            return
        self._several(build)

    def _several(self, build: Builder) -> None:
        """Sums of the whole tile in memory, because K or another reduction comes in parts."""
        c, t = self.c, self.t
        sums = self.e.fresh(self.plan.sums, t.mt * t.nt)

        def number(b: Builder, place: Place) -> Index:
            return b.times(b.plus(b.times(place.block[1], t.mt // t.mr), place.block[0]), t.mr * t.nr)

        self._blocks(build, lambda b, place: self._start(b, place, sums, number(b, place)))

        def level(b: Builder, rest: Sequence[int]) -> None:
            if rest:
                self._loop(b, self.sizes[rest[0]], 1, lambda inner, i: (self.low.update({rest[0]: i}), level(inner, rest[1:])))
                return

            def part(inner: Builder, k: Index) -> None:
                self.low[c.k] = k
                self.valid[c.k] = inner.least(t.kc, inner.minus(self.sizes[c.k], k))
                self._pack(inner)
                self._blocks(inner, lambda bb, place: self._multiply(bb, place, sums, number(bb, place), True))

            self._loop(b, self.sizes[c.k], t.kc, part)

        level(build, self.plan.around)
        self._blocks(build, lambda b, place: self._finish(b, place, sums, number(b, place)))

    @staticmethod
    def _loop(build: Builder, high: Index, step: int, body: Callable[[Builder, Index], object]) -> None:
        def inside(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            body(inner, index)
            return []

        build.loop(0, high, [], inside, step)

    # Operands

    def _side(self, build: Builder, factor: Factor, in_place: bool) -> Side:
        value = self.c.generic.inputs[factor.main]
        if in_place:
            argument = argument_of(value)
            assert argument is not None
            buffer = self.frame.buffers[self.frame.tensors.index(argument)]
            dims, strides = self.e.dims(value), [1]
            for size in reversed(dims[1:]):
                strides.insert(0, build.times(strides[0], size))  # type: ignore[arg-type]
            return Side(factor, buffer, list(strides[: len(dims)]), True)
        return self._packed_b(factor) if factor is self.c.b else self._packed_a(factor)

    def _box(self, factor: Factor) -> list[int]:
        return [sum(a * (self.extents[d] - 1) for d, a in c.terms) + 1 for c in factor.coordinates]

    def _packed_a(self, factor: Factor) -> Side:
        """Row-major like the operand; rows of a power of two of bytes would all fall into the same cache sets."""
        box = self._box(factor)
        order = list(range(len(box)))
        if self.plan.pairs or self.plan.rows_of_k:  # K last, and whole pairs
            at = next(p for p in factor.where(self.c.k) if factor.coordinates[p].of(self.c.k) == 1)
            order = [p for p in order if p != at] + [at]
            box[at] += box[at] % 2
        strides: list[Index] = [0] * len(box)
        running = 1
        for position in reversed(order):
            strides[position] = running
            running *= box[position]
            bytes_ = running * (bit_width(self.plan.compute) or 64) // 8
            if position == order[-1] and bytes_ >= 256 and bytes_ % 256 == 0:
                running += 64 * 8 // (bit_width(self.plan.compute) or 64)
        return Side(factor, self.e.fresh(self.plan.compute, max(1, running) + 2), strides, False)

    def _packed_b(self, factor: Factor) -> Side:
        """Panels of nr columns where columns stand alone in a coordinate, else rows like the operand's."""
        box, n, t = self._box(factor), self.c.n, self.t
        if n is None:
            return self._packed_a(factor)
        at = factor.where(n)[0]
        order = [p for p in range(len(box)) if p != at]
        strides: list[Index] = [0] * len(box)
        panel = factor.coordinates[at].is_plain(n)
        running = t.nr if panel else box[at]
        if self.plan.pairs:
            k_at = next(p for p in factor.where(self.c.k))
            order = [p for p in order if p != k_at] + [k_at]
            box[k_at] += box[k_at] % 2
        for position in reversed(order):
            strides[position] = running
            running *= box[position]
        strides[at] = 1
        whole = running * (t.nt // t.nr) if panel else running
        return Side(factor, self.e.fresh(self.plan.compute, max(1, whole)), strides, False, running if panel else None)

    def _pack(self, build: Builder) -> None:
        if not self.plan.b_in_place:
            Packing(self, self.b).run(build)
        if not self.plan.a_in_place:
            Packing(self, self.a).run(build)

    def starts(self, build: Builder, dim: int | None, number: Index, block: int) -> Index:
        """Where a block begins in the tile: the last one moves back over its neighbour where there is one."""
        if dim is None:
            return 0
        start, valid, size = build.times(number, block), self.valid[dim], self.sizes[dim]
        if isinstance(valid, int) and valid % block == 0:
            return start
        if isinstance(size, int) and size >= block:
            return build.least(start, build.minus(valid, block))
        return start

    def left(self, build: Builder, dim: int | None, start: Index, block: int) -> Index:
        """How much of a block exists."""
        if dim is None:
            return 1
        size = self.sizes[dim]
        if isinstance(size, int):
            return min(block, size)
        return build.least(block, build.minus(self.valid[dim], start))

    # Blocks

    def _blocks(self, build: Builder, body: Callable[[Builder, Place], None]) -> None:
        """`body` for each register block of the tile: panels of B outside, so that each stays in the first cache."""
        c, t = self.c, self.t
        columns = 1 if c.n is None else build.ceil_quotient(self.valid[c.n], t.nr)
        rows = 1 if c.m is None else build.ceil_quotient(self.valid[c.m], t.mr)

        def across(outer: Builder, j: Index) -> None:
            def down(inner: Builder, i: Index) -> None:
                fence = Builder(inner.block, inner.source, inner, guarded=True)
                place = Place((i, j), self.starts(fence, c.m, i, t.mr), self.starts(fence, c.n, j, t.nr))
                body(fence, place)

            self._loop(outer, rows, 1, down)

        self._loop(build, columns, 1, across)

    def _whole_block(self, build: Builder, place: Place, block: SSAValue) -> None:
        zero = self._starts_at_zero()
        reductions = self._remaining()[1]
        fresh = zero and all(self.sizes[d] == 1 for d in reductions)
        if not fresh:
            self._start(build, place, block, 0)
        self._multiply(build, place, block, 0, not fresh)
        self._finish(build, place, block, 0)

    def _remaining(self) -> tuple[Index, list[int]]:
        """(steps of K, reductions to loop over): those that continue K in both operands are one with it."""
        build, c = self.frame.build, self.c
        steps: Index = self.valid[c.k]
        rest = list(self.plan.inside)
        if not self.plan.pairs and isinstance(steps, int) and self.plan.single:
            merged = True
            while merged:
                merged = False
                for dim in reversed(rest):
                    size = self.sizes[dim]
                    assert isinstance(size, int)
                    if all(s.stride(build, dim) == build.times(s.stride(build, c.k), steps) for s in (self.a, self.b)):
                        steps, merged = steps * size, True
                        rest.remove(dim)
                        break
        return steps, rest

    def _multiply(self, build: Builder, place: Place, block: SSAValue, offset: Index, accumulate: bool) -> None:
        t = self.t
        steps, rest = self._remaining()

        def level(b: Builder, dims: Sequence[int], at: dict[int, Index]) -> None:
            if dims:
                self._loop(b, self.sizes[dims[0]], 1, lambda inner, i: level(inner, dims[1:], {**at, dims[0]: i}))
                return
            left = self._view(b, self.a, {**at, **self._at(self.c.m, place.row)}, self.c.m, t.mr, self.c.k, steps, None)
            right = self._view(b, self.b, {**at, **self._at(self.c.n, place.column)}, self.c.k, steps, self.c.n, t.nr, place)
            target = _cast(b, block, offset, [t.mr, t.nr], [t.nr, 1])
            properties = {"accumulate": UnitAttr()} if accumulate else {}
            b.add(ContractOp(operands=[left, right, target], properties=dict(properties)))

        level(build, rest, {})

    @staticmethod
    def _at(dim: int | None, start: Index) -> dict[int, Index]:
        return {} if dim is None else {dim: start}

    def _view(
        self, build: Builder, side: Side, at: dict[int, Index], rows: int | None, height: Index, columns: int | None,
        width: Index, place: Place | None,
    ) -> SSAValue:  # fmt: skip
        """An operand of a block as a memref of rows and columns."""
        offset: Index = 0
        panel = side.panel is not None and place is not None
        for coordinate, stride in zip(side.factor.coordinates, side.strides, strict=True):
            where: Index = coordinate.constant if side.absolute else 0
            for dim, times in coordinate.terms:
                if panel and dim == self.c.n:
                    continue
                index = at.get(dim, 0)
                if side.absolute:
                    index = build.plus(self.low[dim], index)
                where = build.plus(where, build.times(index, times))
            offset = build.plus(offset, build.times(where, stride))
        if panel and place is not None and side.panel is not None:
            offset = build.plus(offset, build.times(place.block[1], side.panel))
        strides = [side.stride(build, rows), side.stride(build, columns)]
        shape = [height, width]
        if self.plan.pairs:
            halves = build.quotient(build.plus(self.valid[self.c.k], 1), 2)
            if place is None:
                shape, strides = [height, halves, 2], [strides[0], 2, 1]
            else:
                shape, strides = [halves, width, 2], [build.times(strides[0], 2), 2, 1]
        return _cast(build, side.buffer, offset, shape, strides)

    # What comes before and after

    def _starts_at_zero(self) -> bool:
        value = self.c.generic.outputs[0]
        while isinstance(value, OpResult) and value.op.name in ("flow.dispatch.tie_shape", "tensor.cast"):
            value = value.op.operands[0]
        if not isinstance(value, OpResult):
            return False
        op = value.op
        if op.name == "tensor.splat":
            inner = op.operands[0]
            return isinstance(inner, OpResult) and inner.op.name == "arith.constant" and _is_zero(inner.op)
        return op.name == "arith.constant" and _is_zero(op)

    def _point(self, build: Builder, place: Place, i: Index, j: Index) -> list[Index]:
        """Indices of the contraction's result at an element of a block."""
        c = self.c
        where = dict(self.low)
        if c.m is not None:
            where[c.m] = build.plus(build.plus(self.low[c.m], place.row), i)
        if c.n is not None:
            where[c.n] = build.plus(build.plus(self.low[c.n], place.column), j)
        from pydispatch.compiler.codegen.affine_maps import evaluate

        return evaluate(build, c.generic.output_maps[0], [where[d] for d in range(len(self.sizes))])

    def _each(self, build: Builder, place: Place, body: Callable[[Builder, Index, Index], None]) -> None:
        """`body` for every element of a block that exists."""
        rows = self.left(build, self.c.m, place.row, self.t.mr)
        columns = self.left(build, self.c.n, place.column, self.t.nr)
        across(build, rows, columns, self.t.nr, body)

    def _start(self, build: Builder, place: Place, block: SSAValue, offset: Index) -> None:
        """The values that sums begin with."""
        t, sums = self.t, self.plan.sums
        if self._starts_at_zero():
            zero = build.add(arith.ConstantOp(zero_attribute(sums)))
            build.points(0, t.mr * t.nr, lambda b, i: self.e.store(b, zero, block, [b.plus(offset, i)]))
            return

        def element(b: Builder, i: Index, j: Index) -> None:
            value = self.e.at(b, self.c.generic.outputs[0], self._point(b, place, i, j))
            self.e.store(b, widened(b, value, sums), block, [self._in_block(b, offset, i, j)])

        self._each(build, place, element)

    def _in_block(self, build: Builder, offset: Index, i: Index, j: Index) -> Index:
        return build.plus(offset, build.plus(build.times(i, self.t.nr), j))

    def _finish(self, build: Builder, place: Place, block: SSAValue, offset: Index) -> None:
        """Pulls the results of the dispatch from a block and stores them."""
        result = self.c.op.results[0]

        def element(b: Builder, i: Index, j: Index) -> None:
            point = self._point(b, place, i, j)
            total = b.add(memref.LoadOp.get(block, [b.value(self._in_block(b, offset, i, j))]))
            b.remember((result, tuple(point)), narrowed(b, total, self.c.acc))
            for value, dims, buffer in zip(self.frame.returned, self.results, self.frame.results, strict=True):
                places = [point[d] for d in dims]
                self.e.store(b, self.e.at(b, value, places), buffer, places)

        self._each(build, place, element)


@dataclass(frozen=True)
class Place:
    """A register block: its number (row, column) in the tile, and the first row and column of the tile that it has."""

    block: tuple[Index, Index]
    row: Index
    column: Index


def across(build: Builder, rows: Index, columns: Index, full: int, body: Callable[[Builder, Index, Index], None]) -> None:
    """`body` for rows x columns points; columns of the full width have a loop of known length."""

    def nest(b: Builder, width: Index) -> None:
        b.points(0, rows, lambda r, i: r.points(0, width, lambda p, j: body(p, i, j)))

    if isinstance(columns, int):
        nest(build, columns)
        return
    partial = build.less(columns, full)
    build.when(partial, lambda b: nest(b, columns))
    build.when(_not(build, partial), lambda b: nest(b, full))


def _not(build: Builder, condition: SSAValue | bool) -> SSAValue | bool:
    if isinstance(condition, bool):
        return not condition
    return build.pure(arith.XOrIOp(condition, build.pure(arith.ConstantOp(IntegerAttr(1, IntegerType(1))))))


class Packing:
    """Copies the elements of a factor that a tile reads into its buffer."""

    def __init__(self, writer: Writer, side: Side) -> None:
        self.w, self.side, self.factor = writer, side, side.factor
        self.is_b = side.factor is writer.c.b and side is writer.b
        self.pairs = writer.plan.pairs

    def run(self, build: Builder) -> None:
        fence = Builder(build.block, build.source, build, guarded=True)
        self._level(fence, 0, [])

    def _extent(self, build: Builder, position: int) -> Index:
        """How many values a coordinate takes."""
        total: Index = 1
        for dim, times in self.factor.coordinates[position].terms:
            total = build.plus(total, build.times(build.minus(self.w.valid[dim], 1), times))
        return total

    def _level(self, build: Builder, position: int, at: list[Index]) -> None:
        """Loops over the coordinates in the order of memory."""
        w = self.w
        if position == len(self.factor.coordinates):
            self._copy(build, at)
            return
        coordinate = self.factor.coordinates[position]
        if self.is_b and self.side.panel is not None and coordinate.of(w.c.n if w.c.n is not None else -1):
            self._panels(build, position, at)
            return
        if self.pairs and coordinate.is_plain(w.c.k):
            self._pairs(build, position, at)
            return
        build.points(0, self._extent(build, position), lambda b, i: self._level(b, position + 1, [*at, i]))

    def _panels(self, build: Builder, position: int, at: list[Index]) -> None:
        """Columns, a panel at a time. An index of columns is (panel, column)."""
        w, n, nr = self.w, self.w.c.n, self.w.t.nr
        assert n is not None

        def panel(b: Builder, j: Index) -> None:
            start = w.starts(b, n, j, nr)
            columns = w.left(b, n, start, nr)

            def column(inner: Builder, i: Index) -> None:
                index = inner.plus(start, i)
                self._level(inner, position + 1, [*at, Column(index, j, i)])  # type: ignore[list-item]

            if isinstance(columns, int):
                b.points(0, columns, column)
                return
            partial = b.less(columns, nr)
            b.when(partial, lambda g: g.points(0, columns, column))
            b.when(_not(b, partial), lambda g: g.points(0, nr, column))

        build.points(0, build.ceil_quotient(w.valid[n], nr), panel)

    def _pairs(self, build: Builder, position: int, at: list[Index]) -> None:
        """Steps of K by two; an odd last one has a partner of 0."""
        size = self._extent(build, position)
        halves = build.quotient(size, 2)

        def pair(b: Builder, i: Index) -> None:
            first = b.times(i, 2)
            self._level(b, position + 1, [*at, Pair(first, False)])  # type: ignore[list-item]

        build.points(0, halves, pair)
        odd = build.remainder(size, 2)
        if odd == 0:
            return
        last = build.minus(size, 1)

        def alone(b: Builder) -> None:
            self._level(b, position + 1, [*at, Pair(last, True)])  # type: ignore[list-item]

        if isinstance(odd, int):
            alone(build)
        else:
            build.when(build.less(0, odd), alone)

    def _copy(self, build: Builder, at: Sequence[object]) -> None:
        pair = next((i for i in at if isinstance(i, Pair)), None)
        if pair is None:
            self._element(build, at, None)
            return
        self._element(build, at, pair.first)
        if pair.alone:
            zero = build.pure(arith.ConstantOp(zero_attribute(self.w.plan.compute)))
            self._store(build, zero, at, build.plus(pair.first, 1))
        else:
            self._element(build, at, build.plus(pair.first, 1))

    def _element(self, build: Builder, at: Sequence[object], k: Index | None) -> None:
        w = self.w
        where: list[Index] = []
        for coordinate, index in zip(self.factor.coordinates, at, strict=True):
            inner = index.index if isinstance(index, Column) else k if isinstance(index, Pair) else index
            total: Index = build.plus(inner, coordinate.constant)  # type: ignore[arg-type]
            for dim, times in coordinate.terms:
                total = build.plus(total, build.times(w.low[dim], times))
            where.append(total)
        value = factor_at(w.e, build, w.c, self.factor, where)
        self._store(build, converted(build, value, w.plan.compute), at, k)

    def _store(self, build: Builder, value: SSAValue, at: Sequence[object], k: Index | None) -> None:
        offset: Index = 0
        for position, (index, stride) in enumerate(zip(at, self.side.strides, strict=True)):
            if isinstance(index, Column):
                assert self.side.panel is not None
                step = 2 if self.pairs else 1
                place = build.plus(build.times(index.panel, self.side.panel), build.times(index.column, step))
            elif isinstance(index, Pair):
                assert k is not None
                second = 0 if k is index.first else 1
                place = build.plus(build.times(index.first, stride), second)
            else:
                place = build.times(index, stride)  # type: ignore[arg-type]
            offset = build.plus(offset, place)
        w = self.w
        w.e.store(build, value, self.side.buffer, [offset])


@dataclass(frozen=True)
class Column:
    """A column of B: its place in the tile, its panel, and its place there."""

    index: Index
    panel: Index
    column: Index


@dataclass(frozen=True)
class Pair:
    """Two steps of K; alone: the second is beyond the end."""

    first: Index
    alone: bool


def factor_at(e: Elements, build: Builder, c: Contraction, factor: Factor, where: Sequence[Index]) -> SSAValue:
    """The value of a factor where its coordinates are `where`."""
    mapping: dict[SSAValue, SSAValue] = {}
    for number, places in factor.inputs.items():
        operand = c.generic.inputs[number]
        if isinstance(operand.type, TensorType):
            indices = [where[p] if isinstance(p, int) else p.constant for p in places]
            mapping[c.generic.block.args[number]] = e.at(build, operand, indices)
        else:
            mapping[c.generic.block.args[number]] = e.scalar(operand)
    for op in factor.code:
        clone_op(e, build, op, mapping, [])
    return resolve(e, mapping, factor.value)


def converted(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """An element in the type of packed ones, which holds every value that it can have."""
    if value.type == to:
        return value
    if isinstance(to, IntegerType):
        return build.pure(arith.TruncIOp(value, to))
    return widened(build, value, to)


def widened(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    return value if value.type == to else build.pure(arith.ExtFOp(value, to))  # type: ignore[arg-type]


def narrowed(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """A sum in the type that the program gives it, rounded once."""
    return value if value.type == to else build.add(arith.TruncFOp(value, to))  # type: ignore[arg-type]


def _is_zero(op: Operation) -> bool:
    value = op.properties["value"]
    if isinstance(value, DenseIntOrFPElementsAttr):
        return 0 in value.type.get_shape() or (value.is_splat() and next(iter(value.get_values())) == 0)
    return isinstance(value, IntegerAttr | FloatAttr) and value.value.data == 0


def _cast(build: Builder, buffer: SSAValue, offset: Index, sizes: Sequence[Index], strides: Sequence[Index]) -> SSAValue:
    """A buffer seen with another shape."""
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    layout = StridedLayoutAttr(
        [s if isinstance(s, int) else None for s in strides], offset if isinstance(offset, int) else None
    )
    shape = [s if isinstance(s, int) else DYNAMIC_INDEX for s in sizes]
    result = MemRefType(type_.element_type, shape, layout, type_.memory_space)
    return build.add(memref.ReinterpretCastOp.from_dynamic(buffer, [offset], list(sizes), list(strides), result))
