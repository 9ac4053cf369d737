"""PTX cvt in all combinations of types, and cvt.pack. A handler returns a closure `step(regs)`, which runs the
instruction for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an
operand, an array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import UNSIGNED, dtype_of
from pydispatch.runtime.simulators.ptx.instructions import convert_small, exact
from pydispatch.runtime.simulators.ptx.instructions.bitwise import into
from pydispatch.runtime.simulators.ptx.instructions.integer import is_integer
from pydispatch.runtime.simulators.ptx.instructions.small import (
    CANONICAL_NAN,
    bits16,
    flush,
    from_bf16,
    joined,
    make_nans_canonical,
    rectify,
    saturate,
    to_bf16,
)
from pydispatch.runtime.simulators.ptx.registry import handles

_FLOATS = ("f16", "bf16", "f32", "f64")
"""Float types of cvt of one value; pairs and tf32 have functions of their own."""
_INTEGRAL: dict[str, Callable[[Any], Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
"""Modifier that rounds to an integer → the function: to nearest even, toward zero, down, up."""
_MODES = ("rn", "rz", "rm", "rp", "rna")
"""Modifiers that round to a float: to nearest even, toward zero, down, up, to nearest with halves away from zero."""
_FLOAT_MODES = _MODES[:4]
"""Modifiers that round to a float other than tf32."""
_BETWEEN_FLOATS = (*_FLOAT_MODES, *_INTEGRAL, "ftz", "sat", "relu")
"""Modifiers of a conversion between floats: rounding, subnormals to zero, saturation, negative values to zero."""


@handles("cvt")
def cvt(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of cvt by its two types, first the type of the result: cvt.rn.f32.s32 converts s32 to f32.

    Fail for modifiers that the conversion does not have.
    """
    # Forms with packed or special types: cvt.pack, pairs of 16-bit floats, tf32, pairs of 8-bit floats.
    if instruction.modifiers[:1] == ("pack",):
        return _pack(builder, instruction)
    rounding_modifiers = {*_MODES, *_INTEGRAL}.intersection(instruction.modifiers)
    if len(instruction.modifiers) < 2 or len(rounding_modifiers) > 1:
        builder.fail(instruction)
    to, source_type = instruction.modifiers[-2:]
    words = set(instruction.modifiers[:-2])
    if to in ("f16x2", "bf16x2") and source_type == "f32":
        return _pair(builder, instruction, to, words)
    if to == "tf32" and source_type == "f32":
        return _tf32(builder, instruction, words)
    if "x2" in to or "x2" in source_type:
        return convert_small.convert(builder, instruction, to, source_type, words)
    return _convert_number(builder, instruction, to, source_type, words)


def _convert_number(
    builder: FunctionBuilder, instruction: Instruction, to: str, source_type: str, words: set[str]
) -> Step:
    """Build the closure of a conversion of one value between integers and floats. words: the other modifiers."""
    if not all(is_integer(type_) or type_ in _FLOATS for type_ in (to, source_type)):
        builder.fail(instruction)
    target, source = builder.operands(instruction, 2)
    a = builder.source(instruction, source, source_type)
    d = builder.target(instruction, target, to, widen=True)
    if is_integer(to):
        if is_integer(source_type):
            builder.require_modifiers(instruction, ("sat",), words)
            return into(d, _between_integers(to, source_type, "sat" in words), a)
        builder.require_modifiers(instruction, (*_INTEGRAL, "ftz", "sat"), words)
        return into(d, _to_integer(to, source_type, words), a)
    if is_integer(source_type):
        builder.require_modifiers(instruction, (*_FLOAT_MODES, "ftz", "sat"), words)
        return _from_integer(a, d, to, source_type, words)
    # .satfinite: f16 and bf16, the keys of _LARGEST, are clamped to their largest finite number.
    allowed = (*_BETWEEN_FLOATS, "satfinite") if to in _LARGEST else _BETWEEN_FLOATS
    builder.require_modifiers(instruction, allowed, words)
    return _between_floats(a, d, to, source_type, words)


def _between_integers(to: str, source_type: str, sat: bool) -> Callable[[Any], Any]:
    """Return the conversion between integers: clamped to the range of the result with .sat, else its low bits."""
    dtype, source_dtype = dtype_of(to), dtype_of(source_type)
    if not sat:
        return lambda value: value.astype(dtype)
    limits, source_limits = np.iinfo(dtype), np.iinfo(source_dtype)
    # The range of the result, as far as the source's type can express it.
    low = source_dtype.type(max(int(limits.min), int(source_limits.min)))
    high = source_dtype.type(min(int(limits.max), int(source_limits.max)))
    return lambda value: np.clip(value, low, high).astype(dtype)


