"""PTX arithmetic of f16 and bf16, computed in f32 or f64 and rounded to 16 bits. Numbers are arrays with an element for
each thread. Rounding twice gives the correctly rounded sum or product, because f32 has more than twice the bits of
either type. For fma that does not hold; its sum is rounded to odd first (see exact.py).
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

_SUM, _FUSED, _SIGN = ("rn", "ftz", "sat"), ("rn", "ftz", "sat", "relu"), ("ftz",)
_EXTREME, _APPROXIMATE = ("ftz", "NaN", "xorsign", "abs"), ("approx", "ftz")
"""Modifiers of sums and products, fused sums, changes of the sign, minimum and maximum, and approximations."""
_MODIFIERS = {
    "add": _SUM, "sub": _SUM, "mul": _SUM, "fma": _FUSED, "mad": _FUSED, "min": _EXTREME, "max": _EXTREME,
    "neg": _SIGN, "abs": _SIGN, "ex2": _APPROXIMATE, "tanh": _APPROXIMATE,
}  # fmt: skip
"""Opcode → modifiers other than the type that the instruction may have on these types."""
_BF16_EXPONENT, _BF16_SIGN = np.uint16(0x7F80), np.uint16(0x8000)
"""Bits of the exponent of a bf16, which are 0 in zeros and subnormals, and its sign."""


def _fused(x: Any, y: Any, z: Any, is_bf16: bool) -> Any:
    """Compute x * y + z of f16 or bf16 numbers, which are passed and returned as f32, rounded once to their type.

    The product is exact in f64. The sum is rounded to odd (its last bit is set if it is inexact), so that rounding it
    again gives the same as rounding the exact sum once.
    """
    product_sum = exact.round_to_odd_sum(x.astype(np.float64) * y, z.astype(np.float64))
    if is_bf16:
        return from_bf16(to_bf16(exact.round_to_odd_f32(product_sum)))
    return product_sum.astype(np.float16).astype(np.float32)


def _operation_on_f32(
    builder: FunctionBuilder, instruction: Instruction, words: set[str], is_bf16: bool
) -> tuple[int, Callable[..., Any]]:
    """Return (number of sources, function of so many f32 arrays that returns the result as f32) for an instruction.

    For fma.rn.f16 it is (3, function(x, y, z)), whose arguments are the operands of all threads as f32.

    words: its modifiers without the type. is_bf16: whether the type is bf16 or bf16x2, else f16 or f16x2.
    """
    opcode = instruction.opcode
    if opcode in ("fma", "mad"):
        return 3, lambda x, y, z: _fused(x, y, z, is_bf16)
    if opcode in ("min", "max"):
        if ("abs" in words) != ("xorsign" in words):  # PTX has each of them only with the other one
            builder.fail(instruction)
        return 2, _min_or_max(opcode == "min", "NaN" in words, "xorsign" in words)
    return _OPERATIONS_ON_F32[opcode]


_OPERATIONS_ON_F32: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul": (2, np.multiply),
    "neg": (1, np.negative),
    "abs": (1, np.absolute),
    "ex2": (1, lambda x: np.exp2(x.astype(np.float64)).astype(np.float32)),
    "tanh": (1, lambda x: np.tanh(x.astype(np.float64)).astype(np.float32)),
}
"""Opcode → number of sources, and function of so many f32 arrays."""


def _min_or_max(is_min: bool, propagates_nan: bool, is_xorsign: bool) -> Callable[[Any, Any], Any]:
    """Return the minimum or maximum of f32; with .xorsign that of the magnitudes, with the product of both signs."""

    def extreme_of_magnitudes(x: Any, y: Any) -> Any:
        """Return the extreme magnitude; it is negative if exactly one of x and y is."""
        result = min_max(np.abs(x), np.abs(y), is_min, propagates_nan)
        return np.copysign(result, np.where(np.signbit(x) ^ np.signbit(y), np.float32(-1), np.float32(1)))

    return extreme_of_magnitudes if is_xorsign else lambda x, y: min_max(x, y, is_min, propagates_nan)


def small_float_operation(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Return the closure of one operation of f16, bf16, f16x2 or bf16x2, such as add or ex2.

    Numbers are in registers as their bits: one number in 16 bits, or a packed pair (x2) in the low and the high half of
    32 bits. They are widened to f32, computed, and rounded to 16 bits.
    """
    words, type_ = set(instruction.modifiers[:-1]), instruction.modifiers[-1]
    if instruction.opcode not in _MODIFIERS:
        builder.fail(instruction)
    builder.require_modifiers(instruction, _MODIFIERS[instruction.opcode], words)
    is_bf16, is_packed = type_.startswith("bf16"), type_.endswith("x2")
    source_count, compute = _operation_on_f32(builder, instruction, words, is_bf16)
    dtype = UNSIGNED[SIZES[type_]]
    # Slots, indices in `regs`, of the result and the operands.
    target, *sources = builder.bind(instruction, dtype, *source_count * [dtype])
    # neg and abs change only the sign bit, also of NaN. Rounding from f32 would replace NaN by the canonical one.
    if instruction.opcode in _SIGN_OPERATIONS and "ftz" not in words:
        compute_bits = _SIGN_OPERATIONS[instruction.opcode]
    else:
        compute_bits = _rounded(compute, _widening(is_bf16, "ftz" in words), _narrowing(is_bf16, words))

    def compute_numbers(regs: list[Any]) -> None:
        """Store the result of `compute_bits`: on the 16-bit number in each register, or on both if `is_packed`."""
        operands = [np.asarray(regs[source]) for source in sources]
        if is_packed:
            low = compute_bits(*[v.astype(np.uint16) for v in operands])
            high = compute_bits(*[(v >> np.uint32(16)).astype(np.uint16) for v in operands])
            regs[target][...] = joined(low, high)
        else:
            regs[target][...] = compute_bits(*operands)

    return compute_numbers


