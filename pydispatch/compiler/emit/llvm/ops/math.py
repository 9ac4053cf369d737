"""math: LLVM intrinsics where every target lowers them inline, else calls of C's functions (`expf`, `exp`, ...).

The device library has those functions as bitcode, so that they inline and vectorise. 16-bit floats compute in f32.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm import half
from pydispatch.compiler.emit.llvm.body import as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.arith import fast, float_type, int_type
from pydispatch.compiler.emit.llvm.types import float_constant
from pydispatch.compiler.kernel_ir.types import bit_width, small_float
from pydispatch.formats.arrays.small_floats import least_normal

SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}
MAX_INLINE_POWER = 64
Compute = Callable[[str, list[str]], str]


def _computed(f: FunctionEmitter, op: Operation, compute: Compute, operands: list[str] | None = None) -> None:
    type_ = op.results[0].type
    float_type(f, type_)
    given = [f.get(o) for o in op.operands] if operands is None else operands
    f.define(op.results[0], half.computed(f, type_, given, compute))


def intrinsic(f: FunctionEmitter, op: Operation, name: str, type_: str, operands: list[str]) -> str:
    """llvm.`name` on floats of `type_`."""
    return f.intrinsic(f"llvm.{name}.{SUFFIX[type_]}", type_, *((type_, o) for o in operands), flags=fast(op))


def c_function(f: FunctionEmitter, op: Operation, name: str, type_: str, operands: list[str]) -> str:
    """C's function `name`, in f32 for f16."""
    if type_ == "half":
        wide = [f.body.let(f"fpext half {o} to float") for o in operands]
        return f.body.let(f"fptrunc float {c_function(f, op, name, 'float', wide)} to half")
    symbol = f.platform.math_call(name if type_ == "double" else f"{name}f")
    return f.intrinsic(symbol, type_, *((type_, o) for o in operands), flags=fast(op))


