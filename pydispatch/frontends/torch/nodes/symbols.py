"""Conversions of scalar arithmetic on sizes in a graph, and of the assertions about sizes, which are dropped."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydispatch.frontends.torch.arguments import shown
from pydispatch.frontends.torch.nodes.pointwise import floor_divide, remainder
from pydispatch.frontends.torch.promotion import Operand, as_tensor, promoted
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.frontends.torch.schema import OpaqueArgument
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F64, I64
from pydispatch.graph.size_functions import maximum, minimum
from pydispatch.graph.sizes import Expr, Size, UndecidedError
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew

Sizes = Sequence[Size]
OfTensors = Callable[[Builder, Tensor, Tensor], Tensor]
"""Function of two tensors of rank 0 and of the same type."""


@converts("aten.sym_size", "aten.size.int")
def sym_size(builder: Builder, self: Tensor, dim: int) -> Size:
    """Return the size of a tensor along an axis, which may count from the end."""
    return self.shape[dim]


def _arithmetic(
    on_numbers: Callable[[Any, Any], Any], on_tensors: OfTensors, builder: Builder, lhs: Operand, rhs: Operand
) -> Operand:
    """Compute a function of two numbers: with `on_numbers` at compile time, or with `on_tensors` in the program.

    `on_numbers` computes with numbers and sizes; a size is an Expr, an expression over dynamic sizes. `on_tensors`
    computes with tensors of rank 0, in four cases: an operand is a tensor, a size is combined with a float, a
    comparison depends on the sizes of a call, or Expr does not have the function.
    """
    if isinstance(lhs, Tensor) or isinstance(rhs, Tensor):
        return _on_tensors(builder, on_tensors, lhs, rhs)
    if not isinstance(lhs, Expr) and not isinstance(rhs, Expr):  # two numbers
        return on_numbers(lhs, rhs)
    if isinstance(lhs, float) or isinstance(rhs, float):  # a size and a float
        return _on_tensors(builder, on_tensors, lhs, rhs)
    try:
        return on_numbers(lhs, rhs)
    except (UndecidedError, TypeError):  # a comparison that depends on the call, or a function that Expr lacks
        return _on_tensors(builder, on_tensors, lhs, rhs)


def _on_tensors(builder: Builder, function: OfTensors, lhs: Operand, rhs: Operand) -> Tensor:
    """Apply a function to two numbers as tensors of rank 0 and of their promoted type."""
    x, y = (as_tensor(builder, n, F64) if isinstance(n, float) else as_tensor(builder, n) for n in (lhs, rhs))
    return function(builder, *promoted(builder, x, y))


def _binary(name: str, builder: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Apply an elementwise function such as "add"."""
    return ew.binary(builder, name, x, y)


