"""Rules that replace `scatter`, `gather`, `map_store` and `map_load`. A rule gets the operation and a builder."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import LoopBody, element_of, require_tensors
from pydispatch.compiler.normalize.moves import projection
from pydispatch.ir.dialects.iree_linalg_ext.indexing import (
    GatherOp,
    MapLoad,
    MapStore,
    MapStoreOp,
    ScatterLike,
    ScatterOp,
)
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of
from pydispatch.ir.dialects.util.scalars import OptimizationBarrierOp


def _exclusive_destination(build: Build, destination: SSAValue) -> SSAValue:
    """Emit an optimization barrier, and return its result: a destination with no other reader, so that the update is
    made in place.
    """
    return build.add(OptimizationBarrierOp(operands=[[destination]], result_types=[[destination.type]])).results[0]


def _is_exclusive(destination: SSAValue) -> bool:
    """Return whether a destination is the result of an optimization barrier, as the rules of this file emit them.

    Then a rule has emitted the operation that updates the destination, and must not replace that operation again.
    """
    return isinstance(destination.owner, OptimizationBarrierOp)


def _scatter(op: Operation, build: Build) -> None:
    """Rewrite a scatter to one without a mask, with a destination that nothing else reads: it is updated in place."""
    assert isinstance(op, ScatterLike)
    require_tensors(op)
    has_mask = len(op.inputs) > 2
    if isinstance(op, ScatterOp) and _is_exclusive(op.outputs[0]) and not has_mask:
        return  # it has the form that this rule creates
    slices, indices, *mask = op.inputs
    if mask:  # masked-out slices get indices out of bounds, where a scatter writes nothing
        indices = _masked(build, indices, mask[0])
    body = op.detach_region(op.body)
    destination = _exclusive_destination(build, op.outputs[0])
    scatter = ScatterOp(
        operands=[[slices, indices], [destination]], result_types=[[op.outputs[0].type]],
        properties={"dimension_map": op.dimension_map, "unique_indices": op.unique_indices}, regions=[body],
    )  # fmt: skip
    build.replace(*build.add(scatter).res)


def _masked(build: Build, indices: SSAValue, mask: SSAValue) -> SSAValue:
    """Return the indices, with those whose mask is not set replaced by -1, which is outside every tensor."""
    rank = len(shape_of(indices.type))
    element = element_of(indices)
    body = LoopBody([element, IntegerType(1), element])
    index, is_set, _ = body.block.args  # the last is the old element of the result
    body.finish(body.select(is_set, index, body.cast(body.index(-1), element, unsigned=False)))
    every_index = AffineMap.identity(rank)
    # The mask has the leading dimensions of the indices: one bit for all coordinates of a slice.
    bit_of_slice = projection(rank, range(len(shape_of(mask.type))))
    structure = Structure((every_index, bit_of_slice, every_index), parallel=(True,) * rank)
    assert isinstance(indices.type, TensorType)
    out = build.empty(indices.type, build.dynamic_dims(indices))
    return generic(build, structure, [indices, mask], [out], body.block)[0]


def _gather(op: Operation, build: Build) -> None:
    """Replace a gather by a generic over the result whose body reads the index and then the element.

    For a source of 10x20 that is indexed in dimension 0, and indices of 4x1:

        slices of one row, result 4x20:       result[b, j] = source[indices[b, 0], j]
        windows of 3 rows, result 4x3x20:     result[b, r, j] = source[indices[b, 0] + r, j]

    The leading loops, here b, enumerate the slices; the others are the offsets in a slice. A slice whose mask is 0 has
    the elements of the output operand.
    """
    assert isinstance(op, GatherOp)
    require_tensors(op)
    source, _indices, *mask = op.inputs
    rank = len(shape_of(op.outputs[0].type))
    body = LoopBody([*(IntegerType(1) for _ in mask), element_of(source)])  # a bit of the mask, the output's element
    # The element, combined with the output's by the body, or the output's if the slice is masked out.
    value = body.extract(source, _source_index(op, body, rank))
    *is_wanted, old_element = body.block.args
    if op.body is not None:
        (value,) = body.inline(op.body, [value, old_element])
    if is_wanted:
        value = body.select(is_wanted[0], value, old_element)
    # The mask, if any, has one bit for each slice, the output an element for all loops.
    maps = (*(projection(rank, range(op.windows().batch)) for _ in mask), AffineMap.identity(rank))
    out = op.outputs[0]
    build.replace(*generic(build, Structure(maps, parallel=(True,) * rank), mask, [out], body.finish(value)))


def _source_index(op: GatherOp, body: LoopBody, rank: int) -> list[SSAValue]:
    """Emit the index in the source of the element that an iteration of the `rank` loops reads.

    It has the coordinates that the indices of the gather state, plus the offsets in the slice.
    """
    source, indices, *_ = op.inputs
    windows = op.windows()  # `windows.batch` is the number of leading loops
    loop_indices = [body.add(IndexOp(d)) for d in range(rank)]
    batch, offsets = loop_indices[: windows.batch], loop_indices[windows.batch :]
    source_index: list[SSAValue | None] = [None] * len(shape_of(source.type))
    for position, d in enumerate(op.indexed):
        # Without a last dimension, `indices` has one coordinate for each slice.
        last_index = [body.index(position)] if len(shape_of(indices.type)) > windows.batch else []
        source_index[d] = body.as_index(body.extract(indices, [*batch, *last_index]))
    # Dimension of the source that each offset in a slice runs along.
    retained_dims = windows.tensor_dims_of_slice(
        slice_rank=rank - windows.batch, rank=len(source_index), indexed=op.indexed
    )
    # An indexed dimension with an offset is one of a window, such as the rows r of the example.
    for d, offset in zip(retained_dims, offsets, strict=True):
        coordinate = source_index[d]
        source_index[d] = offset if coordinate is None else body.plus(coordinate, offset)
    return [p for p in source_index if p is not None]


def _map_store(op: Operation, build: Build) -> None:
    """Give a store through an index map a destination that nothing else reads, so that it is updated in place.

    `op` is a `map_store`, or a `map_scatter`, its former name: that becomes a `map_store`. `MapStore` is the base of
    both.
    """
    assert isinstance(op, MapStore)
    require_tensors(op)
    if isinstance(op, MapStoreOp) and _is_exclusive(op.output):
        return  # it has the form that this rule creates
    body = op.detach_region(op.body)
    destination = _exclusive_destination(build, op.output)
    store = MapStoreOp(operands=[op.input, destination], result_types=[[op.output.type]], regions=[body])
    result = build.add(store).res
    assert result is not None
    build.replace(result)


def _map_load(op: Operation, build: Build) -> None:
    """Replace a `map_load` by a generic over the output whose body computes the index and extracts the element.

    The body of a `map_load` maps an index of the output to (index of the input, padding). The output has the element
    of the input at this index, or the padding if the index is out of bounds.
    """
    assert isinstance(op, MapLoad)
    require_tensors(op)
    rank = len(shape_of(op.output.type))
    body = LoopBody([element_of(op.output)])
    *source_index, padding = body.inline(op.body, [body.add(IndexOp(d)) for d in range(rank)])
    # An index out of bounds is read, too, without a fault: kernels clamp it. The padding then replaces the element.
    value = body.extract(op.input, source_index)
    for d, index in enumerate(source_index):
        inside = body.both(body.less(body.index(-1), index), body.less(index, build.dim(op.input, d)))
        value = body.select(inside, value, padding)
    structure = Structure((AffineMap.identity(rank),), parallel=(True,) * rank)
    build.replace(*generic(build, structure, inputs=[], outputs=[op.output], body=body.finish(value)))


ROWS: dict[str, Row] = {
    "iree_linalg_ext.scatter": _scatter,
    "tm_tensor.scatter": _scatter,
    "iree_linalg_ext.gather": _gather,
    "iree_linalg_ext.map_store": _map_store,
    "iree_linalg_ext.map_scatter": _map_store,
    "iree_linalg_ext.map_load": _map_load,
    "iree_linalg_ext.map_gather": _map_load,
}
"""Name of an operation → function that replaces it."""
