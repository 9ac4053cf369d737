"""Kernels of contractions with everything that is fused around them, for GPUs: dispatch function → kernel IR.

A workgroup computes a tile of C. Tiles of A and B are staged in workgroup memory, some steps of K at a time; while one
is multiplied, the invocations load their elements of the next (software pipelining). Sums stay in private memory, which
becomes registers, until the results of the dispatch are computed from them. Producers of A and B are fused into the
loads. The order of sums depends on the shape and the variant alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, StridedLayoutAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernel_ir.types import scalar_width
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.gpu.lower import finish
from pydispatch.compiler.kernels.loops.nest_bytes import elements_per_byte
from pydispatch.compiler.kernels.matmul.cpu.kernel import contraction_in
from pydispatch.compiler.kernels.matmul.gpu.load import Location, Staging, converted
from pydispatch.compiler.kernels.matmul.gpu.memory import PRIVATE, state_alignment, storage
from pydispatch.compiler.kernels.matmul.gpu.plan import (
    Plan,
    collapsed_size,
    has_skinny_rows,
    plans_of,
    tile_of,
    workgroups_of,
    workgroups_of_selected_plan,
)
from pydispatch.compiler.kernels.matmul.gpu.result_axis import ResultAxis
from pydispatch.compiler.kernels.matmul.gpu.tiles import Tile
from pydispatch.compiler.kernels.matmul.results import starts_at_zero
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, opposite
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.mma import LANES, LaneLayout, MmaOp, RematerializeOp, adjacent_elements_of, lane_layout


def lower_contraction_gpu(source: func.FuncOp, backend: Backend, generation: int) -> Kernel | None:
    """Return the kernel of a dispatch function that is one contraction with elementwise operations, else None.

    The kernel has the code of one plan, which states a tile and its instructions. If the number of rows is dynamic,
    the kernel may have the code of a second plan for few rows, and chooses between the two at run time.

    Return None, too, if the function updates an argument, has results of less than a byte for an element, or cannot be
    tiled. `generation` is the compute capability of the target, such as 80.
    """
    match = contraction_in(source)
    if match is None:
        return None
    contraction = match.contraction
    frame = Frame(source, backend)
    # The epilogue writes whole results: it cannot update a part of an argument. Nor can it write results of i4 and
    # shorter, of which two invocations would write elements in the same byte.
    if frame.updates_arguments or any(elements_per_byte(value) > 1 for value in frame.returned):
        return None
    plans = plans_of(contraction, frame.elements, generation)
    if not plans:
        return None
    frame.bind()  # emits the buffers of arguments and results
    _emit_plans(frame, plans, match.result_dims)

    def workgroup_count(elements: Elements, build: Builder) -> Index:
        """Return the number of workgroups of the plan in `plans` that the number of rows selects."""
        return workgroups_of_selected_plan(plans, build, loop_sizes(elements, contraction.generic))

    kernel = finish(frame, grid=workgroup_count)
    # The size of a workgroup, and how many of them a core is to run at a time, which bounds the registers of each.
    tile = plans[0].tile
    kernel.function.attributes["pyd.invocations"] = IntegerAttr(tile.invocations, 64)
    # The code of two plans takes a few registers more than that of one: 4 workgroups would not fit.
    per_core = tile.workgroups_per_core if len(plans) == 1 else min(tile.workgroups_per_core, 3)
    kernel.function.attributes["pyd.groups_per_core"] = IntegerAttr(per_core, 64)
    return kernel


def _emit_plans(frame: Frame, plans: Sequence[Plan], result_dims: Sequence[list[int]]) -> None:
    """Emit the code of a workgroup: of the only plan, or a branch between the general plan and the one for few rows."""
    main, *skinny = plans
    build, workgroup_id = frame.build, frame.workgroup()
    if not skinny:
        _emit_plan(frame, build, main, result_dims, workgroup_id)
        return
    has_few_rows = has_skinny_rows(main, build, loop_sizes(frame.elements, main.contraction.generic))
    build.when(has_few_rows, lambda inner: _emit_plan(frame, inner, skinny[0], result_dims, workgroup_id))
    has_many_rows = opposite(build, has_few_rows)
    build.when(has_many_rows, lambda inner: _emit_plan(frame, inner, main, result_dims, workgroup_id))


def _emit_plan(
    frame: Frame, build: Builder, plan: Plan, result_dims: Sequence[list[int]], workgroup_id: SSAValue
) -> None:
    """Emit the code of a workgroup of one plan, which computes a tile of the result in a loop over K.

    `result_dims` has, for each result of the dispatch, the dimensions of the contraction's result that index it: [1, 0]
    for a result that is transposed.
    """
    sizes = tuple(loop_sizes(frame.elements, plan.contraction.generic))
    # Allocate workgroup memory for the tiles of A and of B, and private memory for the sums of each invocation.
    a = Staging.of(frame.elements, plan, sizes, is_a=True)
    b = Staging.of(frame.elements, plan, sizes, is_a=False)
    sums = storage(frame.elements.entry, plan.sum_type, plan.tile.slots, PRIVATE)
    # The layout gives each lane (invocation of a subgroup) groups of adjacent sums in a row, 4 of f32, so that the lane
    # can store a group as a vector.
    adjacent_sums = adjacent_elements_of(scalar_width(plan.sum_type))
    layout = lane_layout(plan.form, plan.tile.block_rows, plan.tile.block_columns, adjacent_sums)
    build.assume_below(workgroup_id, workgroups_of(plan, build, sizes))  # later code at `build` may rely on this bound
    _Workgroup(
        frame=frame,
        plan=plan,
        result_dims=result_dims,
        sizes=sizes,
        a=a,
        b=b,
        sums=sums,
        layout=layout,
        workgroup_id=workgroup_id,
    ).emit(build)


class Slot(NamedTuple):
    """An element of the tile that an invocation sums up. The last tile may exceed the result.

    Attributes:
        exists: Whether the element is in the result; an i1 if this is known at run time only. Slots that are tested
            together share one SSA value.
        indices: Indices of the element in the contraction's result. A slot that does not exist has indices of an
            element that exists, so that reads at them are in bounds.
    """

    exists: SSAValue | bool
    indices: list[Index]


@dataclass(frozen=True)
class _Workgroup:
    """Emitter of the code of a workgroup: one tile of the contraction's result.

    Attributes:
        frame: The kernel that is emitted, with its inputs and results.
        plan: The plan.
        result_dims: For each result of the dispatch, the dimensions of the contraction's result that index it.
        sizes: Sizes of all loop dimensions.
        a, b: Emitters of the copies of the factors' tiles to workgroup memory.
        sums: Private memory of an invocation, with one sum for each slot of `layout`.
        layout: Slot of an invocation -> row and column in the block that its subgroup computes.
        workgroup_id: Index of the workgroup.
    """

    frame: Frame
    plan: Plan
    result_dims: Sequence[list[int]]
    sizes: tuple[Index, ...]
    a: Staging
    b: Staging
    sums: SSAValue
    layout: LaneLayout
    workgroup_id: SSAValue

    @property
    def tile(self) -> Tile:
        """The tile of a workgroup."""
        return self.plan.tile

    def emit(self, build: Builder) -> None:
        """Emit the initialization of the sums, the pipelined loop over K, and the epilogue."""
        location = self._tile_location(build, self.workgroup_id)
        # `plan.steps` are the loops that together count the steps of K; an iteration is for `depth` steps.
        iterations = build.ceil_quotient(collapsed_size(build, self.sizes, self.plan.steps), self.tile.depth)
        self._in_each_invocation(build, lambda inner, invocation: self._initialize(inner, invocation, location))
        if iterations != 0:  # K has steps, or an unknown number of them
            self._pipeline(build, location, iterations)
        self._in_each_invocation(build, self._finish)

    def _pipeline(self, build: Builder, location: Location, iterations: Index) -> None:
        """Emit the pipelined loop over K, `iterations` chunks of steps, for the tile of the workgroup at `location`.

        Each iteration stores the tiles that the previous one has loaded, loads the next ones, and multiplies. With
        three iterations, the order is

            load 0 | store 0, load 1, multiply 0 | store 1, load 2, multiply 1 | store 2, multiply 2

        A load reads elements into the private memory of the invocations; a store copies them to workgroup memory.
        """

        def iterate(inner: Builder, iteration: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit one of the `iterations` over K: store the loaded tiles, load the next ones, and add the products."""
            self._in_each_invocation(inner, self._store_tiles)
            self._prefetch(inner, location, inner.plus(iteration, 1), iterations)
            self._in_each_invocation(inner, self._multiply)
            return []

        # The first tiles are loaded before the loop; there are none if K is empty.
        has_steps = build.less(0, iterations)
        build.when(has_steps, lambda inner: self._load_tiles(inner, location, iteration=0))
        build.loop(0, iterations, [], iterate)

    def _prefetch(self, build: Builder, location: Location, iteration: Index, iterations: Index) -> None:
        """Emit the loads of the tiles of an iteration over K, under the condition that it is below `iterations`."""

        def load(inner: Builder) -> None:
            """Emit the loads of the tiles of `iteration`, in a branch where it is below `iterations`."""
            if isinstance(iteration, SSAValue):
                inner.assume_below(iteration, iterations)  # later code at `inner` may rely on this bound
            self._load_tiles(inner, location, iteration)

        build.when(build.less(iteration, iterations), load)

    def _load_tiles(self, build: Builder, location: Location, iteration: Index) -> None:
        """Emit the loads of the tiles of A and B of an iteration over K into private memory."""
        self._in_each_invocation(build, lambda inner, i: self._load(inner, i, location, iteration))

    def _tile_location(self, build: Builder, workgroup_id: SSAValue) -> Location:
        """Return the row and the column of a workgroup's tile, counted in tiles, and its indices of the batch loops."""
        batch, row, column = tile_of(self.plan, build, workgroup_id, self.sizes)
        outer: dict[int, Index] = dict.fromkeys(range(len(self.sizes)), 0)  # 0 for loops that are no batch dimensions
        outer.update(zip(self.plan.outer, batch, strict=True))
        return Location(outer=outer, row=row, column=column)

    def _in_each_invocation(self, build: Builder, body: Callable[[Builder, Index], None]) -> None:
        """Emit a parallel loop that runs `body` in every invocation of the workgroup."""
        build.parallel(0, self.tile.invocations, body, index_below=self.tile.invocations)

    # One iteration over K

    def _load(self, build: Builder, invocation: Index, location: Location, iteration: Index) -> None:
        """Emit the loads of both factors by an invocation."""
        self.a.load(build, invocation, location, iteration)
        self.b.load(build, invocation, location, iteration)

    def _store_tiles(self, build: Builder, invocation: Index) -> None:
        """Emit the copies of the loaded elements of both factors into workgroup memory."""
        self.a.store(build, invocation)
        self.b.store(build, invocation)

    def _multiply(self, build: Builder, invocation: Index) -> None:
        """Emit the products of one block of the tile, by a subgroup of 32 invocations, and add them to `sums`."""
        tile = self.tile
        lane, row, column = self._lane_and_block(build, invocation)
        a_offset = self.a.offset(build, row, step=0)
        a_block = _matrix_view(build, self.a, a_offset, [tile.block_rows, tile.depth], self.a.strides)
        # `Staging` stores B as [column][step]; the matrix operation reads it as [step][column].
        column_stride, step_stride = self.b.strides
        b_offset, b_strides = self.b.offset(build, column, step=0), (step_stride, column_stride)
        b_block = _matrix_view(build, self.b, b_offset, [tile.depth, tile.block_columns], b_strides)
        form = StringAttr(self.plan.form)
        build.add(MmaOp(operands=[build.value(lane), a_block, b_block, self.sums], properties={"form": form}))

    def _lane_and_block(self, build: Builder, invocation: Index) -> tuple[Index, Index, Index]:
        """Return an invocation's lane (number in its subgroup), and the first row and column of the subgroup's block.

        The row and the column are positions in the tile. With blocks of 32x64 in a tile of 128x128, invocation 100 is
        lane 4 of subgroup 3, whose block begins at row 32 and column 64.
        """
        tile = self.tile
        lane, subgroup = build.remainder(invocation, LANES), build.quotient(invocation, LANES)
        blocks_per_row = tile.width // tile.block_columns
        row = build.times(build.quotient(subgroup, blocks_per_row), tile.block_rows)
        return lane, row, build.times(build.remainder(subgroup, blocks_per_row), tile.block_columns)

    # Prologue and epilogue

    def _initialize(self, build: Builder, invocation: Index, location: Location) -> None:
        """Emit the stores that initialize the sums of an invocation: to zeros, or elements of the initial tensor."""
        pinned = build.without_load_motion()  # keeps loads of initial elements inside the loop over invocations
        initial = self.plan.contraction.generic.outputs[0]
        if starts_at_zero(initial):
            zero = pinned.add(arith.ConstantOp(zero_attribute(self.plan.sum_type)))
            for position in range(self.tile.slots):
                pinned.add(memref.StoreOp.get(zero, self.sums, [pinned.index(position)]))
            return
        for position, slot in enumerate(self._slots(pinned, invocation, location)):
            value = converted(pinned, self.frame.elements.at(pinned, initial, slot.indices), self.plan.sum_type)
            pinned.add(memref.StoreOp.get(value, self.sums, [pinned.index(position)]))

    def _finish(self, build: Builder, invocation: Index) -> None:
        """Emit the epilogue: compute the results of the dispatch from the sums, and store them.

        A slot is one sum of the invocation, with its position in the contraction's result. `Elements.define` registers
        the sum as the element at this position. `Elements.at` then computes elements of the dispatch's results, such as
        `relu(sum + bias)`, from it.

        The indices of slots are computed again: retaining them during the loop over K would take registers.
        """
        contraction, elements = self.plan.contraction, self.frame.elements
        pinned = build.without_load_motion()  # keeps loads, such as those of sums, inside the loop over invocations
        slots = self._rematerialized_slots(pinned, invocation)
        for position, slot in enumerate(slots):
            total = pinned.add(memref.LoadOp.get(self.sums, [pinned.index(position)]))
            result = converted(pinned, total, contraction.acc)
            elements.define(pinned, contraction.op.results[0], slot.indices, result)
        values = [
            [elements.at(pinned, value, [slot.indices[d] for d in dims]) for slot in slots]
            for value, dims in zip(self.frame.returned, self.result_dims, strict=True)
        ]
        # Successive slots with the same object as `exists` share one branch around their stores.
        for _, group in groupby(range(len(slots)), key=lambda position: id(slots[position].exists)):
            positions = list(group)
            exists = slots[positions[0]].exists
            pinned.when(exists, partial(self._store, values=values, slots=slots, positions=positions))

    def _rematerialized_slots(self, build: Builder, invocation: Index) -> list[Slot]:
        """Return the slots of an invocation, with indices that are computed again at `build`.

        `RematerializeOp` returns an equal id that later passes take as unknown. So they cannot reuse the indices that
        were computed from the original id, which would take registers during the loop over K.
        """
        invocation_copy = build.add(RematerializeOp(operands=[build.value(invocation)], result_types=[IndexType()]))
        workgroup_copy = build.add(RematerializeOp(operands=[self.workgroup_id], result_types=[IndexType()]))
        # The bounds of the ids, known for the originals, are stated again for the copies.
        invocation = build.assume_below(invocation_copy, self.tile.invocations)
        workgroup_id = build.assume_below(workgroup_copy, workgroups_of(self.plan, build, self.sizes))
        return self._slots(build, invocation, self._tile_location(build, workgroup_id))

    def _store(
        self, build: Builder, values: Sequence[Sequence[SSAValue]], slots: Sequence[Slot], positions: Sequence[int]
    ) -> None:
        """Emit the stores of the slots at `positions` in `slots`. `values` is [result of the dispatch][slot].

        The first store of a run of adjacent columns states its alignment, so that the run can become a vector store.
        """
        for values_of_result, dims, buffer in zip(values, self.result_dims, self.frame.results, strict=True):
            run_length = self._run_length(dims)
            for position in positions:
                value, slot_indices = values_of_result[position], slots[position].indices
                store = memref.StoreOp.get(value, buffer, [build.value(slot_indices[d]) for d in dims])
                begins_run = self.layout.columns[position] % run_length == 0
                if run_length > 1 and begins_run:
                    element_bytes = max(8, scalar_width(value.type)) // 8  # an i1 takes a byte
                    state_alignment(store, run_length * element_bytes)
                build.add(store)

    def _run_length(self, dims: Sequence[int]) -> int:
        """Return how many adjacent elements of a result an invocation stores as one vector; 1 for no vectors.

        Vectors are along N, the columns of the product. N must be the last index of the result, and its size a multiple
        of the length. `dims` has, for each index of the result, the dimension of the contraction's result that it is
        equal to: [1, 0] for a transposed result.
        """
        # The adjacent columns of an invocation: its right neighbour begins `column_step` columns later.
        n, run_length = self.plan.contraction.n, self.layout.column_step
        size = self.sizes[n] if n is not None else None
        last_index = self.plan.contraction.generic.output_maps[0].results[dims[-1]] if dims else None
        is_along_columns = isinstance(last_index, AffineDimExpr) and last_index.position == n
        has_whole_runs = isinstance(size, int) and size % run_length == 0
        return run_length if is_along_columns and has_whole_runs else 1

    def _slots(self, build: Builder, invocation: Index, location: Location) -> list[Slot]:
        """Return a slot for each sum of an invocation: whether it is in the contraction's result, and at which indices.

        `layout` gives the invocation some elements of the block that its subgroup computes.
        """
        row_axis, column_axis = self._result_axes(build, invocation, location)
        slots: list[Slot] = []
        # id of (row test, column test) -> their conjunction: `ResultAxis` returns the same object for the same test.
        conjunctions: dict[tuple[int, int], SSAValue | bool] = {}
        for row_offset, column_offset in zip(self.layout.rows, self.layout.columns, strict=True):
            row_exists, row_index = row_axis.existence_and_index(row_offset)
            column_exists, column_index = column_axis.existence_and_index(column_offset)
            key = (id(row_exists), id(column_exists))
            if key not in conjunctions:
                conjunctions[key] = both(build, row_exists, column_exists)
            slots.append(Slot(conjunctions[key], self._result_indices(build, location, row_index, column_index)))
        return slots

    def _result_axes(self, build: Builder, invocation: Index, location: Location) -> tuple[ResultAxis, ResultAxis]:
        """Return the rows and the columns of an invocation's sums, which begin at the first sum of its lane.

        A subgroup of 32 invocations, its lanes, computes a block of the workgroup's tile. The lanes form rows of
        `across` lanes. A lane begins `column_step` columns after its left neighbour, and `row_step` rows after the lane
        above. For scalar f32 instructions, there are 4 rows of 8 lanes with 4x4 sums each: lane 10 begins at row 4 and
        column 8 of the block.
        """
        plan, tile, layout = self.plan, self.tile, self.layout
        lane, block_row, block_column = self._lane_and_block(build, invocation)
        row = build.plus(block_row, build.times(build.quotient(lane, layout.across), layout.row_step))
        column = build.plus(block_column, build.times(build.remainder(lane, layout.across), layout.column_step))
        row_count, column_count = (collapsed_size(build, self.sizes, operand.dims) for operand in (plan.a, plan.b))
        # Each row has a test of its own; runs of `column_step` adjacent columns of an invocation share one.
        rows = ResultAxis.of_tile(build, row, location.row, tile.height, size=row_count, run_length=1)
        columns = ResultAxis.of_tile(
            build, column, location.column, tile.width, size=column_count, run_length=layout.column_step
        )
        return rows, columns

    def _result_indices(self, build: Builder, location: Location, row: Index, column: Index) -> list[Index]:
        """Return the indices in the contraction's result of a row and a column of the matrix product.

        The rows of the product may be several dimensions of the result, such as the rows and columns of an image: row
        61 of an image that is 28 wide has the indices 2 and 5. The same holds for columns.
        """
        indices = dict(location.outer)
        for dims, index in ((self.plan.a.dims, row), (self.plan.b.dims, column)):
            indices.update(zip(dims, build.split(index, [self.sizes[d] for d in dims]), strict=True))
        point = [indices[d] for d in range(len(self.sizes))]
        return evaluate(build, self.plan.contraction.generic.output_maps[0], point)


def _matrix_view(
    build: Builder, staging: Staging, offset: Index, shape: Sequence[int], strides: Sequence[int]
) -> SSAValue:
    """Emit a view of a staged tile as a matrix that begins at element `offset`, and return it. strides: in elements."""
    layout = StridedLayoutAttr(list(strides), offset if isinstance(offset, int) else None)
    type_ = MemRefType(staging.plan.element, list(shape), layout, IntegerAttr(WORKGROUP, 64))
    view = memref.ReinterpretCastOp.from_dynamic(staging.buffer, [offset], list(shape), list(strides), type_)
    return build.add(view)
