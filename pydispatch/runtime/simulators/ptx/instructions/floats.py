"""PTX arithmetic of f32 and f64. A handler returns a closure `step(regs)`, which runs the instruction for all threads
of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an array with an
element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame. `builder.bind` returns the slots of
the destination and the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.instructions import exact
from pydispatch.runtime.simulators.ptx.instructions.small import flush, make_nans_canonical, saturate

_MODES = ("rn", "rz", "rm", "rp")
"""Modifiers that round a result: to nearest even, toward zero, down, up."""
_ROUNDED = frozenset({*_MODES, "ftz", "sat"})
"""Modifiers of sums and products."""
_QUOTIENT = frozenset({*_MODES, "ftz", "approx"})
"""Modifiers of reciprocals and roots that are rounded or approximated."""
_APPROXIMATE = frozenset({"ftz", "approx"})
"""Modifiers of functions that GPUs only approximate."""
_F32 = np.dtype("f4")
Compute = Callable[..., Any]
"""Function of the values of an instruction's operands, arrays over the threads or scalars, that returns the result."""


class FloatModifiers(NamedTuple):
    """Modifiers of an instruction on floats.

    add.rz.ftz.f32 has the rounding mode "rz", the words {"rz", "ftz"} and the type "f32".
    """

    rounding: str  # "rn" (also if the instruction states none), "rz", "rm" or "rp"
    words: set[str]  # all modifiers but the type
    type: str


def float_modifiers(builder: FunctionBuilder, instruction: Instruction, allowed: Container[str]) -> FloatModifiers:
    """Return the modifiers of an instruction; the rounding mode is "rn" if it states none.

    Raise ArtifactError if one of them is not in `allowed`, or if two of them state how the instruction rounds.
    """
    *other_modifiers, type_ = instruction.modifiers  # the type is the last one
    words = set(other_modifiers)
    builder.require_modifiers(instruction, allowed, words)
    if len(words & {*_MODES, "approx", "full"}) > 1:  # .approx and .full exclude a rounding mode
        builder.fail(instruction)
    rounding = next((m for m in _MODES if m in words), "rn")
    return FloatModifiers(rounding, words, type_)


def step_with_modifiers(
    builder: FunctionBuilder, instruction: Instruction, compute: Compute, words: set[str], type_: str, count: int
) -> Step:
    """Return the closure of an instruction `opcode d, a, ...`, which stores compute(a, ...) in d for all threads.

    It applies .ftz and .sat, and replaces a NaN of f32 by the canonical one, as GPUs do.

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        compute: compute(*operands) returns the result, from `count` arrays with an element per thread.
        words: Modifiers of the instruction. "ftz" (subnormal operands and results become zeros) and "sat" (the result
            is clamped to [0, 1]) have an effect here; `compute` handles the others.
        type_: PTX type of operands and result.
        count: Number of operands.
    """
    target, *sources = builder.bind(instruction, type_, *count * [type_])
    is_f32, ftz, sat = type_ == "f32", "ftz" in words, "sat" in words

    def compute_and_modify(regs: list[Any]) -> None:
        """Store the result of `compute` on the slots `sources` in the slot `target`.

        `ftz`: subnormal operands and results become zeros. `sat`: the result is clamped to [0, 1]. A NaN of f32 becomes
        the canonical one.
        """
        operands = [regs[source] for source in sources]
        if ftz:
            operands = [flush(v) for v in operands]
        result = compute(*operands)
        if ftz:
            result = flush(result)
        if sat:
            result = saturate(result)
        d = regs[target]
        d[...] = result
        if is_f32:
            make_nans_canonical(d)

    return compute_and_modify


