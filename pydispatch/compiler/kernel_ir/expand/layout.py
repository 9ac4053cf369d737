"""`pyd.layout`: offset, sizes and strides of a memref that its type does not state."""

from __future__ import annotations

from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, var_result_def

NAME = "pyd.layout"
"""Name of the operation."""


@irdl_op_definition
class LayoutOp(IRDLOperation):
    """Query of the offset, sizes and strides of a memref, in elements. It emits no code: emitters track them.

    Its results, `parts`, are the offset, then all sizes, then all strides.
    """

    name = NAME
    source = operand_def()
    parts = var_result_def()
