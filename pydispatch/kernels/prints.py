"""`print` in checked kernels: each number is passed to a function of the host, which prints the line."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from typing import Any

from pydispatch.kernels.arithmetic import cast, is_float
from pydispatch.kernels.calls import CallContext, Handler
from pydispatch.kernels.entities import Entity, Known, Literal

SYMBOL = "pydispatch_print"
"""The function of the host, of three arguments: the position of the call in `CallContext.prints`, that of a number
among its numbers, and the number."""
_DECLARATION = f'func.func private @import.{SYMBOL}(i32, i32, f64) -> i32 attributes {{hal.import.name = "{SYMBOL}"}}'


@dataclass(frozen=True)
class PrintedLine:
    """Call of `print`.

    Attributes:
        parts: The printed parts in order: texts, and in place of each number its type.
        numbers: Positions of the numbers in `parts`.
    """

    parts: tuple[str, ...]
    numbers: tuple[int, ...]


def _print(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit the calls of the host's function for one `print`, one for each number. Raise CompileError in a kernel
    without checks.

    Texts and numbers that are known while compiling become a part of the line in `context.prints`; others are passed
    as f64. The first operand of each call is the position of that line, the second the position of the number among its
    numbers. A line without numbers is passed a 0, so that there is a call.
    """
    if not context.checks:
        raise context.error(
            node,
            "print is not a part of kernels",
            "store the value into a view; kernel.checked() and kernel.python(...) print",
        )
    if node.keywords:
        raise context.error(node.keywords[0].value, f"print has no '{node.keywords[0].arg}' in kernels", "leave it out")
    parts, numbers, values = [], [], []
    for position, (part, entity) in enumerate(zip(node.args, arguments, strict=True)):
        if isinstance(entity, Known) and isinstance(entity.value, str):
            parts.append(entity.value)
            continue
        value = context.as_number(part, entity)
        if isinstance(value, Literal):
            parts.append(str(value.value))
            continue
        parts.append(value.type)
        numbers.append(position)
        wide = value if is_float(value.type) else cast(context.writer, value, "i64" if value.type != "u64" else "u64")
        values.append(cast(context.writer, wide, "f64"))
    code = context.writer.constant(len(context.prints), "i32")
    context.prints.append(PrintedLine(tuple(parts), tuple(numbers)))
    context.imports[SYMBOL] = _DECLARATION
    for position, value in enumerate(values or [context.writer.constant(0.0, "f64")]):
        place = context.writer.constant(position, "i32")
        operands = f"{code.name}, {place.name}, {value.name}"
        context.writer.value(f"func.call @import.{SYMBOL}({operands}) : (i32, i32, f64) -> i32", "i32")
    context.writer.has_effects = True
    return Known(None)


TABLE: dict[Any, Handler] = {builtins.print: _print}
