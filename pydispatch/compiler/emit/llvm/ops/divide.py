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
        """Emit the division `instruction` in the type's width, or in 32 bits for indices below 2^31.

        `emitter.narrow_indices` states that runtime indices are below 2^31, and that the machine divides such ones
        faster in 32 bits.
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
