"""Selection of elements and slices at computed positions.

Except in `gather`, negative positions count from the end, and positions outside of an axis are clamped to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, DType
from pydispatch.graph.sizes import Expr, Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations.elementwise import MOST_FOLDED_ELEMENTS, broadcast_shape
from pydispatch.operations.indexing import (
    CoordinateBuilder,
    clamped_start,
    elements_at,
    require_elements,
    require_slices,
)
from pydispatch.operations.reals import Scalar
from pydispatch.operations.shapes import reshape
from pydispatch.operations.slicing import slice_, slice_axis

# -- with NumPy's indices


def _clamped_position(coords: CoordinateBuilder, position: Scalar, n: SSAValue) -> SSAValue:
    """Return a position clamped to an axis of n elements. A negative one counts from the end: -1 is the last one."""
    index = coords.index_of(position)
    if not position.dtype.is_unsigned:
        is_negative = coords.add_op(arith.CmpiOp(index, coords.index_constant(0), "slt"))
        index = coords.add_op(arith.SelectOp(is_negative, coords.plus(index, n), index))
    return coords.clamped(index, coords.minus(n, coords.index_constant(1)))


def _elements(
    builder: Builder, x: Tensor, shape: Sequence[Size], positions: Mapping[int, Tensor], others: Mapping[int, int]
) -> Tensor:
    """Return the tensor of `shape` whose elements are elements of x at computed positions.

    For x [A, B, C], shape [n, C], positions {0: i, 1: j} with i and j of the shape [n, 1], and others {2: 1}, element
    [r, c] of the result is x[i[r, 0], j[r, 0], c].

    Args:
        builder: The builder.
        x: The operand.
        shape: Shape of the result.
        positions: Axis of x → integer tensor that broadcasts to `shape`, the positions along this axis. Negative ones
            count from the end, and those outside of the axis are clamped to it.
        others: Axis of x → axis of the result whose index is the position. Axes in `positions` are ignored.
    """
    # Positions are clamped to an axis, which needs an element for that.
    require_elements(builder, x, positions, tuple(shape))
    sizes = {d: builder.index(x.shape[d]) for d in positions}

    def position_in_x(p: CoordinateBuilder) -> list[SSAValue]:
        """Return the index along each axis d of x: a clamped element of positions[d], or the loop index others[d]."""
        computed = dict(zip(positions, p.elements, strict=True))
        return [
            _clamped_position(p, computed[d], sizes[d]) if d in computed else p.loop_index(others[d])
            for d in range(x.rank)
        ]

    return elements_at(builder, x, tuple(shape), position_in_x, *positions.values())


def take(builder: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return numpy.take: the slices of x at the indices along an axis; the axes of the indices replace that axis.

    `axis` is not negative. Constant indices that are out of bounds raise CompileError.
    """
    known = indices.numbers
    n = x.shape[axis]
    if known is not None and not isinstance(n, Expr) and not ((known >= -n) & (known < n)).all():
        raise builder.fail(f"an index in {known.reshape(-1)[:8].tolist()} is not within axis {axis} of {x}")
    if known is not None and x.known is not None and x.known.size <= MOST_FOLDED_ELEMENTS:  # computed here
        return builder.constant(x.known.take(known, axis), x.dtype)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    # A single known index is a slice. A negative one counts from the end, so that the size must be known too.
    if known is not None and known.size == 1 and (known.item() >= 0 or not isinstance(n, Expr)):
        position = known.item() % n if not isinstance(n, Expr) else known.item()  # -1 % n is n - 1
        return reshape(builder, slice_axis(builder, x, axis, start=position, limit=position + 1), shape)
    trailing_axes = x.rank - axis - 1
    # Along `axis`, an element is at the position in `indices`, which broadcast over the trailing axes of the result.
    positions = {axis: reshape(builder, indices, [*indices.shape, *[1] * trailing_axes])}
    # Along any other axis of x, it is at its own position along this axis of the result.
    result_axes = {d: d if d < axis else d + indices.rank - 1 for d in range(x.rank)}
    return _elements(builder, x, shape, positions, others=result_axes)


