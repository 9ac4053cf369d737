"""Conversions of elementwise operators: arithmetic, comparisons, functions of floats, type conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor, category, promoted, result_type
from pydispatch.frontends.torch.registry import Conversion, converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, extreme_ignoring_nan, floor_quotient, floor_remainder, formula
from pydispatch.operations.normalization import wide


def in_floats(builder: Builder, written: Callable[..., Element], *tensors: Tensor) -> Tensor:
    """Evaluate a formula on floats. Integers become f32; 16-bit floats are computed in f32 and rounded back."""
    operands = promoted(builder, *tensors, floats=True)
    dtype = operands[0].dtype
    inner = wide(dtype)
    return formula(builder, lambda *e: written(*(n.to(inner) for n in e)).to(dtype), *operands)


# -- functions of one element


def _float_function(name: str) -> Conversion:
    """Return the conversion of a unary function of floats."""

    def convert(builder: Builder, self: Tensor) -> Tensor:
        return in_floats(builder, lambda e: e.unary(name), self)

    return convert


def _same_type(name: str, of_integers: bool = True) -> Conversion:
    """Return the conversion of a unary function whose result has the type of its operand.

    `of_integers` is False for a function that leaves integers unchanged, such as floor.
    """

    def convert(builder: Builder, self: Tensor) -> Tensor:
        if not of_integers and category(self.dtype) < 2:
            return self
        return ew.unary(builder, name, self)

    return convert


def _predicate(name: str) -> Conversion:
    """Return the conversion of isnan, isinf or isfinite; the result for integers is constant."""

    def convert(builder: Builder, self: Tensor) -> Tensor:
        if category(self.dtype) < 2:
            return formula(builder, lambda e: e.is_equal(e) if name == "is_finite" else e.is_unequal(e), self)
        return ew.unary(builder, name, self)

    return convert


@converts("aten.reciprocal")
def reciprocal(builder: Builder, self: Tensor) -> Tensor:
    return in_floats(builder, lambda e: 1.0 / e, self)


@converts("aten.round")
def round_(builder: Builder, self: Tensor, *, decimals: int = 0) -> Tensor:
    """Round to `decimals` digits after the point, half to even; integers stay."""
    if category(self.dtype) < 2:
        return self
    scale = 10.0**decimals
    return in_floats(
        builder, lambda e: (e * scale).unary("round_even") / scale if decimals else e.unary("round_even"), self
    )


@converts("aten.sign")
def sign(builder: Builder, self: Tensor) -> Tensor:
    return self if self.dtype.is_bool else ew.unary(builder, "sign", self)


@converts("aten.square")
def square(builder: Builder, self: Tensor) -> Tensor:
    x = ew.convert(builder, self, I64) if self.dtype.is_bool else self
    return ew.binary(builder, "mul", x, x)


@converts("aten.logical_not")
def logical_not(builder: Builder, self: Tensor) -> Tensor:
    return ew.unary(builder, "not", truth(builder, self))


@converts("aten.logit")
def logit(builder: Builder, self: Tensor, eps: float | None = None) -> Tensor:
    def written(e: Element) -> Element:
        e = e if eps is None else e.max(eps).min(1.0 - eps)
        return (e / (1.0 - e)).unary("log")

    return in_floats(builder, written, self)


@converts("aten.nan_to_num")
def nan_to_num(
    builder: Builder, self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN by 0 and infinities by the largest finite numbers, unless other numbers are passed; integers stay."""
    if not self.dtype.is_float:
        return self
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f64": 1.7976931348623157e308}
    largest_finite = largest.get(self.dtype.name, 3.4028234663852886e38)

    def written(e: Element) -> Element:
        high = (e.unary("is_inf") & (e > 0.0)).where(largest_finite if posinf is None else posinf, e)
        low = (e.unary("is_inf") & (e < 0.0)).where(-largest_finite if neginf is None else neginf, high)
        return e.unary("is_nan").where(nan or 0.0, low)

    return formula(builder, written, self)


# -- functions of two operands


def truth(builder: Builder, operand: Operand) -> Tensor:
    """Return whether each element is not 0, as bool."""
    return as_tensor(builder, operand, BOOL)


def _scaled(builder: Builder, tensor: Tensor, alpha: Number) -> Tensor:
    """Return alpha * tensor; emit nothing if alpha is 1."""
    return tensor if alpha == 1 else ew.binary(builder, "mul", tensor, as_tensor(builder, alpha, tensor.dtype))


