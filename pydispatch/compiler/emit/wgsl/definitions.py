"""Expansion of operations that WGSL lacks or computes inexactly: each kind becomes one function of the module."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.definitions import Definitions
from pydispatch.compiler.emit.shaders.registers import definition_of
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter
from pydispatch.compiler.emit.wgsl.module import Module
from pydispatch.compiler.emit.wgsl.words import Name
from pydispatch.compiler.kernel_ir.readers import flags, op_name, symbol
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel


@dataclass(frozen=True)
class EmittedDefinition:
    """WGSL function of a definition: it computes an operation that WGSL lacks, such as exp, by other operations.

    Attributes:
        name: Name of the function.
        module: The function, and all functions and declarations that it uses.
        fields: If it has several results, the fields of the structure that it returns; else ().
        iterations: Upper bound of the loop iterations of one call; None if unknown.
    """

    name: str
    module: Module
    fields: tuple[str, ...]
    iterations: int | None


_Key = tuple[FuncOp, int, bool]
"""Key of an emitted function: (definition, bits of an index, whether WGSL's f16 is used). Its text depends on these."""
_cache: dict[_Key, EmittedDefinition] = {}
"""Functions that were emitted for any module, which are the same in all."""


def expand(emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
    """Emit a call of the function that computes an operation by its definition, and add the function to the module.

    A definition is a function of kernel IR that computes an operation, such as `exp`, by operations that WGSL has.
    `%y = math.exp %x : f32` becomes `let v2 = pyd_exp_f32(v1);`, and the module gets `fn pyd_exp_f32(a0: f32) -> f32`.

    exponent: the exponent of an integer power if it is known while compiling, else None.
    """
    # The function is written once for each form that the target needs, and cached for the process.
    expansion = definition_of(emitter, op, exponent)
    key = expansion.function, emitter.index_width, emitter.has_f16
    definition = _cache.get(key)
    if definition is None:
        tables = {symbol(table, "sym_name"): table for table in expansion.globals}
        name = _name(emitter, op, exponent)
        definition = _cache[key] = _write(emitter, op, expansion.function, tables, name)
    emitter.module.include(definition.module)
    emitter.iterations.add(definition.iterations)  # an invocation also runs the loops in the definition
    # The call returns the result, or a structure with a field for each of several results.
    returned = emitter.let(f"{definition.name}({', '.join(emitter.get(operand) for operand in op.operands)})")
    if not definition.fields:
        emitter.define(op.results[0], returned)
        return
    for result, field in zip(op.results, definition.fields, strict=True):
        emitter.define(result, Name(f"{returned}.{field}"))


def _emitter_of_definition(
    outer: FunctionEmitter, function: FuncOp, tables: dict[str, Operation], module: Module
) -> FunctionEmitter:
    """Return an emitter that adds the definition `function` to `module`, with the types that `outer` uses.

    Args:
        outer: Emitter of a function that uses the definition; it states the width of indices and whether f16 is native.
        function: Function of kernel IR.
        tables: Symbol → `memref.global` of the constant tables that `function` reads.
        module: WGSL module that gets the function.
    """
    definitions = Definitions(ModuleOp([]))  # a definition calls no functions, but it may read constant tables
    definitions.memref_globals = tables
    inner = FunctionEmitter(module, definitions, outer.table, Kernel(function, (1, 1, 1), ops_by_name(function)))
    inner.is_definition, inner.has_f16 = True, outer.has_f16
    inner.index_width, inner.index_type = outer.index_width, outer.index_type
    return inner


def _write(
    outer: FunctionEmitter, op: Operation, function: FuncOp, tables: dict[str, Operation], name: str
) -> EmittedDefinition:
    """Write the WGSL function that computes an operation by its definition, in a module that has nothing else.

    Several results are returned as a structure `NAME_results` with fields r0, r1, ...: the text for an operation with
    two results is

        struct NAME_results { r0: i32, r1: i32 }
        fn NAME(a0: i32, a1: i32) -> NAME_results {
          ...
          return NAME_results(v7, v8);
        }

    Args:
        outer: Emitter of the function that contains the operation.
        op: The operation.
        function: The definition: a function of kernel IR with parameters for the operands.
        tables: Constant tables that the definition reads, by symbol.
        name: Name of the function to write.

    Returns:
        The function, with the module of it and all that it uses, which `expand` merges into the module of each caller.
    """
    # The body of the function, whose parameters are a0, a1, ...
    module = Module()
    inner = _emitter_of_definition(outer, function, tables, module)
    arguments = list(function.body.blocks[0].args)
    for position, argument in enumerate(arguments):
        inner.define(argument, Name(f"a{position}"))
    results = [inner.get(operand) for operand in inner.region(function.body).operands]
    # The text of the function, and of the structure of its results.
    types = [inner.type(typed.type) for typed in op.results]
    fields = tuple(f"r{position}" for position in range(len(results))) if len(results) > 1 else ()
    result_type, value = types[0], results[0]
    if fields:
        result_type = f"{name}_results"
        value = Name(f"{result_type}({', '.join(results)})")
        members = ", ".join(f"{field}: {type_}" for field, type_ in zip(fields, types, strict=True))
        module.declare(result_type, lambda: f"struct {result_type} {{ {members} }}")
    parameters = ", ".join(f"a{position}: {inner.type(typed.type)}" for position, typed in enumerate(arguments))
    head = f"fn {name}({parameters}) -> {result_type} {{"
    module.functions[name] = "\n".join([head, *inner.entry, *inner.lines, f"  return {value};", "}"])
    return EmittedDefinition(name, module, fields, iterations=inner.iterations.total)


def _name(emitter: FunctionEmitter, op: Operation, exponent: int | None) -> str:
    """Return the name of a definition's function, such as "pyd_exp_f32" or, with flags, "pyd_exp_f32_ninf_nnan".

    It states everything on which the definition depends. So no counter is needed to tell functions apart, and the WGSL
    of a program does not depend on what the process compiled before. `exponent` is that of an integer power, if it is
    known, else None.
    """
    types = [str(value.type) for value in (*op.operands, *op.results)]
    # One type stands for all if all are equal: pyd_exp_f32, but pyd_truncf_f32_bf16.
    parts = [op_name(op).split(".")[-1], *(types if len(set(types)) > 1 else types[:1])]
    parts += flags(op, "fastmath").split()
    parts += [f"{name}_{value}" for name, value in sorted(op.properties.items()) if name != "fastmath"]
    if exponent is not None:
        parts.append(f"{exponent}")
    if emitter.index_width != 32:
        parts.append(f"index{emitter.index_width}")
    if emitter.has_f16:
        parts.append("has_f16")
    return re.sub(r"\W", "_", "pyd_" + "_".join(parts))