def take_along(builder: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return numpy.take_along_axis: for two axes and `axis` 0, result[i, j] is x[indices[i, j], j].

    `axis` is not negative, and x and the indices have the same rank.
    """
    return _elements(builder, x, indices.shape, {axis: indices}, {d: d for d in range(x.rank)})


def take_nd(builder: Builder, x: Tensor, indices: Tensor, batch: int) -> Tensor:
    """Return the slices of x at the positions in the rows of indices [..., k].

    The first `batch` axes of x and indices correspond. A row has the positions along the next k axes of x.
    """
    count_shape, columns = indices.shape[:-1], index_columns(builder, indices)  # shape of the count of slices
    first_slice_axis = batch + len(columns)  # the first axis of x that slices have
    slice_shape = x.shape[first_slice_axis:]
    positions = {
        batch + n: reshape(builder, column, [*count_shape, *[1] * len(slice_shape)]) for n, column in enumerate(columns)
    }
    # Axis of x → axis of the result that indexes it: batch axes are first, axes of slices follow those of the indices.
    others = {
        d: d if d < batch else len(count_shape) + d - first_slice_axis for d in range(x.rank) if d not in positions
    }
    return _elements(builder, x, (*count_shape, *slice_shape), positions, others)


def index_columns(builder: Builder, indices: Tensor) -> list[Tensor]:
    """Split indices [..., k], whose rows are coordinates of k axes, into k tensors [...], one of each coordinate."""
    count = indices.shape[-1]
    if isinstance(count, Expr):
        raise builder.fail(f"the last size of the indices {indices} must be known")
    last = indices.rank - 1
    columns = (slice_axis(builder, indices, axis=last, start=n, limit=n + 1) for n in range(count))
    return [reshape(builder, column, indices.shape[:-1]) for column in columns]


def index(builder: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Return NumPy's x[indices] for integer tensors that broadcast together, with None for a whole axis.

    The axes of the indices are at the position of the first indexed axis; if the indexed axes are not adjacent, they
    are first. Example: for x [A, B, C, D] and vectors i and j of n elements, the indices None, i, j, None give
    [A, n, D], and i, None, j, None give [n, B, D].
    """
    by_axis = {d: i for d, i in enumerate(indices) if i is not None}
    axes = list(by_axis)
    if len(axes) == 1:
        return take(builder, x, by_axis[axes[0]], axes[0])
    constant = _computed_at_compile_time(builder, x, indices)
    if constant is not None:
        return constant
    shape = broadcast_shape(builder, *(i.shape for i in by_axis.values()))
    are_adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    count_before = axes[0] if are_adjacent else 0  # axes of the result before those of the indices
    whole_axes = [d for d in range(x.rank) if d not in by_axis]
    before, after = whole_axes[:count_before], whole_axes[count_before:]
    result_axis_of = {d: n if n < count_before else n + len(shape) for n, d in enumerate(whole_axes)}
    # The indices broadcast to `shape` and over the axes after it; in the example, i becomes [n, 1].
    positions = {
        d: reshape(builder, i, [*[1] * (len(shape) - i.rank), *i.shape, *[1] * len(after)]) for d, i in by_axis.items()
    }
    result_shape = (*(x.shape[d] for d in before), *shape, *(x.shape[d] for d in after))
    return _elements(builder, x, result_shape, positions, result_axis_of)


def _computed_at_compile_time(builder: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """Return x[indices], computed at compile time, if x is a small constant and the indices are constant; else None."""
    if x.known is None or x.known.size > MOST_FOLDED_ELEMENTS:
        return None
    if any(i is not None and i.numbers is None for i in indices):
        return None
    positions = tuple(slice(None) if i is None else i.numbers for i in indices)
    try:
        return builder.constant(np.asarray(x.known[positions]), x.dtype)
    except IndexError as error:
        raise builder.fail(f"indices into {x}: {error}") from None


# -- slices, with the semantics of StableHLO


@dataclass(frozen=True)
class GatherAxes:
    """Correspondence between the axes of the operand, indices and result of a gather: StableHLO's dimension numbers.

    A scatter has the updates in place of the result. Example: the operand is [8, 9, 5], and indices [4, 2] have two
    coordinates for each of 4 slices, along axis 1, the index_vector_dim. With start_index_map (0, 1) and collapsed_dims
    (0, 1), slice s is operand[indices[s, 0], indices[s, 1], :], and the result [4, 5] has the offset_dims (1,).

    Attributes:
        offset_dims: axes of the result that index into a slice.
        collapsed_dims: axes of the operand that a slice does not have, as its size along them is 1.
        batching_dims: axes of the operand that a slice does not have, as they correspond to axes of the indices.
        indices_batching_dims: for each axis in `batching_dims`, the corresponding axis of the indices.
        start_index_map: for each coordinate, the axis of the operand that it indexes.
        index_vector_dim: axis of the indices that contains the coordinates; the rank of the indices if each index is a
            single coordinate.
    """

    offset_dims: tuple[int, ...]
    collapsed_dims: tuple[int, ...]
    batching_dims: tuple[int, ...]
    indices_batching_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int

    def indices_batch_dims(self, rank: int) -> list[int]:
        """Return the axes of the indices that count the slices."""
        return [d for d in range(rank) if d != self.index_vector_dim]

    def slice_dims(self, rank: int) -> list[int]:
        """Return the axes of the operand that slices have too."""
        return [d for d in range(rank) if d not in self.collapsed_dims and d not in self.batching_dims]


def gather(builder: Builder, x: Tensor, indices: Tensor, axes: GatherAxes, sizes: Sequence[Size]) -> Tensor:
    """Return slices of x of given sizes, at the coordinates in `indices`; a slice that exceeds x is moved inside.

    Example: x is [8, 9, 5]. The indices [4, 2] have for each of 4 slices a coordinate along axis 0 and one along axis 1
    of x: start_index_map is (0, 1), index_vector_dim 1. Slices have the sizes [1, 1, 3], and collapsed_dims (0, 1)
    removes the axes of size 1. The result [4, 3] has offset_dims (1,): its axis 0 counts the slices, its axis 1 is
    along axis 2 of x, where all slices start at 0, as it has no coordinate.

    Args:
        builder: The builder.
        x: The tensor.
        indices: Integers; along `axes.index_vector_dim` they are the coordinates of a slice, along other axes there are
            several slices.
        axes: StableHLO's dimension numbers, which relate the axes of x, the indices and the result.
        sizes: Size of a slice along each axis of x; 1 along axes that the result lacks.
    """
    indices_batch_dims, slice_dims = axes.indices_batch_dims(indices.rank), axes.slice_dims(x.rank)
    shape = _result_shape(axes, [indices.shape[d] for d in indices_batch_dims], [sizes[d] for d in slice_dims])
    rank = len(shape)
    require_slices(builder, x, sizes, shape)
    # A single slice at coordinates that are known as numbers or sizes needs no gather.
    known = None if indices_batch_dims else indices.known_integers()
    if known is not None:
        return _slice_at(builder, x, known, axes, sizes, shape)
    # The gather is a loop nest with one loop for each axis of the result. The mappings are from the axes of the indices
    # and of x to the loops along them: {0: 0} and {2: 1} in the example.
    batch_loops = [d for d in range(rank) if d not in axes.offset_dims]
    loop_of_batch_dim = dict(zip(indices_batch_dims, batch_loops, strict=True))
    loop_of_slice_dim = dict(zip(slice_dims, axes.offset_dims, strict=True))
    coordinates = _coordinates(builder, indices, axes, loop_of_batch_dim, rank)
    slices = _GatheredSlices(
        dtype=x.dtype,
        sources=builder.parts(x),  # one SSA value, or two for the real and the imaginary part
        rank=x.rank,
        index_dtype=indices.dtype,
        axes_of_coordinates=axes.start_index_map,
        last_start={d: builder.index(x.shape[d] - sizes[d]) for d in axes.start_index_map},
        loop_of_slice_dim=loop_of_slice_dim,
        loop_of_batching_dim={
            d: loop_of_batch_dim[batch_dim]
            for d, batch_dim in zip(axes.batching_dims, axes.indices_batching_dims, strict=True)
        },
    )
    identity = AffineMap.identity(rank)
    outputs = [(builder.empty(x.dtype.element, shape), identity) for _ in slices.sources]
    results = builder.generic(coordinates, outputs, parallel=[True] * rank, body=slices.body)
    return builder.wrap(x.dtype, shape, *results)


def _result_shape(axes: GatherAxes, batch_shape: Sequence[Size], slice_shape: Sequence[Size]) -> Shape:
    """Return the shape of the result of a gather: the sizes of a slice along offset_dims, those of the batch elsewhere.

    For the offset_dims (1,), 4 slices of 3 elements have the shape (4, 3).
    """
    batch_sizes, slice_sizes = iter(batch_shape), iter(slice_shape)
    rank = len(batch_shape) + len(axes.offset_dims)
    return tuple(next(slice_sizes) if d in axes.offset_dims else next(batch_sizes) for d in range(rank))


@dataclass(frozen=True)
class _GatheredSlices:
    """Description of the slices that the loop nest of a gather reads; `gather` creates it, and emits `body` once.

    Operands of the nest are the coordinates of a slice; each axis of the result is a loop. Example: of a tensor of
    8x9x5, the slices [5] at rows of two coordinates are gathered. The nest has the loops l0, over slices, and l1. Its
    body reads the tensor at [coordinate 0, coordinate 1, l1].

    Attributes:
        dtype: Type of the elements.
        sources: The tensor, or its real and imaginary part if it is complex.
        rank: Number of axes of the tensor.
        index_dtype: Type of the coordinates.
        axes_of_coordinates: Axis of the tensor that each coordinate is along; (0, 1) in the example.
        last_start: Axis in `axes_of_coordinates` → largest coordinate of a slice inside of the tensor; {0: 7, 1: 8}.
        loop_of_slice_dim: Axis of the tensor that slices have too → loop along it; {2: 1}.
        loop_of_batching_dim: Axis of the tensor along which each slice has the index of its batch → loop along it; {}.
    """

    dtype: DType
    sources: Sequence[SSAValue]
    rank: int
    index_dtype: DType
    axes_of_coordinates: Sequence[int]
    last_start: Mapping[int, SSAValue]
    loop_of_slice_dim: Mapping[int, int]
    loop_of_batching_dim: Mapping[int, int]

    def body(self, block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Return an element of the result: the element of the tensor at the start of its slice plus an offset."""
        # The first arguments of the block are the coordinates of the slice's start.
        p = CoordinateBuilder(block, [Scalar(self.index_dtype, (a,)) for a in args[: len(self.axes_of_coordinates)]])
        position = self._position_in_slice(p)
        for d, coordinate in zip(self.axes_of_coordinates, p.elements, strict=True):
            start = p.clamped(p.index_of(p.convert(coordinate, I64)), self.last_start[d])
            position[d] = p.plus(start, position[d]) if d in self.loop_of_slice_dim else start
        return [p.add_op(tensor.ExtractOp(source, position, self.dtype.element)) for source in self.sources]

    def _position_in_slice(self, p: CoordinateBuilder) -> list[SSAValue]:
        """Return along each axis of the tensor the index in the slice or the batch; 0 along axes that it lacks."""
        position = [
            p.loop_index(self.loop_of_slice_dim[d]) if d in self.loop_of_slice_dim else p.index_constant(0)
            for d in range(self.rank)
        ]
        for d, loop in self.loop_of_batching_dim.items():
            position[d] = p.loop_index(loop)
        return position


def _slice_at(
    builder: Builder, x: Tensor, known: Sequence[Size], axes: GatherAxes, sizes: Sequence[Size], shape: Shape
) -> Tensor:
    """Return the only slice of a gather, at coordinates that are known at compile time, reshaped to `shape`.

    known: the coordinates, integers or expressions of dynamic sizes, which are clamped. sizes: sizes of the slice.
    """
    begins: list[Size] = [0] * x.rank
    for d, start in zip(axes.start_index_map, known, strict=True):
        begins[d] = clamped_start(start, x.shape[d], sizes[d])
    selected = slice_(builder, x, begins, [begin + size for begin, size in zip(begins, sizes, strict=True)])
    return reshape(builder, selected, shape)


def _coordinates(
    builder: Builder, indices: Tensor, axes: GatherAxes, loop_of_batch_dim: Mapping[int, int], rank: int
) -> list[tuple[SSAValue, AffineMap]]:
    """Return each coordinate of a slice as an operand of a gather's loop nest with its indexing map.

    All operands are `indices`. Example: indices [4, 2] have two coordinates for each of 4 slices. In a nest of loops d0
    over the slices and d1 over the elements of a slice, their maps are (d0, d1) -> (d0, 0) and (d0, d1) -> (d0, 1).

    Args:
        builder: The builder.
        indices: The indices of the gather.
        axes: The axes of the gather.
        loop_of_batch_dim: For each axis of the indices that counts slices, the loop along it.
        rank: Number of loops: the rank of the result.
    """
    value = builder.value(indices)
    exprs: dict[int, AffineExpr] = {d: AffineExpr.dimension(loop) for d, loop in loop_of_batch_dim.items()}
    coordinates = []
    for n in range(len(axes.start_index_map)):
        if axes.index_vector_dim < indices.rank:  # otherwise each index is a single coordinate
            exprs[axes.index_vector_dim] = AffineExpr.constant(n)
        coordinates.append((value, AffineMap(rank, 0, tuple(exprs[d] for d in range(indices.rank)))))
    return coordinates
