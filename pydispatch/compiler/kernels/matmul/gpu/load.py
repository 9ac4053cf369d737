"""Staging of the tiles of factors: every invocation loads some elements into private memory, and stores them into the
tile in workgroup memory once the previous tile has been multiplied.

Invocations beyond the end of rows and columns load the last ones again, whose sums are never read; beyond the last step
they store elements that add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerType
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernel_ir.types import scalar_width
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.gpu.memory import (
    ACCESS_BYTES,
    PRIVATE,
    load_contiguous,
    state_alignment,
    storage,
)
from pydispatch.compiler.kernels.matmul.gpu.operands import Operand
from pydispatch.compiler.kernels.matmul.gpu.plan import Plan, collapsed_size
from pydispatch.compiler.kernels.matmul.gpu.tiles import Tile
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import zero_attribute


@dataclass(frozen=True)
class Run:
    """Consecutive elements of a factor's tile that an invocation loads at once.

    Attributes:
        row, step: Row (or column of B) and step of K of the first element, in the tile.
        row_run, step_run: The same position, counted in runs along the dimension that runs are along: with runs of 4
            elements along K, `step` 8 has the `step_run` 2, and `row_run` is equal to `row`.
        slot: Position of the run in the invocation's private memory, in runs.
    """

    row: Index
    step: Index
    row_run: Index
    step_run: Index
    slot: int


@dataclass(frozen=True)
class Location:
    """Position of a workgroup's tile in the result of a contraction.

    Attributes:
        outer: Number of a loop of the contraction -> its index if the loop is a batch dimension, else 0.
        row, column: Position of the tile along rows and columns, in tiles.
    """

    outer: Mapping[int, Index]
    row: Index
    column: Index


@dataclass(frozen=True)
class Staging:
    """Emitter of the code that copies tiles of one factor, A or B, from device memory to workgroup memory.

    The kernel of a product has one for each factor. A column of B is called a row here, so that both factors have rows
    and steps of K.

    Attributes:
        elements: Tensors of the dispatch function.
        plan: The plan.
        sizes: Sizes of all loop dimensions.
        is_a: Whether the factor is A.
        is_row_major: Whether the tile is stored by rows, not by steps of K: for tensor cores, if K is contiguous.
        pitch: Elements between rows, or steps, of the tile; padded to spread them over the memory banks.
        loads_per_invocation: Runs of `operand.vector_width` consecutive elements that an invocation loads.
        buffer: The tile, in workgroup memory.
        private: Memory of an invocation, for the runs that it has loaded and not yet stored in `buffer`.
    """

    elements: Elements
    plan: Plan
    sizes: tuple[Index, ...]
    is_a: bool
    is_row_major: bool
    pitch: int
    loads_per_invocation: int
    buffer: SSAValue
    private: SSAValue

    @staticmethod
    def of(elements: Elements, plan: Plan, sizes: tuple[Index, ...], is_a: bool) -> Staging:
        """Return the staging of a factor, after allocating its tile in workgroup memory and its registers for loads.

        Tiles for tensor cores are stored as their operand is: by rows if K is contiguous, else by steps of K. All other
        tiles are stored by steps, so that one load reads several adjacent rows (or columns of B) of a step.

        A tile of 128 rows and 8 steps of f32 that is stored by steps has 8 lines of 128 elements. The pitch, from one
        line to the next, is 132: 16 bytes of padding.

        Args:
            elements: Tensors of the dispatch function.
            plan: The plan of the contraction.
            sizes: Sizes of all loop dimensions.
            is_a: Whether the factor is A.
        """
        tile, operand = plan.tile, plan.a if is_a else plan.b
        extent = tile.height if is_a else tile.width
        is_row_major = plan.form == "tensor" and operand.is_k_contiguous
        line_length, line_count = (tile.depth, extent) if is_row_major else (extent, tile.depth)
        padding = max(1, ACCESS_BYTES * 8 // scalar_width(plan.element))  # lines begin in different memory banks
        pitch = line_length + padding
        # The vector loads of the tile, divided among the invocations: -(-a // b) is a / b rounded up.
        loads_per_invocation = -(-extent * tile.depth // operand.vector_width // tile.invocations)
        buffer = storage(elements.entry, plan.element, line_count * pitch, WORKGROUP)
        private = storage(elements.entry, plan.element, loads_per_invocation * operand.vector_width, PRIVATE)
        return Staging(
            elements=elements,
            plan=plan,
            sizes=sizes,
            is_a=is_a,
            is_row_major=is_row_major,
            pitch=pitch,
            loads_per_invocation=loads_per_invocation,
            buffer=buffer,
            private=private,
        )

    @property
    def operand(self) -> Operand:
        """The factor."""
        return self.plan.a if self.is_a else self.plan.b

    @property
    def extent(self) -> int:
        """The rows of the tile."""
        return self.tile.height if self.is_a else self.tile.width

    @property
    def tile(self) -> Tile:
        """The tile of a workgroup."""
        return self.plan.tile

    def offset(self, build: Builder, row: Index, step: Index) -> Index:
        """Return the offset of the element at a row and a step of K in the tile, in elements."""
        outer, inner = (row, step) if self.is_row_major else (step, row)
        return build.plus(build.times(outer, self.pitch), inner)

    @property
    def strides(self) -> tuple[int, int]:
        """The strides of rows and of steps in the tile, in elements."""
        return (self.pitch, 1) if self.is_row_major else (1, self.pitch)

    def _for_each_run(self, build: Builder, invocation: Index, body: Callable[[Run, Builder], None]) -> None:
        """Emit `body` for each run of a tile that an invocation loads: one for each slot of its private memory.

        A run is `vector_width` consecutive elements, which one vector load reads.
        """
        # If runs do not divide evenly among the invocations, the last slots of some invocations have no run.
        has_spare_slots = self._runs_per_line * self._lines < self.tile.invocations * self.loads_per_invocation
        for slot in range(self.loads_per_invocation):
            run = self._run_at(build, invocation, slot)
            line = run.row if self.operand.is_k_contiguous else run.step
            has_run = build.less(line, self._lines) if has_spare_slots else True
            build.when(has_run, partial(body, run))

    @property
    def _lines(self) -> int:
        """The number of lines of the tile: its rows if K is contiguous, else its steps of K."""
        return self.extent if self.operand.is_k_contiguous else self.tile.depth

    @property
    def _runs_per_line(self) -> int:
        """The number of runs of a line. They are neighbours in memory."""
        line_length = self.tile.depth if self.operand.is_k_contiguous else self.extent
        return line_length // self.operand.vector_width

    def _run_at(self, build: Builder, invocation: Index, slot: int) -> Run:
        """Return the run that an invocation loads into a slot of its private memory.

        Neighbouring invocations take neighbouring runs of a line, then the runs of the next line. A tile of 128 rows
        and 8 steps with runs of 4 along K has 2 runs in each of 128 lines. Of 256 invocations, number 5 takes run 1 of
        row 2 in slot 0.
        """
        invocations, runs_per_line = self.tile.invocations, self._runs_per_line
        # One of `invocations` and `runs_per_line` is a multiple of the other, since both are powers of two.
        line: Index
        if invocations >= runs_per_line:  # all invocations together take several lines in each slot
            run_in_line = build.remainder(invocation, runs_per_line)
            line = build.plus(build.quotient(invocation, runs_per_line), slot * (invocations // runs_per_line))
        else:  # a line takes several slots
            slots_per_line = runs_per_line // invocations
            run_in_line = build.plus(invocation, slot % slots_per_line * invocations)
            line = slot // slots_per_line
        first = build.times(run_in_line, self.operand.vector_width)
        if self.operand.is_k_contiguous:
            return Run(row=line, step=first, row_run=line, step_run=run_in_line, slot=slot)
        return Run(row=first, step=line, row_run=run_in_line, step_run=line, slot=slot)

    # Loads

    def load(self, build: Builder, invocation: Index, location: Location, iteration: Index) -> None:
        """Emit the loads of one invocation for one iteration over K, into its private memory.

        Args:
            build: The builder of the invocation's code.
            invocation: Index of the invocation.
            location: The tile of the workgroup.
            iteration: Index of the iteration over K, which has `tile.depth` steps.
        """
        pinned = build.without_load_motion()  # loads stay in the iteration that prefetches them
        self._for_each_run(pinned, invocation, partial(self._load_run, location, iteration))

    def _load_run(self, location: Location, iteration: Index, run: Run, build: Builder) -> None:
        """Emit the loads of one run, `vector_width` elements along K or along the rows, into private memory.

        A run beyond the last row is replaced by the run at the last rows: results of rows beyond the end are not
        stored, whatever they are. Steps beyond the end of K are filled with zeros, since they are added to the sums.
        """
        operand, width = self.operand, self.operand.vector_width
        rows_of_run, steps_of_run = (1, width) if operand.is_k_contiguous else (width, 1)
        row_count, step_count = (collapsed_size(build, self.sizes, dims) for dims in (operand.dims, self.plan.steps))
        # Position in the tile -> position in the product, both counted in runs.
        row_axis = _RunAxis(size=row_count, tile_extent=self.extent, run_length=rows_of_run)
        row_run, _ = row_axis.clamped(build, location.row if self.is_a else location.column, run.row_run)
        step_axis = _RunAxis(size=step_count, tile_extent=self.tile.depth, run_length=steps_of_run)
        step_run, is_in_k = step_axis.clamped(build, iteration, run.step_run)
        points = [self._point(build, location.outer, row_run, step_run, position) for position in range(width)]
        self._store_private(build, run, points, is_in_k)

    def _point(
        self, build: Builder, outer: Mapping[int, Index], row_run: Index, step_run: Index, position: int
    ) -> list[Index]:
        """Return the indices in the tensor of the factor of the element at a position in a run.

        The row and the step of the product become indices of the collapsed dimensions. If the rows are the pixels of an
        image that is 28 wide, row 389 has the indices 13 and 25. `row_run` and `step_run` are the position of the run
        in the product, in runs. `outer` has the indices of the batch loops.
        """
        operand, row, step = self.operand, row_run, step_run
        if operand.is_k_contiguous:
            step = build.linear(step_run, operand.vector_width, position)
        else:
            row = build.linear(row_run, operand.vector_width, position)
        indices = dict(outer)
        for dims, index in ((operand.dims, row), (self.plan.steps, step)):
            indices.update(zip(dims, build.split(index, [self.sizes[d] for d in dims]), strict=True))
        return [coordinate.emit(build, indices) for coordinate in operand.factor.coordinates]

    def _store_private(self, build: Builder, run: Run, points: Sequence[list[Index]], is_in_k: SSAValue | bool) -> None:
        """Emit stores of the elements of a run into private memory; of `_neutral` unless the run `is_in_k`.

        points: indices of each element of the run in the tensor of the factor.
        """
        operand, contraction = self.operand, self.plan.contraction
        if operand.vector_width > 1:
            # `factor_at` below computes the factor, such as a converted or scaled tensor, from elements of the tensor.
            # `define` lets it use the elements of one vector load instead of loading them one by one.
            tensor_value = contraction.tensor_of(operand.factor)
            loaded = load_contiguous(self.elements, build, tensor_value, points)
            for point, value in zip(points, loaded, strict=True):
                self.elements.define(build, tensor_value, point, value)
        for i, point in enumerate(points):
            value = factor_at(self.elements, build, contraction, operand.factor, point)
            value = converted(build, value, self.plan.element)
            if isinstance(is_in_k, SSAValue):
                value = build.pure(arith.SelectOp(is_in_k, value, self._neutral(build)))
            elif not is_in_k:
                value = self._neutral(build)
            build.add(memref.StoreOp.get(value, self.private, [build.index(run.slot * operand.vector_width + i)]))

    def _neutral(self, build: Builder) -> SSAValue:
        """Return the element that fills steps beyond the end of K: -0 in A, and 0 in B.

        Their product is -0 * 0 = -0, which leaves every sum unchanged, even a sum of -0.
        """
        element = self.plan.element
        if self.is_a and not isinstance(element, IntegerType):
            return build.pure(arith.ConstantOp(FloatAttr(-0.0, cast(AnyFloat, element))))
        return build.pure(arith.ConstantOp(zero_attribute(element)))

    # Stores

    def store(self, build: Builder, invocation: Index) -> None:
        """Emit the copy of the loaded elements from private memory into the tile in workgroup memory."""
        # Private memory changes in each iteration over K: loads from it must stay in the iteration.
        pinned = build.without_load_motion()
        self._for_each_run(pinned, invocation, self._store_run)

    def _store_run(self, run: Run, build: Builder) -> None:
        """Emit the stores of one run, `vector_width` elements along K or along the rows, into workgroup memory."""
        operand, bits = self.operand, scalar_width(self.plan.element)
        row_stride, step_stride = self.strides
        first = self.offset(build, run.row, run.step)
        stride = step_stride if operand.is_k_contiguous else row_stride
        for i in range(operand.vector_width):
            position = build.index(run.slot * operand.vector_width + i)  # in private memory
            value = build.add(memref.LoadOp.get(self.private, [position]))
            offset = build.value(build.plus(first, i * stride))
            store = memref.StoreOp.get(value, self.buffer, [offset])
            # The alignment of the first store lets the emitter merge the stores of a run into one vector store.
            if i == 0 and stride == 1:
                state_alignment(store, operand.vector_width * bits // 8)
            build.add(store)


@dataclass(frozen=True)
class _RunAxis:
    """Rows, or steps of K, of a product, divided into runs of elements that are loaded at once.

    Attributes:
        size: Number of rows or steps, a multiple of `run_length`: vectors are of a length that divides it.
        tile_extent: Rows or steps of a tile, a multiple of `run_length`.
        run_length: Rows or steps of a run.
    """

    size: Index
    tile_extent: int
    run_length: int

    def clamped(self, build: Builder, tile_index: Index, run_in_tile: Index) -> tuple[Index, SSAValue | bool]:
        """Return the number of a run of a tile along the axis, and whether the run is before the end of the axis.

        The number of a run beyond the end is that of the last run, so that its loads are in bounds. With runs of 4
        elements, tiles of 32 and a size of 100, which is 25 runs, run 2 of tile 3 is run 26: the result is (24, False).
        """
        run_count = build.quotient(self.size, self.run_length)
        runs_per_tile = self.tile_extent // self.run_length
        if isinstance(run_in_tile, SSAValue):
            run_in_tile = build.assume_below(run_in_tile, runs_per_tile)
        run = build.linear(tile_index, runs_per_tile, run_in_tile)  # tile_index * runs_per_tile + run_in_tile
        tiles_fill_axis = isinstance(self.size, int) and self.size % self.tile_extent == 0
        if tiles_fill_axis:
            return run, True
        exists = build.less(run, run_count)
        return build.least(run, build.minus(run_count, 1)), exists


def converted(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return a value extended or truncated to the type `to`.

    Integers are signed. An index, which has 64 bits, is truncated to any integer.
    """
    if value.type == to:
        return value
    if isinstance(to, IntegerType):
        assert isinstance(value.type, IntegerType | IndexType)
        extends = isinstance(value.type, IntegerType) and value.type.width.data < to.width.data
        return build.pure(arith.ExtSIOp(value, to) if extends else arith.TruncIOp(value, to))
    extends = scalar_width(value.type) < scalar_width(to)
    return build.pure(arith.ExtFOp(value, to) if extends else arith.TruncFOp(value, to))
