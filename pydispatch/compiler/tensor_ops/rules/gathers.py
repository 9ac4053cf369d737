"""Slices of a tensor at coordinates that another tensor holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, equal
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type, unsupported
from pydispatch.compiler.tensor_ops.rule import TensorOp, Update
from pydispatch.compiler.tensor_ops.terms import Stated
from pydispatch.ir.values import Dim, shape_of


class TensorGather(TensorOp):
    """Rule of `tensor.gather`: slices of a tensor at computed coordinates.

    The last dimension of the indices has the coordinates of one slice in the dimensions `gather_dims` of the source.
    The other dimensions, the batch, count the slices. For

        %r = tensor.gather %s[%i] gather_dims([1]) : (tensor<4x8x6xf32>, tensor<5x1xindex>) -> tensor<5x4x6xf32>

    r[b, x, z] is s[x, i[b, 0], z]. The slices of this result drop the gathered dimension. They may also have it, with
    size 1: with a result of 5x4x1x6, r[b, x, 0, z] is the same element.
    """

    name = "tensor.gather"
    rereads = True  # slices may overlap

    def size(self, op: Any, result: OpResult, axis: int) -> Stated | None:
        """Return the size of the result along `axis`: that of a batch dimension of the indices, that of a dimension of
        the source that slices cover, or 1 along a gathered dimension.

        Of `gather s[i] gather_dims([1])`, where r[b, x, z] is s[x, i[b, 0], z], axis 0 has the size of dimension 0 of
        i, and axes 1 and 2 have those of dimensions 0 and 2 of s. If slices have the gathered dimension too, r is
        5x4x?x6, and its axis 2 has the size 1.
        """
        batch_rank = _batch_rank(op)
        if axis < batch_rank:
            return Dim(op.indices, axis)
        indexed_dims, slice_dims = _dims_of_slices(op, op.gather_dims, op.source, result)
        dim = slice_dims[axis - batch_rank]
        return 1 if dim in indexed_dims else Dim(op.source, dim)

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Return the element of the source at the coordinates of the slice; zero if the source is empty along a
        gathered dimension, where no coordinate is in bounds.

        The first `indices` select a slice: they index the batch dimensions of the coordinates. The others are the index
        of the element inside of the slice.
        """
        batch_rank = _batch_rank(op)
        indexed_dims, slice_dims = _dims_of_slices(op, op.gather_dims, op.source, result)
        sizes = [elements.dims(op.source)[d] for d in indexed_dims]

        def gathered_element(builder: Builder) -> SSAValue:
            """Emit the load of the source's element for `indices`: at the coordinates of the slice, which are loaded
            from the batch index `indices[:batch_rank]`, and at `indices[batch_rank:]` inside of the slice.
            """
            coordinates = _coordinates(elements, builder, op, sizes, indices[:batch_rank])
            index_in_slice = indices[batch_rank:]
            source_index = _index_of_slice_element(indexed_dims, coordinates, slice_dims, index_in_slice)
            return elements.at(builder, op.source, source_index)

        element_type = tensor_type(result).element_type
        return build.choose(build.not_empty(sizes), gathered_element, lambda b: elements.zero(b, element_type))


