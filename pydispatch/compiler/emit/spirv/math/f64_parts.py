"""What the f64 functions are made of: numbers as unevaluated sums, the exponential, and a precise logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.math.number import Single
from pydispatch.compiler.emit.spirv.math.tables import LOG, POLYNOMIALS
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.types import double_bits
from pydispatch.compiler.emit.spirv.words import OP

SHIFT = 1.5 * 2.0**52
SHIFT_BITS = 0x4338000000000000
LN2_1, LN2_2 = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
LN2_FULL = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")
LOG2E = float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56")
PIO2 = float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")


class Double(Single):
    """An f64 in the function being written."""

    __slots__ = ()
    width = 64
    upper_digits = 0xFFFFFFFFF8000000
    polynomials = POLYNOMIALS

    @staticmethod
    def spell(value: float) -> int:
        return double_bits(value)

    def poly(self, name: str) -> Double:
        """A polynomial by its name; odd and even powers apart."""
        coefficients = self.polynomials[name]
        square = self * self
        even, odd = coefficients[-1::-2][::-1], coefficients[-2::-2][::-1]
        return _horner(square, odd).fma(self, _horner(square, even))


Pair: TypeAlias = tuple[Double, Double]
"""A number as an unevaluated sum, the larger part first."""


def _horner(x: Double, coefficients: Sequence[float]) -> Double:
    total = x.new(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.fma(x, coefficient)
    return total


def both(f: FunctionEmitter, a: Id, b: Id) -> Id:
    return f.code.let("LogicalAnd", f.m.bool(), a, b)


def any_of(f: FunctionEmitter, a: Id, b: Id) -> Id:
    return f.code.let("LogicalOr", f.m.bool(), a, b)


def whole_of(x: Double) -> Double:
    return x.glsl("Trunc")


def two_sum(a: Double, b: Double) -> Pair:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_sum(a: Double, b: Double) -> Pair:
    """Of numbers of which the first is not the smaller."""
    s = a + b
    return s, b - (s - a)


def shifted_integer(shifted: Double) -> Id:
    """k of k + SHIFT."""
    return shifted.word("ISub", shifted.bits(), SHIFT_BITS)


def scaled(x: Double, k: Id) -> Double:
    """x 2^k for -2100 < k < 2100, rounded once."""
    first = x.word("ShiftRightArithmetic", k, 1)
    powers = (first, x.word("ISub", k, first))
    for power in powers:
        x = x * x.from_bits(x.word("ShiftLeftLogical", x.word("IAdd", power, 1023), 52))
    return x


def expm1_reduced(r: Double, c: Double) -> Double:
    """e^(r + c) - 1 for |r| <= log(2)/2."""
    return r + (r * r * r.poly("exp").fma(r, 0.5) + (c + c * r))


def exp_parts(high: Double, low: Double) -> tuple[Double, Id]:
    """m and k of e^(high + low) = 2^k (1 + m)."""
    shifted = high * LOG2E[0] + SHIFT
    k = shifted - SHIFT
    head = high - k * LN2_1
    tail = low - k * LN2_2
    r = head + tail
    return expm1_reduced(r, (head - r) + tail), shifted_integer(shifted)


def exp_finish(parts: tuple[Double, Id], x: Double, overflow: float, underflow: float) -> Double:
    y = scaled(1.0 + parts[0], parts[1])
    y = x.new(float("inf")).pick(x.test("GreaterThan", overflow), y)
    return x.new(0.0).pick(x.test("LessThan", underflow), y)


def root_pair(high: Double, low: Double) -> Pair:
    """The root to twice the precision."""
    root = high.glsl("Sqrt")
    square, lost = root.product(root)
    return fast_sum(root, ((high - square) - lost + low) / (2.0 * root))


def table(like: Double, name: str, values: Sequence[float], row: Id, columns: int, column: int) -> Double:
    """A number of a constant table of the module."""
    f, m = like.f, like.f.m
    double = m.float(64)

    def make() -> Id:
        type_, made = m.array(double, len(values)), m.id()
        parts = [m.number(double_bits(value), 64) for value in values]
        m.globals += [(3 + len(parts)) << 16 | OP["ConstantComposite"], type_, made, *parts]
        return m.variable("Private", type_, made)

    variable = m.once(("table", name), make)
    index = like.word("IAdd", like.word("IMul", row, columns), column)
    place = f.code.let("AccessChain", m.pointer("Private", double), variable, index)
    return Double(f, f.code.let("Load", double, place))


def log_pair(x: Double) -> Pair:
    """log x of a positive finite x, with a relative error near 2^-66: see the device library."""
    small = x.test("LessThan", 2.0**-1022)
    bits = (x * 2.0**54).pick(small, x).bits()
    offset = x.word("ISub", bits, 0x3FE6000000000000)
    index = x.word("BitwiseAnd", x.word("ShiftRightLogical", offset, 45), 127)
    high = x.word("ShiftRightArithmetic", offset, 52)
    k = x.from_bits(x.word("IAdd", high, SHIFT_BITS)) - SHIFT - x.new(54.0).pick(small, 0.0)
    z = x.from_bits(x.word("ISub", bits, x.word("BitwiseAnd", offset, 0xFFF0000000000000)))
    head = z.upper()
    inverse, base, base_low = (table(x, "log", LOG, index, 3, part) for part in range(3))
    f, f_low = two_sum(head * inverse - 1.0, (z - head) * inverse)
    square, square_low = f.product(f)
    base = k * LN2_1 + base  # exact: both are multiples of 2^-42
    s, s_low = two_sum(base, f)
    t, t_low = two_sum(s, -0.5 * square)
    low = k * LN2_2 + base_low + (f_low - 0.5 * square_low - f * f_low)
    low = low + (square * f * f.poly("log of pairs") + (s_low + t_low))
    return fast_sum(t, low)