def _to_integer(to: str, source_type: str, words: set[str]) -> Callable[[Any], Any]:
    """Return the conversion of a float to an integer, clamped to its range.

    NaN becomes 0; if either type has 64 bits, it becomes the integer whose top bit alone is set, 0x8000... in hex.

    words: the modifiers of the instruction.
    """
    rounded = next((_INTEGRAL[m] for m in _INTEGRAL if m in words), np.trunc)
    dtype = dtype_of(to)
    bits = 8 * dtype.itemsize
    result_of_nan = dtype.type(0)
    if source_type == "f64" or bits == 64:
        result_of_nan = UNSIGNED[dtype.itemsize].type(1 << (bits - 1)).view(dtype)
    clamp, flushes_subnormals = _clamping(dtype, result_of_nan), "ftz" in words
    return lambda value: clamp(rounded(_widen(value, source_type, flushes_subnormals)))


def _clamping(dtype: np.dtype[Any], result_of_nan: Any) -> Callable[[Any], Any]:
    """Return the function that converts integral numbers in f64 to integers, clamped to the range of their type.

    For u8, the numbers -3.0, 7.0 and 300.0 become 0, 7 and 255.

    Args:
        dtype: Type of the integers.
        result_of_nan: Integer that is returned for NaN.
    """
    limits = np.iinfo(dtype)
    least_integer, greatest_integer = dtype.type(limits.min), dtype.type(limits.max)
    # Both are powers of two or 0, so exact in f64.
    least, exclusive_limit = float(limits.min), float(int(limits.max) + 1)

    def clamp(integral: Any) -> Any:
        """Convert integral numbers in f64 to `dtype`. NaN becomes `result_of_nan`.

        Numbers below `least` become the least integer, and those from `exclusive_limit` on the greatest.
        """
        in_range = (integral >= least) & (integral < exclusive_limit)
        result = np.where(in_range, integral, 0.0).astype(dtype)
        if not in_range.all():
            clamped_below = np.where(integral < least, least_integer, result)
            result = np.where(integral >= exclusive_limit, greatest_integer, clamped_below)
            result = np.where(np.isnan(integral), result_of_nan, result)
        return result

    return clamp


def _widen(value: Any, source_type: str, ftz: bool) -> Any:
    """Return a float of a PTX type as f64, exactly. ftz: whether subnormals of f32 count as zeros."""
    if source_type == "bf16":
        value = from_bf16(value)
    if ftz and source_type == "f32":
        value = flush(value)
    return np.asarray(value, np.float64)


def _store(
    to: str, target: int, sat: bool, ftz: bool, relu: bool = False, satfinite: bool = False
) -> Callable[[list[Any], Any], None]:
    """Return the function (regs, value) that writes a rounded value to a register; a bf16 is passed as f32.

    Args:
        to: PTX type of the result.
        target: Slot of the register.
        sat: Whether the value is clamped to [0, 1].
        ftz: Whether a subnormal f32 becomes a zero.
        relu: Whether a negative value becomes 0.
        satfinite: Whether a value beyond the largest finite f16 or bf16 becomes that number.
    """

    def put(regs: list[Any], value: Any) -> None:
        """Write a value to the target register with the modifiers ftz, sat, satfinite and relu.

        regs: the registers by slot, of which `target` is written. value: the rounded result, f32 for bf16.
        """
        if ftz and to == "f32":
            value = flush(value)
        if sat:
            value = saturate(value)
        if satfinite:
            value = _finite(value, to)
        if relu:
            value = rectify(value)
        if to == "bf16":
            regs[target][...] = to_bf16(value)
        elif to == "f16":
            regs[target].view(np.uint16)[...] = bits16(value, "f16")  # with the canonical NaN
        else:
            d = regs[target]
            d[...] = value
            if to == "f32":
                make_nans_canonical(d)

    return put


def narrowed(wide: Any, to: str, mode: str) -> Any:
    """Round f64 to a PTX float type in a mode of `_MODES`; bf16 is returned as the f32 of the same value."""
    if to == "f64":
        return wide
    # bf16 is rounded from f32. The f32 is rounded to odd, so that rounding twice gives the same as rounding once.
    if to == "bf16":
        return from_bf16(to_bf16(exact.round_to_odd_f32(wide), mode))
    return exact.narrow(wide, dtype_of(to), mode)