def _comparison(order: str, builder: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Compare elements by an order such as "le"."""
    return ew.compare(builder, order, x, y)


@converts("torch.sym_sum")
def sym_sum(builder: Builder, args: Sizes) -> Size:
    """Return the sum of sizes."""
    total: Size = 0
    for n in args:
        total = total + n
    return total


@converts("_operator.truediv")
def truediv(builder: Builder, lhs: Operand, rhs: Operand) -> Operand:
    """Return lhs / rhs as a float: a number, or a tensor of rank 0 if an operand is known at run time only."""
    if not any(isinstance(n, (Tensor, Expr)) for n in (lhs, rhs)):
        return lhs / rhs  # type: ignore[operator]
    return ew.binary(builder, "div", as_tensor(builder, lhs, F64), as_tensor(builder, rhs, F64))


def _as_size(builder: Builder, x: Tensor) -> Size:
    """Return a number of any sign that the program computes, in a tensor of one element, as a dynamic size."""
    return builder.size_of(builder.scalar(ew.convert(builder, x, I64)), least=None)


def _rounded(name: str, rounding: Callable[[float], int], builder: Builder, a: Operand) -> Size:
    """Return a number rounded to a size; integers and sizes are returned unchanged.

    name: the rounding of tensors as an elementwise function, such as "floor". rounding: that of Python numbers.
    """
    if isinstance(a, Tensor):
        return _as_size(builder, ew.unary(builder, name, a) if a.dtype.is_float else a)
    return a if isinstance(a, (int, Expr)) else rounding(a)  # type: ignore[arg-type]


@converts("torch.sym_float")
def sym_float(builder: Builder, a: Operand) -> Operand:
    """Return a number as a float; a dynamic one as a tensor of rank 0."""
    return float(a) if isinstance(a, (int, float)) else as_tensor(builder, a, F64)


@converts("torch.sym_not")
def sym_not(builder: Builder, a: Operand) -> Operand:
    """Return the negation of a boolean: a bool for a bool, else (a value known at run time) a tensor of rank 0."""
    return (not a) if isinstance(a, bool) else ew.unary(builder, "not", as_tensor(builder, a))


@converts("torch.sym_ite")
def sym_ite(builder: Builder, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
    """Return one of two sizes, `then` if the condition is true."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return _as_size(builder, ew.select(builder, as_tensor(builder, condition), *promoted(builder, then, otherwise)))


@converts("_operator.neg")
def neg(builder: Builder, a: Operand) -> Operand:
    """Return the negative of a number or a tensor."""
    return ew.unary(builder, "neg", a) if isinstance(a, Tensor) else -a


@converts("torch._sym_sqrt")
def sym_sqrt(builder: Builder, a: Operand) -> Operand:
    """Return the square root of a size as a tensor of rank 0."""
    return ew.unary(builder, "sqrt", as_tensor(builder, a, F64))


@converts("aten.item", "aten._local_scalar_dense")
def item(builder: Builder, self: Tensor) -> Operand:
    """Return the element of a tensor as a number: an integer as a dynamic size; a float or bool stays a tensor."""
    return _as_size(builder, self) if self.dtype.is_integer else self


def no_operation(builder: Builder, *_: Any, **__: Any) -> None:
    """Drop an assertion about sizes or values: a call that violates it does not fail."""


@converts("aten._functional_assert_async", "aten._functional_assert_async.msg")
def functional_check(builder: Builder, *args: Any, **__: Any) -> Any:
    """Drop an assertion, and return its last argument, the token that orders it among other operators with effects."""
    return args[-1]


@converts("higher_order.with_effects")
def with_effects(builder: Builder, token: Tensor, op: Any, *args: Any, **keywords: Any) -> tuple[Tensor, None]:
    """Drop the assertion `op`. Return the token, unchanged, and None as the result of the assertion.

    PyTorch threads a token through the operators with effects, so that they keep their order.

    Raise CompileError for other operators with effects.
    """
    name = op.text.removeprefix("torch.ops.") if isinstance(op, OpaqueArgument) else shown(op)
    if name.rpartition(".")[0] not in _ASSERTIONS and name not in _ASSERTIONS:  # with or without an overload
        raise builder.fail(f"operator {name} has effects that are ordered by tokens, which is not supported")
    return token, None


_BINARY = ("add", "sub", "mul", "pow", "and_", "or_")
"""Functions of Python's module `operator` that tensors compute by the elementwise function of the same name, without
the underscore."""
_FUNCTIONS: dict[str, tuple[Any, OfTensors]] = {
    **{name: (getattr(operator, name), partial(_binary, name.rstrip("_"))) for name in _BINARY},
    **{name: (getattr(operator, name), partial(_comparison, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "floordiv": (operator.floordiv, floor_divide), "mod": (operator.mod, remainder),
}  # fmt: skip
"""Name of a function of Python's module `operator` -> the function on numbers, and the function on tensors."""
_ASSERTIONS = ("aten._assert_scalar", "aten._assert_async", "aten._assert_tensor_metadata", "aten.sym_constrain_range",
               "aten.sym_constrain_range_for_size", "aten._assert_async.msg", "aten._linalg_check_errors")  # fmt: skip
"""Assertions, which are dropped."""

register({
    **{f"_operator.{name}": partial(_arithmetic, *functions) for name, functions in _FUNCTIONS.items()},
    "torch.sym_max": partial(_arithmetic, maximum, partial(_binary, "max")),
    "torch.sym_min": partial(_arithmetic, minimum, partial(_binary, "min")),
    "torch.sym_int": partial(_rounded, "trunc", int),
    "math.trunc": partial(_rounded, "trunc", math.trunc),
    "math.floor": partial(_rounded, "floor", math.floor),
    "math.ceil": partial(_rounded, "ceil", math.ceil),
    "math.round": partial(_rounded, "round_even", round),
    **dict.fromkeys(_ASSERTIONS, no_operation),
})  # fmt: skip
