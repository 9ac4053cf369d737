"""f16, bf16 and pairs of them: computed in f32 or f64 and rounded again to 16 bits.

Rounding twice gives the correctly rounded sum or product, because f32 has more than twice the bits of either type. For
fma that does not hold; its sum is rounded to odd first (see exact.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import UNSIGNED
from pydispatch.runtime.simulators.ptx.instructions import exact
from pydispatch.runtime.simulators.ptx.instructions.floats import min_max
from pydispatch.runtime.simulators.ptx.instructions.small import (
    bits16,
    flush,
    from_bf16,
    joined,
    rectify,
    saturate,
    to_bf16,
)

_SUPPORTED_MODIFIERS = {"rn", "ftz", "sat", "approx", "relu", "NaN", "xorsign", "abs", "oob"}


def _fused(x: Any, y: Any, z: Any, is_bf16: bool) -> Any:
    """Compute x * y + z of f16 or bf16 numbers, which are passed and returned as f32, rounded once to their type."""
    product_sum = exact.round_to_odd_sum(x.astype(np.float64) * y, z.astype(np.float64))
    if is_bf16:
        return from_bf16(to_bf16(exact.round_to_odd_f32(product_sum)))
    return product_sum.astype(np.float16).astype(np.float32)


def _operation_on_f32(
    builder: FunctionBuilder, instruction: Instruction, words: set[str], is_bf16: bool
) -> tuple[int, Callable[..., Any]]:
    """Return (number of sources, function of so many f32 arrays that returns the result as f32) for an instruction.

    words: its modifiers without the type. is_bf16: whether the type is bf16 or bf16x2, else f16 or f16x2.
    """
    opcode = instruction.opcode
    if opcode in ("fma", "mad"):
        return 3, lambda x, y, z: _fused(x, y, z, is_bf16)
    if opcode in ("min", "max"):
        is_min, propagates_nan, is_xorsign = opcode == "min", "NaN" in words, "xorsign" in words

        def min_or_max(x: Any, y: Any) -> Any:
            """Return the minimum or maximum; with .xorsign, of the magnitudes, with the product of both signs."""
            if not is_xorsign:
                return min_max(x, y, is_min, propagates_nan)
            result = min_max(np.abs(x), np.abs(y), is_min, propagates_nan)
            return np.copysign(result, np.where(np.signbit(x) ^ np.signbit(y), np.float32(-1), np.float32(1)))

        return 2, min_or_max
    table: dict[str, tuple[int, Callable[..., Any]]] = {
        "add": (2, np.add),
        "sub": (2, np.subtract),
        "mul": (2, np.multiply),
        "neg": (1, np.negative),
        "abs": (1, np.absolute),
        "ex2": (1, lambda x: np.exp2(x.astype(np.float64)).astype(np.float32)),
        "tanh": (1, lambda x: np.tanh(x.astype(np.float64)).astype(np.float32)),
    }
    if opcode not in table:
        builder.fail(instruction)
    return table[opcode]


def small_float_operation(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of one operation of f16, bf16, f16x2 or bf16x2, such as add or ex2."""
    words, type_ = set(instruction.modifiers[:-1]), instruction.modifiers[-1]
    if words - _SUPPORTED_MODIFIERS:
        builder.fail(instruction)
    is_bf16, is_packed = type_.startswith("bf16"), type_.endswith("x2")
    source_count, compute = _operation_on_f32(builder, instruction, words, is_bf16)
    dtype = UNSIGNED[SIZES[type_]]
    target, *sources = builder.bind(instruction, dtype, *source_count * [dtype])
    ftz, sat, relu, is_sign_only = "ftz" in words, "sat" in words, "relu" in words, instruction.opcode in ("neg", "abs")

    def widen(bits: Any) -> Any:
        """Return the numbers with these 16 bits as f32; with .ftz, subnormal ones of f16 as zeros."""
        if is_bf16:
            return from_bf16(bits)
        half = np.asarray(bits).astype(np.uint16).view(np.float16)
        return (flush(half) if ftz else half).astype(np.float32)

    def compute_bits(values: list[Any]) -> Any:
        """Compute on 16-bit patterns in f32, with the modifiers; neg and abs change only the sign bit."""
        if is_sign_only and not ftz:
            bits = values[0].astype(np.uint16)
            return bits ^ np.uint16(0x8000) if instruction.opcode == "neg" else bits & np.uint16(0x7FFF)
        result = compute(*[widen(bits) for bits in values])
        if sat:
            result = saturate(result)
        if relu:
            result = rectify(result)
        if is_bf16:
            return to_bf16(result)
        half = result.astype(np.float16)
        return bits16(flush(half) if ftz else half, "f16")

    def step(regs: list[Any]) -> None:
        """Compute on one number of each register, or on both of a packed pair."""
        operands = [np.asarray(regs[source]) for source in sources]
        if is_packed:
            low = compute_bits([v.astype(np.uint16) for v in operands])
            high = compute_bits([(v >> np.uint32(16)).astype(np.uint16) for v in operands])
            regs[target][...] = joined(low, high)
        else:
            regs[target][...] = compute_bits(operands)

    return step
