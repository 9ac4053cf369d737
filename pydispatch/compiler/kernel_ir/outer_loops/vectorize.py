"""Outer-loop vectorization on CPUs: a parallel loop is interchanged with the sequential loops in it.

    parallel p in 0..64 { total = 0; for j in 0..n { total += f(p, j) }; y[p] = total }

is not vectorized by LLVM, which vectorizes innermost loops alone. In strips of `LANES` iterations it becomes

    for first = 0 to 64 step 16 {
        parallel lane in 0..16 { total[lane] = 0 }
        for j in 0..n { parallel lane in 0..16 { total[lane] += f(first + lane, j) } }
        parallel lane in 0..16 { y[first + lane] = total[lane] }
    }

The loops over lanes are vectorized, and LLVM keeps `total` in vector registers. Each lane executes the same steps in
the same order as before. A `scf.while` runs until no lane continues. A branch that contains a loop is taken by the
strip as a whole where its lanes agree, lane by lane elsewhere. Loops that carry no values have wider strips
(`lanes.STREAMED_LANES`): a rotary embedding of 2048x16x128 takes 0.40 of the time (AMD EPYC Zen 4, one worker).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.bindings import read_only_memrefs
from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index, constant_or_value
from pydispatch.compiler.kernel_ir.kernel import UNROLLED
from pydispatch.compiler.kernel_ir.outer_loops.lane_loops import Copies
from pydispatch.compiler.kernel_ir.outer_loops.lanes import Lanes
from pydispatch.compiler.kernel_ir.outer_loops.strip import Strip
from pydispatch.compiler.kernel_ir.stack import stack_bytes
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk


def vectorize_outer_loops(function: FuncOp) -> list[str]:
    """Interchange the parallel loops of a function with the sequential loops in them, so that LLVM can vectorize them.

    The function is changed in place: `parallel p in 0..64 { for j in 0..n { body(p, j) } }` becomes

        for first = 0 to 64 step 16 { for j in 0..n { parallel lane in 0..16 { body(first + lane, j) } } }

    Loops that `Lanes.of` refuses stay as they are.

    Returns:
        A line for each parallel loop with a sequential loop in it that is not marked `UNROLLED`: whether it is
        interchanged, or why not. An example is "f.mlir:7:3: invocations are no lanes of vectors: it reads memory with
        a stride".
    """
    entry, read_only, notes = Entry(function), read_only_memrefs(function), []
    loops = [op for op in walk(function) if isinstance(op, scf.ParallelOp)]
    allocated_bytes = stack_bytes(function) if loops else 0
    for loop in loops:
        loops_in_it = [op for op in walk(loop) if isinstance(op, scf.ForOp | scf.WhileOp)]
        lanes = Lanes.of(loop, read_only, allocated_bytes)  # the analysis
        if lanes.refusal is None:
            location = location_of(_first_operation(loop))
            _interchange(entry, loop, lanes)
            allocated_bytes = stack_bytes(function)  # now with the values of the lanes of this loop
            result = f"the invocations from here on are lanes of vectors, {lanes.width} at a time, also in loops"
        else:
            op, reason = lanes.refusal
            location, result = location_of(_first_operation(op)), f"invocations are no lanes of vectors: {reason}"
        if any(UNROLLED not in op.attributes for op in loops_in_it):
            notes.append(f"{location.short()}: {result}" if location else result)
    return notes


def _first_operation(op: Operation) -> Operation:
    """Return the first operation in the innermost body at the beginning of `op`; `op` itself if it has no body.

    In a nest of loops, each of which begins with the next one, it is the first operation of the innermost loop. Its
    source location says in notes where the body of the nest begins.
    """
    return next((_first_operation(first) for r in op.regions for b in r.blocks if (first := b.first_op)), op)


def _interchange(entry: Entry, loop: scf.ParallelOp, lanes: Lanes) -> None:
    """Replace a parallel loop by sequential loops over its other axes around strips of its last axis.

    A strip is a block of consecutive iterations, the lanes, that run together as elements of vectors.

    `parallel (p, q) in (0..8, 0..64)` becomes `for p in 0..8 { for q = 0 to 64 step 16 { strip of 16 lanes } }`.
    """
    # (lower, upper, step) of each axis.
    bounds = list(
        zip(*(map(constant_or_value, side) for side in (loop.lowerBound, loop.upperBound, loop.step)), strict=True)
    )

    def nest(build: Build, axis: int, copies: Copies) -> None:
        """Emit the loops over the axes from `axis` on; `copies` maps the counters of outer axes to the emitted ones."""
        if axis == len(bounds) - 1:  # the last axis, whose iterations are the lanes
            _LastAxis(loop, lanes, copies).emit(build)
            return

        def body(inner: Build, counter: SSAValue, _: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit the loops over the axes after `axis`, whose counter is `counter`; no values are carried."""
            nest(inner, axis + 1, {**copies, loop.body.block.args[axis]: counter})
            return ()

        lower, upper, step = bounds[axis]
        build.loop(lower, upper, step, (), body)

    nest(Build.before(entry, loop), axis=0, copies={})
    loop.detach()
    loop.erase()


