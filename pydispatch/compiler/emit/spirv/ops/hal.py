"""hal.interface and hal.executable: bindings, constants and the grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.arith import wrap
from pydispatch.compiler.emit.spirv.ops.casts import resized
from pydispatch.compiler.emit.spirv.types import Index, MemRef, Root, is_native_float
from pydispatch.compiler.emit.spirv.words import OP
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN
from pydispatch.compiler.kernel_ir.readers import attribute, integer, integers, operands_of, symbol
from pydispatch.compiler.kernel_ir.types import bit_width, layout_of, storage_bits
from pydispatch.formats.spirv.interface import are_spilled


def _subspan(f: FunctionEmitter, op: Operation) -> None:
    """The memref's storage begins `offset` bytes into the binding."""
    (result,) = op.results
    memref = cast(MemRefType, result.type)
    ordinal = integer(op, "binding")
    sizes = integers(op, "operandSegmentSizes")
    dims: list[SSAValue] = list(operands_of(op))
    byte_offset: Index = f.index(dims.pop(0)) if sizes and sizes[0] else 0
    offset, shape, strides = layout_of(memref)  # which says what is wrong with other types
    start = _elements(f, byte_offset, memref.element_type)
    rest = iter(dims)
    extents: list[Index] = [f.index(next(rest)) if size is None else size for size in shape]
    read_only = f.bindings[ordinal].read_only
    root = Root("binding", ("binding", ordinal), ordinal, read_only=read_only)
    base, within = (0, start) if offset is None else (start, offset)
    f.values[result] = MemRef(root, base, within, tuple(extents), _strides(f, extents, strides), memref.element_type)


def _elements(f: FunctionEmitter, offset: Index, element: Attribute) -> Index:
    bits = storage_bits(element)
    return f.times(offset, 8 // bits) if bits < 8 else f.divide(offset, bits // 8)


def _strides(f: FunctionEmitter, extents: list[Index], strides: tuple[int | None, ...]) -> tuple[Index, ...]:
    """Open strides are those of a contiguous buffer."""
    if None not in strides:
        return cast(tuple[Index, ...], strides)
    found: list[Index] = []
    running: Index = 1
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        found.insert(0, running if stride is None else stride)
        if len(found) < len(extents):
            running = f.times(found[0], extent)
    return tuple(found)


def _constant(f: FunctionEmitter, op: Operation) -> None:
    ordinal, type_ = integer(op, "ordinal"), op.results[0].type
    count = _words(f, op, ordinal)
    if ordinal + count > f.layout.constants:
        raise f.error(
            f"constant {ordinal} of type {type_} lies outside the layout, which has {f.layout.constants} words"
        )
    f.define(
        op.results[0], f.at_entry(("constant", ordinal, type_), lambda: _scalar(f, type_, count, _push(f, ordinal)))
    )


def _words(f: FunctionEmitter, op: Operation, ordinal: int) -> int:
    """How many words a constant takes; see llvm_hal."""
    type_ = op.results[0].type
    if not isinstance(type_, IndexType):
        return 2 if bit_width(type_) > 32 else 1
    if attribute(op, "layout") is not None:
        return 1
    others = f.ops.get(op.name, ())
    taken = any(integer(other, "ordinal") == ordinal + 1 for other in others if other is not op)
    return 2 if ordinal + 1 < f.layout.constants and not taken else 1


def _push(f: FunctionEmitter, ordinal: int) -> Callable[[int], Id]:
    """The words of constants: push constants, or a buffer after the bindings when they are too many."""
    m, count = f.m, f.layout.constants
    spilled = are_spilled(count)
    storage, binding = "StorageBuffer" if spilled else "PushConstant", len(f.layout.bindings)

    def make() -> Id:
        variable = m.variable(storage, m.block("constants", m.array(m.int(32), count, 4)))
        if spilled:
            m.decorate(variable, "DescriptorSet", 0)
            m.decorate(variable, "Binding", binding)
            m.decorate(variable, "NonWritable")
        return variable

    def word(number: int) -> Id:
        variable, pointer = m.once((storage, count, binding if spilled else 0), make), m.pointer(storage, m.int(32))
        place = f.code.let("AccessChain", pointer, variable, m.integer(0), m.integer(ordinal + number))
        return f.code.let("Load", m.int(32), place)

    return word


def _scalar(f: FunctionEmitter, type_: Attribute, count: int, word: Callable[[int], Id]) -> Id:
    """A scalar from its words. A narrow one is the low bits of a word; an index of 32 bits the low word."""
    m, let, width = f.m, f.code.let, f.width(type_)
    low = word(0)
    if width == 64 and not is_native_float(type_):
        low = let("UConvert", m.int(64), low)
        if count == 1:
            return low
        high = let("UConvert", m.int(64), word(1))
        return let("BitwiseOr", m.int(64), low, let("ShiftLeftLogical", m.int(64), high, m.integer(32)))
    if width == 64:
        pair = let("CompositeConstruct", m.type("TypeVector", m.int(32), 2), low, word(1))
        return let("Bitcast", m.float(64), pair)
    if is_native_float(type_):
        return let("Bitcast", m.float(32), low)
    if width == 1:
        return resized(f, low, 32, 1)
    return low if isinstance(type_, IndexType) else wrap(f, low, bit_width(type_), 32)


def _executable_constant(f: FunctionEmitter, op: Operation) -> None:
    """A specialization constant, numbered by the word that it is."""
    key, type_, constants = symbol(op, "key"), op.results[0].type, f.module.constants
    if key not in constants:
        known_keys = ", ".join(constants) or "none"
        raise f.error(f"executable constant '{key}' has no hal.executable.constant.block", f"defined are: {known_keys}")
    ordinal = constants.index(key)
    wide = not isinstance(type_, IndexType) and bit_width(type_) > 32
    if wide and tuple(constants[ordinal : ordinal + 2]) != (key, key):
        raise f.error(f"executable constant '{key}' is one 32-bit word, got {type_}")

    def word(number: int) -> Id:
        return f.m.once(("specialized", ordinal + number), lambda: _specialized(f, ordinal + number))

    value = f.at_entry(("executable constant", key, type_), lambda: _scalar(f, type_, 2 if wide else 1, word))
    f.define(op.results[0], value)


def _specialized(f: FunctionEmitter, number: int) -> Id:
    m = f.m
    type_, made = m.int(32), m.id()
    m.globals += [4 << 16 | OP["SpecConstant"], type_, made, 0]
    m.decorate(made, "SpecId", number)
    m.name(made, f.module.constants[number])
    return made


def _grid(builtin: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        f.define(op.results[0], f.component(builtin, integer(op, "dimension")))

    return lower


def _size(f: FunctionEmitter, op: Operation) -> None:
    """The invocations of a workgroup are the emitter's doing: for a kernel it has the size that its export declares."""
    f.define(op.results[0], max(1, f.declared_size[integer(op, "dimension")]))


ROWS: dict[str, Lowering] = {
    SUBSPAN: _subspan,
    "hal.interface.constant.load": _constant,
    "hal.executable.constant.load": _executable_constant,
    "hal.interface.workgroup.id": _grid("WorkgroupId"),
    "hal.interface.workgroup.count": _grid("NumWorkgroups"),
    "hal.interface.workgroup.size": _size,
}
