"""Analysis of the loop nests of a kernel by trial emission: the code of a nest is emitted once, inspected and
discarded.

A nest has *rows* if its reductions depend on the outer dimensions only. Their loops then run before the inner loops of
the row, and a workgroup computes whole rows. An expensive value of a row that several loops read is stored by the first
of these loops: in workgroup memory if the row is known to fit, else in the row of a result of the same type that is
written later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import IndexType, MemRefType, TensorType
from xdsl.ir import Attribute, Block, OpResult, SSAValue

from pydispatch.compiler.kernels.loops.columns import ColumnReduction, find_column_reductions
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.transposition import Transposition, transposition_of
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.cost import is_costly
from pydispatch.compiler.kernels.ops.elements import Elements, IndexMap, RowBuffer
from pydispatch.compiler.kernels.ops.tensors import covers, tensor_type
from pydispatch.compiler.tensor_ops.in_kernels import RULES
from pydispatch.ir.dialects.pyd.ordered import OrderedOp
from pydispatch.ir.structured import is_reduction

BYTE_BITS = 8
"""Bits of a byte."""

Store = tuple[SSAValue, SSAValue]
"""(result of the dispatch function, memref that its elements are stored into)"""


class RowReduction(NamedTuple):
    """Reduction that is emitted once per row.

    Attributes:
        value: Its result.
        nest_dims: For each axis of the result, the dimension of the nest that indexes it; -1 for an axis of size 1,
            whose index is 0.
    """

    value: SSAValue
    nest_dims: list[int]


@dataclass
class LoopNest:
    """Plan of one loop nest of a kernel: the results that it computes and stores, and how it is distributed.

    `nests_of` creates it with `stores` and `space`, `analyse` sets the other fields, and the emitters of loops read
    them. On GPUs, `plan_nest` changes some of them in between.

    A row is all elements at one index of the outer dimensions. A softmax over f32[64, 100] has `outer_rank` 1: 64 rows
    of 100 elements, whose maximum and sum are row reductions.

    Attributes:
        stores: The results, each with its buffer.
        space: The iteration space: the elements of a result, those that an update writes, or those of the results of
            a recurrence, which have equal sizes.
        outer_rank: Number of leading dimensions that are outer ones; the others are inner ones. Without rows, only the
            last dimension is inner.
        by_rows: Whether the nest has rows: a reduction depends on outer dimensions only, and runs once per row. A
            workgroup, or an invocation of a GPU, then computes whole rows.
        row_stores: Results that have one element per row, each with its buffer.
        row_reductions: The reductions that run before the inner loops of a row, producers first.
        row_storage: Value that a loop of a row stores for later loops of the row -> the result whose row, which is
            written later, serves as its memory; None for workgroup memory. A softmax with rows that are too long for
            workgroup memory stores the exponentials in the row of its result. The last loop reads them there, and
            replaces them by the quotients.
        columns: The reductions over outer dimensions (`columns.py`), producers first, if a workgroup computes a range
            of columns, which are the indices of the last dimension; else empty.
        transposition: The dimension along which operands are contiguous, if it is not the last one of the results;
            else None.
    """

    stores: list[Store]
    space: SSAValue | UpdateStep | OrderedOp
    outer_rank: int = 0
    by_rows: bool = False
    row_stores: list[Store] = field(default_factory=list)
    row_reductions: list[RowReduction] = field(default_factory=list)
    row_storage: dict[SSAValue, SSAValue | None] = field(default_factory=dict)
    columns: list[ColumnReduction] = field(default_factory=list)
    transposition: Transposition | None = None

    @property
    def representative(self) -> SSAValue:
        """The first result, for properties that all results of the nest have in common.

        These are the sizes, and whether elements have less than a byte, so that bytes contain several elements.
        """
        value, _buffer = self.stores[0]
        return value

    def emit_row_reductions(self, elements: Elements, build: Builder, indices: list[Index]) -> None:
        """Emit the reductions of a row before its inner loops, which then reuse the values.

        `indices` has the index of the row in each outer dimension.
        """
        # `nest_dims`: for each axis of the reduction's result, the dimension that indexes it; -1 for an axis of size 1.
        for value, nest_dims in self.row_reductions:
            # This emits the reduction, and caches the value for later calls with the same indices.
            elements.at(build, value, [0 if dim < 0 else indices[dim] for dim in nest_dims])

    def dims(self, elements: Elements) -> list[Index]:
        """Return the sizes of the dimensions of the nest: those of the iteration space `space`."""
        if isinstance(self.space, UpdateStep):
            return self.space.dims(elements)
        result = self.space.res[0] if isinstance(self.space, OrderedOp) else self.space
        return elements.dims(result)

    def all_stores(self) -> list[Store]:
        """Return the results with one element per row, then the others, each with its buffer."""
        return [*self.row_stores, *self.stores]


@dataclass
class Trial:
    """The outcome of a trial emission of a nest: where its code was emitted.

    Attributes:
        elements: Tensors of the trial, which recorded all computed elements, reductions and loads.
        dims: Sizes of the dimensions of the nest.
        levels: Builder of the code before the loops, then of the body of each loop, outermost first.
        indices: Counter of the loop over each dimension.
    """

    elements: Elements
    dims: list[Index]
    levels: list[Builder]
    indices: list[Index]


def analyse(frame: Frame, nests: list[LoopNest]) -> list[LoopNest]:
    """Decide how each nest of a kernel is computed: set the fields of the nests, and return the remaining nests.

    A nest is the loops that compute the results of one shape. A trial emits its code into a block that is discarded.

    Set rows, stored values, column reductions and the transposed dimension. Nests of results with one element per row
    are merged into the nest of the rows. Nests keep their order, except that recurrences, which need no analysis, are
    moved to the end.

    Example: a function returns `y[i, j] = x[i, j] - m[i]`, an f32[64, 100], and the row maxima `m`, an f32[64]. In the
    trial of the nest of `y`, the reduction of `m` is emitted inside one of the two loops. So this nest has rows, with
    `outer_rank` 1. The nest of `m` is merged into it: `row_stores` has `m`, and `row_reductions` its reduction.
    """
    recurrences = [nest for nest in nests if isinstance(nest.space, OrderedOp)]
    nests = [nest for nest in nests if not isinstance(nest.space, OrderedOp)]
    # Which nests have rows, and how many dimensions count them.
    for nest in nests:
        trial = emit_trial(frame, nest, depth=None)
        # The depth of a builder is its number of enclosing loops. A reduction with fewer than the nest has does not
        # depend on the inner loops: it is one of rows.
        depths = [builder.depth for _, builder in trial.elements.emitted_reductions if builder.depth < len(trial.dims)]
        nest.by_rows = bool(depths)
        # The loops around the innermost of these reductions count the rows. Without rows, only the last loop is inner.
        nest.outer_rank = max(depths) if depths else max(0, len(trial.dims) - 1)
    joined = _join_row_results(frame, nests)
    # How the nests with rows store values of a row, and which of the others have columns or transposed operands.
    for nest in joined:
        if nest.by_rows and _set_row_reductions(frame, nest):
            nest.row_storage = _choose_row_storage(frame, nest)
        if not nest.by_rows and not isinstance(nest.space, UpdateStep):
            trial = emit_trial(frame, nest, depth=None)
            elements = trial.elements  # which recorded what the nest computes and loads
            if trial.indices:  # a nest over a scalar has none
                nest.columns = find_column_reductions(elements, elements.reduced_elements, trial.indices)
            if not elements.emitted_reductions:
                result_bits = max(bits_of(tensor_type(value).element_type) for value, _ in nest.stores)
                nest.transposition = transposition_of(elements.loads, trial.indices, trial.dims, result_bits)
    return [*joined, *recurrences]


def _set_row_reductions(frame: Frame, nest: LoopNest) -> bool:
    """Set `nest.row_reductions`, the reductions that run before the inner loops of a row.

    Return False, and set none, if the index of a reduction's result is neither an outer index nor 0.
    """
    trial = emit_trial(frame, nest, depth=nest.outer_rank)
    outer = trial.indices[: nest.outer_rank]
    for value, builder, indices in trial.elements.reduced_elements:
        if builder.depth > nest.outer_rank:
            continue  # it depends on an inner loop, and stays in it
        if any(i not in outer and i != 0 for i in indices):  # a computed index, such as i + 1
            nest.row_reductions.clear()
            return False
        nest_dims = [outer.index(i) if i in outer else -1 for i in indices]  # -1: the index is 0
        nest.row_reductions.append(RowReduction(value, nest_dims))
    return True


def emit_trial(frame: Frame, nest: LoopNest, depth: int | None) -> Trial:
    """Emit the code of a nest into a discarded block, and return the trial: what was emitted, and where.

    Every element is emitted in the outermost loop where its indices are defined (`Elements.at`). So for a softmax over
    f32[64, 100], the builders of its reductions have depth 1: inside of the loop over 64, outside of that over 100.

    `depth` is the number of outer loops. Row reductions and row results are emitted inside of these, before the inner
    loops, as the kernel will emit them. `depth` is None as long as the row reductions are not known: each reduction is
    then emitted where its result is read.
    """
    elements = probe(frame)
    # One loop for each dimension, all nested, before any code: `levels[d]` is the builder inside of d loops.
    dims = nest.dims(elements)
    levels, indices = [elements.entry], list[Index]()
    for size in dims:
        block = Block(arg_types=[IndexType()])
        levels.append(levels[-1].nested(block))
        indices.append(levels[-1].assume_counts_to(block.args[0], size))
    if depth is not None:
        nest.emit_row_reductions(elements, levels[depth], indices[:depth])
        for value, _ in nest.row_stores:
            elements.at(levels[depth], value, indices[:depth])
    for value, _ in nest.stores:
        _emit_element(elements, levels[-1], nest, value, indices)
    return Trial(elements=elements, dims=dims, levels=levels, indices=indices)


def _emit_element(elements: Elements, build: Builder, nest: LoopNest, value: SSAValue, indices: list[Index]) -> None:
    """Emit the element of the result `value` that the nest computes at `indices`.

    The indices of the nest of an update, such as an inserted slice, are those of the slice. The element has another
    position in the result.
    """
    if not isinstance(nest.space, UpdateStep):
        elements.at(build, value, indices)
        return
    update = nest.space
    position = update.position(elements, build, indices)  # emits the computation of the position, as the kernel does
    if update.is_only_update:  # the element that the update writes is the element of the result
        update.element(elements, build, indices)
    else:  # a later update may overwrite the element: compute it from all updates
        elements.at(build, value, position)


def _join_row_results(frame: Frame, nests: list[LoopNest]) -> list[LoopNest]:
    """Merge nests whose results have one element per row into a nest with these rows, and return the remaining nests.

    Row sums of n elements, say, are computed in the loop over rows of a nest over n x m. The reductions of both nests
    then run once per row, and equal ones are emitted once. A nest over n x m that has no rows gets rows: its
    `outer_rank` becomes 1. Its `row_stores` become the row sums.

    Only nests that reduce are merged: the others have no reduction to share. Nests that update a tensor in place are
    not merged, nor are nests with elements of fewer than 8 bits, which iterate over bytes.
    """
    elements = frame.elements
    # Merge each nest into one of higher rank whose outer dimensions are the dimensions of the nest, if there is one.
    by_rank = sorted(nests, key=lambda n: -len(n.dims(elements)))  # the highest rank first
    merged_nests: list[LoopNest] = []
    for nest in by_rank:
        dims = nest.dims(elements)
        reduces = any(isinstance(v, OpResult) and _reduces(v) for v, _ in nest.stores)
        nest_of_rows = None  # the nest that this one is merged into
        for other in merged_nests:
            other_dims = other.dims(elements)
            has_outer_dims = len(other_dims) > len(dims) > 0 and other_dims[: len(dims)] == dims
            has_same_rows = other.outer_rank == len(dims) or not other.by_rows  # a nest without rows gets these
            is_update = isinstance(other.space, UpdateStep) or isinstance(nest.space, UpdateStep)
            has_whole_bytes = all(bits_of(_element(v)) >= BYTE_BITS for v, _ in (*nest.stores, *other.stores))
            if has_outer_dims and has_whole_bytes and has_same_rows and reduces and not is_update:
                nest_of_rows = other  # of several, the last one, which has the lowest rank
        if nest_of_rows is None:
            merged_nests.append(nest)
        else:
            nest_of_rows.by_rows, nest_of_rows.outer_rank = True, len(dims)
            nest_of_rows.row_stores += nest.stores
    # The remaining nests, in their original order.
    position = {id(nest): i for i, nest in enumerate(nests)}
    return sorted(merged_nests, key=lambda nest: position[id(nest)])


def _reduces(value: OpResult) -> bool:
    """Return whether a reduction is among the operations that compute a value."""
    pending, visited = [value], set[SSAValue]()
    while pending:
        operand = pending.pop()
        if operand in visited:
            continue
        visited.add(operand)
        if is_reduction(operand.op):
            return True
        pending += [o for o in operand.op.operands if isinstance(o, OpResult) and isinstance(o.type, TensorType)]
    return False


def _choose_row_storage(frame: Frame, nest: LoopNest) -> dict[SSAValue, SSAValue | None]:
    """Choose the values of a row that are stored for its later loops, and where; return `LoopNest.row_storage`.

    Candidates are values whose first loop is a reduction that covers the whole row. A result is stored in its own row.
    An expensive value that several loops read is stored in workgroup memory if the row is known to fit, else in the row
    of a result of the same type that the innermost loop alone writes, and in which no value is stored yet. The
    innermost loop overwrites it element by element, so it may read it at the indices of the result only.

    Example: in a softmax, the loop of the sum computes `e = exp(x - maximum)`, and the loop of the result `r = e / sum`
    reads it again. The storage is `{e: None}`, workgroup memory, for rows of up to `Backend.row_bytes`; else `{e: r}`.
    """
    # The candidates: emit the nest as it will be computed, into a discarded block, and see which loops compute each
    # value.
    trial = emit_trial(frame, nest, depth=nest.outer_rank)
    innermost_loop = trial.levels[-1]  # stores the results; the other builders belong to reductions
    loops = {v: builders for v, builders in _loops_over_row(trial, nest).items() if builders[0] is not innermost_loop}
    results = {value for value, _ in nest.stores}
    free_results = [v for v, _ in nest.stores if v not in loops]  # in whose rows no value is stored yet
    storage: dict[SSAValue, SSAValue | None] = {}
    row_dims = trial.dims[nest.outer_rank :]
    row_elements = prod(size if isinstance(size, int) else 0 for size in row_dims)  # meaningful if all are static
    is_static = all(isinstance(size, int) for size in row_dims)
    # The memory of each candidate that is stored.
    for value, builders in loops.items():
        if value in results:
            storage[value] = value  # in its own row of the result
        elif len(builders) > 1 and is_costly(value):
            bits = bits_of(_element(value))
            if bits < BYTE_BITS:  # rows of such elements share bytes: the value is computed by each loop
                continue
            if is_static and row_elements * bits // BYTE_BITS <= frame.backend.row_bytes:
                storage[value] = None  # in workgroup memory
                continue
            fitting = [v for v in free_results if _element(v) == _element(value)]
            if fitting and _is_read_in_place(trial, value):
                storage[value] = fitting[0]  # in the row of another result, which is written later
                free_results.remove(fitting[0])
    return storage


def _loops_over_row(trial: Trial, nest: LoopNest) -> dict[OpResult, list[Builder]]:
    """Return, for each value that loops of a trial compute for a whole row, the bodies of these loops in order.

    A trial is an emission of the nest that is only analyzed, and then discarded.
    """
    row = trial.indices[: nest.outer_rank]
    bodies: dict[OpResult, list[Builder]] = {}
    for value, builder, indices in trial.elements.computed_elements:
        has_rank_of_nest = len(indices) == len(trial.dims)
        is_in_loop_over_row = builder.depth > nest.outer_rank
        if not isinstance(value, OpResult) or not has_rank_of_nest or not is_in_loop_over_row:
            continue
        if covers(builder, row, indices, trial.dims):  # the loops of the builder visit all elements of the row
            bodies.setdefault(value, []).append(builder)
    return bodies


def _is_read_in_place(trial: Trial, value: SSAValue) -> bool:
    """Return whether the innermost loop of a nest reads a value only at the indices of the elements that it stores.

    The value may then be stored where this loop stores a result: each element is read before it is overwritten. Return
    False, too, if an element of the value is computed between the loops of the nest: the innermost loop might load it
    after it has stored another element there. `trial` is an emission of the nest that is only analyzed.
    """
    innermost_loop = trial.levels[-1]
    for computed, builder, indices in trial.elements.computed_elements:
        if computed is not value:
            continue
        is_in_innermost_loop = innermost_loop in builder.chain()
        is_between_loops = not is_in_innermost_loop and builder in trial.levels
        is_at_other_indices = is_in_innermost_loop and list(indices) != trial.indices
        if is_between_loops or is_at_other_indices:
            return False
    return True


def _element(value: SSAValue) -> Attribute:
    """Return the element type of a tensor."""
    return tensor_type(value).element_type


def allocate_rows(frame: Frame, nest: LoopNest) -> None:
    """Allocate the memory of the values that each row of a nest stores for its later loops, and register it."""
    elements = frame.elements
    dims = nest.dims(elements)
    buffers = dict(nest.stores)
    elements.forget_rows()
    for value, result in nest.row_storage.items():
        if result is not None:  # the buffer of a result has the indices of the value
            elements.row_buffers[value] = RowBuffer(buffers[result], index_map=None, dims=dims)
            continue
        row_dims = dims[nest.outer_rank :]
        size = 1
        for n in row_dims:
            assert isinstance(n, int)  # `_choose_row_storage` stores dynamic rows in results
            size *= n
        row = elements.fresh(_element(value), size)
        elements.row_buffers[value] = RowBuffer(row, index_map=_offset_in_row(nest.outer_rank, row_dims), dims=dims)


def _offset_in_row(outer_rank: int, row_dims: list[Index]) -> IndexMap:
    """Return the map from indices of a nest to the row-major offset within a row.

    `row_dims` has the sizes of the dimensions of a row, all but the first `outer_rank` ones.
    """
    return lambda build, indices: [build.linear_index(indices[outer_rank:], row_dims)]


def probe(frame: Frame) -> Elements:
    """Return an Elements that emits into a detached block, with the same tensors as the kernel `frame`.

    A nest is emitted there on trial: its code is analyzed, and then discarded. Arguments of the block stand for the
    buffers and scalar arguments of the kernel.
    """
    block = Block()
    build = Builder(block, frame.source)
    elements = Elements(frame.source, build, RULES, frame.elements.reassociate)

    def block_argument(type_: Attribute) -> SSAValue:
        """Append an argument of this type to the block, and return it. A size or index is never negative."""
        argument = block.insert_arg(type_, len(block.args))
        if isinstance(type_, IndexType):
            build.assume_not_negative(argument)  # recorded for arithmetic on the argument
        return argument

    # The number of elements, if all tensors are accessed as one dimension.
    is_flat_dynamic = isinstance(frame.elements.flat, SSAValue)
    # A static number, or None, is taken over; a dynamic one becomes an argument of the block.
    elements.flat = block_argument(IndexType()) if is_flat_dynamic else frame.elements.flat
    # The arguments of the dispatch function. Elements of a tensor are loaded from the buffer that is registered for it.
    for argument in frame.source.body.block.args:
        if isinstance(argument.type, TensorType):
            buffer = frame.buffers[frame.tensors.index(argument)]
            elements.materialize(argument, block_argument(buffer.type))
        else:
            elements.scalars[argument] = block_argument(argument.type)
    # The values that the kernel has stored in memory so far: nests load them instead of computing them again.
    for value in frame.elements.stored_values():
        type_ = MemRefType(tensor_type(value).element_type, tensor_type(value).get_shape())
        elements.materialize(value, block_argument(type_))
    return elements
