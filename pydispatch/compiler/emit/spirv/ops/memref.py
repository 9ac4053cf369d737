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
from pydispatch.compiler.emit.spirv.ops.arith import wrap
from pydispatch.compiler.emit.spirv.ops.casts import resized
from pydispatch.compiler.emit.spirv.ops.floats import float_constant
from pydispatch.compiler.emit.spirv.types import Index, Unit, unit_of
from pydispatch.compiler.emit.spirv.words import OP, SCOPE_DEVICE
from pydispatch.compiler.kernel_ir.kernel import OWN_BYTE
from pydispatch.compiler.kernel_ir.readers import attribute, operands_of, symbol, unsupported
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE, is_common
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, packed

_ACCESS, _LOAD, _STORE = 6 << 16 | OP["AccessChain"], 4 << 16 | OP["Load"], 3 << 16 | OP["Store"]


def place(f: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> Index:
    """Return the linear offset of the element at `indices`, in elements."""
    strides = memref.strides
    if len(indices) != len(strides):
        raise f.error(f"a memref of rank {len(strides)} is indexed with {len(indices)} values")
    base, offset = memref.base, memref.offset
    if type(base) is Id or base != 0:
        offset = f.plus(base, offset)
    for index, stride in zip(indices, strides):  # noqa: B905
        if type(stride) is Id or stride != 1:
            index = f.times(index, stride)
        offset = index if type(offset) is int and offset == 0 else f.plus(offset, index)
    return offset


def buffer_variable(f: FunctionEmitter, root: Root, unit: Unit) -> Id:
    """Return the variable through which this function sees a binding as an array of `unit`."""
    m = f.m

    def make() -> Id:
        block = m.block(("buffer", unit), m.runtime_array(unit.type(m), unit.bits // 8))
        made = m.variable("StorageBuffer", block)
        m.decorate(made, "DescriptorSet", 0)
        m.decorate(made, "Binding", root.binding)
        if root.read_only:
            m.decorate(made, "NonWritable")
        f.units.setdefault(root.binding, []).append(made)
        return made

    return f.once(("buffer", root.binding, unit), make)


def buffer_pointer(f: FunctionEmitter, root: Root, unit: Unit, index: Index) -> Id:
    """Emit a pointer to a unit of a binding."""
    m, variable = f.m, buffer_variable(f, root, unit)
    pointer = m.pointer("StorageBuffer", unit.type(m))
    return f.code.let("AccessChain", pointer, variable, m.integer(0), f.idx(index))


def _plain(f: FunctionEmitter, memref: MemRef) -> tuple[Id, Id, Id, Id] | None:
    """(type, type of pointers, variable, 0) of a binding whose elements are as they are in registers; else None."""
    element, root = memref.element, memref.root
    key = (root.binding, id(element))
    found = f.plain.get(key)
    if found is None:
        unit, m = unit_of(element), f.m
        access = None
        if unit.bits >= 32 and unit.bits == f.width(element) and not packed(element):
            type_ = unit.type(m)
            access = type_, m.pointer("StorageBuffer", type_), buffer_variable(f, root, unit), m.integer(0)
        found = f.plain[key] = access, element  # the element stays alive, and its id its own
    made: tuple[Id, Id, Id, Id] | None = found[0]
    return made


def variable_pointer(f: FunctionEmitter, memref: MemRef, index: Index) -> Id:
    """Emit a pointer to an element of memory that is one variable."""
    storage = {"workgroup": "Workgroup", "function": "Function", "constant": "Private"}[memref.root.kind]
    pointer = f.m.pointer(storage, _held(f, memref.element, memref.root.key))
    return f.code.let("AccessChain", pointer, memref.root.variable, f.idx(index))


def _held(f: FunctionEmitter, element: Attribute, key: object) -> Id:
    """Return the type of elements outside buffers: that of registers, with integers for i1, and for floats that are
    exchanged by atomic operations. key: of the storage.
    """
    if key in f.exchanged:
        return f.m.int(f.width(element))
    return f.m.int(32) if f.width(element) == 1 else f.type(element)


def load(f: FunctionEmitter, memref: MemRef, indices: Sequence[Index]) -> Id:
    """Load the element at `indices`."""
    element, index = memref.element, place(f, memref, indices)
    if memref.root.kind == "binding" and (plain := _plain(f, memref)) is not None:
        type_, pointer, variable, zero = plain
        number, at, made = f.idx(index), f.m.id(), f.m.id()
        f.code.lines += (_ACCESS, pointer, at, variable, zero, number, _LOAD, type_, made, at)
        return made
    width = f.width(element)
    if memref.root.kind != "binding":
        value = f.code.let("Load", _held(f, element, memref.root.key), variable_pointer(f, memref, index))
        if memref.root.key in f.exchanged:
            return f.code.let("Bitcast", f.type(element), value)
        return resized(f, value, 32, 1) if width == 1 else value
    unit = unit_of(element)
    if packed(element):
        return _load_packed(f, memref, index)
    value = f.code.let("Load", unit.type(f.m), buffer_pointer(f, memref.root, unit, index))
    return from_memory(f, value, element, unit)


def from_memory(f: FunctionEmitter, value: Id, element: Attribute, unit: Unit) -> Id:
    """Convert a unit that was loaded to the register of its element."""
    width, m, let = f.width(element), f.m, f.code.let
    if width == 1:
        return let("INotEqual", m.bool(), let("UConvert", m.int(32), value), m.integer(0))
    if unit.bits < 32:
        value = let("SConvert", m.int(32), value)
        return wrap(f, value, bit_width(element), 32) if bit_width(element) < 8 else value
    return let("SConvert", m.int(width), value) if unit.bits != width else value


def store(f: FunctionEmitter, value: Id, memref: MemRef, indices: Sequence[Index], own_byte: bool = False) -> None:
    """Write the element at `indices` and no other, also where elements share a byte. own_byte: nobody else writes
    elements of that byte."""
    element, index = memref.element, place(f, memref, indices)
    if memref.root.kind == "binding" and (plain := _plain(f, memref)) is not None:
        _, pointer, variable, zero = plain
        number, at = f.idx(index), f.m.id()
        f.code.lines += (_ACCESS, pointer, at, variable, zero, number, _STORE, at, value)
        return
    width, m, let = f.width(element), f.m, f.code.let
    if memref.root.kind != "binding":
        if width == 1:
            value = let("Select", m.int(32), value, m.integer(1), m.integer(0))
        if memref.root.key in f.exchanged:
            value = let("Bitcast", m.int(width), value)
        f.code.do("Store", variable_pointer(f, memref, index), value)
        return
    unit = unit_of(element)
    if packed(element):
        (_store_packed if own_byte else _store_bits)(f, value, memref, index)
        return
    pointer = buffer_pointer(f, memref.root, unit, index)
    f.code.do("Store", pointer, to_memory(f, value, element, unit))


def to_memory(f: FunctionEmitter, value: Id, element: Attribute, unit: Unit) -> Id:
    """Convert a register to its unit in memory."""
    width, m, let = f.width(element), f.m, f.code.let
    if width == 1:
        return let("UConvert", unit.type(m), let("Select", m.int(32), value, m.integer(1), m.integer(0)))
    if unit.bits < 8 * 4:
        bits = bit_width(element)
        plain = let("BitwiseAnd", m.int(32), value, m.integer((1 << bits) - 1)) if bits < 8 else value
        return let("UConvert", unit.type(m), plain)
    return let("SConvert", unit.type(m), value) if unit.bits != width else value


def _packed_place(f: FunctionEmitter, memref: MemRef, index: Index, bits: int = 8) -> tuple[Index, Id]:
    """Return (number of the unit of so many bits, shift) of an element that shares it; the first element has the low
    bits.
    """
    width = bit_width(memref.element)
    byte, within = f.divide(index, bits // width), f.divide(index, bits // width, remainder=True)
    shift = f.times(within, width)
    if isinstance(shift, Id) and f.index_width == 64:
        shift = f.code.let("UConvert", f.m.int(32), shift)
    return byte, shift if isinstance(shift, Id) else f.m.integer(shift)


def _load_packed(f: FunctionEmitter, memref: MemRef, index: Index) -> Id:
    if not memref.root.read_only:  # others may write their elements of the word
        number, shift = _packed_place(f, memref, index, 32)
        pointer = buffer_pointer(f, memref.root, Unit(32, False), number)
        scope, relaxed = f.m.integer(SCOPE_DEVICE), f.m.integer(0)
        both = f.code.let("AtomicLoad", f.m.int(32), pointer, scope, relaxed)
        return wrap(f, f.code.let("ShiftRightLogical", f.m.int(32), both, shift), bit_width(memref.element), 32)
    byte, shift = _packed_place(f, memref, index)
    unit, word, let = Unit(8, False), f.m.int(32), f.code.let
    whole = let("UConvert", word, let("Load", unit.type(f.m), buffer_pointer(f, memref.root, unit, byte)))
    return wrap(f, let("ShiftRightLogical", word, whole, shift), bit_width(memref.element), 32)


def _store_packed(f: FunctionEmitter, value: Id, memref: MemRef, index: Index) -> None:
    byte, shift = _packed_place(f, memref, index)
    unit, word, let, m = Unit(8, False), f.m.int(32), f.code.let, f.m
    mask = m.integer((1 << bit_width(memref.element)) - 1)
    pointer = buffer_pointer(f, memref.root, unit, byte)
    others = let("Not", word, let("ShiftLeftLogical", word, mask, shift))
    kept = let("BitwiseAnd", word, let("UConvert", word, let("Load", unit.type(m), pointer)), others)
    moved = let("ShiftLeftLogical", word, let("BitwiseAnd", word, value, mask), shift)
    f.code.do("Store", pointer, let("UConvert", unit.type(m), let("BitwiseOr", word, kept, moved)))


def _store_bits(f: FunctionEmitter, value: Id, memref: MemRef, index: Index) -> None:
    """Store an element that is narrower than a byte by atomic operations on its 32-bit word.

    Other invocations may write elements of the same byte at the same time. Devices bind whole words, so the word
    exists.
    """
    number, shift = _packed_place(f, memref, index, 32)
    word, let, m = f.m.int(32), f.code.let, f.m
    mask = m.integer((1 << bit_width(memref.element)) - 1)
    pointer = buffer_pointer(f, memref.root, Unit(32, False), number)
    others = let("Not", word, let("ShiftLeftLogical", word, mask, shift))
    moved = let("ShiftLeftLogical", word, let("BitwiseAnd", word, value, mask), shift)
    scope, relaxed = m.integer(SCOPE_DEVICE), m.integer(0)
    let("AtomicAnd", word, pointer, scope, relaxed, others)
    let("AtomicOr", word, pointer, scope, relaxed, moved)


def writable(f: FunctionEmitter, memref: MemRef) -> None:
    if memref.root.read_only:
        raise f.error("a store into a binding that is only read", READ_ONLY_NOTE)


def _load(f: FunctionEmitter, op: Operation) -> None:
    source, *indices = operands_of(op)
    values: dict[SSAValue, Any] = f.values
    (result,) = op.results
    values[result] = load(f, f.memref(source), [values[o] for o in indices])


def _store(f: FunctionEmitter, op: Operation) -> None:
    value, target, *indices = operands_of(op)
    memref, values = f.memref(target), f.values
    writable(f, memref)
    store(f, f.get(value), memref, [values[o] for o in indices], OWN_BYTE in op.attributes)


# Storage


def _alloc(f: FunctionEmitter, op: Operation) -> None:
    if not isinstance(op.results[0].type, MemRefType):
        raise unsupported(op)
    memref, count = f.storage(op.results[0].type)
    held = _held(f, memref.element_type, op)
    if is_common(op, memref):
        root = Root("workgroup", op, variable=f.m.variable("Workgroup", f.m.array(held, count)))
    else:
        f.check_private(memref, count)
        root = Root("function", op, variable=f.code.local(f.m.array(held, count)))
    f.define(op.results[0], fresh(memref, root))


def _nothing(f: FunctionEmitter, op: Operation) -> None:
    """dealloc: storage lives as long as the workgroup."""


def _global(f: FunctionEmitter, op: Operation) -> None:
    name = attribute(op, "name")
    found = f.module.memref_globals.get(symbol(op, "name")) if isinstance(name, SymbolRefAttr) else None
    if found is None:
        raise f.error(f"memref.get_global of an unknown global {name}")
    memref, count = f.storage(op.results[0].type)
    key = ("global", symbol(op, "name"), f.index_width)
    array = f.m.array(_held(f, memref.element_type, key), count)
    variable = f.m.constant_table(key, array, lambda: _elements(f, found, memref, count))
    f.define(op.results[0], fresh(memref, Root("constant", key, variable=variable, read_only=True)))


def _elements(f: FunctionEmitter, op: Operation, memref: MemRefType, count: int) -> list[Id]:
    element, width = memref.element_type, max(32, f.width(memref.element_type))
    values = table_values(f, op, element, width, count)
    if is_float(element):
        return [float_constant(f, value, element) for value in values]
    return [f.m.integer(value, width) for value in values]


def _same(f: FunctionEmitter, op: Operation) -> None:
    """Forward the operand of `memref.assume_alignment`, a hint that the compiler does not check."""
    for result in op.results:
        f.define(result, f.values[op.operands[0]])


ROWS: dict[str, Lowering] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.dealloc": _nothing,
    "memref.get_global": _global,
    "memref.assume_alignment": _same,
}
