"""memref.atomic_rmw: LLVM's atomicrmw where the machine has it for the element, else a compare-exchange."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.memref import address
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.atomics import KINDS, combined, why_not
from pydispatch.compiler.kernel_ir.readers import integer
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float

INSTRUCTIONS = {
    "addi": "add", "assign": "xchg", "maxs": "max", "maxu": "umax", "mins": "min", "minu": "umin", "ori": "or",
    "andi": "and", "xori": "xor",
}  # fmt: skip
"""Kinds of updates that LLVM has for integers."""


def _atomic(f: FunctionEmitter, op: Operation) -> None:
    kind, target = KINDS[integer(op, "kind")], f.memref(op.operands[1])
    element = target.element
    if problem := why_not(kind, element):
        raise f.error(f"atomic '{kind}' on {element} cannot be compiled into a kernel", problem)
    if target.read_only:
        raise f.error("an atomic operation on a binding that is declared ReadOnly", "take the flag off its subspan")
    pointer = address(f, target, [f.index(o) for o in op.operands[2:]])
    value = f.get(op.operands[0])
    if not f.platform.concurrent and target.root in ("stack", "workgroup"):
        old = _alone(f, kind, pointer, element, value)
    elif (instruction := _instruction(f, kind, element)) is not None:
        spelled = f"{instruction} ptr {pointer}, {scalar(element)} {value}"
        old = f.body.let(f"atomicrmw {spelled} {f.platform.atomic_scope}monotonic")
    else:
        old = (_exchanged if bit_width(element) >= f.platform.least_atomic else _exchanged_part)(
            f, kind, pointer, element, value
        )
    f.define(op.results[0], old)


def _instruction(f: FunctionEmitter, kind: str, element: Attribute) -> str | None:
    """Return the update that LLVM has for a kind, None where it has none."""
    if is_float(element):
        return "fadd" if kind == "addf" and bit_width(element) >= 32 else None
    return INSTRUCTIONS.get(kind) if bit_width(element) >= f.platform.least_atomic else None


def _alone(f: FunctionEmitter, kind: str, pointer: str, element: Attribute, value: str) -> str:
    """Change memory that only this thread sees, and return the old value. Volatile: iterations of a parallel loop may
    change one element, so that they are not computed as vectors."""
    type_, align = scalar(element), alignment(element)
    old = f.body.let(f"load volatile {type_}, ptr {pointer}, align {align}")
    new = combined(f, f.module.table, kind, element, old, value)
    f.body.emit(f"store volatile {type_} {new}, ptr {pointer}, align {align}")
    return old


def _exchanged(f: FunctionEmitter, kind: str, pointer: str, element: Attribute, value: str) -> str:
    """Exchange an element until no other write intervened, and return the old value."""
    type_, word, align = scalar(element), f"i{bit_width(element)}", alignment(element)

    def new(seen: str) -> tuple[str, str]:
        old = _cast(f, seen, word, type_)
        return old, _cast(f, combined(f, f.module.table, kind, element, old, value), type_, word)

    first = f.body.let(f"load atomic {word}, ptr {pointer} {f.platform.atomic_scope}monotonic, align {align}")
    return _loop(f, pointer, word, align, first, new)


def _exchanged_part(f: FunctionEmitter, kind: str, pointer: str, element: Attribute, value: str) -> str:
    """Do as `_exchanged` where the machine exchanges words of 32 bits only: the word around an element.

    All accesses to the word are atomic: at the end of a buffer it has bytes that are not the buffer's.
    """
    type_, part, let = scalar(element), f"i{bit_width(element)}", f.body.let
    within = let(f"and i64 {let(f'ptrtoint ptr {pointer} to i64')}, 3")
    word = let(f"getelementptr i8, ptr {pointer}, i64 {let(f'sub i64 0, {within}')}")
    shift = let(f"shl i32 {let(f'trunc i64 {within} to i32')}, 3")
    others = let(f"xor i32 {let(f'shl i32 {(1 << bit_width(element)) - 1}, {shift}')}, -1")

    def new(seen: str) -> tuple[str, str]:
        bits = let(f"trunc i32 {let(f'lshr i32 {seen}, {shift}')} to {part}")
        old = _cast(f, bits, part, type_)
        made = _cast(f, combined(f, f.module.table, kind, element, old, value), type_, part)
        moved = let(f"shl i32 {let(f'zext {part} {made} to i32')}, {shift}")
        return old, let(f"or i32 {let(f'and i32 {seen}, {others}')}, {moved}")

    first = let(f"atomicrmw or ptr {word}, i32 0 {f.platform.atomic_scope}monotonic")
    return _loop(f, word, "i32", 4, first, new)


def _cast(f: FunctionEmitter, operand: str, source: str, target: str) -> str:
    return operand if source == target else f.body.let(f"bitcast {source} {operand} to {target}")


def _loop(
    f: FunctionEmitter, pointer: str, word: str, align: int, first: str, new: Callable[[str], tuple[str, str]]
) -> str:
    """Write the loop of a compare-exchange, and return the old value.

    first: the word before the loop. new: gets the word that was seen last, and gives the value in it and the word to
    store.
    """
    again, done, before = f.body.new_label("again"), f.body.new_label("exchanged"), f.body.label
    scope = f.platform.atomic_scope
    f.body.br(again)
    f.body.start(again)
    seen = f.body.phi(word)
    old, stored = new(seen.name)
    pair = f.body.let(
        f"cmpxchg ptr {pointer}, {word} {seen.name}, {word} {stored} {scope}monotonic monotonic, align {align}"
    )
    found = f.body.let(f"extractvalue {{ {word}, i1 }} {pair}, 0")
    seen.incoming += [(first, before), (found, f.body.label)]
    f.body.cond_br(f.body.let(f"extractvalue {{ {word}, i1 }} {pair}, 1"), done, again)
    f.body.start(done)
    return old


ROWS: dict[str, Lowering] = {"memref.atomic_rmw": _atomic}
