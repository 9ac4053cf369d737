"""Lowering of atomic updates: LLVM's atomicrmw or cmpxchg if the target supports it for the element type, else a
compare-exchange loop."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.memref import address
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import MemRef
from pydispatch.compiler.kernel_ir.atomics import UPDATES, combined, indices_of, kind_of, only_reads, why_not
from pydispatch.compiler.kernel_ir.types import alignment, bit_width, is_float

INSTRUCTIONS = {
    "addi": "add", "assign": "xchg", "maxs": "max", "maxu": "umax", "mins": "min", "minu": "umin", "ori": "or",
    "andi": "and", "xori": "xor",
}  # fmt: skip
"""Kind of update (MLIR's name) -> the operation of LLVM's atomicrmw on integers."""


def _atomic(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an atomic update of one element, whose result is the element before the update.

    %old = memref.atomic_rmw addi %v, %m[%i]    ->    %old = atomicrmw add ptr %p, i32 %v monotonic
    """
    kind, target = kind_of(op), emitter.memref(op.operands[1])
    if problem := why_not(kind, target.element):
        raise emitter.error(f"atomic '{kind}' on {target.element} cannot be compiled into a kernel", problem)
    if target.read_only:
        raise emitter.error(
            "an atomic operation on a binding that is declared ReadOnly", "take the flag off its subspan"
        )
    pointer = address(emitter, target, [emitter.index(o) for o in indices_of(op)])
    emitter.define(op.results[0], _update(emitter, op, target, pointer))


def _update(emitter: FunctionEmitter, op: Operation, target: MemRef, pointer: str) -> str:
    """Emit the atomic update `op` of the element of `target` at `pointer`, and return the old element.

    It becomes one instruction if the machine has it, else a loop of compare-exchanges. The operands of `op` are the
    value, the memref and its indices; those of `pyd.compare_exchange` end with the expected element.
    """
    kind, element = kind_of(op), target.element
    if not emitter.platform.concurrent and target.root in ("stack", "workgroup"):
        return _update_private(emitter, op, pointer, element)  # memory of one thread: a plain load and store
    # Whether the machine has atomic operations of the element's width; narrower ones are on the word around it.
    has_own_word = bit_width(element) >= emitter.platform.least_atomic
    if kind == "compare_exchange" and has_own_word:
        expected, value = emitter.get(op.operands[-1]), emitter.get(op.operands[0])
        return _compare_exchange(emitter, pointer, element, expected=expected, value=value)
    if only_reads(op) and has_own_word:  # such as an addition of 0
        return _atomic_load(emitter, pointer, scalar(element), alignment(element))
    if (instruction := _instruction(emitter, kind, element)) is not None:
        operands = f"ptr {pointer}, {scalar(element)} {emitter.get(op.operands[0])}"
        return emitter.body.let(f"atomicrmw {instruction} {operands} {emitter.platform.atomic_scope}monotonic")
    if has_own_word:  # no instruction, such as for a maximum of floats
        return _exchange_element(emitter, op, pointer, element)
    return _exchange_part_of_word(emitter, op, pointer, element)


def _instruction(emitter: FunctionEmitter, kind: str, element: Attribute) -> str | None:
    """Return the atomicrmw operation for a kind of update; None if LLVM or the machine has none for the element."""
    if is_float(element):
        return "fadd" if kind == "addf" and bit_width(element) >= 32 else None
    return INSTRUCTIONS.get(kind) if bit_width(element) >= emitter.platform.least_atomic else None


def _compare_exchange(emitter: FunctionEmitter, pointer: str, element: Attribute, expected: str, value: str) -> str:
    """Emit a compare-exchange instruction on an element, and return the old value."""
    word, let = scalar(element), emitter.body.let
    scope = emitter.platform.atomic_scope  # ends with a blank, or is empty
    words = f"{word} {expected}, {word} {value}"
    pair = let(f"cmpxchg ptr {pointer}, {words} {scope}monotonic monotonic, align {alignment(element)}")
    return let(f"extractvalue {{ {word}, i1 }} {pair}, 0")


def _atomic_load(emitter: FunctionEmitter, pointer: str, word: str, align: int) -> str:
    """Emit an atomic load of a word, an integer type of LLVM, aligned to `align` bytes, and return its value."""
    return emitter.body.let(
        f"load atomic {word}, ptr {pointer} {emitter.platform.atomic_scope}monotonic, align {align}"
    )


def _update_private(emitter: FunctionEmitter, op: Operation, pointer: str, element: Attribute) -> str:
    """Emit the update `op` of an element that only this thread accesses, as a load and a store; return the old value.

    The accesses are volatile so that LLVM does not vectorize the parallel loop around them, whose iterations may update
    the same element.

    pointer, element: the address of the element, and its type.
    """
    type_, align = scalar(element), alignment(element)
    old = emitter.body.let(f"load volatile {type_}, ptr {pointer}, align {align}")
    new = combined(emitter, emitter.module.lowerings, op, element, old)
    emitter.body.emit(f"store volatile {type_} {new}, ptr {pointer}, align {align}")
    return old


def _exchange_element(emitter: FunctionEmitter, op: Operation, pointer: str, element: Attribute) -> str:
    """Emit a compare-exchange loop that updates the element at `pointer`, and return its old value."""
    type_, word, align = scalar(element), f"i{bit_width(element)}", alignment(element)

    def new_word(seen: str) -> tuple[str, str]:
        """Return the old element, which has the bits of the word `seen` in memory, and the word that replaces it.

        The update `op` computes the new element from the old one. `word` is the integer type of the element's width.
        """
        old = _cast(emitter, seen, source=word, target=type_)
        new = combined(emitter, emitter.module.lowerings, op, element, old)
        return old, _cast(emitter, new, source=type_, target=word)

    initial = _atomic_load(emitter, pointer, word, align)
    return _compare_exchange_loop(emitter, pointer, word, align, initial, new_word)


def _exchange_part_of_word(emitter: FunctionEmitter, op: Operation, pointer: str, element: Attribute) -> str:
    """Emit a compare-exchange loop on the 32-bit word around a smaller element, and return the old element.

    All accesses to the word are atomic: at the end of a buffer it has bytes that are not the buffer's.

    Args:
        emitter: The function's emitter.
        op: The atomic operation, which computes the new element from the old one.
        pointer: Address of the element, of 8 or 16 bits.
        element: Type of the element.
    """
    type_, bits_type, let = scalar(element), f"i{bit_width(element)}", emitter.body.let
    word, shift = _word_around(emitter, pointer)
    mask = let(f"shl i32 {(1 << bit_width(element)) - 1}, {shift}")
    mask_of_others = let(f"xor i32 {mask}, -1")  # for an i8 at 0x1002: 0xFF00FFFF

    def new_word(seen: str) -> tuple[str, str]:
        """Return the element in the word `seen`, and the word with the new element, which `op` computes from it."""
        seen_bits = let(f"lshr i32 {seen}, {shift}")
        old_bits = let(f"trunc i32 {seen_bits} to {bits_type}")
        old = _cast(emitter, old_bits, source=bits_type, target=type_)
        new = combined(emitter, emitter.module.lowerings, op, element, old)
        new_bits = _cast(emitter, new, source=type_, target=bits_type)
        widened = let(f"zext {bits_type} {new_bits} to i32")
        shifted = let(f"shl i32 {widened}, {shift}")
        other_bits = let(f"and i32 {seen}, {mask_of_others}")
        return old, let(f"or i32 {other_bits}, {shifted}")

    # The first read of the word is an atomic update too, one that changes nothing: `or` with 0.
    initial = let(f"atomicrmw or ptr {word}, i32 0 {emitter.platform.atomic_scope}monotonic")
    return _compare_exchange_loop(emitter, word, "i32", align=4, initial=initial, new_word=new_word)


def _word_around(emitter: FunctionEmitter, pointer: str) -> tuple[str, str]:
    """Emit the address of the 32-bit word around an address, and the number of the word's bits (an i32) below it.

    For the address 0x1002 they are 0x1000 and 16.
    """
    let = emitter.body.let
    byte = let(f"ptrtoint ptr {pointer} to i64")
    offset_in_word = let(f"and i64 {byte}, 3")
    back = let(f"sub i64 0, {offset_in_word}")
    word = let(f"getelementptr i8, ptr {pointer}, i64 {back}")
    byte_in_word = let(f"trunc i64 {offset_in_word} to i32")
    return word, let(f"shl i32 {byte_in_word}, 3")


def _cast(emitter: FunctionEmitter, operand: str, source: str, target: str) -> str:
    """Emit the bit cast of an operand from LLVM type `source` to `target`; return the operand if these are equal."""
    return operand if source == target else emitter.body.let(f"bitcast {source} {operand} to {target}")


def _compare_exchange_loop(
    emitter: FunctionEmitter,
    pointer: str,
    word: str,
    align: int,
    initial: str,
    new_word: Callable[[str], tuple[str, str]],
) -> str:
    """Emit a loop that computes a new word and stores it unless the word has changed meanwhile; return the old element.

    Args:
        emitter: The function's emitter.
        pointer: Address of the word.
        word: LLVM type of the word.
        align: Its alignment in bytes.
        initial: The value of the word that was loaded before the loop.
        new_word: Emits, from the value of the word that was last loaded, (the old element, the word to store).
    """
    entry_label = emitter.body.label
    loop_label, exit_label = emitter.body.new_label("again"), emitter.body.new_label("exchanged")
    # The loop. Its phi `seen` is the word that was read last, by the first load or by the compare-exchange that failed.
    scope = emitter.platform.atomic_scope
    emitter.body.br(loop_label)
    emitter.body.start(loop_label)
    seen = emitter.body.phi(word)
    old, stored = new_word(seen.name)
    pair = emitter.body.let(
        f"cmpxchg ptr {pointer}, {word} {seen.name}, {word} {stored} {scope}monotonic monotonic, align {align}"
    )
    current = emitter.body.let(f"extractvalue {{ {word}, i1 }} {pair}, 0")
    seen.incoming += [(initial, entry_label), (current, emitter.body.label)]
    is_done = emitter.body.let(f"extractvalue {{ {word}, i1 }} {pair}, 1")
    emitter.body.cond_br(is_done, exit_label, loop_label)
    emitter.body.start(exit_label)
    return old


ROWS: dict[str, Lowering] = dict.fromkeys(UPDATES, _atomic)
"""Name of an operation → function that emits LLVM IR for it."""
