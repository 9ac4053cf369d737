"""`gpu.shuffle`: reads a register of another invocation of the warp; xDSL's gpu dialect lacks it."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def

from pydispatch.compiler.kernel_ir.build import Build

DOWN, INDEX = 0, 1


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """Read of a register of another invocation of the warp: `offset` lanes further (down), or of lane `offset` (index).

    The `lanes` lowest lanes of the warp take part. A read beyond them returns the invocation's own value.
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
