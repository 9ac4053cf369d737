"""Declaration of the buffers of an entry point.

A binding is one variable with one type. If all elements have the same 32-bit type, the variable has that type; 64-bit
elements are pairs of words. All other bindings are declared as words, which may hold several elements, or bytes that
are accessed in several types. If elements that share a word are written, the words are atomic, so that several
invocations may write to one. If the language has f16, a binding whose elements are all f16 is declared as f16.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from xdsl.dialects.builtin import Float16Type, Float32Type, MemRefType
from xdsl.ir import Attribute

from pydispatch.compiler.kernel_ir.atomics import UNSIGNED, UPDATES, kind_of
from pydispatch.compiler.kernel_ir.hazards import base_of
from pydispatch.compiler.kernel_ir.scan import Ops
from pydispatch.compiler.kernel_ir.types import checked_memref, storage_bits
from pydispatch.errors import CompileError

_ACCESSES = (
    ("memref.load", 0), ("memref.store", 1), *((name, 1) for name in UPDATES), ("memref.copy", 0), ("memref.copy", 1),
)  # fmt: skip
"""(operation, index of an operand that is a memref). All these operations read operand 0 or write operand 1."""
_CALLS = ("func.call", "util.call")
"""Calls, which memrefs may be passed to."""


@dataclass(frozen=True)
class Buffer:
    """Element type that a buffer is declared with.

    Attributes:
        word: f32, i32, u32, vec2u (64 bits) or f16.
        is_atomic: Whether elements are `atomic<word>`.
    """

    word: str
    is_atomic: bool = False

    @property
    def type(self) -> str:
        """The element type in WGSL."""
        return f"atomic<{self.word}>" if self.is_atomic else self.word


@dataclass
class _Uses:
    """Accesses to one buffer, which decide the type of its words.

    Attributes:
        elements: Types of the elements that are accessed.
        writes_parts: Whether elements are stored that share a 32-bit word with others.
        has_updates: Whether there are atomic updates.
        is_unsigned: Whether an atomic update compares without sign.
    """

    elements: set[Attribute] = field(default_factory=set)
    writes_parts: bool = False
    has_updates: bool = False
    is_unsigned: bool = False


def buffer_declarations(ops: Ops, has_f16: bool) -> dict[object, Buffer]:
    """Return how to declare each buffer that a function accesses: its element type.

    For a function that loads f32 of binding 0 and stores i8 to binding 1, four of which share a word, it is
    `{("binding", 0): Buffer("f32"), ("binding", 1): Buffer("u32", is_atomic=True)}`.

    Args:
        ops: The operations of the function, by name.
        has_f16: Whether f16 is a type of the language.

    Returns:
        Key of a buffer, as `base_of` returns it, -> its declaration. Bindings have the key ("binding", ordinal).
        Allocations with atomic operations have their operation as the key; other allocations are left out.
    """
    uses: defaultdict[object, _Uses] = defaultdict(_Uses)
    _add_accesses(ops, uses)
    _add_calls(ops, uses)
    # All bindings, whose keys are tuples. An allocation without atomic updates is declared by its element type alone.
    return {key: _declaration_of(use, has_f16) for key, use in uses.items() if use.has_updates or type(key) is tuple}


def _add_accesses(ops: Ops, uses: defaultdict[object, _Uses]) -> None:
    """Add the loads, stores, copies and atomic updates of a function to the uses of the buffers that they access."""
    for name, operand_index in _ACCESSES:
        is_store = operand_index == 1  # operand 1 of these operations is written, operand 0 is read
        for op in ops.get(name, ()):
            memref = op.operands[operand_index]
            element = checked_memref(memref.type).element_type
            for key in base_of(memref):  # several if the function chooses between memrefs
                use = uses[key]
                use.elements.add(element)
                if is_store and element_bits(element) < 32:
                    use.writes_parts = True
                if name in UPDATES and element_bits(element) <= 32:  # WGSL has no atomics of 64 bits
                    use.has_updates = True
                    use.is_unsigned |= kind_of(op) in UNSIGNED


def _add_calls(ops: Ops, uses: defaultdict[object, _Uses]) -> None:
    """Add the element types of the buffers that a function passes to others."""
    for name in _CALLS:
        for operand in (operand for op in ops.get(name, ()) for operand in op.operands):
            if isinstance(operand.type, MemRefType):
                for key in base_of(operand):
                    uses[key].elements.add(checked_memref(operand.type).element_type)


def element_bits(element: Attribute) -> int:
    """Return the bits that an element takes in a buffer.

    Raises:
        CompileError: They are more than 64.
    """
    bits = storage_bits(element)
    if bits > 64:
        raise CompileError(f"elements of type {element} cannot lie in a buffer of this target")
    return bits


def _declaration_of(use: _Uses, has_f16: bool) -> Buffer:
    """Return the element type to declare a buffer with: that of all its accesses if they agree, else words (u32).

    If elements that share a word are stored (`writes_parts`), the words are atomic, since other invocations may store
    the other elements of a word at the same time.
    """
    is_f16_only = all(type(element) is Float16Type for element in use.elements)
    if has_f16 and is_f16_only and not use.has_updates:  # WGSL has no atomic f16
        return Buffer("f16")
    words = {_word(element) for element in use.elements}
    word = words.pop() if len(words) == 1 else "u32"
    if use.has_updates or use.writes_parts:
        # WGSL has atomic i32 and u32 only. The type decides whether an atomic maximum compares signed numbers.
        is_signed = word == "i32" and not use.is_unsigned
        return Buffer("i32" if is_signed else "u32", is_atomic=True)
    return Buffer(word)


def _word(element: Attribute) -> str:
    """Return the WGSL type of the elements of a buffer all of whose accesses are to elements of type `element`."""
    bits = element_bits(element)
    if type(element) is Float32Type:
        return "f32"
    return "vec2u" if bits == 64 else "i32" if bits == 32 else "u32"