def _between_floats(slot: int, target: int, to: str, source_type: str, words: set[str]) -> Step:
    """Build the closure of a conversion between floats: cvt.rz.f16.f32, or cvt.rni.f32.f32, which rounds 2.7 to 3.0.

    Args:
        slot: Slot of the source.
        target: Slot of the result.
        to: PTX type of the result, one of `_FLOATS`.
        source_type: PTX type of the source, one of `_FLOATS`.
        words: The modifiers of the instruction, without its types.
    """
    mode = next((m for m in _MODES if m in words), "rn")
    integral = next((_INTEGRAL[m] for m in _INTEGRAL if m in words), None)
    ftz = "ftz" in words
    # put(regs, value) applies sat, ftz and the like to a rounded value, and writes it to the target.
    put = _store(to, target, sat="sat" in words, ftz=ftz, relu="relu" in words, satfinite="satfinite" in words)

    def convert_float(regs: list[Any]) -> None:
        """Convert a float to a float. `integral`, unless it is None, first rounds the number to an integral value."""
        wide = _widen(regs[slot], source_type, ftz)
        if integral is not None:
            wide = integral(wide)
        put(regs, narrowed(wide, to, mode))

    return convert_float


def _from_integer(slot: int, target: int, to: str, source_type: str, words: set[str]) -> Step:
    """Build the closure of a conversion from an integer to a float, such as cvt.rz.f32.s64.

    Args:
        slot: Slot of the source.
        target: Slot of the result.
        to: PTX type of the result, one of `_FLOATS`.
        source_type: PTX type of the source, an integer.
        words: The modifiers of the instruction, without its types.
    """
    mode = next((m for m in _MODES if m in words), "rn")
    # put(regs, value) applies sat, ftz and the like to a rounded value, and writes it to the target.
    put = _store(to, target, sat="sat" in words, ftz="ftz" in words)
    is_64_bits = SIZES[source_type] == 8
    dtype = dtype_of(to) if to != "bf16" else None

    def convert_integer(regs: list[Any]) -> None:
        """Convert an integer to a float, rounded once, and pass it to `put`, which stores it.

        `is_64_bits`: the integer may need more bits than f64 has.
        """
        value = regs[slot]
        if not is_64_bits:  # exact in f64
            put(regs, narrowed(value.astype(np.float64), to, mode))
        elif mode == "rn" and to in ("f32", "f64"):  # NumPy rounds to nearest, once
            put(regs, value.astype(dtype))
        else:
            put(regs, _rounded_64_bits(value, to, mode))

    return convert_integer


