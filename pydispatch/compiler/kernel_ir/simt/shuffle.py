"""`gpu.shuffle` and `gpu.ballot`: what invocations of a warp read of each other; xDSL's gpu dialect lacks them."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def

from pydispatch.compiler.kernel_ir.build import TRUTH, WORD, Build

DOWN, INDEX, XOR = 0, 1, 2
"""Modes of a shuffle, the lane that is read: own lane + offset (DOWN), offset (INDEX), own lane xor offset (XOR)."""


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """Read of a register of another invocation of the warp.

    The lane that is read is, by `mode`: own lane + `offset` (down), lane `offset` (index), or own lane xor `offset`
    (xor). An operand `lane`, an i32 of which the low 5 bits count, takes the place of `offset`. The `lanes` lowest
    lanes of the warp take part. A read beyond them returns the invocation's own value.
    """

    name = "gpu.shuffle"
    value = operand_def()
    lane = opt_operand_def(WORD)
    mode = prop_def(IntegerAttr)
    offset = prop_def(IntegerAttr)
    lanes = prop_def(IntegerAttr)
    result = result_def()


@irdl_op_definition
class BallotOp(IRDLOperation):
    """Operation that returns the conditions of the 32 invocations of a warp, as the bits of an i32."""

    name = "gpu.ballot"
    condition = operand_def(TRUTH)
    result = result_def(IntegerType(32))


def shuffle(
    build: Build, value: SSAValue, mode: int, offset: int, lanes: int, lane: SSAValue | None = None
) -> SSAValue:
    """Insert a shuffle, and return its result.

    Args:
        build: The builder.
        value: The register of this invocation that others read.
        mode: The lane to read: DOWN, own lane + `offset`; INDEX, `offset`; XOR, own lane xor `offset`.
        offset: The number that `mode` explains.
        lanes: Number of lanes that take part, from lane 0 on.
        lane: An i32 that replaces `offset`; None if there is none.
    """
    settings = {"mode": mode, "offset": offset, "lanes": lanes}
    properties = {name: IntegerAttr(setting, 64) for name, setting in settings.items()}
    operands = [value] if lane is None else [value, lane]
    return build.let(ShuffleOp.create(operands=operands, properties=properties, result_types=[value.type]))
