"""math: one row per operation. f32 and narrower through f32 and power, f64 through f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.math import f32 as single
from pydispatch.compiler.emit.spirv.math.number import Single
from pydispatch.compiler.emit.spirv.math.small_floats import computed, widened
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.arith import bits_of, wrap, zero_extended
from pydispatch.compiler.emit.spirv.ops.floats import float_extreme, float_op
from pydispatch.compiler.emit.spirv.types import double_bits, is_native_float, known, single_bits
from pydispatch.compiler.emit.spirv.words import GLSL, OP
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.formats.arrays.small_floats import least_normal

MAX_INLINE_POWER = 64
Compute = Callable[[Id, list[Id]], Id]


def is_double(f: FunctionEmitter, type_: Id) -> bool:
    return type_ != f.m.float(32)


def number(f: FunctionEmitter, value: float, type_: Id) -> Id:
    """A constant of the type that is computed in."""
    return f.m.number(double_bits(value), 64) if is_double(f, type_) else f.m.number(single_bits(value), 32)


def _computed(f: FunctionEmitter, op: Operation, compute: Compute, count: int | None = None) -> None:
    operands = [f.get(o) for o in list(op.operands)[:count]]
    f.define(op.results[0], computed(f, op.results[0].type, operands, compute))


def function_of(f: FunctionEmitter, name: str, type_: Id) -> Callable[..., Single]:
    """A function of plain arithmetic by its name, in the type to compute in."""
    if is_double(f, type_):
        from pydispatch.compiler.emit.spirv.math import f64

        return f64.FUNCTIONS[name]
    if name in single.FUNCTIONS:
        return single.FUNCTIONS[name]
    from pydispatch.compiler.emit.spirv.math import f32_angles as angles
    from pydispatch.compiler.emit.spirv.math import power as spirv_power

    functions: dict[str, Callable[..., Single]] = {
        **spirv_power.FUNCTIONS, **angles.FUNCTIONS, "atan2": single.atan2
    }  # fmt: skip
    return functions[name]


def applied(f: FunctionEmitter, name: str, type_: Id, operands: list[Id]) -> Id:
    number: type[Single] = Single
    if is_double(f, type_):
        from pydispatch.compiler.emit.spirv.math.f64_parts import Double

        number = Double
    return function_of(f, name, type_)(*(number(f, o) for o in operands)).id


def _own(name: str) -> Lowering:
    """A function of spirv_single and spirv_power, or of spirv_double."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        _computed(f, op, lambda type_, operands: applied(f, name, type_, operands))

    return lower


def _glsl(name: str) -> Lowering:
    """An instruction that is exact, or right to the last place, in f32 and f64."""

    head, which = 5 << 16 | OP["ExtInst"], GLSL[name]

    def lower(f: FunctionEmitter, op: Operation) -> None:
        (result,) = op.results
        if type(result.type) is Float32Type:
            values, m = f.values, f.m
            operands: list[Any] = [values[o] for o in operands_of(op)]
            type_, glsl, made = m.float(32), m.glsl(), Id(m.bound)
            m.bound += 1
            f.code.lines += (head + (len(operands) << 16), type_, made, glsl, which, *operands)
            values[result] = made
            return
        _computed(f, op, lambda type_, operands: f.code.glsl(name, type_, *operands))

    return lower


def _round(f: FunctionEmitter, op: Operation) -> None:
    """Halves away from zero: GLSL's Round may go either way."""

    def compute(type_: Id, operands: list[Id]) -> Id:
        x, let, m = operands[0], f.code.let, f.m
        down = f.code.glsl("Trunc", type_, x)
        rest = f.code.glsl("FAbs", type_, float_op(f, "FSub", type_, x, down))
        away = let("FOrdGreaterThanEqual", m.bool(), rest, number(f, 0.5, type_))
        one = copied_sign(f, type_, number(f, 1.0, type_), x)
        moved = float_op(f, "FAdd", type_, down, one)
        return copied_sign(f, type_, let("Select", type_, away, moved, down), x)

    _computed(f, op, compute)


def copied_sign(f: FunctionEmitter, type_: Id, magnitude: Id, sign: Id) -> Id:
    width = 64 if is_double(f, type_) else 32
    m, let, int_ = f.m, f.code.let, f.m.int(width)
    low = let("BitwiseAnd", int_, let("Bitcast", int_, magnitude), m.integer((1 << (width - 1)) - 1, width))
    high = let("BitwiseAnd", int_, let("Bitcast", int_, sign), m.integer(1 << (width - 1), width))
    return let("Bitcast", type_, let("BitwiseOr", int_, low, high))


