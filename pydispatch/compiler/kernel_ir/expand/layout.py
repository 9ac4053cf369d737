"""`pyd.layout`: the numbers of a memref that only the place knows where it comes from."""

from __future__ import annotations

from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, var_result_def

NAME = "pyd.layout"


@irdl_op_definition
class LayoutOp(IRDLOperation):
    """Offset, sizes and strides of a memref, in elements. It is no code: emitters know them of every memref."""

    name = NAME
    source = operand_def()
    parts = var_result_def()
