"""arith.remf exactly, as C's fmod: long division of the digits, since OpFRem may be a quotient times the divisor."""

from __future__ import annotations

from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.math.number import Single
from pydispatch.compiler.emit.spirv.module import Id

STEPS = 4
"""Of the division in an iteration; one more stands in front of them, and is all for most quotients."""


def remainder(f: FunctionEmitter, number: type[Single], a: Id, b: Id) -> Id:
    """x - y trunc(x / y), with the sign of x. NaN for an infinite x and for y = 0; x for an infinite y."""
    x, y = number(f, a), number(f, b)
    m, let, width = f.m, f.code.let, x.width
    fraction = 52 if width == 64 else 23
    most = width - fraction - 1  # digits that a rest can be shifted by
    exponents = (1 << (width - 1 - fraction)) - 1
    kind, word, zero = m.int(width), x.word, m.integer(0, width)

    def pick(condition: Id, one: Id, other: Id) -> Id:
        return let("Select", kind, condition, one, other)

    def parts(value: Single) -> tuple[Id, Id]:
        """(digits, exponent) of a size; the exponent 1 for subnormal numbers too."""
        bits = value.size().bits()
        exponent = word("ShiftRightLogical", bits, fraction)
        digits = word("BitwiseAnd", bits, (1 << fraction) - 1)
        subnormal = let("IEqual", m.bool(), exponent, zero)
        normal = word("BitwiseOr", digits, 1 << fraction)
        return pick(subnormal, digits, normal), pick(subnormal, m.integer(1, width), exponent)

    (mine, high), (divisor, low) = parts(x), parts(y)
    divisor = pick(let("IEqual", m.bool(), divisor, zero), m.integer(1, width), divisor)  # y = 0 gives NaN below
    smaller = x.size().test("LessThan", y.size())
    left = word("ISub", high, low)
    left = pick(let("SLessThan", m.bool(), left, zero), zero, left)

    def step(rest: Id, left: Id) -> tuple[Id, Id]:
        many = let("SGreaterThan", m.bool(), left, m.integer(most, width))
        now = pick(many, m.integer(most, width), left)
        return word("UMod", word("ShiftLeftLogical", rest, now), divisor), word("ISub", left, now)

    def again(counter: Id, carried: list[Id]) -> list[Id]:
        rest, left = carried
        for _ in range(STEPS):
            rest, left = step(rest, left)
        return [rest, left]

    rest, left = step(word("UMod", mine, divisor), left)
    count = word("UDiv", word("IAdd", left, STEPS * most - 1), STEPS * most)
    carried = [(kind, rest), (kind, left)]
    longest = -(-((1 << (width - 1 - fraction)) + fraction) // (STEPS * most))
    rest, _ = f.loop(m.integer(0, width), count, m.integer(1, width), carried, again, kind, width=width, most=longest)
    # `rest` units of the divisor's last place: a normal number, or the bits of a subnormal one.
    whole = number(f, let("ConvertUToF", m.float(width), rest)).bits()
    unit = word("ISub", low, (exponents >> 1) + fraction)
    normal = word("IAdd", whole, word("ShiftLeftLogical", unit, fraction))
    bits = word("IAdd", word("ShiftRightLogical", whole, fraction), unit)
    down = word("ISub", low, 1)
    near = pick(let("SGreaterThan", m.bool(), down, m.integer(fraction, width)), m.integer(fraction, width), down)
    none = let("IEqual", m.bool(), rest, zero)
    small = let("LogicalOr", m.bool(), let("SLessThanEqual", m.bool(), bits, zero), none)
    found = pick(small, word("ShiftLeftLogical", rest, near), normal)
    y_or_x = x.size().pick(smaller, x.from_bits(found)).with_sign_of(x)
    strange = let("LogicalOr", m.bool(), y.test("Equal", 0.0), x.size().test("Equal", float("inf")))
    strange = let("LogicalOr", m.bool(), strange, let("LogicalOr", m.bool(), x.is_nan(), y.is_nan()))
    return x.new(float("nan")).pick(strange, y_or_x).id