def _sign_bits(absolute: bool) -> Lowering:
    """absf, copysign: bits alone."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        if not is_native_float(type_) and bit_width(type_) == 16:
            let, word, m = f.code.let, f.m.int(32), f.m
            result = let("BitwiseAnd", word, f.get(op.operands[0]), m.integer(0x7FFF))
            if not absolute:
                sign = let("BitwiseAnd", word, f.get(op.operands[1]), m.integer(-0x8000))
                result = let("BitwiseOr", word, result, sign)
            f.define(op.results[0], result)
        elif absolute:
            _computed(f, op, lambda t, x: f.code.glsl("FAbs", t, *x))
        else:
            _computed(f, op, lambda t, x: copied_sign(f, t, *x))

    return lower


def _rsqrt(f: FunctionEmitter, op: Operation) -> None:
    def compute(type_: Id, operands: list[Id]) -> Id:
        return float_op(f, "FDiv", type_, number(f, 1.0, type_), f.code.glsl("Sqrt", type_, *operands))

    _computed(f, op, compute)


def _clampf(f: FunctionEmitter, op: Operation) -> None:
    """min(max(value, low), high), where a NaN goes through."""

    def compute(type_: Id, operands: list[Id]) -> Id:
        raised = float_extreme(f, "maximum", type_, operands[0], operands[1])
        return float_extreme(f, "minimum", type_, raised, operands[2])

    _computed(f, op, compute)


def _sincos(f: FunctionEmitter, op: Operation) -> None:
    type_, operand = op.results[0].type, f.get(op.operands[0])
    for result, name in zip(op.results, ("sin", "cos"), strict=True):

        def compute(spelled: Id, operands: list[Id], name: str = name) -> Id:
            return applied(f, name, spelled, operands)

        f.define(result, computed(f, type_, [operand], compute))


def _classify(test: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_, (x,) = widened(f, op.operands[0].type, [f.get(op.operands[0])])
        m, let = f.m, f.code.let
        if test == "IsNan":
            f.define(op.results[0], let("IsNan", m.bool(), x))
            return
        magnitude = f.code.glsl("FAbs", type_, x)
        f.define(op.results[0], let(test, m.bool(), magnitude, number(f, float("inf"), type_)))

    return lower


def _isnormal(f: FunctionEmitter, op: Operation) -> None:
    source = op.operands[0].type
    m, let = f.m, f.code.let
    bits = bit_width(source)
    if bits < 16:
        from pydispatch.compiler.kernel_ir.types import small_float

        name = small_float(source)
        assert name is not None
        type_, (x,) = widened(f, source, [f.get(op.operands[0])])
        magnitude = f.code.glsl("FAbs", type_, x)
        large = let("FOrdGreaterThanEqual", m.bool(), magnitude, number(f, least_normal(name), type_))
        finite = let("FOrdLessThan", m.bool(), magnitude, number(f, float("inf"), type_))
        f.define(op.results[0], let("LogicalAnd", m.bool(), large, finite))
        return
    digits = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[str(source)]
    width = max(32, bits)
    raw = f.get(op.operands[0])
    raw = let("Bitcast", m.int(width), raw) if is_native_float(source) else raw
    magnitude = let("BitwiseAnd", m.int(width), raw, m.integer((1 << (bits - 1)) - 1, width))
    moved = let("ISub", m.int(width), magnitude, m.integer(1 << digits, width))
    limit = ((1 << (bits - 1 - digits)) - 2) << digits
    f.define(op.results[0], let("ULessThan", m.bool(), moved, m.integer(limit, width)))


def _absi(f: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width, value = bits_of(f, type_), f.width(type_), f.get(op.operands[0])
    if width == 1:
        f.define(op.results[0], value)
        return
    negative = f.code.let("SLessThan", f.m.bool(), value, f.m.integer(0, width))
    negated = wrap(f, f.code.let("SNegate", f.m.int(width), value), bits, width)
    f.define(op.results[0], f.code.let("Select", f.m.int(width), negative, negated, value))


def _halves(f: FunctionEmitter, value: Id) -> tuple[Id, Id]:
    """The low and the high word of a 64-bit number."""
    m, let = f.m, f.code.let
    high = let("ShiftRightLogical", m.int(64), value, m.integer(32))
    return let("UConvert", m.int(32), value), let("UConvert", m.int(32), high)


def _count(kind: str) -> Lowering:
    """ctlz, cttz, ctpop. Of 0 the width."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width, m, let = bits_of(f, type_), f.width(type_), f.m, f.code.let
        if width == 1:
            value = f.get(op.operands[0])
            f.define(op.results[0], value if kind == "ctpop" else let("LogicalNot", m.bool(), value))
            return
        value = zero_extended(f, f.get(op.operands[0]), bits, width)
        word = m.int(32)
        if width == 32:
            found = _count32(f, kind, value, bits)
        else:
            low, high = _halves(f, value)
            if kind == "ctpop":
                found = let("IAdd", word, let("BitCount", word, low), let("BitCount", word, high))
            else:
                first, second = (high, low) if kind == "ctlz" else (low, high)
                empty = let("IEqual", m.bool(), first, m.integer(0))
                more = let("IAdd", word, _count32(f, kind, second, 32), m.integer(32))
                found = let("Select", word, empty, more, _count32(f, kind, first, 32))
                if kind == "ctlz" and bits < 64:
                    found = let("ISub", word, found, m.integer(64 - bits))
                if kind == "cttz" and bits < 64:
                    found = f.code.glsl("UMin", word, found, m.integer(bits))
            found = let("UConvert", m.int(64), found)
        f.define(op.results[0], wrap(f, found, bits, width))

    return lower


