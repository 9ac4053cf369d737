"""`scatter`, `gather`, `map_store` and `map_load`: elements at indices that other elements or a body give."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_region_def, opt_result_def, prop_def, region_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import (
    RESULTS,
    SIDES,
    BodyOp,
    DestinationOp,
    check_body,
    check_count,
    check_integers,
    check_shape,
    shape_of,
)


class Windows(NamedTuple):
    """Mapping between the dimensions of a tensor and of its slices, in a gather or scatter.

    A slice is the region of the tensor that one index selects. `windows_of` creates an instance. For a tensor of
    10x20x30 whose dimension 0 is indexed by a tensor of 4x1:

        slices of 4x20x30     batch 1, include_indexed_dims False: an index selects one of the 10 matrices of 20x30
        slices of 4x2x20x30   batch 1, include_indexed_dims True: an index selects the first of two such matrices

    Attributes:
        batch: Number of leading dimensions, of the tensor of slices and of the indices, that enumerate the slices.
        include_indexed_dims: If True, a slice has the last dimensions of the tensor, including indexed ones, along
            which an index is the start of the slice. If False, a slice has the dimensions that are not indexed.
    """

    batch: int
    include_indexed_dims: bool

    def tensor_dims_of_slice(self, *, slice_rank: int, rank: int, indexed: list[int]) -> list[int]:
        """Return, for each dimension of a slice, the dimension of the tensor along which it runs.

        Of a tensor of 10x20x30 whose dimension 0 is indexed, slices of 20x30 give [1, 2], and slices of 2x20x30, which
        have this dimension, give [0, 1, 2].

        Args:
            slice_rank: Number of dimensions of a slice.
            rank: Number of dimensions of the tensor.
            indexed: Dimensions of the tensor that the indices address.
        """
        if self.include_indexed_dims:
            return list(range(rank - slice_rank, rank))
        return [d for d in range(rank) if d not in indexed]


def windows_of(whole: SSAValue, indices: SSAValue, slices: SSAValue, indexed: list[int]) -> Windows:
    """Return how slices of a scatter or gather map to the tensor; raise VerifyException if the shapes do not match.

    Slices either lack the indexed dimensions, where an index selects a position, or have some of them, where an index
    is the start of a window. With a tensor of 10x20x30, indices of 4x1 and `indexed` [0], slices of 4x20x30 are at
    positions, and slices of 4x2x20x30 are windows of two matrices of 20x30.

    Args:
        whole: The tensor that slices are read from or written to.
        indices: Tensor of the indices: the dimensions that enumerate the slices, then the components of an index.
        slices: Tensor of the slices: the dimensions that enumerate them, then those of a slice.
        indexed: Dimension of `whole` that each component of an index is for.
    """
    rank, depth = len(shape_of(whole)), len(indexed)  # depth: number of components of an index
    if not indexed or len(set(indexed)) != depth or not all(0 <= d < rank for d in indexed):
        raise VerifyException(f"dimension_map {indexed} does not list different dimensions of {whole.type}")
    check_integers("the tensor of indices", indices)
    # The cases that the shapes fit. If they fit both, the case in which indices select positions is used.
    fitting: list[Windows] = []
    for batch in _possible_batches(shape_of(indices), depth):
        slice_rank = len(shape_of(slices)) - batch
        if slice_rank == rank - depth:
            fitting.insert(0, Windows(batch, include_indexed_dims=False))
        # Windows have the last dimensions of `whole`. Those that they lack must be indexed: there, an index selects a
        # position. With `indexed` [0, 1], slices of 4x2x30 are windows of 2x30 in dimensions 1 and 2.
        elif rank - depth < slice_rank <= rank and all(d in indexed for d in range(rank - slice_rank)):
            fitting.append(Windows(batch, include_indexed_dims=True))
    if not fitting:
        raise VerifyException(
            f"indices {indices.type} and slices {slices.type} do not fit {whole.type}: indices have the dimensions "
            f"that count the slices and then one of size {depth}, slices the former and then those of the tensor"
        )
    _check_slices(fitting[0], whole, indices, slices, indexed)
    return fitting[0]


def _possible_batches(index_shape: tuple[int, ...], depth: int) -> list[int]:
    """Return the possible numbers of leading dimensions of a tensor of indices that enumerate the slices.

    Its last dimension has the `depth` components of one index. For one component, this dimension may be left out: then
    all dimensions enumerate slices.
    """
    batches = []
    if index_shape and index_shape[-1] == depth:
        batches.append(len(index_shape) - 1)
    if depth == 1:
        batches.append(len(index_shape))
    return batches


def _check_slices(windows: Windows, whole: SSAValue, indices: SSAValue, slices: SSAValue, indexed: list[int]) -> None:
    """Check the shape of the tensor of slices, which is [batch dimensions of the indices..., sizes of a slice...], and
    its elements.

    Along a dimension of `whole` that is not indexed, a slice has the full size of `whole`. Along an indexed dimension,
    a slice is a window of any size up to the full one.
    """
    shape, slices_shape = shape_of(whole), shape_of(slices)
    dims_in_slices = windows.tensor_dims_of_slice(
        slice_rank=len(slices_shape) - windows.batch, rank=len(shape), indexed=indexed
    )
    slice_sizes = [slices_shape[windows.batch + i] if d in indexed else shape[d] for i, d in enumerate(dims_in_slices)]
    check_shape("the tensor of slices", slices, [*shape_of(indices)[: windows.batch], *slice_sizes])
    for size, d in zip(slice_sizes, dims_in_slices, strict=True):
        if DYNAMIC not in (size, shape[d]) and size > shape[d]:
            raise VerifyException(f"slices of {slices.type} are larger than {whole.type}")
    if element_type(slices.type) != element_type(whole.type):
        raise VerifyException(f"{slices.type} and {whole.type} differ in their elements")


def _check_mask(mask: SSAValue, slices: SSAValue, windows: Windows) -> None:
    """Check that a mask has an i1 for each slice."""
    if element_type(mask.type) != i1:
        raise VerifyException(f"the mask has i1 for elements, got {mask.type}")
    check_shape("the mask", mask, shape_of(slices)[: windows.batch])


class ScatterLike(BodyOp):
    """Scatter: the output operand, with slices combined into it at given indices; elements out of bounds are skipped.

    With `dimension_map = [0]`, slices of 3x20, indices of 3x1 and an output of 10x20, each slice s is one row:
    output[indices[s, 0], j] = body(slices[s, j], output[indices[s, 0], j]) for each column j.

    Attributes:
        inputs: The slices, the indices at which they start in the output, and optionally a mask with an i1 per slice;
            a slice whose i1 is 0 is skipped.
        dimension_map: For each component of an index, the dimension of the output that it addresses.
        unique_indices: Whether slices do not overlap; otherwise they are combined in the order of the tensor of slices.
        body: Takes an element of a slice and the current element of the output, and yields the new element.
    """

    dimension_map = prop_def(DenseArrayBase.constr(i64))
    unique_indices = prop_def(IntegerAttr)

    @property
    def indexed(self) -> list[int]:
        """Return, for each component of an index, the dimension of the output that it addresses."""
        return [int(d) for d in self.dimension_map.get_values()]

    @property
    def is_unique(self) -> bool:
        """Return whether the program states that the slices written to the output do not overlap."""
        return bool(self.unique_indices.value.data)

    def windows(self) -> Windows:
        """Return how the dimensions of the slices map to those of the output."""
        return windows_of(self.outputs[0], self.inputs[1], self.inputs[0], self.indexed)

    def verify_operands(self) -> None:
        """Check the numbers of operands, the shapes of slices, indices and mask, and the types of the body.

        The body takes two elements of the output's type, and yields one.
        """
        check_count("input", len(self.inputs), 2, 3)  # the slices, the indices, and optionally a mask
        check_count("output", len(self.outputs), 1)
        windows = self.windows()  # raises VerifyException for shapes that do not match
        if len(self.inputs) == 3:
            _check_mask(self.inputs[2], self.inputs[0], windows)
        element = element_type(self.outputs[0].type)
        check_body(self.body, [element, element], [element])


@op_definition
class ScatterOp(ScatterLike):
    """Scatter of slices into a tensor."""

    name = "iree_linalg_ext.scatter"
    assembly_format = (
        "attr-dict `dimension_map` `=` custom<Numbers>($dimension_map) `unique_indices` `(` $unique_indices `)` "
        f"{SIDES} $body {RESULTS}"
    )


@op_definition
class GatherOp(DestinationOp):
    """Gather of slices of a tensor at positions from a tensor of indices; indices out of bounds are clamped.

    With `dimension_map = [0]`, a tensor of 10x20 and indices of 3x1, the result is of 3x20:
    result[s, j] = tensor[indices[s, 0], j] for each slice s and column j.

    Attributes:
        inputs: The tensor, the indices, and optionally a mask with an i1 per slice. A slice whose i1 is 0 has the
            elements of the output operand.
        dimension_map: For each component of an index, the dimension of the tensor that it addresses.
        body: Takes an element of the tensor and the element of the output operand, and yields the result's. Programs of
            older IREE releases have no body: the result's element is the tensor's.
    """

    name = "iree_linalg_ext.gather"
    dimension_map = prop_def(DenseArrayBase.constr(i64))
    body = opt_region_def("single_block")
    assembly_format = f"attr-dict `dimension_map` `=` custom<Numbers>($dimension_map) {SIDES} $body {RESULTS}"

    @property
    def indexed(self) -> list[int]:
        """Return, for each component of an index, the dimension of the tensor that it addresses."""
        return [int(d) for d in self.dimension_map.get_values()]

    def windows(self) -> Windows:
        """Return how the dimensions of the slices, which are those of the output, map to those of the tensor."""
        return windows_of(self.inputs[0], self.inputs[1], self.outputs[0], self.indexed)

    def verify_operands(self) -> None:
        """Check the numbers of operands, the shapes of indices, output and mask, and the types of the body.

        An optional body takes two elements of the output's type, which is the tensor's, and yields one.
        """
        check_count("input", len(self.inputs), 2, 3)  # the tensor, the indices, and optionally a mask
        check_count("output", len(self.outputs), 1)
        windows = self.windows()  # raises VerifyException for shapes that do not match
        if len(self.inputs) == 3:
            _check_mask(self.inputs[2], self.outputs[0], windows)
        if self.body is not None:
            element = element_type(self.outputs[0].type)
            check_body(self.body, [element, element], [element])


class MapOp(IRDLOperation):
    """Base of operations that copy elements of `input` to `output`; the body computes their indices in one of the two.

    A store computes the output index from the input index, a load the input index from the output index. This store
    writes the element [i, j] of %a to [j, i] of %b, so that %0 is the transpose of %a:

        %0 = iree_linalg_ext.map_store %a into %b {
        ^bb0(%i: index, %j: index):
          iree_linalg_ext.yield %j, %i, %true : index, index, i1
        } : tensor<4x8xf32> into tensor<8x4xf32> -> tensor<8x4xf32>

    The third yielded value states whether the element is stored. A load yields the padding instead, which the output
    gets if the input index is out of bounds.
    """

    input = operand_def()
    output = operand_def()
    body = region_def("single_block")
    res = opt_result_def(TensorType)  # the new value of an output tensor; absent if the output is a memref
    assembly_format = (
        "$input `into` $output attr-dict-with-keyword $body `:` type($input) `into` type($output) (`->` type($res)^)?"
    )

    def verify_(self) -> None:
        """Check that the result has the type of a tensor output, that the element types are equal, and the body."""
        result_type = None if self.res is None else self.res.type
        if isinstance(self.output.type, TensorType) and result_type != self.output.type:
            actual = "none" if result_type is None else str(result_type)
            raise VerifyException(f"the result is {actual}, expected {self.output.type} as the output")
        if element_type(self.input.type) != element_type(self.output.type):
            raise VerifyException(f"{self.input.type} and {self.output.type} differ in their elements")
        self.verify_body()

    def verify_body(self) -> None:
        """Check the argument types of the body and the types that it yields; raise VerifyException otherwise."""
        raise NotImplementedError


class MapStore(MapOp):
    """Base of stores of input elements at computed indices of the output; elements out of bounds are skipped.

    The body maps an input index to an output index and an i1 that states whether the element is stored. No two elements
    may have the same output index.
    """

    def verify_body(self) -> None:
        """Verify that the body maps an input index to an output index and an i1, whether the element is stored."""
        input_rank, output_rank = len(shape_of(self.input)), len(shape_of(self.output))
        check_body(self.body, [IndexType()] * input_rank, [*[IndexType()] * output_rank, i1])


@op_definition
class MapStoreOp(MapStore):
    """Store of input elements at computed indices of the output."""

    name = "iree_linalg_ext.map_store"


@op_definition
class MapScatterOp(MapStore):
    """Former name of `map_store`."""

    name = "iree_linalg_ext.map_scatter"


class MapLoad(MapOp):
    """Base of loads: each element of the output is the input element at a computed index.

    The body maps an output index to an input index and to the value that the output gets if that is out of bounds.
    """

    def verify_body(self) -> None:
        """Verify that the body maps an output index to an input index and an element."""
        input_rank, output_rank = len(shape_of(self.input)), len(shape_of(self.output))
        element = element_type(self.input.type)
        check_body(self.body, [IndexType()] * output_rank, [*[IndexType()] * input_rank, element])


@op_definition
class MapLoadOp(MapLoad):
    """Load of input elements at computed indices."""

    name = "iree_linalg_ext.map_load"


@op_definition
class MapGatherOp(MapLoad):
    """Former name of `map_load`."""

    name = "iree_linalg_ext.map_gather"


OPERATIONS: list[type[Operation]] = [ScatterOp, GatherOp, MapStoreOp, MapScatterOp, MapLoadOp, MapGatherOp]
