"""`tensor.parallel_insert_slice`: what one iteration of `scf.forall` writes into a shared output."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IndexType, TensorType
from xdsl.ir import Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.dialects.linalg.shape import numbers


@op_definition
class ParallelInsertSliceOp(IRDLOperation):
    """Insertion of an iteration's slice into a shared output of scf.forall.

    Syntax: `%source into %dest[offsets] [sizes] [strides] : T into U`. `static_offsets`, `static_sizes` and
    `static_strides` have an entry for each dimension of `dest`: a number, or DYNAMIC for the next of the operands
    `offsets`, `sizes` or `strides`.
    """

    name = "tensor.parallel_insert_slice"
    source = operand_def(TensorType)
    dest = operand_def(TensorType)
    offsets = var_operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    static_offsets = prop_def(DenseArrayBase)
    static_sizes = prop_def(DenseArrayBase)
    static_strides = prop_def(DenseArrayBase)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$source `into` $dest `` custom<Mixed>($offsets, $static_offsets) custom<Mixed>($sizes, $static_sizes) "
        "custom<Mixed>($strides, $static_strides) attr-dict `:` type($source) `into` type($dest)"
    )

    def verify_(self) -> None:
        """Check that there are as many offsets, sizes and strides as dimensions of the destination."""
        rank = len(self.dest.type.get_shape())  # type: ignore[attr-defined]
        for entries in map(numbers, (self.static_offsets, self.static_sizes, self.static_strides)):
            if len(entries) != rank:
                raise VerifyException(f"{self.dest.type} takes {rank} offsets, sizes and strides, got {len(entries)}")


OPERATIONS: list[type[Operation]] = [ParallelInsertSliceOp]
