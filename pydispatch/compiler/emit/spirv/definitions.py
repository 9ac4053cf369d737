"""Expansion of float operations that SPIR-V lacks, or on types other than f32 and f64, by their definitions."""

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


def expand(emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
    """Write the definition of an operation. exponent: of a power, where it is known."""
    if not any(is_float(value.type) or is_integer(value.type) for value in (op.operands[0], op.results[0])):
        raise emitter.error(f"operation '{op_name(op)}' on {op.operands[0].type} cannot be compiled into a kernel")
    expansion = definition(op, NATIVE, exponent)
    template = _templates.get((expansion.function, emitter.index_width))
    if template is None:
        tables = {symbol(table, "sym_name"): table for table in expansion.globals}
        template = Template(expansion.function, tables, emitter.module.table, emitter.index_width)
        _templates[expansion.function, emitter.index_width] = template
    results_ = template.copy(emitter, [emitter.get(operand) for operand in op.operands])
    emitter.values.update(zip(op.results, results_, strict=True))


def natively(row: Lowering) -> Lowering:
    """`row` for f32 and f64, the definition for other floats."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (row if type(op.operands[0].type) in PLAIN else expand)(emitter, op)

    return lower
