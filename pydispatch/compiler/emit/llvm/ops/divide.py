"""Lowering of integer divisions, none of which traps (docs/kernel-ir.md, Numbers)."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import int_type


def _zero(type_: str) -> str:
    return "false" if type_ == "i1" else "0"


def quotient(emitter: FunctionEmitter, instruction: str, type_: str, lhs: str, rhs: str) -> str:
    """Emit one division, in 32 bits where an index needs no more and the machine has only those."""
    parts = [as_index(part) for part in (lhs, rhs)]
    small = all(not isinstance(part, int) or abs(part) < 1 << 31 for part in parts)
    index = emitter.op.results and isinstance(emitter.op.results[0].type, IndexType)
    if type_ != "i64" or not (emitter.narrow_indices and index and small):
        return emitter.body.let(f"{instruction} {type_} {lhs}, {rhs}")
    left, right = (part if isinstance(part, int) else emitter.body.let(f"trunc i64 {part} to i32") for part in parts)
    result = emitter.body.let(f"{instruction} i32 {left}, {right}")
    return emitter.body.let(f"{'sext' if instruction[0] == 's' else 'zext'} i32 {result} to i64")


def divided(emitter: FunctionEmitter, instruction: str, type_: str, lhs: str, rhs: str) -> str:
    """sdiv, udiv, srem, urem that never trap: by zero 0 and the dividend, the smallest number by -1 itself and 0."""
    let, zero, one = emitter.body.let, _zero(type_), "true" if type_ == "i1" else "1"
    known, signed, divides = as_index(rhs), instruction[0] == "s", instruction.endswith("div")
    if isinstance(known, int) and known != 0 and not (signed and known == -1):
        return quotient(emitter, instruction, type_, lhs, rhs)
    is_zero = let(f"icmp eq {type_} {rhs}, {zero}")
    unsafe = is_zero
    if signed:
        is_minus = let(f"icmp eq {type_} {rhs}, {'true' if type_ == 'i1' else -1}")
        unsafe = let(f"or i1 {is_zero}, {is_minus}")
    # i1 has no divisor that is safe for signed numbers: its only one is -1.
    if type_ == "i1" and signed:
        return let(f"and i1 {lhs}, {rhs}") if divides else let(f"select i1 {is_zero}, i1 {lhs}, i1 false")
    safe = let(f"select i1 {unsafe}, {type_} {one}, {type_} {rhs}")
    result = quotient(emitter, instruction, type_, lhs, safe)
    if signed and divides:
        result = let(f"select i1 {is_minus}, {type_} {let(f'sub {type_} {zero}, {lhs}')}, {type_} {result}")
    return let(f"select i1 {is_zero}, {type_} {zero if divides else lhs}, {type_} {result}")


def _division(instruction: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = int_type(emitter, op.results[0].type)
        emitter.define(
            op.results[0],
            divided(emitter, instruction, type_, emitter.get(op.operands[0]), emitter.get(op.operands[1])),
        )

    return lower


def _rounded_division(adjust_when: str, sign: str) -> Lowering:
    """Emit a floor or ceiling division: the truncated quotient, corrected by one depending on the remainder."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = int_type(emitter, op.results[0].type)
        a, b = emitter.get(op.operands[0]), emitter.get(op.operands[1])
        emitter.define(op.results[0], rounded_division(emitter, type_, a, b, adjust_when, sign))

    return lower


def rounded_division(emitter: FunctionEmitter, type_: str, lhs: str, rhs: str, adjust_when: str, sign: str) -> str:
    """Emit signed a / b, rounded down (`slt`, `sub`) or up (`sge`, `add`): the quotient is adjusted where the
    remainder's sign requires it.
    """
    whole, remainder = divided(emitter, "sdiv", type_, lhs, rhs), divided(emitter, "srem", type_, lhs, rhs)
    inexact = _is_inexact(emitter, type_, remainder, rhs)
    signs = emitter.body.let(f"xor {type_} {remainder}, {rhs}")
    toward = emitter.body.let(f"icmp {adjust_when} {type_} {signs}, {_zero(type_)}")
    move = emitter.body.let(f"and i1 {inexact}, {toward}")
    step = move if type_ == "i1" else emitter.body.let(f"zext i1 {move} to {type_}")
    return emitter.body.let(f"{sign} {type_} {whole}, {step}")


def _is_inexact(emitter: FunctionEmitter, type_: str, remainder: str, divisor: str) -> str:
    """Emit whether a division has a remainder. Divided by zero, the remainder is the dividend, and the quotient 0 is
    not adjusted.
    """
    let, zero, known = emitter.body.let, _zero(type_), as_index(divisor)
    inexact = let(f"icmp ne {type_} {remainder}, {zero}")
    if isinstance(known, int) and known != 0:
        return inexact
    return let(f"and i1 {inexact}, {let(f'icmp ne {type_} {divisor}, {zero}')}")


def _ceildivui(emitter: FunctionEmitter, op: Operation) -> None:
    type_ = int_type(emitter, op.results[0].type)
    a, b = emitter.get(op.operands[0]), emitter.get(op.operands[1])
    whole, remainder = divided(emitter, "udiv", type_, a, b), divided(emitter, "urem", type_, a, b)
    inexact = _is_inexact(emitter, type_, remainder, b)
    step = inexact if type_ == "i1" else emitter.body.let(f"zext i1 {inexact} to {type_}")
    emitter.define(op.results[0], emitter.body.let(f"add {type_} {whole}, {step}"))


ROWS: dict[str, Lowering] = {
    "arith.divsi": _division("sdiv"),
    "arith.divui": _division("udiv"),
    "arith.remsi": _division("srem"),
    "arith.remui": _division("urem"),
    "arith.floordivsi": _rounded_division("slt", "sub"),
    "arith.ceildivsi": _rounded_division("sge", "add"),
    "arith.ceildivui": _ceildivui,
}
