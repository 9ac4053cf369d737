"""Replacement of elements and slices at computed positions. Positions outside of the tensor are ignored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, i32, i64
from xdsl.ir import Block, OpResult, Region, SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I32, I64, DType
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.indexing import ScatterOp
from pydispatch.operations.control import for_
from pydispatch.operations.elementwise import apply_several, binary, convert
from pydispatch.operations.gathers import GatherAxes
from pydispatch.operations.indexing import CoordinateBuilder, with_an_element
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars, elements_of, scalars_of
from pydispatch.operations.shapes import broadcast_to, expand_dims, full, iota, reshape, transpose
from pydispatch.operations.slicing import concat, slice_, slice_axis

Combine = Callable[[Scalars, Scalar, Scalar], Scalar]
"""Function combine(scalars, element of the tensor, element of an update) -> new element."""
CombineSeveral = Callable[[Scalars, Sequence[Scalar], Sequence[Scalar]], Sequence[Scalar]]
"""Function combine(scalars, elements of the tensors, elements of their updates) -> new elements."""


def scatter(
    builder: Builder, tensors: Sequence[Tensor], indices: Tensor, updates: Sequence[Tensor], axes: GatherAxes,
    combine: CombineSeveral, unique: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Combine slices into tensors of one shape, each at its coordinates in `indices`, and return the tensors.

    Elements of slices outside of the tensors are ignored.

    Example: update s of updates [4, 5] is combined into column indices[s, 0] of a tensor [5, 9], for indices [4, 1],
    start_index_map (1,), collapsed_dims (1,) and offset_dims (1,). The tensor is transposed to [9, 5], so that the
    indexed axis is the leading one. The updates become slices [4, 1, 5], and slice s is combined into row
    indices[s, 0]. The result is transposed back to [5, 9].

    Args:
        builder: The builder.
        tensors: The tensors before the scatter.
        indices: Coordinates of the slices.
        updates: Slices for each tensor.
        axes: Correspondence of axes, as in a gather, with `updates` in place of its result.
        combine: Function of old and new elements.
        unique: Whether no element is in two slices; otherwise slices are combined in order.
    """
    if not axes.start_index_map and not axes.batching_dims:
        return _without_coordinates(builder, tensors, indices, updates, axes, combine)
    # The scatter is brought into the form of `_scattered`, whose indexed axes are the leading ones. Until then slices
    # are [*batch axes, *axes of x], and `positions` has their coordinates [*batch axes] along each axis in `indexed`.
    x = tensors[0]
    indices = _widened(builder, indices)
    indexed, positions = _positions(builder, indices, axes)
    slices = [_with_all_axes(builder, update, x, axes) for update in updates]
    batch = slices[0].rank - x.rank  # number of axes that count the slices
    # A slice with several elements along an indexed axis is divided into slices of one element.
    for index, d in enumerate(indexed):
        if slices[0].shape[batch + d] != 1:
            slices, positions = _divided(builder, slices, positions, batch, d, index)
            batch += 1
    # Along other axes a slice that is smaller than x begins at 0, so these become indexed axes too.
    for d in range(x.rank):
        if d not in indexed and slices[0].shape[batch + d] != x.shape[d]:
            indexed.append(d)
            positions.append(full(builder, 0, positions[0].shape, indices.dtype))

    # Make the indexed axes the leading ones, of the slices and of the tensors.
    order = [*indexed, *(d for d in range(x.rank) if d not in indexed)]
    slices = [transpose(builder, slice_, [*range(batch), *(batch + d for d in order)]) for slice_ in slices]
    if batch == 0:  # there is a single slice
        slices = [expand_dims(builder, slice_, axes=[0]) for slice_ in slices]
        positions = [expand_dims(builder, p, axes=[0]) for p in positions]
        batch = 1
    rows = concat(builder, [expand_dims(builder, p, [batch]) for p in positions], batch)  # [*batch axes, indexed axes]
    indexed_first = [transpose(builder, tensor_, order) for tensor_ in tensors]
    results = _scattered(builder, indexed_first, rows, slices, depth=len(indexed), combine=combine, unique=unique)
    return [transpose(builder, result, [order.index(d) for d in range(x.rank)]) for result in results]


