"""Conversions of elementwise operations. `SCALAR_FUNCTIONS` has those on single elements, for regions of reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, StablehloTracer
from pydispatch.frontends.stablehlo.types import dtype_of
from pydispatch.graph.sizes import UndecidedError, sign
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import float_bits, gamma, integers, special
from pydispatch.operations.formulas import Element, of_scalars
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import reshape

ScalarFunction = Callable[..., Scalar]
"""Function of elements: function(scalars, op, elements...) -> element. `op` has attributes and the type of
the result."""

UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "cosine": "cos", "count_leading_zeros": "count_leading_zeros",
    "exponential": "exp", "exponential_minus_one": "expm1", "floor": "floor", "is_finite": "is_finite", "log": "log",
    "log_plus_one": "log1p", "logistic": "logistic", "negate": "neg", "not": "not", "popcnt": "popcount",
    "round_nearest_afz": "round", "round_nearest_even": "round_even", "rsqrt": "rsqrt", "sign": "sign", "sine": "sin",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
"""StableHLO operation → name of the unary function that it is, as in `Reals.unary`."""

BINARY = {
    "add": "add", "and": "and", "atan2": "atan2", "maximum": "max", "minimum": "min", "multiply": "mul", "or": "or",
    "subtract": "sub", "xor": "xor",
}  # fmt: skip
"""StableHLO operation → name of the binary function that it is, as in `Reals.binary`."""
GUARDED: dict[str, Callable[..., Scalar]] = {
    "divide": integers.divide, "remainder": integers.remainder, "power": integers.power,
    "shift_left": of_scalars(partial(integers.shift, "shift_left")),
    "shift_right_logical": of_scalars(partial(integers.shift, "shift_right_logical")),
    "shift_right_arithmetic": of_scalars(partial(integers.shift, "shift_right_arithmetic")),
}  # fmt: skip
"""Functions of two numbers that StableHLO defines for all pairs of integers, also where the instruction is
undefined."""

CHLO_UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "cosh": "cosh", "erf": "erf", "erfc": "erfc", "is_inf": "is_inf", "sinh": "sinh", "tan": "tan",
}  # fmt: skip
"""CHLO operation → name of the unary function that it is, as in `Reals.unary`."""
CHLO_SPECIAL: dict[str, Callable[..., Scalar]] = {
    "bessel_i1e": special.bessel_i1e, "digamma": gamma.digamma, "erf_inv": special.erf_inv,
    "lgamma": gamma.lgamma, "square": special.square, "conj": lambda s, x: s.conj(x),
    "is_pos_inf": lambda s, x: s.compare("eq", x, s.const(float("inf"), x.dtype)),
    "is_neg_inf": lambda s, x: s.compare("eq", x, s.const(float("-inf"), x.dtype)),
    "mulhi": of_scalars(integers.multiply_high), "next_after": of_scalars(float_bits.next_after),
    "polygamma": gamma.polygamma, "zeta": gamma.zeta,
}  # fmt: skip
"""CHLO operations that are computed by formulas."""

_ORDER = {"EQ": "eq", "NE": "ne", "GE": "ge", "GT": "gt", "LE": "le", "LT": "lt"}
"""Values of the attribute `comparison_direction` -> the names of the relations for `Scalars.compare`."""
SortKey = Callable[[Scalars, Scalar], Scalar]
"""Function key(scalars, float) -> integer with the position of the float in an order; the integers are compared."""
_SORT_KEYS: dict[str, SortKey] = {"TOTALORDER": float_bits.total_order, "WEAKORDER": float_bits.weak_order}
"""Orders in which also NaN and -0.0 have a position, by the attribute `compare_type`."""


# -- on single elements


def _compare(scalars: Scalars, op: Operation, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return whether two elements are in the relation that the attributes of the operation state."""
    return compared(scalars, *comparison(op), lhs, rhs)


