"""Atomic updates of elements: the kinds of memref.atomic_rmw, and the operation by which each combines two values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.kernel_ir.types import bit_width, is_float

Table = Mapping[str, Callable[[Any, Operation], None]]
"""The lowerings of an emitter, by operation."""

KINDS = ("addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf", "muli", "ori",
         "andi", "maxnumf", "minnumf", "xori")  # fmt: skip
"""Kinds by their numbers."""
UNSIGNED = ("maxu", "minu")
_OPERATIONS: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "addf": arith.AddfOp, "addi": arith.AddiOp, "maximumf": arith.MaximumfOp, "maxs": arith.MaxSIOp,
    "maxu": arith.MaxUIOp, "minimumf": arith.MinimumfOp, "mins": arith.MinSIOp, "minu": arith.MinUIOp,
    "mulf": arith.MulfOp, "muli": arith.MuliOp, "ori": arith.OrIOp, "andi": arith.AndIOp, "maxnumf": arith.MaxnumfOp,
    "minnumf": arith.MinnumfOp, "xori": arith.XOrIOp,
}  # fmt: skip
_FLOATS = ("addf", "maximumf", "minimumf", "mulf", "maxnumf", "minnumf")


def why_not(kind: str, element: Attribute, most_bits: int = 64) -> str:
    """Return why there is no atomic operation of a kind on elements of a type, "" if there is one."""
    if kind != "assign" and (kind in _FLOATS) != is_float(element):
        return f"'{kind}' is for {'floats' if kind in _FLOATS else 'integers'}"
    if (bits := bit_width(element)) not in (8, 16, 32, 64) or bits > most_bits:
        sizes = [str(size // 8) for size in (8, 16, 32, 64) if size <= most_bits]
        return f"atomic operations here are on {' or '.join(sizes)} bytes; give each workgroup its own element"
    return ""


def combining(kind: str, element: Attribute) -> Operation | None:
    """Return the operation that combines the old value and the operand of an atomic update; None for an assignment.

    Its operands are the arguments of a detached block.
    """
    if kind == "assign":
        return None
    old, operand = Block(arg_types=[element, element]).args
    return _OPERATIONS[kind](old, operand)


def combined(f: Any, table: Table, kind: str, element: Attribute, old: Any, operand: Any) -> Any:
    """Emit the computation of the new value of an atomic update, and return its register.

    Args:
        f: The emitter of the function.
        table: Lowering of each operation.
        kind: Kind of the update.
        element: Type of the element.
        old, operand: Registers of the old value and of the operand.
    """
    op = combining(kind, element)
    if op is None:
        return operand
    f.define(op.operands[0], old)
    f.define(op.operands[1], operand)
    table[op.name](f, op)
    return f.get(op.results[0])
