"""math: one row per operation; functions are defined in `kernel_ir/math`, since those of drivers are far from exact."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.integers import bits_of
from pydispatch.compiler.emit.shaders.values import known
from pydispatch.compiler.emit.wgsl.definitions import expand, natively
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.arith import wrap, zero_extended
from pydispatch.compiler.emit.wgsl.ops.floats import as_written
from pydispatch.compiler.emit.wgsl.words import as_unsigned
from pydispatch.compiler.kernel_ir.math.definitions import COMPOSED, FUNCTIONS, TESTS
from pydispatch.compiler.kernel_ir.readers import operands_of


def _exact(name: str, wide: str) -> Lowering:
    """Return the lowering of a function that is exact, or right to the last place.

    wide: the name of its f64 version.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (result,) = op.results
        operands = emitter.operands(operands_of(op))
        if type(result.type) is Float32Type:
            called = f"{name}({', '.join(operands)})"
            emitter.define(result, emitter.let(as_written(emitter, op, called) if name == "fma" else called))
        else:
            emitter.define(result, emitter.call(f"pyd_f64_{wide}", *operands))
            emitter.iterations.add(60 if wide == "sqrt" else 0)

    return natively(lower)


def _absf(emitter: FunctionEmitter, op: Operation) -> None:
    (operand,) = emitter.operands(operands_of(op))
    is_single = type(op.results[0].type) is Float32Type
    emitter.define(
        op.results[0], emitter.let(f"abs({operand})" if is_single else f"{operand} & vec2u(0xffffffffu, 0x7fffffffu)")
    )


def _copysign(emitter: FunctionEmitter, op: Operation) -> None:
    a, b = emitter.operands(operands_of(op))
    if type(op.results[0].type) is Float32Type:
        emitter.define(op.results[0], emitter.call("pyd_f32_copysign", a, b))
        return
    sign = "vec2u(0u, 0x80000000u)"
    emitter.define(op.results[0], emitter.let(f"({a} & ~{sign}) | ({b} & {sign})"))


def _absi(emitter: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width = bits_of(emitter, type_), emitter.width(type_)
    (value,) = emitter.operands(operands_of(op))
    if width > 1:
        value = wrap(
            emitter, emitter.let(f"abs({value})") if width == 32 else emitter.call("pyd_i64_abs", value), bits, width
        )
    emitter.define(op.results[0], value)


def _count(kind: str) -> Lowering:
    """ctlz, cttz, ctpop. Of 0 the width."""
    narrow = {"ctlz": "countLeadingZeros", "cttz": "countTrailingZeros", "ctpop": "countOneBits"}[kind]
    wide = {"ctlz": "pyd_i64_clz", "cttz": "pyd_i64_ctz", "ctpop": "pyd_i64_ones"}[kind]

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        (value,) = emitter.operands(operands_of(op))
        if width == 1:
            emitter.define(op.results[0], value if kind == "ctpop" else emitter.let(f"!{value}"))
            return
        value = zero_extended(emitter, value, bits, width)
        count = emitter.let(f"i32({narrow}({as_unsigned(value)}))") if width == 32 else emitter.call(wide, value)
        if kind == "ctlz" and bits < width:
            count = emitter.let(f"{count} - {width - bits}")
        if kind == "cttz" and bits < width:
            count = emitter.let(f"min({count}, {bits})")
        if width == 64:
            count = emitter.call("pyd_i64_from_i32", count)
        emitter.define(op.results[0], wrap(emitter, count, bits, width))

    return lower


def _power(emitter: FunctionEmitter, op: Operation) -> None:
    exponent = emitter.index(op.operands[1])
    expand(emitter, op, exponent if known(exponent) else None)  # type: ignore[arg-type]


ROWS: dict[str, Lowering] = {
    **dict.fromkeys((*FUNCTIONS, *COMPOSED, *TESTS, "math.isnormal"), expand),
    "math.sqrt": _exact("sqrt", "sqrt"),
    "math.absf": natively(_absf),
    "math.copysign": natively(_copysign),
    "math.floor": _exact("floor", "floor"),
    "math.ceil": _exact("ceil", "ceil"),
    "math.trunc": _exact("trunc", "trunc"),
    "math.roundeven": _exact("round", "round"),
    "math.fma": _exact("fma", "fma"),
    "math.absi": _absi,
    "math.ctlz": _count("ctlz"),
    "math.cttz": _count("cttz"),
    "math.ctpop": _count("ctpop"),
    "math.fpowi": _power,
    "math.ipowi": _power,
}
