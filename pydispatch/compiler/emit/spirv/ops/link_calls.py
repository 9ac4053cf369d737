"""Calls of external functions in SPIR-V: declarations with a Linkage decoration, which linking resolves.

What is passed: a scalar as its register (an index and narrow integers as 32 bits, floats of 16 bits and less as their
bits), a buffer as its variable and the offset of its first element in elements, 32 bits. Every invocation of the
workgroup makes the call, with the same values outside parallel loops.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.calls import check_buffer, check_call
from pydispatch.compiler.emit.shaders.memory import element_index
from pydispatch.compiler.emit.shaders.values import MemRef
from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.memory import buffer_variable
from pydispatch.compiler.emit.spirv.ops.registers import REGISTERS
from pydispatch.compiler.emit.spirv.types import unit_of
from pydispatch.compiler.emit.spirv.words import NO_CONTROL, encode
from pydispatch.compiler.kernel_ir.calls import is_import, is_optional
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.formats.spirv.instruction import text_words
from pydispatch.formats.spirv.names import Decoration

IMPORT = 1
"""Linkage type of symbols that another module defines."""


def linked_call(emitter: FunctionEmitter, op: Operation, callee: FuncOp, name: str) -> None:
    """Lower a call of an external function to OpFunctionCall of a declaration that linking resolves.

    Args:
        emitter: Emitter of the calling function.
        op: The call.
        callee: Its declaration in the program.
        name: Symbol of the function; a leading "?" marks an optional import.

    Raises:
        CompileError: This target does not support the call.
    """
    name = name.removeprefix("?")
    outputs = callee.function_type.outputs.data
    check_call(emitter, op, callee, name, "SPIR-V")
    types: list[Id] = []
    arguments: list[Id] = []
    for operand in op.operands:  # a scalar is one argument, a memref two: its variable, and the offset in it
        value = emitter.values[operand]
        if isinstance(value, MemRef):
            passed = _buffer(emitter, name, value)
        else:
            passed = [(_type(emitter, operand.type), _scalar(emitter, operand))]
        types += [type_ for type_, _ in passed]
        arguments += [argument for _, argument in passed]
    result = _type(emitter, outputs[0]) if outputs else emitter.m.void()
    declared = _declare(emitter, name, result, tuple(types))
    emitter.iterations.mark_unknown()  # the function may have loops
    call = emitter.code.let("FunctionCall", result, declared, *arguments)
    if outputs:
        emitter.define(op.results[0], _returned(emitter, call, outputs[0]))


def available(emitter: FunctionEmitter, callee: FuncOp, name: str) -> Id:
    """Return a truth value that says whether linking finds an external function.

    For an optional import, the truth value is the result of a function `?name` that the linker defines. All other
    external functions are found, or linking fails.

    Args:
        emitter: Emitter of the function that contains the query.
        callee: The declaration of the external function.
        name: Its symbol; a leading "?" marks an optional import.
    """
    name = name.removeprefix("?")
    if not is_import(callee) or not is_optional(callee):
        return emitter.m.truth(value=True)

    def call_query() -> Id:
        """Emit the call of `?name`, which the linker defines: it returns whether the function `name` was found."""
        query = _declare(emitter, f"?{name}", emitter.m.bool(), types=())
        return emitter.code.let("FunctionCall", emitter.m.bool(), query)

    return emitter.at_entry(("available", name), call_query)


def _type(emitter: FunctionEmitter, type_: Attribute) -> Id:
    """Return the SPIR-V type that a scalar is passed as: that of its register, but 32 bits for every index.

    External functions have a fixed prototype, while indices have 32 or 64 bits, depending on the kernel.
    """
    return emitter.m.int(32) if isinstance(type_, IndexType) else emitter.type(type_)


def _scalar(emitter: FunctionEmitter, operand: SSAValue) -> Id:
    """Return the value that a scalar is passed as: its register, truncated to 32 bits for an index."""
    value = emitter.get(operand)
    if isinstance(operand.type, IndexType):
        return REGISTERS.resized(emitter, value, from_width=emitter.index_width, to_width=32)
    return value


def _buffer(emitter: FunctionEmitter, name: str, memref: MemRef) -> list[tuple[Id, Id]]:
    """Return the two arguments that a buffer is passed as, each as (id of its type, id).

    They are the variable of its binding, and the 32-bit offset of its first element, in elements. name: symbol of the
    function that is called, for messages.
    """
    check_buffer(emitter, name, memref)
    unit = unit_of(memref.element)
    variable = buffer_variable(emitter, memref.root, unit)
    block = emitter.m.block(("buffer", unit), emitter.m.runtime_array(unit.type(emitter.m), unit.bits // 8))
    offset = emitter.index_value(element_index(emitter, memref, [0] * len(memref.strides)))
    if emitter.index_width == 64:
        offset = emitter.code.let("UConvert", emitter.m.int(32), offset)
    return [(emitter.m.pointer("StorageBuffer", block), variable), (emitter.m.int(32), offset)]


def _declare(emitter: FunctionEmitter, name: str, result: Id, types: tuple[Id, ...]) -> Id:
    """Declare an imported function, once for the module, and return its id.

    Args:
        emitter: Emitter of the calling function.
        name: Symbol that linking resolves.
        result: Type of the result; void for none.
        types: Types of the parameters.
    """
    module = emitter.m

    def declare() -> Id:
        """Declare the function `name` of parameters `types` with an import linkage, and return its id."""
        declared = module.id()
        type_ = module.type("TypeFunction", result, *types)
        words = encode("Function", result, declared, NO_CONTROL, type_)
        for parameter in types:
            words += encode("FunctionParameter", parameter, module.id())
        words += encode("FunctionEnd")
        module.functions[:0] = words  # declarations come before definitions
        module.decorations += encode("Decorate", declared, Decoration.LINKAGE, *text_words(name), IMPORT)
        module.capability("Linkage")
        return declared

    return module.once(("import", name, result, types), declare)


def _returned(emitter: FunctionEmitter, result: Id, type_: Attribute) -> Id:
    """Return `result`, the id of a call whose result has the type `type_`, in the register of that type.

    An index, whose registers may have 64 bits, and types narrower than 32 bits are sign-extended.
    """
    if isinstance(type_, IndexType):
        return REGISTERS.resized(emitter, result, from_width=32, to_width=emitter.index_width)
    width, bits = emitter.width(type_), bit_width(type_)
    # The others return what their registers hold: bools (1-bit registers), types of 32 and 64 bits.
    is_narrow = width == 32 and bits < 32  # integers, and floats of up to 16 bits, whose registers hold their bits
    return REGISTERS.sign_extended(emitter, result, bits=bits, width=width) if is_narrow else result
