"""Elementwise NumPy functions on traced arrays, which are recorded as operations of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.graph.dtypes import BOOL, DTYPES, I8
from pydispatch.graph.values import Tensor
from pydispatch.operations import (
    elementwise,
    shapes,
)
from pydispatch.operations.formulas import Element, formula
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import (
    as_type,
    division_operands,
    dtype_from,
    floats,
    is_bare,
    promoted,
    truth,
)
from pydispatch.programs.trace import Trace


def _numbers(trace: Trace, *operands: Any) -> list[Tensor]:
    """Return operands as tensors of one type. Raise CompileError for conditions."""
    tensors = promoted(trace, *operands)
    if tensors[0].dtype.is_bool:
        raise trace.fail("conditions are no numbers", "use ~, ^, or x.astype(numpy.int32)")
    return tensors


def _integers(trace: Trace, *operands: Any) -> list[Tensor]:
    """Return operands as tensors of one type; conditions become i8, in which NumPy divides and shifts them."""
    tensors = promoted(trace, *operands)
    return [elementwise.convert(trace, x, I8) for x in tensors] if tensors[0].dtype.is_bool else tensors


def _binary(name: str, of: Callable[..., list[Tensor]] = promoted) -> Callable[..., Array]:
    """Return the handler of a function of two operands: `name` in `Reals.binary`.

    `of` converts the operands to tensors of one type.
    """
    return lambda t, a, b: Array(t, elementwise.binary(t, name, *of(t, a, b)))


def _unary(name: str, of: Callable[..., list[Tensor]] = floats) -> Callable[..., Array]:
    """Return the handler of a function of one operand: `name` in `Reals.unary`. `of` converts it to a tensor."""
    return lambda t, a: Array(t, elementwise.unary(t, name, of(t, a)[0]))


def _formula(written: Callable[[Element], Element], of: Callable[..., list[Tensor]] = promoted) -> Callable[..., Array]:
    """Return the handler of a function of one operand; `written` returns its formula for one element.

    `of` converts the operand to a tensor.
    """
    return lambda t, a: Array(t, formula(t, written, of(t, a)[0]))


def _compare(order: str) -> Callable[..., Array]:
    """Return the handler of a comparison: eq, ne, lt, le, gt or ge."""
    return lambda t, a, b: Array(t, elementwise.compare(t, order, *promoted(t, a, b)))


def _same_type(name: str) -> Callable[..., Array]:
    """Return the handler of a rounding function, which returns integers unchanged.

    name: the operation, as `Reals.unary` names it. Only `round_even` takes complex numbers, and rounds both parts.
    """

    def function(trace: Trace, a: Any) -> Array:
        """Round floats by the operation `name`; return integers unchanged."""
        (x,) = promoted(trace, a)
        if x.dtype.is_complex and name != "round_even":
            raise trace.fail(f"numpy.{name} of {x}", "NumPy has it of real numbers only: x.real, x.imag")
        if x.dtype.is_complex:
            return Array(trace, formula(trace, lambda v: v.real.unary(name).with_imag(v.imag.unary(name)), x))
        return Array(trace, elementwise.unary(trace, name, x) if x.dtype.is_float else x)

    return function


def _test(name: str, of_integers: bool) -> Callable[..., Array]:
    """Return the handler of the test `name` of floats: is_nan, is_inf or is_finite.

    `of_integers` is its result for integers. A complex number is finite if both parts are; it is NaN or infinite if one
    part is.
    """

    def of_complex(value: Element) -> Element:
        """Combine the tests `name` of the two parts: both are finite, or one is NaN or infinite."""
        real, imag = value.real.unary(name), value.imag.unary(name)
        return real & imag if name == "is_finite" else real | imag

    def function(trace: Trace, a: Any) -> Array:
        """Return an array of truth values, the test `name` of each element; `of_integers` for integers."""
        (x,) = promoted(trace, a)
        if x.dtype.is_complex:
            return Array(trace, formula(trace, of_complex, x))
        if not x.dtype.is_float:
            return Array(trace, shapes.full(trace, of_integers, x.shape, BOOL))
        return Array(trace, elementwise.unary(trace, name, x))

    return function


def _logical(name: str) -> Callable[..., Array]:
    """Return the handler of "and", "or" or "xor" of truth values: 0 is false, any other number true."""
    return lambda t, a, b: Array(t, elementwise.binary(t, name, *(truth(t, operand) for operand in (a, b))))


def floor_divide(trace: Trace, a: Any, b: Any) -> Array:
    """Return the quotient rounded down; of integers 0 where b is 0."""
    x, y = _integers(trace, a, b)
    if x.dtype.is_float:
        return _floor_of_floats(trace, x, y)
    return _or_zero(trace, Array(trace, elementwise.binary(trace, "floor_div", x, y)), Array(trace, y))


def _or_zero(trace: Trace, value: Array, divisor: Array) -> Array:
    """Return an integer quotient or remainder, but 0 where the divisor is 0, as in NumPy."""
    return where(trace, divisor == 0, 0, value)


def _floor_of_floats(trace: Trace, x: Tensor, y: Tensor) -> Array:
    """Return the floor of the exact quotient, as NumPy and Python find it: 1 // 0.1 is 9, where 1 / 0.1
    rounds to 10.
    """
    a, b = Array(trace, x), Array(trace, y)
    truncated_remainder = Array(trace, elementwise.binary(trace, "rem", x, y))
    # The remainder has the sign of x. Where y has the other sign, the floor is one less than the truncated quotient:
    # -7 / 2 is truncated to -3, and its floor is -4.
    is_one_less = (truncated_remainder != 0) & ((truncated_remainder < 0) != (b < 0))
    quotient = (a - truncated_remainder) / b - is_one_less
    below = np.floor(quotient)  # the quotient is a whole number but for a rounding error: it is rounded to the nearest
    floor = where(trace, b == 0, a / b, below + (quotient - below > 0.5))  # a / 0 is infinite or NaN, as in NumPy
    # A zero, too, has the sign of the quotient.
    return Array(trace, elementwise.binary(trace, "copysign", *promoted(trace, floor, a / b)))


def remainder(trace: Trace, a: Any, b: Any) -> Array:
    """Return the elementwise remainder, with the sign of the divisor b; of integers 0 where b is 0."""
    x, y = _integers(trace, a, b)
    result = elementwise.binary(trace, "floor_rem", x, y)
    if x.dtype.is_float:  # a zero, too, has the sign of the divisor
        return Array(trace, elementwise.binary(trace, "copysign", result, y))
    return _or_zero(trace, Array(trace, result), Array(trace, y))


def fmod(trace: Trace, a: Any, b: Any) -> Array:
    """Return the elementwise remainder, with the sign of a; of integers 0 where b is 0."""
    x, y = _integers(trace, a, b)
    result = Array(trace, elementwise.binary(trace, "rem", x, y))
    return result if x.dtype.is_float else _or_zero(trace, result, Array(trace, y))


def float_power(trace: Trace, a: Any, b: Any) -> Array:
    """Return powers in f64, or in complex128 of complex numbers."""
    wide = DTYPES["c128" if promoted(trace, a, b)[0].dtype.is_complex else "f64"]
    return Array(trace, elementwise.binary(trace, "pow", *(as_type(trace, operand, wide) for operand in (a, b))))


def power(trace: Trace, a: Any, b: Any) -> Array:
    """Return a to the power of b. The numbers 2, 3 and 0.5 as powers are products and a square root.

    Raise CompileError for integers to a constant that has negative elements, as NumPy raises ValueError.
    """
    is_number = is_bare(b)  # a Python number, which adopts the type of a
    if is_number and b in (2, 3, 0.5) and isinstance(a, Array):
        x = promoted(trace, a, b)[0]
        if b == 0.5:
            return Array(trace, elementwise.unary(trace, "sqrt", x))
        square = elementwise.binary(trace, "mul", x, x)
        return Array(trace, square if b == 2 else elementwise.binary(trace, "mul", square, x))
    x, y = _integers(trace, a, b)
    if x.dtype.is_integer and y.numbers is not None and (y.numbers < 0).any():
        raise trace.fail(f"{x} to a negative power", "a power of integers is an integer: x.astype(float) ** -1")
    return Array(trace, elementwise.binary(trace, "pow", x, y))


def absolute(trace: Trace, a: Any) -> Array:
    """Return absolute values; unsigned integers are returned unchanged."""
    (x,) = promoted(trace, a)
    return Array(trace, x if x.dtype.is_unsigned else elementwise.unary(trace, "abs", x))


def where(trace: Trace, condition: Any, *operands: Any) -> Array:
    """Return elements of the first operand where a condition holds, and of the second one elsewhere."""
    if len(operands) != 2:
        raise trace.fail(
            "numpy.where with a condition alone gives as many places as hold", "give both values: where(c, a, b)"
        )
    return Array(trace, elementwise.select(trace, truth(trace, condition), *promoted(trace, *operands)))


def invert(trace: Trace, a: Any) -> Array:
    """Return the bitwise complement of integers, and the negation of conditions."""
    (x,) = promoted(trace, a)
    if x.dtype.is_bool:
        return Array(trace, elementwise.unary(trace, "not", x))
    all_bits = (1 << x.dtype.bits) - 1 if x.dtype.is_unsigned else -1
    return Array(trace, elementwise.binary(trace, "xor", x, trace.constant(all_bits, x.dtype)))


def clip(trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, **named: Any) -> Array:
    """Return a copy of `a` with its elements limited to the range from `a_min` to `a_max`; None is no limit.

    `min` and `max` are other names of `a_min` and `a_max`.
    """
    low, high = named.get("min", a_min), named.get("max", a_max)
    # Without a limit, a new array of the same tensor is the copy.
    result = Array(trace, trace.tensor_of(a)) if low is None and high is None else a
    if low is not None:
        result = np.maximum(result, low)
    return np.minimum(result, high) if high is not None else result


def astype(trace: Trace, a: Any, dtype: Any, copy: bool = True) -> Array:
    """Convert elements to another type. Without `copy`, return an array that has the type already as it is."""
    if not copy and isinstance(a, Array) and a.tensor.dtype == dtype_from(dtype):
        return a
    return Array(trace, elementwise.convert(trace, trace.tensor_of(a), dtype_from(dtype)))


def view(trace: Trace, a: Any, dtype: Any) -> Array:
    """Return the bits of the elements as another type, of the same width."""
    x, to = trace.tensor_of(a), dtype_from(dtype)
    have_bits = not any(dtype.is_complex or dtype.is_bool for dtype in (x.dtype, to))
    if x.dtype.bits != to.bits or not have_bits:
        raise trace.fail(f"a view of {x.dtype} as {to}", "a view has elements of the same width; use x.astype(...)")
    return Array(trace, elementwise.bitcast(trace, x, to))


def sign(trace: Trace, a: Any) -> Array:
    """Return -1, 0 or 1; of a negative zero, too, the positive one."""
    (x,) = _numbers(trace, a)
    result = Array(trace, elementwise.unary(trace, "sign", x))
    return result + 0 if x.dtype.is_float else result


def square(trace: Trace, a: Any) -> Array:
    """Return a * a. Conditions become i8, as in NumPy."""
    return power(trace, Array(trace, _integers(trace, a)[0]), b=2)


def reciprocal(trace: Trace, a: Any) -> Array:
    """Return 1 / a."""
    (x,) = _integers(trace, a)
    return Array(trace, elementwise.binary(trace, "div", trace.constant(1, x.dtype), x))


def around(trace: Trace, a: Any, decimals: int = 0) -> Array:
    """Round to whole numbers, half to even. Raise CompileError for `decimals` other than 0."""
    if decimals:
        raise trace.fail("rounding to decimals is not a part of programs", "multiply, round and divide")
    if trace.tensor_of(a).dtype.is_bool:
        return _unary("round_even")(trace, a)  # NumPy rounds conditions as floats, to f16
    return _same_type("round_even")(trace, a)


Array.UFUNCS |= {
    "add": _binary("add"), "subtract": _binary("sub", _numbers), "multiply": _binary("mul"),
    "divide": _binary("div", division_operands),
    "true_divide": _binary("div", division_operands), "floor_divide": floor_divide, "remainder": remainder,
    "fmod": fmod, "power": power, "float_power": float_power, "maximum": _binary("max"), "minimum": _binary("min"),
    "arctan2": _binary("atan2", floats), "copysign": _binary("copysign", floats), "bitwise_and": _binary("and"),
    "bitwise_or": _binary("or"), "bitwise_xor": _binary("xor"), "left_shift": _binary("shift_left", _integers),
    "right_shift": _binary("shift_right", _integers), "logical_and": _logical("and"), "logical_or": _logical("or"),
    "logical_xor": _logical("xor"), "equal": _compare("eq"), "not_equal": _compare("ne"), "less": _compare("lt"),
    "less_equal": _compare("le"), "greater": _compare("gt"), "greater_equal": _compare("ge"),
    "negative": _unary("neg", _numbers), "positive": lambda t, a: Array(t, t.tensor_of(a)),
    "absolute": absolute, "fabs": _unary("abs"), "sign": sign, "square": square,
    "reciprocal": reciprocal, "invert": invert, "conjugate": _formula(lambda v: v.conj(), _integers),
    "logical_not": lambda t, a: Array(t, elementwise.unary(t, "not", truth(t, a))),
    "floor": _same_type("floor"), "ceil": _same_type("ceil"), "trunc": _same_type("trunc"),
    "rint": lambda t, a: _same_type("round_even")(t, Array(t, floats(t, a)[0])),
    "isnan": _test("is_nan", of_integers=False), "isinf": _test("is_inf", of_integers=False),
    "isfinite": _test("is_finite", of_integers=True),
    "arcsin": _unary("asin"), "arccos": _unary("acos"), "arctan": _unary("atan"), "arcsinh": _unary("asinh"),
    "arccosh": _unary("acosh"), "arctanh": _unary("atanh"), "exp": _unary("exp"), "exp2": _unary("exp2"),
    "expm1": _unary("expm1"), "log": _unary("log"), "log2": _unary("log2"), "log10": _unary("log10"),
    "log1p": _unary("log1p"), "sqrt": _unary("sqrt"), "cbrt": _unary("cbrt"), "sin": _unary("sin"),
    "cos": _unary("cos"), "tan": _unary("tan"), "sinh": _unary("sinh"), "cosh": _unary("cosh"), "tanh": _unary("tanh"),
}  # fmt: skip

Array.FUNCTIONS |= {
    "astype": astype, "view": view, "where": where, "clip": clip, "round": around, "around": around,
    "erf": _unary("erf"), "copy": lambda t, a: a.copy(), "real": _formula(lambda v: v.real),
    "imag": _formula(lambda v: v.imag), "conj": _formula(lambda v: v.conj()),
}  # fmt: skip
