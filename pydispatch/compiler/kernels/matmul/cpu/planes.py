"""Reductions over windows whose places lie side by side: depthwise convolutions and poolings of NCHW.

Vectors lie along places. A workgroup copies what some rows of a plane read into its memory, with the padding around it,
and one plane for each phase of a stride, so that each step of the window reads neighbours for neighbours. Then rows are
one long row, with some places between them that nobody reads, and short ones fill vectors as long ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil
from pydispatch.compiler.kernels.matmul.cpu.windows import in_order, reduction_in
from pydispatch.compiler.kernels.matmul.match import Linear, linear
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index, both, opposite
from pydispatch.compiler.kernels.ops.generics import body_at, loop_sizes
from pydispatch.compiler.kernels.ops.minmax import MIN_VALUES, maximum_or_minimum, operand_of
from pydispatch.compiler.kernels.ops.tensors import tensor_type, zero_attribute
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.tensor_ops.rules.joins import pad_amounts
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.structured import Structured

MOST_STEPS = 64
"""Steps of a window, which are written out."""

FEWEST_PLACES = 8
"""Places of a plane below which there is nothing to lay side by side."""

PLANE = 16 << 10
"""Bytes of a workgroup's planes: with the sums, less than the first-level cache."""

WORK = 1 << 15
"""Bytes of results that a workgroup makes at least where there are so many."""


@dataclass(frozen=True)
class Axis:
    """Axis of a sliding window.

    Attributes:
        place: Dimension of the window's positions.
        step: Dimension of the steps inside the window; None if the window has one step.
        size: Number of positions.
        steps: Number of steps inside the window.
        stride: Input elements between neighbouring positions.
        dilation: Input elements between neighbouring steps.
    """

    place: int
    step: int | None
    size: int
    steps: int
    stride: int
    dilation: int

    def of(self, step: int) -> tuple[int, int]:
        """(phase, places after the first) of what a step reads."""
        return step * self.dilation % self.stride, step * self.dilation // self.stride

    @property
    def phases(self) -> dict[int, int]:
        """For each phase that is read the most places after the first."""
        found: dict[int, int] = {}
        for step in range(self.steps):
            phase, shift = self.of(step)
            found[phase] = max(found.get(phase, 0), shift)
        return found


@dataclass(frozen=True)
class Planes:
    """The reduction of a function.

    sizes: of each loop, also those that no type states; input: the number of the operand that windows read; rows: of a
    tile of a plane.
    """

    g: Structured
    sizes: list[int]
    input: int
    axes: tuple[Axis, Axis]
    outer: tuple[int, ...]
    rows: int

    @property
    def length(self) -> int:
        """Elements of a row of a copied plane."""
        return self.axes[1].size + max(self.axes[1].phases.values())

    @property
    def height(self) -> int:
        return self.rows + max(self.axes[0].phases.values())

    @property
    def numbers(self) -> dict[tuple[int, int], int]:
        """For each pair of phases the number of its plane."""
        return {pair: i for i, pair in enumerate(product(self.axes[0].phases, self.axes[1].phases))}


def lower_planes(source: func.FuncOp, backend: Backend) -> Kernel | None:
    """Return the kernel of a dispatch function that reduces windows of planes, None for others."""
    g = reduction_in(source)
    if g is None:
        return None
    frame = Frame(source, backend)
    p = _planes(g, frame) if all(argument < 0 for argument in frame.updated) else None
    if p is None:
        return None
    frame.bind()
    _Writer(frame, p).run()
    return frame.finish(lambda e, build: ceil(_items(p), _share(p)))