@dataclass(frozen=True)
class _LastAxis:
    """Emitter of the last axis of a parallel loop as strips, blocks of consecutive iterations that run as lanes.

    Attributes:
        loop: The parallel loop.
        lanes: Its analysis.
        copies: Counter of each other axis → that of the emitted loop.
    """

    loop: scf.ParallelOp
    lanes: Lanes
    copies: Copies

    @property
    def _high(self) -> Index:
        """Number of iterations along the axis."""
        return constant_or_value(self.loop.upperBound[-1])

    def emit(self, build: Build) -> None:
        """Emit the loop over whole strips, and after it the remaining iterations as they are in the parallel loop.

        With 16 lanes, an axis of 40 iterations becomes strips from 0 and 16 on, and a parallel loop from 32 to 40. If
        `lanes.is_streamed`, all iterations are in strips, and the last strip has fewer lanes.
        """
        if self.lanes.is_streamed:
            self._emit_streamed(build)
        elif isinstance(self._high, int):
            self._emit_known_strips(build, self._high)
        else:
            self._emit_runtime_strips(build, self._high)

    def _emit_strip(self, build: Build, first: Index, width: Index | None = None) -> None:
        """Emit the iterations from `first` on, one for each lane. width: lanes of the strip; None for `lanes.width`."""
        Strip(self.lanes, first, dict(self.copies), width).emit_block(build, self.loop.body.block, stores=())

    def _emit_known_strips(self, build: Build, high: int) -> None:
        """Emit the strips of `high` iterations: the number of whole strips is known, too."""
        width = self.lanes.width
        end = high // width * width

        def strip(inner: Build, first: SSAValue, _: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit the strip that begins at iteration `first`; the loop over strips carries no values."""
            self._emit_strip(inner, first)
            return ()

        if end == width:  # a single strip needs no loop
            self._emit_strip(build, first=0)
        else:
            build.loop(0, end, width, (), strip)
        if end != high:
            self._emit_remaining(build, end)

    def _emit_runtime_strips(self, build: Build, high: Index) -> None:
        """Emit the strips of a number of iterations that is known at run time only."""
        width = self.lanes.width

        def strip(inner: Build, first: SSAValue, _: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit the strip that begins at iteration `first`, and return where the next one begins."""
            self._emit_strip(inner, first)
            return [inner.value(inner.plus(first, width))]

        # A strip from `first` on is whole if first + width <= high, that is first < end_of_starts. The loop carries
        # where the next strip begins, so that it returns the first iteration after all whole strips, 0 if there are
        # none.
        end_of_starts = build.minus(high, width - 1)
        (end,) = build.loop(0, end_of_starts, width, [build.value(0)], strip)
        self._emit_remaining(build, end)

    def _emit_remaining(self, build: Build, start: Index) -> None:
        """Emit the iterations after the last whole strip, from `start` on, as a parallel loop."""
        block = Block(arg_types=[INDEX])
        body = build.inside(block)
        values = {**self.copies, self.lanes.lane: block.args[0]}
        for op in self.loop.body.block.ops:
            body.insert(op.clone(values))
        build.op(scf.ParallelOp([build.value(start)], [build.value(self._high)], [build.value(1)], Region(block)))

    def _emit_streamed(self, build: Build) -> None:
        """Emit the loop over strips whose sequential loops carry no values; the last strip may have fewer lanes."""
        high, width = self._high, self.lanes.width

        def strip(inner: Build, first: SSAValue, _: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit the strip that begins at iteration `first`; the loop over strips carries no values."""
            # The last strip has `width` lanes, too, if the number of iterations is a multiple of that.
            is_whole = isinstance(high, int) and high % width == 0
            self._emit_strip(inner, first, width if is_whole else inner.least(width, inner.minus(high, first)))
            return ()

        build.loop(0, high, width, (), strip)
