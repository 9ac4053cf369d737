"""memref.atomic_rmw: WGSL's function where there is one for the element, else a compare-exchange."""

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


def _atomic(f: FunctionEmitter, op: Operation) -> None:
    kind, memref = KINDS[integer(op, "kind")], f.memref(op.operands[1])
    element, bits = memref.element, 32
    if problem := why_not(kind, element, most_bits=32):
        raise f.error(f"atomic '{kind}' on {element} cannot be compiled into a kernel for this target", problem)
    writable(f, memref)
    shift = ""
    if memref.root.kind == "binding":
        name, buffer = elements.variable(f, memref.root.binding)
        index = elements.element_place(f, memref, [f.index(value) for value in operands_of(op)[2:]])
        number = f.place(index)
        if (bits := element_bits(element)) < 32:
            number, shift = elements.part(f, index, bits)
        place = f"{name}[{number}]"
    else:
        buffer, place = f.atomic[memref.root.key], element_name(f, memref, op, 2)
    word, value = buffer.word, f.get(op.operands[0])
    if bits == 32 and not is_float(element) and kind in FUNCTIONS and _SIGNED.get(kind, word) == word:
        made = f.let(f"{FUNCTIONS[kind]}(&{place}, {to_word(f, value, word, element)})")
        f.define(op.results[0], from_word(f, made, word, element))
        return

    def old(seen: Name) -> Name:
        if bits == 32:
            return from_word(f, seen, word, element)
        return f.from_bits(f.let(f"extractBits(i32({seen}), {shift}, {bits}u)"), element)

    def new(seen: Name) -> Name:
        made = combined(f, f.table, kind, element, old(seen), value)
        if bits == 32:
            return to_word(f, made, word, element)
        mask, part = unsigned((1 << bits) - 1), as_unsigned(f.to_bits(made, element))
        return f.let(f"({seen} & ~({mask} << {shift})) | (({part} & {mask}) << {shift})")

    f.define(op.results[0], old(_exchanged(f, place, word, new)))


def _exchanged(f: FunctionEmitter, place: str, word: str, new: Callable[[Name], Name]) -> Name:
    """Exchange a word until no other write intervened, and return the old one. new: gives the word to store."""
    seen = f.var(word)
    f.iterations.unknown()
    f.do("loop {")
    with f.scope():
        f.do(f"{seen} = atomicLoad(&{place});")
        stored = new(seen)
        f.do(f"if atomicCompareExchangeWeak(&{place}, {seen}, {stored}).exchanged {{ break; }}")
    f.do("}")
    return seen


ROWS: dict[str, Lowering] = {"memref.atomic_rmw": _atomic}
