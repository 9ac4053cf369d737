"""`pyd.splice`: elements of two adjacent vectors, in kernel IR for CPUs."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition


@op_definition
class SpliceOp(IRDLOperation):
    """Copy of consecutive elements of two static lines in kernel IR for CPUs, `pyd.splice %low, %high, %into first = 3
    : i64 : memref<16xf32>, memref<16xf32>, memref<16xf32>`.

    Element i of `into` becomes element `first` + i of the concatenation of `low` and `high`. All three are contiguous.
    """

    name = "pyd.splice"
    first = prop_def(IntegerAttr)
    low = operand_def(MemRefType)
    high = operand_def(MemRefType)
    into = operand_def(MemRefType)
    assembly_format = (
        "$low `,` $high `,` $into `first` `=` $first attr-dict `:` type($low) `,` type($high) `,` type($into)"
    )

    def verify_(self) -> None:
        """Check that the operands are static lines of one type, and that `first` is in the first of them."""
        lines = [cast("MemRefType[Attribute]", operand.type) for operand in self.operands]
        shape = lines[0].get_shape()
        is_alike = all(line.get_shape() == shape and line.element_type == lines[0].element_type for line in lines)
        if not is_alike or len(shape) != 1 or shape[0] < 1:  # a dynamic size is negative
            raise VerifyException(f"pyd.splice takes static lines of one type, got {', '.join(map(str, lines))}")
        if not 0 <= self.first.value.data < shape[0]:
            raise VerifyException(f"pyd.splice begins in the first line, of {shape[0]} elements")


OPERATIONS: list[type[Operation]] = [SpliceOp]