def comparison(op: Operation) -> tuple[str, SortKey | None]:
    """Return the relation of a comparison, such as "lt", and its sort key.

    For the total and the weak order the key maps a float to an integer, and these integers are compared. None stands
    for a comparison of the floats themselves.
    """
    direction: Any = op.properties["comparison_direction"]
    kind: Any = op.properties.get("compare_type")
    return _ORDER[direction.data], _SORT_KEYS.get(kind.data) if kind is not None else None


def compared(scalars: Scalars, order: str, rank: SortKey | None, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return whether lhs is in the relation `order`, such as "lt", to rhs.

    rank: returns the position of a float in a total or weak order, as an integer; None for the usual order of floats.
    """
    if rank is not None and lhs.dtype.is_float:
        lhs, rhs = rank(scalars, lhs), rank(scalars, rhs)
    return scalars.compare(order, lhs, rhs)


def _clamp(scalars: Scalars, _: Operation, low: Scalar, x: Scalar, high: Scalar) -> Scalar:
    """Return the number limited to [low, high]."""
    return scalars.binary("min", scalars.binary("max", x, low), high)


def _convert(scalars: Scalars, op: Operation, x: Scalar) -> Scalar:
    """Convert an element. As StableHLO defines, only the real part of a complex number is converted, also to bool."""
    to = dtype_of(op.results[0].type)
    return scalars.convert(x if to.is_complex else scalars.real(x), to)


def _bitcast(scalars: Scalars, op: Operation, x: Scalar) -> Scalar:
    """Return the bits of an element as an element of the result's type."""
    return scalars.bitcast(x, dtype_of(op.results[0].type))


def _reduce_precision(scalars: Scalars, op: Operation, x: Scalar) -> Scalar:
    """Return a float rounded to a format with the numbers of exponent and mantissa bits in the attributes."""
    exponent, mantissa = (op.properties[name].value.data for name in ("exponent_bits", "mantissa_bits"))  # type: ignore[attr-defined]
    return float_bits.reduce_precision(Element(scalars, x), exponent, mantissa).scalar


def _of_unary(name: str) -> ScalarFunction:
    """Return the function on elements that calls `Scalars.unary` with `name`, such as "sqrt"."""
    return lambda s, _, x: s.unary(name, x)


def _of_binary(name: str) -> ScalarFunction:
    """Return the function on elements that calls `Scalars.binary` with `name`, such as "add"."""
    return lambda s, _, a, b: s.binary(name, a, b)


def _of_formula(formula: Callable[..., Scalar]) -> ScalarFunction:
    """Return the function on elements that computes a formula, for which the operation has no attributes."""
    return lambda s, _, *arguments: formula(s, *arguments)


SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    **{f"stablehlo.{op}": _of_unary(name) for op, name in UNARY.items()},
    **{f"chlo.{op}": _of_unary(name) for op, name in CHLO_UNARY.items()},
    **{f"chlo.{op}": _of_formula(formula) for op, formula in CHLO_SPECIAL.items()},
    "stablehlo.square": _of_formula(special.square),
    **{f"stablehlo.{op}": _of_binary(name) for op, name in BINARY.items()},
    **{f"stablehlo.{op}": _of_formula(formula) for op, formula in GUARDED.items()},
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.complex": lambda s, _, a, b: s.complex(a, b),
    "stablehlo.convert": _convert,
    "stablehlo.imag": lambda s, _, x: s.imag(x),
    "stablehlo.real": lambda s, _, x: s.real(x),
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.select": lambda s, _, condition, a, b: s.select(condition, a, b),
}
"""Functions on single elements of all elementwise operations."""


# -- on tensors


