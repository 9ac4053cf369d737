"""Calls: helpers of the program are inlined; external functions come from SPIR-V modules."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, import_symbol, is_declaration, is_import
from pydispatch.compiler.kernel_ir.readers import symbol


def _call(f: FunctionEmitter, op: Operation) -> None:
    name = symbol(op, "callee")
    callee = f.module.functions.get(name)
    if callee is None:
        raise f.error(f"call of an unknown function '{name}'")
    if is_declaration(callee):
        external(f, op, callee)
        return
    if name in f.inlined:
        raise f.error(f"function '{name}' calls itself, which cannot be compiled into a kernel for this target")
    f.inlined.append(name)
    for argument, operand in zip(callee.body.blocks[0].args, op.operands, strict=True):
        f.define(argument, f.values[operand])

    def leave(end: Operation) -> None:
        for result, operand in zip(op.results, end.operands, strict=True):
            f.define(result, f.values[operand])

    f.region(callee.body, leave)
    f.op = op
    f.inlined.pop()


def external(f: FunctionEmitter, op: Operation, callee: FuncOp) -> None:
    """A function of a library, linked into the module."""
    from pydispatch.compiler.emit.spirv.ops.link_calls import linked_call

    linked_call(f, op, callee, import_symbol(callee), is_import(callee))


def _available(f: FunctionEmitter, op: Operation) -> None:
    """Linking decides."""
    name = symbol(op, "callee")
    callee = f.module.functions.get(name)
    if callee is None:
        raise f.error(f"'{AVAILABLE}' of an unknown function '{name}'")
    from pydispatch.compiler.emit.spirv.ops.link_calls import available

    f.define(
        op.results[0], f.m.truth(True) if not is_declaration(callee) else available(f, callee, import_symbol(callee))
    )


ROWS: dict[str, Lowering] = {"func.call": _call, "util.call": _call, AVAILABLE: _available}
