"""Code of a workgroup for one loop nest on a GPU, by the distribution of the nest's elements over invocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.gpu.block_code import emit_block
from pydispatch.compiler.kernels.loops.gpu.plan import INVOCATIONS, Distribution, GpuLoopPlan, parallel_sizes
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.nest_bytes import elements_per_byte
from pydispatch.compiler.kernels.loops.nest_code import emit_bytes, emit_row_values, is_stored, store_elements
from pydispatch.compiler.kernels.loops.nests import Partition, emit_inner, emit_nest
from pydispatch.compiler.kernels.loops.ordered_updates import emit_slices_in_order
from pydispatch.compiler.kernels.loops.recurrences import write_rows
from pydispatch.compiler.kernels.loops.row_storage import allocate_rows
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.ir.dialects.pyd.ordered import OrderedOp


@dataclass(frozen=True)
class GpuNestEmitter:
    """Emitter of the code of a workgroup for one nest.

    Attributes:
        frame: The kernel under construction.
        plan: The nest and its distribution.
        partition: The partition of the nest into workgroups.
    """

    frame: Frame
    plan: GpuLoopPlan
    partition: Partition

    @property
    def elements(self) -> Elements:
        """The emitter of elements of tensors."""
        return self.frame.elements

    @property
    def nest(self) -> LoopNest:
        """The nest."""
        return self.plan.nest

    def emit(self, build: Builder, group: Index) -> None:
        """Emit the code of workgroup `group`."""
        nest, distribution = self.nest, self.plan.distribution
        if distribution is Distribution.UPDATE:
            self._emit_update(build, group)
        elif distribution is Distribution.RECURRENCE:
            self._emit_ordered_rows(build, group)
        elif distribution is Distribution.IN_ORDER:
            self._emit_ordered_update(build, group)
        elif distribution is Distribution.BYTES:
            dims, per_byte = nest.dims(self.elements), elements_per_byte(nest.representative)
            emit_bytes(self.frame, nest, self.partition, build, group, dims, per_byte)
        elif self.plan.block is not None:
            emit_block(self.elements, nest, self.plan.block, build, group, nest.dims(self.elements))
        else:
            self._emit_elements_or_rows(build, group, nest.dims(self.elements))

    def _emit_elements_or_rows(self, build: Builder, group: Index, dims: list[Index]) -> None:
        """Emit an element or a row for each invocation, or a row for the workgroup; `dims` are the sizes of the nest.

        Rows may store values for their later loops.
        """
        allocate_rows(self.frame, self.nest)
        if self.plan.distribution is Distribution.ELEMENTS:
            self._emit_elements(build, group, dims)
        elif self.plan.distribution is Distribution.LANES:
            self._emit_rows_of_invocations(build, group, dims)
        else:
            self._emit_row_of_workgroup(build, group, dims)
        self.elements.forget_rows()

    def _emit_elements(self, build: Builder, group: Index, dims: list[Index]) -> None:
        """Emit a loop nest whose invocations each compute one element at a time.

        The last `plan.collapsed_count` loops are collapsed into one. Its elements, for all indices of the loops before
        it, are divided among workgroups, and those of a workgroup among its invocations. A nest over 8 x 4 x 100 whose
        last two loops are collapsed becomes one over 8 x 400, of which a workgroup may have the elements 128 to 255 at
        index 5. `dims` are the sizes of all loops.
        """
        outer_rank = len(dims) - self.plan.collapsed_count
        inner_dims = dims[outer_rank:]
        inner_size = build.product(inner_dims)
        collapsed_dims = [*dims[:outer_rank], inner_size]

        def emit_part_of_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
            """Emit the elements `low` to `high` of the collapsed loop, at the indices `outer` of the loops before."""

            def store_element(inner: Builder, collapsed_index: Index) -> None:
                """Store one element of each result: its index in the collapsed loop is split into one for each loop."""
                store_elements(self.elements, self.nest, inner, [*outer, *inner.split(collapsed_index, inner_dims)])

            is_scalar = not dims
            if is_scalar:  # a nest without loops has one element
                store_element(builder, 0)
            else:
                builder.parallel(low, high, store_element, index_below=inner_size)

        emit_nest(
            build, group, self.partition, collapsed_dims, outer_rank=len(collapsed_dims) - 1, row=emit_part_of_row
        )

    def _emit_row_of_workgroup(self, build: Builder, group: Index, dims: list[Index]) -> None:
        """Emit the row of a workgroup, whose invocations share it; `dims` are the sizes of the nest."""

        def emit_whole_row(builder: Builder, outer: list[Index], _low: Index, _high: Index) -> None:
            """Emit the row at the indices `outer`. A partition into rows does not cut them: the range has no use."""
            self._emit_row(builder, outer, dims)

        emit_nest(build, group, self.partition, dims, outer_rank=self.nest.outer_rank, row=emit_whole_row)

    def _emit_rows_of_invocations(self, build: Builder, group: Index, dims: list[Index]) -> None:
        """Emit the rows of workgroup `group`, one row for each invocation; `dims` are the sizes of the nest."""
        outer_dims = dims[: self.nest.outer_rank]

        def emit_row(builder: Builder, indices: list[Index]) -> None:
            """Emit the row at these indices of the outer dimensions."""
            self._emit_row(builder, indices, dims)

        _emit_invocations(build, group, outer_dims, emit_row)

    def _emit_row(self, build: Builder, indices: list[Index], dims: list[Index]) -> None:
        """Emit the computation of one row of the nest: all inner iterations at the outer `indices`.

        First come the reductions of the row, such as the sum of a softmax, then the stores of results that have one
        element per row (`nest.row_stores`), then the stores of results that have one element per inner iteration
        (`nest.stores`). `dims` are the sizes of all loops.
        """
        elements, nest = self.elements, self.nest
        emit_row_values(elements, build, nest, indices)
        # Row reductions may have stored the results already: in a softmax without a division, the loop of the sum
        # stores the exponentials, which are a result.
        if all(is_stored(elements, value, buffer) for value, buffer in nest.stores):
            return
        inner_dims = dims[nest.outer_rank :]
        write = partial(store_elements, elements, nest)  # of an element, from a builder and its indices
        if not inner_dims:
            write(build, indices)
        elif build.in_parallel:  # one invocation computes the row, in sequential loops
            emit_inner(build, indices, inner_dims, low=0, high=inner_dims[0], write=write)
        else:  # all invocations of the workgroup compute the row, in one parallel loop over its elements
            size = build.product(inner_dims)
            build.parallel(0, size, lambda b, i: write(b, [*indices, *b.split(i, inner_dims)]), index_below=size)

    def _emit_ordered_rows(self, build: Builder, group: Index) -> None:
        """Emit the rows of a recurrence or another operation with ordered elements: an invocation computes a row."""
        assert isinstance(self.nest.space, OrderedOp)
        op, buffers = self.nest.space, dict(self.nest.stores)

        def emit_row(builder: Builder, row: list[Index]) -> None:
            """Emit the row at these indices in the dimensions that number rows."""
            write_rows(self.elements, builder, op, buffers, rows=[row])

        _emit_invocations(build, group, parallel_sizes(self.elements, self.nest, build), emit_row)

    def _emit_ordered_update(self, build: Builder, group: Index) -> None:
        """Emit an update whose slices are written in order, since several may write the same element.

        The slices are divided into parts, where slices that may write the same element are in one part. An invocation
        writes one element of each slice of its part, in the order of the slices.
        """
        dims = parallel_sizes(self.elements, self.nest, build)  # the number of parts, and then the sizes of a slice

        def emit_invocation(builder: Builder, indices: list[Index]) -> None:
            """Emit the writes of the part, and at the indices in a slice, that are `indices`."""
            part, *indices_in_slice = indices

            def write_slice(inner: Builder, slice_index: list[Index]) -> None:
                """Emit the write of the element at `indices_in_slice` of one slice."""
                self._write_updated(inner, [*slice_index, *indices_in_slice])

            emit_slices_in_order(self.elements, builder, self._update, dims[0], part, write_slice)

        _emit_invocations(build, group, dims, emit_invocation)

    def _emit_update(self, build: Builder, group: Index) -> None:
        """Emit an update whose elements may be written in any order: each invocation writes one."""
        dims = self._update.dims(self.elements)
        outer_rank = max(0, len(dims) - 1)  # a row is all elements at one index of each dimension but the last one

        def emit_row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
            """Emit the writes of the elements `low` to `high` of the row at the indices `outer`."""
            emit_inner(builder, outer, dims[outer_rank:], low=low, high=high, write=self._write_updated)

        emit_nest(build, group, self.partition, dims, outer_rank=outer_rank, row=emit_row)

    @property
    def _update(self) -> UpdateStep:
        """The update whose written elements the nest computes, such as an insertion of a slice into a tensor."""
        assert isinstance(self.nest.space, UpdateStep)
        return self.nest.space

    def _write_updated(self, build: Builder, indices: list[Index]) -> None:
        """Emit the store of the element that the update writes at `indices` of, for example, the inserted slice."""
        value, buffer = self.nest.stores[0]
        self._update.write(self.elements, build, value, buffer, indices)


def _emit_invocations(
    build: Builder, group: Index, dims: list[Index], body: Callable[[Builder, list[Index]], None]
) -> None:
    """Emit the invocations of workgroup `group`: one for each combination of indices of `dims`, in row-major order.

    `body` emits an invocation from a builder and its indices.
    """
    count = build.product(dims)
    low = build.times(group, INVOCATIONS)
    high = build.least(build.plus(low, INVOCATIONS), count)
    build.parallel(low, high, lambda b, invocation: body(b, b.split(invocation, dims)), index_below=count)
