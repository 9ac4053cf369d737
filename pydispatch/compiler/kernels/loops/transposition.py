"""Recognition of nests whose operands are contiguous along another dimension than their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import collapsed, tensor_type

MOST_SQUARES = 4
"""Maximum number of squares of a block, which are one below the other. A block has several if elements of results have
fewer bits than elements of operands: the CPU prefetches the following cache lines of long columns. The conversion of
256x56x56 f32 to bytes with channels last takes 214 us with 4 squares, and 690 us with one (AMD EPYC Zen 4). A block has
one square if elements keep their width, because 4 squares write to too many cache lines at once. The transposition of
f32 from channels last to channels first takes 119 us with 4 squares, and 97 us with one."""


@dataclass(frozen=True)
class Transposition:
    """Dimensions of a nest whose operands are contiguous along another dimension than its results.

    `transposition_of` creates it. For r[n, c, h, w] = a[n, h, w, c], images with channels last that become images with
    channels first, `along` is 1 (c) and `first_joined` is 2: h and w are covered as one dimension of h * w elements.

    Attributes:
        along: The dimension of the nest along which most loads are contiguous; not the last one.
        first_joined: The first of two adjacent dimensions that tiles cover as one, such as the height and width of
            images; -1 for none. Every load reads either both as one contiguous dimension, or neither.
        squares: Maximum number of squares of a block. A block is a column of squares; the side of a square, in
            elements, is one of `tiled_transpose.BLOCKS`.
    """

    along: int
    first_joined: int = -1
    squares: int = 1

    @property
    def joined_along(self) -> int:
        """The position of `along` after the dimensions `first_joined` and `first_joined` + 1 were joined into one.

        With dimension 1 joined to 0, dimension 2 becomes 1.
        """
        is_after_joined = 0 <= self.first_joined < self.along
        return self.along - 1 if is_after_joined else self.along

    def joined_sizes(self, build: Builder, dims: Sequence[Index]) -> list[Index]:
        """Return the sizes of the dimensions after joining, from the sizes `dims` of the nest."""
        first = self.first_joined
        if first < 0:  # none are joined
            return list(dims)
        return [*dims[:first], build.times(dims[first], dims[first + 1]), *dims[first + 2 :]]

    def joined_buffer(self, build: Builder, buffer: SSAValue) -> SSAValue:
        """Return a view of a result's buffer in which the joined dimensions are one; the buffer if none are joined."""
        return buffer if self.first_joined < 0 else build.add(collapsed(buffer, self.first_joined))

    def nest_indices(self, build: Builder, dims: Sequence[Index], indices: Sequence[Index]) -> list[Index]:
        """Return the indices of all dimensions of the nest, whose sizes are `dims`, from those after joining.

        An index n of two joined dimensions, of which the second has size w, is split into n / w and n mod w.
        """
        first = self.first_joined
        if first < 0:  # none are joined
            return list(indices)
        return [*indices[:first], *build.divmod(indices[first], dims[first + 1]), *indices[first + 1 :]]


Load = tuple[SSAValue, tuple[Index, ...]]
"""(tensor, its indices at the load)"""


def transposition_of(
    loads: Sequence[Load], indices: Sequence[Index], dims: Sequence[Index], result_bits: int
) -> Transposition | None:
    """Return the transposition of a nest: the dimension along which most loads are contiguous.

    The nest of r[n, c, h, w] = a[n, h, w, c] has the transposed dimension 1, c. Its dimensions 2 and 3, h and w, are
    joined to one, since all loads read them as one contiguous dimension. Return None if most loads are contiguous along
    the last dimension, or along none.

    Args:
        loads: The loads of the nest, with indices computed from the counters of its loops.
        indices: Counter of the loop over each dimension of the nest.
        dims: Sizes of the dimensions of the nest.
        result_bits: Bits of an element of the result that has the longest ones.
    """
    along = _transposed_dim(loads, indices)
    if along is None:
        return None
    load_bits = max(bits_of(tensor_type(tensor).element_type) for tensor, load_indices in loads if load_indices)
    # A block is a column of squares: two squares if elements of operands have twice the bits of elements of results.
    squares = min(MOST_SQUARES, max(1, load_bits // max(1, result_bits)))
    are_static = all(isinstance(size, int) for size in dims)  # `_are_adjacent` compares sizes with tensor shapes
    joinable = (d for d in range(len(indices) - 1) if are_static and _are_adjacent(loads, indices, dims, dim=d))
    return Transposition(along=along, first_joined=next(joinable, -1), squares=squares)


def _transposed_dim(loads: Sequence[Load], indices: Sequence[Index]) -> int | None:
    """Return the transposed dimension of the nest, or None.

    A load is transposed if its last index is the counter of another loop than the last one, and the counter of the last
    loop is another of its indices. In `r[i, j] = a[j, i]`, the load is transposed along dimension 0, i. A load `a[i]`
    is not, because it does not depend on j. The result is None if no load is transposed, or if more loads are
    contiguous along the last dimension than are transposed. `indices` has the counter of the loop over each dimension
    of the nest, here (i, j).
    """
    if len(indices) < 2:  # there is no other dimension than the last one
        return None
    last_counter = indices[-1]
    contiguous_count = 0  # loads that are contiguous along the last dimension
    transposed_counters: list[Index] = []  # of each transposed load, the counter of its last index
    for _tensor, load_indices in loads:
        if not load_indices:  # a scalar
            continue
        counter = _counter_of(load_indices[-1])
        if counter is last_counter:
            contiguous_count += 1
        elif counter in indices and last_counter in load_indices[:-1]:
            transposed_counters.append(counter)
    if not transposed_counters or contiguous_count > len(transposed_counters):
        return None
    return list(indices).index(transposed_counters[0])  # if several dimensions are transposed, the first load decides


def _counter_of(index: Index) -> Index:
    """Return the loop counter i of an index i or i + constant, as in padded tensors; other indices themselves."""
    if isinstance(index, OpResult) and isinstance(index.op, arith.AddiOp):
        counter, addend = index.op.operands
        if isinstance(addend, OpResult) and isinstance(addend.op, arith.ConstantOp):
            return counter
    return index


def _are_adjacent(loads: Sequence[Load], indices: Sequence[Index], dims: Sequence[Index], dim: int) -> bool:
    """Return whether each load reads `dim` and the next dimension of the nest as one contiguous one, or neither.

    In r[n, c, h, w] = a[n, h, w, c], h and w (`dim` = 2) are read as one dimension of `a`; c and h (`dim` = 1) are not.
    A padded tensor has no such dimensions: its rows are shorter than those of the nest.

    Args:
        loads: The loads of the nest.
        indices: Counter of the loop over each dimension of the nest.
        dims: Sizes of these dimensions, all static.
        dim: The first of the two dimensions.
    """
    # A computed index, neither a constant nor a counter, may depend on any counter.
    if any(not isinstance(index, int) and index not in indices for _, load_indices in loads for index in load_indices):
        return False
    outer, inner = indices[dim], indices[dim + 1]  # counters
    return all(_reads_as_one(load, outer, inner, inner_size=dims[dim + 1]) for load in loads)


def _reads_as_one(load: Load, outer: Index, inner: Index, inner_size: Index) -> bool:
    """Return whether two counters index adjacent axes of a tensor, the second of this size, or index none."""
    tensor, load_indices = load
    uses = load_indices.count(outer), load_indices.count(inner)
    if uses != (1, 1):
        return uses == (0, 0)
    position = load_indices.index(inner)
    is_after_outer = position > 0 and load_indices[position - 1] is outer
    return is_after_outer and tensor_type(tensor).get_shape()[position] == inner_size
