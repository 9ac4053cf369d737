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
"""The function of the host that a kernel calls with three arguments: the index of the line in `CallContext.prints`, the
index of a number among the numbers of that line, and the number in 64 bits: an integer, or the bits of an f64."""
_DECLARATION = f'func.func private @import.{SYMBOL}(i32, i32, i64) -> i32 attributes {{hal.import.name = "{SYMBOL}"}}'
"""MLIR declaration of the host's function `SYMBOL`, for modules with kernels that print."""


@dataclass(frozen=True)
class PrintedLine:
    """Line that a call of `print` prints.

    Attributes:
        parts: The printed arguments in order: the text of a known one, and the type of any other, such as "i32".
        numbers: Indices in `parts` of the arguments that are known at run time only.
    """

    parts: tuple[str, ...]
    numbers: tuple[int, ...]


def _print(context: CallContext, node: ast.Call, arguments: list[Entity]) -> Entity:
    """Emit the calls of the host's function for one `print`, one for each number. Raise CompileError in a kernel
    without checks.

    Texts and numbers that are known while compiling become a part of the line in `context.prints`; other numbers are
    arguments of `SYMBOL`. `print("sum", total, 3)` with an f32 `total`, the first print of a kernel, adds the line
    PrintedLine(("sum", "f32", "3"), (1,)). It emits one call, `pydispatch_print(0, 0, bits)`: line 0, number 0 of the
    line, and the bits of `total` as f64. A line of texts alone is printed by one call with the number 0, which is
    ignored.
    """
    if not context.checks:
        raise context.error(
            node,
            "print is not a part of kernels",
            "store the value into a view; kernel.checked() and kernel.python(...) print",
        )
    if node.keywords:
        raise context.error(node.keywords[0].value, f"print has no '{node.keywords[0].arg}' in kernels", "leave it out")

    # The parts of the line, where a type stands for a number of the run; `numbers` has the positions of these.
    parts, numbers, values = [], [], []
    for position, (argument, entity) in enumerate(zip(node.args, arguments, strict=True)):
        if isinstance(entity, Known) and isinstance(entity.value, str):
            parts.append(entity.value)
            continue
        value = context.as_number(argument, entity)
        if isinstance(value, Literal):
            parts.append(str(value.value))
            continue
        parts.append(value.type)
        numbers.append(position)
        if is_float(value.type):
            wide = cast(context.writer, value, "f64")
            values.append(context.writer.value(f"arith.bitcast {wide.name} : f64 to i64", "i64"))
        else:  # integers and conditions are extended
            values.append(cast(context.writer, value, "i64"))

    # The calls, which state the line, the position of the number in it, and the number.
    line_index = context.writer.constant(len(context.prints), "i32")
    context.prints.append(PrintedLine(tuple(parts), tuple(numbers)))
    context.imports[SYMBOL] = _DECLARATION
    if not values:  # a line of texts alone
        values.append(context.writer.constant(0, "i64"))
    for position, value in enumerate(values):
        number_index = context.writer.constant(position, "i32")
        operands = f"{line_index.name}, {number_index.name}, {value.name}"
        context.writer.value(f"func.call @import.{SYMBOL}({operands}) : (i32, i32, i64) -> i32", "i32")
    context.writer.has_effects = True
    return Known(None)


TABLE: dict[Any, Handler] = {builtins.print: _print}
"""Function → handler that emits a call of it."""