def _sum(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of add and sub, such as add.rz.ftz.f32.

    NumPy rounds to nearest (rn). The directed modes (rz, rm, rp) round an exact sum, which `exact.py` computes.
    """
    mode, words, type_ = float_modifiers(builder, instruction, _ROUNDED)
    is_subtraction = instruction.opcode == "sub"
    ufunc = np.subtract if is_subtraction else np.add
    if mode == "rn":
        return step_with_modifiers(builder, instruction, ufunc, words, type_, count=2)
    if type_ == "f64":
        return step_with_modifiers(
            builder,
            instruction,
            lambda x, y: exact.add64(x, -y if is_subtraction else y, mode),
            words,
            type_,
            count=2,
        )

    def add_or_subtract(x: Any, y: Any) -> Any:
        """Return x + y of f32, or x - y if `is_subtraction`, rounded in `mode`.

        The sum in f64 is rounded to odd (the last bit is set if it is inexact), so that rounding it to f32 gives the
        same as rounding the exact sum.
        """
        x, y = x.astype(np.float64), y.astype(np.float64)
        y = -y if is_subtraction else y
        # A sum of exactly zero, as of 1 and -1, is -0 when rounding down (rm), where NumPy's is +0.
        exact_sum = exact.with_sign_of_zero_sum(exact.round_to_odd_sum(x, y), x, y, mode)
        return exact.narrow(exact_sum, _F32, mode)

    return step_with_modifiers(builder, instruction, add_or_subtract, words, type_, count=2)


def _mul(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mul. The product of two f32 is exact in f64, so that it is rounded once."""
    mode, words, type_ = float_modifiers(builder, instruction, _ROUNDED)
    if mode == "rn":
        return step_with_modifiers(builder, instruction, np.multiply, words, type_, count=2)
    if type_ == "f64":
        return step_with_modifiers(builder, instruction, lambda x, y: exact.mul64(x, y, mode), words, type_, count=2)
    return step_with_modifiers(
        builder, instruction, lambda x, y: exact.narrow(x.astype(np.float64) * y, _F32, mode), words, type_, count=2
    )


def _fma(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of fma and mad: both round once, as mad does on every GPU since 2010."""
    mode, words, type_ = float_modifiers(builder, instruction, _ROUNDED)
    compute = exact.fma64 if type_ == "f64" else exact.fma32
    return step_with_modifiers(builder, instruction, lambda x, y, z: compute(x, y, z, mode), words, type_, count=3)


def _div(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of div. Its .approx and .full also return the exact quotient, rounded to nearest."""
    mode, words, type_ = float_modifiers(builder, instruction, _QUOTIENT | {"full"})
    compute = exact.div64 if type_ == "f64" else exact.div32
    return step_with_modifiers(builder, instruction, lambda x, y: compute(x, y, mode), words, type_, count=2)


def _rcp(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of rcp, 1 / x. Its .approx of f32 also returns the exact quotient, rounded to nearest."""
    mode, words, type_ = float_modifiers(builder, instruction, _QUOTIENT)
    if type_ == "f64" and "approx" in words:
        return _upper_word_step(builder, instruction, lambda x: 1.0 / x, words)
    divide = exact.div64 if type_ == "f64" else exact.div32
    return step_with_modifiers(builder, instruction, lambda x: divide(np.ones_like(x), x, mode), words, type_, count=1)


def _upper_word_step(builder: FunctionBuilder, instruction: Instruction, compute: Compute, words: set[str]) -> Step:
    """Return the closure of rcp.approx.ftz.f64 or rsqrt.approx.ftz.f64: f64 whose lower 32 bits are 0.

    compute: returns the result for an array of f64. words: modifiers of the instruction.
    """

    def compute_upper_word(x: Any) -> Any:
        """Return the result for x with subnormal numbers replaced by 0; its lower word is set to 0."""
        result = np.asarray(compute(flush(x)))
        return (result.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)

    # Without "ftz": step_with_modifiers() would also flush the result, but here .ftz flushes only the operand.
    return step_with_modifiers(builder, instruction, compute_upper_word, words - {"ftz"}, "f64", count=1)


def _sqrt(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of sqrt. Its .approx also returns the exact root, rounded to nearest."""
    mode, words, type_ = float_modifiers(builder, instruction, _QUOTIENT)
    compute = exact.sqrt64 if type_ == "f64" else exact.sqrt32
    return step_with_modifiers(builder, instruction, lambda x: compute(x, mode), words, type_, count=1)


def _rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


def _approx(function: Callable[[Any], Any]) -> Callable[[FunctionBuilder, Instruction], Step]:
    """Return the handler of an instruction that GPUs approximate, such as sin.approx.f32.

    Its closure computes the result in f64 and rounds it, which is within the tolerance that PTX states.

    function: computes the instruction on arrays of f64.
    """

    def make(builder: FunctionBuilder, instruction: Instruction) -> Step:
        """Build the closure that computes `function` in f64 and rounds the result.

        Of the instructions that use this handler, only rsqrt also has operands of f64: rsqrt.approx.f64 returns the f64
        result, and rsqrt.approx.ftz.f64 returns it with the lower 32 bits set to 0.
        """
        modifiers = float_modifiers(builder, instruction, _APPROXIMATE)
        words, type_ = modifiers.words, modifiers.type
        if type_ == "f64" and instruction.opcode != "rsqrt":
            builder.fail(instruction)
        if type_ == "f64" and "ftz" in words:
            return _upper_word_step(builder, instruction, function, words)
        return step_with_modifiers(
            builder, instruction, lambda x: function(x.astype(np.float64)), words, type_, count=1
        )

    return make


def min_max(x: Any, y: Any, least: bool, propagates_nan: bool) -> Any:
    """Return the minimum or maximum of x and y, where -0 is less than +0. If both are NaN, it is NaN.

    Args:
        x: Numbers of one float type.
        y: Numbers of the same type.
        least: Whether the minimum is returned, else the maximum.
        propagates_nan: Whether the result of a NaN and a number is the NaN, else it is the number.
    """
    takes_x = x < y if least else x > y
    result = np.where(takes_x, x, y)
    is_equal = x == y
    if is_equal.any():
        # Equal numbers are the same, except for +0 and -0: the minimum is the one with a sign, the maximum the other.
        takes_x_if_equal = np.signbit(x) if least else ~np.signbit(x)
        result = np.where(is_equal, np.where(takes_x_if_equal, x, y), result)
    is_nan_x, is_nan_y = np.isnan(x), np.isnan(y)
    if is_nan_x.any() or is_nan_y.any():
        result_of_nan_x, result_of_nan_y = (x, y) if propagates_nan else (y, x)
        result = np.where(is_nan_x, result_of_nan_x, np.where(is_nan_y, result_of_nan_y, result))
    return result


def _min_max(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of min and max of two or three operands.

    .NaN: if an operand is NaN, the result is NaN. .xorsign.abs: the magnitudes are compared, and the sign of the result
    is the product of both signs.
    """
    _, words, type_ = float_modifiers(builder, instruction, ("ftz", "NaN", "xorsign", "abs"))
    is_min, propagates_nan, is_xorsign = instruction.opcode == "min", "NaN" in words, "xorsign" in words

    def min_or_max(x: Any, y: Any) -> Any:
        """Return the minimum or maximum; if `is_xorsign`, that of the magnitudes with the product of both signs."""
        if not is_xorsign:
            return min_max(x, y, is_min, propagates_nan)
        result = min_max(np.abs(x), np.abs(y), is_min, propagates_nan)
        return np.copysign(result, np.where(np.signbit(x) ^ np.signbit(y), -1.0, 1.0).astype(x.dtype))

    if ("abs" in words) != is_xorsign:  # PTX has each of them only with the other one
        builder.fail(instruction)
    count = len(instruction.operands) - 1
    if count == 3:
        return step_with_modifiers(
            builder, instruction, lambda x, y, z: min_or_max(min_or_max(x, y), z), words, type_, count=3
        )
    return step_with_modifiers(builder, instruction, min_or_max, words, type_, count=2)


def _sign(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of abs and neg. PTX leaves the bits of a NaN open; here only the sign changes."""
    modifiers = float_modifiers(builder, instruction, ("ftz",))
    d, a = builder.bind(instruction, modifiers.type, modifiers.type)
    ufunc = np.absolute if instruction.opcode == "abs" else np.negative
    if "ftz" in modifiers.words:

        def flushed(regs: list[Any]) -> None:
            """Store the result, computed from a with subnormal numbers replaced by 0."""
            regs[d][...] = ufunc(flush(regs[a]))

        return flushed
    return lambda regs: ufunc(regs[a], out=regs[d])


def _copysign(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `copysign d, a, b`: the sign of a with the magnitude of b."""
    type_ = float_modifiers(builder, instruction, ()).type
    d, a, b = builder.bind(instruction, type_, type_, type_)
    return lambda regs: np.copysign(regs[b], regs[a], out=regs[d])  # NumPy's first operand is the magnitude


FLOAT = {
    "add": _sum, "sub": _sum, "mul": _mul, "fma": _fma, "mad": _fma, "div": _div, "rcp": _rcp, "sqrt": _sqrt,
    "rsqrt": _approx(_rsqrt), "sin": _approx(np.sin), "cos": _approx(np.cos), "ex2": _approx(np.exp2),
    "lg2": _approx(np.log2), "tanh": _approx(np.tanh), "min": _min_max, "max": _min_max, "abs": _sign, "neg": _sign,
    "copysign": _copysign,
}  # fmt: skip
"""Opcode → function that builds its closure for f32 and f64; `arithmetic.py` reads it."""
