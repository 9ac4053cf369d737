"""Operations that WGSL lacks, or not exactly enough: each kind becomes a function of the module, written once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.function import Definitions
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.module import Module
from pydispatch.compiler.emit.wgsl.words import Name
from pydispatch.compiler.kernel_ir.math.definitions import PLAIN, Native, definition
from pydispatch.compiler.kernel_ir.readers import flags, op_name, symbol
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel
from pydispatch.compiler.kernel_ir.types import is_float, is_integer

NATIVE = Native()


@dataclass(frozen=True)
class Written:
    """A definition as a function. module: it, and what it uses; fields: of its results, where it has several."""

    name: str
    module: Module
    fields: tuple[str, ...]
    iterations: int | None


_Key = tuple[FuncOp, int, bool]
_written: dict[_Key, Written] = {}
_names: dict[str, _Key] = {}


def expand(emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
    """Emit a call of an operation's definition. exponent: of a power, when it is constant."""
    if not any(is_float(each.type) or is_integer(each.type) for each in (op.operands[0], op.results[0])):
        raise emitter.error(f"operation '{op_name(op)}' on {op.operands[0].type} cannot be compiled into a kernel")
    found = definition(op, NATIVE, exponent)
    key = found.function, emitter.index_width, emitter.has_f16
    written = _written.get(key)
    if written is None:
        tables = {symbol(table, "sym_name"): table for table in found.globals}
        stem = _stem(op, exponent)
        written = _written[key] = _write(emitter, op, found.function, tables, stem)
    emitter.module.include(written.module)
    emitter.iterations.add(written.iterations)
    made = emitter.let(f"{written.name}({', '.join(emitter.get(operand) for operand in op.operands)})")
    if not written.fields:
        emitter.define(op.results[0], made)
    for result, field in zip(op.results, written.fields, strict=False):
        emitter.define(result, Name(f"{made}.{field}"))


def _write(outer: FunctionEmitter, op: Operation, function: FuncOp, tables: dict[str, Operation], stem: str) -> Written:
    definitions = Definitions(ModuleOp([]))
    definitions.memref_globals = tables
    module = Module()
    f = FunctionEmitter(module, definitions, outer.table, Kernel(function, (1, 1, 1), ops_by_name(function)))
    f.is_definition, f.has_f16 = True, outer.has_f16
    f.index_width, f.index_type = outer.index_width, outer.index_type
    arguments = list(function.body.blocks[0].args)
    for number, argument in enumerate(arguments):
        f.define(argument, Name(f"a{number}"))
    results: list[Name] = []

    def leave(end: Operation) -> None:
        results.extend(f.get(operand) for operand in end.operands)

    f.region(function.body, leave)
    name = _name(stem, (function, f.index_width, f.has_f16))
    types = [f.type(each.type) for each in op.results]
    fields = tuple(f"r{number}" for number in range(len(results))) if len(results) > 1 else ()
    result = types[0]
    value = results[0]
    if fields:
        result = f"{name}_results"
        members = ", ".join(f"{field}: {type_}" for field, type_ in zip(fields, types, strict=True))
        module.declare(result, lambda: f"struct {result} {{ {members} }}")
        value = Name(f"{result}({', '.join(results)})")
    given = ", ".join(f"a{number}: {f.type(each.type)}" for number, each in enumerate(arguments))
    lines = [f"fn {name}({given}) -> {result} {{", *f.entry, *f.lines, f"  return {value};", "}"]
    module.functions[name] = "\n".join(lines)
    return Written(name, module, fields, f.iterations.total)


def _stem(op: Operation, exponent: int | None) -> str:
    """Return a name of the operation, its types and the other properties that its definition depends on."""
    types = [*(each.type for each in op.operands), *(each.type for each in op.results)]
    parts = [op_name(op).split(".")[-1], *dict.fromkeys(map(str, types)), *flags(op, "fastmath").split()]
    if exponent is not None:
        parts.append(f"{exponent}")
    return re.sub(r"\W", "_", "pyd_" + "_".join(parts))


def _name(stem: str, key: _Key) -> str:
    """Reserve a unique name, and return it: the stem, with a number if another definition has that name."""
    name, number = stem, 1
    while _names.setdefault(name, key) != key:
        number += 1
        name = f"{stem}_{number}"
    return name


def natively(row: Lowering) -> Lowering:
    """`row` for f32 and f64, the definition for other floats."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (row if type(op.operands[0].type) in PLAIN else expand)(emitter, op)

    return lower
