"""Sources of the factors that the blocks of a tile read: an argument, panels of an argument, or a packed copy."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, argument_of, extents_of
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil
from pydispatch.compiler.kernels.matmul.match import Factor
from pydispatch.compiler.kernels.ops.builder import Builder, Index


@dataclass
class Side:
    """A factor as the blocks read it: a buffer, elements between neighbours of each coordinate, and for panels of B
    what is between them. absolute: coordinates count from the tensor's beginning, not from the tile's."""

    factor: Factor
    buffer: SSAValue
    strides: list[Index]
    absolute: bool
    panel: int | None = None

    def stride(self, build: Builder, dim: int | None) -> Index:
        """Return the distance of neighbours along a dimension, in elements."""
        total: Index = 0
        for coordinate, stride in zip(self.factor.coordinates, self.strides, strict=True):
            if dim is not None and coordinate.of(dim):
                total = build.plus(total, build.times(stride, coordinate.of(dim)))
        return total


class Sides:
    """The sides of the tiles of a plan, packed where they are not read in place."""

    def __init__(self, frame: Frame, plan: Plan) -> None:
        self.frame, self.plan, self.c, self.t = frame, plan, plan.c, plan.schedule
        self.extents = extents_of(plan.c, plan.schedule, plan.schedule.kc, plan.sizes, plan.inside)

    def a(self, build: Builder) -> Side:
        """Return A, with memory for its packed copy where it has one."""
        return self.in_place(build, self.c.a) if self.plan.a_in_place else self._packed_rows(self.c.a)

    def b(self, build: Builder) -> Side:
        """B, with memory for its packed copy where it has one."""
        if (panels := self.plan.panels) is not None:
            return Side(self.c.b, self._buffer(panels.argument), list(panels.strides()), True, panels.step)
        halves = self.plan.halves
        return self.in_place(build, self.c.b, halves) if self.plan.b_in_place else self._packed_panels(self.c.b)

    def in_place(self, build: Builder, factor: Factor, value: SSAValue | None = None) -> Side:
        """Return a factor that is read in the memory of an argument. value: the tensor that it is an element of, or is
        widened from; None for its own.
        """
        value = self.c.generic.inputs[factor.main] if value is None else value
        argument = argument_of(value)
        assert argument is not None
        dims, strides = self.frame.elements.dims(value), [1]
        for size in reversed(dims[1:]):
            strides.insert(0, build.times(strides[0], size))  # type: ignore[arg-type]
        return Side(factor, self._buffer(argument), list(strides[: len(dims)]), True)

    def _buffer(self, argument: BlockArgument) -> SSAValue:
        return self.frame.buffers[self.frame.tensors.index(argument)]

    def _box(self, factor: Factor) -> list[int]:
        return [sum(a * (self.extents[d] - 1) for d, a in c.terms) + 1 for c in factor.coordinates]

    def _packed_rows(self, factor: Factor) -> Side:
        """Row-major like the operand; rows of a power of two of bytes would all fall into the same cache sets."""
        box = self._box(factor)
        order = list(range(len(box)))
        if self.plan.group > 1 or self.plan.rows_of_k:  # K last, and whole groups
            at = next(p for p in factor.where(self.c.k) if factor.coordinates[p].of(self.c.k) == 1)
            order = [p for p in order if p != at] + [at]
            box[at] = ceil(box[at], self.plan.group) * self.plan.group
        strides: list[Index] = [0] * len(box)
        running = 1
        for position in reversed(order):
            strides[position] = running
            running *= box[position]
            bytes_ = running * (bit_width(self.plan.compute) or 64) // 8
            if position == order[-1] and bytes_ >= 256 and bytes_ % 256 == 0:
                running += 64 * 8 // (bit_width(self.plan.compute) or 64)
        buffer = self.frame.elements.fresh(self.plan.compute, max(1, running) + 2)
        return Side(factor, buffer, strides, False)

    def _packed_panels(self, factor: Factor) -> Side:
        """Panels of nr columns where a coordinate is the column, else rows like the operand's."""
        box, n, t = self._box(factor), self.c.n, self.t
        if n is None or self.plan.rows_of_k:
            return self._packed_rows(factor)
        at = factor.where(n)[0]
        order = [p for p in range(len(box)) if p != at]
        strides: list[Index] = [0] * len(box)
        panel = factor.coordinates[at].is_plain(n)
        running = t.nr if panel else box[at]
        if self.plan.group > 1:
            k_at = next(p for p in factor.where(self.c.k))
            order = [p for p in order if p != k_at] + [k_at]
            box[k_at] = ceil(box[k_at], self.plan.group) * self.plan.group
        for position in reversed(order):
            strides[position] = running
            running *= box[position]
        strides[at] = 1
        whole = running * (t.nt // t.nr) if panel else running
        buffer = self.frame.elements.fresh(self.plan.compute, max(1, whole))
        return Side(factor, buffer, strides, False, running if panel else None)
