"""Divisions of integers, whose divisors `kernel_ir/expand/integers.py` has made safe."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import int_type


def _division(instruction: str) -> Lowering:
    """Return the lowering to an instruction, "sdiv", "udiv", "srem" or "urem".

    Indices are divided in 32 bits if `emitter.narrow_indices`: they are below 2^31, and the machine divides 32-bit
    integers faster.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        """Emit a division of the type's width, or of 32 bits for indices below 2^31 (`emitter.narrow_indices`)."""
        (result,), let = op.results, emitter.body.let
        type_, operands = int_type(emitter, result.type), [emitter.get(operand) for operand in op.operands]
        parts = [as_index(operand) for operand in operands]  # an int if it is known
        is_small = all(not isinstance(part, int) or abs(part) < 1 << 31 for part in parts)
        if not (emitter.narrow_indices and isinstance(result.type, IndexType) and is_small):
            emitter.define(result, let(f"{instruction} {type_} {', '.join(operands)}"))
            return
        lhs, rhs = (part if isinstance(part, int) else let(f"trunc i64 {part} to i32") for part in parts)
        extension = "sext" if instruction.startswith("s") else "zext"
        emitter.define(result, let(f"{extension} i32 {let(f'{instruction} i32 {lhs}, {rhs}')} to i64"))

    return lower


ROWS: dict[str, Lowering] = {
    "arith.divsi": _division("sdiv"),
    "arith.divui": _division("udiv"),
    "arith.remsi": _division("srem"),
    "arith.remui": _division("urem"),
}
"""Name of an operation → function that emits LLVM IR for it."""
