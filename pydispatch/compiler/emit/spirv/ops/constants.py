"""Constants in SPIR-V; how scalars are made of words is in `shaders/constants.py`.

Layout constants are push constants, or a buffer after the bindings where there are too many. Executable constants are
specialization constants, whose SpecIds are the numbers of their words.
"""

from __future__ import annotations

from xdsl.ir import Attribute

from pydispatch.compiler.emit.shaders.constants import Constants
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters
from pydispatch.compiler.emit.spirv.words import encode
from pydispatch.formats.spirv.interface import are_spilled


class _Constants(SpirvRegisters, Constants[FunctionEmitter, Id]):
    """Lowerings of reads of constants to SPIR-V: the constants of a dispatch, and those of the executable.

    Layout constants are the scalar arguments of a dispatch, executable constants are set when a pipeline is created.
    The base class composes a scalar of 32-bit words, which the methods here read.
    """

    def layout_word(self, emitter: FunctionEmitter, index: int) -> Id:
        """Emit the load of the 32-bit layout constant `index`.

        It is a push constant. If a dispatch has more constants than all devices take as push constants (`are_spilled`:
        more than 32), all of them are in a read-only buffer whose binding number follows those of the program.
        """
        module, count, binding = emitter.m, emitter.layout.constants, len(emitter.layout.bindings)
        is_spilled = are_spilled(count)
        storage = "StorageBuffer" if is_spilled else "PushConstant"

        def declare() -> Id:
            """Declare the variable that holds all layout constants, an array of `count` words, and return its id.

            It is a block of push constants, or a buffer at `binding` if they are too many (`is_spilled`).
            """
            words = module.array(module.int(32), count, stride=4)
            variable = module.variable(storage, module.block("constants", words))
            if is_spilled:  # a buffer after the bindings
                module.decorate(variable, "DescriptorSet", 0)
                module.decorate(variable, "Binding", binding)
                module.decorate(variable, "NonWritable")
            return variable

        # Kernels of one module may have layouts of different sizes, each with a block of its own. The binding is in
        # the key since kernels of equally many constants may have different numbers of bindings.
        variable = module.once((storage, count, binding if is_spilled else 0), declare)
        pointer = module.pointer(storage, module.int(32))
        # The block has one member, number 0: the array of words.
        pointer_to_word = emitter.code.let("AccessChain", pointer, variable, module.integer(0), module.integer(index))
        return emitter.code.let("Load", module.int(32), pointer_to_word)

    def executable_word(self, emitter: FunctionEmitter, index: int) -> Id:
        """Return the 32-bit executable constant `index`: a specialization constant with this SpecId."""
        module = emitter.m

        def declare() -> Id:
            """Declare the specialization constant with the SpecId `index`: 0 unless the pipeline sets it."""
            type_, result = module.int(32), module.id()
            module.globals += encode("SpecConstant", type_, result, 0)
            module.decorate(result, "SpecId", index)
            module.name(result, emitter.constant_keys[index])
            return result

        return module.once(("specialized", index), declare)

    def joined(self, emitter: FunctionEmitter, type_: Attribute, low: Id, high: Id) -> Id:
        """Emit the register of a 64-bit type from its low and its high word."""
        pair = emitter.code.let("CompositeConstruct", emitter.m.type("TypeVector", emitter.m.int(32), 2), low, high)
        return emitter.code.let("Bitcast", emitter.type(type_), pair)


ROWS: dict[str, Lowering] = _Constants().rows()
"""Name of an operation → function that emits SPIR-V for it."""
