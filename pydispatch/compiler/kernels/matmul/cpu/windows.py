"""Reductions over windows that lie side by side along channels: depthwise convolutions and poolings of NHWC.

Vectors lie along the last dimension of the result. A block is a few neighbours of the dimension before it, whose sums
stay in registers over all steps of the innermost windows, so that neighbours share what they read. Reduced dimensions
that are too long for that, or not known, are loops around blocks whose sums are in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineMap

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.cpu.pads import Pads
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil
from pydispatch.compiler.kernels.matmul.results import positions
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index, opposite
from pydispatch.compiler.kernels.ops.generics import body_at, cannot_lower, loop_sizes
from pydispatch.compiler.kernels.ops.minmax import MIN_VALUES, maximum_or_minimum, operand_of
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured, is_reduction, structured

STEPS = 32
"""Steps of a reduction that are written out."""

PRODUCTS = 100
"""Steps of a block that are written out: neighbours times steps."""

NARROWEST = 8
"""Channels from which vectors lie along them."""

SHARE = 24 << 10
"""Bytes of a window's weights that stay in the first cache while the rows pass."""

TILE, WORK = 64, 1 << 15
"""Neighbours of a workgroup's rows, and bytes of results that it makes at least where there are so many."""


Points = Callable[[Builder, Index], list[list[Index]]]
"""The points of a block at a channel."""


@dataclass(frozen=True)
class Windows:
    """The reduction of a function. n: the dimension that vectors lie along; near: that of a block's neighbours."""

    g: Structured
    n: int
    near: int | None
    outer: tuple[int, ...]
    written: tuple[int, ...]  # reductions that are written out
    around: tuple[int, ...]  # loops around them
    steps: int
    width: int  # neighbours of a block
    chunk: int  # channels at a time


def lower_windows(source: func.FuncOp, backend: Backend) -> Kernel | None:
    """Return the kernel of a dispatch function that reduces windows along channels, None for others."""
    g = reduction_in(source)
    if g is None:
        return None
    frame = Frame(source, backend)
    w = windows_of(g, frame) if all(argument < 0 for argument in frame.updated) else None
    if w is None:
        return None
    frame.bind()
    sizes = loop_sizes(frame.elements, g)
    _Writer(frame, w, sizes).run()
    return frame.finish(lambda e, b: _groups(w, b, loop_sizes(e, g)))


def reduction_in(source: func.FuncOp) -> Structured | None:
    """Return the only reduction of a function whose results all have its dimensions."""
    found: list[Structured] = []
    for op in source.body.block.ops:
        if is_reduction(op):
            g = structured(op)
            if cannot_lower(g):
                return None
            found.append(g)
    last = source.body.block.last_op
    if len(found) != 1 or last is None or len(found[0].op.results) != 1 or not found[0].loops:
        return None
    result = found[0].op.results[0]
    rank = list(range(tensor_type(result).get_num_dims()))
    fit = all(positions(v, result) == rank and bits_of(tensor_type(v).element_type) >= 8 for v in last.operands)
    return found[0] if fit and last.operands else None


