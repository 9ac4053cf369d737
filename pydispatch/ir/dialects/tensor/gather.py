"""`tensor.gather` and `tensor.scatter`: slices of a tensor at coordinates that another tensor holds."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.tensor.verify import element_of, may_be_equal, shape_of, shape_text


@op_definition
class GatherOp(IRDLOperation):
    """Gather of slices: result[i..., :] is the slice of `source` at the coordinates indices[i..., :].

    `%r = tensor.gather %s[%i] gather_dims([1]) : (tensor<2x6xf32>, tensor<3x1xindex>) -> tensor<3x2xf32>` computes
    r[k, :] = s[:, i[k, 0]]. The result has the dimensions of `indices` without the last one, then the dimensions of
    `source` without the gathered ones. The gathered dimensions may also stay, with size 1: tensor<3x2x1xf32>.

    Attributes:
        indices: Integer or index elements; the last dimension has one coordinate for each of `gather_dims`.
        gather_dims: Dimensions of `source` that the coordinates index, in ascending order.
        unique: States that no two coordinates are equal.
    """

    name = "tensor.gather"
    source = operand_def(TensorType)
    indices = operand_def(TensorType)
    gather_dims = prop_def(DenseArrayBase.constr(i64))
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $indices `]` `gather_dims` `(` $gather_dims `)` (`unique` $unique^)? attr-dict `:` "
        "functional-type(operands, results)"
    )

    def verify_(self) -> None:
        """Verify the coordinates, and the shapes of the slices."""
        _check_coordinates(self.gather_dims, self.source, self.indices)
        _check_slices(self.gather_dims, self.source, self.indices, self.result)


@op_definition
class ScatterOp(IRDLOperation):
    """Scatter of slices: `dest` with the slices of `source` written at the coordinates in `indices`.

    `%r = tensor.scatter %s into %d[%i] scatter_dims([0]) unique :
    (tensor<3x6xf32>, tensor<9x6xf32>, tensor<3x1xi32>) -> tensor<9x6xf32>` returns a copy of d in which
    r[i[k, 0], :] = s[k, :]. The shapes of `source` and `indices` are those of the result and indices of a `GatherOp`.

    Attributes:
        scatter_dims: Dimensions of `dest` that the coordinates index, in ascending order.
        unique: States that no two coordinates are equal. Required: two writes to an element would have no order.
    """

    name = "tensor.scatter"
    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    indices = operand_def(TensorType)
    scatter_dims = prop_def(DenseArrayBase.constr(i64))
    unique = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `into` $dest `[` $indices `]` `scatter_dims` `(` $scatter_dims `)` (`unique` $unique^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def verify_(self) -> None:
        """Check the slices and coordinates, that `unique` is stated, and that the result has the type of `dest`."""
        _check_coordinates(self.scatter_dims, self.dest, self.indices)
        _check_slices(self.scatter_dims, self.dest, self.indices, self.source)
        if self.unique is None:
            raise VerifyException("a scatter needs 'unique': coordinates that meet twice have no order")
        if self.result.type != self.dest.type:
            raise VerifyException(f"the result is {self.result.type}, expected the type of `dest`, {self.dest.type}")


def _check_coordinates(dims: DenseArrayBase[Any], target: SSAValue, indices: SSAValue) -> None:
    """Check that `dims`, the indexed dimensions of `target`, exist and ascend, and that the last dimension of `indices`
    has one integer coordinate for each.

    Raise VerifyException otherwise.
    """
    assert isinstance(target.type, TensorType) and isinstance(indices.type, TensorType)
    values = [int(d) for d in dims.get_values()]
    rank = target.type.get_num_dims()
    if not values or values != sorted(set(values)) or values[0] < 0 or values[-1] >= rank:
        raise VerifyException(f"the dimensions {values} do not rise from 0 to at most {rank - 1}")
    shape = indices.type.get_shape()
    if not shape or shape[-1] != len(values):
        raise VerifyException(f"the last dimension of {indices.type} must be {len(values)}, one for each dimension")
    if not isinstance(indices.type.get_element_type(), IndexType | IntegerType):
        raise VerifyException(f"coordinates are integers or index, got {indices.type}")


def _check_slices(dims: DenseArrayBase[Any], target: SSAValue, indices: SSAValue, slices: SSAValue) -> None:
    """Check the element type and the shape of the slices; raise VerifyException otherwise.

    The shape begins with the sizes of `indices`, without the last one. The sizes of the target follow; the indexed
    dimensions `dims` among them are omitted, or have size 1.
    """
    if element_of(slices) != element_of(target):
        raise VerifyException(f"{slices.type} and {target.type} differ in their elements")
    indexed = {int(d) for d in dims.get_values()}
    batch, shape = shape_of(indices)[:-1], shape_of(target)
    with_units = (*batch, *(1 if d in indexed else n for d, n in enumerate(shape)))
    reduced = (*batch, *(n for d, n in enumerate(shape) if d not in indexed))
    slice_shape = shape_of(slices)  # None for dynamic sizes, which match any size
    for wanted in (reduced, with_units):
        if len(slice_shape) == len(wanted) and all(map(may_be_equal, slice_shape, wanted)):
            return
    raise VerifyException(f"the slices are {slices.type}, expected the shape {shape_text(reduced)}")


OPERATIONS: list[type[Operation]] = [GatherOp, ScatterOp]