def _rounded_64_bits(value: Any, to: str, mode: str) -> Any:
    """Return integers of 64 bits, rounded once to a PTX float type in a mode of `_MODES`."""
    # Both 32-bit halves are exact in f64; `total` is their sum, rounded to nearest, and `error` the rest.
    high = (value >> value.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (value & value.dtype.type(0xFFFFFFFF)).astype(np.float64)
    total, error = exact.two_sum(high, low)
    if to == "f64":
        return exact.directed(total, error, mode)
    # A narrower result than f64 is rounded twice: first to odd, so that it is the same as rounding once.
    return narrowed(exact.round_to_odd(total, error), to, mode)


def _pair(builder: FunctionBuilder, instruction: Instruction, to: str, words: set[str]) -> Step:
    """Build the closure of `cvt.rn.f16x2.f32 d, a, b` or bf16x2, where a becomes the high half, b the low one."""
    builder.require_modifiers(instruction, (*_FLOAT_MODES, "relu", "satfinite"), words)
    d, a, b = builder.bind(instruction, "u32", "f32", "f32")
    kind = to.removesuffix("x2")
    mode = next((m for m in _MODES if m in words), "rn")
    relu, is_clamped_to_finite = "relu" in words, "satfinite" in words

    def bits_of_half(single: Any) -> Any:
        """Round f32 numbers to the 16-bit type `kind` in `mode`, and return their bits.

        Infinities may become the largest finite number (`is_clamped_to_finite`), and negative numbers 0 (`relu`).
        """
        value = narrowed(np.asarray(single, np.float64), kind, mode)
        if is_clamped_to_finite:
            value = _finite(value, kind)
        if relu:
            value = rectify(value)
        return bits16(value, kind)

    def store_pair(regs: list[Any]) -> None:
        """Store the f32 numbers a and b, rounded to 16 bits each, as one word: b is the low half, a the high half."""
        regs[d][...] = joined(bits_of_half(regs[b]), bits_of_half(regs[a]))

    return store_pair


_LARGEST = {"f16": 65504.0, "bf16": float(from_bf16(np.uint16(0x7F7F)))}
"""Type whose conversions may have .satfinite → its largest finite number."""


def _finite(value: Any, type_: str) -> Any:
    """Return numbers, clamped to the largest finite ones of a type; NaN stays NaN. type_: a key of `_LARGEST`."""
    limit = _LARGEST[type_]
    return np.where(np.isnan(value), value, np.clip(value, -limit, limit)).astype(value.dtype)


_TF32_UNIT, _TF32_HALF, _TF32_DROPPED = np.uint32(1 << 13), np.uint32(1 << 12), np.uint32((1 << 13) - 1)
"""In the bits of an f32: the unit in the last place of tf32, half of it, and the bits below, which tf32 lacks."""

_F32_INFINITY, _F32_FRACTION = np.uint32(0x7F800000), np.uint32(0x7FFFFF)
"""Masks of the bits of an f32: the exponent, all of whose bits are 1 in infinity, and the fraction."""


def _rounds_up(value: Any, mode: str) -> Any:
    """Return whether the magnitude of f32, given by its bits, is rounded up to tf32 in the mode "rna", "rn" or "rz"."""
    dropped = value & _TF32_DROPPED
    if mode == "rna":
        return dropped >= _TF32_HALF
    if mode == "rn":
        is_odd = value & _TF32_UNIT != 0
        return (dropped > _TF32_HALF) | ((dropped == _TF32_HALF) & is_odd)
    return np.zeros(np.shape(value), bool)


def _tf32(builder: FunctionBuilder, instruction: Instruction, words: set[str]) -> Step:
    """Build the closure of the conversion from f32 to tf32: an f32 of which the low 13 bits of the fraction are 0.

    words: the modifiers, of which rna (halves away from zero, the default), rn, rz and relu have an effect.
    """
    builder.require_modifiers(instruction, ("rna", "rn", "rz", "relu"), words)
    d, a = builder.bind(instruction, "u32", "u32")
    mode = next((m for m in ("rna", "rn", "rz") if m in words), "rna")
    relu = "relu" in words

    def round_to_tf32(value: Any) -> Any:
        """Round the bits of f32 to tf32, which lacks the low 13 bits of the fraction; NaN becomes the canonical one.

        With `relu`, negative numbers become 0.
        """
        # The unit in the last place of tf32 is added to the magnitude of numbers that are rounded up.
        result = (value & ~_TF32_DROPPED) + np.where(_rounds_up(value, mode), _TF32_UNIT, np.uint32(0))
        is_special = value & _F32_INFINITY == _F32_INFINITY  # an infinity or NaN, which is not rounded
        is_nan = is_special & (value & _F32_FRACTION != 0)
        result = np.where(is_nan, CANONICAL_NAN, np.where(is_special, value, result))
        is_negative = result >> np.uint32(31) != 0
        return np.where(is_negative & ~is_nan, np.uint32(0), result) if relu else result

    # The closure sets regs[d] to round_to_tf32(regs[a]): arrays with an element per thread, by slot.
    return into(d, round_to_tf32, a)


def _pack(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `cvt.pack.sat.u8.s32.b32 d, a, b, c`.

    The lowest byte of d is b, clamped to u8, the next one a; above them are the low bytes of c. The same holds for s8,
    and for u16 and s16, where no bits are left for c.
    """
    has_c = len(instruction.operands) > 3  # c is left out in the form without .b32
    source_types = ("s32", "b32") if has_c else ("s32",)
    if instruction.modifiers not in [("pack", "sat", to, *source_types) for to in ("u8", "s8", "u16", "s16")]:
        builder.fail(instruction)
    part_dtype = dtype_of(instruction.modifiers[2])
    bits = 8 * part_dtype.itemsize
    d, a, b, *c = builder.bind(instruction, "u32", "s32", "s32", *(["u32"] if has_c else []))
    info = np.iinfo(part_dtype)

    def clamped_bits(value: Any) -> Any:
        """Return integers, clamped to the range of a part, as the bits of the part in u32."""
        parts = np.clip(value, info.min, info.max).astype(part_dtype)
        return parts.view(UNSIGNED[part_dtype.itemsize]).astype(np.uint32)

    def join_parts(regs: list[Any]) -> None:
        """Clamp a and b to parts, join them with b as the lower one, and put the low bits of c above them."""
        low = clamped_bits(regs[b]) | (clamped_bits(regs[a]) << np.uint32(bits))
        regs[d][...] = low | (regs[c[0]] << np.uint32(2 * bits)) if c else low

    return join_parts
