"""The `interpreter` dialect of StableHLO's tests: values recorded for later checks, and runs in several processes."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)

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


@irdl_op_definition
class RunParallelOp(IRDLOperation):
    """Run of functions in several processes, whose collective operations exchange values.

    `programs` has a row for each replica, with the symbol of a function for each of its partitions. `inputs` are the
    arguments of all functions, and `outputs` their results, in this order.
    """

    name = "interpreter.run_parallel"
    inputs = var_operand_def(TensorType)
    programs = attr_def(ArrayAttr)
    outputs = var_result_def(TensorType)


OPERATIONS: list[type[Operation]] = [ProbeOp, RunParallelOp]
Interpreter = Dialect("interpreter", OPERATIONS, [])
