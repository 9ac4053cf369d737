"""16-bit floats on machines that lack them, and floats of 8 bits and less.

bf16 computes in f32; the conversions are a few integer instructions, which vectorise everywhere, where LLVM's own would
be a library call per element. f16 computes in f32 too, unless the target has f16 arithmetic: f32 holds more than twice
the digits of f16, so add, sub, mul, div and sqrt round as if computed in f16. Smaller floats compute in f32 likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute

from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.small_floats import from_f32, to_f32
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.kernel_ir.types import bit_width, small_float

NATIVE_F16 = frozenset({"fullfp16", "avx512fp16", "zfh"})
"""Features with f16 arithmetic."""

F16_CONVERSIONS = NATIVE_F16 | {"f16c", "zfhmin"}
"""Features with f16 conversions."""


def compute_type(f: FunctionEmitter, type_: Attribute) -> Attribute:
    """The type that values of `type_` compute in."""
    if isinstance(type_, BFloat16Type) or small_float(type_):
        return Float32Type()
    if isinstance(type_, Float16Type) and not NATIVE_F16 & f.platform.features:
        return Float32Type()
    return type_


def widened(f: FunctionEmitter, type_: Attribute, operands: Sequence[str]) -> tuple[str, list[str]]:
    """(LLVM type, operands) in the type to compute in."""
    wide = compute_type(f, type_)
    return scalar(wide), [convert(f, operand, type_, wide) for operand in operands]


def computed(
    f: FunctionEmitter, type_: Attribute, operands: Sequence[str], compute: Callable[[str, list[str]], str]
) -> str:
    """`compute` in the type to compute in, and its result back in `type_`."""
    wide, wider = widened(f, type_, operands)
    return convert(f, compute(wide, wider), compute_type(f, type_), type_)


def convert(f: FunctionEmitter, operand: str, source: Attribute, target: Attribute) -> str:
    """A float in another float type, rounded to nearest even once."""
    if source == target:
        return operand
    if (small := small_float(source)) is not None:
        return convert(f, to_f32(f.body, operand, small), Float32Type(), target)
    if (small := small_float(target)) is not None:
        wide = isinstance(source, Float64Type)
        single = _round_to_odd(f, operand) if wide else convert(f, operand, source, Float32Type())
        return from_f32(f.body, single, small)
    if isinstance(source, BFloat16Type):
        bits = f.body.let(f"bitcast bfloat {operand} to i16")
        shifted = f.body.let(f"shl i32 {f.body.let(f'zext i16 {bits} to i32')}, 16")
        return convert(f, f.body.let(f"bitcast i32 {shifted} to float"), Float32Type(), target)
    if isinstance(target, BFloat16Type):
        return _to_bfloat(f, operand, source)
    if isinstance(source, Float16Type) and isinstance(target, Float64Type) and _soft(f):
        return convert(f, convert(f, operand, source, Float32Type()), Float32Type(), target)
    if isinstance(source, Float64Type) and isinstance(target, Float16Type) and _soft(f):
        return _narrow_half(f, _round_to_odd(f, operand))
    if isinstance(source, Float16Type) and _soft(f):
        return _widen_half(f, operand)
    if isinstance(target, Float16Type) and _soft(f):
        return _narrow_half(f, operand)
    instruction = "fpext" if bit_width(target) > bit_width(source) else "fptrunc"
    return f.body.let(f"{instruction} {scalar(source)} {operand} to {scalar(target)}")


def from_int(f: FunctionEmitter, instruction: str, source: str, operand: str, target: Attribute) -> str:
    """sitofp, uitofp. To 16 bits and less through f32 where it is exact, else f64, so that only one rounding shows."""
    if int(source[1:]) > 64 and f.platform.arch == "nvptx64":
        raise f.error(f"a float of {source} cannot be made in a kernel for this target", "use 64 bits at most")
    if bit_width(target) > 16 or compute_type(f, target) == target:
        return f.body.let(f"{instruction} {source} {operand} to {scalar(target)}")
    if int(source[1:]) <= 24:
        return convert(f, f.body.let(f"{instruction} {source} {operand} to float"), Float32Type(), target)
    if int(source[1:]) > 53:
        operand = _odd_integer(f, instruction, source, operand)
    return convert(f, f.body.let(f"{instruction} {source} {operand} to double"), Float64Type(), target)


def _odd_integer(f: FunctionEmitter, instruction: str, source: str, operand: str) -> str:
    """An integer that f64 holds, and that rounds to 16 bits like the operand: what is cut off sets the last bit."""
    let = f.body.let
    cut = let(f"icmp ne {source} {let(f'and {source} {operand}, 2047')}, 0")
    last = let(f"select i1 {cut}, {source} 2048, {source} 0")
    odd = let(f"or {source} {let(f'and {source} {operand}, -2048')}, {last}")
    limit = 1 << 53
    if instruction == "sitofp":
        large = let(f"icmp ugt {source} {let(f'add {source} {operand}, {limit}')}, {2 * limit}")
    else:
        large = let(f"icmp ugt {source} {operand}, {limit}")
    return let(f"select i1 {large}, {source} {odd}, {source} {operand}")


def _soft(f: FunctionEmitter) -> bool:
    return f.platform.arch not in ("aarch64", "nvptx64") and not F16_CONVERSIONS & f.platform.features


def _to_bfloat(f: FunctionEmitter, operand: str, source: Attribute) -> str:
    if isinstance(source, Float64Type):
        operand = _round_to_odd(f, operand)
    else:
        operand = convert(f, operand, source, Float32Type())
    let = f.body.let
    bits = let(f"bitcast float {operand} to i32")
    odd = let(f"and i32 {let(f'lshr i32 {bits}, 16')}, 1")
    rounded = let(f"add i32 {let(f'add i32 {bits}, 32767')}, {odd}")
    quiet = let(f"or i32 {bits}, 4194304")
    is_nan = let(f"fcmp uno float {operand}, 0.0")
    chosen = let(f"select i1 {is_nan}, i32 {quiet}, i32 {rounded}")
    high = let(f"trunc i32 {let(f'lshr i32 {chosen}, 16')} to i16")
    return let(f"bitcast i16 {high} to bfloat")


def _round_to_odd(f: FunctionEmitter, operand: str) -> str:
    """f64 to f32 such that a second rounding to 16 bits comes out as if it were the only one."""
    let = f.body.let
    nearest = let(f"fptrunc double {operand} to float")
    back = let(f"fpext float {nearest} to double")
    bits = let(f"bitcast float {nearest} to i32")
    inexact = let(f"fcmp one double {back}, {operand}")
    finite = let(f"fcmp one float {f.intrinsic('llvm.fabs.f32', 'float', ('float', nearest))}, 0x7FF0000000000000")
    even = let(f"icmp eq i32 {let(f'and i32 {bits}, 1')}, 0")
    adjust = let(f"and i1 {let(f'and i1 {inexact}, {finite}')}, {even}")
    magnitude = f.intrinsic("llvm.fabs.f64", "double", ("double", operand))
    above = let(f"fcmp ogt double {magnitude}, {f.intrinsic('llvm.fabs.f64', 'double', ('double', back))}")
    step = let(f"select i1 {above}, i32 1, i32 -1")
    moved = let(f"add i32 {bits}, {step}")
    chosen = let(f"select i1 {adjust}, i32 {moved}, i32 {bits}")
    return let(f"bitcast i32 {chosen} to float")


def _widen_half(f: FunctionEmitter, operand: str) -> str:
    """f16 to f32 in integers: exact for every value, and a vector of them in a few instructions."""
    let = f.body.let
    bits = let(f"zext i16 {let(f'bitcast half {operand} to i16')} to i32")
    sign = let(f"shl i32 {let(f'and i32 {bits}, 32768')}, 16")
    magnitude = let(f"and i32 {bits}, 32767")
    shifted = let(f"shl i32 {magnitude}, 13")
    normal = let(f"add i32 {shifted}, 939524096")  # (127 - 15) << 23
    special = let(f"or i32 {shifted}, 2139095040")
    is_special = let(f"icmp ugt i32 {magnitude}, 31743")
    # A subnormal is its mantissa times 2^-24, exactly.
    scaled = let(f"fmul float {let(f'uitofp i32 {magnitude} to float')}, 0x3E70000000000000")
    small = let(f"bitcast float {scaled} to i32")
    is_small = let(f"icmp ult i32 {magnitude}, 1024")
    value = let(f"select i1 {is_small}, i32 {small}, i32 {normal}")
    value = let(f"select i1 {is_special}, i32 {special}, i32 {value}")
    # Quiet a NaN, as every conversion does.
    quiet = let(f"or i32 {value}, 4194304")
    is_nan = let(f"icmp ugt i32 {magnitude}, 31744")
    value = let(f"select i1 {is_nan}, i32 {quiet}, i32 {value}")
    return let(f"bitcast i32 {let(f'or i32 {value}, {sign}')} to float")


def _narrow_half(f: FunctionEmitter, operand: str) -> str:
    """f32 to f16 in integers, to nearest even."""
    let = f.body.let
    bits = let(f"bitcast float {operand} to i32")
    sign = let(f"and i32 {let(f'lshr i32 {bits}, 16')}, 32768")
    magnitude = let(f"and i32 {bits}, 2147483647")
    odd = let(f"and i32 {let(f'lshr i32 {magnitude}, 13')}, 1")
    # Rebias and round: -(112 << 23) + 0xFFF + odd.
    rounded = let(f"add i32 {let(f'add i32 {magnitude}, -939520001')}, {odd}")
    normal = let(f"lshr i32 {rounded}, 13")
    # Below 2^-14, adding 0.5 leaves the subnormal in the low bits, rounded by the addition itself.
    sum_ = let(f"fadd float {let(f'bitcast i32 {magnitude} to float')}, 0.5")
    small = let(f"sub i32 {let(f'bitcast float {sum_} to i32')}, 1056964608")
    is_small = let(f"icmp ult i32 {magnitude}, 947912704")
    overflow = let(f"icmp ugt i32 {magnitude}, 1199566847")
    is_nan = let(f"icmp ugt i32 {magnitude}, 2139095040")
    mantissa = let(f"lshr i32 {magnitude}, 13")
    payload = let(f"or i32 {let(f'and i32 {mantissa}, 511')}, 32256")
    value = let(f"select i1 {is_small}, i32 {small}, i32 {normal}")
    value = let(f"select i1 {overflow}, i32 31744, i32 {value}")
    value = let(f"select i1 {is_nan}, i32 {payload}, i32 {value}")
    both = let(f"or i32 {value}, {sign}")
    return let(f"bitcast i16 {let(f'trunc i32 {both} to i16')} to half")
