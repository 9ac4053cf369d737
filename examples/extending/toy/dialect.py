"""A dialect with four operations on tensors."""

from typing import ClassVar

from xdsl.dialects.builtin import I64, AnyFloat, IntegerAttr, TensorType
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class SwishOp(IRDLOperation):
    """x / (1 + exp(-x)), element by element."""

    T: ClassVar = VarConstraint("T", TensorType.constr(AnyFloat))  # one type for the operand and the result

    name = "toy.swish"
    source = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source)"


@irdl_op_definition
class ReverseOp(IRDLOperation):
    """The elements in the opposite order along one axis, counted from 0, as in `tosa.reverse`."""

    T: ClassVar = VarConstraint("T", base(TensorType))

    name = "toy.reverse"
    source = operand_def(T)
    axis = prop_def(IntegerAttr[I64])
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$source `axis` $axis attr-dict `:` type($source)"

    def verify_(self) -> None:
        """Raise VerifyException if the axis is not one of the operand's."""
        axis, rank = self.axis.value.data, self.source.type.get_num_dims()
        if not 0 <= axis < rank:
            raise VerifyException(f"'toy.reverse': axis {axis} of a tensor with {rank} dimensions")


@irdl_op_definition
class FlattenOp(IRDLOperation):
    """All elements of a tensor in row-major order, as a tensor of one dimension."""

    name = "toy.flatten"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """Counts of the elements in bins of equal width between 0 and 1; the result has one count for each bin."""

    name = "toy.histogram"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"


Toy = Dialect("toy", [SwishOp, ReverseOp, FlattenOp, HistogramOp])
