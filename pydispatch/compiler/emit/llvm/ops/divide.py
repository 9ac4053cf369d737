"""arith: divisions of integers, none of which traps (docs/kernel-ir.md, Numbers)."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import int_type


def _zero(type_: str) -> str:
    return "false" if type_ == "i1" else "0"


def quotient(f: FunctionEmitter, instruction: str, type_: str, a: str, b: str) -> str:
    """Emit one division, in 32 bits where an index needs no more and the machine has only those."""
    parts = [as_index(part) for part in (a, b)]
    small = all(not isinstance(part, int) or abs(part) < 1 << 31 for part in parts)
    index = f.op.results and isinstance(f.op.results[0].type, IndexType)
    if type_ != "i64" or not (f.narrow_indices and index and small):
        return f.body.let(f"{instruction} {type_} {a}, {b}")
    left, right = (part if isinstance(part, int) else f.body.let(f"trunc i64 {part} to i32") for part in parts)
    result = f.body.let(f"{instruction} i32 {left}, {right}")
    return f.body.let(f"{'sext' if instruction[0] == 's' else 'zext'} i32 {result} to i64")


def divided(f: FunctionEmitter, instruction: str, type_: str, a: str, b: str) -> str:
    """sdiv, udiv, srem, urem that never trap: by zero 0 and the dividend, the smallest number by -1 itself and 0."""
    let, zero, one = f.body.let, _zero(type_), "true" if type_ == "i1" else "1"
    known, signed, divides = as_index(b), instruction[0] == "s", instruction.endswith("div")
    if isinstance(known, int) and known != 0 and not (signed and known == -1):
        return quotient(f, instruction, type_, a, b)
    is_zero = let(f"icmp eq {type_} {b}, {zero}")
    unsafe = is_zero
    if signed:
        is_minus = let(f"icmp eq {type_} {b}, {'true' if type_ == 'i1' else -1}")
        unsafe = let(f"or i1 {is_zero}, {is_minus}")
    # i1 has no divisor that is safe for signed numbers: its only one is -1.
    if type_ == "i1" and signed:
        return let(f"and i1 {a}, {b}") if divides else let(f"select i1 {is_zero}, i1 {a}, i1 false")
    safe = let(f"select i1 {unsafe}, {type_} {one}, {type_} {b}")
    result = quotient(f, instruction, type_, a, safe)
    if signed and divides:
        result = let(f"select i1 {is_minus}, {type_} {let(f'sub {type_} {zero}, {a}')}, {type_} {result}")
    return let(f"select i1 {is_zero}, {type_} {zero if divides else a}, {type_} {result}")


def _division(instruction: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = int_type(f, op.results[0].type)
        f.define(op.results[0], divided(f, instruction, type_, f.get(op.operands[0]), f.get(op.operands[1])))

    return lower


def _rounded_division(adjust_when: str, sign: str) -> Lowering:
    """floordivsi, ceildivsi: the truncated quotient, moved by one where the remainder says so."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = int_type(f, op.results[0].type)
        a, b = f.get(op.operands[0]), f.get(op.operands[1])
        f.define(op.results[0], rounded_division(f, type_, a, b, adjust_when, sign))

    return lower


def rounded_division(f: FunctionEmitter, type_: str, a: str, b: str, adjust_when: str, sign: str) -> str:
    """Emit signed a / b, rounded down (`slt`, `sub`) or up (`sge`, `add`): the quotient is adjusted where the
    remainder's sign requires it.
    """
    whole, remainder = divided(f, "sdiv", type_, a, b), divided(f, "srem", type_, a, b)
    inexact = f.body.let(f"icmp ne {type_} {remainder}, {_zero(type_)}")
    if not isinstance(as_index(b), int):  # by zero the remainder is the dividend, and the quotient stays 0
        inexact = f.body.let(f"and i1 {inexact}, {f.body.let(f'icmp ne {type_} {b}, {_zero(type_)}')}")
    signs = f.body.let(f"xor {type_} {remainder}, {b}")
    toward = f.body.let(f"icmp {adjust_when} {type_} {signs}, {_zero(type_)}")
    move = f.body.let(f"and i1 {inexact}, {toward}")
    step = move if type_ == "i1" else f.body.let(f"zext i1 {move} to {type_}")
    return f.body.let(f"{sign} {type_} {whole}, {step}")


def _ceildivui(f: FunctionEmitter, op: Operation) -> None:
    type_ = int_type(f, op.results[0].type)
    a, b = f.get(op.operands[0]), f.get(op.operands[1])
    whole, remainder = divided(f, "udiv", type_, a, b), divided(f, "urem", type_, a, b)
    inexact = f.body.let(f"icmp ne {type_} {remainder}, {_zero(type_)}")
    if not isinstance(as_index(b), int):
        inexact = f.body.let(f"and i1 {inexact}, {f.body.let(f'icmp ne {type_} {b}, {_zero(type_)}')}")
    step = inexact if type_ == "i1" else f.body.let(f"zext i1 {inexact} to {type_}")
    f.define(op.results[0], f.body.let(f"add {type_} {whole}, {step}"))


ROWS: dict[str, Lowering] = {
    "arith.divsi": _division("sdiv"),
    "arith.divui": _division("udiv"),
    "arith.remsi": _division("srem"),
    "arith.remui": _division("urem"),
    "arith.floordivsi": _rounded_division("slt", "sub"),
    "arith.ceildivsi": _rounded_division("sge", "add"),
    "arith.ceildivui": _ceildivui,
}