def _inline(name: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        _computed(f, op, lambda type_, operands: intrinsic(f, op, name, type_, operands))

    return lower


def _call(name: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        _computed(f, op, lambda type_, operands: c_function(f, op, name, type_, operands))

    return lower


def _where(feature: str, name: str, c_name: str) -> Lowering:
    """The intrinsic where the target has the instruction, else the C function, which inlines; LLVM would call it."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        has = f.platform.arch != "x86_64" or feature in f.platform.features
        way, spelled = (intrinsic, name) if has else (c_function, c_name)
        _computed(f, op, lambda type_, operands: way(f, op, spelled, type_, operands))

    return lower


def _sincos(f: FunctionEmitter, op: Operation) -> None:
    type_, operand = op.results[0].type, f.get(op.operands[0])
    float_type(f, type_)
    for result, name in zip(op.results, ("sin", "cos"), strict=True):

        def compute(spelled: str, operands: list[str], name: str = name) -> str:
            return c_function(f, op, name, spelled, operands)

        f.define(result, half.computed(f, type_, [operand], compute))


def _clampf(f: FunctionEmitter, op: Operation) -> None:
    """min(max(value, low), high), where a NaN goes through."""

    def compute(type_: str, operands: list[str]) -> str:
        raised = intrinsic(f, op, "maximum", type_, operands[:2])
        return intrinsic(f, op, "minimum", type_, [raised, operands[2]])

    _computed(f, op, compute)


def _rsqrt(f: FunctionEmitter, op: Operation) -> None:
    def compute(type_: str, operands: list[str]) -> str:
        root = intrinsic(f, op, "sqrt", type_, operands)
        one = {"half": "0xH3C00", "float": "1.0", "double": "1.0"}[type_]
        return f.body.let(f"fdiv {fast(op)}{type_} {one}, {root}")

    _computed(f, op, compute)


def _sign_bits(absolute: bool) -> Lowering:
    """absf, copysign: bits alone, in the type itself."""

    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        spelled, bits = float_type(f, type_), f"i{bit_width(type_)}"
        if small_float(type_):
            name = "fabs" if absolute else "copysign"
            _computed(f, op, lambda t, operands: intrinsic(f, op, name, t, operands))
            return
        low, sign = (1 << (bit_width(type_) - 1)) - 1, -(1 << (bit_width(type_) - 1))
        if bits != "i16":
            name, operands = ("fabs", op.operands) if absolute else ("copysign", op.operands)
            f.define(op.results[0], intrinsic(f, op, name, spelled, [f.get(o) for o in operands]))
            return
        raw = [f.body.let(f"bitcast {spelled} {f.get(o)} to i16") for o in op.operands]
        result = f.body.let(f"and i16 {raw[0]}, {low}")
        if not absolute:
            result = f.body.let(f"or i16 {result}, {f.body.let(f'and i16 {raw[1]}, {sign}')}")
        f.define(op.results[0], f.body.let(f"bitcast i16 {result} to {spelled}"))

    return lower


def _classify(test: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        float_type(f, op.operands[0].type)
        type_, (x,) = half.widened(f, op.operands[0].type, [f.get(op.operands[0])])
        if test == "uno":
            f.define(op.results[0], f.body.let(f"fcmp uno {type_} {x}, {x}"))
            return
        magnitude = f.intrinsic(f"llvm.fabs.{SUFFIX[type_]}", type_, (type_, x))
        infinity = "0xH7C00" if type_ == "half" else "0x7FF0000000000000"
        f.define(op.results[0], f.body.let(f"fcmp {test} {type_} {magnitude}, {infinity}"))

    return lower


def _isnormal(f: FunctionEmitter, op: Operation) -> None:
    spelled, bits = float_type(f, op.operands[0].type), f"i{bit_width(op.operands[0].type)}"
    small = small_float(op.operands[0].type)
    if small is not None:
        _isnormal_small(f, op, least_normal(small))
        return
    # The exponent is neither all zeros nor all ones: less one, it lies below the all-ones exponent less one.
    digits = {"half": 10, "bfloat": 7, "float": 23, "double": 52}[spelled]
    raw = f.body.let(f"bitcast {spelled} {f.get(op.operands[0])} to {bits}")
    magnitude = f.body.let(f"and {bits} {raw}, {(1 << (int(bits[1:]) - 1)) - 1}")
    moved = f.body.let(f"sub {bits} {magnitude}, {1 << digits}")
    limit = ((1 << (int(bits[1:]) - 1 - digits)) - 2) << digits
    f.define(op.results[0], f.body.let(f"icmp ult {bits} {moved}, {limit}"))


def _isnormal_small(f: FunctionEmitter, op: Operation, least: float) -> None:
    type_, (x,) = half.widened(f, op.operands[0].type, [f.get(op.operands[0])])
    magnitude = f.intrinsic("llvm.fabs.f32", type_, (type_, x))
    large = f.body.let(f"fcmp oge float {magnitude}, {float_constant(least, Float32Type())}")
    finite = f.body.let(f"fcmp one float {magnitude}, 0x7FF0000000000000")
    f.define(op.results[0], f.body.let(f"and i1 {large}, {finite}"))


def _bits(name: str, *extra: tuple[str, str]) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        type_ = int_type(f, op.results[0].type)
        f.define(op.results[0], f.intrinsic(f"llvm.{name}.{type_}", type_, (type_, f.get(op.operands[0])), *extra))

    return lower


def _power_chain(f: FunctionEmitter, instruction: str, type_: str, base: str, exponent: int, one: str) -> str:
    result = ""
    while exponent:
        if exponent & 1:
            result = f.body.let(f"{instruction} {type_} {result}, {base}") if result else base
        exponent >>= 1
        if exponent:
            base = f.body.let(f"{instruction} {type_} {base}, {base}")
    return result or one


def _fpowi(f: FunctionEmitter, op: Operation) -> None:
    power_type, exponent = int_type(f, op.operands[1].type), f.get(op.operands[1])
    known = as_index(exponent)

    def compute(type_: str, operands: list[str]) -> str:
        one = "0xH3C00" if type_ == "half" else "1.0"
        if isinstance(known, int) and abs(known) <= MAX_INLINE_POWER:
            power = _power_chain(f, f"fmul {fast(op)}".rstrip(), type_, operands[0], abs(known), one)
            return power if known >= 0 else f.body.let(f"fdiv {fast(op)}{type_} {one}, {power}")
        return _power_loop(f, type_, operands[0], power_type, exponent)

    _computed(f, op, compute, [f.get(op.operands[0])])


def _ipowi(f: FunctionEmitter, op: Operation) -> None:
    type_, exponent = int_type(f, op.results[0].type), f.get(op.operands[1])
    known = as_index(exponent)
    if isinstance(known, int) and 0 <= known <= MAX_INLINE_POWER and type_ != "i1":
        f.define(op.results[0], _power_chain(f, "mul", type_, f.get(op.operands[0]), known, "1"))
    else:
        f.define(op.results[0], _power_loop(f, type_, f.get(op.operands[0]), type_, exponent))


def _power_loop(f: FunctionEmitter, type_: str, base: str, power_type: str, exponent: str) -> str:
    """Calls a function of the module that multiplies by squaring; for negative exponents the reciprocal."""
    symbol = f"pyd.power.{type_}.{power_type}"
    if "i1" in (type_, power_type):
        raise f.error("powers of i1 have no meaning", "extend the operands first")
    if type_.startswith("i"):
        # The reciprocal of n is n itself for 1 and -1, and truncates to 0 for all others (0 too, for want of a value).
        one, multiply = "1", "mul"
        inverse = (
            f"  %unit = icmp ult {type_} {{near}}, 3\n  %apart = icmp ne {type_} %base, 0\n"
            f"  %keep = and i1 %unit, %apart\n  %r = select i1 %keep, {type_} %n, {type_} 0\n"
        )
        inverse = f"  %near = add {type_} %base, 1\n" + inverse.format(near="%near")
    else:
        one, multiply = {"half": "0xH3C00"}.get(type_, "1.0"), "fmul"
        inverse = f"  %r = fdiv {type_} {one}, %n\n"
    f.module.globals[symbol] = (
        f"define internal {type_} @{symbol}({type_} %base, {power_type} %power) #0 {{\n"
        f"entry:\n  %negative = icmp slt {power_type} %power, 0\n  %minus = sub {power_type} 0, %power\n"
        f"  %count = select i1 %negative, {power_type} %minus, {power_type} %power\n  br label %loop\n"
        f"loop:\n  %b = phi {type_} [ %base, %entry ], [ %square, %loop ]\n"
        f"  %before = phi {type_} [ {one}, %entry ], [ %n, %loop ]\n"
        f"  %c = phi {power_type} [ %count, %entry ], [ %half, %loop ]\n"
        f"  %bit = trunc {power_type} %c to i1\n"
        f"  %more = {multiply} {type_} %before, %b\n  %n = select i1 %bit, {type_} %more, {type_} %before\n"
        f"  %square = {multiply} {type_} %b, %b\n  %half = lshr {power_type} %c, 1\n"
        f"  %go = icmp ne {power_type} %half, 0\n  br i1 %go, label %loop, label %end\n"
        f"end:\n{inverse}  %result = select i1 %negative, {type_} %r, {type_} %n\n  ret {type_} %result\n}}\n"
    )
    return f.body.let(f"call {type_} @{symbol}({type_} {base}, {power_type} {exponent})")


_CALLS = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

ROWS: dict[str, Lowering] = {
    **{f"math.{name}": _call(name) for name in _CALLS},
    "math.powf": _call("pow"),
    "math.sincos": _sincos,
    "math.clampf": _clampf,
    "math.sqrt": _inline("sqrt"),
    "math.rsqrt": _rsqrt,
    "math.absf": _sign_bits(absolute=True),
    "math.copysign": _sign_bits(absolute=False),
    "math.floor": _where("sse4.1", "floor", "floor"),
    "math.ceil": _where("sse4.1", "ceil", "ceil"),
    "math.trunc": _where("sse4.1", "trunc", "trunc"),
    "math.round": _where("sse4.1", "round", "round"),
    "math.roundeven": _where("sse4.1", "roundeven", "roundeven"),
    "math.fma": _where("fma", "fma", "fma"),
    "math.isnan": _classify("uno"),
    "math.isinf": _classify("oeq"),
    "math.isfinite": _classify("one"),
    "math.isnormal": _isnormal,
    "math.absi": _bits("abs", ("i1", "false")),
    "math.ctlz": _bits("ctlz", ("i1", "false")),
    "math.cttz": _bits("cttz", ("i1", "false")),
    "math.ctpop": _bits("ctpop"),
    "math.fpowi": _fpowi,
    "math.ipowi": _ipowi,
}
