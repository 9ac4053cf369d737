"""`iree_linalg_ext.scatter` and `map_store`: elements that go where other elements, or a body, say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both, not_less
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.tensor_ops.rule import TensorOp, Update
from pydispatch.ir.values import Dim, shape_of


def inside(build: Builder, indices: Sequence[Index], sizes: Sequence[Index]) -> SSAValue | bool:
    """Emit whether `indices` are inside a tensor of these sizes, and return the condition: an i1, or a bool if it is
    known."""
    condition: SSAValue | bool = True
    for index, size in zip(indices, sizes, strict=True):
        condition = both(build, condition, both(build, not_less(build, index, rhs=0), build.less(index, size)))
    return condition


class Scatter(Update):
    """Rule of `iree_linalg_ext.scatter`: operands are the slices, their indices and the destination.

    The tensor of slices has `windows().batch` leading dimensions, which enumerate the slices, and then the dimensions
    of a slice. For each slice, the tensor of indices holds its coordinates: the indices in the dimensions `indexed` of
    the destination at which the slice begins.

    An operation with a mask has been rewritten to one without before this rule is used. The arguments of the body are
    an element of the slices and the old element of the destination.
    """

    name = "iree_linalg_ext.scatter"
    destination = 2

    def equal_sizes(self, op: Any) -> Sequence[Sequence[Dim]]:
        """Return groups of dimensions of equal size: the batch dimensions of slices and indices, and the dimensions of
        the destination that slices cover from end to end."""
        slices, indices, destination = op.operands
        batch = op.windows().batch  # number of leading dimensions that enumerate the slices
        groups = [[Dim(slices, d), Dim(indices, d)] for d in range(batch)]
        for slice_dim, d in enumerate(self._destination_dims_of_slices(op)):
            if d not in op.indexed:  # along an indexed dimension, a slice may be shorter than the destination
                groups.append([Dim(slices, batch + slice_dim), Dim(destination, d)])
        return groups

    def slice_index_rank(self, op: Any) -> int:
        """Return how many leading dimensions of the tensor of slices need a sequential loop, because updates of the
        same element must be made in order.

        - 0 if the program states that slices do not overlap.
        - All dimensions if slices extend along indexed dimensions (`include_indexed_dims`). Two slices may then overlap
          in part: of slices of 4 elements that begin at 0 and 2, elements 2 and 0 have the same position.
        - Otherwise the batch dimensions, which enumerate the slices. Two slices overlap only if they have the same
          coordinates: then elements at equal offsets have the same position, and elements of one slice can be updated
          in parallel.
        """
        if op.is_unique:
            return 0
        windows = op.windows()
        return len(shape_of(op.operands[0])) if windows.include_indexed_dims else windows.batch

    def conflict_key(self, elements: Elements, build: Builder, op: Any, leading: Sequence[Index]) -> Index:
        """Return a linear index that is equal for updates of the same elements, which must be made in order.

        If slices extend along the indexed dimensions (`include_indexed_dims`), slices that begin at different
        coordinates may overlap: `leading` are the indices of one element of the slices, and the result is the linear
        index of the element of the destination that it updates. Otherwise, only slices of equal coordinates overlap:
        `leading` are the batch indices of a slice, and the result is the linear index of its coordinates.

        Args:
            elements: Access to operands.
            build: Builder of the code.
            op: The scatter.
            leading: Indices in the leading dimensions of the tensor of slices, as many as `slice_index_rank` returns.
        """
        sizes = elements.dims(op.operands[2])
        if op.windows().include_indexed_dims:
            return build.linear_index(self.position(elements, build, op, leading), sizes)
        return build.linear_index(self._coordinates(elements, build, op, leading), [sizes[d] for d in op.indexed])

    def is_written(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue | bool:
        """Return whether the position of an element is inside the destination; an element outside is not written.

        `indices` are those of the element in the tensor of slices. The dimensions that are not indexed need no test:
        slices cover them from end to end.
        """
        target, sizes = self.position(elements, build, op, indices), elements.dims(op.operands[2])
        return inside(build, [target[d] for d in op.indexed], [sizes[d] for d in op.indexed])

    def position(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[Index]:
        """Return the indices in the destination of the element at `indices` of the slices: its offsets within the
        slice, plus the coordinates of the slice in the indexed dimensions."""
        batch = op.windows().batch
        target: list[Index] = [0] * len(shape_of(op.operands[2]))
        for d, index in zip(op.indexed, self._coordinates(elements, build, op, indices[:batch]), strict=True):
            target[d] = index
        for d, index in zip(self._destination_dims_of_slices(op), indices[batch:], strict=True):
            target[d] = build.plus(target[d], index)
        return target

    def written_element(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue:
        """Emit the body for one element of the slices, and return the new element of the destination.

        The body combines the element of the slices and the old element of the destination. `indices` are those of the
        element in the tensor of slices.
        """
        block = op.body.block
        new_element, old_element = block.args
        slices, _indices, destination = op.operands
        mapping = {new_element: elements.at(build, slices, indices)}
        if old_element.uses.get_length():  # a body that overwrites does not read it
            mapping[old_element] = elements.at(build, destination, self.position(elements, build, op, indices))
        (value,) = clone_block(elements, build, block, mapping, point=indices)
        return value

    def _destination_dims_of_slices(self, op: Any) -> list[int]:
        """Return, for each dimension of a slice, the matching dimension of the destination."""
        windows, rank = op.windows(), len(shape_of(op.operands[2]))
        slice_rank = len(shape_of(op.operands[0])) - windows.batch
        dims: list[int] = windows.tensor_dims_of_slice(slice_rank=slice_rank, rank=rank, indexed=op.indexed)
        return dims

    def _coordinates(self, elements: Elements, build: Builder, op: Any, batch: Sequence[Index]) -> list[Index]:
        """Return the coordinates that the indices state for the slice at `batch`, one for each of `op.indexed`."""
        # The tensor of indices may lack the last dimension if slices have a single coordinate.
        has_coordinate_dimension = len(shape_of(op.operands[1])) > len(batch)
        coordinates: list[Index] = []
        for position in range(len(op.indexed)):
            value = elements.at(build, op.operands[1], [*batch, position] if has_coordinate_dimension else batch)
            is_index = isinstance(value.type, IndexType)
            coordinates.append(value if is_index else build.pure(arith.IndexCastOp(value, IndexType())))
        return coordinates


class MapStore(Update):
    """`iree_linalg_ext.map_store`: a tensor whose elements are stored at indices that the body computes, or dropped."""

    name = "iree_linalg_ext.map_store"

    def is_written(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> SSAValue | bool:
        """Return whether the source's element at `indices` is stored: the condition of the body holds, and the position
        is in bounds."""
        *target, is_stored = self._mapped(elements, build, op, indices)
        return both(build, is_stored, inside(build, target, elements.dims(op.operands[self.destination])))

    def position(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[Index]:
        """Return the indices in the destination that the body computes for the source's element at `indices`."""
        *destination_indices, _is_stored = self._mapped(elements, build, op, indices)  # the body yields both
        return [*destination_indices]

    def _mapped(self, elements: Elements, build: Builder, op: Any, indices: Sequence[Index]) -> list[SSAValue]:
        """Emit the body for the source's element at `indices`, and return the values that it yields: its position, one
        index for each dimension of the destination, then the condition whether to store the element."""
        block = op.body.block
        return clone_block(
            elements, build, block, dict(zip(block.args, map(build.value, indices), strict=True)), indices
        )


RULES: list[type[TensorOp]] = [Scatter, MapStore]
"""Rules of this file, which `extensions.builtin` registers."""