@converts("aten.add")
def add(builder: Builder, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    x, y = promoted(builder, self, other)
    return ew.binary(builder, "add", x, _scaled(builder, y, alpha))


@converts("aten.sub", "aten.subtract")
def sub(builder: Builder, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    x, y = promoted(builder, self, other)
    return ew.binary(builder, "sub", x, _scaled(builder, y, alpha))


@converts("aten.rsub")
def rsub(builder: Builder, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    return sub(builder, other, self, alpha)


def _promoted_binary(name: str, floats: bool = False) -> Conversion:
    """Return the conversion of a binary function of operands of their promoted type; with `floats`, integers become
    f32.
    """

    def convert(builder: Builder, self: Operand, other: Operand) -> Tensor:
        return ew.binary(builder, name, *promoted(builder, self, other, floats=floats))

    return convert


mul = _promoted_binary("mul")


def _extreme_ignoring_nan(name: str) -> Conversion:
    """Return the conversion of fmax ("max") or fmin ("min"). If one operand is NaN, the result is the other one."""

    def convert(builder: Builder, self: Operand, other: Operand) -> Tensor:
        return formula(builder, partial(extreme_ignoring_nan, name), *promoted(builder, self, other))

    return convert


def _compare(order: str) -> Conversion:
    """Return the conversion of a comparison, for example "lt"."""

    def convert(builder: Builder, self: Operand, other: Operand) -> Tensor:
        return ew.compare(builder, order, *promoted(builder, self, other))

    return convert


def _logical(name: str) -> Conversion:
    """Return the conversion of a logical function of the truth values of two operands."""

    def convert(builder: Builder, self: Operand, other: Operand) -> Tensor:
        return ew.binary(builder, name, truth(builder, self), truth(builder, other))

    return convert


@converts("aten.div", "aten.divide", "aten.true_divide")
def div(builder: Builder, self: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Divide, and round down or toward zero; without a rounding mode integers become floats first."""
    if rounding_mode == "floor":
        return floor_divide(builder, self, other)
    x, y = promoted(builder, self, other, floats=rounding_mode is None)
    quotient = ew.binary(builder, "div", x, y)
    return ew.unary(builder, "trunc", quotient) if rounding_mode == "trunc" and x.dtype.is_float else quotient


@converts("aten.floor_divide")
def floor_divide(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Divide and round down; division of unsigned integers and of sizes rounds down already."""
    x, y = promoted(builder, self, other)
    if x.dtype.is_float:
        return in_floats(builder, _floor_quotient_of_floats, x, y)
    if x.dtype.is_unsigned or x.is_symbolic or y.is_symbolic:
        return ew.binary(builder, "div", x, y)
    return formula(builder, floor_quotient, x, y)


def _floor_quotient_of_floats(e: Element, n: Element) -> Element:
    """Return the floor of the exact quotient, as PyTorch finds it: 1 // 0.1 is 9, where 1 / 0.1 rounds to 10, and
    infinite numbers give NaN.
    """
    remainder = e % n
    needs_decrement = remainder.is_unequal(0.0) & ((remainder < 0.0) ^ (n < 0.0))
    quotient = (e - remainder) / n
    quotient = needs_decrement.where(quotient - 1.0, quotient)
    floor = quotient.unary("floor")
    rounded = (quotient - floor > 0.5).where(floor + 1.0, floor)
    signed = quotient.is_equal(0.0).where(rounded.const(0.0).binary("copysign", e / n), rounded)
    return n.is_equal(0.0).where(e / n, signed)


@converts("aten.remainder")
def remainder(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the remainder of a division, with the sign of the divisor."""
    x, y = promoted(builder, self, other)
    if x.dtype.is_unsigned or x.is_symbolic or y.is_symbolic:
        return ew.binary(builder, "rem", x, y)
    return formula(builder, floor_remainder, x, y)


@converts("aten.pow")
def pow_(builder: Builder, self: Operand, exponent: Operand) -> Tensor:
    """Return a power; some constant exponents become products, roots or quotients."""
    if isinstance(self, Tensor) and self.dtype.is_bool and type(exponent) is int:
        self = ew.convert(builder, self, I64)
    if isinstance(self, Tensor) and isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        power = _simple_power(builder, self, exponent)
        if power is not None:
            return power
    x, y = promoted(builder, self, exponent)
    return (
        in_floats(builder, lambda e, n: e.binary("pow", n), x, y)
        if x.dtype.is_float
        else ew.binary(builder, "pow", x, y)
    )


def _simple_power(builder: Builder, x: Tensor, exponent: float) -> Tensor | None:
    """Return a power that is computed by products, a root or a reciprocal, as PyTorch does; None for other
    exponents.
    """
    written = {0.5: lambda e: e.unary("sqrt"), -0.5: lambda e: e.unary("rsqrt"), 2: lambda e: e * e,
               3: lambda e: e * e * e, -1: lambda e: 1.0 / e, -2: lambda e: 1.0 / (e * e)}.get(exponent)  # fmt: skip
    if exponent == 1 and category(x.dtype) >= (2 if isinstance(exponent, float) else 1):
        return x
    if written is None or x.dtype.is_complex or category(x.dtype) < 1:
        return None
    if x.dtype.is_integer:
        stays_integer = isinstance(exponent, int) and exponent > 0
        return (
            formula(builder, written, x)
            if stays_integer
            else in_floats(builder, written, x)
            if isinstance(exponent, float)
            else None
        )
    return in_floats(builder, written, x)


@converts("aten.where")
def where(builder: Builder, condition: Tensor, self: Operand, other: Operand) -> Tensor:
    x, y = promoted(builder, self, other)
    return ew.select(builder, truth(builder, condition), x, y)


@converts("aten.clamp", "aten.clip")
def clamp(builder: Builder, self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return max(min, x), then the minimum with max, in the common type of all three."""
    bounds = [n for n in (min, max) if n is not None]
    dtype = result_type([self, *bounds])
    clamped = as_tensor(builder, self, dtype)
    for name, bound in (("max", min), ("min", max)):
        if bound is not None:
            clamped = ew.binary(builder, name, clamped, as_tensor(builder, bound, dtype))
    return clamped


@converts("aten.clamp_min")
def clamp_min(builder: Builder, self: Tensor, min: Operand) -> Tensor:
    return clamp(builder, self, min)


@converts("aten.clamp_max")
def clamp_max(builder: Builder, self: Tensor, max: Operand) -> Tensor:
    return clamp(builder, self, None, max)


@converts("aten.hypot")
def hypot(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    return in_floats(builder, lambda e, n: (e * e + n * n).unary("sqrt"), self, other)


@converts("aten.lerp")
def lerp(builder: Builder, self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Interpolate from the nearer end, so that a weight of 1 gives exactly `end`."""
    x, y, w = promoted(builder, self, end, weight)
    return in_floats(
        builder, lambda e, n, k: (k.unary("abs") < 0.5).where(e + k * (n - e), n - (n - e) * (1.0 - k)), x, y, w
    )


@converts("aten.addcmul")
def addcmul(builder: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    x, y, z = promoted(builder, self, tensor1, tensor2)
    return ew.binary(builder, "add", x, ew.binary(builder, "mul", _scaled(builder, y, value), z))


@converts("aten.addcdiv")
def addcdiv(builder: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    x, y, z = promoted(builder, self, tensor1, tensor2, floats=True)
    return ew.binary(builder, "add", x, _scaled(builder, ew.binary(builder, "div", y, z), value))


@converts("aten.isclose")
def isclose(
    builder: Builder, self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    def written(e: Element, n: Element) -> Element:
        is_close = (e - n).unary("abs") <= n.unary("abs") * rtol + atol
        is_near = e.is_equal(n) | (is_close & e.unary("is_finite") & n.unary("is_finite"))
        return is_near | (e.unary("is_nan") & n.unary("is_nan")) if equal_nan else is_near

    x, y = promoted(builder, self, other, floats=True)
    return formula(builder, written, x, y)


_FLOAT_FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "erfc": "erfc", "sigmoid": "logistic", "special_erf": "erf", "arccos": "acos",
    "arcsin": "asin", "arctan": "atan", "special_expm1": "expm1", "special_log1p": "log1p",
}  # fmt: skip

register({
    **{f"aten.{name}": _float_function(function) for name, function in _FLOAT_FUNCTIONS.items()},
    **{f"aten.{name}": _same_type(name, of_integers=False) for name in ("ceil", "floor", "trunc")},
    "aten.abs": _same_type("abs"),
    "aten.neg": _same_type("neg"),
    "aten.bitwise_not": _same_type("not"),
    "aten.sgn": _same_type("sign"),
    "aten.isnan": _predicate("is_nan"),
    "aten.isinf": _predicate("is_inf"),
    "aten.isfinite": _predicate("is_finite"),
    "aten.mul": mul,
    "aten.multiply": mul,
    "aten.fmod": _promoted_binary("rem"),
    "aten.maximum": _promoted_binary("max"),
    "aten.minimum": _promoted_binary("min"),
    "aten.max.other": _promoted_binary("max"),
    "aten.min.other": _promoted_binary("min"),
    "aten.fmax": _extreme_ignoring_nan("max"),
    "aten.fmin": _extreme_ignoring_nan("min"),
    "aten.atan2": _promoted_binary("atan2", floats=True),
    "aten.copysign": _promoted_binary("copysign", floats=True),
    **{f"aten.bitwise_{name}": _promoted_binary(name) for name in ("and", "or", "xor")},
    **{f"aten.__{name}__": _promoted_binary(name) for name in ("and", "or", "xor")},
    "aten.bitwise_left_shift": _promoted_binary("shift_left"),
    "aten.bitwise_right_shift": _promoted_binary("shift_right"),
    "aten.__lshift__": _promoted_binary("shift_left"),
    "aten.__rshift__": _promoted_binary("shift_right"),
    **{f"aten.logical_{name}": _logical(name) for name in ("and", "or", "xor")},
    **{f"aten.{order}": _compare(order) for order in ("eq", "ne", "lt", "le", "gt", "ge")},
})  # fmt: skip
