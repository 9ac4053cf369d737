"""Updates of globals at computed positions: the rows that they overwrite are saved first.

A global is loaded, some of its rows are replaced, and it is stored. The runtime updates its memory in place, provided
that it can restore the rows should the call fail, and that other calls can still read them meanwhile. It knows which
bytes `tensor.insert_slice` writes. The positions of a scatter are values of tensors, so this pass adds operations that
compute the position of each row and read its old elements, and passes them to the runtime by `pyd.save_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, Use
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.analysis.in_place import BARRIER, destination_operand
from pydispatch.compiler.analysis.kinds import inputs_of, is_pure, is_view
from pydispatch.compiler.flatten.globals import name_of
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.normalize.build import Build
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import LoopBody
from pydispatch.compiler.normalize.moves import projection
from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.flow.base import ShapedCall
from pydispatch.ir.dialects.iree_linalg_ext.indexing import MapStoreOp, ScatterOp
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of
from pydispatch.ir.dialects.pyd.save_rows import SaveRowsOp
from pydispatch.ir.dialects.util.dialect import GlobalLoadOp, GlobalStoreOp
from pydispatch.ir.functions import RETURNS


def save_updated_rows(function: Operation) -> None:
    """Insert `pyd.save_rows` after each load of a global of static sizes whose rows scatters replace.

    The runtime can then restore these rows if the call fails, so that the scatters update the global's memory in place.
    A global gets no `pyd.save_rows` if other operations may write its memory, or if the positions of rows depend on its
    value or on operations with effects. The first update then copies the whole global.
    """
    for block in function.regions[0].blocks:
        for op in list(block.ops):
            if not isinstance(op, GlobalLoadOp) or not isinstance(op.result.type, TensorType):
                continue
            updates = _updates_of(op, op.result.type)
            rows = [update_rows for update in updates if (update_rows := _rows_of(update)) is not None]
            if not updates or len(rows) < len(updates):  # the rows of an update are not known
                continue
            insertion_point = _hoist_positions(op, rows, updates)  # the operation after the computation of positions
            if insertion_point is not None:
                _save(op, insertion_point, op.result.type, rows)


@dataclass(frozen=True)
class _Rows:
    """Rows of a tensor that an update overwrites.

    A row is all elements of the destination with the same indices in its leading dimensions, the position of the row.
    A scatter of 3x2 slices of 16 elements into a tensor<4x5x16xf32>, with the indices %i : tensor<3x2x2xi32>, has

        depth = 2, batch = (3, 2), inputs = [%i]

    and the slice at [a, b] overwrites the row at position (i[a, b, 0], i[a, b, 1]). `_rows_of` creates an instance for
    each update, and `_positions` calls `coordinates` once.
    """

    update: ScatterOp | MapStoreOp  # the operation
    depth: int  # number of leading dimensions of the destination that a position states; the others make up a row
    # Sizes of the leading dimensions that count rows, of the indices of a scatter or the input of a map_store.
    batch: Sequence[int]
    inputs: Sequence[SSAValue]  # values from which positions are computed

    def coordinates(self, body: LoopBody, batch: Sequence[SSAValue]) -> tuple[list[SSAValue], SSAValue | None]:
        """Emit the position in the destination, `depth` coordinates, of the row at index `batch` of the update.

        Return the coordinates, and the condition that the row is written; None for a row that is always written. The
        coordinates may be out of bounds: the update then ignores the row.

        Args:
            body: Body of the loops over the batch, which the operations are appended to.
            batch: Indices of these loops.
        """
        if isinstance(self.update, MapStoreOp):
            # The body maps an index of the input to an index of the destination, and a bit that states whether the
            # element is written. A row's position is that of its first element: the other indices are 0.
            zeros = [body.index(0)] * (len(self.update.body.block.args) - len(batch))
            *destination_index, is_written = body.inline(self.update.body, [*batch, *zeros])
            return destination_index[: self.depth], is_written
        _updates, indices, *_ = self.update.inputs
        # The last dimension of the indices has the coordinates of a row. It may be missing if there is only one.
        has_coordinate_axis = len(shape_of(indices.type)) > len(batch)
        positions = [[*batch, body.index(n)] if has_coordinate_axis else list(batch) for n in range(self.depth)]
        return [body.as_index(body.extract(indices, position)) for position in positions], None


def _rows_of(update: Operation) -> _Rows | None:
    """Return the rows that a scatter or map_store overwrites; None for other updates, and for parts of rows.

    A row has all elements along the innermost dimensions: those that the positions of the update do not state.
    """
    if isinstance(update, ScatterOp):
        return _rows_of_scatter(update)
    return _rows_of_map_store(update) if isinstance(update, MapStoreOp) else None


def _rows_of_scatter(update: ScatterOp) -> _Rows | None:
    """Return the rows that a scatter writes; None if it does not write whole rows.

    A row is all elements of the output with the same indices in the leading dimensions, which the positions state.

    A scatter of slices : tensor<3x2x16xf32> into a tensor<4x5x16xf32>, with indices : tensor<3x2x2xi32> and the indexed
    dimensions [0, 1], has depth 2 and 3x2 rows of 16 elements.
    """
    slices, indices = update.inputs
    windows = update.windows()  # how the dimensions of the slices map to those of the output
    out_shape = shape_of(update.outputs[0].type)
    depth = len(update.indexed)  # dimensions of the output that an index states
    # The first `windows.batch` dimensions of `slices` count slices; the others are those of one slice.
    slice_shape = list(shape_of(slices.type)[windows.batch :])
    # Dimension of the output for each dimension of one slice.
    out_dims = windows.tensor_dims_of_slice(slice_rank=len(slice_shape), rank=len(out_shape), indexed=update.indexed)
    row_shape = [1 if d < depth else out_shape[d] for d in out_dims]  # one element along each indexed dimension
    # Whole rows: positions state the leading dimensions, in order, and slices have the full size in all others.
    if update.indexed != list(range(depth)) or slice_shape != row_shape:
        return None
    return _Rows(update, depth, batch=shape_of(indices.type)[: windows.batch], inputs=[indices])


def _rows_of_map_store(update: MapStoreOp) -> _Rows | None:
    """Return the rows of a map_store: the innermost dimensions that it maps to themselves, in their whole size.

    The body takes the index of an element of the input. It yields its index in the output, and a mask: whether the
    element is stored. The last dimension, of 16 elements, makes up a row in

        %r = iree_linalg_ext.map_store %in into %out {
        ^bb0(%i: index, %j: index):
          %p = tensor.extract %positions[%i] : tensor<2xindex>
          iree_linalg_ext.yield %p, %j, %true : index, index, i1
        } : tensor<2x16xf32> into tensor<8x16xf32> -> tensor<8x16xf32>

    so that the depth is 1, the batch [2], and the inputs are the values from outside, %positions and %true.

    Return None if the number of rows is dynamic.
    """
    block, in_shape, out_shape = update.body.block, shape_of(update.input.type), shape_of(update.output.type)
    row_dims = _dims_of_rows(update)
    batch = in_shape[: len(in_shape) - row_dims]
    # Values from outside that the body reads.
    inputs = [v for op in block.ops for v in op.operands if v.owner is not block and v.owner not in block.ops]
    return None if DYNAMIC in batch else _Rows(update, depth=len(out_shape) - row_dims, batch=batch, inputs=inputs)


def _dims_of_rows(update: MapStoreOp) -> int:
    """Return the number of innermost dimensions that a map_store maps to themselves, in their whole size.

    At least one dimension of the output is left for positions.
    """
    block, in_shape, out_shape = update.body.block, shape_of(update.input.type), shape_of(update.output.type)
    terminator = block.last_op
    assert terminator is not None
    row_dims = 0
    while row_dims < min(len(in_shape), len(out_shape) - 1):
        in_dim, out_dim = len(in_shape) - 1 - row_dims, len(out_shape) - 1 - row_dims
        # The index is yielded as it is, and neither another coordinate nor the mask depends on it.
        argument = block.args[in_dim]
        is_same_index = terminator.operands[out_dim] is argument and argument.uses.get_length() == 1
        if not is_same_index or in_shape[in_dim] != out_shape[out_dim]:
            break
        row_dims += 1
    return row_dims


def _updates_of(load: GlobalLoadOp, type_: TensorType[Attribute]) -> list[Operation]:
    """Return the updates that lead from a load of a global to its store, in order.

    They are the operations that compute %1 and %2 in

        %0 = util.global.load @cache : tensor<8x16xf32>
        %1 = iree_linalg_ext.scatter ... outs(%0 : tensor<8x16xf32>) ...
        %2 = iree_linalg_ext.scatter ... outs(%1 : tensor<8x16xf32>) ...
        util.global.store %2, @cache : tensor<8x16xf32>

    The list is empty if anything else may write the memory of the global, or if the global is not stored. It is also
    empty if the size of the global is dynamic or 0, or its elements have no whole bytes. Other operations may read the
    tensors.

    Args:
        load: The load.
        type_: Type of the global.
    """
    # The runtime saves rows of a fixed number of bytes: elements that share bytes are left out. Types without a known
    # width, such as complex numbers, have whole bytes. A tensor of size 0 has no row to save.
    has_whole_bytes = (bit_width(type_.element_type) or 8) % 8 == 0
    has_rows = type_.has_static_shape() and 0 not in type_.get_shape()
    if not has_whole_bytes or not has_rows:
        return []
    updates: list[Operation] = []
    value: SSAValue = load.result
    is_stored = False
    while True:
        next_update: Operation | None = None  # the only one that overwrites `value`
        for use in value.uses:
            op = use.operation
            update = _update_at(use)
            if update is not None and update.parent is load.parent and next_update is None:
                next_update = update
            elif isinstance(op, GlobalStoreOp):
                is_stored |= op.parent is load.parent and name_of(op) == name_of(load)
            elif not _is_read(use):  # a second update, an update in another block, or an unknown operation
                return []
        if next_update is None:
            return updates if is_stored else []
        updates.append(next_update)
        value = next_update.results[0]


def _update_at(use: Use) -> Operation | None:
    """Return the update that overwrites the used tensor, also through an optimization barrier; None if none does."""
    op, index = use.operation, use.index
    # A barrier returns operand `index` as result `index`. Here the update must be the only reader of this result.
    if op.name == BARRIER and op.results[index].uses.get_length() == 1:
        (inner,) = op.results[index].uses
        op, index = inner.operation, inner.index
    return op if destination_operand(op) == index else None


def _is_read(use: Use) -> bool:
    """Return whether a use only reads a tensor: the user does not write its memory and, if the user is a view, which
    shares that memory, no user of the view writes it. An operation of unknown effect counts as a writer.
    """
    op = use.operation
    if isinstance(op, ShapedCall):
        return op.operands[use.index] not in op.overwritten_arguments()
    if is_view(op):
        return all(_is_read(inner) for result in op.results for inner in result.uses)
    # An operation with a rule in `compiler/tensor_ops` computes new tensors from its operands. Only an update, such as
    # tensor.insert_slice, writes the memory of an operand: its destination. `destination_operand` is None for others.
    if rule_of(op) is not None:
        return destination_operand(op) != use.index
    return op.name in (*RETURNS, "tensor.extract", "tensor.dim")


def _hoist_positions(load: GlobalLoadOp, rows: Sequence[_Rows], updates: Sequence[Operation]) -> Operation | None:
    """Move the operations that compute the positions of rows directly after a load, where the rows are to be saved.

    The order load, update A, positions of B, update B becomes load, positions of B, update A, update B. Then the rows
    of all updates can be saved before the first one overwrites any of them.

    Return the operation after them. Return None, and move nothing, if they have effects, or depend on the load or on an
    update.

    Args:
        load: The load of the global.
        rows: The rows whose positions are needed.
        updates: The updates of the global.
    """
    block = load.parent
    assert block is not None
    # The operations of the block that the positions depend on.
    needed = _producers_in(block, [value for update_rows in rows for value in update_rows.inputs])
    to_move = _movable_after(load, needed)
    # Positions that depend on the load or on an update cannot be computed before the first update.
    if to_move is None or load in needed or not needed.isdisjoint(updates):
        return None
    last: Operation = load
    for op in to_move:
        if last.next_op is not op:
            op.detach()
            block.insert_op_after(op, last)
        last = op
    return last.next_op


def _movable_after(load: GlobalLoadOp, needed: set[Operation]) -> list[Operation] | None:
    """Return the operations of `needed` after a load, in order; None if one of them cannot move to the load."""
    movable: list[Operation] = []
    stored: set[str] = set()  # globals that are stored between the load and `op`
    op = load.next_op
    while op is not None:
        if isinstance(op, GlobalStoreOp):
            stored.add(name_of(op))
        if op in needed:
            # A load of a global may move, but not before a store to the same global.
            is_movable_load = isinstance(op, GlobalLoadOp) and name_of(op) not in stored
            if not is_pure(op) and not is_movable_load:
                return None
            movable.append(op)
        op = op.next_op
    return movable


def _producers_in(block: Block, values: Sequence[SSAValue]) -> set[Operation]:
    """Return the operations of a block that compute values, directly or as inputs of other such operations."""
    producers, pending = set[Operation](), list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, OpResult) and value.op.parent is block and value.op not in producers:
            producers.add(value.op)
            pending += inputs_of(value.op)
    return producers


def _save(load: GlobalLoadOp, following: Operation, type_: TensorType[Attribute], rows: Sequence[_Rows]) -> None:
    """Insert a `pyd.save_rows` for each update before `following`, and let readers of the load read the last result.

    Each passes the old elements of the rows to the runtime, which restores the rows if the call fails. For a load %0
    and an update that replaces two of 8 rows, it inserts

        %p = ... : tensor<2xi64>         // positions of the rows
        %s = ... : tensor<2x16xf32>      // elements of these rows of %0
        %1 = pyd.save_rows %0 rows %p are %s : tensor<8x16xf32>, tensor<2xi64>, tensor<2x16xf32> -> tensor<8x16xf32>

    and the update reads %1 instead of %0.

    Args:
        load: The load of the global.
        following: The operation before which they are inserted.
        type_: Type of the global.
        rows: The rows that each update overwrites, in the order of the updates.
    """
    readers = list(load.result.uses)
    build = Build(following)
    value: SSAValue = load.result
    for update_rows in rows:
        positions = _positions(build, update_rows, type_)
        saved = _old_rows(build, update_rows, type_, load.result, positions)
        value = build.add(SaveRowsOp(operands=[value, positions, saved], result_types=[type_])).result
    for use in readers:
        use.operation.operands[use.index] = value


def _positions(build: Build, rows: _Rows, type_: TensorType[Attribute]) -> SSAValue:
    """Emit the index of each row that an update overwrites, -1 for a row that it ignores, and return the i64 tensor.

    A row is all elements with the same indices in the first `rows.depth` dimensions of the tensor `type_`. The index
    counts rows in row-major order of these dimensions: row (2, 3) of [4, 5, ...] has index 13. A row is ignored if the
    update does not write it, or if it is out of bounds.
    """
    sizes = shape_of(type_)[: rows.depth]
    rank = len(rows.batch)
    # The body of the loops over the batch: the row index, or -1 if the row is not written. `is_written` begins with the
    # condition of the update, None if it writes all rows, and gets the bounds of each coordinate.
    body = LoopBody([i64])
    coordinates, is_written = rows.coordinates(body, [body.add(IndexOp(d)) for d in range(rank)])
    row = body.index(0)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        in_bounds = body.both(body.less(body.index(-1), coordinate), body.less(coordinate, body.index(size)))
        is_written = in_bounds if is_written is None else body.both(is_written, in_bounds)
        row = body.plus(body.times(row, body.index(size)), coordinate)
    assert is_written is not None
    row_index = body.cast(body.select(is_written, row, body.index(-1)), i64, unsigned=False)
    # The loops, with an empty tensor as their output.
    dynamic = [build.dim(rows.inputs[0], d) for d, size in enumerate(rows.batch) if size == DYNAMIC]
    empty = build.empty(TensorType(i64, rows.batch), dynamic)
    structure = Structure((AffineMap.identity(rank),), parallel=(True,) * rank)
    return generic(build, structure, inputs=[], outputs=[empty], body=body.finish(row_index))[0]


def _old_rows(
    build: Build, rows: _Rows, type_: TensorType[Attribute], whole: SSAValue, positions: SSAValue
) -> SSAValue:
    """Emit a copy of the rows of the tensor `whole` at `positions`, and return it.

    Its dimensions are those of `positions`, then those of a row. For positions [5, -1] in a tensor<8x16xf32>, it is the
    tensor<2x16xf32> of the rows 5 and 0. The position -1 stands for a row that the update ignores: the runtime does not
    use the copy of row 0.

    Args:
        build: Receives the operations.
        rows: The rows that the update overwrites.
        type_: Type of `whole`, of static shape.
        whole: The value of the global.
        positions: Row numbers in row-major order of the leading dimensions, from `_positions`.
    """
    shape, element = shape_of(type_), type_.element_type
    batch = shape_of(positions.type)
    count = math.prod(shape[: rows.depth])
    flat = TensorType(element, [count, *shape[rows.depth :]])
    # The leading dimensions that a position states become one, whose index is the number of a row: 4x5x16 becomes
    # 20x16.
    groups = [list(range(rows.depth)), *([d] for d in range(rows.depth, len(shape)))]
    source = build.collapse(whole, flat, groups) if rows.depth > 1 else whole
    # The loops run over the dimensions of `positions` and those of a row. The body reads the number of a row, clamps it
    # to valid ones, and reads the element of this row.
    rank = len(batch) + len(shape) - rows.depth
    body = LoopBody([i64, element])
    row = body.maximum(body.as_index(body.block.args[0]), body.index(0))
    row = body.minimum(row, body.index(count - 1))
    value = body.extract(source, [row, *(body.add(IndexOp(d)) for d in range(len(batch), rank))])
    maps = (projection(rank, range(len(batch))), AffineMap.identity(rank))
    dynamic = build.dynamic_dims(positions)
    empty = build.empty(TensorType(element, [*batch, *shape[rows.depth :]]), dynamic)
    structure = Structure(maps, parallel=(True,) * rank)
    return generic(build, structure, inputs=[positions], outputs=[empty], body=body.finish(value))[0]
