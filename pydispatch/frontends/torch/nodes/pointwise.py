"""Conversions of elementwise operators: arithmetic, comparisons, functions of floats, type conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydispatch.frontends.torch.promotion import Category, Number, Operand, as_tensor, category, promoted, result_type
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, F32, I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import shapes
from pydispatch.operations.formulas import Element, extreme_ignoring_nan, formula
from pydispatch.operations.normalization import wide


def in_floats(builder: Builder, function: Callable[..., Element], *tensors: Tensor) -> Tensor:
    """Evaluate a formula of one element of each tensor, on floats of the tensors' common type.

    Integers become f32; 16-bit floats are computed in f32 and rounded back.
    """
    operands = promoted(builder, *tensors, floats=True)
    dtype = operands[0].dtype
    inner = wide(dtype)
    return formula(builder, lambda *e: function(*(n.to(inner) for n in e)).to(dtype), *operands)


# -- functions of one element


def _float_function(name: str, builder: Builder, self: Tensor) -> Tensor:
    """Apply the elementwise function `name`, such as "exp", to floats; integers become f32."""
    return in_floats(builder, lambda e: e.unary(name), self)


def _same_type(name: str, builder: Builder, self: Tensor) -> Tensor:
    """Apply the elementwise function `name`, such as "abs", whose result has the type of its operand."""
    return ew.unary(builder, name, self)


def _rounding(name: str, builder: Builder, self: Tensor) -> Tensor:
    """Round each float to an integral float, by "ceil", "floor" or "trunc"; integers are returned unchanged."""
    return self if category(self.dtype) < Category.FLOAT else ew.unary(builder, name, self)


def of_floats(function: Callable[[Element], Element], builder: Builder, self: Tensor) -> Tensor:
    """Evaluate a formula on the elements of a tensor as floats; integers become f32.

    This is `in_floats` with the formula as its first parameter, which tables of operators bind with `partial`.
    """
    return in_floats(builder, function, self)


def _predicate(name: str, builder: Builder, self: Tensor) -> Tensor:
    """Return the test `name`: is_nan, is_inf or is_finite. All integers are finite, so theirs is constant."""
    if category(self.dtype) < Category.FLOAT:
        return shapes.full(builder, name == "is_finite", self.shape, BOOL)
    return ew.unary(builder, name, self)


@converts("aten.round")
def round_(builder: Builder, self: Tensor, *, decimals: int = 0) -> Tensor:
    """Round to `decimals` digits after the point, half to even; integers are returned unchanged.

    Negative `decimals` round to digits before the point: -3 rounds to thousands.
    """
    if category(self.dtype) < Category.FLOAT:
        return self
    scale = 10.0 ** abs(decimals)  # 10^-3 is not exact, so it is divided by 10^3

    def rounded(e: Element) -> Element:
        """Return one element, rounded."""
        if decimals < 0:
            return (e / scale).unary("round_even") * scale
        return (e * scale).unary("round_even") / scale if decimals else e.unary("round_even")

    return in_floats(builder, rounded, self)


@converts("aten.sign", "aten.sgn")
def sign(builder: Builder, self: Tensor) -> Tensor:
    """Return the sign of each element, 1, -1 or 0; 0 for NaN. Bools are unchanged, and a complex z gives z / |z|."""
    if self.dtype.is_bool:
        return self
    if not self.dtype.is_float:
        return ew.unary(builder, "sign", self)
    return formula(builder, lambda e: (e > 0.0).to(e.dtype) - (e < 0.0).to(e.dtype), self)


@converts("aten.square")
def square(builder: Builder, self: Tensor) -> Tensor:
    """Return x * x; bools become i64."""
    x = ew.convert(builder, self, I64) if self.dtype.is_bool else self
    return ew.binary(builder, "mul", x, x)


@converts("aten.logical_not")
def logical_not(builder: Builder, self: Tensor) -> Tensor:
    """Return whether each element is 0."""
    return ew.unary(builder, "not", truth(builder, self))


@converts("aten.logit")
def logit(builder: Builder, self: Tensor, eps: float | None = None) -> Tensor:
    """Return log(x / (1 - x)); with `eps`, x is first clamped to [eps, 1 - eps]."""

    def logit_of(e: Element) -> Element:
        """Return the logit of one element."""
        e = e if eps is None else e.max(eps).min(1.0 - eps)
        return (e / (1.0 - e)).unary("log")

    return in_floats(builder, logit_of, self)


@converts("aten.nan_to_num")
def nan_to_num(
    builder: Builder, self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN by 0 and infinities by the largest finite numbers of the type, unless other numbers are passed.

    Integers are returned unchanged. Of complex numbers, the real and the imaginary part are replaced on their own.
    """
    if category(self.dtype) < Category.FLOAT:
        return self
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f64": 1.7976931348623157e308}
    largest_finite = largest.get(self.dtype.real.name, 3.4028234663852886e38)  # by default the largest f32

    def replaced(e: Element) -> Element:
        """Return an element with NaN and infinities replaced, in both parts of a complex number."""
        if e.dtype.is_complex:
            return replaced(e.real).with_imag(replaced(e.imag))
        high = (e.unary("is_inf") & (e > 0.0)).where(largest_finite if posinf is None else posinf, e)
        low = (e.unary("is_inf") & (e < 0.0)).where(-largest_finite if neginf is None else neginf, high)
        return e.unary("is_nan").where(nan or 0.0, low)

    return formula(builder, replaced, self)