_SIGN_OPERATIONS: dict[str, Callable[..., Any]] = {
    "neg": lambda bits: bits.astype(np.uint16) ^ np.uint16(0x8000),
    "abs": lambda bits: bits.astype(np.uint16) & np.uint16(0x7FFF),
}
"""Opcode of an instruction that changes only the sign → function of the bits."""


def _rounded(
    compute: Callable[..., Any], widen: Callable[[Any], Any], narrow: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return the function of the operands' bits that widens them to f32, computes, and rounds to the result's bits."""
    return lambda *operands: narrow(compute(*[widen(bits) for bits in operands]))


def _widening(is_bf16: bool, flushes_subnormals: bool) -> Callable[[Any], Any]:
    """Return the function that returns the numbers with some 16 bits, uint16, as f32.

    Args:
        is_bf16: Whether the numbers are bf16, else f16.
        flushes_subnormals: Whether subnormals count as zeros.
    """

    def widen(bits: Any) -> Any:
        """Widen bf16 numbers (`is_bf16`), else f16 numbers, which are passed as their bits, to f32."""
        stored = from_bf16(bits) if is_bf16 else np.asarray(bits).astype(np.uint16).view(np.float16)
        return (flush(stored) if flushes_subnormals else stored).astype(np.float32)

    return widen


def _narrowing(is_bf16: bool, words: set[str]) -> Callable[[Any], Any]:
    """Return the function that returns the 16 bits, uint16, of results in f32.

    Args:
        is_bf16: Whether the results become bf16, else f16.
        words: Modifiers of the instruction: .ftz flushes subnormals, .sat clamps to [0, 1], .relu replaces negative
            results by 0.
    """
    flushes_subnormals, saturates, rectifies = "ftz" in words, "sat" in words, "relu" in words

    def narrow(result: Any) -> Any:
        """Round results in f32 to bf16 (`is_bf16`), else to f16, and return their bits.

        `saturates`: they are clamped to [0, 1]. `rectifies`: negative ones become 0.
        """
        if saturates:
            result = saturate(result)
        if rectifies:
            result = rectify(result)
        if is_bf16:
            bits = to_bf16(result)
            if not flushes_subnormals:
                return bits
            is_subnormal_or_zero = bits & _BF16_EXPONENT == 0
            return np.where(is_subnormal_or_zero, bits & _BF16_SIGN, bits)  # a zero with the sign of the number
        half = result.astype(np.float16)
        return bits16(flush(half) if flushes_subnormals else half, "f16")

    return narrow
