"""Conversions of elementwise operations."""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from pydispatch.frontends.tosa.operators.fixed_point import saturated
from pydispatch.frontends.tosa.tracer import Convert, Results, TosaTracer
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I32, I64, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import integers, shapes
from pydispatch.operations.formulas import Element, extreme_ignoring_nan, formula
from pydispatch.operations.indexing import CoordinateBuilder, elements_at
from pydispatch.operations.reductions import largest, least

_UNARY = {
    "abs": "abs", "bitwise_not": "not", "ceil": "ceil", "clz": "count_leading_zeros", "cos": "cos", "erf": "erf",
    "exp": "exp", "floor": "floor", "log": "log", "logical_not": "not", "rsqrt": "rsqrt", "sigmoid": "logistic",
    "sin": "sin", "tanh": "tanh",
}  # fmt: skip
"""Names of unary TOSA operations, without the dialect, to names of functions of `elementwise.unary`."""
_BINARY = {
    "add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and",
    "logical_or": "or", "logical_xor": "xor", "pow": "pow", "sub": "sub",
}  # fmt: skip
"""Names of binary TOSA operations, without the dialect, to names of functions of `elementwise.binary`."""
_SHIFTS = {"logical_left_shift": "shift_left", "logical_right_shift": "shift_right_logical"}
"""Names of TOSA shifts to names of functions of `integers.shift`."""
_COMPARISONS = {"equal": "eq", "greater": "gt", "greater_equal": "ge"}
"""Names of TOSA comparisons to the relations of `elementwise.compare`."""


