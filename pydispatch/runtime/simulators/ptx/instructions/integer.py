"""Whole numbers: add, sub, mul, mad, sad, div, rem, abs, neg, min, max, dp4a, dp2a, and chains with carry."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import SIGNED, UNSIGNED, dtype_of

CARRY = "%cc"


def is_integer(type_: str) -> bool:
    return type_[:1] in "usb" and type_[1:].isdigit()


def integer_type(builder: FunctionBuilder, instruction: Instruction, *words: str) -> str:
    """Return the type, when every other modifier is one of words."""
    type_ = instruction.modifiers[-1] if instruction.modifiers else ""
    if not is_integer(type_) or any(m not in words for m in instruction.modifiers[:-1]):
        builder.fail(instruction)
    return type_


def _plain(ufunc: Any) -> Any:
    """Return the builder of closures of an instruction that one ufunc computes."""

    def make(builder: FunctionBuilder, instruction: Instruction) -> Step:
        """Build the closure of a binary operation; sums may saturate (.sat), and extremes be at least 0 (.relu)."""
        modifier = "sat" if ufunc in (np.add, np.subtract) else "relu"
        type_ = integer_type(builder, instruction, modifier)
        d, x, y = builder.operands(instruction, 3)
        if instruction.modifiers[0] == "sat":
            return _saturated(builder, instruction, ufunc)
        s, t, target = (
            builder.source(instruction, x, type_),
            builder.source(instruction, y, type_),
            builder.target(instruction, d, type_),
        )

        def step(regs: list[Any]) -> None:
            ufunc(regs[s], regs[t], out=regs[target])

        def rectified(regs: list[Any]) -> None:
            ufunc(regs[s], regs[t], out=regs[target])
            np.maximum(regs[target], 0, out=regs[target])

        return rectified if "relu" in instruction.modifiers else step

    return make


def _saturated(builder: FunctionBuilder, instruction: Instruction, ufunc: Any) -> Step:
    """Build the closure of add.sat and sub.sat."""
    d, x, y = instruction.operands
    if instruction.modifiers[-1] != "s32":
        builder.fail(instruction)
    s, t, target = (
        builder.source(instruction, x, "s32"),
        builder.source(instruction, y, "s32"),
        builder.target(instruction, d, "s32"),
    )
    low, high = -(1 << 31), (1 << 31) - 1

    def step(regs: list[Any]) -> None:
        regs[target][...] = np.clip(ufunc(regs[s].astype(np.int64), regs[t].astype(np.int64)), low, high)

    return step


def carried(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of add.cc, addc, addc.cc, sub.cc, subc, mad.cc, madc. The carry is a register of its own."""
    type_ = instruction.modifiers[-1]
    sets_carry = "cc" in instruction.modifiers
    uses_carry = instruction.opcode.endswith("c")
    dtype = UNSIGNED[SIZES[type_]]
    if builder.storage(CARRY) is None:
        builder.declare(CARRY, dtype_of("u32"))
    storage = builder.storage(CARRY)
    assert storage is not None
    carry = builder.view(storage, dtype_of("u32"))
    if uses_carry:
        builder.reads.add(carry)
    if sets_carry:
        builder.writes.add(carry)
    opcode = instruction.opcode.removesuffix("c")
    if opcode == "mad":
        d, x, y, z = builder.operands(instruction, 4)
        takes_high_half = "hi" in instruction.modifiers
        sources = [builder.source(instruction, operand, type_) for operand in (x, y)]
        third_slot = builder.source(instruction, z, dtype)
    else:
        d, x, z = builder.operands(instruction, 3)
        takes_high_half, sources = False, [builder.source(instruction, x, dtype)]
        third_slot = builder.source(instruction, z, dtype)
    target = builder.target(instruction, d, dtype)
    is_subtraction = opcode == "sub"

    def step(regs: list[Any]) -> None:
        """Add or subtract with carry; two sources are multiplied first."""
        if len(sources) == 2:
            p, q = regs[sources[0]], regs[sources[1]]
            left = (multiply_high(p, q) if takes_high_half else np.multiply(p, q)).view(dtype)
        else:
            left = regs[sources[0]]
        right = regs[third_slot]
        carry_in = regs[carry].astype(dtype) if uses_carry else dtype.type(0)
        if is_subtraction:
            partial = left - right
            total = partial - carry_in
            carry_out = (left < right) | (partial < carry_in)
        else:
            partial = left + right
            total = partial + carry_in
            carry_out = (partial < left) | (total < partial)
        regs[target][...] = total
        if sets_carry:
            regs[carry][...] = carry_out

    return step


