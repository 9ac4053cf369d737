"""Cotangents of tensors that the body of a loop nest reads at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.derivatives.rules.loop_nests import Elements, LoopNest, Seed
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import scatters, shapes, slicing
from pydispatch.operations.elements import Element
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def add_to_source(nest: LoopNest, seeds: Sequence[Seed], read: tensor.ExtractOp) -> None:
    """Add the cotangent of the tensor that `read` reads at computed positions: a scatter of the cotangents of the
    elements that are read, which adds up those at the same position.

    An axis of the source that a loop runs along from end to end needs no positions: a scattered slice has all of it.
    The example in the comments is `source[ids[i], j]`, with the source [V, D], the ids [N] and loops i < N, j < D: row
    i of the cotangents [N, D] is added to row ids[i] of zeros [V, D]. Loop j runs along axis 1 of the source.

    Args:
        nest: The loop nest.
        seeds: Cotangents at which the derivatives of its body begin.
        read: Operation of the body, a read of one element.
    """
    trace = nest.cotangents.trace
    # The cotangents of the elements that are read, one for each iteration: [N, D]. The loops are its axes.
    updates = nest.summed(seeds, [read.result], AffineMap.identity(nest.rank))
    if updates is None:
        return
    # Divide the axes of the source into those with positions and those that slices have, and the loops into those that
    # count slices (`batch`) and those of the elements of a slice.
    source = nest.cotangents.program_tensor(read.tensor)
    along = _whole_axes(nest, read, source)  # axis of the source → its loop; {1: 1} in the example
    indexed = [axis for axis in range(source.rank) if axis not in along]  # [0]
    order = [*indexed, *along]  # axes of the source in the order of the scatter's dimensions: [0, 1]
    batch = [loop for loop in range(nest.rank) if loop not in along.values()]  # [0]
    # The slices, one for each iteration of the loops `batch`: [N, 1, D].
    count = product(updates.shape[loop] for loop in batch)
    loops_of_slices = list(along.values())
    rows = shapes.transpose(trace, updates, [*batch, *loops_of_slices])
    sizes = [source.shape[axis] for axis in along]
    # scatter_leading needs at least one indexed axis: an axis of size 1 otherwise
    lead = [source.shape[axis] for axis in indexed] or [1]
    rows = shapes.reshape(trace, rows, [count, *(1 for _ in lead), *sizes])  # one element along each indexed axis
    # Their positions, a column for each indexed axis: [N, 1].
    columns = [shapes.reshape(trace, _positions(nest, read.indices[axis], batch), [count, 1]) for axis in indexed]
    columns = columns or [shapes.full(trace, 0, (count, 1), I64)]
    # The scatter, whose result has the indexed axes first; then its axes are brought into the order of the source.
    zeros = shapes.full(trace, 0, [*lead, *sizes], source.dtype)
    positions = slicing.concat(trace, columns, axis=1)
    total = scatters.scatter_leading(
        trace, zeros, positions, rows, len(lead), lambda scalars, old, new: scalars.binary("add", old, new)
    )
    moved = shapes.reshape(trace, total, [source.shape[axis] for axis in order])
    inverse = [order.index(axis) for axis in range(source.rank)]
    nest.cotangents.add(read.tensor, shapes.transpose(trace, moved, inverse))


def _positions(nest: LoopNest, index: SSAValue, batch: Sequence[int]) -> Tensor:
    """Return a tensor with the value of `index` in each iteration of the loops `batch`, one axis for each loop.

    `index` must not depend on other loops.
    """

    def position(elements: Elements, _: Sequence[Element]) -> Element:
        """Return the value of `index` in an iteration."""
        cast = arith.IndexCastOp(elements.value(index), i64)
        elements.block.add_op(cast)
        return Element(Scalars(elements.block), Scalar(I64, (cast.result,)))

    map = AffineMap(nest.rank, 0, tuple(AffineDimExpr(loop) for loop in batch))
    positions = nest.combined_over_loops(operands=[], map=map, dtype=I64, compute=position, varies_only_with_map=True)
    assert positions is not None  # it is None only where `compute` returns None
    return positions


def _whole_axes(nest: LoopNest, read: tensor.ExtractOp, source: Tensor) -> dict[int, int]:
    """Return the axes of the source that a loop runs along from end to end: a map from the axis to its loop.

    The index of such an axis is the loop index itself, the loop has as many iterations as the axis has elements, and no
    other index of the read depends on the loop.
    """
    extents = nest.extents()
    uses = [_loops_of(nest, index) for index in read.indices]  # for each axis, the loops that its index depends on
    whole = {}
    for axis, index in enumerate(read.indices):
        others = set().union(*(loops for other, loops in enumerate(uses) if other != axis))
        if isinstance(index.owner, linalg.IndexOp) and not uses[axis] & others:
            (loop,) = uses[axis]
            if extents[loop] == source.shape[axis]:
                whole[axis] = loop
    return whole


def _loops_of(nest: LoopNest, value: SSAValue) -> set[int]:
    """Return the indices of the loops that a value of the body depends on; none for a value from outside."""
    if value in nest.arguments:
        map = [*nest.input_maps, *nest.result_maps][nest.arguments.index(value)]
        return {expr.position for expr in map.results if isinstance(expr, AffineDimExpr)}
    owner = value.owner
    if isinstance(owner, linalg.IndexOp):
        return {owner.dim.value.data}
    if isinstance(owner, Operation) and owner in nest.operations:
        return set().union(*(_loops_of(nest, operand) for operand in owner.operands))
    return set()
