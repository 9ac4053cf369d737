"""Derivatives of functions of numbers, in the bodies of operations on tensors.

A rule is passed the operands, the result, and the cotangent of the result. It returns a cotangent for each operand;
None for an operand by which the derivative is 0 everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydispatch.operations.elements import Element

Partials = tuple[Element | None, ...]
"""Result of a rule: cotangent of each operand; None for an operand by which the derivative is 0 everywhere."""
ElementRule = Callable[..., Partials]
"""rule(operands..., result, cotangent of the result) -> cotangents of the operands. In the rules below, operands are a
and b or x, the result is y, and its cotangent d."""


def _of_one(derivative: Callable[[Element, Element], Element]) -> ElementRule:
    """Return the rule of a function y of one number x: the cotangent of x is that of y, d, times the derivative.

    derivative: derivative(x, y) emits the derivative of the function at x.
    """
    return lambda x, y, d: (d * derivative(x, y),)


def _quotient(a: Element, b: Element, y: Element, d: Element) -> Partials:
    """Return the cotangents of a and b in y = a / b: d / b, and -d y / b."""
    by_dividend = d / b
    return by_dividend, -(by_dividend * y)


def _remainder(a: Element, b: Element, y: Element, d: Element) -> Partials:
    """Return the cotangents of a and b in y = a - trunc(a / b) b: d, and -d trunc(a / b)."""
    return d, -(d * (a / b).unary("trunc"))


def _extreme(order: str) -> ElementRule:
    """Return the rule of the larger (`order` "gt") or smaller ("lt") of two numbers. Equal numbers get half of the
    cotangent each.
    """

    def rule(a: Element, b: Element, y: Element, d: Element) -> Partials:
        """Return d for the operand that is the result, and 0 for the other; d / 2 for each of two equal operands."""
        half = a.is_equal(b).where(d * 0.5, 0.0)
        return a.compare(order, b).where(d, half), b.compare(order, a).where(d, half)

    return rule


def _power(a: Element, b: Element, y: Element, d: Element) -> Partials:
    """Return the cotangents of a and b in y = a ** b: d b a ** (b - 1), and d y log(a).

    The first is 0 where b is 0, and the second is 0 where a is not positive: the formulas would be infinite or NaN.
    """
    by_base = b.is_equal(0).where(0.0, d * b * a.binary("pow", b - 1))
    by_exponent = (a > 0).where(d * y * a.unary("log"), 0.0)
    return by_base, by_exponent


def _atan2(a: Element, b: Element, y: Element, d: Element) -> Partials:
    """Return the cotangents of a and b in y = atan2(a, b): d b / (a a + b b), and -d a / (a a + b b).

    Both are divided by the larger magnitude first, so that no square of finite numbers overflows or becomes 0.
    """
    size = a.unary("abs").max(b.unary("abs"))
    size = (size < math.inf).where(size, 1.0)  # the quotient of two infinities would be NaN
    u, v = a / size, b / size
    scale = d / (u * u + v * v) / size
    return scale * v, -(scale * u)


def _one_minus_square(x: Element) -> Element:
    """Return 1 - x x as a product, which has full precision beside 1."""
    return (1 - x) * (1 + x)


def _copysign(a: Element, b: Element, y: Element, d: Element) -> Partials:
    """Return the cotangent of a in y, which is |a| with the sign of b: d if a and b have the same sign, else -d."""
    return a.is_equal(y).where(d, -d), None  # 0.0 is equal to -0.0: its sign does not turn the gradient


def _converted(x: Element, y: Element, d: Element) -> Partials:
    """Return the cotangent of the operand of a conversion: d in the operand's type."""
    return (d.to(x.dtype),)


def _constant(x: Element, y: Element, d: Element) -> Partials:
    """Return no cotangent: the function is constant between jumps."""
    return (None,)


ELEMENT_RULES: dict[str, ElementRule] = {
    "arith.addf": lambda a, b, y, d: (d, d),
    "arith.subf": lambda a, b, y, d: (d, -d),
    "arith.mulf": lambda a, b, y, d: (d * b, d * a),
    "arith.divf": _quotient,
    "arith.remf": _remainder,
    "arith.negf": lambda x, y, d: (-d,),
    "arith.maximumf": _extreme("gt"),
    "arith.minimumf": _extreme("lt"),
    "arith.select": lambda c, a, b, y, d: (None, c.where(d, 0.0), c.where(d.const(0.0), d)),
    "arith.extf": _converted,
    "arith.truncf": _converted,
    "math.absf": _of_one(lambda x, y: x.unary("sign")),
    "math.sqrt": _of_one(lambda x, y: 0.5 / y),
    "math.rsqrt": _of_one(lambda x, y: -0.5 * y / x),
    "math.cbrt": _of_one(lambda x, y: 1 / (3 * y * y)),
    "math.exp": _of_one(lambda x, y: y),
    "math.exp2": _of_one(lambda x, y: y * math.log(2)),
    "math.expm1": _of_one(lambda x, y: y + 1),
    "math.log": _of_one(lambda x, y: 1 / x),
    "math.log2": _of_one(lambda x, y: 1 / (x * math.log(2))),
    "math.log10": _of_one(lambda x, y: 1 / (x * math.log(10))),
    "math.log1p": _of_one(lambda x, y: 1 / (x + 1)),
    "math.sin": _of_one(lambda x, y: x.unary("cos")),
    "math.cos": _of_one(lambda x, y: -x.unary("sin")),
    "math.tan": _of_one(lambda x, y: y * y + 1),
    "math.asin": _of_one(lambda x, y: _one_minus_square(x).unary("rsqrt")),
    "math.acos": _of_one(lambda x, y: -_one_minus_square(x).unary("rsqrt")),
    "math.atan": _of_one(lambda x, y: 1 / (x * x + 1)),
    "math.sinh": _of_one(lambda x, y: x.unary("cosh")),
    "math.cosh": _of_one(lambda x, y: x.unary("sinh")),
    "math.tanh": _of_one(lambda x, y: 1 - y * y),
    "math.asinh": _of_one(lambda x, y: (x * x + 1).unary("rsqrt")),
    "math.acosh": _of_one(lambda x, y: (x - 1).unary("rsqrt") * (x + 1).unary("rsqrt")),
    "math.atanh": _of_one(lambda x, y: 1 / _one_minus_square(x)),
    "math.erf": _of_one(lambda x, y: (-(x * x)).unary("exp") * (2 / math.sqrt(math.pi))),
    "math.erfc": _of_one(lambda x, y: (-(x * x)).unary("exp") * (-2 / math.sqrt(math.pi))),
    "math.powf": _power,
    "math.atan2": _atan2,
    "math.copysign": _copysign,
    "math.fma": lambda a, b, c, y, d: (d * b, d * a, d),
    **dict.fromkeys(("math.ceil", "math.floor", "math.round", "math.roundeven", "math.trunc"), _constant),
}  # fmt: skip
"""Rules by the name of the operation. Functions that are constant between jumps have the derivative 0."""
