"""Atomic updates of elements, with one meaning in every shader language.

An update is an atomic instruction if the language has one for the element, else its word is exchanged until no other
write intervened.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.memory import Memory, check_writable, element_index
from pydispatch.compiler.emit.shaders.registers import E, V
from pydispatch.compiler.emit.shaders.values import Index, MemRef
from pydispatch.compiler.kernel_ir.atomics import UPDATES, combined, indices_of, kind_of, why_not
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, is_integer, storage_bits


def _is_update_of_word(kind: str, element: Attribute, bits: int) -> bool:
    """Return whether an update of an element is an atomic instruction on the word of `bits` bits that holds it alone.

    kind: of the update, one of `KINDS` in `kernel_ir/atomics.py`, or "compare_exchange".
    """
    if kind == "compare_exchange":
        return False  # it has two operands, the expected and the new element
    if is_float(element):
        return kind == "assign"  # all others of these instructions compute on integers
    # A sum of narrower integers, such as i8 in workgroup memory, may carry into the bits above, which would no longer
    # be copies of its sign.
    return bit_width(element) == bits or kind != "addi"


class Atomics(Memory[E, V]):
    """Lowerings of loads, stores and atomic updates for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions; `rows` is its table of lowerings by operation.
    """

    most_atomic_bits: int
    """Width of the widest word that has atomic operations."""

    @abstractmethod
    def compare_exchange(self, emitter: E, memref: MemRef, address: V, bits: int, new: Callable[[V], V]) -> V:
        """Emit a loop that replaces a word by compare-exchange until no other write intervened; return the old word.

        Args:
            emitter: The function's emitter.
            memref: The memref that has the word.
            address: Address of the element, from `atomic_address`.
            bits: Width of the word, 32 or 64.
            new: Emits the new word from an old one.
        """

    def atomic(self, emitter: E, op: Operation) -> None:
        """Lower an atomic update, which yields the old element.

        It is an instruction if the element is a whole word and the language has one; else a compare-exchange loop on
        the word around the element. Element 5 of a binding of i8 is the 8 bits above the low 8 (`shift`) of word 1.
        """
        kind, memref = kind_of(op), emitter.memref(op.operands[1])
        self._check_update(emitter, kind, memref)
        element = memref.element
        index = element_index(emitter, memref, [emitter.int_or_value(operand) for operand in indices_of(op)])
        shift: Index = 0  # bits of the word before the element
        # Width of the element in memory: bindings have narrow elements, workgroup memory has whole registers.
        bits = storage_bits(element) if memref.root.kind == "binding" else max(32, emitter.width(element))
        if bits < 32:  # `index` becomes that of the word
            index, shift = self.unit_and_shift(emitter, index, bits)
        word_bits = max(bits, 32)
        address = self.atomic_address(emitter, memref, index, word_bits)
        old_word = None  # the whole word before the update
        if bits >= 32 and _is_update_of_word(kind, element, bits):
            operand = self.to_bits(emitter, emitter.get(op.operands[0]), element)
            old_word = self.atomic_update(emitter, kind, memref, address, bits, operand)  # None: no such instruction
        if old_word is None:
            old_word = self.compare_exchange(
                emitter, memref, address, word_bits, lambda word: self._updated(emitter, op, word, bits, shift)
            )
        emitter.define(op.results[0], self.from_word(emitter, old_word, element, bits, shift))

    def _check_update(self, emitter: E, kind: str, memref: MemRef) -> None:
        """Raise CompileError for an atomic update that the language cannot express."""
        if problem := why_not(kind, memref.element, self.most_atomic_bits):
            message = f"atomic '{kind}' on {memref.element} cannot be compiled into a kernel for this target"
            raise emitter.error(message, problem)
        check_writable(emitter, memref)
        if memref.root.kind == "function":
            raise emitter.error("an atomic operation on memory of one invocation", "use memref.load and memref.store")

    def _updated(self, emitter: E, op: Operation, word: V, bits: int, shift: Index) -> V:
        """Emit the word after an atomic update of the element in it; the bits of other elements are unchanged.

        Args:
            emitter: The function's emitter.
            op: The atomic update, whose body computes the new element.
            word: The word before the update.
            bits: Width of the element in memory.
            shift: Bits of the word before the element.
        """
        element = emitter.memref(op.operands[1]).element
        old_element = self.from_word(emitter, word, element, bits, shift)
        new = combined(emitter, emitter.table, op, element, old_element)
        if is_integer(element) and bit_width(element) < emitter.width(element):  # copies of the sign in upper bits
            new = self.sign_extended(emitter, new, bits=bit_width(element), width=emitter.width(element))
        part = self.to_word(emitter, new, element, bits, shift)
        if bits >= 32:  # the element is the whole word
            return part
        other_bits = self.arithmetic(emitter, "and", 32, word, self.mask_of_others(emitter, bits, shift))
        return self.arithmetic(emitter, "or", 32, other_bits, part)

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {**super().rows(), **dict.fromkeys(UPDATES, self.atomic)}
