"""math: one row per operation; functions are defined in `kernel_ir/math`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.integers import bits_of
from pydispatch.compiler.emit.shaders.values import double_bits, known
from pydispatch.compiler.emit.spirv.definitions import expand, natively
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.arith import wrap, zero_extended
from pydispatch.compiler.emit.spirv.ops.floats import float_op
from pydispatch.compiler.emit.spirv.words import GLSL, OP
from pydispatch.compiler.kernel_ir.math.definitions import COMPOSED, FUNCTIONS, TESTS
from pydispatch.compiler.kernel_ir.readers import operands_of


def _glsl(name: str) -> Lowering:
    """Return the lowering to a GLSL instruction that is exact, or right to the last place, in f32 and f64."""

    head, which = 5 << 16 | OP["ExtInst"], GLSL[name]

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (result,) = op.results
        if type(result.type) is Float32Type:
            values, m = emitter.values, emitter.m
            operands: list[Any] = [values[o] for o in operands_of(op)]
            type_, glsl, new_id = m.float(32), m.glsl(), Id(m.bound)
            m.bound += 1
            emitter.code.lines += (head + (len(operands) << 16), type_, new_id, glsl, which, *operands)
            values[result] = new_id
            return
        emitter.define(
            result, emitter.code.glsl(name, emitter.type(result.type), *(emitter.get(o) for o in op.operands))
        )

    return natively(lower)


def _absf(emitter: FunctionEmitter, op: Operation) -> None:
    emitter.define(
        op.results[0], emitter.code.glsl("FAbs", emitter.type(op.results[0].type), emitter.get(op.operands[0]))
    )


def _copysign(emitter: FunctionEmitter, op: Operation) -> None:
    magnitude, sign = (emitter.get(o) for o in op.operands)
    emitter.define(op.results[0], _with_sign(emitter, magnitude, sign, emitter.width(op.results[0].type)))


def _with_sign(emitter: FunctionEmitter, magnitude: Id, sign: Id, width: int) -> Id:
    """Emit a float with the bits of one float and the sign of another."""
    m, let, int_ = emitter.m, emitter.code.let, emitter.m.int(width)
    low, high = (let("Bitcast", int_, value) for value in (magnitude, sign))
    low = let("BitwiseAnd", int_, low, m.integer((1 << (width - 1)) - 1, width))
    high = let("BitwiseAnd", int_, high, m.integer(1 << (width - 1), width))
    return let("Bitcast", m.float(width), let("BitwiseOr", int_, low, high))


def _trunc(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `math.trunc`. Mesa's Trunc of an f64 loses the sign of a zero."""
    (operand,), (result,) = operands_of(op), op.results
    if type(result.type) is Float32Type:
        _TRUNC(emitter, op)
        return
    value = emitter.get(operand)
    whole = emitter.code.glsl("Trunc", emitter.type(result.type), value)
    emitter.define(result, _with_sign(emitter, whole, value, 64))


def _roundeven(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `math.roundeven`. Mesa's RoundEven of an f64 is wrong, so 2^52, which leaves no room for a fraction, is
    added and subtracted.
    """
    (operand,), (result,) = operands_of(op), op.results
    if type(result.type) is Float32Type:
        _ROUND_EVEN(emitter, op)
        return
    value, type_, let = emitter.get(operand), emitter.type(result.type), emitter.code.let
    size, limit = emitter.code.glsl("FAbs", type_, value), emitter.m.number(double_bits(2.0**52), 64)
    whole = float_op(emitter, "FSub", type_, float_op(emitter, "FAdd", type_, size, limit), limit)
    has_fraction = let("FOrdLessThan", emitter.m.bool(), size, limit)
    emitter.define(result, let("Select", type_, has_fraction, _with_sign(emitter, whole, value, 64), value))


_TRUNC, _ROUND_EVEN = _glsl("Trunc"), _glsl("RoundEven")


def _absi(emitter: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width, value = bits_of(emitter, type_), emitter.width(type_), emitter.get(op.operands[0])
    if width == 1:
        emitter.define(op.results[0], value)
        return
    negative = emitter.code.let("SLessThan", emitter.m.bool(), value, emitter.m.integer(0, width))
    negated = wrap(emitter, emitter.code.let("SNegate", emitter.m.int(width), value), bits, width)
    emitter.define(op.results[0], emitter.code.let("Select", emitter.m.int(width), negative, negated, value))


def _halves(emitter: FunctionEmitter, value: Id) -> tuple[Id, Id]:
    """Return the low and the high word of a 64-bit number."""
    m, let = emitter.m, emitter.code.let
    high = let("ShiftRightLogical", m.int(64), value, m.integer(32))
    return let("UConvert", m.int(32), value), let("UConvert", m.int(32), high)


def _count(kind: str) -> Lowering:
    """ctlz, cttz, ctpop. Of 0 the width."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width, m, let = bits_of(emitter, type_), emitter.width(type_), emitter.m, emitter.code.let
        if width == 1:
            value = emitter.get(op.operands[0])
            emitter.define(op.results[0], value if kind == "ctpop" else let("LogicalNot", m.bool(), value))
            return
        value = zero_extended(emitter, emitter.get(op.operands[0]), bits, width)
        word = m.int(32)
        if width == 32:
            count = _count32(emitter, kind, value, bits)
        else:
            low, high = _halves(emitter, value)
            if kind == "ctpop":
                count = let("IAdd", word, let("BitCount", word, low), let("BitCount", word, high))
            else:
                first, second = (high, low) if kind == "ctlz" else (low, high)
                empty = let("IEqual", m.bool(), first, m.integer(0))
                more = let("IAdd", word, _count32(emitter, kind, second, 32), m.integer(32))
                count = let("Select", word, empty, more, _count32(emitter, kind, first, 32))
                if kind == "ctlz" and bits < 64:
                    count = let("ISub", word, count, m.integer(64 - bits))
                if kind == "cttz" and bits < 64:
                    count = emitter.code.glsl("UMin", word, count, m.integer(bits))
            count = let("UConvert", m.int(64), count)
        emitter.define(op.results[0], wrap(emitter, count, bits, width))

    return lower


def _count32(emitter: FunctionEmitter, kind: str, value: Id, bits: int) -> Id:
    m, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
    if kind == "ctpop":
        return let("BitCount", word, value)
    # Of 0 both give -1.
    if kind == "ctlz":
        return let("ISub", word, m.integer(bits - 1), emitter.code.glsl("FindUMsb", word, value))
    return emitter.code.glsl("UMin", word, emitter.code.glsl("FindILsb", word, value), m.integer(bits))


def _power(emitter: FunctionEmitter, op: Operation) -> None:
    exponent = emitter.index(op.operands[1])
    expand(emitter, op, exponent if known(exponent) else None)


ROWS: dict[str, Lowering] = {
    **dict.fromkeys((*FUNCTIONS, *COMPOSED, *TESTS, "math.isnormal"), expand),
    "math.sqrt": _glsl("Sqrt"),
    "math.absf": natively(_absf),
    "math.copysign": natively(_copysign),
    "math.floor": _glsl("Floor"),
    "math.ceil": _glsl("Ceil"),
    "math.trunc": natively(_trunc),
    "math.roundeven": natively(_roundeven),
    "math.fma": _glsl("Fma"),
    "math.absi": _absi,
    "math.ctlz": _count("ctlz"),
    "math.cttz": _count("cttz"),
    "math.ctpop": _count("ctpop"),
    "math.fpowi": _power,
    "math.ipowi": _power,
}
