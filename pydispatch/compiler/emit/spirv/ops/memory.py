"""Memory of SPIR-V; what loads, stores and atomic updates mean is in `shaders/memory.py` and `shaders/atomics.py`.

A binding is declared as arrays of one or several element types (`Unit`: an integer or float of 8 to 64 bits), each by a
variable of its own. Packed elements are parts of words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.atomics import Atomics
from pydispatch.compiler.emit.shaders.values import MemRef, Root
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters
from pydispatch.compiler.emit.spirv.types import Index, Unit, unit_of
from pydispatch.compiler.emit.spirv.words import RELAXED, SCOPE_DEVICE, first_word
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, packed

_ACCESS, _LOAD, _STORE = first_word("AccessChain", 5), first_word("Load", 3), first_word("Store", 2)
"""First words of instructions that are encoded without a call, since they are the most frequent ones.

The numbers count the words after the first one.
"""

_WORD, _BYTE = Unit(bits=32, is_float=False), Unit(bits=8, is_float=False)
"""Units of words, which packed elements are parts of, and of bytes."""
_UPDATES = {
    "addi": "AtomicIAdd", "assign": "AtomicExchange", "maxs": "AtomicSMax", "maxu": "AtomicUMax", "mins": "AtomicSMin",
    "minu": "AtomicUMin", "ori": "AtomicOr", "andi": "AtomicAnd", "xori": "AtomicXor",
}  # fmt: skip
"""Kind of an update -> its instruction; others are loops of compare and exchange."""


def buffer_variable(emitter: FunctionEmitter, root: Root, unit: Unit) -> Id:
    """Return the variable that declares a binding as an array of `unit` for this function; it is declared on first use.

    Args:
        emitter: The function's emitter.
        root: The binding, as the storage of a memref.
        unit: Element type of the array, of 8 to 64 bits. A function that accesses a binding both as i8 and as f32
            declares it twice, as two variables with the same binding number.
    """
    module = emitter.m

    def make() -> Id:
        """Declare the storage buffer of the binding `root` as an array of `unit`, and return the id of its variable."""
        block = module.block(("buffer", unit), module.runtime_array(unit.type(module), unit.bits // 8))
        variable = module.variable("StorageBuffer", block)
        module.decorate(variable, "DescriptorSet", 0)
        module.decorate(variable, "Binding", root.binding)
        if root.read_only:
            module.decorate(variable, "NonWritable")
        emitter.binding_variables.setdefault(root.binding, []).append(variable)
        return variable

    return emitter.once(("buffer", root.binding, unit), make)


def _buffer_pointer(emitter: FunctionEmitter, root: Root, unit: Unit, index: Index) -> Id:
    """Emit a pointer to element `index` of a binding that is seen as an array of `unit`, and return it."""
    module, variable = emitter.m, buffer_variable(emitter, root, unit)
    pointer = module.pointer("StorageBuffer", unit.type(module))
    return emitter.code.let("AccessChain", pointer, variable, module.integer(0), emitter.index_value(index))


class _PlainAccess(NamedTuple):
    """Ids for the accesses to a binding whose elements are stored as in registers.

    Attributes:
        type: Type of an element.
        pointer_type: Type of a pointer to an element.
        variable: The variable of the binding.
        zero: Constant 0, the number of the array in the block.
    """

    type: Id
    pointer_type: Id
    variable: Id
    zero: Id


def _plain_access(emitter: FunctionEmitter, memref: MemRef) -> _PlainAccess | None:
    """Return the ids for accesses to a binding whose elements are stored as in registers, such as f32 or i64.

    They are computed once for each binding and element type. The result is None if a load or store must convert the
    element: it is packed, or has fewer than 32 bits, or another width than its register.
    """
    element, root = memref.element, memref.root
    key = (root.binding, id(element))
    cached = emitter.plain_accesses.get(key)
    if cached is None:
        # A pair, since an access that is None is cached, too. The element in it keeps Python from giving its id(),
        # which is in the key, to another object.
        cached = emitter.plain_accesses[key] = _plain_ids(emitter, root, element), element
    access: _PlainAccess | None = cached[0]
    return access


def _plain_ids(emitter: FunctionEmitter, root: Root, element: Attribute) -> _PlainAccess | None:
    """Declare a binding as an array of elements that are stored as in registers; return None for other elements."""
    unit, module = unit_of(element), emitter.m
    is_stored_as_register = unit.bits == emitter.width(element) and not packed(element)
    if not is_stored_as_register or unit.bits < 32:
        return None
    type_ = unit.type(module)
    return _PlainAccess(
        type_,
        pointer_type=module.pointer("StorageBuffer", type_),
        variable=buffer_variable(emitter, root, unit),
        zero=module.integer(0),
    )


def _variable_pointer(emitter: FunctionEmitter, memref: MemRef, index: Index) -> Id:
    """Emit a pointer to element `index` of workgroup or private memory, or of a constant table, each one variable."""
    storage = {"workgroup": "Workgroup", "function": "Function", "constant": "Private"}[memref.root.kind]
    pointer = emitter.m.pointer(storage, _stored_type(emitter, memref.element, memref.root.key))
    return emitter.code.let("AccessChain", pointer, memref.root.variable, emitter.index_value(index))


def _stored_type(emitter: FunctionEmitter, element: Attribute, key: object) -> Id:
    """Return the type of elements outside buffers: the type of their registers, but an i32 for i1.

    Floats that atomic operations exchange are integers of their width, since compare-exchange is on integers only.
    key: identifies the storage (`Root.key`); it is in `emitter.exchanged_floats` if its elements are exchanged.
    """
    if key in emitter.exchanged_floats:
        return emitter.m.int(emitter.width(element))
    return emitter.m.int(32) if emitter.width(element) == 1 else emitter.type(element)


class _Memory(SpirvRegisters, Atomics[FunctionEmitter, Id]):
    """Lowerings of loads, stores and atomic updates to SPIR-V; the base classes decide what they mean.

    An element has three widths: its own, `bit_width`; the width of its unit, in which a binding stores it; and the
    width of its register, `emitter.width`.
    """

    most_atomic_bits = 64

    def shares_word(self, emitter: FunctionEmitter, memref: MemRef) -> bool:
        """Return whether several elements share a byte, so that a store must keep the others."""
        return packed(memref.element)

    def load_element(self, emitter: FunctionEmitter, memref: MemRef, index: Index) -> Id:
        """Load an element, and return its register.

        Elements of workgroup and private memory are as wide as registers, except a bool, which is stored as an i32.
        Elements of bindings have their own width, and are sign-extended.
        """
        if memref.root.kind == "binding":
            return self._load_from_binding(emitter, memref, index)
        element = memref.element
        stored_type = _stored_type(emitter, element, memref.root.key)
        value = emitter.code.let("Load", stored_type, _variable_pointer(emitter, memref, index))
        if memref.root.key in emitter.exchanged_floats:  # atomic updates exchange them as integers
            return self.from_bits(emitter, value, element)
        return self.resized(emitter, value, from_width=32, to_width=1) if emitter.width(element) == 1 else value

    def _load_from_binding(self, emitter: FunctionEmitter, memref: MemRef, index: Index) -> Id:
        """Load the element at the linear index `index` of a binding, and return its register.

        An i1 becomes a bool; a narrower integer than its register is sign-extended.
        """
        element, module, let = memref.element, emitter.m, emitter.code.let
        if (plain := _plain_access(emitter, memref)) is not None:
            # The frequent case: the words of AccessChain and Load are appended without a call.
            type_, pointer_type, variable, zero = plain
            offset, pointer, loaded = emitter.index_value(index), module.id(), module.id()
            emitter.code.lines += (_ACCESS, pointer_type, pointer, variable, zero, offset)
            emitter.code.lines += (_LOAD, type_, loaded, pointer)
            return loaded
        unit, width = unit_of(element), emitter.width(element)
        value = let("Load", unit.type(module), _buffer_pointer(emitter, memref.root, unit, index))
        if width == 1:
            return let("INotEqual", module.bool(), let("UConvert", module.int(32), value), module.integer(0))
        if unit.bits != width:
            value = let("SConvert", module.int(width), value)
        bits = bit_width(element)
        return self.sign_extended(emitter, value, bits=bits, width=width) if bits < unit.bits else value

    def store_element(self, emitter: FunctionEmitter, memref: MemRef, index: Index, value: Id) -> None:
        """Store a register as the element at the linear index `index` of a memref.

        Elements of workgroup and private memory are as wide as registers, except a bool, which is stored as an i32.
        Elements of bindings have their own width.
        """
        if memref.root.kind == "binding":
            self._store_to_binding(emitter, memref, index, value)
            return
        element, module = memref.element, emitter.m
        if emitter.width(element) == 1:
            value = emitter.code.let("Select", module.int(32), value, module.integer(1), module.integer(0))
        if memref.root.key in emitter.exchanged_floats:  # floats that atomic updates exchange as integers
            value = self.to_bits(emitter, value, element)
        emitter.code.do("Store", _variable_pointer(emitter, memref, index), value)

    def _store_to_binding(self, emitter: FunctionEmitter, memref: MemRef, index: Index, value: Id) -> None:
        """Store a register as element `index` (linear) of a binding, in the width of that element."""
        element, module, let = memref.element, emitter.m, emitter.code.let
        if (plain := _plain_access(emitter, memref)) is not None:
            # The frequent case: the words of AccessChain and Store are appended without a call.
            _, pointer_type, variable, zero = plain
            offset, pointer = emitter.index_value(index), module.id()
            emitter.code.lines += (_ACCESS, pointer_type, pointer, variable, zero, offset)
            emitter.code.lines += (_STORE, pointer, value)
            return
        unit = unit_of(element)
        pointer = _buffer_pointer(emitter, memref.root, unit, index)
        if bit_width(element) < unit.bits < 32:
            value = self.to_word(emitter, value, element, unit.bits, shift=0)
        if unit.bits != emitter.width(element):  # small integers are cut; an index is cut or sign-extended
            value = let("UConvert" if unit.bits < 32 else "SConvert", unit.type(module), value)
        emitter.code.do("Store", pointer, value)

    def load_word(self, emitter: FunctionEmitter, memref: MemRef, index: Index) -> Id:
        """Load a 32-bit word of a binding, atomically if other invocations may write it."""
        module, let, pointer = emitter.m, emitter.code.let, _buffer_pointer(emitter, memref.root, _WORD, index)
        if memref.root.read_only:
            return let("Load", module.int(32), pointer)
        return let("AtomicLoad", module.int(32), pointer, module.integer(SCOPE_DEVICE), module.integer(RELAXED))

    def store_part(self, emitter: FunctionEmitter, memref: MemRef, index: Index, value: Id, has_own_byte: bool) -> None:
        """Store an element that is part of a byte, such as an i4, in a binding that is declared as an array of bytes.

        has_own_byte: whether no other invocation writes this byte. Then the byte is loaded, changed and stored.
        Otherwise the word around it is changed atomically.
        """
        if not has_own_byte:
            super().store_part(emitter, memref, index, value, has_own_byte)
            return
        bits, module, let = bit_width(memref.element), emitter.m, emitter.code.let
        byte_index, shift = self.unit_and_shift(emitter, index, bits, unit_bits=8)
        pointer = _buffer_pointer(emitter, memref.root, _BYTE, byte_index)
        # The byte is changed in a 32-bit register.
        byte = let("UConvert", module.int(32), let("Load", _BYTE.type(module), pointer))
        other_bits = let("BitwiseAnd", module.int(32), byte, self.mask_of_others(emitter, bits, shift))
        part = self.to_word(emitter, value, memref.element, bits, shift)
        word = let("BitwiseOr", module.int(32), other_bits, part)
        emitter.code.do("Store", pointer, let("UConvert", _BYTE.type(module), word))

    def atomic_address(self, emitter: FunctionEmitter, memref: MemRef, index: Index, bits: int) -> Id:
        """Return a pointer to integer `index` of a storage that is seen as an array of integers of `bits` bits."""
        if bits == 64:
            emitter.m.capability("Int64Atomics")
        if memref.root.kind == "binding":
            return _buffer_pointer(emitter, memref.root, Unit(bits, is_float=False), index)
        return _variable_pointer(emitter, memref, index)

    def atomic_update(
        self, emitter: FunctionEmitter, kind: str, memref: MemRef, address: Id, bits: int, value: Id
    ) -> Id | None:
        """Emit the atomic instruction of an update, and return the old value; None if `kind` has no instruction.

        Args:
            emitter: The function's emitter.
            kind: The operation, one of `KINDS` in `kernel_ir/atomics.py`.
            memref: The memref that has the integer.
            address: Pointer to the integer.
            bits: Width of the integer, 32 or 64.
            value: The other operand.
        """
        if kind not in _UPDATES:
            return None
        module = emitter.m
        scope, semantics = module.integer(SCOPE_DEVICE), module.integer(RELAXED)
        return emitter.code.let(_UPDATES[kind], module.int(bits), address, scope, semantics, value)

    def compare_exchange(
        self, emitter: FunctionEmitter, memref: MemRef, address: Id, bits: int, new: Callable[[Id], Id]
    ) -> Id:  # fmt: skip
        """Emit a loop that replaces a value by compare-exchange until no other invocation intervened.

        Return the value that was replaced.

        Args:
            emitter: The function's emitter.
            memref: The memref that has the value.
            address: Pointer to the value.
            bits: 32 or 64.
            new: Emits the new value from the old one.
        """
        code, module = emitter.code, emitter.m
        word, scope, relaxed = module.int(bits), module.integer(SCOPE_DEVICE), module.integer(RELAXED)
        emitter.iterations.mark_unknown()  # other invocations decide how often the exchange is repeated
        initial, entry_label = code.let("AtomicLoad", word, address, scope, relaxed), code.label
        head_label, body_label, continue_label, merge_label = (module.id() for _ in range(4))
        seen = module.id()  # of the phi: the value that was read last, by the load or by an exchange that failed
        # The header, with the phi.
        code.branch(head_label)
        code.start(head_label)
        phi_position = code.phi_position()
        code.do("LoopMerge", merge_label, continue_label, 0)
        # The exchange, which is done if no other invocation has changed the value since.
        code.branch(body_label)
        code.start(body_label)
        exchanged = code.let("AtomicCompareExchange", word, address, scope, relaxed, relaxed, new(seen), seen)
        is_done = code.let("IEqual", module.bool(), exchanged, seen)
        code.branch(continue_label)
        code.start(continue_label)
        code.branch_if(is_done, merge_label, head_label)
        code.insert_phis(phi_position, [(word, seen, [(initial, entry_label), (exchanged, continue_label)])])
        code.start(merge_label)
        return seen

    def workgroup_variable(self, emitter: FunctionEmitter, op: Operation, element: Attribute, count: int) -> Id:
        """Declare workgroup memory of `count` elements for an allocation, and return the variable."""
        return emitter.m.variable("Workgroup", emitter.m.array(_stored_type(emitter, element, op), count))

    def private_variable(self, emitter: FunctionEmitter, op: Operation, element: Attribute, count: int) -> Id:
        """Declare `count` elements for each invocation for an allocation, and return the variable."""
        return emitter.code.local(emitter.m.array(_stored_type(emitter, element, op), count))

    def declare_table(
        self, emitter: FunctionEmitter, name: str, element: Attribute, count: int, values: Callable[[], Sequence[Any]]
    ) -> tuple[object, Id]:
        """Return (key, variable) of a constant table, which is declared on first use. values: returns its elements."""
        # The key has the width of indices: a table may consist of indices, whose width differs between kernels.
        module, key = emitter.m, ("global", name, emitter.index_width)

        def elements() -> list[Id]:
            """Return the ids of the constants for the elements `values()`."""
            if is_float(element):
                return [self.float_constant(emitter, value, element) for value in values()]
            return [module.integer(value, max(32, emitter.width(element))) for value in values()]

        return key, module.constant_table(key, module.array(_stored_type(emitter, element, key), count), elements)


ROWS: dict[str, Lowering] = _Memory().rows()
"""Name of an operation → function that emits SPIR-V for it."""
