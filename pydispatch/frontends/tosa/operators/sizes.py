"""Conversions of arithmetic on lists of sizes, which is evaluated at compile time."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from xdsl.ir import Operation

from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.dtypes import I64
from pydispatch.graph.size_functions import ceil_div, maximum, minimum
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor


def _list(tracer: TosaTracer, sizes: list[Any]) -> Tensor:
    """Return sizes, ints or expressions, as a constant i64 vector."""
    import numpy as np

    elements = np.empty(len(sizes), dtype=object)
    elements[:] = sizes
    return tracer.b.constant(elements, I64)


def _on_sizes(function: Callable[[Any, Any], Any], tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Convert an operation such as `tosa.add_shape`: apply `function` to two lists of sizes, element by element.

    Raise CompileError if the lists differ in length, and for a division by 0.
    """
    a, b = (tracer.sizes_of(op, inputs, index=at, name="operand") for at in (0, 1))
    if len(a) != len(b):
        raise tracer.b.fail(f"lists of {len(a)} and {len(b)} sizes")
    if function in (operator.floordiv, operator.mod, ceil_div) and 0 in b:
        raise tracer.b.fail(f"the sizes {a} are divided by {b}")
    return _list(tracer, [function(m, n) for m, n in zip(a, b, strict=True)])


def _concat(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Concatenate lists of sizes."""
    return _list(tracer, [n for at in range(len(inputs)) for n in tracer.sizes_of(op, inputs, at, "operand")])


def _slice(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return a slice of a list of sizes. The operands are the list, the start and the length of the slice."""
    (start,), (size,) = (
        tracer.sizes_of(op, inputs, index=at, name=name, count=1) for at, name in ((1, "start"), (2, "size"))
    )
    sizes = tracer.sizes_of(op, inputs, index=0, name="operand")
    if isinstance(start, Expr) or isinstance(size, Expr) or not 0 <= start <= start + size <= len(sizes):
        raise tracer.b.fail(f"{size} size(s) from {start} of a list of {len(sizes)}")
    return _list(tracer, sizes[start : start + size])


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div_floor": operator.floordiv,
    "div_ceil": ceil_div, "mod": operator.mod, "max": maximum, "min": minimum,
}  # fmt: skip
"""Names of TOSA operations, without `tosa.` and `_shape`, to functions of two sizes."""
ROWS: dict[str, Convert] = {
    **{f"tosa.{name}_shape": partial(_on_sizes, function) for name, function in _FUNCTIONS.items()},
    "tosa.const_shape": lambda t, op: t.constant(op),
    "tosa.dim": lambda t, op, x: _list(t, [x.shape[t.axis(op, x)]]),
    "tosa.concat_shape": _concat, "tosa.slice_shape": _slice,
}  # fmt: skip
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