def _planes(generic: Structured, frame: Frame) -> Planes | None:
    sizes = loop_sizes(frame.elements, generic)
    out = [r.position for r in generic.output_maps[0].results if isinstance(r, AffineDimExpr)]
    known = [n for n in sizes if isinstance(n, int) and n > 0]
    if len(known) < len(sizes) or len(out) < 2 or len(out) != len(generic.output_maps[0].results):
        return None
    if prod(known[d] for d in generic.loops) > MOST_STEPS or known[out[-1]] * known[out[-2]] < FEWEST_PLACES:
        return None
    reads = [i for i, map_ in enumerate(generic.maps[: len(generic.inputs)]) if {out[-1], out[-2]} & dims_in(map_)]
    if len(reads) != 1 or not generic.block.args[reads[0]].uses or {out[-1], out[-2]} & _start_dims(generic):
        return None
    coordinates = [linear(r) for r in generic.maps[reads[0]].results]
    if len(coordinates) < 2 or any(c is None for c in coordinates):
        return None
    rest, last = [c for c in coordinates if c is not None][:-2], [c for c in coordinates if c is not None][-2:]
    axes = [_axis(generic, c, place, known) for c, place in zip(last, out[-2:], strict=True)]
    if axes[0] is None or axes[1] is None or {d for c in rest for d, _ in c.terms} & {*out[-2:], *generic.loops}:
        return None
    if {a.step for a in axes if a is not None} - {None} != set(generic.loops):
        return None
    width = max(bits_of(tensor_type(v).element_type) // 8 for v in (*generic.op.results, generic.inputs[reads[0]]))
    if width < 1 or bits_of(tensor_type(generic.inputs[reads[0]]).element_type) < 8:
        return None
    row = (axes[1].size + max(axes[1].phases.values())) * width * len(axes[0].phases) * len(axes[1].phases)
    most = max(1, PLANE // row - max(axes[0].phases.values()))
    rows = ceil(axes[0].size, ceil(axes[0].size, most))
    return Planes(generic, known, reads[0], (axes[0], axes[1]), tuple(out[:-2]), rows)


def _start_dims(generic: Structured) -> set[int]:
    """Return the dimensions that the initial value of the sums depends on; none for a value that is the same
    everywhere.
    """
    owner = generic.outputs[0].owner
    same = isinstance(owner, Operation) and owner.name == "tensor.splat"
    return set() if same else dims_in(generic.output_maps[0])


def _axis(generic: Structured, coordinate: Linear, place: int, sizes: list[int]) -> Axis | None:
    """Return the axis of a window that a coordinate is: places times a stride, and steps times a dilation."""
    steps = [d for d, _ in coordinate.terms if d in generic.loops]
    if coordinate.constant or not coordinate.of(place) or len(coordinate.terms) != 1 + len(steps) or len(steps) > 1:
        return None
    if not steps:
        return Axis(place, None, sizes[place], 1, coordinate.of(place), 1)
    return Axis(place, steps[0], sizes[place], sizes[steps[0]], coordinate.of(place), coordinate.of(steps[0]))


def _items(planes: Planes) -> int:
    """Return the number of tiles of all planes."""
    return prod(planes.sizes[d] for d in planes.outer) * ceil(planes.axes[0].size, planes.rows)


def _share(planes: Planes) -> int:
    """Return the number of tiles of a workgroup."""
    return max(1, WORK // (planes.rows * planes.axes[1].size * 4))


class _Writer:
    """Emitter of a reduction over windows that copies its input into planes first."""

    def __init__(self, frame: Frame, planes: Planes) -> None:
        self.frame, self.p, self.g, self.e = frame, planes, planes.g, frame.elements
        self.value = planes.g.inputs[planes.input]
        self.plane = planes.height * planes.length
        size = self.plane * len(planes.numbers)
        self.planes = self.e.fresh(tensor_type(self.value).element_type, size)
        self.sums = self.e.fresh(tensor_type(self.g.op.results[0]).element_type, planes.rows * planes.length)

    def run(self) -> None:
        build, p = self.frame.build, self.p
        items, share, tiles = _items(p), _share(p), ceil(p.axes[0].size, p.rows)
        groups = ceil(items, share)
        group = build.bounded(self.frame.workgroup(), groups)
        first = build.times(group, share)

        def one(builder: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
            *outer, tile = builder.split(number, [*(p.sizes[d] for d in p.outer), tiles])
            at: list[Index] = [0] * len(self.g.iterators)
            for d, index in zip(p.outer, outer, strict=True):
                at[d] = index
            low = builder.least(builder.times(tile, p.rows), p.axes[0].size - p.rows)  # the last tile repeats some rows
            fence = Builder(builder.block, builder.source, builder, guarded=True)
            self._copy(fence, at, low)
            self._reduce(fence, at)
            self._store(fence, at, low)
            return []

        build.loop(first, build.least(build.plus(first, share), items), [], one, limit=items)

    # What windows read

    def _copy(self, build: Builder, at: list[Index], low: Index) -> None:
        """Copy the input of a tile into its planes, row by row: padding before, elements, padding after."""
        p = self.p
        rows, columns = p.axes
        source, before, padding = self._source(build)
        sizes = self.e.dims(source)
        origin = evaluate(build, self.g.maps[p.input], at)
        for (phase, across), number in p.numbers.items():
            extent = columns.size + columns.phases[across]

            def gap(builder: Builder, start: Index, extent: int) -> None:
                """Zeros between rows, which are computed with: subnormal numbers would take some CPUs very long."""
                zero = builder.pure(arith.ConstantOp(zero_attribute(tensor_type(self.value).element_type)))
                builder.parallel(extent, p.length, lambda d, x: self.e.store(d, zero, self.planes, [d.plus(start, x)]))

            def row(builder: Builder, y: Index, phase: int = phase, across: int = across, number: int = number,
                    extent: int = extent) -> None:  # fmt: skip
                where = builder.plus(builder.times(builder.plus(low, y), rows.stride), phase)
                place = [*origin[:-2], builder.minus(where, before[-2])]
                place[:-2] = [builder.minus(i, a) for i, a in zip(place[:-2], before, strict=False)]
                start = builder.plus(builder.times(y, p.length), number * self.plane)
                begin = max(0, min(extent, ceil(before[-1] - across, columns.stride)))
                end, width = extent, sizes[-1]
                if padding is not None:
                    assert isinstance(width, int)  # `_source` reads a pad of known sizes only
                    end = max(begin, min(extent, ceil(width + before[-1] - across, columns.stride)))

                def element(builder: Builder, x: Index) -> None:
                    column = builder.plus(builder.times(x, columns.stride), across - before[-1])
                    self.e.store(
                        builder, self.e.at(builder, source, [*place, column]), self.planes, [builder.plus(start, x)]
                    )

                def fill(builder: Builder, from_: int, to: int) -> None:
                    if to > from_:
                        assert padding is not None
                        builder.parallel(
                            from_, to, lambda d, x: self.e.store(d, padding, self.planes, [d.plus(start, x)])
                        )

                def inside(builder: Builder) -> None:
                    fill(builder, 0, begin)
                    builder.parallel(begin, end, element, limit=extent)
                    fill(builder, end, extent)

                exists: SSAValue | bool = True
                if padding is not None:
                    exists = both(builder, builder.less(before[-2] - 1, where), builder.less(place[-1], sizes[-2]))
                builder.when(exists, inside)
                builder.when(opposite(builder, exists), lambda c: fill(c, 0, extent))
                if extent < p.length:
                    gap(builder, start, extent)

            build.parallel(0, p.rows + rows.phases[phase], row)

    def _source(self, build: Builder) -> tuple[SSAValue, list[int], SSAValue | None]:
        """Return the tensor that the planes are copied from, how far its first element is inside, and the padding
        around it, None without one.
        """
        pad: Any = self.value.owner
        rank = tensor_type(self.value).get_num_dims()
        if not isinstance(self.value, OpResult) or pad.name != "tensor.pad" or self.e.is_materialized(self.value):
            return self.value, [0] * rank, None
        low, high = pad_amounts(self.e, pad)
        block = pad.regions[0].block
        known = all(isinstance(n, int) for n in (*low, *high, *self.e.dims(pad.source)))
        others = any(n != 0 for n in (*low[:-2], *high[:-2]))
        if not known or others or any(a.uses.get_length() for a in block.args):
            return self.value, [0] * rank, None
        padding = clone_block(self.e, build, block, {}, [])[0]
        return pad.source, [n for n in low if isinstance(n, int)], padding

    # What they give

    def _reduce(self, build: Builder, at: list[Index]) -> None:
        """Emit the reduction for all window positions of a tile, as one parallel loop over one long row."""
        p, g = self.p, self.g
        steps = [range(p.sizes[d]) for d in g.loops]

        def place(builder: Builder, q: Index) -> None:
            value = self.e.at(builder, g.outputs[0], evaluate(builder, g.output_maps[0], at))
            seen, names = [value], set[str]()
            for step in product(*steps):
                point = list(at)
                now = dict(zip(g.loops, step, strict=True))
                for d, index in now.items():
                    point[d] = index
                (phase, down), (across, right) = (a.of(0 if a.step is None else now[a.step]) for a in p.axes)
                offset = p.numbers[phase, across] * self.plane + down * p.length + right
                element = builder.add(memref.LoadOp.get(self.planes, [builder.value(builder.plus(q, offset))]))
                builder.remember((self.value, tuple(evaluate(builder, g.maps[p.input], point))), element)
                before, value = value, in_order(body_at(self.e, builder, g, point, [value])[0])
                operand = operand_of(value, before)
                names.add(value.owner.name if operand is not None and isinstance(value.owner, Operation) else "")
                seen += [operand] if operand is not None else []
            if len(names) == 1 and "" not in names and len(seen) >= MIN_VALUES:
                value = maximum_or_minimum(builder, names.pop(), seen)
            self.e.store(builder, value, self.sums, [q])

        build.parallel(0, (p.rows - 1) * p.length + p.axes[1].size, place)

    def _store(self, build: Builder, at: list[Index], low: Index) -> None:
        """Compute the results of the dispatch from the sums of a tile."""
        p, result = self.p, self.g.op.results[0]

        def element(builder: Builder, y: Index, x: Index) -> None:
            point = list(at)
            point[p.axes[0].place], point[p.axes[1].place] = builder.plus(low, y), x
            where = evaluate(builder, self.g.output_maps[0], point)
            total = builder.add(
                memref.LoadOp.get(self.sums, [builder.value(builder.plus(builder.times(y, p.length), x))])
            )
            builder.remember((result, tuple(where)), total)
            for returned, buffer in zip(self.frame.returned, self.frame.results, strict=True):
                self.e.store(builder, self.e.at(builder, returned, where), buffer, where)

        def row(builder: Builder, y: Index) -> None:
            builder.parallel(0, p.axes[1].size, lambda c, x: element(c, y, x))

        build.parallel(0, p.rows, row)