def _count32(f: FunctionEmitter, kind: str, value: Id, bits: int) -> Id:
    m, let, word = f.m, f.code.let, f.m.int(32)
    if kind == "ctpop":
        return let("BitCount", word, value)
    # Of 0 both give -1.
    if kind == "ctlz":
        return let("ISub", word, m.integer(bits - 1), f.code.glsl("FindUMsb", word, value))
    return f.code.glsl("UMin", word, f.code.glsl("FindILsb", word, value), m.integer(bits))


def _chain(f: FunctionEmitter, multiply: Callable[[Id, Id], Id], base: Id, exponent: int, one: Id) -> Id:
    result: Id | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    return one if result is None else result


def _fpowi(f: FunctionEmitter, op: Operation) -> None:
    exponent = f.index(op.operands[1])

    def compute(type_: Id, operands: list[Id]) -> Id:
        def multiply(a: Id, b: Id) -> Id:
            return float_op(f, "FMul", type_, a, b, op=op)

        one = number(f, 1.0, type_)
        if known(exponent) and abs(exponent) <= MAX_INLINE_POWER:
            power = _chain(f, multiply, operands[0], abs(exponent), one)
            return power if exponent >= 0 else float_op(f, "FDiv", type_, one, power)
        return _power_loop(f, type_, operands[0], one, multiply, op, lambda n: float_op(f, "FDiv", type_, one, n))

    _computed(f, op, compute, 1)


def _power_loop(
    f: FunctionEmitter, type_: Id, base: Id, one: Id, multiply: Callable[[Id, Id], Id], op: Operation,
    inverse: Callable[[Id], Id],
) -> Id:  # fmt: skip
    """Multiplies by squaring, bit by bit of the exponent; for negative exponents the reciprocal."""
    power_type = op.operands[1].type
    width, bits, m, let = f.width(power_type), bits_of(f, power_type), f.m, f.code.let
    exponent = f.get(op.operands[1])
    if width == 1:
        raise f.error("powers of i1 have no meaning", "extend the operands first")
    int_, zero = m.int(width), m.integer(0, width)
    negative = let("SLessThan", m.bool(), exponent, zero)
    count = let("Select", int_, negative, let("SNegate", int_, exponent), exponent)

    def turn(counter: Id, carried: list[Id]) -> list[Id]:
        result, square = carried
        shift = let("ShiftRightLogical", int_, count, counter)
        odd = let("INotEqual", m.bool(), let("BitwiseAnd", int_, shift, m.integer(1, width)), zero)
        return [let("Select", type_, odd, multiply(result, square), result), multiply(square, square)]

    made = f.loop(0, bits, 1, [(type_, one), (type_, base)], turn, m.int(32), width=32)
    return let("Select", type_, negative, inverse(made[0]), made[0])


def _ipowi(f: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width, exponent = bits_of(f, type_), f.width(type_), f.index(op.operands[1])
    if width == 1:
        raise f.error("powers of i1 have no meaning", "extend the operands first")
    m, let = f.m, f.code.let
    int_, base, one = m.int(width), f.get(op.operands[0]), m.integer(1, width)

    def multiply(a: Id, b: Id) -> Id:
        return let("IMul", int_, a, b)

    def inverse(n: Id) -> Id:
        """Of 1 and -1 the number itself, else 0."""
        near = let("IAdd", int_, base, one)
        unit = let("ULessThan", m.bool(), near, m.integer(3, width))
        apart = let("INotEqual", m.bool(), base, m.integer(0, width))
        return let("Select", int_, let("LogicalAnd", m.bool(), unit, apart), n, m.integer(0, width))

    if known(exponent) and 0 <= exponent <= MAX_INLINE_POWER:
        made = _chain(f, multiply, base, exponent, one)
    else:
        made = _power_loop(f, int_, base, one, multiply, op, inverse)
    f.define(op.results[0], wrap(f, made, bits, width))


ROWS: dict[str, Lowering] = {
    **{f"math.{name}": _own(name) for name in single.FUNCTIONS},
    **{f"math.{name}": _own(name) for name in ("sin", "cos", "tan", "atan2", "powf", "cbrt", "erfc")},
    "math.sincos": _sincos,
    "math.clampf": _clampf,
    "math.sqrt": _glsl("Sqrt"),
    "math.rsqrt": _rsqrt,
    "math.absf": _sign_bits(absolute=True),
    "math.copysign": _sign_bits(absolute=False),
    "math.floor": _glsl("Floor"),
    "math.ceil": _glsl("Ceil"),
    "math.trunc": _glsl("Trunc"),
    "math.round": _round,
    "math.roundeven": _glsl("RoundEven"),
    "math.fma": _glsl("Fma"),
    "math.isnan": _classify("IsNan"),
    "math.isinf": _classify("FOrdEqual"),
    "math.isfinite": _classify("FOrdLessThan"),
    "math.isnormal": _isnormal,
    "math.absi": _absi,
    "math.ctlz": _count("ctlz"),
    "math.cttz": _count("cttz"),
    "math.ctpop": _count("ctpop"),
    "math.fpowi": _fpowi,
    "math.ipowi": _ipowi,
}
