"""`gpu.shuffle`: the operation of invocations that no dialect has."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def

from pydispatch.compiler.kernel_ir.build import Build

DOWN, INDEX = 0, 1


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """A register of another invocation of the warp: `down` by so many lanes, or of the lane `index`.

    lanes: how many invocations take part, those with the lowest numbers of the warp. What comes from beyond them is
    the own value.
    """

    name = "gpu.shuffle"
    value = operand_def()
    mode = prop_def(IntegerAttr)
    offset = prop_def(IntegerAttr)
    lanes = prop_def(IntegerAttr)
    result = result_def()


def shuffle(build: Build, value: SSAValue, mode: int, offset: int, lanes: int) -> SSAValue:
    numbers = {"mode": mode, "offset": offset, "lanes": lanes}
    properties = {name: IntegerAttr(setting, 64) for name, setting in numbers.items()}
    return build.let(ShuffleOp(operands=[value], properties=properties, result_types=[value.type]))