class TensorScatter(Update):
    """Rule of `tensor.scatter`: the result is the destination with slices overwritten at computed coordinates.

    The source has the slices. The last dimension of the indices has the coordinates of one slice in the dimensions
    `scatter_dims` of the destination; the other dimensions, the batch, count the slices. For

        %r = tensor.scatter %s into %d[%i] scatter_dims([1]) unique
          : (tensor<5x4x6xf32>, tensor<4x8x6xf32>, tensor<5x1xindex>) -> tensor<4x8x6xf32>

    r[x, i[b, 0], z] is s[b, x, z], and other elements are those of d. `unique` states that no two slices have the same
    coordinates.
    """

    name = "tensor.scatter"

    def equal_sizes(self, op: Any) -> Sequence[Sequence[Dim]]:
        """Return groups of dimensions of equal size: the batch in slices and indices, and the dimensions of the
        destination that slices cover.

        Of `scatter s into d[i] scatter_dims([1])`, where r[x, i[b, 0], z] is s[b, x, z], they are dimension 0 of s and
        i, 1 of s and 0 of d, and 2 of s and d. Slices may also have the scattered dimension, with size 1:
        s[b, x, 0, z]. It is in no group, and dimension 3 of s has the size of dimension 2 of d.
        """
        batch_rank = _batch_rank(op)
        scattered_dims, slice_dims = _dims_of_slices(op, op.scatter_dims, op.dest, op.source)
        groups = [[Dim(op.source, d), Dim(op.indices, d)] for d in range(batch_rank)]
        for axis, d in enumerate(slice_dims, batch_rank):
            if d not in scattered_dims:  # axis `axis` of the source goes along dimension d of the destination
                groups.append([Dim(op.source, axis), Dim(op.dest, d)])
        return groups

    def element(self, elements: Elements, build: Builder, op: Any, result: OpResult, indices: list[Index]) -> SSAValue:
        """Emit a search for the last slice that writes the element, and return its value, else the destination's.

        The search is a loop over all slices that compares their coordinates with `indices`, the index of the element in
        the result. An update in place needs no search: it writes each element of the slices to its `position`.
        """
        scattered_dims, slice_dims = _dims_of_slices(op, op.scatter_dims, op.dest, op.source)
        sizes = [elements.dims(op.dest)[d] for d in scattered_dims]
        batch = elements.dims(op.indices)[:-1]  # the last dimension has the coordinates of one slice
        # The index of the element in each slice that contains it, along whose scattered dimensions, if any, it is 0: if
        # dimension 1 is scattered, it is [x, z] or [x, 0, z] for the element r[x, y, z].
        index_in_slice: list[Index] = [0 if d in scattered_dims else indices[d] for d in slice_dims]

        def search_slice(builder: Builder, slice_number: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit one iteration of the search for the slice that writes the result's element at `indices`.

            The slice contains the element if its coordinates are the indices in `scattered_dims`. Return the element
            of the slice then, at `index_in_slice`. Otherwise return the carried value: the element of an earlier
            slice or of the destination.
            """
            slice_index = builder.split(slice_number, batch)  # index in the batch dimensions
            coordinates = _coordinates(elements, builder, op, sizes, slice_index)
            own_coordinates = [indices[d] for d in scattered_dims]
            written = builder.choose(
                _are_equal(builder, own_coordinates, coordinates),
                lambda inner: elements.at(inner, op.source, [*slice_index, *index_in_slice]),
                lambda inner: carried[0],
            )
            return [written]

        slice_count = build.product(batch)
        initial = elements.at(build, op.dest, indices)
        return build.loop(0, slice_count, [initial], search_slice)[0]

    def position(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[Index]:
        """Return the index in the destination that an element of a slice is written to.

        indices: index of the element in the tensor of slices: the batch dimensions, then the position in the slice.
        """
        scattered_dims, slice_dims = _dims_of_slices(op, op.scatter_dims, op.dest, op.source)
        batch_rank = _batch_rank(op)
        sizes = [elements.dims(op.dest)[d] for d in scattered_dims]
        coordinates = _coordinates(elements, build, op, sizes, indices[:batch_rank])
        return _index_of_slice_element(scattered_dims, coordinates, slice_dims, indices[batch_rank:])


def _batch_rank(op: Any) -> int:
    """Return the number of dimensions of the indices that count the slices."""
    return len(shape_of(op.indices)) - 1


def _dims_of_slices(op: Any, dims: Any, tensor: SSAValue, slices: SSAValue) -> tuple[list[int], list[int]]:
    """Return the dimensions of the tensor that coordinates index, and for each axis of a slice the dimension that it
    goes along.

    For a tensor of rank 3 whose dimension 1 is indexed, they are [1] and [0, 2] if slices lack this dimension, and [1]
    and [0, 1, 2] if they have it, with size 1.

    Args:
        op: The gather or scatter.
        dims: Its attribute that lists the indexed dimensions, `gather_dims` or `scatter_dims`.
        tensor: The tensor that is gathered from or scattered into.
        slices: The tensor of slices, whose first dimensions count the slices.
    """
    indexed_dims = [int(d) for d in dims.get_values()]
    rank, slice_rank = len(shape_of(tensor)), len(shape_of(slices)) - _batch_rank(op)
    if slice_rank not in (rank, rank - len(indexed_dims)):
        raise unsupported(op, f"slices of rank {slice_rank} do not fit a tensor of rank {rank}")
    return indexed_dims, [d for d in range(rank) if slice_rank == rank or d not in indexed_dims]


def _coordinates(
    elements: Elements, build: Builder, op: Any, sizes: Sequence[Index], batch: Sequence[Index]
) -> list[Index]:
    """Return the coordinates of a slice, each clamped to the range from 0 to size - 1.

    Args:
        elements: Access to the operands.
        build: Builder of the code.
        op: The gather or scatter.
        sizes: Sizes of the indexed dimensions, in the order of the coordinates.
        batch: Index of the slice in the batch dimensions of the indices.
    """
    coordinates: list[Index] = []
    for position, size in enumerate(sizes):
        value = elements.at(build, op.indices, [*batch, position])
        is_index = isinstance(value.type, IndexType)
        coordinates.append(build.clamp(value if is_index else build.pure(arith.IndexCastOp(value, IndexType())), size))
    return coordinates


def _are_equal(build: Builder, lhs: Sequence[Index], rhs: Sequence[Index]) -> SSAValue | bool:
    """Emit whether two lists of indices are equal, and return the condition: an i1, or a bool if it is known."""
    are_equal: SSAValue | bool = True
    for left, right in zip(lhs, rhs, strict=True):
        are_equal = both(build, are_equal, equal(build, left, right))
    return are_equal


def _index_of_slice_element(
    indexed_dims: list[int], coordinates: Sequence[Index], slice_dims: list[int], index_in_slice: Sequence[Index]
) -> list[Index]:
    """Return the index in a tensor of an element of a slice.

    With `indexed_dims` [1], coordinates [7] and the index [x, z] in a slice along the dimensions [0, 2], it is [x, 7,
    z]. It is the same for the index [x, 0, z] in a slice that has dimension 1, too.

    Args:
        indexed_dims: Dimensions of the tensor that the coordinates index.
        coordinates: Coordinates of the slice, in the order of `indexed_dims`.
        slice_dims: For each axis of the slice, the dimension of the tensor that it goes along.
        index_in_slice: Index of the element in the slice.
    """
    index_of_dim = dict(zip(slice_dims, index_in_slice, strict=True))
    index_of_dim.update(zip(indexed_dims, coordinates, strict=True))
    return [index_of_dim[dim] for dim in sorted(index_of_dim)]


RULES: list[type[TensorOp]] = [TensorGather, TensorScatter]
"""Rules of this file, which `extensions.builtin` registers."""
