"""Divisions of integers, whose divisors `kernel_ir/expand/integers.py` has made safe."""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import int_type


def _division(emitter: FunctionEmitter, op: Operation, instruction: str) -> None:
    """Lower a division to an instruction, "sdiv", "udiv", "srem" or "urem".

    Indices are divided in 32 bits if `emitter.narrow_indices`: they are below 2^31, and the machine divides 32-bit
    integers faster.
    """
    (result,), let = op.results, emitter.body.let
    type_, operands = int_type(emitter, result.type), [emitter.get(operand) for operand in op.operands]
    values = [as_index(operand) for operand in operands]  # an int if it is known while compiling
    are_constants_narrow = all(not isinstance(value, int) or abs(value) < 1 << 31 for value in values)
    is_narrow = emitter.narrow_indices and isinstance(result.type, IndexType) and are_constants_narrow
    if not is_narrow:
        emitter.define(result, let(f"{instruction} {type_} {', '.join(operands)}"))
        return
    lhs, rhs = (value if isinstance(value, int) else let(f"trunc i64 {value} to i32") for value in values)
    narrow_result = let(f"{instruction} i32 {lhs}, {rhs}")
    extension = "sext" if instruction.startswith("s") else "zext"
    emitter.define(result, let(f"{extension} i32 {narrow_result} to i64"))


ROWS: dict[str, Lowering] = {
    "arith.divsi": partial(_division, instruction="sdiv"),
    "arith.divui": partial(_division, instruction="udiv"),
    "arith.remsi": partial(_division, instruction="srem"),
    "arith.remui": partial(_division, instruction="urem"),
}
"""Name of an operation → function that emits LLVM IR for it."""
