"""arith conversions: one row per operation. Float to integer saturates, NaN gives 0."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.values import is_native_float, known, signed
from pydispatch.compiler.emit.wgsl.definitions import expand, natively
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.arith import bits_of, wrap, zero_extended
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned
from pydispatch.compiler.kernel_ir.readers import op_name, operands_of
from pydispatch.compiler.kernel_ir.types import is_float, is_integer


def resized(f: FunctionEmitter, value: Name, from_width: int, to_width: int) -> Name:
    """Return a register in another width, keeping the sign."""
    if from_width == to_width:
        return value
    if from_width == 1:
        return f.let(f"select({f.number(0, to_width)}, {f.number(-1, to_width)}, {value})")
    if to_width == 1:
        return f.let(f"({value}.x & 1u) != 0u" if from_width == 64 else f"({value} & 1) != 0")
    return f.call("pyd_i64_from_i32", value) if to_width == 64 else f.let(f"i32({value}.x)")


def unsigned_resized(f: FunctionEmitter, value: Name, bits: int, from_width: int, to_width: int) -> Name:
    """Return a register as a number without sign in another, wider or equal, width."""
    if from_width == 1:
        return f.let(f"select({f.number(0, to_width)}, {f.number(1, to_width)}, {value})")
    plain = zero_extended(f, value, bits, from_width)
    return plain if from_width == to_width else f.let(f"vec2u({as_unsigned(plain)}, 0u)")


def _extsi(f: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    bits_of(f, source)
    f.define(op.results[0], resized(f, f.get(op.operands[0]), f.width(source), f.width(target)))


def _extui(f: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    bits = bits_of(f, source)
    f.define(op.results[0], unsigned_resized(f, f.get(op.operands[0]), bits, f.width(source), f.width(target)))


def _trunci(f: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = f.operands(operands_of(op)), op.results
    target = result.type
    width = f.width(target)
    value = resized(f, operand, f.width(op.operands[0].type), width)
    f.define(result, wrap(f, value, bits_of(f, target), width))


def _index_cast(is_signed: bool) -> Lowering:
    """Return the lowering of an index cast.

    A wider integer saturates when it is cast to a 32-bit index, so that an out-of-bounds index stays out of bounds.
    """

    def lower(f: FunctionEmitter, op: Operation) -> None:
        source, target = op.operands[0].type, op.results[0].type
        bits, to_bits = bits_of(f, source), bits_of(f, target)
        from_width, to_width = f.width(source), f.width(target)
        found = f.index(op.operands[0])
        if known(found):
            number = found if is_signed else found & ((1 << bits) - 1)  # type: ignore[operator]
            f.define(op.results[0], signed(number, to_bits))  # type: ignore[arg-type]
            return
        value = f.get(op.operands[0])
        if isinstance(target, IndexType) and from_width > to_width:
            value = f.call("pyd_i64_saturated", value)
        elif not is_signed and to_bits > bits:
            value = unsigned_resized(f, value, bits, from_width, to_width)
        else:
            value = wrap(f, resized(f, value, from_width, to_width), to_bits, to_width)
        f.define(op.results[0], value)

    return lower


def _float_to_int(is_signed: bool) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        source, (result,) = op.operands[0].type, op.results
        bits, width = bits_of(f, result.type), f.width(result.type)
        (value,) = f.operands(operands_of(op))
        kind = "f64" if isinstance(source, Float64Type) else "f32"
        register = max(width, 32)
        if bits == register:
            f.define(result, f.call(f"pyd_{kind}_to_{'i' if is_signed else 'u'}{bits}", value))
            return
        least = -(1 << (bits - 1)) if is_signed else 0
        most = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1
        made = f.call(f"pyd_{kind}_to_i{register}", value)
        if register == 32:
            made = f.let(f"clamp({made}, {f.number(least, 32)}, {f.number(most, 32)})")
        else:
            for bound, below in ((f.number(least, 64), True), (f.number(most, 64), False)):
                outside = f.less(made, bound, 64) if below else f.less(bound, made, 64)
                made = f.let(f"select({made}, {bound}, {outside})")
        f.define(result, wrap(f, made, bits, register) if width > 1 else resized(f, made, 32, 1))

    return natively(lower)


def _int_to_float(is_signed: bool) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        source, (result,) = op.operands[0].type, op.results
        if not is_native_float(result.type):
            expand(f, op)
            return
        bits, width = bits_of(f, source), f.width(source)
        (value,) = f.operands(operands_of(op))
        if width == 1:
            value = resized(f, value, 1, 32) if is_signed else unsigned_resized(f, value, 1, 1, 32)
        elif not is_signed:
            value = zero_extended(f, value, bits, width)
        sign, register = "i" if is_signed else "u", max(width, 32)
        if type(result.type) is Float32Type and register == 32:
            f.define(result, f.let(f"f32({value})" if is_signed else f"f32({as_unsigned(value)})"))
            return
        if register == 32:  # to f64, of which all are numbers
            value = f.call("pyd_i64_from_i32", value) if is_signed else f.let(f"vec2u({as_unsigned(value)}, 0u)")
            register = 64
        kind = "f32" if type(result.type) is Float32Type else "f64"
        f.define(result, f.call(f"pyd_{sign}{register}_to_{kind}", value))

    return lower


def _convert_float(f: FunctionEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if f.is_f16(source) and isinstance(target, Float32Type):
        f.define(op.results[0], f.let(f"f32({f.get(op.operands[0])})"))
    elif isinstance(source, Float32Type) and f.is_f16(target):
        f.define(op.results[0], f.call("pyd_f16_nearest", *f.operands(operands_of(op))))
    elif is_native_float(source) and is_native_float(target):
        name = "pyd_f32_to_f64" if isinstance(target, Float64Type) else "pyd_f64_to_f32"
        f.define(op.results[0], f.call(name, *f.operands(operands_of(op))))
    elif is_float(source) and is_float(target):
        expand(f, op)
    else:
        raise f.error(f"{op_name(op)} from {source} to {target} cannot be compiled into a kernel")


def _bitcast(f: FunctionEmitter, op: Operation) -> None:
    (operand,), (result,) = operands_of(op), op.results
    a, b = f.type(operand.type), f.type(result.type)
    value = f.to_bits(f.get(operand), operand.type)
    if f.is_f16(operand.type) or f.is_f16(result.type):
        value = f.from_bits(value, result.type)
    elif a != b and not (is_integer(operand.type) and is_integer(result.type)):
        (value,) = f.operands([operand])
        value = f.let(f"bitcast<{b}>({value})")
    f.define(result, value)


ROWS: dict[str, Lowering] = {
    "arith.extsi": _extsi,
    "arith.extui": _extui,
    "arith.trunci": _trunci,
    "arith.index_cast": _index_cast(is_signed=True),
    "arith.index_castui": _index_cast(is_signed=False),
    "arith.fptosi": _float_to_int(is_signed=True),
    "arith.fptoui": _float_to_int(is_signed=False),
    "arith.sitofp": _int_to_float(is_signed=True),
    "arith.uitofp": _int_to_float(is_signed=False),
    "arith.extf": _convert_float,
    "arith.truncf": _convert_float,
    "arith.scaling_extf": expand,
    "arith.scaling_truncf": expand,
    "arith.bitcast": _bitcast,
}