def multiply_high(lhs: Any, rhs: Any) -> Any:
    """Return the upper half of the exact product, in the arguments' dtype."""
    dtype = lhs.dtype
    size = dtype.itemsize
    if size < 8:
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * size]
        return (lhs.astype(wide) * rhs.astype(wide) >> wide.type(8 * size)).astype(dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = lhs.view(np.uint64), rhs.view(np.uint64)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    low_product = x0 * y0
    middle = x1 * y0 + (low_product >> half)
    middle_carry = x0 * y1 + (middle & mask)
    high = x1 * y1 + (middle >> half) + (middle_carry >> half)
    if dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(lhs < 0, y, zero) - np.where(rhs < 0, x, zero)
    return high.view(dtype)


def _product(
    builder: FunctionBuilder, instruction: Instruction, type_: str, mode: str
) -> tuple[Any, Any, np.dtype[Any]]:
    """Return the type of the factors, the function that multiplies them, and the type of the product."""
    dtype = dtype_of(type_)
    if mode == "wide":
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * dtype.itemsize]
        return dtype, lambda x, y: np.multiply(x, y, dtype=wide), wide
    if mode == "hi":
        return dtype, multiply_high, dtype
    return dtype, np.multiply, dtype


def mul(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mul.lo, mul.hi and mul.wide."""
    type_ = integer_type(builder, instruction, "lo", "hi", "wide")
    d, x, y = builder.operands(instruction, 3)
    mode = instruction.modifiers[0]
    dtype, product, wide = _product(builder, instruction, type_, mode)
    s, t, target = (
        builder.source(instruction, x, dtype),
        builder.source(instruction, y, dtype),
        builder.target(instruction, d, wide),
    )
    if mode == "lo":
        return lambda regs: np.multiply(regs[s], regs[t], regs[target])

    def step(regs: list[Any]) -> None:
        regs[target][...] = product(regs[s], regs[t])

    return step


def mad(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mad.lo, mad.hi, mad.wide and mad.hi.sat.s32."""
    type_ = integer_type(builder, instruction, "lo", "hi", "wide", "sat")
    d, x, y, z = builder.operands(instruction, 4)
    dtype, product, wide = _product(builder, instruction, type_, instruction.modifiers[0])
    s, t, u = (
        builder.source(instruction, x, dtype),
        builder.source(instruction, y, dtype),
        builder.source(instruction, z, wide),
    )
    target = builder.target(instruction, d, wide)
    saturate = "sat" in instruction.modifiers

    def step(regs: list[Any]) -> None:
        """Multiply and add, saturated to 32 bits if requested."""
        left = product(regs[s], regs[t])
        if saturate:
            regs[target][...] = np.clip(left.astype(np.int64) + regs[u], -(1 << 31), (1 << 31) - 1)
        else:
            np.add(left, regs[u], regs[target])

    return step


def _divide(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of div and rem, toward zero. Division by zero gives all ones, and the dividend as the
    remainder, as GPUs do (the ISA leaves it open).
    """
    type_ = integer_type(builder, instruction)
    d, x, y = builder.operands(instruction, 3)
    s, t, target = (
        builder.source(instruction, x, type_),
        builder.source(instruction, y, type_),
        builder.target(instruction, d, type_),
    )
    remainder, signed = instruction.opcode == "rem", type_.startswith("s")
    dtype = dtype_of(type_)

    def step(regs: list[Any]) -> None:
        """Divide toward zero, or return the remainder; a quotient by 0 is all ones, a remainder the dividend."""
        left, right = np.broadcast_arrays(regs[s], regs[t])
        is_zero = right == 0
        if is_zero.any():
            right = np.where(is_zero, dtype.type(1), right)
        # Through magnitudes: NumPy divides toward minus infinity; minimum / -1 is the minimum.
        if signed:
            unsigned = UNSIGNED[dtype.itemsize]
            dividend_is_negative, divisor_is_negative = left < 0, right < 0
            p = np.where(dividend_is_negative, -left, left).view(unsigned)
            q = np.where(divisor_is_negative, -right, right).view(unsigned)
            result = p % q if remainder else p // q
            is_negative = dividend_is_negative if remainder else dividend_is_negative ^ divisor_is_negative
            result = np.where(is_negative, unsigned.type(0) - result, result).view(dtype)
        else:
            result = left % right if remainder else left // right
        if is_zero.any():
            result = np.where(is_zero, left if remainder else ~dtype.type(0), result)
        regs[target][...] = result

    return step


def _unary(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Simulate abs and neg."""
    type_ = integer_type(builder, instruction)
    d, x = builder.operands(instruction, 2)
    s, target = builder.source(instruction, x, type_), builder.target(instruction, d, type_)
    ufunc = np.absolute if instruction.opcode == "abs" else np.negative

    def step(regs: list[Any]) -> None:
        ufunc(regs[s], regs[target])

    return step


def _sad(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of sad: |a - b| + c."""
    type_ = integer_type(builder, instruction)
    d, x, y, z = builder.operands(instruction, 4)
    s, t, u, target = (
        builder.source(instruction, x, type_),
        builder.source(instruction, y, type_),
        builder.source(instruction, z, type_),
        builder.target(instruction, d, type_),
    )

    def step(regs: list[Any]) -> None:
        regs[target][...] = regs[u] + (np.maximum(regs[s], regs[t]) - np.minimum(regs[s], regs[t]))

    return step


def _mul24(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mul24 and mad24, .lo and .hi, of the low 24 bits of each factor."""
    type_ = integer_type(builder, instruction, "lo", "hi")
    operands = builder.operands(instruction, 3, 4)
    wide = np.dtype("i8" if type_ == "s32" else "u8")
    slots = [builder.source(instruction, operand, type_) for operand in operands[1:]]
    target = builder.target(instruction, operands[0], type_)
    is_high, dtype = instruction.modifiers[0] == "hi", dtype_of(type_)

    def step(regs: list[Any]) -> None:
        """Multiply 24-bit integers, take the low or high 32 bits of 48, and add a third register if there is one."""
        x, y = ((regs[slot].astype(wide) << wide.type(40)) >> wide.type(40) for slot in slots[:2])
        product = x * y >> wide.type(16 if is_high else 0)
        if len(slots) == 3:
            product = product + regs[slots[2]].astype(wide)
        regs[target][...] = product.astype(dtype)

    return step


def _dot(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of dp4a and dp2a.lo/hi: the dot product of packed bytes, or of 16-bit numbers and bytes, plus
    c.
    """
    words = [m for m in instruction.modifiers if m not in ("lo", "hi")]
    if len(words) != 2 or any(word not in ("u32", "s32") for word in words):
        builder.fail(instruction)
    d, x, y, z = builder.operands(instruction, 4)
    kinds = ["i" if word == "s32" else "u" for word in words]
    s, t = builder.source(instruction, x, "u32"), builder.source(instruction, y, "u32")
    u, target = builder.source(instruction, z, "u32"), builder.target(instruction, d, "u32")
    is_dp4a = instruction.opcode == "dp4a"
    count, left_bits = (4, 8) if is_dp4a else (2, 16)
    first_byte = 2 if "hi" in instruction.modifiers else 0  # of b; dp4a has no halves

    def packed_element(value: Any, kind: str, width: int, position: int) -> Any:
        """Return element `position` of `width` bits of a word as int64. kind: "i" if it is signed, else "u"."""
        shift = np.uint32(32 - width - position * width)
        word = value << shift
        dtype = np.int32 if kind == "i" else np.uint32
        return (word.view(dtype) >> dtype(32 - width)).astype(np.int64)

    def step(regs: list[Any]) -> None:
        """Add the dot product of packed bytes, or of halves and bytes, to the third register."""
        total = regs[u].astype(np.int64)
        for k in range(count):
            left = packed_element(regs[s], kinds[0], left_bits, k)
            total = total + left * packed_element(regs[t], kinds[1], 8, first_byte + k)
        regs[target][...] = total.astype(np.uint32)

    return step


INTEGER = {
    "add": _plain(np.add), "sub": _plain(np.subtract), "min": _plain(np.minimum), "max": _plain(np.maximum),
    "mul": mul, "mad": mad, "div": _divide, "rem": _divide, "abs": _unary, "neg": _unary, "sad": _sad,
    "mul24": _mul24, "mad24": _mul24, "dp4a": _dot, "dp2a": _dot,
}  # fmt: skip