def _positions(builder: Builder, indices: Tensor, axes: GatherAxes) -> tuple[list[int], list[Tensor]]:
    """Return the axes of the tensors with a coordinate of each slice, and the coordinates [*batch axes] along each.

    Along a batching axis the coordinate is the slice's own index.
    """
    positions = [_column(builder, indices, axes, n) for n in range(len(axes.start_index_map))]
    lead = axes.indices_batch_dims(indices.rank)
    batch_shape = tuple(indices.shape[d] for d in lead)
    for n in axes.indices_batching_dims:
        positions.append(iota(builder, batch_shape, lead.index(n), indices.dtype))
    return [*axes.start_index_map, *axes.batching_dims], positions


def _divided(
    builder: Builder, slices: Sequence[Tensor], positions: Sequence[Tensor], batch: int, axis: int, index: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Divide slices into slices of one element along `axis` of the tensor. Return these and their coordinates.

    Each element then has a coordinate of its own: a slice of 3 elements at coordinate 5 becomes slices at 5, 6 and 7.
    With `axis` 0, slices [4, 3, 7] at coordinates [4] (4 slices [3, 7]) become slices [4, 3, 1, 7] at coordinates
    [4, 3].

    Args:
        builder: The builder.
        slices: Slices [*batch axes, *axes of the tensor] of each tensor.
        positions: Coordinates of the slices, a tensor of the batch axes for each indexed axis.
        batch: Number of batch axes, which count the slices. The results have one more after them, which counts the
            elements of each slice along `axis`.
        axis: The axis of the tensor along which slices are divided.
        index: Position of the coordinate along `axis` in `positions`.
    """
    # Move the divided axis behind the batch axes, and put an axis of size 1 in its place.
    order = [*range(batch), batch + axis, *(d for d in range(batch, slices[0].rank) if d != batch + axis)]
    cut = [expand_dims(builder, transpose(builder, slice_, order), [batch + 1 + axis]) for slice_ in slices]
    count = slices[0].shape[batch + axis]
    lead = (*slices[0].shape[:batch], count)
    # All elements of a slice have its coordinates; along `axis` they are 0, 1, 2, ... further.
    coordinates = [broadcast_to(builder, expand_dims(builder, position, [batch]), lead) for position in positions]
    offsets = iota(builder, lead, batch, coordinates[index].dtype)
    coordinates[index] = binary(builder, "add", coordinates[index], offsets)
    return cut, coordinates


def _widened(builder: Builder, indices: Tensor) -> Tensor:
    """Return coordinates as signed integers of 32 or 64 bits.

    ScatterOp reads coordinates as signed integers: the u8 coordinate 200 would become -56. Coordinates that are
    computed from narrow ones would wrap around.
    """
    if indices.dtype in (I32, I64):
        return indices
    return convert(builder, indices, I32 if indices.dtype.bits < I32.bits else I64)


def _column(builder: Builder, indices: Tensor, axes: GatherAxes, index: int) -> Tensor:
    """Return coordinate `index` of each slice: `indices` without the axis `index_vector_dim`.

    If `index_vector_dim` is the rank of `indices`, there is no such axis: each element is the only coordinate of its
    slice.
    """
    lead = [indices.shape[d] for d in axes.indices_batch_dims(indices.rank)]
    if axes.index_vector_dim == indices.rank:
        return indices
    return reshape(builder, slice_axis(builder, indices, axes.index_vector_dim, start=index, limit=index + 1), lead)


def _with_all_axes(builder: Builder, updates: Tensor, x: Tensor, axes: GatherAxes) -> Tensor:
    """Return the updates as slices, [axes that count the slices..., every axis of x...].

    Axes of x that the slices lack have size 1.
    """
    lead = [d for d in range(updates.rank) if d not in axes.offset_dims]
    slices = transpose(builder, updates, [*lead, *axes.offset_dims])
    sizes = dict(zip(axes.slice_dims(x.rank), slices.shape[len(lead) :], strict=True))
    shape: list[Size] = [*slices.shape[: len(lead)], *(sizes.get(d, 1) for d in range(x.rank))]
    return reshape(builder, slices, shape)


def _without_coordinates(
    builder: Builder, tensors: Sequence[Tensor], indices: Tensor, updates: Sequence[Tensor], axes: GatherAxes,
    combine: CombineSeveral,
) -> list[Tensor]:  # fmt: skip
    """Combine slices that begin at 0 along every axis, since no axis is indexed, and return the tensors.

    The arguments are those of `scatter`, with an empty vector of coordinates for each slice.
    """
    slices = [_with_all_axes(builder, update, x, axes) for x, update in zip(tensors, updates, strict=True)]
    if slices[0].shape == tensors[0].shape:  # a single slice, as large as the tensors
        count = len(tensors)
        return apply_several(builder, lambda s, *e: combine(s, e[:count], e[count:]), *tensors, *slices)
    # The tensors become [1, ...]: each slice has the coordinate 0 along this axis.
    deeper = [expand_dims(builder, x, [0]) for x in tensors]
    zeros = full(builder, 0, [1 if d == axes.index_vector_dim else n for d, n in enumerate(indices.shape)], I32)
    axes = replace(axes, collapsed_dims=(0, *(d + 1 for d in axes.collapsed_dims)), start_index_map=(0,))
    results = scatter(builder, deeper, zeros, updates, axes, combine)
    return [reshape(builder, result, x.shape) for result, x in zip(results, tensors, strict=True)]


def scatter_leading(
    builder: Builder, x: Tensor, indices: Tensor, slices: Tensor, depth: int, combine: Combine, unique: bool = False
) -> Tensor:
    """Return x with slices combined into it at positions along its first `depth` axes.

    Example: for x [A, B, C] and the depth 2, indices are [n, 2] and slices [n, 1, 1, C]; slice r is combined with
    x[indices[r, 0], indices[r, 1]]. Slices at positions outside of x are ignored.

    Args:
        builder: The builder.
        x: The tensor.
        indices: The positions, integers [n, depth].
        slices: The slices, [n, *axes of x], with size 1 along the first `depth` axes.
        depth: Number of axes that are indexed.
        combine: combine(scalars, element of x, element of a slice) returns the new element.
        unique: Whether no position occurs twice.
    """
    (result,) = _scattered(
        builder,
        [x],
        _widened(builder, indices),
        [slices],
        depth,
        lambda s, old, new: [combine(s, old[0], new[0])],  # `_scattered` has lists: of one tensor here
        unique,
    )
    return result


def _scattered(
    builder: Builder, tensors: Sequence[Tensor], indices: Tensor, slices: Sequence[Tensor], depth: int,
    combine: CombineSeveral, unique: bool,
) -> list[Tensor]:  # fmt: skip
    """Combine slices into several tensors of one shape at the same positions, and return the tensors.

    Each part (real, imaginary) of each tensor is a scatter of its own if its new value depends on that part alone.
    Otherwise slices are combined in a loop.

    Args:
        builder: The builder.
        tensors: The tensors.
        indices: Positions of the slices along the leading axes, [..., depth], in i32 or i64. A slice begins at 0
            along the other axes.
        slices: For each tensor the slices, [..., *axes of the tensor].
        depth: Number of leading axes of the tensors that are indexed.
        combine: Function of the old elements of all tensors and of their slices' elements.
        unique: Whether no position occurs twice.
    """
    for x, update in zip(tensors, slices, strict=True):
        if update.dtype != x.dtype:
            raise builder.fail(f"a scatter into {x}: what is put there is {update}, of another type")
    if any(0 in tensor.shape for tensor in (*tensors, *slices)):  # there is nothing to combine
        return list(tensors)
    # The body of each part's scatter; None if the part depends on other parts, as in a complex product. Parts are
    # counted over all tensors: one of each tensor, two of a complex one.
    dtypes = [x.dtype for x in tensors]
    blocks = [_independent_body(dtypes, combine, n) for n in range(sum(2 if d.is_complex else 1 for d in dtypes))]
    independent = [block for block in blocks if block is not None]
    if len(independent) < len(blocks):
        return _slice_by_slice(builder, tensors, indices, slices, depth, combine)
    bodies = iter(independent)
    results = []
    for x, update in zip(tensors, slices, strict=True):
        parts = [_scattered_part(builder, part, indices, news, depth, next(bodies), unique)
                 for part, news in zip(builder.parts(x), builder.parts(update), strict=True)]  # fmt: skip
        results.append(builder.wrap(x.dtype, x.shape, *parts))
    return results


def _scattered_part(
    builder: Builder, part: SSAValue, indices: Tensor, slices: SSAValue, depth: int, body: Block, unique: bool
) -> SSAValue:
    """Emit the scatter of one part of a tensor and return the new part.

    Args:
        builder: The builder.
        part: The part: the elements, or the real or imaginary parts of complex ones.
        indices: Positions, as rows of `depth` coordinates.
        slices: Elements of the slices at these positions, or their real or imaginary parts, as in `part`.
        depth: Number of leading axes that are indexed.
        body: Computes the new element from one of a slice and the old one.
        unique: Whether no position occurs twice.
    """
    op = ScatterOp.create(
        operands=[slices, builder.value(indices), part],
        result_types=[part.type],
        properties={
            "dimension_map": DenseArrayBase.from_list(i64, range(depth)),
            "unique_indices": BoolAttr.from_bool(unique),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [2, 1]),  # inputs, outputs
        },
        regions=[Region(body)],
    )
    return builder.add(op).results[0]


def _independent_body(dtypes: Sequence[DType], combine: CombineSeveral, index: int) -> Block | None:
    """Return the body of a ScatterOp that computes one part of an element from that part of its new and old value.

    Return None if it depends on other parts too. Example: the real part of a sum of complex numbers depends on their
    real parts alone; that of a product depends on the imaginary parts too, and None is returned.

    The body first computes all parts with `combine`; operations that this part does not need are then removed.

    Args:
        dtypes: Types of the elements of the tensors that are scattered together.
        combine: Function that combines the elements of all tensors.
        index: Index of the part among those of all tensors: an f32 and a c64 tensor have the parts 0, and 1 and 2.
    """
    # Arguments in the order of ScatterOp's body: the parts of the slices' elements, then those of the old elements.
    elements = elements_of(dtypes)
    block = Block(arg_types=[*elements, *elements])
    new, old = block.args[index], block.args[len(elements) + index]
    scalars = scalars_of([*dtypes, *dtypes], block.args)
    results = combine(Scalars(block), scalars[len(dtypes) :], scalars[: len(dtypes)])
    value = [part for result in results for part in result.parts][index]
    # Remove the operations that the part does not need, and the arguments if it needs none of the others.
    needed = _dependencies(value, block)
    for op in reversed(list(block.ops)):
        if not needed.intersection(op.results):
            op.detach()
            op.erase()
    others = [argument for argument in block.args if argument not in (new, old)]
    if needed.intersection(others):
        return None
    for argument in others:
        block.erase_arg(argument)
    block.add_op(YieldOp.create(operands=[value]))
    return block


def _dependencies(value: SSAValue, block: Block) -> set[SSAValue]:
    """Return the values that a value of a block is computed from, itself included.

    Values that are defined outside of the block are included, but not the values that they are computed from.
    """
    needed: set[SSAValue] = set()
    pending = [value]
    while pending:
        operand = pending.pop()
        if operand in needed:
            continue
        needed.add(operand)
        if isinstance(operand, OpResult) and operand.op.parent is block:
            pending += operand.op.operands
    return needed


def _slice_by_slice(
    builder: Builder, tensors: Sequence[Tensor], indices: Tensor, slices: Sequence[Tensor], depth: int,
    combine: CombineSeveral,
) -> list[Tensor]:  # fmt: skip
    """Combine one slice in each iteration of a loop, and return the tensors.

    An iteration computes every element of the tensors, so this is only for functions `combine` that no ScatterOp of a
    single part can express.

    Args:
        builder: The builder.
        tensors: The tensors, of one shape.
        indices: Positions of the slices along the leading axes, [..., depth].
        slices: For each tensor the slices, [..., *axes of the tensor].
        depth: Number of leading axes of the tensors that are indexed.
        combine: Function of the old elements of all tensors and of their slices' elements.
    """
    # The axes that count the slices become one axis.
    lead = indices.rank - 1
    count = product(indices.shape[:lead])
    indices = reshape(builder, indices, [count, depth])
    slices = [reshape(builder, slice_tensor, [count, *slice_tensor.shape[lead:]]) for slice_tensor in slices]

    def step(index: Size, running: list[Tensor]) -> list[Tensor]:
        """Combine slice `index` with the tensors, and return them."""
        # The coordinates of the slice, each as a tensor of rank 0, and its elements in each tensor of slices.
        following: Any = index + 1
        starts = [reshape(builder, slice_(builder, indices, (index, d), (following, d + 1)), ()) for d in range(depth)]
        own_slices = [
            reshape(
                builder, slice_axis(builder, slice_tensor, axis=0, start=index, limit=following), slice_tensor.shape[1:]
            )
            for slice_tensor in slices
        ]
        return _combined_at(builder, running, starts, own_slices, combine)

    return for_(builder, count, list(tensors), step)


def _combined_at(
    builder: Builder, tensors: Sequence[Tensor], starts: Sequence[Tensor], slices: Sequence[Tensor],
    combine: CombineSeveral,
) -> list[Tensor]:  # fmt: skip
    """Return tensors after one slice for each was combined with them, all at the same position.

    `starts`, integers of rank 0, are the beginning of the slices along the first axes; along others they begin at 0.
    For example, a tensor [1, 2, 3, 4], a slice [10, 20] of which `combine` returns the sum, and the start 2 give
    [1, 2, 13, 24]. Elements of a slice beyond the tensor are ignored.
    """
    sizes = [builder.index(n) for n in slices[0].shape]
    readable = [with_an_element(builder, slice_) for slice_ in slices]  # clamped reads of an empty slice are in bounds
    sources = [builder.parts(slice_) for slice_ in readable]  # SSA values: one, or real and imaginary part
    last = [builder.index(n - 1) for n in readable[0].shape]  # largest index along each axis of a slice

    def element(scalars: Scalars, *operands: Scalar) -> list[Scalar]:
        """Emit the elements of the results at a position: those of the tensors, combined with those of the slices if
        the position is within the slices.

        The position is that of the loops. In the slices it is this position minus the starts. Outside of them it is
        clamped to the range from 0 to `last`, so that the read is in bounds, and the element is not used.

        `sizes` are those of a slice. `sources` has for each tensor the SSA values of its slice, two for a complex one.

        operands: the elements of the tensors at the position, then the starts.
        """
        old, begins = operands[: len(tensors)], operands[len(tensors) :]
        p = CoordinateBuilder(scalars.block, elements=[])
        is_inside, position = p.const(value=True, dtype=BOOL), []
        for d in range(tensors[0].rank):
            index = p.loop_index(d)
            if d < len(begins):
                index = p.minus(index, p.index_of(p.convert(begins[d], I64)))
            for bound, order in ((p.index_constant(0), "sge"), (sizes[d], "slt")):  # 0 <= index < size
                is_inside = p.binary("and", is_inside, Scalar(BOOL, (p.add_op(arith.CmpiOp(index, bound, order)),)))
            position.append(p.clamped(index, last[d]))
        new = [Scalar(x.dtype, tuple(p.add_op(tensor.ExtractOp(part, position, x.dtype.element)) for part in parts))
               for x, parts in zip(tensors, sources, strict=True)]  # fmt: skip
        combined = combine(scalars, old, new)
        return [scalars.select(is_inside, u, v) for u, v in zip(combined, old, strict=True)]

    return apply_several(builder, element, *tensors, *starts)