def _unary(function: str, tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Apply an elementwise function by its name, such as "exp"."""
    return ew.unary(tracer.b, function, x)


def _binary(function: str, tracer: TosaTracer, op: Operation, x: Tensor, y: Tensor) -> Results:
    """Apply an elementwise function of two operands by its name, such as "add"."""
    return ew.binary(tracer.b, function, x, y)


def _compare(order: str, tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Compare two operands of one type by the relation `order`: "eq", "gt" or "ge"."""
    tracer.same_type(*inputs)
    return ew.compare(tracer.b, order, inputs[0], inputs[1])


def _shift(function: str, tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Shift the bits of the first operand by the second. function: "shift_left" or "shift_right_logical"."""
    tracer.same_type(*inputs)
    return formula(tracer.b, partial(integers.shift, function), *inputs)


def extreme(name: str, ignore_nan: bool, lhs: Element, rhs: Element) -> Element:
    """Return the maximum or minimum of two numbers; `name` is "max" or "min".

    If a number is NaN, so is the result; with `ignore_nan` only if both numbers are NaN.
    """
    return extreme_ignoring_nan(name, lhs, rhs) if ignore_nan else lhs.binary(name, rhs)


def ignores_nan(tracer: TosaTracer, op: Operation) -> bool:
    """Return whether an operation skips NaN: its attribute `nan_mode` is IGNORE, not PROPAGATE, the default."""
    return tracer.word(op, "nan_mode", "PROPAGATE") == "IGNORE"


def _extreme(name: str, tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return the elementwise maximum or minimum; `name` is "max" or "min". The attribute `nan_mode` is obeyed."""
    tracer.same_type(*inputs)
    ignore = ignores_nan(tracer, op)
    return formula(tracer.b, lambda u, v: extreme(name, ignore, u, v), *inputs)


def _divide(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Divide integers, rounded towards zero. TOSA leaves division by 0 undefined; here it is -1 (all bits set)."""
    tracer.same_type(*inputs)
    return ew.apply(tracer.b, integers.divide, *inputs)


def _arithmetic_right_shift(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Shift right with copies of the sign. With the attribute `round`, add the last bit that is shifted out."""
    tracer.same_type(*inputs)
    rounded = bool(tracer.integer(op, "round", 0))

    def shifted(u: Element, n: Element) -> Element:
        """Return one element shifted right by n bits."""
        result = integers.shift("shift_right_arithmetic", u, n)
        if not rounded:
            return result
        # `where` discards the shift by n - 1 for n = 0, which shifts no bit out.
        return result + (n > 0).where(integers.shift("shift_right_arithmetic", u, n - 1) & 1, 0)

    return formula(tracer.b, shifted, *inputs)


def _mul(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Multiply; the products of integers are then shifted right by `shift` bits, rounded half up.

    For 5, 3 and the shift 2, the result is 15 / 4, rounded to 4: (15 + 2) >> 2. `shift` is the third operand, of one
    element, or an attribute in older releases.
    """
    tracer.same_type(inputs[0], inputs[1])
    dtype = tracer.dtype(op)
    if dtype.is_float:
        return ew.binary(tracer.b, "mul", inputs[0], inputs[1])
    shift = inputs[2] if len(inputs) > 2 else tracer.b.constant([tracer.integer(op, "shift", 0)], I32)
    if (known_shift := shift.numbers) is not None and not known_shift.any():  # no shift, so no 64-bit product is needed
        return formula(tracer.b, lambda u, v: u.to(dtype) * v.to(dtype), inputs[0], inputs[1])

    def product(u: Element, v: Element, n: Element) -> Element:
        """Return the product of one pair of elements in 64 bits, plus half of 2^n, shifted right by n bits."""
        n = n.to(I64)
        result = u.to(I64) * v.to(I64)
        # 2^(n - 1), or 0 for n = 0: `where` discards the shift there, and `max` keeps its count from being negative.
        half = (n > 0).where(n.const(1).binary("shift_left", (n - 1).max(0)), n.const(0))
        return (result + half).binary("shift_right_arithmetic", n).to(dtype)

    return formula(tracer.b, product, inputs[0], inputs[1], shapes.reshape(tracer.b, shift, []))


def _negate(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Negate floats. Of integers the zero points are considered: input_zp - x + output_zp, clamped to their type."""
    dtype = inputs[0].dtype
    if dtype.is_float:
        return ew.unary(tracer.b, "neg", inputs[0])
    zeros = [  # `of` names the entry of the attribute `quantization_info`, which older releases have
        tracer.zero_point(op, inputs, index=1, name="input1_zp", dtype=dtype, of="input_zp"),
        tracer.zero_point(op, inputs, index=2, name="output_zp", dtype=dtype),
    ]
    zeros = [shapes.reshape(tracer.b, zero, []) for zero in zeros]

    def negated(u: Element, input_zero: Element, output_zero: Element) -> Element:
        """Return one element negated, computed in 64 bits."""
        return saturated(input_zero.to(I64) - u.to(I64) + output_zero.to(I64), dtype)

    return formula(tracer.b, negated, inputs[0], *zeros)


def _select(tracer: TosaTracer, op: Operation, *inputs: Tensor) -> Results:
    """Return elements of the second operand where the first is true, else of the third."""
    tracer.same_type(inputs[1], inputs[2])
    if not inputs[0].dtype.is_bool:
        raise tracer.b.fail(f"the condition is {inputs[0]}, expected truth values")
    return ew.select(tracer.b, *inputs)


def _limit(value: Attribute | None, default: float) -> float:
    """Return the number in an attribute; `default` if the attribute is None, as it is missing."""
    return value.value.data if isinstance(value, IntegerAttr | FloatAttr) else default


def _clamp(tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Limit numbers to the bounds in the attributes `min_val` and `max_val`; without one, to the range of the type.

    Older releases have one pair of bounds for floats (`min_fp`) and one for integers (`min_int`). NaN remains NaN, or
    becomes the lower bound if the attribute `nan_mode` is IGNORE.

    Raise CompileError if the lower bound is above the upper one.
    """
    dtype = x.dtype
    old_suffix = "fp" if dtype.is_float else "int"
    low = _limit(op.properties.get("min_val", op.properties.get(f"min_{old_suffix}")), least(dtype))
    high = _limit(op.properties.get("max_val", op.properties.get(f"max_{old_suffix}")), largest(dtype))
    if dtype.is_unsigned:  # Attributes store unsigned bounds as signed numbers with the same bits.
        low, high = (int(n) & int(largest(dtype)) for n in (low, high))
    if low > high:
        raise tracer.b.fail(f"the least value {low} is above the largest, {high}")
    ignore = ignores_nan(tracer, op)

    def clamped(u: Element) -> Element:
        """Return one element limited to the bounds."""
        return extreme("min", ignore, extreme("max", ignore, u, u.const(low)), u.const(high))

    return formula(tracer.b, clamped, x)


def _cast(tracer: TosaTracer, op: Operation, x: Tensor) -> Results:
    """Convert elements to the result's type; floats are rounded to integers by `_rounded`."""
    dtype = tracer.dtype(op)
    if not x.dtype.is_float or not dtype.is_integer:
        return ew.convert(tracer.b, x, dtype)
    return formula(tracer.b, lambda u: _rounded(u, dtype), x)


def _rounded(u: Element, dtype: DType) -> Element:
    """Return a float rounded half to even, as an integer. Numbers out of range are clamped; NaN becomes 0."""
    low, high = int(least(dtype)), int(largest(dtype))
    rounded = u.unary("round_even")
    # The largest integer may not be representable as a float, but the power of two above it is. Numbers that reach it
    # are not converted.
    below, above = u.const(float(low)), u.const(float(high + 1))
    inside = (rounded >= below) & (rounded < above)
    result = inside.where(rounded, u.const(0)).to(dtype)
    result = (rounded >= above).where(result.const(high), result)
    return (rounded < below).where(result.const(low), result)


def _table(tracer: TosaTracer, op: Operation, values: Tensor, table: Tensor) -> Results:
    """Return the entries of a table at 8-bit values, or interpolated between entries for 16-bit values.

    Entry 0 belongs to the least value, -128 or -32768. Of 513 entries, entry i belongs to value 128 * i - 32768; the
    last one only bounds the last interpolation. Results for 16-bit values are 128 times the interpolated entries.

    Example: value -126 gives entry 2 of 256. Of a table that begins with 10, 30, value -32704, which is halfway between
    the values of entries 0 and 1, gives 128 * 20 = 2560.

    Raise CompileError if the values are not of 8 or 16 bits, or the table has another number of entries.
    """
    entry_count = {8: 256, 16: 513}.get(values.dtype.bits)
    if table.shape != (entry_count,) or not values.dtype.is_integer:
        raise tracer.b.fail(f"a table for {values} has {entry_count or 'no'} entries, got {table}")
    if values.dtype.bits == 8:
        position = formula(tracer.b, lambda u: u.to(I32) + 128, values)
        return _looked_up(tracer.b, table, position)
    # The upper 9 bits are the index in the table; the lower 7 bits interpolate between this entry and the next one.
    position = formula(
        tracer.b, lambda u: (u.to(I32) + 32768).binary("shift_right_arithmetic", u.const(7).to(I32)), values
    )
    here = _looked_up(tracer.b, table, position)
    following = _looked_up(tracer.b, table, formula(tracer.b, lambda n: n + 1, position))

    def between(u: Element, a: Element, c: Element) -> Element:
        """Return the entry a of the table times 128, advanced towards the next entry c by the lower 7 bits of u.

        These bits of u are also those of u + 32768, the distance from the least value.
        """
        a, c = a.to(I32), c.to(I32)
        return a * 128 + (c - a) * (u.to(I32) & 127)

    return ew.convert(tracer.b, formula(tracer.b, between, values, here, following), tracer.dtype(op))


def _looked_up(builder: Builder, table: Tensor, positions: Tensor) -> Tensor:
    """Return the elements of a vector `table` at the indices `positions`, in the shape of `positions`.

    Indices must be in bounds.
    """

    def coordinates(coords: CoordinateBuilder) -> list[object]:
        """Return the index in the table: the element of `positions`."""
        return [coords.index_of(coords.elements[0])]

    return elements_at(builder, table, positions.shape, coordinates, positions)  # type: ignore[arg-type]


ROWS: dict[str, Convert] = {
    **{f"tosa.{name}": partial(_unary, function) for name, function in _UNARY.items()},
    **{f"tosa.{name}": partial(_binary, function) for name, function in _BINARY.items()},
    **{f"tosa.{name}": partial(_shift, function) for name, function in _SHIFTS.items()},
    **{f"tosa.{name}": partial(_compare, order) for name, order in _COMPARISONS.items()},
    "tosa.maximum": partial(_extreme, "max"), "tosa.minimum": partial(_extreme, "min"), "tosa.div": _divide,
    "tosa.intdiv": _divide, "tosa.arithmetic_right_shift": _arithmetic_right_shift, "tosa.mul": _mul,
    "tosa.negate": _negate, "tosa.reciprocal": lambda t, op, x: formula(t.b, lambda u: u.const(1) / u, x),
    "tosa.select": _select, "tosa.clamp": _clamp, "tosa.cast": _cast, "tosa.table": _table,
    "tosa.identity": lambda t, op, x: x,
}  # fmt: skip
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
