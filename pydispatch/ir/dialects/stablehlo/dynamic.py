"""Operations whose sizes are operands."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, IntegerAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from pydispatch.ir.dialects.stablehlo.attributes import Conv, Gather
from pydispatch.ir.dialects.stablehlo.clauses import NUMBERS, IntegerClause, IntegersClause
from pydispatch.ir.dialects.stablehlo.syntax import operation

_KNOWN = {"known_expanding_dimensions": NUMBERS, "known_nonexpanding_dimensions": NUMBERS}
_CONVOLUTION = {
    "window_strides": NUMBERS, "lhs_dilation": NUMBERS, "rhs_dilation": NUMBERS, "window_reversal": NUMBERS,
    "precision_config": Attribute,
}  # fmt: skip

OPERATIONS: list[type[Operation]] = [
    operation(
        "stablehlo.dynamic_broadcast_in_dim", "operand output_dimensions",
        clauses=[IntegersClause("dims", "broadcast_dimensions")], optional=_KNOWN,
    ),
    operation(
        "stablehlo.dynamic_conv", "lhs rhs padding", optional=_CONVOLUTION, base=IRDLOperation,
        required={"dimension_numbers": Conv, "feature_group_count": IntegerAttr, "batch_group_count": IntegerAttr},
    ),
    operation(
        "stablehlo.dynamic_gather", "operand start_indices slice_sizes", required={"dimension_numbers": Gather},
        optional={"indices_are_sorted": BoolAttr}, base=IRDLOperation,
    ),
    operation("stablehlo.dynamic_iota", "output_shape", clauses=[IntegerClause("dim", "iota_dimension")]),
    operation("stablehlo.dynamic_pad", "operand padding_value edge_padding_low edge_padding_high interior_padding"),
    operation("stablehlo.dynamic_reshape", "operand output_shape"),
    operation("stablehlo.real_dynamic_slice", "operand start_indices limit_indices strides"),
]  # fmt: skip
