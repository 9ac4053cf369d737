"""Floats of 16 bits and less: their bits to and from f32 in integer instructions, rounded once to nearest even.

Nothing here depends on how a device rounds or flushes: every step is exact on f32 normal numbers. Registers hold the
bits as integers extended with their sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.small_floats import Format
from pydispatch.compiler.emit.spirv.function import FunctionEmitter
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.types import is_native_float, single_bits
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, small_float
from pydispatch.formats.arrays.small_floats import EXPONENT_ONLY, FORMATS

Compute = Callable[[Id, list[Id]], Id]


class _Words:
    """32-bit arithmetic, written shortly. Plain ints are constants."""

    def __init__(self, f: FunctionEmitter) -> None:
        self.f, self.m, self.let = f, f.m, f.code.let
        self.int, self.float, self.bool = f.m.int(32), f.m.float(32), f.m.bool()

    def id(self, value: int) -> Id:
        return value if isinstance(value, Id) else self.m.integer(value)

    def op(self, name: str, a: int, b: int) -> Id:
        return self.let(name, self.int, self.id(a), self.id(b))

    def mask(self, a: int, b: int) -> Id:
        return self.op("BitwiseAnd", a, b)

    def either(self, a: int, b: int) -> Id:
        return self.op("BitwiseOr", a, b)

    def left(self, a: int, count: int) -> Id:
        return self.op("ShiftLeftLogical", a, count)

    def right(self, a: int, count: int) -> Id:
        return self.op("ShiftRightLogical", a, count)

    def plus(self, a: int, b: int) -> Id:
        return self.op("IAdd", a, b)

    def above(self, a: int, b: int) -> Id:
        return self.let("UGreaterThan", self.bool, self.id(a), self.id(b))

    def below(self, a: int, b: int) -> Id:
        return self.let("ULessThan", self.bool, self.id(a), self.id(b))

    def equal(self, a: int, b: int) -> Id:
        return self.let("IEqual", self.bool, self.id(a), self.id(b))

    def pick(self, condition: int, a: int, b: int) -> Id:
        return self.let("Select", self.int, condition, self.id(a), self.id(b))

    def as_float(self, bits: int) -> Id:
        return self.let("Bitcast", self.float, self.id(bits))

    def as_bits(self, value: int) -> Id:
        return self.let("Bitcast", self.int, value)

    def exact(self, name: str, a: int, b: int) -> Id:
        """f32 arithmetic as written."""
        made = self.let(name, self.float, a, b)
        self.m.decorate(made, "NoContraction")
        return made

    def single(self, value: float) -> Id:
        return self.m.number(single_bits(value), 32)

    def signed(self, value: int, bits: int) -> Id:
        return self.let("BitFieldSExtract", self.int, value, self.id(0), self.id(bits))


def compute_type(type_: Attribute) -> Attribute:
    """The type that values of `type_` compute in."""
    return type_ if is_native_float(type_) else Float32Type()


def widened(f: FunctionEmitter, type_: Attribute, operands: Sequence[Id]) -> tuple[Id, list[Id]]:
    """(SPIR-V type, operands) to compute with."""
    if not is_float(type_):
        raise f.error(f"operation '{f.op.name}' on {type_} cannot be compiled into a kernel")
    wide = compute_type(type_)
    return f.type(wide), [convert(f, operand, type_, wide) for operand in operands]


def computed(f: FunctionEmitter, type_: Attribute, operands: Sequence[Id], compute: Compute) -> Id:
    """`compute` in the type to compute in, and its result back in `type_`."""
    if isinstance(type_, Float32Type):
        return compute(f.m.float(32), list(operands))
    spelled, wider = widened(f, type_, operands)
    return convert(f, compute(spelled, wider), compute_type(type_), type_)


def convert(f: FunctionEmitter, operand: Id, source: Attribute, target: Attribute) -> Id:
    """A float in another float type, rounded to nearest even once."""
    if source == target:
        return operand
    w = _Words(f)
    if isinstance(source, Float32Type) and isinstance(target, Float64Type):
        return f.code.let("FConvert", f.type(target), operand)
    if isinstance(source, Float64Type) and isinstance(target, Float32Type):
        return f.code.let("FConvert", f.type(target), operand)
    if not is_native_float(source):
        single = _to_single(w, operand, source)
        return single if isinstance(target, Float32Type) else convert(f, single, Float32Type(), target)
    if isinstance(source, Float64Type):
        operand = _round_to_odd(w, operand)
    return _from_single(w, operand, target)


def _to_single(w: _Words, operand: Id, source: Attribute) -> Id:
    if isinstance(source, BFloat16Type):
        return w.as_float(w.left(operand, 16))
    if isinstance(source, Float16Type):
        return _widen_half(w, operand)
    name = small_float(source)
    assert name is not None
    return _widen_small(w, w.mask(operand, (1 << bit_width(source)) - 1), name)


def _from_single(w: _Words, operand: Id, target: Attribute) -> Id:
    if isinstance(target, BFloat16Type):
        bits = w.as_bits(operand)
        odd = w.mask(w.right(bits, 16), 1)
        rounded = w.plus(w.plus(bits, 32767), odd)
        is_nan = w.let("IsNan", w.bool, operand)
        return w.op("ShiftRightArithmetic", w.pick(is_nan, w.either(bits, 1 << 22), rounded), 16)
    if isinstance(target, Float16Type):
        return _narrow_half(w, operand)
    name = small_float(target)
    assert name is not None
    return w.signed(_narrow_small(w, operand, name), bit_width(target))


def _round_to_odd(w: _Words, operand: Id) -> Id:
    """f64 to f32 such that a second rounding to 16 bits and less comes out as if it were the only one."""
    double = w.m.float(64)
    nearest = w.let("FConvert", w.float, operand)
    back = w.let("FConvert", double, nearest)
    bits = w.as_bits(nearest)
    inexact = w.let("FOrdNotEqual", w.bool, back, operand)
    finite = w.below(w.mask(bits, 0x7FFFFFFF), 0x7F800000)
    even = w.equal(w.mask(bits, 1), 0)
    adjust = w.let("LogicalAnd", w.bool, w.let("LogicalAnd", w.bool, inexact, finite), even)
    magnitudes = [w.f.code.glsl("FAbs", double, x) for x in (operand, back)]
    step = w.pick(w.let("FOrdGreaterThan", w.bool, *magnitudes), 1, -1)
    return w.as_float(w.pick(adjust, w.plus(bits, step), bits))


def _widen_half(w: _Words, operand: Id) -> Id:
    sign = w.left(w.mask(operand, 0x8000), 16)
    magnitude = w.mask(operand, 0x7FFF)
    shifted = w.left(magnitude, 13)
    normal = w.plus(shifted, 112 << 23)
    # A subnormal is its mantissa times 2^-24, exactly.
    scaled = w.exact("FMul", w.let("ConvertUToF", w.float, magnitude), w.single(2.0**-24))
    value = w.pick(w.below(magnitude, 0x400), w.as_bits(scaled), normal)
    value = w.pick(w.above(magnitude, 0x7BFF), w.either(shifted, 0x7F800000), value)
    value = w.pick(w.above(magnitude, 0x7C00), w.either(value, 1 << 22), value)
    return w.as_float(w.either(value, sign))


def _narrow_half(w: _Words, operand: Id) -> Id:
    bits = w.as_bits(operand)
    sign = w.mask(w.right(bits, 16), 0x8000)
    magnitude = w.mask(bits, 0x7FFFFFFF)
    odd = w.mask(w.right(magnitude, 13), 1)
    # Rebias and round: -(112 << 23) + 0xFFF + odd.
    value = w.right(w.plus(w.plus(magnitude, 0xFFF - (112 << 23)), odd), 13)
    # Below 2^-14, adding 0.5 leaves the subnormal in the low bits, rounded by the addition itself.
    sum_ = w.exact("FAdd", w.as_float(magnitude), w.single(0.5))
    small = w.plus(w.as_bits(sum_), -single_bits(0.5))
    value = w.pick(w.below(magnitude, single_bits(2.0**-14)), small, value)
    value = w.pick(w.above(magnitude, 0x477FEFFF), 0x7C00, value)
    payload = w.either(w.mask(w.right(magnitude, 13), 511), 0x7E00)
    value = w.pick(w.above(magnitude, 0x7F800000), payload, value)
    return w.signed(w.either(value, sign), 16)


def _widen_small(w: _Words, code: Id, name: str) -> Id:
    if name == EXPONENT_ONLY:
        power = w.pick(w.equal(code, 0), 1 << 22, w.left(code, 23))
        return w.as_float(w.pick(w.equal(code, 255), 0x7FC00000, power))
    form = Format(*FORMATS[name])
    magnitude = w.mask(code, form.sign - 1)
    sign = w.left(w.mask(code, form.sign), 32 - form.bits)
    shifted = w.left(magnitude, 23 - form.fraction)
    normal = w.plus(shifted, (127 - form.bias) << 23)
    unit = w.single(2.0 ** (1 - form.bias - form.fraction))
    small = w.as_bits(w.exact("FMul", w.let("ConvertUToF", w.float, magnitude), unit))
    value = w.pick(w.below(magnitude, 1 << form.fraction), small, normal)
    if form.special == "ieee":
        value = w.pick(w.above(magnitude, form.most), w.either(shifted, 0x7F800000), value)
        value = w.pick(w.above(magnitude, form.most + 1), w.either(value, 1 << 22), value)
    elif form.special == "fn":
        value = w.pick(w.equal(magnitude, form.nan), 0x7FC00000, value)
    elif form.special == "fnuz":
        value = w.pick(w.equal(code, form.nan), 0x7FC00000, value)
    return w.as_float(w.either(value, sign))


def _narrow_small(w: _Words, operand: Id, name: str) -> Id:
    bits = w.as_bits(operand)
    if name == EXPONENT_ONLY:
        return w.mask(w.right(bits, 23), 255)
    form = Format(*FORMATS[name])
    magnitude = w.mask(bits, 0x7FFFFFFF)
    drop = 23 - form.fraction
    odd = w.mask(w.right(magnitude, drop), 1)
    rounding = (1 << (drop - 1)) - 1 - ((127 - form.bias) << 23)
    value = w.right(w.plus(w.plus(magnitude, rounding), odd), drop)
    value = w.pick(w.above(value, form.most), form.beyond, value)
    # Below the normal numbers, adding a number whose last place is the least subnormal rounds in its low bits.
    shift = 2.0 ** (24 - form.bias - form.fraction)
    small = w.plus(w.as_bits(w.exact("FAdd", w.as_float(magnitude), w.single(shift))), -single_bits(shift))
    value = w.pick(w.below(magnitude, single_bits(form.least_normal)), small, value)
    is_nan = w.above(magnitude, 0x7F800000)
    value = w.pick(is_nan, form.nan, value)
    sign = w.mask(w.right(bits, 32 - form.bits), form.sign)
    if form.special == "fnuz":  # there is no -0: its code is NaN
        sign = w.pick(w.equal(value, 0), 0, sign)
    if form.special == "finite":
        sign = w.pick(is_nan, 0, sign)
    return w.either(value, sign)