def _check_shapes(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> None:
    """Raise CompileError unless all operands have the same shape; `select` and `clamp` also accept scalars.

    Without this check operands of lower rank or of size 1 would be broadcast as in NumPy, which StableHLO does not do.
    Sizes that are unknown at compile time are not compared here.
    """
    accepts_scalars = op.name in ("stablehlo.select", "stablehlo.clamp")
    checked = [x for x in operands if not (accepts_scalars and x.rank == 0)]
    for a, b in combinations(checked, 2):
        if a.rank != b.rank:
            raise tracer.b.fail(f"'{op.name}' of {a} and {b}: the ranks differ")
        if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a.shape, b.shape, strict=True)):
            raise tracer.b.fail(
                f"'{op.name}' of {a} and {b}: the sizes differ",
                "no size is broadcast, not even 1: stablehlo.broadcast_in_dim repeats elements",
            )


def _emit_elementwise(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Tensor:
    """Apply the function on elements that SCALAR_FUNCTIONS has for an operation to tensors."""
    _check_shapes(tracer, op, *operands)
    function = SCALAR_FUNCTIONS[op.name]
    return ew.apply(tracer.b, lambda s, *arguments: function(s, op, *arguments), *operands)


def _foldable(
    fold: Callable[..., Tensor], name: str, tracer: StablehloTracer, op: Operation, *operands: Tensor
) -> Tensor:
    """Convert an operation by `fold(builder, name, *operands)`, which evaluates it at compile time for small constants.

    fold: `ew.unary` or `ew.binary`. name: the function that it applies.
    """
    _check_shapes(tracer, op, *operands)
    return fold(tracer.b, name, *operands)


def _guarded(name: str, tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor) -> Tensor:
    """Convert a division or remainder, whose instruction is undefined for some integers, such as for a divisor of 0.

    name: "div" or "rem". Floats, and integers with known positive divisors, use the instruction as it is; other
    integers and complex numbers use the formula that GUARDED has for the operation.
    """
    _check_shapes(tracer, op, x, y)
    if x.dtype.is_float or (x.dtype.is_integer and _is_positive(y)):
        return ew.binary(tracer.b, name, x, y)
    return _emit_elementwise(tracer, op, x, y)


def _is_positive(x: Tensor) -> bool:
    """Return whether a tensor is a constant of integers or sizes that are positive in every call."""
    if x.known is None:
        return False
    if x.numbers is not None:
        return bool((x.numbers > 0).all())
    try:
        return all(sign(n) > 0 for n in x.known_integers() or ())
    except UndecidedError:
        return False


def _compare_tensors(tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor) -> Tensor:
    """Compare elements in the order that the operation states. Raise CompileError if the shapes differ."""
    _check_shapes(tracer, op, x, y)
    return _compared_tensors(tracer, op, x, y)


def _compared_tensors(tracer: StablehloTracer, op: Operation, x: Tensor, y: Tensor) -> Tensor:
    """Compare elements with broadcasting, in the order that the operation states.

    In a total or weak order, in which NaN has a position, `rank` turns floats to integers to compare.
    """
    order, rank = comparison(op)
    if rank is None or not x.dtype.is_float:
        return ew.compare(tracer.b, order, x, y)
    return ew.apply(tracer.b, lambda s, lhs, rhs: compared(s, order, rank, lhs, rhs), x, y)


def _clamp_tensors(tracer: StablehloTracer, op: Operation, low: Tensor, x: Tensor, high: Tensor) -> Tensor:
    """Limit elements to [low, high]. If all are constants, `ew.binary` evaluates them at compile time."""
    _check_shapes(tracer, op, low, x, high)
    if all(tensor.known is not None for tensor in (low, x, high)):
        return ew.binary(tracer.b, "min", ew.binary(tracer.b, "max", x, low), high)
    return _emit_elementwise(tracer, op, low, x, high)


def _select_tensors(tracer: StablehloTracer, op: Operation, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return elements of a where the condition is true, else of b; a constant scalar condition chooses one of them."""
    _check_shapes(tracer, op, condition, a, b)
    if condition.numbers is not None and condition.numbers.size and condition.rank == 0:
        return a if condition.numbers.reshape(-1)[0] else b
    return ew.select(tracer.b, condition, a, b)


def _convert_tensor(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Convert the elements of a tensor to the result's type; a complex number loses its imaginary part if that type is
    not complex."""
    return _emit_elementwise(tracer, op, x) if x.dtype.is_complex else ew.convert(tracer.b, x, tracer.dtype(op))


def _bitcast_tensor(tracer: StablehloTracer, op: Operation, x: Tensor) -> Tensor:
    """Reinterpret the bits of a tensor as elements of the result's type.

    Wider elements are split along a new last axis; narrower ones are joined along the last axis, which is removed.
    """
    to = tracer.dtype(op)
    if x.dtype == to:
        return x
    if x.dtype.is_complex != to.is_complex:
        raise tracer.b.fail(f"the bits of {x.dtype} as {to} are not defined")
    if x.dtype.is_complex:
        split, join = integers.split_complex, integers.join_complex
    elif x.dtype.bits == to.bits:
        return ew.bitcast(tracer.b, x, to)
    else:
        split, join = integers.split_bits, integers.join_bits
    return (split if x.dtype.bits > to.bits else join)(tracer.b, x, to)


def _map(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Tensor:
    """Apply a region, which computes one element of the result, to the elements of tensors at each position."""
    function = tracer.scalar_function(op.regions[0])
    return ew.apply(tracer.b, lambda s, *arguments: function(s, arguments)[0], *operands)


def _broadcast(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Tensor:
    """Convert a CHLO operation that broadcasts as NumPy does: chlo.broadcast_add applies the scalar function of
    stablehlo.add to the broadcast operands. The function of an operation that StableHLO lacks is that of chlo.
    """
    name = op.name.removeprefix("chlo.broadcast_")
    rank = max(x.rank for x in operands)  # rank of the result
    placed = [_placed(tracer, op, x, rank) for x in operands]
    if name == "compare":
        return _compared_tensors(tracer, op, *placed)
    function = SCALAR_FUNCTIONS.get(f"stablehlo.{name}") or SCALAR_FUNCTIONS[f"chlo.{name}"]
    return ew.apply(tracer.b, lambda s, *arguments: function(s, op, *arguments), *placed)


def _placed(tracer: StablehloTracer, op: Operation, x: Tensor, rank: int) -> Tensor:
    """Reshape an operand to a rank: its axes become those in `broadcast_dimensions`, the others have size 1.

    Without that property it is unchanged, and NumPy's rule aligns its last axes.
    """
    if x.rank == rank or "broadcast_dimensions" not in op.properties:
        return x
    axes = tracer.axes(tracer.listed(op, "broadcast_dimensions", x.rank), op.name, rank)
    at = dict(zip(axes, x.shape, strict=True))
    return reshape(tracer.b, x, [at.get(d, 1) for d in range(rank)])


BROADCAST = (
    "add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum", "multiply", "next_after", "or",
    "polygamma", "power", "remainder", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical",
    "subtract", "xor", "zeta",
)  # fmt: skip
"""CHLO operations that broadcast their operands as NumPy does, such as `broadcast_add`: names without the prefix."""

ROWS: dict[str, Convert] = {
    **dict.fromkeys(SCALAR_FUNCTIONS, _emit_elementwise),
    **{f"stablehlo.{op}": partial(_foldable, ew.unary, name) for op, name in UNARY.items()},
    **{f"stablehlo.{op}": partial(_foldable, ew.binary, name) for op, name in BINARY.items()},
    **{f"chlo.broadcast_{op}": _broadcast for op in BROADCAST},
    "stablehlo.bitcast_convert": _bitcast_tensor,
    "stablehlo.clamp": _clamp_tensors,
    "stablehlo.compare": _compare_tensors,
    "stablehlo.convert": _convert_tensor,
    "stablehlo.divide": partial(_guarded, "div"),
    "stablehlo.map": _map,
    "stablehlo.remainder": partial(_guarded, "rem"),
    "stablehlo.select": _select_tensors,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
