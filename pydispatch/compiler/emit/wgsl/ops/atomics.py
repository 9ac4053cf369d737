"""Lowering of `memref.atomic_rmw`: an atomic function if WGSL has one for the element type, else a compare-exchange
loop."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from pydispatch.compiler.emit.wgsl.buffers import element_bits
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops import elements
from pydispatch.compiler.emit.wgsl.ops.memref import element_name, from_word, to_word, writable
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned, unsigned
from pydispatch.compiler.kernel_ir.atomics import KINDS, UNSIGNED, combined, why_not
from pydispatch.compiler.kernel_ir.readers import integer, operands_of
from pydispatch.compiler.kernel_ir.types import is_float

FUNCTIONS = {
    "addi": "atomicAdd", "assign": "atomicExchange", "maxs": "atomicMax", "maxu": "atomicMax", "mins": "atomicMin",
    "minu": "atomicMin", "ori": "atomicOr", "andi": "atomicAnd", "xori": "atomicXor",
}  # fmt: skip
_SIGNED = {"maxs": "i32", "mins": "i32", **dict.fromkeys(UNSIGNED, "u32")}


def _atomic(emitter: FunctionEmitter, op: Operation) -> None:
    kind, memref = KINDS[integer(op, "kind")], emitter.memref(op.operands[1])
    element, bits = memref.element, 32
    if problem := why_not(kind, element, most_bits=32):
        raise emitter.error(f"atomic '{kind}' on {element} cannot be compiled into a kernel for this target", problem)
    writable(emitter, memref)
    shift = ""
    if memref.root.kind == "binding":
        name, buffer = elements.variable(emitter, memref.root.binding)
        index = elements.element_place(emitter, memref, [emitter.index(value) for value in operands_of(op)[2:]])
        word_index = emitter.place(index)
        if (bits := element_bits(element)) < 32:
            word_index, shift = elements.part(emitter, index, bits)
        place = f"{name}[{word_index}]"
    else:
        buffer, place = emitter.atomic[memref.root.key], element_name(emitter, memref, op, 2)
    word, value = buffer.word, emitter.get(op.operands[0])
    if bits == 32 and not is_float(element) and kind in FUNCTIONS and _SIGNED.get(kind, word) == word:
        old_word = emitter.let(f"{FUNCTIONS[kind]}(&{place}, {to_word(emitter, value, word, element)})")
        emitter.define(op.results[0], from_word(emitter, old_word, word, element))
        return

    def old(seen: Name) -> Name:
        if bits == 32:
            return from_word(emitter, seen, word, element)
        return emitter.from_bits(emitter.let(f"extractBits(i32({seen}), {shift}, {bits}u)"), element)

    def new(seen: Name) -> Name:
        new_value = combined(emitter, emitter.table, kind, element, old(seen), value)
        if bits == 32:
            return to_word(emitter, new_value, word, element)
        mask, part = unsigned((1 << bits) - 1), as_unsigned(emitter.to_bits(new_value, element))
        return emitter.let(f"({seen} & ~({mask} << {shift})) | (({part} & {mask}) << {shift})")

    emitter.define(op.results[0], old(_exchanged(emitter, place, word, new)))


def _exchanged(emitter: FunctionEmitter, place: str, word: str, new: Callable[[Name], Name]) -> Name:
    """Exchange a word until no other write intervened, and return the old one. new: gives the word to store."""
    seen = emitter.var(word)
    emitter.iterations.unknown()
    emitter.do("loop {")
    with emitter.scope():
        emitter.do(f"{seen} = atomicLoad(&{place});")
        stored = new(seen)
        emitter.do(f"if atomicCompareExchangeWeak(&{place}, {seen}, {stored}).exchanged {{ break; }}")
    emitter.do("}")
    return seen


ROWS: dict[str, Lowering] = {"memref.atomic_rmw": _atomic}
