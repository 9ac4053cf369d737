"""Lowering of `memref.atomic_rmw`: an atomic instruction if SPIR-V has one for the element type, else a
compare-exchange loop."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.values import MemRef, is_native_float
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.memref import (
    buffer_pointer,
    place,
    variable_pointer,
    writable,
)
from pydispatch.compiler.emit.spirv.ops.registers import REGISTERS
from pydispatch.compiler.emit.spirv.types import Index, Unit
from pydispatch.compiler.emit.spirv.words import SCOPE_DEVICE
from pydispatch.compiler.kernel_ir.atomics import KINDS, combined, why_not
from pydispatch.compiler.kernel_ir.readers import integer
from pydispatch.compiler.kernel_ir.types import is_float, storage_bits

INSTRUCTIONS = {
    "addi": "AtomicIAdd", "assign": "AtomicExchange", "maxs": "AtomicSMax", "maxu": "AtomicUMax", "mins": "AtomicSMin",
    "minu": "AtomicUMin", "ori": "AtomicOr", "andi": "AtomicAnd", "xori": "AtomicXor",
}  # fmt: skip


def _atomic(emitter: FunctionEmitter, op: Operation) -> None:
    kind, memref = KINDS[integer(op, "kind")], emitter.memref(op.operands[1])
    element = memref.element
    if problem := why_not(kind, element):
        raise emitter.error(f"atomic '{kind}' on {element} cannot be compiled into a kernel for this target", problem)
    writable(emitter, memref)
    if memref.root.kind == "function":
        raise emitter.error("an atomic operation on memory of one invocation", "use memref.load and memref.store")
    index, value = place(emitter, memref, [emitter.index(o) for o in op.operands[2:]]), emitter.get(op.operands[0])
    bits = storage_bits(element) if memref.root.kind == "binding" else max(32, emitter.width(element))
    if bits == 64:
        emitter.m.capability("Int64Atomics")
    if bits < 32:
        emitter.define(op.results[0], _exchanged_part(emitter, kind, memref, index, value, bits))
        return
    if memref.root.kind == "binding":
        pointer = buffer_pointer(emitter, memref.root, Unit(bits, False), index)
    else:
        pointer = variable_pointer(emitter, memref, index)
    instruction = None if is_float(element) else INSTRUCTIONS.get(kind)
    if instruction is not None:
        result = emitter.code.let(
            instruction, emitter.m.int(bits), pointer, emitter.m.integer(SCOPE_DEVICE), emitter.m.integer(0), value
        )
    else:
        result = _exchanged(emitter, kind, element, pointer, value, bits)
    emitter.define(op.results[0], result)


def _word_of(emitter: FunctionEmitter, value: Id, element: Attribute, bits: int) -> Id:
    """Return a register as an integer of `bits` bits; a float is bitcast."""
    return emitter.code.let("Bitcast", emitter.m.int(bits), value) if is_native_float(element) else value


def _exchanged(emitter: FunctionEmitter, kind: str, element: Attribute, pointer: Id, value: Id, bits: int) -> Id:
    """Exchange a word until no other write intervened, and return the old value of the element."""

    def new(seen: Id) -> tuple[Id, Id]:
        old = emitter.code.let("Bitcast", emitter.type(element), seen) if is_native_float(element) else seen
        return old, _word_of(emitter, combined(emitter, emitter.table, kind, element, old, value), element, bits)

    return _loop(emitter, pointer, bits, new)


def _exchanged_part(emitter: FunctionEmitter, kind: str, memref: MemRef, index: Index, value: Id, bits: int) -> Id:
    """Exchange an element that shares its 32-bit word of a binding with other elements."""
    m, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
    within = emitter.times(emitter.divide(index, 32 // bits, remainder=True), bits)
    shift = within if isinstance(within, Id) else m.integer(within)
    if isinstance(within, Id) and emitter.index_width == 64:
        shift = let("UConvert", word, shift)
    pointer = buffer_pointer(emitter, memref.root, Unit(32, False), emitter.divide(index, 32 // bits))
    mask = m.integer((1 << bits) - 1)
    others = let("Not", word, let("ShiftLeftLogical", word, mask, shift))

    def new(seen: Id) -> tuple[Id, Id]:
        old = REGISTERS.wrap(emitter, let("ShiftRightLogical", word, seen, shift), bits, 32)
        part = let("BitwiseAnd", word, combined(emitter, emitter.table, kind, memref.element, old, value), mask)
        kept = let("BitwiseAnd", word, seen, others)
        return old, let("BitwiseOr", word, kept, let("ShiftLeftLogical", word, part, shift))

    return _loop(emitter, pointer, 32, new)


def _loop(emitter: FunctionEmitter, pointer: Id, bits: int, new: Callable[[Id], tuple[Id, Id]]) -> Id:
    """Write the loop of a compare-exchange, and return the old value. new: gets the word that was seen last, and gives
    the value in it and the word to store."""
    code, m, word, scope, relaxed = (
        emitter.code,
        emitter.m,
        emitter.m.int(bits),
        emitter.m.integer(SCOPE_DEVICE),
        emitter.m.integer(0),
    )
    emitter.iterations.unknown()
    first, before = code.let("AtomicLoad", word, pointer, scope, relaxed), code.label
    head, body, again, after = (m.id() for _ in range(4))
    seen = m.id()
    code.branch(head)
    code.start(head)
    slot = len(code.lines)
    code.do("LoopMerge", after, again, 0)
    code.branch(body)
    code.start(body)
    old, stored = new(seen)
    cached = code.let("AtomicCompareExchange", word, pointer, scope, relaxed, relaxed, stored, seen)
    is_done = code.let("IEqual", m.bool(), cached, seen)
    code.branch(again)
    code.start(again)
    code.branch_if(is_done, after, head)
    tail, code.lines = code.lines[slot:], code.lines[:slot]
    code.phi(word, seen, [(first, before), (cached, again)])
    code.lines += tail
    code.start(after)
    return old


ROWS: dict[str, Lowering] = {"memref.atomic_rmw": _atomic}
