"""Functions of elements at the same index: arithmetic, comparisons, functions of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydispatch.frontends.graph.dtypes import BOOL, DType
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.normalization import wide
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor, category, result_type, together
from pydispatch.frontends.torch.trace import Conversion, Tracer


def in_floats(tracer: Tracer, written: Callable[..., Element], *tensors: Tensor) -> Tensor:
    """Evaluate a formula over floats: integers become f32, and 16-bit floats are computed with as 32-bit ones."""
    operands = together(tracer, *tensors, floats=True)
    dtype = operands[0].dtype
    inner = wide(dtype)
    return formula(tracer.b, lambda *e: written(*(n.to(inner) for n in e)).to(dtype), *operands)


# -- functions of one element


def _float_function(name: str) -> Conversion:
    def convert(tracer: Tracer, self: Tensor) -> Tensor:
        return in_floats(tracer, lambda e: e.unary(name), self)

    return convert


def _same_type(name: str, of_integers: bool = True) -> Conversion:
    """of_integers: False where integers are what they are already."""

    def convert(tracer: Tracer, self: Tensor) -> Tensor:
        if not of_integers and category(self.dtype) < 2:
            return self
        return ew.unary(tracer.b, name, self)

    return convert


def _predicate(name: str) -> Conversion:
    def convert(tracer: Tracer, self: Tensor) -> Tensor:
        if category(self.dtype) < 2:
            return formula(tracer.b, lambda e: e.is_equal(e) if name == "is_finite" else e.is_unequal(e), self)
        return ew.unary(tracer.b, name, self)

    return convert


def reciprocal(tracer: Tracer, self: Tensor) -> Tensor:
    return in_floats(tracer, lambda e: 1.0 / e, self)


def round_(tracer: Tracer, self: Tensor, *, decimals: int = 0) -> Tensor:
    if category(self.dtype) < 2:
        return self
    scale = 10.0**decimals
    return in_floats(
        tracer, lambda e: (e * scale).unary("round_even") / scale if decimals else e.unary("round_even"), self
    )


def sign(tracer: Tracer, self: Tensor) -> Tensor:
    return self if self.dtype.is_bool else ew.unary(tracer.b, "sign", self)


def square(tracer: Tracer, self: Tensor) -> Tensor:
    return ew.binary(tracer.b, "mul", self, self)


def logical_not(tracer: Tracer, self: Tensor) -> Tensor:
    return ew.unary(tracer.b, "not", truth(tracer, self))


def logit(tracer: Tracer, self: Tensor, eps: float | None = None) -> Tensor:
    def written(e: Element) -> Element:
        e = e if eps is None else e.max(eps).min(1.0 - eps)
        return (e / (1.0 - e)).unary("log")

    return in_floats(tracer, written, self)


def nan_to_num(
    tracer: Tracer, self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    if not self.dtype.is_float:
        return self
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f64": 1.7976931348623157e308}
    most = largest.get(self.dtype.name, 3.4028234663852886e38)

    def written(e: Element) -> Element:
        high = (e.unary("is_inf") & (e > 0.0)).where(most if posinf is None else posinf, e)
        low = (e.unary("is_inf") & (e < 0.0)).where(-most if neginf is None else neginf, high)
        return e.unary("is_nan").where(nan or 0.0, low)

    return formula(tracer.b, written, self)


# -- functions of two


def truth(tracer: Tracer, operand: Operand) -> Tensor:
    """Return whether each element is not 0."""
    return as_tensor(tracer, operand, BOOL)


def _scaled(tracer: Tracer, tensor: Tensor, alpha: Number) -> Tensor:
    return tensor if alpha == 1 else ew.binary(tracer.b, "mul", tensor, as_tensor(tracer, alpha, tensor.dtype))


def add(tracer: Tracer, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    x, y = together(tracer, self, other)
    return ew.binary(tracer.b, "add", x, _scaled(tracer, y, alpha))


def sub(tracer: Tracer, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    x, y = together(tracer, self, other)
    return ew.binary(tracer.b, "sub", x, _scaled(tracer, y, alpha))


def rsub(tracer: Tracer, self: Operand, other: Operand, alpha: Number = 1) -> Tensor:
    return sub(tracer, other, self, alpha)


def _together(name: str, floats: bool = False) -> Conversion:
    def convert(tracer: Tracer, self: Operand, other: Operand) -> Tensor:
        return ew.binary(tracer.b, name, *together(tracer, self, other, floats=floats))

    return convert


mul = _together("mul")


def _number_of_two(name: str) -> Conversion:
    """Return the conversion of the "min" or "max" of two operands; of a number and NaN the result is the number."""

    def convert(tracer: Tracer, self: Operand, other: Operand) -> Tensor:
        def written(e: Element, n: Element) -> Element:
            result = e.binary(name, n)
            return e.unary("is_nan").where(n, n.unary("is_nan").where(e, result)) if e.dtype.is_float else result

        return formula(tracer.b, written, *together(tracer, self, other))

    return convert


def _compare(order: str) -> Conversion:
    def convert(tracer: Tracer, self: Operand, other: Operand) -> Tensor:
        return ew.compare(tracer.b, order, *together(tracer, self, other))

    return convert


def _logical(name: str) -> Conversion:
    def convert(tracer: Tracer, self: Operand, other: Operand) -> Tensor:
        return ew.binary(tracer.b, name, truth(tracer, self), truth(tracer, other))

    return convert


def div(tracer: Tracer, self: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "floor":
        return floor_divide(tracer, self, other)
    x, y = together(tracer, self, other, floats=rounding_mode is None)
    quotient = ew.binary(tracer.b, "div", x, y)
    return ew.unary(tracer.b, "trunc", quotient) if rounding_mode == "trunc" and x.dtype.is_float else quotient


def floor_divide(tracer: Tracer, self: Operand, other: Operand) -> Tensor:
    x, y = together(tracer, self, other)
    if x.dtype.is_float:
        return in_floats(tracer, lambda e, n: (e / n).unary("floor"), x, y)
    if x.dtype.is_unsigned or x.is_symbolic or y.is_symbolic:
        return ew.binary(tracer.b, "div", x, y)

    return formula(tracer.b, floor_quotient, x, y)


def floor_quotient(e: Element, n: Element) -> Element:
    """Return the quotient of integers with a sign, rounded down."""
    rest = e % n
    lower = rest.is_unequal(0) & ((rest < 0) ^ (n < 0))
    return lower.where(e / n - 1, e / n)


def remainder(tracer: Tracer, self: Operand, other: Operand) -> Tensor:
    x, y = together(tracer, self, other)
    if x.dtype.is_unsigned or x.is_symbolic or y.is_symbolic:
        return ew.binary(tracer.b, "rem", x, y)

    def written(e: Element, n: Element) -> Element:
        rest = e % n
        return (rest.is_unequal(0) & ((rest < 0) ^ (n < 0))).where(rest + n, rest)

    return formula(tracer.b, written, x, y)


def pow_(tracer: Tracer, self: Operand, exponent: Operand) -> Tensor:
    if isinstance(self, Tensor) and isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        power = _simple_power(tracer, self, exponent)
        if power is not None:
            return power
    x, y = together(tracer, self, exponent)
    return (
        in_floats(tracer, lambda e, n: e.binary("pow", n), x, y)
        if x.dtype.is_float
        else ew.binary(tracer.b, "pow", x, y)
    )


def _simple_power(tracer: Tracer, x: Tensor, exponent: float) -> Tensor | None:
    """Powers that products and roots give, exactly as PyTorch computes them."""
    written = {0.5: lambda e: e.unary("sqrt"), -0.5: lambda e: e.unary("rsqrt"), 2: lambda e: e * e,
               3: lambda e: e * e * e, -1: lambda e: 1.0 / e, -2: lambda e: 1.0 / (e * e)}.get(exponent)  # fmt: skip
    if exponent == 1 and category(x.dtype) >= (2 if isinstance(exponent, float) else 1):
        return x
    if written is None or x.dtype.is_complex or category(x.dtype) < 1:
        return None
    if x.dtype.is_integer:
        integral = isinstance(exponent, int) and exponent > 0
        return (
            formula(tracer.b, written, x)
            if integral
            else in_floats(tracer, written, x)
            if isinstance(exponent, float)
            else None
        )
    return in_floats(tracer, written, x)


def where(tracer: Tracer, condition: Tensor, self: Operand, other: Operand) -> Tensor:
    x, y = together(tracer, self, other)
    return ew.select(tracer.b, truth(tracer, condition), x, y)


def clamp(tracer: Tracer, self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    bounds = [n for n in (min, max) if n is not None]
    dtype = result_type([self, *bounds])
    clamped = as_tensor(tracer, self, dtype)
    for name, bound in (("max", min), ("min", max)):
        if bound is not None:
            clamped = ew.binary(tracer.b, name, clamped, as_tensor(tracer, bound, dtype))
    return clamped


def clamp_min(tracer: Tracer, self: Tensor, min: Operand) -> Tensor:
    return clamp(tracer, self, min)


def clamp_max(tracer: Tracer, self: Tensor, max: Operand) -> Tensor:
    return clamp(tracer, self, None, max)


def hypot(tracer: Tracer, self: Tensor, other: Tensor) -> Tensor:
    return in_floats(tracer, lambda e, n: (e * e + n * n).unary("sqrt"), self, other)


def lerp(tracer: Tracer, self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    x, y, w = together(tracer, self, end, weight)
    return in_floats(
        tracer, lambda e, n, k: (k.unary("abs") < 0.5).where(e + k * (n - e), n - (n - e) * (1.0 - k)), x, y, w
    )


def addcmul(tracer: Tracer, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    x, y, z = together(tracer, self, tensor1, tensor2)
    return ew.binary(tracer.b, "add", x, ew.binary(tracer.b, "mul", _scaled(tracer, y, value), z))


def addcdiv(tracer: Tracer, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    x, y, z = together(tracer, self, tensor1, tensor2, floats=True)
    return ew.binary(tracer.b, "add", x, _scaled(tracer, ew.binary(tracer.b, "div", y, z), value))


def isclose(
    tracer: Tracer, self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    def written(e: Element, n: Element) -> Element:
        is_close = (e - n).unary("abs") <= n.unary("abs") * rtol + atol
        same = e.is_equal(n) | (is_close & e.unary("is_finite") & n.unary("is_finite"))
        return same | (e.unary("is_nan") & n.unary("is_nan")) if equal_nan else same

    x, y = together(tracer, self, other, floats=True)
    return formula(tracer.b, written, x, y)


# -- types


def _to_copy(tracer: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return ew.convert(tracer.b, self, dtype or self.dtype)


def to_dtype(tracer: Tracer, self: Tensor, dtype: DType, non_blocking: bool = False, copy: bool = False,
             memory_format: Any = None) -> Tensor:  # fmt: skip
    return ew.convert(tracer.b, self, dtype)


def to_device(tracer: Tracer, self: Tensor, device: Any, dtype: DType, non_blocking: bool = False, copy: bool = False,
              memory_format: Any = None) -> Tensor:  # fmt: skip
    return ew.convert(tracer.b, self, dtype)


def to_other(tracer: Tracer, self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False,
             memory_format: Any = None) -> Tensor:  # fmt: skip
    return ew.convert(tracer.b, self, other.dtype)


def type_as(tracer: Tracer, self: Tensor, other: Tensor) -> Tensor:
    return ew.convert(tracer.b, self, other.dtype)


def view_dtype(tracer: Tracer, self: Tensor, dtype: DType) -> Tensor:
    if self.dtype.bits != dtype.bits or self.dtype.is_complex or dtype.is_complex:
        raise tracer.b.fail(f"{self} is seen as {dtype}, which has elements of another size")
    return ew.bitcast(tracer.b, self, dtype)


_FLOAT_FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "erfc": "erfc", "sigmoid": "logistic", "special_erf": "erf", "arccos": "acos",
    "arcsin": "asin", "arctan": "atan", "special_expm1": "expm1", "special_log1p": "log1p",
}  # fmt: skip

POINTWISE: dict[str, Conversion] = {
    **{f"aten.{name}": _float_function(function) for name, function in _FLOAT_FUNCTIONS.items()},
    **{f"aten.{name}": _same_type(name, of_integers=False) for name in ("ceil", "floor", "trunc")},
    "aten.abs": _same_type("abs"),
    "aten.neg": _same_type("neg"),
    "aten.bitwise_not": _same_type("not"),
    "aten.sign": sign,
    "aten.sgn": _same_type("sign"),
    "aten.round": round_,
    "aten.reciprocal": reciprocal,
    "aten.square": square,
    "aten.logical_not": logical_not,
    "aten.logit": logit,
    "aten.nan_to_num": nan_to_num,
    "aten.isnan": _predicate("is_nan"),
    "aten.isinf": _predicate("is_inf"),
    "aten.isfinite": _predicate("is_finite"),
    "aten.isclose": isclose,
    "aten.add": add,
    "aten.sub": sub,
    "aten.subtract": sub,
    "aten.rsub": rsub,
    "aten.mul": mul,
    "aten.multiply": mul,
    "aten.div": div,
    "aten.divide": div,
    "aten.true_divide": div,
    "aten.floor_divide": floor_divide,
    "aten.remainder": remainder,
    "aten.fmod": _together("rem"),
    "aten.pow": pow_,
    "aten.maximum": _together("max"),
    "aten.minimum": _together("min"),
    "aten.max.other": _together("max"),
    "aten.min.other": _together("min"),
    "aten.fmax": _number_of_two("max"),
    "aten.fmin": _number_of_two("min"),
    "aten.atan2": _together("atan2", floats=True),
    "aten.copysign": _together("copysign", floats=True),
    "aten.hypot": hypot,
    "aten.lerp": lerp,
    "aten.addcmul": addcmul,
    "aten.addcdiv": addcdiv,
    **{f"aten.bitwise_{name}": _together(name) for name in ("and", "or", "xor")},
    **{f"aten.__{name}__": _together(name) for name in ("and", "or", "xor")},
    "aten.bitwise_left_shift": _together("shift_left"),
    "aten.bitwise_right_shift": _together("shift_right"),
    "aten.__lshift__": _together("shift_left"),
    "aten.__rshift__": _together("shift_right"),
    **{f"aten.logical_{name}": _logical(name) for name in ("and", "or", "xor")},
    **{f"aten.{order}": _compare(order) for order in ("eq", "ne", "lt", "le", "gt", "ge")},
    "aten.where": where,
    "aten.clamp": clamp,
    "aten.clip": clamp,
    "aten.clamp_min": clamp_min,
    "aten.clamp_max": clamp_max,
    "aten._to_copy": _to_copy,
    "aten.to.dtype": to_dtype,
    "aten.to.dtype_layout": _to_copy,
    "aten.to.device": to_device,
    "aten.to.other": to_other,
    "aten.type_as": type_as,
    "aten.view.dtype": view_dtype,
}
