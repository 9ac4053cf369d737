"""Operations whose sizes are operands."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from pydispatch.ir.dialects.stablehlo.attributes import Gather
from pydispatch.ir.dialects.stablehlo.clauses import NUMBERS, IntegerClause, IntegersClause
from pydispatch.ir.dialects.stablehlo.syntax import operation

_KNOWN = {"known_expanding_dimensions": NUMBERS, "known_nonexpanding_dimensions": NUMBERS}
"""Optional properties of a dynamic broadcast, both lists of integers: axes of the operand that are known to be
expanded, or not to be."""

OPERATIONS: list[type[Operation]] = [
    operation(
        "stablehlo.dynamic_broadcast_in_dim", "operand output_dimensions",
        clauses=[IntegersClause("dims", "broadcast_dimensions")], optional=_KNOWN,
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
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones. Those with the base `IRDLOperation` have only the generic form, `"name"(...)`."""
