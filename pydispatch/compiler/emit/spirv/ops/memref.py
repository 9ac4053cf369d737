"""memref: loads, stores, storage. Views are in views.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import MemRefType, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.tables import table_values
from pydispatch.compiler.emit.shaders.values import MemRef, Root, fresh
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import REGISTERS
from pydispatch.compiler.emit.spirv.types import Index, Unit, unit_of
from pydispatch.compiler.emit.spirv.words import OP, SCOPE_DEVICE
from pydispatch.compiler.kernel_ir.kernel import OWN_BYTE
from pydispatch.compiler.kernel_ir.readers import attribute, operands_of, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_common
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, packed

_ACCESS, _LOAD, _STORE = 6 << 16 | OP["AccessChain"], 4 << 16 | OP["Load"], 3 << 16 | OP["Store"]


def place(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> Index:
    """Return the linear offset of the element at `indices`, in elements."""
    strides = memref.strides
    if len(indices) != len(strides):
        raise emitter.error(f"a memref of rank {len(strides)} is indexed with {len(indices)} values")
    base, offset = memref.base, memref.offset
    if type(base) is Id or base != 0:
        offset = emitter.plus(base, offset)
    for index, stride in zip(indices, strides):  # noqa: B905
        if type(stride) is Id or stride != 1:
            index = emitter.times(index, stride)
        offset = index if type(offset) is int and offset == 0 else emitter.plus(offset, index)
    return offset


def buffer_variable(emitter: FunctionEmitter, root: Root, unit: Unit) -> Id:
    """Return the variable through which this function sees a binding as an array of `unit`."""
    m = emitter.m

    def make() -> Id:
        block = m.block(("buffer", unit), m.runtime_array(unit.type(m), unit.bits // 8))
        variable = m.variable("StorageBuffer", block)
        m.decorate(variable, "DescriptorSet", 0)
        m.decorate(variable, "Binding", root.binding)
        if root.read_only:
            m.decorate(variable, "NonWritable")
        emitter.units.setdefault(root.binding, []).append(variable)
        return variable

    return emitter.once(("buffer", root.binding, unit), make)


def buffer_pointer(emitter: FunctionEmitter, root: Root, unit: Unit, index: Index) -> Id:
    """Emit a pointer to a unit of a binding."""
    m, variable = emitter.m, buffer_variable(emitter, root, unit)
    pointer = m.pointer("StorageBuffer", unit.type(m))
    return emitter.code.let("AccessChain", pointer, variable, m.integer(0), emitter.idx(index))


def _plain(emitter: FunctionEmitter, memref: MemRef) -> tuple[Id, Id, Id, Id] | None:
    """(type, type of pointers, variable, 0) of a binding whose elements are as they are in registers; else None."""
    element, root = memref.element, memref.root
    key = (root.binding, id(element))
    cached = emitter.plain.get(key)
    if cached is None:
        unit, m = unit_of(element), emitter.m
        access = None
        if unit.bits >= 32 and unit.bits == emitter.width(element) and not packed(element):
            type_ = unit.type(m)
            access = type_, m.pointer("StorageBuffer", type_), buffer_variable(emitter, root, unit), m.integer(0)
        cached = emitter.plain[key] = access, element  # the element stays alive, and its id its own
    access_: tuple[Id, Id, Id, Id] | None = cached[0]
    return access_


def variable_pointer(emitter: FunctionEmitter, memref: MemRef, index: Index) -> Id:
    """Emit a pointer to an element of memory that is one variable."""
    storage = {"workgroup": "Workgroup", "function": "Function", "constant": "Private"}[memref.root.kind]
    pointer = emitter.m.pointer(storage, _held(emitter, memref.element, memref.root.key))
    return emitter.code.let("AccessChain", pointer, memref.root.variable, emitter.idx(index))


def _held(emitter: FunctionEmitter, element: Attribute, key: object) -> Id:
    """Return the type of elements outside buffers: that of registers, with integers for i1, and for floats that are
    exchanged by atomic operations. key: of the storage.
    """
    if key in emitter.exchanged:
        return emitter.m.int(emitter.width(element))
    return emitter.m.int(32) if emitter.width(element) == 1 else emitter.type(element)


def load(emitter: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> Id:
    """Load the element at `indices`."""
    element, index = memref.element, place(emitter, memref, indices)
    if memref.root.kind == "binding" and (plain := _plain(emitter, memref)) is not None:
        type_, pointer, variable, zero = plain
        offset, at, loaded = emitter.idx(index), emitter.m.id(), emitter.m.id()
        emitter.code.lines += (_ACCESS, pointer, at, variable, zero, offset, _LOAD, type_, loaded, at)
        return loaded
    width = emitter.width(element)
    if memref.root.kind != "binding":
        value = emitter.code.let(
            "Load", _held(emitter, element, memref.root.key), variable_pointer(emitter, memref, index)
        )
        if memref.root.key in emitter.exchanged:
            return emitter.code.let("Bitcast", emitter.type(element), value)
        return REGISTERS.resized(emitter, value, 32, 1) if width == 1 else value
    unit = unit_of(element)
    if packed(element):
        return _load_packed(emitter, memref, index)
    value = emitter.code.let("Load", unit.type(emitter.m), buffer_pointer(emitter, memref.root, unit, index))
    return from_memory(emitter, value, element, unit)


def from_memory(emitter: FunctionEmitter, value: Id, element: Attribute, unit: Unit) -> Id:
    """Convert a unit that was loaded to the register of its element."""
    width, m, let = emitter.width(element), emitter.m, emitter.code.let
    if width == 1:
        return let("INotEqual", m.bool(), let("UConvert", m.int(32), value), m.integer(0))
    if unit.bits < 32:
        value = let("SConvert", m.int(32), value)
        return REGISTERS.wrap(emitter, value, bit_width(element), 32) if bit_width(element) < 8 else value
    return let("SConvert", m.int(width), value) if unit.bits != width else value


def store(
    emitter: FunctionEmitter, value: Id, memref: MemRef, indices: Sequence[Index], own_byte: bool = False
) -> None:
    """Write the element at `indices` and no other, also where elements share a byte. own_byte: nobody else writes
    elements of that byte."""
    element, index = memref.element, place(emitter, memref, indices)
    if memref.root.kind == "binding" and (plain := _plain(emitter, memref)) is not None:
        _, pointer, variable, zero = plain
        offset, at = emitter.idx(index), emitter.m.id()
        emitter.code.lines += (_ACCESS, pointer, at, variable, zero, offset, _STORE, at, value)
        return
    width, m, let = emitter.width(element), emitter.m, emitter.code.let
    if memref.root.kind != "binding":
        if width == 1:
            value = let("Select", m.int(32), value, m.integer(1), m.integer(0))
        if memref.root.key in emitter.exchanged:
            value = let("Bitcast", m.int(width), value)
        emitter.code.do("Store", variable_pointer(emitter, memref, index), value)
        return
    unit = unit_of(element)
    if packed(element):
        (_store_packed if own_byte else _store_bits)(emitter, value, memref, index)
        return
    pointer = buffer_pointer(emitter, memref.root, unit, index)
    emitter.code.do("Store", pointer, to_memory(emitter, value, element, unit))


def to_memory(emitter: FunctionEmitter, value: Id, element: Attribute, unit: Unit) -> Id:
    """Convert a register to its unit in memory."""
    width, m, let = emitter.width(element), emitter.m, emitter.code.let
    if width == 1:
        return let("UConvert", unit.type(m), let("Select", m.int(32), value, m.integer(1), m.integer(0)))
    if unit.bits < 8 * 4:
        bits = bit_width(element)
        plain = let("BitwiseAnd", m.int(32), value, m.integer((1 << bits) - 1)) if bits < 8 else value
        return let("UConvert", unit.type(m), plain)
    return let("SConvert", unit.type(m), value) if unit.bits != width else value


def _packed_place(emitter: FunctionEmitter, memref: MemRef, index: Index, bits: int = 8) -> tuple[Index, Id]:
    """Return (number of the unit of so many bits, shift) of an element that shares it; the first element has the low
    bits.
    """
    width = bit_width(memref.element)
    byte, within = emitter.divide(index, bits // width), emitter.divide(index, bits // width, remainder=True)
    shift = emitter.times(within, width)
    if isinstance(shift, Id) and emitter.index_width == 64:
        shift = emitter.code.let("UConvert", emitter.m.int(32), shift)
    return byte, shift if isinstance(shift, Id) else emitter.m.integer(shift)


def _load_packed(emitter: FunctionEmitter, memref: MemRef, index: Index) -> Id:
    if not memref.root.read_only:  # others may write their elements of the word
        word_index, shift = _packed_place(emitter, memref, index, 32)
        pointer = buffer_pointer(emitter, memref.root, Unit(32, False), word_index)
        scope, relaxed = emitter.m.integer(SCOPE_DEVICE), emitter.m.integer(0)
        both = emitter.code.let("AtomicLoad", emitter.m.int(32), pointer, scope, relaxed)
        return REGISTERS.wrap(
            emitter,
            emitter.code.let("ShiftRightLogical", emitter.m.int(32), both, shift),
            bit_width(memref.element),
            32,
        )
    byte, shift = _packed_place(emitter, memref, index)
    unit, word, let = Unit(8, False), emitter.m.int(32), emitter.code.let
    whole = let("UConvert", word, let("Load", unit.type(emitter.m), buffer_pointer(emitter, memref.root, unit, byte)))
    return REGISTERS.wrap(emitter, let("ShiftRightLogical", word, whole, shift), bit_width(memref.element), 32)


def _store_packed(emitter: FunctionEmitter, value: Id, memref: MemRef, index: Index) -> None:
    byte, shift = _packed_place(emitter, memref, index)
    unit, word, let, m = Unit(8, False), emitter.m.int(32), emitter.code.let, emitter.m
    mask = m.integer((1 << bit_width(memref.element)) - 1)
    pointer = buffer_pointer(emitter, memref.root, unit, byte)
    others = let("Not", word, let("ShiftLeftLogical", word, mask, shift))
    kept = let("BitwiseAnd", word, let("UConvert", word, let("Load", unit.type(m), pointer)), others)
    moved = let("ShiftLeftLogical", word, let("BitwiseAnd", word, value, mask), shift)
    emitter.code.do("Store", pointer, let("UConvert", unit.type(m), let("BitwiseOr", word, kept, moved)))


def _store_bits(emitter: FunctionEmitter, value: Id, memref: MemRef, index: Index) -> None:
    """Store an element that is narrower than a byte by atomic operations on its 32-bit word.

    Other invocations may write elements of the same byte at the same time. Devices bind whole words, so the word
    exists.
    """
    word_index, shift = _packed_place(emitter, memref, index, 32)
    word, let, m = emitter.m.int(32), emitter.code.let, emitter.m
    mask = m.integer((1 << bit_width(memref.element)) - 1)
    pointer = buffer_pointer(emitter, memref.root, Unit(32, False), word_index)
    others = let("Not", word, let("ShiftLeftLogical", word, mask, shift))
    moved = let("ShiftLeftLogical", word, let("BitwiseAnd", word, value, mask), shift)
    scope, relaxed = m.integer(SCOPE_DEVICE), m.integer(0)
    let("AtomicAnd", word, pointer, scope, relaxed, others)
    let("AtomicOr", word, pointer, scope, relaxed, moved)


def writable(emitter: FunctionEmitter, memref: MemRef) -> None:
    if memref.root.read_only:
        raise emitter.error("a store into a binding that is only read", READ_ONLY_NOTE)


def _load(emitter: FunctionEmitter, op: Operation) -> None:
    source, *indices = operands_of(op)
    values: dict[SSAValue, Any] = emitter.values
    (result,) = op.results
    values[result] = load(emitter, emitter.memref(source), [values[o] for o in indices])


def _store(emitter: FunctionEmitter, op: Operation) -> None:
    value, target, *indices = operands_of(op)
    memref, values = emitter.memref(target), emitter.values
    writable(emitter, memref)
    store(emitter, emitter.get(value), memref, [values[o] for o in indices], OWN_BYTE in op.attributes)


# Storage


def _alloc(emitter: FunctionEmitter, op: Operation) -> None:
    if not isinstance(op.results[0].type, MemRefType):
        raise unsupported(op)
    memref, count = emitter.storage(op.results[0].type)
    held = _held(emitter, memref.element_type, op)
    if is_common(op, memref):
        root = Root("workgroup", op, variable=emitter.m.variable("Workgroup", emitter.m.array(held, count)))
    else:
        emitter.check_private(memref, count)
        root = Root("function", op, variable=emitter.code.local(emitter.m.array(held, count)))
    emitter.define(op.results[0], fresh(memref, root))


def _nothing(emitter: FunctionEmitter, op: Operation) -> None:
    """dealloc: storage lives as long as the workgroup."""


def _global(emitter: FunctionEmitter, op: Operation) -> None:
    name = attribute(op, "name")
    declared = emitter.module.memref_globals.get(symbol(op, "name")) if isinstance(name, SymbolRefAttr) else None
    if declared is None:
        raise emitter.error(f"memref.get_global of an unknown global {name}")
    memref, count = emitter.storage(op.results[0].type)
    key = ("global", symbol(op, "name"), emitter.index_width)
    array = emitter.m.array(_held(emitter, memref.element_type, key), count)
    variable = emitter.m.constant_table(key, array, lambda: _elements(emitter, declared, memref, count))
    emitter.define(op.results[0], fresh(memref, Root("constant", key, variable=variable, read_only=True)))


def _elements(emitter: FunctionEmitter, op: Operation, memref: MemRefType, count: int) -> list[Id]:
    element, width = memref.element_type, max(32, emitter.width(memref.element_type))
    values = table_values(emitter, op, element, width, count)
    if is_float(element):
        return [REGISTERS.float_constant(emitter, value, element) for value in values]
    return [emitter.m.integer(value, width) for value in values]


def _same(emitter: FunctionEmitter, op: Operation) -> None:
    """Forward the operand of `memref.assume_alignment`, a hint that the compiler does not check."""
    for result in op.results:
        emitter.define(result, emitter.values[op.operands[0]])


ROWS: dict[str, Lowering] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.get_global": _global,
    "memref.assume_alignment": _same,
}
