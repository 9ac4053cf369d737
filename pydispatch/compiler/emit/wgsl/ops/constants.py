"""Constants in WGSL; how scalars are made of words is in `shaders/constants.py`.

Layout constants are a uniform buffer of vectors of four words. Executable constants are overrides, whose ids are the
numbers of their words.
"""

from __future__ import annotations

from xdsl.ir import Attribute

from pydispatch.compiler.emit.shaders.constants import Constants
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned


class _Constants(WgslRegisters, Constants[FunctionEmitter, Name]):
    """Lowerings of reads of constants to WGSL: the constants of a dispatch, and those of the executable."""

    def layout_word(self, emitter: FunctionEmitter, index: int) -> Name:
        """Read the 32-bit layout constant `index`: a component of a uniform array of vec4u."""
        emitter.reads_constants = True
        vectors = -(-emitter.layout.constants // 4)  # the stride of a uniform array is a multiple of 16 bytes
        # Exports of one module may have layouts of different sizes, each of which is a variable.
        name = f"constants{vectors if vectors > 1 else ''}"
        emitter.module.declare(name, lambda: f"@group(3) @binding(0) var<uniform> {name}: array<vec4u, {vectors}>;")
        return emitter.let(f"i32({name}[{index // 4}].{'xyzw'[index % 4]})")

    def executable_word(self, emitter: FunctionEmitter, index: int) -> Name:
        """Return the 32-bit executable constant `index`: an override with this id, 0 unless the pipeline sets it."""
        name = f"constant{index}"
        emitter.module.declare(name, lambda: f"@id({index}) override {name}: u32 = 0u;")
        return emitter.let(f"i32({name})")

    def joined(self, emitter: FunctionEmitter, type_: Attribute, low: Name, high: Name) -> Name:
        """Emit the register of a 64-bit type, a vec2u, from its low and its high word."""
        return emitter.let(f"vec2u({as_unsigned(low)}, {as_unsigned(high)})")


ROWS: dict[str, Lowering] = _Constants().rows()
"""Name of an operation → function that emits WGSL for it."""
