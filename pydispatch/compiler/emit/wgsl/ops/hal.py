"""hal.interface and hal.executable: constants and the grid."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Float32Type, IndexType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.hal import constant_words, executable_constant, grid, workgroup_size
from pydispatch.compiler.emit.shaders.values import is_native_float
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.arith import wrap
from pydispatch.compiler.emit.wgsl.words import Name
from pydispatch.compiler.kernel_ir.readers import integer
from pydispatch.compiler.kernel_ir.types import bit_width


def _constant(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a layout constant to a load from a uniform buffer of four-word vectors."""
    ordinal, type_ = integer(op, "ordinal"), op.results[0].type
    count = constant_words(emitter, op)
    vectors = -(-emitter.layout.constants // 4)
    name = f"constants{vectors if vectors > 1 else ''}"

    def word(offset: int) -> str:
        place, emitter.reads_constants = ordinal + offset, True
        emitter.module.declare(name, lambda: f"@group(3) @binding(0) var<uniform> {name}: array<vec4u, {vectors}>;")
        return f"{name}[{place // 4}].{'xyzw'[place % 4]}"

    emitter.define(
        op.results[0], emitter.at_entry(("constant", ordinal, type_), lambda: _scalar(emitter, type_, count, word))
    )


def _scalar(emitter: FunctionEmitter, type_: Attribute, count: int, word: Callable[[int], str]) -> Name:
    """Return a scalar from its words. A narrow one is the low bits of a word; an index of 32 bits the low word."""
    width, low = emitter.width(type_), word(0)
    if width == 64:
        return emitter.let(f"vec2u({low}, {word(1) if count == 2 else '0u'})")
    if type(type_) is Float32Type:
        return emitter.let(f"bitcast<f32>({low})")
    if width == 1:
        return emitter.let(f"({low} & 1u) != 0u")
    value = emitter.let(f"i32({low})")
    if isinstance(type_, IndexType) or is_native_float(type_):
        return value
    return emitter.from_bits(wrap(emitter, value, bit_width(type_), 32), type_)


def _executable_constant(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower an executable constant to overrides, whose ids are the numbers of its words."""
    type_ = op.results[0].type
    ordinal, is_wide = executable_constant(emitter, op, emitter.constants)

    def word(offset: int) -> str:
        name = f"constant{ordinal + offset}"
        return emitter.module.declare(name, lambda: f"@id({ordinal + offset}) override {name}: u32 = 0u;")

    key = ("executable constant", ordinal, type_)
    emitter.define(op.results[0], emitter.at_entry(key, lambda: _scalar(emitter, type_, 2 if is_wide else 1, word)))


ROWS: dict[str, Lowering] = {
    "hal.interface.constant.load": _constant,
    "hal.executable.constant.load": _executable_constant,
    "hal.interface.workgroup.id": grid("workgroup"),
    "hal.interface.workgroup.count": grid("workgroups"),
    "hal.interface.workgroup.size": workgroup_size,
}
