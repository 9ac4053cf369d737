"""`pyd.save_rows`: saving rows of a global before they are overwritten, in host functions."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type


@op_definition
class SaveRowsOp(IRDLOperation):
    """Identity on a tensor, the value of a global, that passes copies of some of its rows to the runtime.

    Syntax: `%new = pyd.save_rows %old rows %positions are %saved : tensor<8x16xf32>, tensor<2xi64>,
    tensor<2x16xf32> -> tensor<8x16xf32>`. With the positions [6, 1], `saved` has the rows 6 and 1 of `old`.

    Updates of the result may then overwrite these rows in the global's memory: if the call fails, the runtime restores
    them from the copies. The pass `save_updated_rows` creates the operation.

    Attributes:
        source: The tensor.
        positions: Index of each row, in row-major order of the leading dimensions of the tensor: rows of 16 elements of
            a tensor<4x5x16xf32> are counted from 0 to 19, and row (2, 3) has index 13. A negative index has no row, and
            its copy is ignored.
        saved: The copies, [dimensions of the positions..., dimensions of a row...].
    """

    name = "pyd.save_rows"
    source = operand_def(TensorType)
    positions = operand_def(TensorType)
    saved = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$source `rows` $positions `are` $saved attr-dict `:` type($source) `,` type($positions) `,` type($saved) "
        "`->` type($result)"
    )

    def verify_(self) -> None:
        """Check that the result has the type of the source, positions are i64, and saved rows have the source's
        elements.
        """
        if self.result.type != self.source.type:
            raise VerifyException(f"the result is {self.result.type}, expected {self.source.type} as the source")
        if element_type(self.positions.type) != i64:
            raise VerifyException(f"positions are a tensor of i64, got {self.positions.type}")
        if element_type(self.saved.type) != element_type(self.source.type):
            raise VerifyException(f"{self.saved.type} and {self.source.type} differ in their elements")


OPERATIONS: list[type[Operation]] = [SaveRowsOp]
