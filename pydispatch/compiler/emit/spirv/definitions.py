"""Expansion of float operations that SPIR-V lacks, or on types other than f32 and f64, by their definitions."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.registers import definition_of
from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.templates import Template
from pydispatch.compiler.kernel_ir.readers import symbol

_templates: dict[tuple[FuncOp, int], Template] = {}
"""(definition, bits of an index) -> its words, which are the same in every module but for ids, and so are cached."""


def expand(emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
    """Emit an operation by its definition, a function of kernel IR whose words are copied in place of the operation.

    exponent: the exponent of an integer power if it is known while compiling, else None.
    """
    expansion = definition_of(emitter, op, exponent)
    template = _templates.get((expansion.function, emitter.index_width))
    if template is None:
        tables = {symbol(table, "sym_name"): table for table in expansion.globals}
        template = Template(expansion.function, tables, emitter.module.table, emitter.index_width)
        _templates[expansion.function, emitter.index_width] = template
    result_ids = template.copy(emitter, [emitter.get(operand) for operand in op.operands])
    emitter.values.update(zip(op.results, result_ids, strict=True))
