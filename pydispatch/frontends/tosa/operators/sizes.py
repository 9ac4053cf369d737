"""Arithmetic of sizes, done while the program is written."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, ceil_div, maximum, minimum
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer


def _list(t: Tracer, sizes: list[Any]) -> Tensor:
    import numpy as np

    made = np.empty(len(sizes), dtype=object)
    made[:] = sizes
    return t.b.constant(made, I64)


def _on_sizes(function: Callable[[Any, Any], Any]) -> Convert:
    def convert(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
        a, b = (t.listed(op, x, at, "operand") for at in (0, 1))
        if len(a) != len(b):
            raise t.b.fail(f"lists of {len(a)} and {len(b)} sizes")
        if function in (operator.floordiv, operator.mod, ceil_div) and 0 in b:
            raise t.b.fail(f"the sizes {a} are divided by {b}")
        return _list(t, [function(m, n) for m, n in zip(a, b, strict=True)])

    return convert


def _dim(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    return _list(t, [x[0].shape[t.axis(op, x[0])]])


def _concat(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    return _list(t, [n for at in range(len(x)) for n in t.listed(op, x, at, "operand")])


def _slice(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    (start,), (size,) = (t.listed(op, x, at, name, 1) for at, name in ((1, "start"), (2, "size")))
    sizes = t.listed(op, x, 0, "operand")
    if isinstance(start, Expr) or isinstance(size, Expr) or not 0 <= start <= start + size <= len(sizes):
        raise t.b.fail(f"{size} size(s) from {start} of a list of {len(sizes)}")
    return _list(t, sizes[start : start + size])


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div_floor": operator.floordiv,
    "div_ceil": ceil_div, "mod": operator.mod, "max": maximum, "min": minimum,
}  # fmt: skip
ROWS: dict[str, Convert] = {
    **{f"tosa.{name}_shape": _on_sizes(function) for name, function in _FUNCTIONS.items()},
    "tosa.const_shape": lambda t, op, x: t.constant(op), "tosa.dim": _dim, "tosa.concat_shape": _concat,
    "tosa.slice_shape": _slice,
}  # fmt: skip
