"""Checks of calls of external functions, for every shader language."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.values import MemRef
from pydispatch.compiler.kernel_ir.calls import import_fields, is_import, is_optional
from pydispatch.compiler.kernel_ir.guards import is_guarded
from pydispatch.compiler.kernel_ir.readers import symbol
from pydispatch.compiler.kernel_ir.types import packed


def callee_of(emitter: ShaderFunction[Any], op: Operation) -> FuncOp:
    """Return the function that a call names.

    Raises:
        CompileError: The module does not declare it.
    """
    name = symbol(op, "callee")
    callee = emitter.definitions.functions.get(name)
    if callee is None:
        raise emitter.error(f"call of an unknown function '{name}'")
    return callee


def check_call(emitter: ShaderFunction[Any], op: Operation, callee: FuncOp, name: str, language: str) -> None:
    """Raise CompileError for a call that shaders cannot make.

    Args:
        emitter: The emitter of the calling function.
        op: The call.
        callee: The declaration of the function that is called.
        name: Symbol of the function, for messages.
        language: Name of the shader language, for messages.
    """
    outputs = callee.function_type.outputs.data
    operand_types = [operand.type for operand in op.operands]
    if operand_types != list(callee.function_type.inputs.data):
        raise emitter.error(
            f"call of '{name}' with ({', '.join(map(str, operand_types))}), declared is {callee.function_type}"
        )
    if len(outputs) > 1 or any(isinstance(type_, MemRefType) for type_ in outputs):
        raise emitter.error(
            f"function '{name}' returns {', '.join(map(str, outputs))}: in {language} it returns at most one scalar",
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


def check_buffer(emitter: ShaderFunction[Any], name: str, memref: MemRef) -> None:
    """Raise CompileError for a memref that functions of shaders cannot take.

    They take bindings whose elements are whole bytes. name: symbol of the function, for messages.
    """
    if memref.root.kind != "binding":
        raise emitter.error(
            f"the memref that '{name}' is called with lies in {memref.root.kind} memory; functions of this target take "
            "buffers",
            "let the function declare workgroup memory of its own, or pass scalars",
        )
    if packed(memref.element):
        raise emitter.error(f"'{name}' is called with a buffer of {memref.element}, whose elements share bytes")
