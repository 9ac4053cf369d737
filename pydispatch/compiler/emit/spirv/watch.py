"""Watchdog of loops: a shader reports when the driver has ended its loops early."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.loops import CountedLoop
from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.formats.spirv.interface import watching_binding


def watch(emitter: FunctionEmitter) -> None:
    """Append a check to the end of an entry point that reports loops which the device cut short.

    The check is a loop of two iterations: a device that has cut a loop short ends all later ones at once. If it does
    not run both, the shader writes 1 to the first word of a buffer bound after all others. The second word of that
    buffer is 2, the iteration count; the shader reads it so that no compiler knows the count and drops the loop.
    """
    module, code = emitter.m, emitter.code
    word, zero, one = module.int(32), module.integer(0), module.integer(1)
    binding = watching_binding(emitter.layout.constants, len(emitter.layout.bindings))

    def make() -> int:
        """Declare the buffer of two words at `binding`: the report (1 if a loop was cut short), and the loop count."""
        variable = module.variable("StorageBuffer", module.block("loops", module.array(word, 2, 4)))
        module.decorate(variable, "DescriptorSet", 0)
        module.decorate(variable, "Binding", binding)
        return variable

    variable, pointer = module.once(("loops", binding), make), module.pointer("StorageBuffer", word)  # type: ignore[arg-type]
    limit = code.let("Load", word, code.let("AccessChain", pointer, variable, zero, one))

    def increment(_counter: Id, carried: list[Id]) -> list[Id]:
        """Emit the increment of the carried value, which counts the iterations that the device runs."""
        return [code.let("IAdd", word, carried[0], one)]

    (count,) = emitter.plain_loop(CountedLoop((zero, limit, one), [(word, zero)], increment, width=32))

    def report() -> list[int]:
        """Emit the report: the store of 1 to the first word of the buffer."""
        code.do("Store", code.let("AccessChain", pointer, variable, zero, zero), one)
        return []

    is_cut_short = code.let("INotEqual", module.bool(), count, limit)
    emitter.choose(is_cut_short, then=report, other=list, types=[])  # type: ignore[arg-type]
