"""Conversions of scalar arithmetic on sizes in a graph, and of the assertions about sizes, which are dropped."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.frontends.graph.dtypes import F64, I64
from pydispatch.frontends.graph.sizes import Expr, Size, UndecidedError, maximum, minimum
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.torch.arguments import shown
from pydispatch.frontends.torch.nodes.pointwise import floor_divide, remainder
from pydispatch.frontends.torch.promotion import Operand, as_tensor, promoted
from pydispatch.frontends.torch.schema import OpaqueArgument
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]


def sym_size(tracer: Tracer, self: Tensor, dim: int) -> Size:
    return self.shape[dim]


def _arithmetic(
    on_numbers: Callable[[Any, Any], Any], on_tensors: Callable[[Tracer, Tensor, Tensor], Tensor]
) -> Conversion:
    """Return the conversion of an operator of two numbers.

    It is evaluated at compile time on numbers and sizes. Where the result is no size, such as a fraction, it is
    computed as a tensor of rank 0 by `on_tensors`.
    """

    def convert(tracer: Tracer, lhs: Operand, rhs: Operand) -> Operand:
        if isinstance(lhs, Tensor) or isinstance(rhs, Tensor):
            return _on_tensors(tracer, on_tensors, lhs, rhs)
        if not isinstance(lhs, Expr) and not isinstance(rhs, Expr):
            return on_numbers(lhs, rhs)
        if isinstance(lhs, float) or isinstance(rhs, float):
            return _on_tensors(tracer, on_tensors, lhs, rhs)
        try:
            return on_numbers(lhs, rhs)
        except (UndecidedError, TypeError):
            return _on_tensors(tracer, on_tensors, lhs, rhs)

    return convert


def _on_tensors(
    tracer: Tracer, function: Callable[[Tracer, Tensor, Tensor], Tensor], lhs: Operand, rhs: Operand
) -> Tensor:
    """Apply a function to two numbers as tensors of rank 0 and of their promoted type."""
    x, y = (as_tensor(tracer, n, F64) if isinstance(n, float) else as_tensor(tracer, n) for n in (lhs, rhs))
    return function(tracer, *promoted(tracer, x, y))


def _binary(name: str) -> Callable[[Tracer, Tensor, Tensor], Tensor]:
    """Return a function that applies a binary operation to two tensors."""
    return lambda t, x, y: ew.binary(t.b, name, x, y)


def _comparison(order: str) -> Callable[[Tracer, Tensor, Tensor], Tensor]:
    """Return a function that compares two tensors."""
    return lambda t, x, y: ew.compare(t.b, order, x, y)


def sym_sum(tracer: Tracer, args: Sizes) -> Size:
    total: Size = 0
    for n in args:
        total = total + n
    return total


def truediv(tracer: Tracer, lhs: Operand, rhs: Operand) -> Operand:
    if not any(isinstance(n, (Tensor, Expr)) for n in (lhs, rhs)):
        return lhs / rhs  # type: ignore[operator]
    return ew.binary(tracer.b, "div", as_tensor(tracer, lhs, F64), as_tensor(tracer, rhs, F64))


def _as_size(tracer: Tracer, x: Tensor) -> Size:
    """Return a computed number as a dynamic size."""
    return tracer.b.size_of(tracer.b.scalar(ew.convert(tracer.b, x, I64)))


def _rounded(name: str, rounding: Callable[[float], int]) -> Conversion:
    """Return the conversion of a rounding function whose result is a size."""

    def convert(tracer: Tracer, a: Operand) -> Size:
        if isinstance(a, Tensor):
            return _as_size(tracer, ew.unary(tracer.b, name, a) if a.dtype.is_float else a)
        return a if isinstance(a, (int, Expr)) else rounding(a)  # type: ignore[arg-type]

    return convert


def sym_float(tracer: Tracer, a: Operand) -> Operand:
    return float(a) if isinstance(a, (int, float)) else as_tensor(tracer, a, F64)


def sym_not(tracer: Tracer, a: Operand) -> Operand:
    return (not a) if isinstance(a, bool) else ew.unary(tracer.b, "not", as_tensor(tracer, a))


def sym_ite(tracer: Tracer, b: Operand, then: Operand, otherwise: Operand) -> Operand:
    if isinstance(b, bool):
        return then if b else otherwise
    return _as_size(tracer, ew.select(tracer.b, as_tensor(tracer, b), *promoted(tracer, then, otherwise)))


def neg(tracer: Tracer, a: Operand) -> Operand:
    return ew.unary(tracer.b, "neg", a) if isinstance(a, Tensor) else -a


def sym_sqrt(tracer: Tracer, a: Operand) -> Operand:
    return ew.unary(tracer.b, "sqrt", as_tensor(tracer, a, F64))


def item(tracer: Tracer, self: Tensor) -> Operand:
    """Return the element of a tensor as a number; an integer becomes a dynamic size."""
    return _as_size(tracer, self) if self.dtype.is_integer else self


def no_operation(tracer: Tracer, *_: Any, **__: Any) -> None:
    """Drop an assertion about sizes or values, which was established when the model was exported."""


def functional_check(tracer: Tracer, *args: Any, **__: Any) -> Any:
    return args[-1]


def with_effects(tracer: Tracer, token: Tensor, op: Any, *args: Any, **keywords: Any) -> tuple[Tensor, None]:
    """Return the token of an assertion that is ordered by tokens; the assertion itself is dropped.

    Raise CompileError for other operators with effects.
    """
    name = op.text.removeprefix("torch.ops.") if isinstance(op, OpaqueArgument) else shown(op)
    if name.rpartition(".")[0] not in _ASSERTIONS and name not in _ASSERTIONS:
        raise tracer.b.fail(f"operator {name} has effects that are ordered by tokens, which is not supported")
    return token, None


_FUNCTIONS = {
    "add": (operator.add, _binary("add")), "sub": (operator.sub, _binary("sub")), "mul": (operator.mul, _binary("mul")),
    "floordiv": (operator.floordiv, floor_divide), "mod": (operator.mod, remainder),
    "pow": (operator.pow, _binary("pow")),
    **{name: (getattr(operator, name), _comparison(name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "and_": (operator.and_, _binary("and")), "or_": (operator.or_, _binary("or")),
}  # fmt: skip
_ASSERTIONS = ("aten._assert_scalar", "aten._assert_async", "aten._assert_tensor_metadata", "aten.sym_constrain_range",
               "aten.sym_constrain_range_for_size", "aten._assert_async.msg", "aten._linalg_check_errors")  # fmt: skip

SYMBOLS: dict[str, Conversion] = {
    "aten.sym_size": sym_size,
    "aten.size.int": sym_size,
    **{f"_operator.{name}": _arithmetic(*functions) for name, functions in _FUNCTIONS.items()},
    "_operator.truediv": truediv,
    "_operator.neg": neg,
    "torch.sym_sum": sym_sum,
    "torch.sym_max": _arithmetic(maximum, _binary("max")),
    "torch.sym_min": _arithmetic(minimum, _binary("min")),
    "torch.sym_float": sym_float,
    "torch.sym_int": _rounded("trunc", int),
    "torch.sym_not": sym_not,
    "torch.sym_ite": sym_ite,
    "torch._sym_sqrt": sym_sqrt,
    "math.trunc": _rounded("trunc", math.trunc),
    "math.floor": _rounded("floor", math.floor),
    "math.ceil": _rounded("ceil", math.ceil),
    "math.round": _rounded("round_even", round),
    "higher_order.with_effects": with_effects,
    "aten.item": item,
    "aten._local_scalar_dense": item,
    **dict.fromkeys(_ASSERTIONS, no_operation),
    "aten._functional_assert_async": functional_check,
    "aten._functional_assert_async.msg": functional_check,
}
