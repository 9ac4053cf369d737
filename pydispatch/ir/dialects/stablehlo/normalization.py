"""Batch normalization, in training, its gradient, and in use."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from pydispatch.ir.dialects.stablehlo.syntax import operation

_REQUIRED = {"epsilon": FloatAttr, "feature_index": IntegerAttr}
"""Properties of all three operations: the addition to the variance, and the axis of the features."""

OPERATIONS: list[type[Operation]] = [
    operation(
        "stablehlo.batch_norm_grad", "operand scale mean variance grad_output", "grad_operand grad_scale grad_offset",
        required=_REQUIRED, base=IRDLOperation,
    ),
    operation(
        "stablehlo.batch_norm_inference", "operand scale offset mean variance", required=_REQUIRED, base=IRDLOperation
    ),
    operation(
        "stablehlo.batch_norm_training", "operand scale offset", "output batch_mean batch_var", required=_REQUIRED,
        base=IRDLOperation,
    ),
]  # fmt: skip
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones. Those with the base `IRDLOperation` have only the generic form, `"name"(...)`."""
