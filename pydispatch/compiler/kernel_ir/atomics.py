"""Atomic updates of elements, memref.atomic_rmw and pyd.compare_exchange: their kinds, and their new values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.compiler.kernel_ir.readers import integer
from pydispatch.compiler.kernel_ir.types import bit_width, is_float

UPDATES = ("memref.atomic_rmw", "pyd.compare_exchange")
"""Operations that update an element atomically. Their operands are the value, the memref and its indices; those of
pyd.compare_exchange end with the expected value."""

Table = Mapping[str, Callable[[Any, Operation], None]]
"""Lowerings of an emitter: name of an operation -> function of the emitter and the operation."""

KINDS = ("addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf", "muli", "ori",
         "andi", "maxnumf", "minnumf", "xori")  # fmt: skip
"""Kinds of `memref.atomic_rmw`; their indices are the values of its attribute `kind`."""
UNSIGNED = ("maxu", "minu")
"""Kinds that compare integers as unsigned."""
_OPERATIONS: dict[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "addf": arith.AddfOp, "addi": arith.AddiOp, "maximumf": arith.MaximumfOp, "maxs": arith.MaxSIOp,
    "maxu": arith.MaxUIOp, "minimumf": arith.MinimumfOp, "mins": arith.MinSIOp, "minu": arith.MinUIOp,
    "mulf": arith.MulfOp, "muli": arith.MuliOp, "ori": arith.OrIOp, "andi": arith.AndIOp, "maxnumf": arith.MaxnumfOp,
    "minnumf": arith.MinnumfOp, "xori": arith.XOrIOp,
}  # fmt: skip
"""Kind -> constructor of the operation that combines the old element with the value; "assign" combines nothing."""
_UNCHANGED_BY_ZERO = ("addi", "ori", "xori")
"""Kinds on integers that keep an element if the operand is 0."""
_FLOATS = ("addf", "maximumf", "minimumf", "mulf", "maxnumf", "minnumf")
"""Kinds on floats."""


def kind_of(op: Operation) -> str:
    """Return the kind of an update: one of `KINDS`, or "compare_exchange"."""
    return KINDS[integer(op, "kind")] if op.name == "memref.atomic_rmw" else "compare_exchange"


def indices_of(op: Operation) -> Sequence[SSAValue]:
    """Return the indices of the element that an operation updates."""
    # The last operand of a compare-exchange is the expected value.
    return op.operands[2:] if op.name == "memref.atomic_rmw" else op.operands[2:-1]


def only_reads(op: Operation) -> bool:
    """Return whether an update never changes its element: it adds 0, or combines bits with 0 by `or` or `xor`."""
    return kind_of(op) in _UNCHANGED_BY_ZERO and constant_or_value(op.operands[0]) == 0


def why_not(kind: str, element: Attribute, most_bits: int = 64) -> str:
    """Return why there is no atomic operation of a kind on elements of a type; "" if there is one.

    `most_bits` is the width of the largest element that the target updates atomically.
    """
    is_for_all_types = kind in ("assign", "compare_exchange")
    is_for_floats = kind in _FLOATS
    if not is_for_all_types and is_for_floats != is_float(element):
        return f"'{kind}' is for {'floats' if is_for_floats else 'integers'}"
    if (bits := bit_width(element)) not in (8, 16, 32, 64) or bits > most_bits:
        sizes = " or ".join(str(size // 8) for size in (8, 16, 32, 64) if size <= most_bits)
        return f"atomic operations here are on {sizes} bytes; use such a type, or give each workgroup its own element"
    return ""


def _combining(kind: str, element: Attribute) -> Operation | None:
    """Return the operation that combines the old element and the operand of an update; None for an assignment.

    The operation is in no function: `combined` only needs it to call the target's lowering. Its operands are arguments
    of a block made for it, old element first, to which the caller assigns registers.

    kind: name of the update, such as "addf", but not "compare_exchange". element: type of the element.
    """
    if kind == "assign":
        return None
    old, operand = Block(arg_types=[element, element]).args
    return _OPERATIONS[kind](old, operand)


def combined(emitter: Any, table: Table, update: Operation, element: Attribute, old: Any) -> Any:
    """Emit the computation of the new element of an atomic update, and return the register with it.

    Emitters call this between their load of the old element and their store of the new one. For
    `memref.atomic_rmw addf %x, %m[%i]`, emit the sum of `old` and the register of %x, as `arith.addf` is emitted.

    Args:
        emitter: The emitter of the function, of any target: it maps values to registers, which are of its own kind.
        table: Lowering of each operation.
        update: The update, an operation of `UPDATES`.
        element: Type of the element.
        old: Register of the old element.
    """
    kind, operand = kind_of(update), emitter.get(update.operands[0])
    if kind == "compare_exchange":
        return _chosen(emitter, table, update, element, old)
    # An operation in no block, such as `arith.addf`. Its operands get registers here, then its lowering emits it.
    op = _combining(kind, element)
    if op is None:  # an assignment, whose new element is the operand
        return operand
    emitter.define(op.operands[0], old)
    emitter.define(op.operands[1], operand)
    table[op.name](emitter, op)
    return emitter.get(op.results[0])


def _chosen(emitter: Any, table: Table, update: Operation, element: Attribute, old: Any) -> Any:
    """Emit the choice of a compare-exchange: the new element if the old one is as expected, else the old one.

    The operands of `update` are the new element, the memref and indices, and the expected element.

    Args:
        emitter: The emitter of the function, which maps values to registers.
        table: Lowering of each operation.
        update: The compare-exchange.
        element: Type of the element.
        old: Register of the old element.

    Returns:
        The register of the chosen element.
    """
    new, expected = update.operands[0], update.operands[-1]
    old_value = Block(arg_types=[element]).args[0]  # a value whose register is `old`
    emitter.define(old_value, old)
    is_expected = arith.CmpiOp(old_value, expected, "eq")
    choice = arith.SelectOp(is_expected.result, new, old_value)
    for op in (is_expected, choice):  # detached operations
        table[op.name](emitter, op)
    return emitter.get(choice.result)
