"""Calls of external functions, which linking defines: lines of comments declare them. Helpers of the program are
inlined before.

What is passed: a scalar as its register, a buffer as the offset of its first element in elements, a u32; the variable
of the buffer stands in the declaration. Every invocation of the workgroup makes the call.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.cpu.imports import is_optional
from pydispatch.compiler.emit.shaders.values import MemRef
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.elements import element_place, variable
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned, is_free
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, import_fields, import_symbol, is_declaration, is_import
from pydispatch.compiler.kernel_ir.guards import is_guarded
from pydispatch.compiler.kernel_ir.readers import symbol
from pydispatch.compiler.kernel_ir.types import packed
from pydispatch.link.wgsl.link import Import, available_line, import_line


def _call(emitter: FunctionEmitter, op: Operation) -> None:
    callee = _callee(emitter, op)
    name = import_symbol(callee).removeprefix("?")
    outputs = callee.function_type.outputs.data
    operand_types = [operand.type for operand in op.operands]
    if operand_types != list(callee.function_type.inputs.data):
        raise emitter.error(
            f"call of '{name}' with ({', '.join(map(str, operand_types))}), declared is {callee.function_type}"
        )
    if len(outputs) > 1 or any(isinstance(type_, MemRefType) for type_ in outputs):
        raise emitter.error(
            f"function '{name}' returns {', '.join(map(str, outputs))}: in WGSL it returns at most one scalar",
            "pass a memref<...> for it to write its results into",
        )
    if import_fields(callee):
        raise emitter.error(
            f"'{name}' asks for {', '.join(import_fields(callee))} (hal.import.fields), which only CPUs have",
            "declare it without for this target",
        )
    if is_import(callee) and is_optional(callee) and not is_guarded(op, callee):
        raise emitter.error(
            f"a call of the optional import '{name}' that nothing guards: kernels of this target cannot stop",
            f"put it into scf.if after pyd.import.available @{callee.sym_name.data}, or give it a hal.import.fallback",
        )
    types: list[str] = []
    arguments: list[str] = []
    buffers: list[tuple[str, bool]] = []
    for operand in op.operands:
        value = emitter.values[operand]
        if isinstance(value, MemRef):
            buffers.append(_buffer(emitter, name, value))
            offset = emitter.idx(element_place(emitter, value, [0] * len(value.strides)))
            types.append("u32")
            arguments.append(f"{offset}.x" if emitter.index_width == 64 else as_unsigned(offset))
        else:
            types.append("i32" if emitter.is_f16(operand.type) else emitter.type(operand.type))
            arguments.append(str(emitter.to_bits(emitter.get(operand), operand.type)))
    result = "" if not outputs else "i32" if emitter.is_f16(outputs[0]) else emitter.type(outputs[0])
    function_name = _declared(emitter, name, tuple(types), result, tuple(buffers))
    emitter.iterations.unknown()
    call = f"{function_name}({', '.join(arguments)})"
    if outputs:
        emitter.define(op.results[0], emitter.from_bits(emitter.let(call), outputs[0]))
    else:
        emitter.do(f"{call};")


def _available(emitter: FunctionEmitter, op: Operation) -> None:
    """Linking decides."""
    callee = _callee(emitter, op)
    if not is_declaration(callee) or not is_import(callee) or not is_optional(callee):
        emitter.define(op.results[0], emitter.number(1, 1))
        return
    name = import_symbol(callee).removeprefix("?")
    flag = f"available_{name}" if is_free(f"available_{name}") else emitter.module.unused("available_")
    emitter.define(op.results[0], Name(emitter.module.declare(flag, lambda: available_line(name, flag))))


def _callee(emitter: FunctionEmitter, op: Operation) -> FuncOp:
    name = symbol(op, "callee")
    callee = emitter.definitions.functions.get(name)
    if callee is None:
        raise emitter.error(f"call of an unknown function '{name}'")
    return callee


def _buffer(emitter: FunctionEmitter, name: str, memref: MemRef) -> tuple[str, bool]:
    """Return the variable of a buffer, and whether the function may write it."""
    if memref.root.kind != "binding":
        raise emitter.error(
            f"the memref that '{name}' is called with lies in {memref.root.kind} memory; functions of this target take "
            "buffers",
            "let the function declare workgroup memory of its own, or pass scalars",
        )
    if packed(memref.element):
        raise emitter.error(f"'{name}' is called with a buffer of {memref.element}, whose elements share bytes")
    binding = memref.root.binding
    assert emitter.layout is not None
    return variable(emitter, binding)[0], not emitter.layout.bindings[binding].read_only


def _declared(
    emitter: FunctionEmitter, symbol: str, types: tuple[str, ...], result: str, buffers: tuple[tuple[str, bool], ...]
) -> str:
    """Declare an import, once for each signature and set of buffers, and return its name."""
    key = (symbol, types, result, buffers)
    name_ = emitter.module.imports.get(key)
    if name_ is None:
        stem = symbol if is_free(f"import_{symbol}") else "function"
        name_ = emitter.module.imports[key] = f"import{len(emitter.module.imports)}_{stem}"
        import_ = Import(symbol, name_, types, result, buffers)
        emitter.module.declare(name_, lambda: import_line(import_))
    return name_


ROWS: dict[str, Lowering] = {"func.call": _call, "util.call": _call, AVAILABLE: _available}
