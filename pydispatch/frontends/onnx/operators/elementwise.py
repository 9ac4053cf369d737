"""Conversions of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial, reduce

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import dtype_of
from pydispatch.graph.dtypes import BOOL, F32, F64, I8, I32, U8, U32, DType, Kind
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, random, shapes
from pydispatch.operations import elementwise as ops
from pydispatch.operations.formulas import Element, formula

# -- conversions that are made from one function


def _unary(name: str, call: NodeCall, x: Tensor) -> Tensor:
    """Apply the function `name` of `operations.elementwise.unary`, such as "abs", to each element."""
    return ops.unary(call.b, name, x)


def _binary(name: str, call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Apply the function `name` of `operations.elementwise.binary`, such as "add", with broadcasting."""
    return ops.binary(call.b, name, x, y)


def _compare(order: str, call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Compare operands by an order, for example "lt"."""
    return ops.compare(call.b, order, x, y)


def _variadic(name: str, call: NodeCall, first: Tensor, *others: Tensor) -> Tensor:
    """Combine one or more operands, from left to right, by the binary function `name`, such as "add"."""
    return reduce(lambda x, y: ops.binary(call.b, name, x, y), others, first)


def _formula(function: Callable[[Element], Element], call: NodeCall, x: Tensor) -> Tensor:
    """Apply a formula to each element."""
    return formula(call.b, function, x)


def _with_floats(function: Callable[..., Element], defaults: Mapping[str, float], call: NodeCall, x: Tensor) -> Tensor:
    """Apply the formula `function(element, number of each attribute...)` to each element; integers are computed in f64.

    `defaults` maps the names of float attributes to their defaults, in the order of the formula's parameters.
    """
    numbers = [call.real(name, default) for name, default in defaults.items()]
    inner = F64 if x.dtype.is_integer else x.dtype
    return formula(call.b, lambda v: function(v.to(inner), *numbers).to(x.dtype), x)


# -- arithmetic


@ONNX.converts("Mean")
def _mean(call: NodeCall, first: Tensor, *others: Tensor) -> Tensor:
    """Return the elementwise mean of the operands."""
    total = _variadic("add", call, first, *others)
    return formula(call.b, lambda v: v / float(1 + len(others)), total)


@ONNX.converts("Mod")
def _mod(call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Return the remainder of a division. It has the sign of x with the attribute fmod, else the sign of y."""
    return ops.binary(call.b, "rem" if call.flag("fmod") else "floor_rem", x, y)


@ONNX.converts("Pow")
def _pow(call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Return x to the power of y in the type of x.

    If both are integers, it is computed in the type of x. Otherwise it is computed in that type if it is a float, in
    f64 for integers of more than 16 bits, and in the type of y for smaller ones. Constant exponents 1, 2 and 3 of
    floats become multiplications.
    """
    if x.dtype.is_integer and y.dtype.is_integer:
        return ops.binary(call.b, "pow", x, ops.convert(call.b, y, x.dtype))
    if y.numbers is not None and y.numbers.size == 1 and x.dtype.is_float and y.dtype.has_numpy_values:
        exponent = float(y.numbers.reshape(-1)[0])
        if exponent in (1.0, 2.0, 3.0) and y.rank <= x.rank:  # else broadcasting adds axes to x
            return formula(call.b, lambda v: reduce(lambda p, q: p * q, [v] * int(exponent)), x)
    inner = x.dtype if x.dtype.is_float else F64 if x.dtype.bits > 16 else y.dtype
    power = ops.binary(call.b, "pow", ops.convert(call.b, x, inner), ops.convert(call.b, y, inner))
    return ops.convert(call.b, power, x.dtype)


@ONNX.converts("BitShift")
def _bit_shift(call: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Shift the bits of x by y. The result is 0 if the distance is the width of the type or more."""
    left = call.text("direction", choices=("LEFT", "RIGHT")) == "LEFT"
    bits = x.dtype.bits

    def shifted(lhs: Element, rhs: Element) -> Element:
        """Return lhs shifted by rhs; 0 if rhs is `bits` or more, for which the shift itself is undefined."""
        moved = lhs.binary("shift_left" if left else "shift_right_logical", rhs.min(bits - 1))
        return (rhs > bits - 1).where(0, moved)

    return formula(call.b, shifted, x, y)


@ONNX.converts("Clip")
def _clip(call: NodeCall, x: Tensor, lower: Tensor | None = None, upper: Tensor | None = None) -> Tensor:
    """Clamp x to bounds, which are attributes before version 11. If they contradict each other, the upper
    bound wins.
    """
    if call.version < 11:
        lower = call.b.constant(call.real("min", -math.inf), x.dtype)
        upper = call.b.constant(call.real("max", math.inf), x.dtype)
    if lower is not None:
        x = ops.binary(call.b, "max", x, lower)
    return x if upper is None else ops.binary(call.b, "min", x, upper)


# -- types


# Largest finite number of each small float; f8E8M0FNU, which has no signs, is converted by `_to_exponents`.
_LARGEST_FINITE = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0, "f8E4M3FNUZ": 240.0, "f8E5M2FNUZ": 57344.0, "f4E2M1FN": 6.0}


def cast_to(call: NodeCall, x: Tensor, to: DType, saturate: bool = True) -> Tensor:
    """Convert a tensor to another type. With `saturate`, values out of the range of a float of 8 bits or less become
    its largest finite number; those of f4E2M1FN always do.
    """
    # Integers below a byte are converted from and to bytes alone, and 8-bit floats from and to F32 alone.
    if x.dtype == to:
        return x
    if to.kind is Kind.FLOAT and to.bits <= 8:
        return _to_small_float(call, x, to, saturate)
    if to.is_integer and to.bits <= 4:
        x = ops.convert(call.b, x, I32) if x.dtype.is_float else x  # larger numbers wrap around
        return ops.convert(call.b, ops.convert(call.b, x, _byte_of(to)), to)
    if x.dtype.is_integer and x.dtype.bits <= 4:
        return ops.convert(call.b, ops.convert(call.b, x, _byte_of(x.dtype)), to)
    if x.dtype.kind is Kind.FLOAT and x.dtype.bits <= 8 and to != F32:
        return ops.convert(call.b, ops.convert(call.b, x, F32), to)
    return ops.convert(call.b, x, to)


def _byte_of(dtype: DType) -> DType:
    """Return the type of 8 bits with the signedness of `dtype`."""
    return U8 if dtype.is_unsigned else I8


def _to_small_float(call: NodeCall, x: Tensor, to: DType, saturate: bool) -> Tensor:
    """Convert a tensor to a float of 8 bits or less. f4E2M1FN always saturates, because it has no infinity
    and no NaN.
    """
    x = ops.convert(call.b, x, F32)
    largest = _LARGEST_FINITE.get(to.name)
    if largest is not None and (saturate or to.name == "f4E2M1FN"):
        # max and min propagate NaN, so NaN is not clamped.
        x = formula(call.b, lambda v: v.max(-largest).min(largest), x)
    return ops.convert(call.b, x, to)


@ONNX.converts("Cast")
def _cast(call: NodeCall, x: Tensor) -> Tensor:
    """Convert to the type that the attribute `to` states."""
    return _cast_with_attributes(call, x, dtype_of(call.integer("to")))


@ONNX.converts("CastLike")
def _cast_like(call: NodeCall, x: Tensor, like: Tensor) -> Tensor:
    """Convert to the type of another operand."""
    return _cast_with_attributes(call, x, like.dtype)


def _cast_with_attributes(call: NodeCall, x: Tensor, to: DType) -> Tensor:
    """Convert x to the type `to` as the attributes saturate and round_mode (for f8E8M0FNU alone) state."""
    saturate = call.flag("saturate", default=True)
    rounding = call.text("round_mode", "up", ("up", "down", "nearest"))
    if to.name == "f8E8M0FNU" and x.dtype != to:
        return _to_exponents(call, ops.convert(call.b, x, F32), to, rounding, saturate)
    return cast_to(call, x, to, saturate)


def _to_exponents(call: NodeCall, x: Tensor, to: DType, rounding: str, saturate: bool) -> Tensor:
    """Convert floats to f8E8M0FNU, the exponents of powers of two. Signs are dropped, and infinities become NaN.

    The byte e stands for 2^(e - 127), and 0xFF for NaN. 5.0 is 1.25 * 2^2: it becomes 129 (4.0) if it is rounded "down"
    or to "nearest", and 130 (8.0) if it is rounded "up".

    Args:
        call: The node.
        x: Floats in f32.
        to: The type f8E8M0FNU.
        rounding: "up", "down" or "nearest", which rounds the middle between two powers up.
        saturate: Whether numbers above the largest power become that; otherwise they become NaN.
    """

    def power(value: Element) -> Element:
        """Return the power of two that one element is rounded to, from the exponent and the fraction of its f32.

        `rounding` is "up", "down" or "nearest"; `to` is f8E8M0FNU, the exponent of an f32 without sign and fraction.
        """
        bits = value.bitcast(U32)
        exponent, fraction = (bits.binary("shift_right_logical", 23) & 0xFF), bits & 0x7FFFFF
        # An f32 has the same exponent bits, so that the exponent is the result, plus 1 if it is rounded up.
        # Half of the fraction's range: of a normal number, the middle between two powers. A subnormal number (exponent
        # 0) with this fraction is 2^-127, the power that f8E8M0FNU stores as 0: only larger ones are rounded up.
        half = 0x400000
        if rounding == "up":
            rounded = exponent + exponent.is_equal(0).where(fraction > half, fraction > 0).to(U32)
        elif rounding == "nearest":
            rounded = exponent + ((fraction > half) | (fraction.is_equal(half) & (exponent > 0))).to(U32)
        else:  # "down": without the fraction
            rounded = exponent
        # 0xFF is NaN, 0xFE the largest power.
        rounded = rounded.min(0xFE) if saturate else rounded
        return exponent.is_equal(0xFF).where(0xFF, rounded).to(U8).bitcast(to)

    return formula(call.b, power, x)


# -- choosing


@ONNX.converts("Where")
def _where(call: NodeCall, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return x where the condition holds, else y."""
    return ops.select(call.b, condition, x, y)


@ONNX.converts("IsInf")
def _is_inf(call: NodeCall, x: Tensor) -> Tensor:
    """Return whether each element is an infinity: -inf if `detect_negative`, inf if `detect_positive` is set."""
    negative, positive = call.flag("detect_negative", default=True), call.flag("detect_positive", default=True)
    if negative and positive:
        return ops.unary(call.b, "is_inf", x)
    if not (negative or positive):
        return formula(call.b, lambda v: v.unary("is_inf") & False, x)
    return formula(call.b, lambda v: v.unary("is_inf") & ((v < 0.0) if negative else (v > 0.0)), x)


@ONNX.converts("Identity")
def _identity(call: NodeCall, x: Tensor) -> Tensor:
    """Return the operand itself."""
    return x


# -- activations


@ONNX.converts("Gelu")
def _gelu(call: NodeCall, x: Tensor) -> Tensor:
    """Return the Gaussian error linear unit, exact or approximated by tanh."""
    approximate = call.text("approximate", "none", ("none", "tanh")) == "tanh"
    return formula(call.b, activations.tanh_gelu if approximate else activations.gelu, x)


@ONNX.converts("PRelu")
def _prelu(call: NodeCall, x: Tensor, slope: Tensor) -> Tensor:
    """Return x where it is positive, else x * slope."""
    return formula(call.b, activations.leaky_relu, x, slope)


@ONNX.converts("Dropout")
def _dropout(call: NodeCall, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> list[Tensor]:
    """Return x with elements dropped (set to 0) at random, and a mask that is true for those that are not dropped.

    Unless `training` is true, x itself is returned, and a mask of all true.

    Args:
        call: The node.
        x: The operand.
        ratio: Probability of dropping an element, by default 0.5. Elements that are not dropped are divided by
            1 - ratio, so that the expected sum is unchanged.
        training: A single bool, by default false.
    """
    b, drop_rate = call.b, ratio if ratio is not None else call.b.constant(0.5, F32)
    call.ignore("ratio")  # the attribute of early versions, which have no operand `training`
    seed = call.integer("seed") if call.has("seed") else None
    is_training = b.constant(elements=False, dtype=BOOL) if training is None else training
    if is_training.numbers is not None and not is_training.numbers.any():  # known to be false while compiling
        # x in the place of the mask is not used: the node has one result.
        return [x, shapes.full(b, value=True, shape=x.shape, dtype=BOOL) if call.results > 1 else x]
    random_bits, _ = random.draw(b, x.shape, seed)
    numbers = random.uniform(b, random_bits, F32)
    # `numbers` are uniform in [0, 1), so that n >= ratio holds with the probability 1 - ratio.
    mask = formula(b, lambda n, ratio, on: ~on | (n >= ratio.to(F32)), numbers, drop_rate, is_training)

    def kept(v: Element, is_kept: Element, ratio: Element, on: Element) -> Element:
        """Return an element that is scaled or dropped in training mode (`on`), else unchanged."""
        scaled = (v.to(F32) / (1.0 - ratio.to(F32))).to(v.dtype)
        return on.where(is_kept.where(scaled, 0.0), v)

    return [formula(b, kept, x, mask, drop_rate, is_training), mask]


_WITH_FLOATS: dict[str, tuple[Callable[..., Element], dict[str, float]]] = {
    "LeakyRelu": (activations.leaky_relu, {"alpha": 0.01}),
    "Elu": (activations.elu, {"alpha": 1.0}),
    "Celu": (activations.celu, {"alpha": 1.0}),
    "Selu": (activations.elu, {"alpha": 1.6732632423543772848, "gamma": 1.0507009873554804934}),
    "ThresholdedRelu": (activations.thresholded_relu, {"alpha": 1.0}),
    "HardSigmoid": (activations.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "Shrink": (activations.shrink, {"bias": 0.0, "lambd": 0.5}),
    "Swish": (activations.swish, {"alpha": 1.0}),
}
"""Operator → its formula, and the defaults of the float attributes that the formula has as further parameters."""

ONNX.register({
    **{name: partial(_unary, function) for name, function in {
        "Abs": "abs", "Neg": "neg", "Ceil": "ceil", "Floor": "floor", "Round": "round_even", "Sqrt": "sqrt",
        "Exp": "exp", "Log": "log", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos",
        "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh",
        "Atanh": "atanh", "Erf": "erf", "Sign": "sign", "Not": "not", "BitwiseNot": "not", "IsNaN": "is_nan",
        "Sigmoid": "logistic",
    }.items()},
    **{name: partial(_binary, function) for name, function in {
        "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "And": "and", "Or": "or", "Xor": "xor",
        "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor",
    }.items()},
    **{name: partial(_compare, order) for name, order in {
        "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le",
    }.items()},
    **{name: partial(_variadic, function) for name, function in {"Max": "max", "Min": "min", "Sum": "add"}.items()},
    **{name: partial(_formula, function) for name, function in {
        "Reciprocal": lambda v: 1.0 / v,
        "Relu": activations.relu,
        "HardSwish": activations.hard_swish,
        "Softplus": activations.softplus,
        "Softsign": activations.softsign,
        "Mish": activations.mish,
    }.items()},
    **{name: partial(_with_floats, *row) for name, row in _WITH_FLOATS.items()},
})  # fmt: skip
