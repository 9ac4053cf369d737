"""`group_matmul`: products of consecutive groups of rows, each with a matrix of its own."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.base import (
    RESULTS,
    SIDES,
    OnTensorsOp,
    check_count,
    check_integers,
    check_shape,
    shape_of,
)


@op_definition
class GroupMatmulOp(OnTensorsOp):
    """Product of each row with the matrix of its group, added to the output.

    A group is a range of consecutive rows, all multiplied by one matrix. Row i of the tensor of rows has the number
    r = `first` + i, since the tensor may be a slice of the rows that `ends` counts. Its group is g if
    ends[g - 1] <= r < ends[g], and 0 if r < ends[0]. A row with r >= ends[groups - 1] is in no group and leaves its row
    of the output [m, n] unchanged.

    Example: with the ends [2, 5] and `first` = 0, of six rows the first two are multiplied by matrix 0, the next three
    by matrix 1, and the last one is in no group.

    Attributes:
        inputs: The rows [m, k]; the matrices [groups, k, n]; the ends [groups], for each group the number of the row
            after its last, in ascending order; and `first`, the number of the first row.
    """

    name = "iree_linalg_ext.group_matmul"
    assembly_format = f"attr-dict {SIDES} {RESULTS}"

    def verify_operands(self) -> None:
        """Check the types of the rows [m, k], matrices [groups, k, n], ends [groups], `first`, and the output [m, n].

        Group g has the rows from number ends[g - 1] up to, not including, ends[g], and `first` is the number of the
        first row. `ends` has integers or index for elements. `first` is an integer or index. Rows and matrices have one
        element type; that of the output may differ, as it is the type of the sums. Raise VerifyException otherwise.
        """
        check_count("input", len(self.inputs), 4)
        check_count("output", len(self.outputs), 1)
        rows, matrices, ends, first = self.inputs
        if len(shape_of(matrices)) != 3:
            raise VerifyException(f"the matrices are {matrices.type}, expected three dimensions")
        groups, depth, columns = shape_of(matrices)
        check_shape("the tensor of rows", rows, [DYNAMIC, depth])
        check_shape("the tensor of ends", ends, [groups])
        check_integers("the tensor of ends", ends)
        if not isinstance(first.type, IndexType | IntegerType):
            raise VerifyException(f"the number of the first row is an integer or index, got {first.type}")
        check_shape("the output", self.outputs[0], [shape_of(rows)[0], columns])
        elements = [element_type(v.type) for v in (rows, matrices)]
        if elements[0] != elements[1]:
            raise VerifyException(f"rows and matrices have one element type, got {elements[0]} and {elements[1]}")


OPERATIONS: list[type[Operation]] = [GroupMatmulOp]