# -- functions of two operands


def truth(builder: Builder, operand: Operand) -> Tensor:
    """Return whether each element is not 0, as bool."""
    return as_tensor(builder, operand, BOOL)


def _scaled(builder: Builder, tensor: Tensor, alpha: Number) -> Tensor:
    """Return alpha * tensor; emit nothing if alpha is 1."""
    return tensor if alpha == 1 else ew.binary(builder, "mul", tensor, as_tensor(builder, alpha, tensor.dtype))


@converts("aten.add")
def add(builder: Builder, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    """Return self + alpha * other in the common type."""
    x, y = promoted(builder, self, other)
    return ew.binary(builder, "add", x, _scaled(builder, y, alpha))


@converts("aten.sub", "aten.subtract")
def sub(builder: Builder, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    """Return self - alpha * other in the common type."""
    x, y = promoted(builder, self, other)
    return ew.binary(builder, "sub", x, _scaled(builder, y, alpha))


@converts("aten.rsub")
def rsub(builder: Builder, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    """Return other - alpha * self in the common type."""
    return sub(builder, other, self, alpha)


def _promoted_binary(name: str, builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Apply the elementwise function `name`, such as "mul", to two operands in their promoted type."""
    return ew.binary(builder, name, *promoted(builder, self, other))


def _binary_of_floats(name: str, builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Apply the elementwise function `name`, such as "atan2", to two operands as floats; integers become f32."""
    return ew.binary(builder, name, *promoted(builder, self, other, floats=True))


mul = partial(_promoted_binary, "mul")
"""Conversion of aten.mul: the product of two operands in their promoted type."""


def _extreme_ignoring_nan(name: str, builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return fmax ("max") or fmin ("min"). If one operand is NaN, the result is the other one."""
    return formula(builder, partial(extreme_ignoring_nan, name), *promoted(builder, self, other))


def _compare(order: str, builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return whether self compares to other by `order` (eq, ne, lt, le, gt or ge), in their promoted type."""
    return ew.compare(builder, order, *promoted(builder, self, other))


def _logical(name: str, builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Apply `name` (and, or, xor) to whether the elements of two operands are not 0."""
    return ew.binary(builder, name, truth(builder, self), truth(builder, other))


@converts("aten.div", "aten.divide", "aten.true_divide")
def div(builder: Builder, self: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Return self / other, rounded down for the `rounding_mode` "floor" or toward zero for "trunc".

    Without `rounding_mode`, integers become floats.
    """
    if rounding_mode == "floor":
        return floor_divide(builder, self, other)
    x, y = promoted(builder, self, other, floats=rounding_mode is None)
    quotient = ew.binary(builder, "div", x, y)
    # Division of integers rounds toward zero already.
    return ew.unary(builder, "trunc", quotient) if rounding_mode == "trunc" and x.dtype.is_float else quotient


@converts("aten.floor_divide")
def floor_divide(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return self / other, rounded down, in the promoted type of both."""
    x, y = promoted(builder, self, other)
    if x.dtype.is_float:
        return in_floats(builder, _floor_quotient_of_floats, x, y)
    return ew.binary(builder, "floor_div", x, y)


def _floor_quotient_of_floats(e: Element, n: Element) -> Element:
    """Return the floor of the exact quotient e / n, as PyTorch computes it; an infinite e gives NaN.

    The quotient is not rounded before the floor: 1 // 0.1 is 9, because the float 0.1 is a little more than 1/10,
    although 1 / 0.1 rounds to 10.
    """
    # The remainder is exact and has the sign of e, so e - remainder is a multiple of n but for rounding errors.
    remainder = e % n
    # (e - remainder) / n is the quotient rounded toward zero: one less is the floor of a negative quotient.
    needs_decrement = remainder.is_unequal(0.0) & ((remainder < 0.0) ^ (n < 0.0))
    quotient = (e - remainder) / n
    quotient = needs_decrement.where(quotient - 1.0, quotient)
    floor = quotient.unary("floor")
    rounded = (quotient - floor > 0.5).where(floor + 1.0, floor)  # the nearest integer, against rounding errors
    # A zero has the sign of e / n; division by zero gives an infinity or NaN.
    signed = quotient.is_equal(0.0).where(rounded.const(0.0).binary("copysign", e / n), rounded)
    return n.is_equal(0.0).where(e / n, signed)


@converts("aten.remainder")
def remainder(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the remainder of a division, with the sign of the divisor."""
    x, y = promoted(builder, self, other)
    return ew.binary(builder, "floor_rem", x, y)


@converts("aten.pow")
def pow_(builder: Builder, self: Operand, exponent: Operand) -> Tensor:
    """Return self to the power `exponent`; some constant exponents become products, roots or quotients."""
    # The result type of a bool and an int is i64. Convert bools to it, since `_simple_power` rejects bools.
    if isinstance(self, Tensor) and self.dtype.is_bool and type(exponent) is int:
        self = ew.convert(builder, self, I64)
    if isinstance(self, Tensor) and isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        power = _simple_power(builder, self, exponent)
        if power is not None:
            return power
    x, y = promoted(builder, self, exponent)
    if x.dtype.is_float:
        return in_floats(builder, lambda e, n: e.binary("pow", n), x, y)
    return ew.binary(builder, "pow", x, y)


def _simple_power(builder: Builder, x: Tensor, exponent: float) -> Tensor | None:
    """Return x to the power `exponent`, computed by products, a root or a reciprocal, as PyTorch does.

    Return None if the exponent, or the type of x, needs the general power function.
    """
    power = {0.5: lambda e: e.unary("sqrt"), -0.5: lambda e: e.unary("rsqrt"), 2: lambda e: e * e,
             3: lambda e: e * e * e, -1: lambda e: 1.0 / e, -2: lambda e: 1.0 / (e * e)}.get(exponent)  # fmt: skip
    least_category = Category.FLOAT if isinstance(exponent, float) else Category.INTEGER
    # x itself is the result only if it has the type of the result: an integer to the power 1.0 is a float.
    if exponent == 1 and category(x.dtype) >= least_category:
        return x
    if power is None or x.dtype.is_complex or x.dtype.is_bool:
        return None
    if x.dtype.is_integer and isinstance(exponent, int):  # the result is an integer: no reciprocal
        return formula(builder, power, x) if exponent > 0 else None
    return in_floats(builder, power, x)


@converts("aten.where")
def where(builder: Builder, condition: Tensor, self: Operand, other: Operand) -> Tensor:
    """Return self where the condition holds, else other, in the common type."""
    x, y = promoted(builder, self, other)
    return ew.select(builder, truth(builder, condition), x, y)


@converts("aten.clamp", "aten.clip", "aten.clamp_min")
def clamp(builder: Builder, self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return the minimum of `max` and max(`min`, self), in the common type of all three; None is no bound."""
    bounds = [n for n in (min, max) if n is not None]
    dtype = result_type([self, *bounds])
    clamped = as_tensor(builder, self, dtype)
    for name, bound in (("max", min), ("min", max)):
        if bound is not None:
            clamped = ew.binary(builder, name, clamped, as_tensor(builder, bound, dtype))
    return clamped


@converts("aten.clamp_max")
def clamp_max(builder: Builder, self: Tensor, max: Operand) -> Tensor:
    """Return the minimum of each element and `max`."""
    return clamp(builder, self, min=None, max=max)


@converts("aten.hypot")
def hypot(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Return sqrt(self^2 + other^2), as the absolute value of a complex number: that does not overflow in between."""
    return in_floats(builder, lambda e, n: e.with_imag(n).unary("abs"), self, other)


@converts("aten.lerp")
def lerp(builder: Builder, self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Return self + weight * (end - self), computed from the nearer end, so that a weight of 1 gives exactly `end`."""
    x, y, w = promoted(builder, self, end, weight)
    return in_floats(
        builder, lambda e, n, k: (k.unary("abs") < 0.5).where(e + k * (n - e), n - (n - e) * (1.0 - k)), x, y, w
    )


@converts("aten.addcmul")
def addcmul(builder: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """Return self + value * tensor1 * tensor2 in the common type."""
    x, y, z = promoted(builder, self, tensor1, tensor2)
    return ew.binary(builder, "add", x, ew.binary(builder, "mul", _scaled(builder, y, value), z))


@converts("aten.addcdiv")
def addcdiv(builder: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """Return self + value * tensor1 / tensor2 in floats."""
    x, y, z = promoted(builder, self, tensor1, tensor2, floats=True)
    return ew.binary(builder, "add", x, _scaled(builder, ew.binary(builder, "div", y, z), value))


@converts("aten.isclose")
def isclose(
    builder: Builder, self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return whether |self - other| <= atol + rtol * |other|, element by element.

    Equal infinities are close, and with `equal_nan` also two NaN. As in PyTorch, the distance of integers is computed
    in f32, and only equal elements are close if both tolerances are 0.
    """
    x, y = promoted(builder, self, other)
    inner = x.dtype if category(x.dtype) >= Category.FLOAT else F32

    def are_close(e: Element, n: Element) -> Element:
        """Return whether element e of `self` is close to element n of `other`, by the rules of `isclose`."""
        is_near, e, n = e.is_equal(n), e.to(inner), n.to(inner)
        if rtol or atol:
            # An infinite n would make the bound infinite, and every e close to n: only finite numbers are compared.
            is_close = (e - n).unary("abs") <= n.unary("abs") * rtol + atol
            is_near |= is_close & e.unary("is_finite") & n.unary("is_finite")
        return is_near | (e.unary("is_nan") & n.unary("is_nan")) if equal_nan else is_near

    return formula(builder, are_close, x, y)


_FLOAT_FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "erfc": "erfc", "sigmoid": "logistic", "special_erf": "erf", "arccos": "acos",
    "arcsin": "asin", "arctan": "atan", "special_expm1": "expm1", "special_log1p": "log1p",
}  # fmt: skip
"""Operators of floats -> the elementwise functions that they apply; they convert integers to floats."""

_PREDICATES = {"isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}
"""Operators that test floats -> the elementwise tests."""
_SAME_TYPE = {"abs": "abs", "neg": "neg", "bitwise_not": "not"}
"""Operators whose result has the type of the operand -> the elementwise functions."""
_OF_PROMOTED = {
    "multiply": "mul", "fmod": "rem", "maximum": "max", "minimum": "min", "max.other": "max", "min.other": "min",
    "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right", "__lshift__": "shift_left",
    "__rshift__": "shift_right",
    **{form.format(name): name for form in ("bitwise_{}", "__{}__") for name in ("and", "or", "xor")},
}  # fmt: skip
"""Operators of two operands, which are promoted to one type -> the elementwise functions."""

register({
    **{f"aten.{name}": partial(_float_function, function) for name, function in _FLOAT_FUNCTIONS.items()},
    **{f"aten.{name}": partial(_rounding, name) for name in ("ceil", "floor", "trunc")},
    **{f"aten.{name}": partial(_same_type, function) for name, function in _SAME_TYPE.items()},
    **{f"aten.{name}": partial(_predicate, function) for name, function in _PREDICATES.items()},
    "aten.mul": mul,
    **{f"aten.{name}": partial(_promoted_binary, function) for name, function in _OF_PROMOTED.items()},
    **{f"aten.f{name}": partial(_extreme_ignoring_nan, name) for name in ("max", "min")},
    **{f"aten.{name}": partial(_binary_of_floats, name) for name in ("atan2", "copysign")},
    **{f"aten.logical_{name}": partial(_logical, name) for name in ("and", "or", "xor")},
    **{f"aten.{order}": partial(_compare, order) for order in ("eq", "ne", "lt", "le", "gt", "ge")},
    "aten.reciprocal": partial(of_floats, lambda e: 1.0 / e),
})  # fmt: skip
