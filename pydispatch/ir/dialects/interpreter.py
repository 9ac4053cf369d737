"""The `interpreter` dialect of StableHLO's tests: a value that a later check looks at."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def

from pydispatch.ir.core.assembly import op_definition


@op_definition
class ProbeOp(IRDLOperation):
    """Identity operation that records its operand for `check.expect_serialized_eq` under the name `probe_id`."""

    name = "interpreter.probe"
    operand = operand_def(TensorType)
    probe_id = prop_def(StringAttr)
    result = result_def(TensorType)
    assembly_format = (
        "$operand `,` `probe_id` `=` $probe_id attr-dict `:` type($operand) "
        "custom<SameTypes>(type($result), ref(type($operand)))"
    )


OPERATIONS: list[type[Operation]] = [ProbeOp]
Interpreter = Dialect("interpreter", OPERATIONS, [])
