"""Operations on floats that SPIR-V lacks, or that are no f32 or f64: their definitions are written in their place."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.templates import Template
from pydispatch.compiler.kernel_ir.math.definitions import PLAIN, Native, definition
from pydispatch.compiler.kernel_ir.readers import op_name, symbol
from pydispatch.compiler.kernel_ir.types import is_float, is_integer

NATIVE = Native()


_templates: dict[tuple[FuncOp, int], Template] = {}


def expand(f: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
    """Writes the definition of an operation. exponent: of a power, where it is known."""
    if not any(is_float(each.type) or is_integer(each.type) for each in (op.operands[0], op.results[0])):
        raise f.error(f"operation '{op_name(op)}' on {op.operands[0].type} cannot be compiled into a kernel")
    found = definition(op, NATIVE, exponent)
    for table in found.globals:
        f.module.memref_globals.setdefault(symbol(table, "sym_name"), table)
    key = found.function, f.index_width
    template = _templates.get(key)
    if template is None:
        template = _templates[key] = Template(found.function, f)
    operands = [f.get(operand) for operand in op.operands]
    if not template.has_loops:
        f.values.update(zip(op.results, template.copy(f, operands), strict=True))
        return
    f.values.update(zip(found.function.body.blocks[0].args, operands, strict=True))

    def leave(end: Operation) -> None:
        for result, operand in zip(op.results, end.operands, strict=True):
            f.values[result] = f.values[operand]

    f.region(found.function.body, leave)
    f.op = op


def natively(row: Lowering) -> Lowering:
    """`row` for f32 and f64, the definition for other floats."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        (row if type(op.operands[0].type) in PLAIN else expand)(f, op)

    return lower
