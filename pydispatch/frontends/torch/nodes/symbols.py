"""Numbers that depend on sizes: the arithmetic of Python in a graph, and checks of what was assumed of them."""

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
from pydispatch.frontends.torch.promotion import Operand, as_tensor, together
from pydispatch.frontends.torch.schema import Other
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]


def sym_size(t: Tracer, self: Tensor, dim: int) -> Size:
    return self.shape[dim]


def _arithmetic(
    on_numbers: Callable[[Any, Any], Any], on_tensors: Callable[[Tracer, Tensor, Tensor], Tensor]
) -> Conversion:
    """Return the conversion of an operator of two numbers. Results that are not sizes, such as fractions, are tensors
    of rank 0.
    """

    def convert(t: Tracer, a: Operand, b: Operand) -> Operand:
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return _on_tensors(t, on_tensors, a, b)
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return on_numbers(a, b)
        if isinstance(a, float) or isinstance(b, float):
            return _on_tensors(t, on_tensors, a, b)
        try:
            return on_numbers(a, b)
        except (UndecidedError, TypeError):
            return _on_tensors(t, on_tensors, a, b)

    return convert


def _on_tensors(t: Tracer, function: Callable[[Tracer, Tensor, Tensor], Tensor], a: Operand, b: Operand) -> Tensor:
    x, y = (as_tensor(t, n, F64) if isinstance(n, float) else as_tensor(t, n) for n in (a, b))
    return function(t, *together(t, x, y))


def _binary(name: str) -> Callable[[Tracer, Tensor, Tensor], Tensor]:
    return lambda t, x, y: ew.binary(t.b, name, x, y)


def _ordered(order: str) -> Callable[[Tracer, Tensor, Tensor], Tensor]:
    return lambda t, x, y: ew.compare(t.b, order, x, y)


def sym_sum(t: Tracer, args: Sizes) -> Size:
    total: Size = 0
    for n in args:
        total = total + n
    return total


def truediv(t: Tracer, a: Operand, b: Operand) -> Operand:
    if not any(isinstance(n, (Tensor, Expr)) for n in (a, b)):
        return a / b  # type: ignore[operator]
    return ew.binary(t.b, "div", as_tensor(t, a, F64), as_tensor(t, b, F64))


def _as_size(t: Tracer, x: Tensor) -> Size:
    """Return a computed number as a size."""
    return t.b.size_of(t.b.scalar(ew.convert(t.b, x, I64)))


def _rounded(name: str, number: Callable[[float], int]) -> Conversion:
    def convert(t: Tracer, a: Operand) -> Size:
        if isinstance(a, Tensor):
            return _as_size(t, ew.unary(t.b, name, a) if a.dtype.is_float else a)
        return a if isinstance(a, (int, Expr)) else number(a)  # type: ignore[arg-type]

    return convert


def sym_float(t: Tracer, a: Operand) -> Operand:
    return float(a) if isinstance(a, (int, float)) else as_tensor(t, a, F64)


def sym_not(t: Tracer, a: Operand) -> Operand:
    return (not a) if isinstance(a, bool) else ew.unary(t.b, "not", as_tensor(t, a))


def sym_ite(t: Tracer, b: Operand, then: Operand, otherwise: Operand) -> Operand:
    if isinstance(b, bool):
        return then if b else otherwise
    return _as_size(t, ew.select(t.b, as_tensor(t, b), *together(t, then, otherwise)))


def neg(t: Tracer, a: Operand) -> Operand:
    return ew.unary(t.b, "neg", a) if isinstance(a, Tensor) else -a


def sym_sqrt(t: Tracer, a: Operand) -> Operand:
    return ew.unary(t.b, "sqrt", as_tensor(t, a, F64))


def item(t: Tracer, self: Tensor) -> Operand:
    """Return the element of a tensor as a number: an integer may become a size."""
    return _as_size(t, self) if self.dtype.is_integer else self


def nothing(t: Tracer, *_: Any, **__: Any) -> None:
    """Drop checks of facts that were established when the model was exported."""


def functional_check(t: Tracer, *args: Any, **__: Any) -> Any:
    return args[-1]


def with_effects(t: Tracer, token: Tensor, op: Any, *args: Any, **keywords: Any) -> tuple[Tensor, None]:
    """Return the token of an assertion that is ordered by tokens; the assertion is not checked, like all assertions.
    CompileError for other effects.
    """
    name = op.text.removeprefix("torch.ops.") if isinstance(op, Other) else shown(op)
    if name.rpartition(".")[0] not in _ASSERTIONS and name not in _ASSERTIONS:
        raise t.b.fail(f"operator {name} has effects that are ordered by tokens, which is not supported")
    return token, None


_FUNCTIONS = {
    "add": (operator.add, _binary("add")), "sub": (operator.sub, _binary("sub")), "mul": (operator.mul, _binary("mul")),
    "floordiv": (operator.floordiv, floor_divide), "mod": (operator.mod, remainder),
    "pow": (operator.pow, _binary("pow")),
    **{name: (getattr(operator, name), _ordered(name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
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
    **dict.fromkeys(_ASSERTIONS, nothing),
    "aten._functional_assert_async": functional_check,
    "aten._functional_assert_async.msg": functional_check,
}
