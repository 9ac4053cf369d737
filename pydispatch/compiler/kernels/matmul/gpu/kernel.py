"""Kernels of contractions with everything that is fused around them, for GPUs: dispatch function → kernel IR.

A workgroup computes a tile of C. Tiles of A and B are staged in workgroup memory, some steps of K at a time; while one
is multiplied, the invocations load their elements of the next (software pipelining). Sums stay in private memory, which
becomes registers, until the results of the dispatch are computed from them. Producers of A and B are fused into the
loads. The order of sums depends on the shape and the variant alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from pydispatch.compiler.kernels.matmul.gpu.load import PRIVATE, Location, Staging, converted, state_alignment, storage
from pydispatch.compiler.kernels.matmul.gpu.plan import (
    Plan,
    collapsed_size,
    has_skinny_rows,
    plans_of,
    tile_of,
    workgroups,
    workgroups_of,
)
from pydispatch.compiler.kernels.matmul.gpu.tiles import Tile
from pydispatch.compiler.kernels.matmul.results import starts_at_zero
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, opposite
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.mma import LANES, LaneLayout, MmaOp, RematerializeOp, adjacent_elements_of, lane_layout


def lower_contraction_gpu(source: func.FuncOp, backend: Backend, generation: int) -> Kernel | None:
    """Return the kernel of a dispatch function that is one contraction with elementwise operations, else None.

    Return None, too, if the function updates an argument, has results of less than a byte for an element, or cannot be
    tiled. `generation` is the compute capability of the target, such as 80.
    """
    match = contraction_in(source)
    if match is None:
        return None
    contraction, result_dims = match.contraction, match.result_dims
    frame = Frame(source, backend)
    # The epilogue neither updates parts of an argument, nor do its invocations share bytes of results.
    if frame.updates_arguments or any(elements_per_byte(value) > 1 for value in frame.returned):
        return None
    plans = plans_of(contraction, frame.elements, generation)
    if not plans:
        return None
    frame.bind()
    # The code of both plans, of which the number of rows chooses one at run time.
    main, *skinny = plans  # `skinny` has at most one plan, for few rows where their number is dynamic
    workgroup_id = frame.workgroup()
    if skinny:
        has_skinny = has_skinny_rows(main, frame.build, loop_sizes(frame.elements, contraction.generic))
        frame.build.when(has_skinny, lambda b: _emit(frame, b, skinny[0], result_dims, workgroup_id))
        frame.build.when(opposite(frame.build, has_skinny), lambda b: _emit(frame, b, main, result_dims, workgroup_id))
    else:
        _emit(frame, frame.build, main, result_dims, workgroup_id)
    kernel = finish(
        frame, grid=lambda elements, build: workgroups(plans, build, loop_sizes(elements, contraction.generic))
    )
    # The size of a workgroup, and how many of them a core is to run at a time, which bounds the registers of each.
    kernel.function.attributes["pyd.invocations"] = IntegerAttr(main.tile.invocations, 64)
    per_core = main.tile.workgroups_per_core
    per_core = min(per_core, 3) if skinny else per_core  # two plans take a few registers more: fewer workgroups fit
    kernel.function.attributes["pyd.groups_per_core"] = IntegerAttr(per_core, 64)
    return kernel


def _emit(frame: Frame, build: Builder, plan: Plan, result_dims: Sequence[list[int]], workgroup_id: SSAValue) -> None:
    """Emit the code of a workgroup of one plan, which computes a tile of rows by columns in a loop over K.

    `result_dims` has, for each result of the dispatch, the dimensions of the contraction's result that index it: [1, 0]
    for a result that is transposed.
    """
    elements = frame.elements
    sizes = loop_sizes(elements, plan.contraction.generic)
    # Memory: the tiles of A and of B, which all invocations read, and the sums of each invocation.
    # Beyond the end of K, A is -0 and B is 0: their products are -0, which leaves every sum as it is.
    a = Staging.of(elements, plan, plan.a, plan.tile.height, fills_negative_zero=True)
    b = Staging.of(elements, plan, plan.b, plan.tile.width, fills_negative_zero=False)
    sums = storage(elements.entry, plan.sum_type, plan.tile.slots, PRIVATE)
    # A lane (an invocation of a subgroup) has so many adjacent sums in a row, 4 of f32: it can store them as a vector.
    adjacent_sums = adjacent_elements_of(scalar_width(plan.sum_type))
    layout = lane_layout(plan.form, plan.tile.block_rows, plan.tile.block_columns, adjacent_sums)
    build.assume_below(workgroup_id, workgroups_of(plan, build, sizes))
    workgroup = _Workgroup(
        frame=frame,
        plan=plan,
        result_dims=result_dims,
        sizes=tuple(sizes),
        a=a,
        b=b,
        sums=sums,
        layout=layout,
        workgroup_id=workgroup_id,
    )
    workgroup.emit(build)


class Slot(NamedTuple):
    """An element of the result that an invocation sums up.

    Attributes:
        exists: Whether the element is in the result, or beyond the edge; the same value for slots that exist together.
        indices: Its indices in the contraction's result. If it does not exist, the indices of an element at the edge
            stand in, so that reads at them are in bounds.
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
        sums: Private memory of the sums of an invocation, in the order of `layout`.
        layout: Position in a block of each sum of an invocation.
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
        """Emit the initialization, the pipelined loop over K, and the epilogue."""
        location = self._tile_location(build, self.workgroup_id)
        iterations = build.ceil_quotient(collapsed_size(build, self.sizes, self.plan.steps), self.tile.depth)
        self._in_each_invocation(build, lambda inner, invocation: self._initialize(inner, invocation, location))
        if iterations != 0:
            self._pipeline(build, location, iterations)
        self._in_each_invocation(build, self._finish)

    def _pipeline(self, build: Builder, location: Location, iterations: Index) -> None:
        """Emit the pipelined loop over K, `iterations` chunks of steps, for the tile of the workgroup at `location`.

        Each iteration stores the tiles that the previous one has loaded, loads the next ones, and multiplies. With
        three iterations, the order is

            load 0 | store 0, load 1, multiply 0 | store 1, load 2, multiply 1 | store 2, multiply 2

        A load reads elements into the private memory of the invocations; a store copies them to workgroup memory.
        """

        def load(builder: Builder, iteration: Index) -> None:
            """Emit the loads of the tiles of one iteration to private memory."""
            self._in_each_invocation(builder, lambda inner, i: self._load(inner, i, location, iteration))

        def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit an iteration: store the loaded tiles, load those of the next iteration, and add the products."""
            self._in_each_invocation(inner, self._store_tiles)
            following = inner.plus(index, 1)

            def prefetch(builder: Builder) -> None:
                """Emit the loads of the next iteration."""
                if isinstance(following, SSAValue):
                    builder.assume_below(following, iterations)  # the condition around these loads says so
                load(builder, following)

            inner.when(inner.less(following, iterations), prefetch)
            self._in_each_invocation(inner, self._multiply)
            return []

        # The first tiles are loaded before the loop; there are none if K is empty.
        build.when(build.less(0, iterations), lambda inner: load(inner, 0))
        build.loop(0, iterations, [], body)

    def _tile_location(self, build: Builder, workgroup_id: SSAValue) -> Location:
        """Return the position of the tile of a workgroup."""
        batch, row, column = tile_of(self.plan, build, workgroup_id, self.sizes)
        outer: dict[int, Index] = dict.fromkeys(range(len(self.sizes)), 0)
        outer.update(zip(self.plan.outer, batch, strict=True))
        return Location(outer=outer, row=row, column=column)

    def _in_each_invocation(self, build: Builder, body: Callable[[Builder, Index], None]) -> None:
        """Emit a parallel loop that runs `body` in every invocation of the workgroup."""
        build.parallel(0, self.tile.invocations, body, index_below=self.tile.invocations)

    # One iteration over K

    def _load(self, build: Builder, invocation: Index, location: Location, iteration: Index) -> None:
        """Emit the loads of both factors by an invocation."""
        self.a.load(build, invocation, location.row, iteration, location, self.sizes)
        self.b.load(build, invocation, location.column, iteration, location, self.sizes)

    def _store_tiles(self, build: Builder, invocation: Index) -> None:
        """Emit the copies of the loaded elements of both factors into workgroup memory."""
        self.a.store(build, invocation)
        self.b.store(build, invocation)

    def _multiply(self, build: Builder, invocation: Index) -> None:
        """Emit the products of one block of the tile, by a subgroup of 32 invocations, and add them to `sums`."""
        tile = self.tile
        lane, row, column = self._block(build, invocation)
        left = _view(build, self.a, self.a.offset(build, row, step=0), [tile.block_rows, tile.depth], self.a.strides)
        column_stride, step_stride = self.b.strides  # the rows of a staged B are its columns
        b_offset, b_strides = self.b.offset(build, column, step=0), (step_stride, column_stride)
        right = _view(build, self.b, b_offset, [tile.depth, tile.block_columns], b_strides)
        form = StringAttr(self.plan.form)
        build.add(MmaOp(operands=[build.value(lane), left, right, self.sums], properties={"form": form}))

    def _block(self, build: Builder, invocation: Index) -> tuple[Index, Index, Index]:
        """Return the number of an invocation in its subgroup, and the first row and column of its block in the tile."""
        tile = self.tile
        lane, block = build.remainder(invocation, LANES), build.quotient(invocation, LANES)
        blocks_per_row = tile.width // tile.block_columns
        row = build.times(build.quotient(block, blocks_per_row), tile.block_rows)
        return lane, row, build.times(build.remainder(block, blocks_per_row), tile.block_columns)

    # Prologue and epilogue

    def _initialize(self, build: Builder, invocation: Index, location: Location) -> None:
        """Emit the stores that initialize the sums of an invocation."""
        pinned = build.without_load_motion()  # loads are not hoisted out of the loop over invocations
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

        A slot is one sum of the invocation, with its position in the contraction's result. `Elements.define` makes the
        sum the element there, from which elements of the results, such as `relu(sum + bias)`, are computed.

        Indices are computed again, which takes fewer registers than to retain them over the loop.
        """
        contraction, elements = self.plan.contraction, self.frame.elements
        pinned = build.without_load_motion()  # loads are not hoisted out of the loop over invocations
        slots = self._rematerialized_slots(pinned, invocation)
        for position, slot in enumerate(slots):
            total = pinned.add(memref.LoadOp.get(self.sums, [pinned.index(position)]))
            result = converted(pinned, total, contraction.acc)
            elements.define(pinned, contraction.op.results[0], slot.indices, result)
        values = [
            [elements.at(pinned, value, [slot.indices[d] for d in dims]) for slot in slots]
            for value, dims in zip(self.frame.returned, self.result_dims, strict=True)
        ]

        def store(exists: SSAValue | bool, positions: Sequence[int]) -> None:
            """Emit the stores of the slots at `positions`, unless they are beyond the edge: `exists` is false then."""
            pinned.when(exists, lambda inner: self._store(inner, values, slots, positions))

        # One branch for successive slots with the same `exists`, which is one value for slots that exist together.
        for _, group in groupby(range(len(slots)), key=lambda position: id(slots[position].exists)):
            positions = list(group)
            store(slots[positions[0]].exists, positions)

    def _rematerialized_slots(self, build: Builder, invocation: Index) -> list[Slot]:
        """Return the slots of an invocation, from indices that are computed anew."""
        opaque = build.add(RematerializeOp(operands=[build.value(invocation)], result_types=[IndexType()]))
        invocation = build.assume_below(opaque, self.tile.invocations)
        opaque_id = build.add(RematerializeOp(operands=[self.workgroup_id], result_types=[IndexType()]))
        workgroup_id = build.assume_below(opaque_id, workgroups_of(self.plan, build, self.sizes))
        return self._slots(build, invocation, self._tile_location(build, workgroup_id))

    def _store(
        self, build: Builder, values: Sequence[Sequence[SSAValue]], slots: Sequence[Slot], stored: Sequence[int]
    ) -> None:
        """Emit the stores of the slots at the positions `stored`. `values` is [result of the dispatch][slot].

        The first store of a run of adjacent columns states its alignment, so that the run can become a vector store.
        """
        for values_of_result, dims, buffer in zip(values, self.result_dims, self.frame.results, strict=True):
            run = self._run_length(dims)
            for position in stored:
                value, slot_indices = values_of_result[position], slots[position].indices
                store = memref.StoreOp.get(value, buffer, [build.value(slot_indices[d]) for d in dims])
                if run > 1 and self.layout.columns[position] % run == 0:
                    state_alignment(store, run * max(8, scalar_width(value.type)) // 8)
                build.add(store)

    def _run_length(self, dims: Sequence[int]) -> int:
        """Return the length of the runs of adjacent elements of a result that an invocation stores; 1 if it has none.

        Runs can be stored as vectors: each begins at a column that is a multiple of the length. `dims` are the
        dimensions of the contraction's result that index the result.
        """
        # The right neighbour of an invocation begins `column_step` columns after it, so that the invocation itself has
        # the columns in between.
        n, run = self.plan.contraction.n, self.layout.column_step
        size = self.sizes[n] if n is not None else None
        last_index = self.plan.contraction.generic.output_maps[0].results[dims[-1]] if dims else None
        is_along_columns = isinstance(last_index, AffineDimExpr) and last_index.position == n
        return run if is_along_columns and isinstance(size, int) and size % run == 0 else 1

    def _slots(self, build: Builder, invocation: Index, location: Location) -> list[Slot]:
        """Return whether each sum of an invocation exists, and its indices in the contraction's result.

        A subgroup computes a block of the workgroup's tile, and the layout distributes the block over its 32
        invocations, the lanes. With f32 and multiply-adds, there are 4 rows of 8 lanes, and each lane has 4x4 adjacent
        sums in every 16x32 elements: lane 10 begins at row 4 and column 8. A sum does not exist if it is beyond the
        last row or column of the result. The rows of the product may be several dimensions of the result, such as the
        rows and columns of an image, and so may its columns: their index is split into indices of these.
        """
        plan, tile, layout = self.plan, self.tile, self.layout
        lane, row, column = self._block(build, invocation)
        # The position of the lane's first sum in the tile. Lanes are in rows of `across`; neighbours are `column_step`
        # columns apart, or `row_step` rows.
        row = build.plus(row, build.times(build.quotient(lane, layout.across), layout.row_step))
        column = build.plus(column, build.times(build.remainder(lane, layout.across), layout.column_step))
        rows, columns = (collapsed_size(build, self.sizes, operand.dims) for operand in (plan.a, plan.b))
        # Each row has a test of its own; runs of `column_step` adjacent columns of an invocation share one.
        row_axis = _Axis.of_tile(build, row, location.row, tile.height, rows, neighbours=1)
        column_axis = _Axis.of_tile(build, column, location.column, tile.width, columns, neighbours=layout.column_step)
        slots: list[Slot] = []
        # Slots with the same tests of row and column, which `_Axis` returns as the same values, share the conjunction.
        conditions: dict[tuple[int, int], SSAValue | bool] = {}
        for row_offset, column_offset in zip(layout.rows, layout.columns, strict=True):
            row_exists, y = row_axis.at(row_offset)
            column_exists, x = column_axis.at(column_offset)
            key = (id(row_exists), id(column_exists))
            if key not in conditions:
                conditions[key] = both(build, row_exists, column_exists)
            # Row and column of the product -> indices of the collapsed dimensions.
            indices = dict(location.outer)
            for dims, index in ((plan.a.dims, y), (plan.b.dims, x)):
                indices.update(zip(dims, build.split(index, [self.sizes[d] for d in dims]), strict=True))
            point = [indices[d] for d in range(len(self.sizes))]
            result_indices = evaluate(build, plan.contraction.generic.output_maps[0], point)
            slots.append(Slot(exists=conditions[key], indices=result_indices))
        return slots


@dataclass(frozen=True)
class _Axis:
    """Rows or columns of the slots of an invocation, with the tests of whether they exist.

    A slot is one sum of the invocation. It exists if its row and its column are below the size of the result, which the
    last tile may exceed. `_Workgroup._slots` creates one axis for rows and one for columns, and calls `at` for each
    slot.

    A run is `run_length` adjacent indices, all below the size or all beyond it, so that one test serves them. With 100
    columns, tiles of 64 and runs of 4, the run of the columns 104 to 107 in tile 1 does not exist: `at` returns false
    and the columns 96 to 99 for it.

    Attributes:
        build: The builder of the invocation's code.
        first: The invocation's first index.
        size: Size of the dimension, number of rows or columns of the result; an SSA value if dynamic.
        run_length: Number of indices in a run.
        is_exact: Whether tiles fill the dimension, so that all indices exist.
        known_runs: Cache: offset of a run from `first` -> (whether it exists, its first index), for runs that were
            tested.
    """

    build: Builder
    first: Index
    size: Index
    run_length: int
    is_exact: bool
    known_runs: dict[int, tuple[SSAValue | bool, Index]] = field(default_factory=dict)

    @staticmethod
    def of_tile(build: Builder, offset: Index, tile: Index, extent: int, size: Index, neighbours: int) -> _Axis:
        """Return the axis of an invocation in a tile.

        Args:
            build: The builder of the invocation's code.
            offset: The invocation's first row or column in the tile, a multiple of `neighbours`.
            tile: Number of the tile along the dimension.
            extent: Rows or columns of a tile.
            size: Size of the dimension.
            neighbours: Length of a run. If the size is dynamic or no multiple of it, each index has a test of its own.
        """
        return _Axis(
            build=build,
            first=build.plus(build.times(tile, extent), offset),
            size=size,
            run_length=neighbours if isinstance(size, int) and size % neighbours == 0 else 1,
            is_exact=isinstance(size, int) and size % extent == 0,
        )

    def at(self, offset: int) -> tuple[SSAValue | bool, Index]:
        """Return whether the index at an offset from `first` exists, and the index.

        For a run beyond the end the indices of the last run are returned: reads at them are in bounds.
        """
        if self.is_exact:
            return True, self.build.plus(self.first, offset)
        start = offset // self.run_length * self.run_length  # offset of the run that has the index
        if start not in self.known_runs:
            self.known_runs[start] = self._test(self.build.plus(self.first, start))
        exists, first_of_run = self.known_runs[start]
        return exists, self.build.plus(first_of_run, offset - start)

    def _test(self, first_of_run: Index) -> tuple[SSAValue | bool, Index]:
        """Return whether a run is below the size, and its first index, or that of the last run if it is not."""
        build, size = self.build, self.size
        exists = build.less(first_of_run, build.minus(size, self.run_length - 1))  # the run's last index is below size
        return exists, build.least(first_of_run, build.minus(size, self.run_length))


def _view(build: Builder, staging: Staging, offset: Index, shape: Sequence[int], strides: Sequence[int]) -> SSAValue:
    """Emit a view of a staged tile as a matrix, from its element `offset` on, and return it. strides: in elements."""
    layout = StridedLayoutAttr(list(strides), offset if isinstance(offset, int) else None)
    type_ = MemRefType(staging.plan.element, list(shape), layout, IntegerAttr(WORKGROUP, 64))
    view = memref.ReinterpretCastOp.from_dynamic(staging.buffer, [offset], list(shape), list(strides), type_)
    return build.add(view)
