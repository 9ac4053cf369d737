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

from xdsl.dialects import arith, memref, scf, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.types import scalar_width
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.gpu.plan import Operand, Plan, collapsed_size
from pydispatch.compiler.kernels.matmul.gpu.tiles import Tile
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.compiler.tensor_ops.rules.joins import is_in_source, pad_amounts

PRIVATE = 5
"""Number of the memory space of a memref that is private to an invocation."""

ACCESS_BYTES = 16
"""Size in bytes of the widest access. Rows of a tile are padded by as much, so that they begin in different banks of
workgroup memory."""


def storage(build: Builder, element: Attribute, size: int, space: int) -> SSAValue:
    """Allocate `size` elements of workgroup memory or of an invocation's own memory, aligned for the widest access.

    space: WORKGROUP or PRIVATE.
    """
    allocation = memref.AllocOp if space == WORKGROUP else memref.AllocaOp
    op = allocation.get(element, ACCESS_BYTES, shape=[size])
    op.results[0]._type = MemRefType(element, [size], NoneAttr(), IntegerAttr(space, 64))
    return build.add(op)


def state_alignment(op: Operation, alignment: int) -> None:
    """State the alignment of a load or store in bytes, at most that of the widest access."""
    op.attributes["alignment"] = IntegerAttr(min(ACCESS_BYTES, alignment), 64)


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
        operand: The factor.
        extent: Rows of the tile.
        is_row_major: Whether the tile is stored by rows, not by steps of K: for tensor cores, if K is contiguous.
        pitch: Elements between rows, or steps, of the tile; padded to spread them over the memory banks.
        loads_per_invocation: Runs of `operand.vector_width` consecutive elements that an invocation loads.
        buffer: The tile, in workgroup memory.
        private: Memory of an invocation, for the runs that it has loaded and not yet stored in `buffer`.
        fills_negative_zero: Whether steps beyond the end of K are filled with -0, not 0.
    """

    elements: Elements
    plan: Plan
    operand: Operand
    extent: int
    is_row_major: bool
    pitch: int
    loads_per_invocation: int
    buffer: SSAValue
    private: SSAValue
    fills_negative_zero: bool

    @staticmethod
    def of(elements: Elements, plan: Plan, operand: Operand, extent: int, fills_negative_zero: bool) -> Staging:
        """Return the staging of a factor, after allocating its tile in workgroup memory and its registers for loads.

        Tiles for tensor cores are stored as their operand is: by rows if K is contiguous, else by steps of K. All other
        tiles are stored by steps, so that one load reads several adjacent rows (or columns of B) of a step.

        A tile of 128 rows and 8 steps of f32 that is stored by steps has 8 lines of 128 elements. The pitch, from one
        line to the next, is 132: 16 bytes of padding.

        Args:
            elements: Tensors of the dispatch function.
            plan: The plan of the contraction.
            operand: The factor.
            extent: Number of rows of the tile, or of columns for B.
            fills_negative_zero: Whether steps beyond the end of K are filled with -0 instead of 0.
        """
        tile, bits = plan.tile, scalar_width(plan.element)
        is_row_major = plan.form == "tensor" and operand.is_k_contiguous
        line_length, line_count = (tile.depth, extent) if is_row_major else (extent, tile.depth)
        pitch = line_length + max(1, ACCESS_BYTES * 8 // bits)  # lines of the tile begin in different memory banks
        # The vector loads of the tile, divided among the invocations: -(-a // b) is a / b rounded up.
        loads_per_invocation = -(-extent * tile.depth // operand.vector_width // tile.invocations)
        buffer = storage(elements.entry, plan.element, line_count * pitch, WORKGROUP)
        private = storage(elements.entry, plan.element, loads_per_invocation * operand.vector_width, PRIVATE)
        return Staging(
            elements=elements,
            plan=plan,
            operand=operand,
            extent=extent,
            is_row_major=is_row_major,
            pitch=pitch,
            loads_per_invocation=loads_per_invocation,
            buffer=buffer,
            private=private,
            fills_negative_zero=fills_negative_zero,
        )

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

    def _for_each_run(self, build: Builder, invocation: Index, body: Callable[[Builder, Run], None]) -> None:
        """Emit `body` for each run of a tile that an invocation loads.

        A run is `vector_width` consecutive elements, which one vector load reads. A line is the runs of the tile that
        are neighbours in memory: a row if K is contiguous, else a step of K. Neighbouring invocations take neighbouring
        runs of a line, then the runs of the next line. Each invocation takes `loads_per_invocation` runs, one for each
        slot of its private memory.

        A tile of 128 rows and 8 steps with runs of 4 along K has 2 runs in each of 128 lines. Of 256 invocations,
        number 5 takes run 1 of row 2.
        """
        operand, tile, invocations = self.operand, self.tile, self.tile.invocations
        line_length, lines = (tile.depth, self.extent) if operand.is_k_contiguous else (self.extent, tile.depth)
        runs_per_line = line_length // operand.vector_width
        # If runs do not divide evenly among the invocations, the last slots of some invocations have no run.
        has_spare_slots = runs_per_line * lines < invocations * self.loads_per_invocation

        def emit_run(run: Run, has_run: SSAValue | bool) -> None:
            """Emit `body` for a run of the invocation, under the condition `has_run`: True if it is known to hold."""
            build.when(has_run, lambda inner: body(inner, run))

        # One of `invocations` and `runs_per_line` is a multiple of the other, since both are powers of two.
        for slot in range(self.loads_per_invocation):
            if invocations >= runs_per_line:  # all invocations together take several lines in each slot
                run_in_line = build.remainder(invocation, runs_per_line)
                line = build.plus(build.quotient(invocation, runs_per_line), slot * (invocations // runs_per_line))
            else:  # a line takes several slots
                slots_per_line = runs_per_line // invocations
                run_in_line = build.plus(invocation, slot % slots_per_line * invocations)
                line = slot // slots_per_line
            first = build.times(run_in_line, operand.vector_width)
            if operand.is_k_contiguous:
                run = Run(row=line, step=first, row_run=line, step_run=run_in_line, slot=slot)
            else:
                run = Run(row=first, step=line, row_run=run_in_line, step_run=line, slot=slot)
            has_run = build.less(line, lines) if has_spare_slots else True
            emit_run(run, has_run)

    # Loads

    def load(
        self,
        build: Builder,
        invocation: Index,
        tile_index: Index,
        iteration: Index,
        location: Location,
        sizes: Sequence[Index],
    ) -> None:
        """Emit the loads of one invocation for one iteration over K, into its private memory.

        Args:
            build: The builder of the invocation's code.
            invocation: Index of the invocation.
            tile_index: Index of the tile along the rows of A, or the columns of B.
            iteration: Index of the iteration over K, which has `tile.depth` steps.
            location: The tile of the workgroup, of which the outer indices are read.
            sizes: Sizes of all loop dimensions.
        """
        pinned = build.without_load_motion()  # loads stay in the iteration that prefetches them
        # A run is `vector_width` consecutive elements, which one vector load reads.
        self._for_each_run(pinned, invocation, partial(self._load_run, tile_index, iteration, location, sizes))

    def _load_run(
        self, tile_index: Index, iteration: Index, location: Location, sizes: Sequence[Index], build: Builder, run: Run
    ) -> None:
        """Emit the loads of one run, `vector_width` elements along K or along the rows, into private memory.

        A run beyond the last row is replaced by the run at the last rows: results of rows beyond the end are not
        stored, whatever they are. Steps beyond the end of K are filled with zeros, since they are added to the sums.

        The position of an element in the tile becomes a row and a step of the product, and these the indices of the
        collapsed dimensions. With tiles of 128 rows, row 5 of tile 3 is row 389; if the rows are the pixels of an image
        that is 28 wide, it has the indices 13 and 25.

        Args:
            tile_index: Index of the tile along the rows of A, or the columns of B.
            iteration: Index of the iteration over K, which has `tile.depth` steps.
            location: The tile of the workgroup, of which the outer indices are read.
            sizes: Sizes of all loop dimensions.
            build: The builder of the invocation's code.
            run: The run.
        """
        operand, steps, width = self.operand, self.plan.steps, self.operand.vector_width
        row_count, step_count = collapsed_size(build, sizes, operand.dims), collapsed_size(build, sizes, steps)
        rows_of_run, steps_of_run = (1, width) if operand.is_k_contiguous else (width, 1)
        # Position in the tile -> position in the product, both counted in runs.
        row_run, _ = self._clamped_run(
            build, block=tile_index, extent=self.extent, run_in_block=run.row_run, length=rows_of_run, size=row_count
        )
        step_run, is_in_k = self._clamped_run(
            build,
            block=iteration,
            extent=self.tile.depth,
            run_in_block=run.step_run,
            length=steps_of_run,
            size=step_count,
        )
        # The indices of each element of the run in the tensor of the factor.
        points: list[list[Index]] = []
        for i in range(width):
            if operand.is_k_contiguous:
                row, step = row_run, build.linear(step_run, width, i)
            else:
                row, step = build.linear(row_run, width, i), step_run
            indices = dict(location.outer)
            for dims, index in ((operand.dims, row), (steps, step)):
                indices.update(zip(dims, build.split(index, [sizes[d] for d in dims]), strict=True))
            points.append(self._coordinates(build, indices))
        self._store_private(build, run, points, is_in_k)

    def _store_private(self, build: Builder, run: Run, points: Sequence[list[Index]], is_in_k: SSAValue | bool) -> None:
        """Emit stores of the elements of a run into private memory.

        Args:
            build: The builder of the invocation's code.
            run: The run.
            points: Indices of each element of the run in the tensor of the factor.
            is_in_k: Whether the run's steps are before the end of K. If not, 0 or -0 is stored for its elements.
        """
        operand, contraction = self.operand, self.plan.contraction
        if operand.vector_width > 1:
            # `factor_at` below computes the factor, such as a converted or scaled tensor, from elements of the tensor.
            # `define` lets it use the elements of one vector load instead of loading them one by one.
            tensor_value = contraction.tensor_of(operand.factor)
            for point, value in zip(points, self._load_contiguous(build, tensor_value, points), strict=True):
                self.elements.define(build, tensor_value, point, value)
        for i, point in enumerate(points):
            value = factor_at(self.elements, build, contraction, operand.factor, point)
            value = converted(build, value, self.plan.element)
            if isinstance(is_in_k, SSAValue):
                value = build.pure(arith.SelectOp(is_in_k, value, self._neutral(build)))
            elif not is_in_k:
                value = self._neutral(build)
            build.add(memref.StoreOp.get(value, self.private, [build.index(run.slot * operand.vector_width + i)]))

    def _clamped_run(
        self, build: Builder, block: Index, extent: int, run_in_block: Index, length: int, size: Index
    ) -> tuple[Index, SSAValue | bool]:
        """Return the number of a run along a dimension, and whether the run is before the end of the dimension.

        The number of a run beyond the end is that of the last run, so that its loads are in bounds.

        With runs of 4 elements, tiles of 32 and a size of 100, which is 25 runs, run 2 of tile 3 is run 26: the result
        is (24, False).

        Args:
            build: Receives the code.
            block: Number of the tile along rows or columns, or of the chunk of K.
            extent: Elements of a tile or chunk along the dimension, a multiple of `length`.
            run_in_block: Number of the run in the tile or chunk.
            length: Elements of a run along the dimension.
            size: Size of the dimension, a multiple of `length`: otherwise `_vector_width` does not choose this length.
        """
        count = build.quotient(size, length)
        per_block = extent // length
        if isinstance(run_in_block, SSAValue):
            run_in_block = build.assume_below(run_in_block, per_block)
        run = build.linear(block, per_block, run_in_block)  # block * per_block + run_in_block
        blocks_fill_dimension = isinstance(size, int) and size % extent == 0
        if blocks_fill_dimension:
            return run, True
        exists = build.less(run, count)
        return build.least(run, build.minus(count, 1)), exists

    def _coordinates(self, build: Builder, indices: Mapping[int, Index]) -> list[Index]:
        """Return the indices in the tensor of the factor that belong to `indices`: loop of the contraction -> index."""
        return [coordinate.emit(build, indices) for coordinate in self.operand.factor.coordinates]

    def _load_contiguous(self, build: Builder, value: SSAValue, points: Sequence[list[Index]]) -> list[SSAValue]:
        """Emit the loads of the elements of a run, at the indices `points` of an argument or a padded argument.

        A run is consecutive elements in memory, such as 4 of f32. Return the elements. The first load states the
        alignment of the run, so that the emitter can merge all loads to one vector load. Either all elements of a run
        are padding or none is: a single branch decides, and the loads stay in it.
        """
        # An argument: a load for each element.
        value = source_of(value)  # the argument or pad that views lead to
        if not isinstance(value, OpResult):
            values = [self.elements.at(build, value, point) for point in points]
            load = values[0].owner
            assert isinstance(load, memref.LoadOp)
            state_alignment(load, self.operand.vector_width * scalar_width(values[0].type) // 8)
            return values
        # A pad: an `scf.if` with the loads from its source in one branch, and the padding in the other.
        pad = value.op
        assert isinstance(pad, tensor.PadOp)
        is_in_pad_source = is_in_source(self.elements, build, pad, points[0])
        low, _ = pad_amounts(self.elements, pad)
        then_block, else_block = Block(), Block()
        inner = build.nested(then_block, pins_loads=True)
        unpadded = [[inner.minus(i, low_amount) for i, low_amount in zip(point, low, strict=True)] for point in points]
        values = self._load_contiguous(inner, pad.source, unpadded)
        inner.add(scf.YieldOp(*values))
        inner = build.nested(else_block, pins_loads=True)
        inner.add(scf.YieldOp(*(self._padding(inner, pad, point) for point in points)))
        if not isinstance(is_in_pad_source, SSAValue):  # a bool: known at compile time
            is_in_pad_source = build.pure(arith.ConstantOp(IntegerAttr(int(is_in_pad_source), 1)))
        choice = scf.IfOp(is_in_pad_source, [v.type for v in values], Region(then_block), Region(else_block))
        build.add(choice)
        return list(choice.results)

    def _padding(self, build: Builder, pad: tensor.PadOp, point: Sequence[Index]) -> SSAValue:
        """Return the padding element at the indices `point` of the padded tensor."""
        block = pad.region.block
        mapping: dict[SSAValue, SSAValue] = {
            argument: build.value(i) for argument, i in zip(block.args, point, strict=True)
        }
        # `clone_block` needs a `point` only for `linalg.index`: here the indices are arguments of the block.
        (padding,) = clone_block(self.elements, build, block, mapping, point=[])
        return padding

    def _neutral(self, build: Builder) -> SSAValue:
        """Return the element whose products leave sums unchanged: 0, or -0 if `fills_negative_zero`.

        With -0 in A and 0 in B, a product is -0 * 0 = -0, which leaves even a sum of -0 as it is.
        """
        element = self.plan.element
        if self.fills_negative_zero and not isinstance(element, IntegerType):
            return build.pure(arith.ConstantOp(FloatAttr(-0.0, cast(AnyFloat, element))))
        return build.pure(arith.ConstantOp(zero_attribute(element)))

    # Stores

    def store(self, build: Builder, invocation: Index) -> None:
        """Emit the copy of the loaded elements from private memory into the tile in workgroup memory.

        A run is the `vector_width` consecutive elements that the invocation has loaded at once.
        """
        # Private memory changes in each iteration over K: loads from it must stay in the iteration.
        pinned = build.without_load_motion()
        self._for_each_run(pinned, invocation, self._store_run)

    def _store_run(self, build: Builder, run: Run) -> None:
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
