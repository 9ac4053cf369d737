"""Calls of external functions, which linking defines: lines of comments declare them. Helpers of the program are
inlined before.

What is passed: a scalar as its register (an index and the bits of an f16 as i32), a buffer as the offset of its first
element in elements, a u32; the variable of the buffer stands in the declaration. Every invocation of the workgroup
makes the call.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.calls import callee_of, check_buffer, check_call
from pydispatch.compiler.emit.shaders.memory import element_index
from pydispatch.compiler.emit.shaders.values import MemRef
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.memory import binding_variable
from pydispatch.compiler.emit.wgsl.ops.registers import REGISTERS
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned, is_free
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, bare_symbol, is_declaration, is_import, is_optional
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.link.wgsl.link import Import, available_line, import_line


def _call(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a call of an external function, which linking adds to the module.

    `%r = func.call @scale(%m, %x) : (memref<8xf32>, i32) -> f32`, where %m is binding 0, becomes a declaration, which
    is a comment, and a call. A memref is passed as the offset of its first element; its variable is in the declaration:

        // import scale as import0_scale(u32, i32) -> f32: binding0_f write
        let v2 = import0_scale(0u, v1);
    """
    callee = callee_of(emitter, op)
    name = bare_symbol(callee)
    outputs = callee.function_type.outputs.data
    check_call(emitter, op, callee, name, "WGSL")
    buffers: list[tuple[str, bool]] = []  # (variable, whether the function may write it) of each buffer
    passed: list[tuple[str, str]] = []  # (type, expression) of each argument
    for operand in op.operands:
        value = emitter.values[operand]
        if isinstance(value, MemRef):
            buffers.append(_buffer(emitter, name, value))
        passed.append(_passed(emitter, operand))
    result = _type(emitter, outputs[0]) if outputs else ""
    function_name = _import_name(emitter, name, tuple(type_ for type_, _ in passed), result, tuple(buffers))
    emitter.iterations.mark_unknown()  # the function may have loops
    call = f"{function_name}({', '.join(argument for _, argument in passed)})"
    if not outputs:
        emitter.do(f"{call};")
        return
    emitter.define(op.results[0], _register_of_result(emitter, emitter.let(call), outputs[0]))


def _register_of_result(emitter: FunctionEmitter, returned: Name, type_: Attribute) -> Name:
    """Return the register of a scalar that an external function has returned."""
    if isinstance(type_, IndexType):
        returned = REGISTERS.resized(emitter, returned, from_width=32, to_width=emitter.index_width)
    elif _type(emitter, type_) == "i32":  # a function may return anything in the bits above those of a narrower type
        returned = REGISTERS.sign_extended(emitter, returned, bits=bit_width(type_), width=32)
    return emitter.from_bits(returned, type_)


def _type(emitter: FunctionEmitter, type_: Attribute) -> str:
    """Return the WGSL type that a scalar is passed or returned as: that of its register, but i32 for index and f16.

    An external function is the same for kernels with 32-bit and 64-bit indices, and with and without WGSL's f16.
    """
    return "i32" if isinstance(type_, IndexType) or emitter.is_f16(type_) else emitter.type(type_)


def _passed(emitter: FunctionEmitter, operand: SSAValue) -> tuple[str, str]:
    """Return the WGSL type and the expression by which an operand is passed to an external function.

    A buffer is passed as the u32 offset of its first element, in elements; its variable is named in the declaration of
    the function. Of a 64-bit offset the low word is passed: no buffer has 2^32 elements.
    """
    value = emitter.values[operand]
    if isinstance(value, MemRef):
        offset = emitter.index_value(element_index(emitter, value, [0] * len(value.strides)))
        return "u32", f"{offset}.x" if emitter.index_width == 64 else as_unsigned(offset)
    scalar = emitter.get(operand)
    if isinstance(operand.type, IndexType):
        scalar = REGISTERS.resized(emitter, scalar, from_width=emitter.index_width, to_width=32)
    return _type(emitter, operand.type), str(emitter.to_bits(scalar, operand.type))


def _available(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower the query whether an external function is linked. It is true unless the function is an optional import."""
    callee = callee_of(emitter, op)
    may_be_missing = is_declaration(callee) and is_import(callee) and is_optional(callee)
    if not may_be_missing:
        emitter.define(op.results[0], emitter.number(value=1, width=1))
        return
    name = bare_symbol(callee)
    # The constant that linking declares is named after the import, unless WGSL does not allow that name.
    flag = f"available_{name}" if is_free(f"available_{name}") else emitter.module.unused("available_")
    emitter.define(op.results[0], Name(emitter.module.declare(flag, lambda: available_line(name, flag))))


def _buffer(emitter: FunctionEmitter, name: str, memref: MemRef) -> tuple[str, bool]:
    """Return (variable, whether the function may write it) of a buffer that is passed to an external function.

    name: symbol of the function, for messages.
    """
    check_buffer(emitter, name, memref)
    binding = memref.root.binding
    assert emitter.layout is not None
    return binding_variable(emitter, binding)[0], not emitter.layout.bindings[binding].read_only


def _import_name(
    emitter: FunctionEmitter, symbol: str, types: tuple[str, ...], result: str, buffers: tuple[tuple[str, bool], ...]
) -> str:
    """Return the name of an external function in WGSL, which is declared once for each signature and set of buffers.

    Args:
        emitter: Emitter of the calling function.
        symbol: Symbol that linking resolves.
        types: WGSL types of the parameters.
        result: WGSL type of the result; "" for none.
        buffers: (variable, whether the function may write it) of each buffer that is passed, in order.
    """
    key = (symbol, types, result, buffers)
    declared_name = emitter.module.imports.get(key)
    if declared_name is None:
        stem = symbol if is_free(f"import_{symbol}") else "function"  # symbols may have characters that WGSL lacks
        declared_name = emitter.module.imports[key] = f"import{len(emitter.module.imports)}_{stem}"
        import_ = Import(symbol, declared_name, types, result, buffers)
        emitter.module.declare(declared_name, lambda: import_line(import_))
    return declared_name


ROWS: dict[str, Lowering] = {"func.call": _call, "util.call": _call, AVAILABLE: _available}
"""Name of an operation → function that emits WGSL for it."""
