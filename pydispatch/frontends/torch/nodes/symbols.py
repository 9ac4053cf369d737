"""Conversions of scalar arithmetic on sizes in a graph, and of the assertions about sizes, which are dropped."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.frontends.torch.arguments import shown
from pydispatch.frontends.torch.nodes.pointwise import floor_divide, remainder
from pydispatch.frontends.torch.promotion import Operand, as_tensor, promoted
from pydispatch.frontends.torch.schema import OpaqueArgument
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F64, I64
from pydispatch.graph.sizes import Expr, Size, UndecidedError, maximum, minimum
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew

Sizes = Sequence[Size]
OfTensors = Callable[[Builder, Tensor, Tensor], Tensor]


def sym_size(b: Builder, self: Tensor, dim: int) -> Size:
    return self.shape[dim]


def _arithmetic(on_numbers: Callable[[Any, Any], Any], on_tensors: OfTensors) -> Conversion:
    """Return the conversion of an operator of two numbers.

    It is evaluated at compile time on numbers and sizes. Where the result is no size, such as a fraction, it is
    computed as a tensor of rank 0 by `on_tensors`.
    """

    def convert(b: Builder, lhs: Operand, rhs: Operand) -> Operand:
        if isinstance(lhs, Tensor) or isinstance(rhs, Tensor):
            return _on_tensors(b, on_tensors, lhs, rhs)
        if not isinstance(lhs, Expr) and not isinstance(rhs, Expr):
            return on_numbers(lhs, rhs)
        if isinstance(lhs, float) or isinstance(rhs, float):
            return _on_tensors(b, on_tensors, lhs, rhs)
        try:
            return on_numbers(lhs, rhs)
        except (UndecidedError, TypeError):
            return _on_tensors(b, on_tensors, lhs, rhs)

    return convert


def _on_tensors(b: Builder, function: OfTensors, lhs: Operand, rhs: Operand) -> Tensor:
    """Apply a function to two numbers as tensors of rank 0 and of their promoted type."""
    x, y = (as_tensor(b, n, F64) if isinstance(n, float) else as_tensor(b, n) for n in (lhs, rhs))
    return function(b, *promoted(b, x, y))


def _binary(name: str) -> OfTensors:
    """Return a function that applies a binary operation to two tensors."""
    return lambda b, x, y: ew.binary(b, name, x, y)


def _comparison(order: str) -> OfTensors:
    """Return a function that compares two tensors."""
    return lambda b, x, y: ew.compare(b, order, x, y)


def sym_sum(b: Builder, args: Sizes) -> Size:
    total: Size = 0
    for n in args:
        total = total + n
    return total


def truediv(b: Builder, lhs: Operand, rhs: Operand) -> Operand:
    if not any(isinstance(n, (Tensor, Expr)) for n in (lhs, rhs)):
        return lhs / rhs  # type: ignore[operator]
    return ew.binary(b, "div", as_tensor(b, lhs, F64), as_tensor(b, rhs, F64))


def _as_size(b: Builder, x: Tensor) -> Size:
    """Return a computed number as a dynamic size."""
    return b.size_of(b.scalar(ew.convert(b, x, I64)))


def _rounded(name: str, rounding: Callable[[float], int]) -> Conversion:
    """Return the conversion of a rounding function whose result is a size."""

    def convert(b: Builder, a: Operand) -> Size:
        if isinstance(a, Tensor):
            return _as_size(b, ew.unary(b, name, a) if a.dtype.is_float else a)
        return a if isinstance(a, (int, Expr)) else rounding(a)  # type: ignore[arg-type]

    return convert


def sym_float(b: Builder, a: Operand) -> Operand:
    return float(a) if isinstance(a, (int, float)) else as_tensor(b, a, F64)


def sym_not(b: Builder, a: Operand) -> Operand:
    return (not a) if isinstance(a, bool) else ew.unary(b, "not", as_tensor(b, a))


def sym_ite(b: Builder, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
    if isinstance(condition, bool):
        return then if condition else otherwise
    return _as_size(b, ew.select(b, as_tensor(b, condition), *promoted(b, then, otherwise)))


def neg(b: Builder, a: Operand) -> Operand:
    return ew.unary(b, "neg", a) if isinstance(a, Tensor) else -a


def sym_sqrt(b: Builder, a: Operand) -> Operand:
    return ew.unary(b, "sqrt", as_tensor(b, a, F64))


def item(b: Builder, self: Tensor) -> Operand:
    """Return the element of a tensor as a number; an integer becomes a dynamic size."""
    return _as_size(b, self) if self.dtype.is_integer else self


def no_operation(b: Builder, *_: Any, **__: Any) -> None:
    """Drop an assertion about sizes or values, which was established when the model was exported."""


def functional_check(b: Builder, *args: Any, **__: Any) -> Any:
    return args[-1]


def with_effects(b: Builder, token: Tensor, op: Any, *args: Any, **keywords: Any) -> tuple[Tensor, None]:
    """Return the token of an assertion that is ordered by tokens; the assertion itself is dropped.

    Raise CompileError for other operators with effects.
    """
    name = op.text.removeprefix("torch.ops.") if isinstance(op, OpaqueArgument) else shown(op)
    if name.rpartition(".")[0] not in _ASSERTIONS and name not in _ASSERTIONS:
        raise b.fail(f"operator {name} has effects that are ordered by tokens, which is not supported")
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
