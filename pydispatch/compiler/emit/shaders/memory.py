"""Loads, stores and storage of memrefs, with one meaning in every shader language.

Elements of bindings are stored as `shaders/values.py` says. An element that the language cannot address by itself is a
part of a 32-bit word, low bits first: it is stored by atomic operations, because other invocations may write other
elements of the word at the same time. Devices bind whole words, so the word exists.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import MemRefType, SymbolRefAttr, i32
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.registers import LEFT, LOGICAL_RIGHT, E, Registers, V
from pydispatch.compiler.emit.shaders.tables import table_values
from pydispatch.compiler.emit.shaders.values import Index, MemRef, Root, known, whole_storage
from pydispatch.compiler.kernel_ir.kernel import OWN_BYTE
from pydispatch.compiler.kernel_ir.readers import attribute, operands_of, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_shared_by_workgroup
from pydispatch.compiler.kernel_ir.types import bit_width, storage_bits


def element_index(emitter: ShaderFunction[Any], memref: MemRef, indices: Sequence[Index]) -> Index:
    """Return the linear index of the element at `indices` in the storage of a memref.

    `memref.base` is the index of the element from which `memref.offset`, the offset of a view, counts.
    """
    strides = memref.strides
    if len(indices) != len(strides):
        raise emitter.error(f"a memref of rank {len(strides)} is indexed with {len(indices)} values")
    offset = emitter.plus(memref.base, memref.offset)
    for index, stride in zip(indices, strides, strict=True):
        offset = emitter.plus(offset, emitter.times(index, stride))
    return offset


def check_writable(emitter: ShaderFunction[Any], memref: MemRef) -> None:
    """Raise CompileError for a memref of a constant, or of a binding that is only read."""
    if memref.root.read_only:
        subject = f"binding {memref.root.binding}" if memref.root.kind == "binding" else "a constant"
        raise emitter.error(f"store into {subject} that is only read", READ_ONLY_NOTE)


class Memory(Registers[E, V]):
    """Lowerings of loads, stores and allocations for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions. E is the type of the emitter of an entry point, V that of a
    value in the language.
    """

    # Instructions of the language

    @abstractmethod
    def shares_word(self, emitter: E, memref: MemRef) -> bool:
        """Return whether the language cannot store an element of a binding alone, only all of its 32-bit word."""

    @abstractmethod
    def load_element(self, emitter: E, memref: MemRef, index: Index) -> V:
        """Emit the load of an element that the language addresses alone (not `shares_word`), and return its register.

        index: that of the element in the storage, as `element_index` returns it.
        """

    @abstractmethod
    def store_element(self, emitter: E, memref: MemRef, index: Index, value: V) -> None:
        """Emit the store of a register as an element that the language addresses alone (not `shares_word`).

        index: that of the element in the storage, as `element_index` returns it.
        """

    @abstractmethod
    def load_word(self, emitter: E, memref: MemRef, index: Index) -> V:
        """Emit the load of word `index`, of 32 bits, of a binding: atomically if the binding may be written."""

    @abstractmethod
    def atomic_address(self, emitter: E, memref: MemRef, index: Index, bits: int) -> V:
        """Return the operand by which atomic operations refer to an integer of a memref's storage.

        The storage is seen as an array of integers of `bits` bits, 32 or 64, of which it is number `index`.
        """

    @abstractmethod
    def atomic_update(self, emitter: E, kind: str, memref: MemRef, address: V, bits: int, value: V) -> V | None:
        """Emit an atomic operation on an integer of `bits` bits, and return the integer before it.

        Return None, and emit nothing, if the language has no such operation.

        Args:
            emitter: The function's emitter.
            kind: The operation, one of `KINDS` in `kernel_ir/atomics.py`.
            memref: The memref that has the integer.
            address: Address of the element, from `atomic_address`.
            bits: 32 or 64.
            value: The other operand, such as the addend.
        """

    @abstractmethod
    def workgroup_variable(self, emitter: E, op: Operation, element: Attribute, count: int) -> Any:
        """Declare an array of `count` elements in workgroup memory for an allocation, and return the variable."""

    @abstractmethod
    def private_variable(self, emitter: E, op: Operation, element: Attribute, count: int) -> Any:
        """Declare an array of `count` elements of the invocation for an allocation, and return the variable."""

    @abstractmethod
    def declare_table(
        self, emitter: E, name: str, element: Attribute, count: int, values: Callable[[], Sequence[Any]]
    ) -> tuple[object, Any]:
        """Declare a constant array unless the module has it, and return (key of its storage, its variable).

        Memrefs of equal keys may alias (`Root.key`).

        Args:
            emitter: The function's emitter.
            name: Name of the array in the program.
            element: Type of its elements.
            count: Number of its elements.
            values: Returns the elements, as the language's registers hold them.
        """

    # Parts of words

    def unit_and_shift(self, emitter: E, index: Index, bits: int, unit_bits: int = 32) -> tuple[Index, Index]:
        """Return where element `index`, of `bits` bits, is stored in an array of units: words of 32 bits, or bytes.

        The result is (index of the unit, number of lower bits of it before the element): byte 5 is (1, 8), the bits
        above the low 8 of word 1. The number is a 32-bit register unless it is known.
        """
        elements_in_unit = unit_bits // bits
        shift: Index = emitter.times(emitter.divide(index, elements_in_unit, is_remainder=True), bits)
        if not known(shift):
            shift = self.resized(emitter, shift, from_width=emitter.index_width, to_width=32)
        return emitter.divide(index, elements_in_unit), shift

    def from_word(self, emitter: E, word: V, element: Attribute, bits: int, shift: Index) -> V:
        """Return the register of an element that is stored in `bits` bits of a word, above the low `shift` bits."""
        if bits >= 32:  # the element is the whole word
            return self.from_bits(emitter, word, element)
        begins_word = known(shift) and shift == 0
        if not begins_word:
            word = self.shifted(emitter, LOGICAL_RIGHT, 32, word, shift)
        width = bit_width(element)
        if width == 1:  # a truth value is stored as a byte
            byte = self.zero_extended(emitter, word, bits, width=32)
            return self.compared(emitter, "ne", 32, byte, emitter.constant(0, i32))
        # The bits of other elements in the word are replaced by copies of the sign.
        element_bits = self.sign_extended(emitter, word, bits=min(bits, width), width=32)
        return self.from_bits(emitter, element_bits, element)

    def to_word(self, emitter: E, value: V, element: Attribute, bits: int, shift: Index) -> V:
        """Emit a word with an element in `bits` bits above the low `shift` bits and zeros elsewhere, and return it.

        value: the register of the element, whose type is `element`.
        """
        if bits >= 32:  # the element is the whole word
            return self.to_bits(emitter, value, element)
        width = bit_width(element)
        if width == 1:  # a truth value is stored as a byte
            part = self.select(emitter, i32, value, emitter.constant(1, i32), emitter.constant(0, i32))
        else:
            part = self.zero_extended(emitter, self.to_bits(emitter, value, element), min(bits, width), width=32)
        begins_word = known(shift) and shift == 0
        return part if begins_word else self.shifted(emitter, LEFT, 32, part, shift)

    def mask_of_others(self, emitter: E, bits: int, shift: Index) -> V:
        """Emit a mask with zeros in `bits` bits above the low `shift` bits and ones elsewhere, and return it.

        For 8 bits and a shift of 16 it is 0xFF00FFFF.
        """
        mask = (1 << bits) - 1
        if known(shift):
            return emitter.constant(~(mask << shift), i32)
        shifted = self.shifted(emitter, LEFT, 32, emitter.constant(mask, i32), shift)
        return self.arithmetic(emitter, "xor", 32, shifted, emitter.constant(-1, i32))

    def store_part(self, emitter: E, memref: MemRef, index: Index, value: V, has_own_byte: bool) -> None:
        """Store an element that is a part of a word: two atomic operations clear its bits, and then set them.

        has_own_byte: Whether no other invocation writes its byte. A subclass may then store the byte without atomic
        operations; this method does not use the flag.
        """
        bits = storage_bits(memref.element)
        word_index, shift = self.unit_and_shift(emitter, index, bits)
        address = self.atomic_address(emitter, memref, word_index, bits=32)
        part = self.to_word(emitter, value, memref.element, bits, shift)
        self.atomic_update(emitter, "andi", memref, address, bits=32, value=self.mask_of_others(emitter, bits, shift))
        self.atomic_update(emitter, "ori", memref, address, bits=32, value=part)

    # Lowerings

    def load(self, emitter: E, op: Operation) -> None:
        """Lower `memref.load`: load the element, or the word of a binding that contains it, and extract its bits."""
        source, *indices = operands_of(op)
        memref, values = emitter.memref(source), emitter.values
        index = element_index(emitter, memref, [values[operand] for operand in indices])
        if memref.root.kind == "binding" and self.shares_word(emitter, memref):
            bits = storage_bits(memref.element)
            word_index, shift = self.unit_and_shift(emitter, index, bits)
            word = self.load_word(emitter, memref, word_index)
            values[op.results[0]] = self.from_word(emitter, word, memref.element, bits, shift)
        else:
            values[op.results[0]] = self.load_element(emitter, memref, index)

    def store(self, emitter: E, op: Operation) -> None:
        """Lower `memref.store`, which changes one element and no other."""
        operand, target, *indices = operands_of(op)
        memref, values = emitter.memref(target), emitter.values
        check_writable(emitter, memref)
        value, index = emitter.get(operand), element_index(emitter, memref, [values[o] for o in indices])
        if memref.root.kind == "binding" and self.shares_word(emitter, memref):
            self.store_part(emitter, memref, index, value, has_own_byte=OWN_BYTE in op.attributes)
        else:
            self.store_element(emitter, memref, index, value)

    def allocation(self, emitter: E, op: Operation) -> None:
        """Lower `memref.alloc` or `memref.alloca` to an array shared by the workgroup, or one of the invocation."""
        (result,) = op.results
        if not isinstance(result.type, MemRefType):
            raise unsupported(op)
        memref, count = emitter.storage(result.type)
        if is_shared_by_workgroup(op, memref):
            root = Root("workgroup", op, variable=self.workgroup_variable(emitter, op, memref.element_type, count))
        else:
            emitter.check_private(memref, count)
            root = Root("function", op, variable=self.private_variable(emitter, op, memref.element_type, count))
        emitter.define(result, whole_storage(memref, root))

    def deallocation(self, emitter: E, op: Operation) -> None:
        """Emit nothing for `memref.dealloc`: memory lives as long as the workgroup."""

    def constant_table(self, emitter: E, op: Operation) -> None:
        """Lower `memref.get_global` of a constant to a read-only memref of a constant array of the module."""
        name, (result,) = attribute(op, "name"), op.results
        tables = emitter.definitions.memref_globals if isinstance(name, SymbolRefAttr) else {}
        declared = tables.get(symbol(op, "name"))
        if declared is None:
            raise emitter.error(f"memref.get_global of an unknown global {name}")
        memref, count = emitter.storage(result.type)
        element = memref.element_type

        def values() -> Sequence[Any]:
            """Return the `count` elements of the table, `declared`, as the language's registers hold them."""
            return table_values(emitter, declared, element, emitter.width(element), count)

        key, variable = self.declare_table(emitter, symbol(op, "name"), element, count, values)
        emitter.define(result, whole_storage(memref, Root("constant", key, variable=variable, read_only=True)))

    def forward(self, emitter: E, op: Operation) -> None:
        """Forward the operand of `memref.assume_alignment`, a hint that the compiler does not check."""
        for result in op.results:
            emitter.define(result, emitter.values[op.operands[0]])

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {
            "memref.load": self.load,
            "memref.store": self.store,
            "memref.alloc": self.allocation,
            "memref.alloca": self.allocation,
            "memref.dealloc": self.deallocation,
            "memref.get_global": self.constant_table,
            "memref.assume_alignment": self.forward,
        }
