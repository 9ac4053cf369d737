"""Elements and slices at computed indices."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure

from pydispatch.ir.dialects.stablehlo.attributes import Gather, Scatter
from pydispatch.ir.dialects.stablehlo.clauses import NUMBERS, IntegersClause
from pydispatch.ir.dialects.stablehlo.syntax import operation


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """Scatter of updates into slices of tensors at computed positions.

    `updates[i]` are the slices for `inputs[i]`; all inputs share the positions in `scatter_indices`. The region takes
    the current elements of all inputs, then their updates, and returns the new elements.
    """

    name = "stablehlo.scatter"
    inputs = var_operand_def(TensorType)
    scatter_indices = operand_def(TensorType)
    updates = var_operand_def(TensorType)
    scatter_dimension_numbers = prop_def(Scatter)
    indices_are_sorted = opt_prop_def(BoolAttr)
    unique_indices = opt_prop_def(BoolAttr)
    result = var_result_def()
    update_computation = region_def()
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())


OPERATIONS: list[type[Operation]] = [
    ScatterOp,
    operation(
        "stablehlo.dynamic_slice", "operand start_indices*", clauses=[IntegersClause("sizes", "slice_sizes")],
    ),
    operation("stablehlo.dynamic_update_slice", "operand update start_indices*"),
    operation(
        "stablehlo.gather", "operand start_indices", required={"dimension_numbers": Gather, "slice_sizes": NUMBERS},
        optional={"indices_are_sorted": BoolAttr}, base=IRDLOperation,
    ),
    operation(
        "stablehlo.torch_index_select", "operand index", required={"dim": IntegerAttr, "batch_dims": IntegerAttr},
        base=IRDLOperation,
    ),
]  # fmt: skip
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones. Those with the base `IRDLOperation` have only the generic form, `"name"(...)`."""
