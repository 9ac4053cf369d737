"""hal.interface and hal.executable: bindings, constants and the grid."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.hal import constant_words, executable_constant, grid, workgroup_size
from pydispatch.compiler.emit.shaders.values import is_native_float
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.arith import wrap
from pydispatch.compiler.emit.spirv.ops.casts import resized
from pydispatch.compiler.emit.spirv.words import OP
from pydispatch.compiler.kernel_ir.readers import integer, symbol
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.formats.spirv.interface import are_spilled


def _constant(emitter: FunctionEmitter, op: Operation) -> None:
    ordinal, type_ = integer(op, "ordinal"), op.results[0].type
    count = constant_words(emitter, op)
    emitter.define(
        op.results[0],
        emitter.at_entry(("constant", ordinal, type_), lambda: _scalar(emitter, type_, count, _push(emitter, ordinal))),
    )


def _push(emitter: FunctionEmitter, ordinal: int) -> Callable[[int], Id]:
    """Return a function that loads a word of a constant: from push constants, or from a buffer after the bindings when
    there are too many.
    """
    m, count = emitter.m, emitter.layout.constants
    spilled = are_spilled(count)
    storage, binding = "StorageBuffer" if spilled else "PushConstant", len(emitter.layout.bindings)

    def make() -> Id:
        variable = m.variable(storage, m.block("constants", m.array(m.int(32), count, 4)))
        if spilled:
            m.decorate(variable, "DescriptorSet", 0)
            m.decorate(variable, "Binding", binding)
            m.decorate(variable, "NonWritable")
        return variable

    def word(index: int) -> Id:
        variable, pointer = m.once((storage, count, binding if spilled else 0), make), m.pointer(storage, m.int(32))
        place = emitter.code.let("AccessChain", pointer, variable, m.integer(0), m.integer(ordinal + index))
        return emitter.code.let("Load", m.int(32), place)

    return word


def _scalar(emitter: FunctionEmitter, type_: Attribute, count: int, word: Callable[[int], Id]) -> Id:
    """Assemble a scalar from `count` 32-bit words, the low word first. `word(i)` emits the load of word i.

    Types narrower than 32 bits are the low bits of the low word; an index of 32 bits is the low word.
    """
    m, let, width = emitter.m, emitter.code.let, emitter.width(type_)
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
        return resized(emitter, low, 32, 1)
    return low if isinstance(type_, IndexType) else wrap(emitter, low, bit_width(type_), 32)


def _executable_constant(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an executable constant to specialization constants, whose SpecIds are the numbers of its words."""
    key, type_ = symbol(op, "key"), op.results[0].type
    ordinal, wide = executable_constant(emitter, op, emitter.module.constants)

    def word(index: int) -> Id:
        return emitter.m.once(("specialized", ordinal + index), lambda: _specialized(emitter, ordinal + index))

    value = emitter.at_entry(
        ("executable constant", key, type_), lambda: _scalar(emitter, type_, 2 if wide else 1, word)
    )
    emitter.define(op.results[0], value)


def _specialized(emitter: FunctionEmitter, index: int) -> Id:
    m = emitter.m
    type_, result = m.int(32), m.id()
    m.globals += [4 << 16 | OP["SpecConstant"], type_, result, 0]
    m.decorate(result, "SpecId", index)
    m.name(result, emitter.module.constants[index])
    return result


ROWS: dict[str, Lowering] = {
    "hal.interface.constant.load": _constant,
    "hal.executable.constant.load": _executable_constant,
    "hal.interface.workgroup.id": grid("WorkgroupId"),
    "hal.interface.workgroup.count": grid("NumWorkgroups"),
    "hal.interface.workgroup.size": workgroup_size,
}