def windows_of(generic: Structured, frame: Frame) -> Windows | None:
    """Return the windows of a reduction, and how it is done; None when it has no windows or no channels beside each
    other.
    """
    sizes = [s if isinstance(s, int) else None for s in loop_sizes(frame.elements, generic)]
    if (
        any(generic.iterators[d] == "parallel" for d in generic.loops)
        or bits_of(tensor_type(generic.op.results[0]).element_type) < 8
    ):
        return None
    dims = [
        r.position for r in generic.output_maps[0].results if isinstance(r, AffineDimExpr) and sizes[r.position] != 1
    ]
    reads = [
        (v, m) for i, (v, m) in enumerate(zip(generic.inputs, generic.maps, strict=False)) if generic.block.args[i].uses
    ]
    maps = [m for v, m in reads if isinstance(v.type, TensorType) and m.results]
    seen = [m for m in maps if any(isinstance(r, AffineBinaryOpExpr) for r in m.results)]
    if not dims or not seen or any(dims[-1] not in dims_in(m) for m in seen):
        return None
    n = dims[-1]
    lies = [_lies_along(m, n, sizes) for m in maps]
    length = sizes[n]
    if None in lies or True not in lies or (length is not None and length < NARROWEST):
        return None
    written: list[int] = []
    for d in reversed(generic.loops):
        size = sizes[d]
        if size is None or prod(sizes[x] or 1 for x in written) * size > STEPS:
            break
        written.insert(0, d)
    steps = prod(sizes[d] or 0 for d in written)
    near = dims[-2] if len(dims) > 1 else None
    room = 1 if near is None else max(1, min(4, PRODUCTS // max(1, steps)))
    beside = sizes[near] if near is not None else 1
    width = room if beside is None else max(1, min(room, beside))
    size = max(bits_of(tensor_type(v).element_type) // 8 for v in (*generic.op.results, *frame.returned))
    chunk = max(64, SHARE // (size * max(1, steps)) // 64 * 64)
    if length is not None and length <= 2 * chunk:
        chunk = max(1, length)
    outer = tuple(d for d in dims if d not in (n, near))
    around = tuple(d for d in generic.loops if d not in written)
    return Windows(generic, n, near, outer, tuple(written), around, steps, width, chunk)


def _lies_along(map: AffineMap, n: int, sizes: Sequence[int | None]) -> bool | None:
    """Return whether neighbours along `n` are neighbours in memory; None when they lie apart."""
    if n not in dims_in(map):
        return False
    results = [r for r in map.results if not (isinstance(r, AffineDimExpr) and sizes[r.position] == 1)]
    alone = sum(any(isinstance(x, AffineDimExpr) and x.position == n for x in r.dfs()) for r in results) == 1
    last = results[-1]
    return True if alone and isinstance(last, AffineDimExpr) and last.position == n else None


def _tiles(windows: Windows, build: Builder, sizes: Sequence[Index]) -> tuple[Index, Index, Index]:
    """(tiles of a row, neighbours per tile, tiles of all rows)."""
    beside: Index = 1 if windows.near is None else sizes[windows.near]
    tile: Index = TILE
    if isinstance(beside, int):
        even = ceil(max(1, beside), ceil(max(1, beside), TILE))
        tile = ceil(even, windows.width) * windows.width
    tiles = build.ceil_quotient(beside, tile)
    return tiles, tile, build.times(build.product([sizes[d] for d in windows.outer]), tiles)


def _share(windows: Windows, build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of tiles of a workgroup."""
    _, tile, _ = _tiles(windows, build, sizes)
    bytes_ = build.times(build.times(1 if windows.near is None else tile, sizes[windows.n]), 4)
    return build.most(build.quotient(WORK, build.most(bytes_, 1)), 1)


def _groups(windows: Windows, build: Builder, sizes: Sequence[Index]) -> Index:
    return build.ceil_quotient(_tiles(windows, build, sizes)[2], _share(windows, build, sizes))


class _Writer:
    """Emitter of a reduction over windows that is vectorized along the channels."""

    def __init__(self, frame: Frame, windows: Windows, sizes: list[Index]) -> None:
        self.frame, self.w, self.g, self.e, self.sizes = frame, windows, windows.g, frame.elements, sizes
        self.pads = Pads(frame.elements, windows.g, windows.n, windows.near)
        self.edge = False
        self.sums: SSAValue | None = None
        if windows.around:
            self.sums = self.e.fresh(tensor_type(windows.g.op.results[0]).element_type, windows.width * windows.chunk)

    def run(self) -> None:
        build, w = self.frame.build, self.w
        tiles, tile, every = _tiles(w, build, self.sizes)
        share = _share(w, build, self.sizes)
        group = build.bounded(self.frame.workgroup(), build.ceil_quotient(every, share))
        first = build.times(group, share)

        def one(builder: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
            *outer, part = builder.split(number, [*(self.sizes[d] for d in w.outer), tiles])
            low = builder.times(part, tile)
            at: list[Index] = [0] * len(self.sizes)
            for d, index in zip(w.outer, outer, strict=True):
                at[d] = index
            beside: Index = 1 if w.near is None else self.sizes[w.near]
            self._row(builder, at, low, builder.least(tile, builder.minus(beside, low)))
            return []

        build.loop(first, build.least(build.plus(first, share), every), [], one, limit=every)

    def _row(self, build: Builder, at: list[Index], low: Index, count: Index) -> None:
        """Emit the blocks of `count` neighbours from `low` on, with all channels, in chunks of channels."""
        w, size = self.w, self.sizes[self.w.n]

        def blocks(builder: Builder, start: Index, end: Index) -> None:
            def many(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
                self._block(inner, at, inner.plus(low, inner.times(i, w.width)), w.width, start, end)
                return []

            whole = builder.quotient(count, w.width)
            builder.loop(0, whole, [], many)
            done = builder.times(whole, w.width)
            if isinstance(count, int) and isinstance(done, int):
                if count > done:
                    self._block(builder, at, builder.plus(low, done), count - done, start, end)
                return
            if w.width > 1:

                def single(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
                    self._block(inner, at, inner.plus(low, i), 1, start, end)
                    return []

                builder.loop(done, count, [], single)

        if isinstance(size, int) and size <= w.chunk:
            blocks(build, 0, size)
            return

        def chunk(builder: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
            start = builder.times(number, w.chunk)
            blocks(builder, start, builder.least(builder.plus(start, w.chunk), size))
            return []

        build.loop(0, build.ceil_quotient(size, w.chunk), [], chunk)

    def _block(self, build: Builder, at: list[Index], low: Index, width: int, start: Index, end: Index) -> None:
        """`width` neighbours from `low`, the channels from `start` to `end`."""

        def points(builder: Builder, channel: Index) -> list[list[Index]]:
            found = []
            for i in range(width):
                point = list(at)
                point[self.w.n] = channel
                if self.w.near is not None:
                    point[self.w.near] = builder.plus(low, i)
                found.append(point)
            return found

        def whole(builder: Builder, channel: Index) -> None:
            where = points(builder, channel)
            self._store(builder, where, self._steps(builder, where, [self._initial(builder, p) for p in where]))

        def all_(builder: Builder, edge: bool) -> None:
            self.edge = edge
            if self.w.around:
                self._parts(builder, at, points, start, end)
            else:
                builder.parallel(start, end, whole, limit=self.sizes[self.w.n])

        inside = self.pads.inside(build, at, low, width)
        build.when(inside, lambda b: all_(b, False))
        build.when(opposite(build, inside), lambda b: all_(b, True))

    def _parts(self, build: Builder, at: list[Index], points: Points, start: Index, end: Index) -> None:
        """Emit a block whose sums are in memory, because loops over reduced dimensions enclose its steps."""
        w, limit = self.w, self.sizes[self.w.n]

        def places(builder: Builder, where: Sequence[list[Index]]) -> list[SSAValue]:
            return [builder.value(builder.plus(builder.minus(p[w.n], start), i * w.chunk)) for i, p in enumerate(where)]

        def begin(builder: Builder, channel: Index) -> None:
            where = points(builder, channel)
            for place, point in zip(places(builder, where), where, strict=True):
                self._put(builder, self._initial(builder, point), place)

        def end_(builder: Builder, channel: Index) -> None:
            where = points(builder, channel)
            self._store(builder, where, self._sums(builder, places(builder, where)))

        def around(builder: Builder, dims: Sequence[int], inside: dict[int, Index]) -> None:
            def step(inner: Builder, channel: Index) -> None:
                where = points(inner, channel)
                mine = places(inner, where)
                full = [[inside.get(d, x) for d, x in enumerate(p)] for p in where]
                for place, value in zip(mine, self._steps(inner, full, self._sums(inner, mine)), strict=True):
                    self._put(inner, value, place)

            def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
                around(inner, dims[1:], {**inside, dims[0]: index})
                return []

            if dims:
                builder.loop(0, self.sizes[dims[0]], [], body)
            else:
                builder.parallel(start, end, step, limit=limit)

        fence = Builder(build.block, build.source, build, guarded=True)
        fence.parallel(start, end, begin, limit=limit)
        around(fence, w.around, {})
        fence.parallel(start, end, end_, limit=limit)

    def _sums(self, build: Builder, places: Sequence[SSAValue]) -> list[SSAValue]:
        assert self.sums is not None
        return [build.add(memref.LoadOp.get(self.sums, [place])) for place in places]

    def _put(self, build: Builder, value: SSAValue, place: SSAValue) -> None:
        assert self.sums is not None
        self.e.store(build, value, self.sums, [place])

    def _initial(self, build: Builder, point: Sequence[Index]) -> SSAValue:
        return self.e.at(build, self.g.outputs[0], evaluate(build, self.g.output_maps[0], point))

    def _steps(self, build: Builder, points: list[list[Index]], values: list[SSAValue]) -> list[SSAValue]:
        """Emit the steps that are written out, for all points of a block, and return the new values."""
        w = self.w
        compared: list[list[SSAValue]] = [[v] for v in values]
        names = set[str]()
        for step in product(*(range(self._known(d)) for d in w.written)):
            for d, index in zip(w.written, step, strict=True):
                for point in points:
                    point[d] = index
            for point in points:
                self.pads.prepare(build, point, self.edge)
            before = values
            values = [in_order(body_at(self.e, build, self.g, p, [v])[0]) for p, v in zip(points, values, strict=True)]
            for seen, new, old in zip(compared, values, before, strict=True):
                operand = operand_of(new, old)
                names.add(new.owner.name if operand is not None and isinstance(new.owner, Operation) else "")
                seen += [operand] if operand is not None else []
        if len(names) == 1 and "" not in names and len(compared[0]) >= MIN_VALUES:
            (name,) = names
            return [maximum_or_minimum(build, name, seen) for seen in compared]
        return values

    def _known(self, dim: int) -> int:
        size = self.sizes[dim]
        assert isinstance(size, int)
        return size

    def _store(self, build: Builder, points: list[list[Index]], values: list[SSAValue]) -> None:
        """Compute the results of the dispatch from the sums of a block and stores them, after all loads."""
        result = self.g.op.results[0]
        stores = []
        for point, value in zip(points, values, strict=True):
            where = evaluate(build, self.g.output_maps[0], point)
            build.remember((result, tuple(where)), value)
            for returned, buffer in zip(self.frame.returned, self.frame.results, strict=True):
                stores.append((self.e.at(build, returned, where), buffer, where))
        for element, buffer, where in stores:
            self.e.store(build, element, buffer, where)


def in_order(value: SSAValue) -> SSAValue:
    """Mark a sum of products as contractions have them, in order and fused where the CPU does, and return it."""
    if isinstance(value, OpResult) and value.op.name == "arith.addf":
        for operand in value.op.operands:
            if isinstance(operand, OpResult) and operand.op.name == "arith.mulf":
                for op in (operand.op, value.op):
                    op.properties["fastmath"] = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
    return value
