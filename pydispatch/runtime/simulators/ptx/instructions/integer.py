"""PTX arithmetic of integers. A handler returns a closure `step(regs)`, which runs the instruction for all threads of a
frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an array with an element
per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame. `builder.bind` returns the slots of the
destination and the sources; `builder.fail` refuses an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import SIGNED, UNSIGNED, dtype_of

CARRY = "%cc"
"""Name of the register that holds the carry bit of each thread, 0 or 1."""
S32_LEAST, S32_MOST = -(1 << 31), (1 << 31) - 1
"""The least and the greatest number of s32."""


def is_integer(type_: str) -> bool:
    """Return whether a PTX type is of integers or untyped bits: u8, s32, b64."""
    return type_[:1] in "usb" and type_[1:].isdigit()


def integer_type(builder: FunctionBuilder, instruction: Instruction, *, allowed: Sequence[str] = ()) -> str:
    """Return the integer type of an instruction, which is its last modifier: add.sat.s32 -> "s32".

    Raise ArtifactError if that is no type of integers, or if any of the other modifiers is not in `allowed`.
    """
    type_ = instruction.modifiers[-1] if instruction.modifiers else ""
    if not is_integer(type_) or any(m not in allowed for m in instruction.modifiers[:-1]):
        builder.fail(instruction)
    return type_


def _plain(ufunc: Any) -> Any:
    """Return the handler of an instruction that one NumPy function of two arrays computes."""

    def make(builder: FunctionBuilder, instruction: Instruction) -> Step:
        """Build the closure of the binary operation that `ufunc` computes, such as add.s32 d, a, b by np.add.

        add and sub may saturate (.sat); min and max may replace negative results by 0 (.relu). `regs` of the closures
        has an array per operand, with an element per thread.
        """
        # The only modifier that the instruction may have beside its type, which is the last one.
        modifier = "sat" if ufunc in (np.add, np.subtract) else "relu"
        type_ = integer_type(builder, instruction, allowed=(modifier,))
        if "sat" in instruction.modifiers:
            return _saturated(builder, instruction, ufunc)
        d, a, b = builder.bind(instruction, type_, type_, type_)

        def store_result(regs: list[Any]) -> None:
            """Store the result of the NumPy function of a and b in d."""
            ufunc(regs[a], regs[b], out=regs[d])

        def rectified(regs: list[Any]) -> None:
            """Store the result, with 0 in place of negative numbers."""
            ufunc(regs[a], regs[b], out=regs[d])
            np.maximum(regs[d], 0, out=regs[d])

        return rectified if "relu" in instruction.modifiers else store_result

    return make


def _saturated(builder: FunctionBuilder, instruction: Instruction, ufunc: Any) -> Step:
    """Build the closure of add.sat and sub.sat: the exact result in 64 bits, clipped to 32 bits."""
    if instruction.modifiers[-1] != "s32":
        builder.fail(instruction)
    d, a, b = builder.bind(instruction, "s32", "s32", "s32")

    def store_saturated(regs: list[Any]) -> None:
        """Store the exact sum or difference of a and b in d, clipped to the range of s32."""
        regs[d][...] = np.clip(ufunc(regs[a].astype(np.int64), regs[b].astype(np.int64)), S32_LEAST, S32_MOST)

    return store_saturated


def carried(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of add.cc, addc, addc.cc, sub.cc, subc, mad.cc, madc.

    An opcode that ends in c reads the carry (a borrow for sub), .cc writes it. So two instructions add numbers of 64
    bits in halves of 32 bits: `add.cc.u32 d_low, a_low, b_low; addc.u32 d_high, a_high, b_high;`.
    """
    words, type_ = instruction.modifiers[:-1], instruction.modifiers[-1]
    opcode = instruction.opcode.removesuffix("c")
    builder.require_modifiers(instruction, ("cc", "lo", "hi") if opcode == "mad" else ("cc",), words)
    if opcode == "mad":
        # Only a check: an instruction with none or both of .lo and .hi is refused.
        _part_of_product(builder, instruction, ("lo", "hi"))
    # The carry is uint32: NumPy would widen the sum of a narrower type and the carry, which then would not wrap.
    if SIZES[type_] < np.dtype(np.uint32).itemsize:
        builder.fail(instruction)
    dtype = UNSIGNED[SIZES[type_]]
    carry_in, carry_out = _carry_slots(builder, instruction)
    if opcode == "mad":
        d, *factors, addend = builder.bind(instruction, dtype, type_, type_, dtype)
    else:
        # Of add and sub, `factors` has the first operand alone.
        d, *factors, addend = builder.bind(instruction, dtype, dtype, dtype)
    multiply = multiply_high if "hi" in instruction.modifiers else np.multiply
    combine = _difference if opcode == "sub" else _sum

    def add_with_carry(regs: list[Any]) -> None:
        """Add or subtract with carry: the first operand, or the product of the two `factors` of mad, and `addend`.

        Store the result in d, and the new carry in `carry_out` unless that is -1.
        """
        left = regs[factors[0]]
        if len(factors) == 2:
            left = multiply(left, regs[factors[1]]).view(dtype)
        regs[d][...], carries = combine(left, regs[addend], regs[carry_in])
        if carry_out >= 0:
            regs[carry_out][...] = carries

    return add_with_carry


def _carry_slots(builder: FunctionBuilder, instruction: Instruction) -> tuple[int, int]:
    """Return the slots of the carry that an instruction reads (or a constant 0) and that it writes (-1 if it does not).

    addc.cc reads and writes the carry, addc reads it, and add.cc writes it. The carry is a register of its own, which
    the first such instruction of a function declares. No operand names it, so this function itself adds its slot to
    `builder.reads` and `builder.writes`, which `builder.source` and `builder.target` do for operands.
    """
    if builder.storage(CARRY) is None:
        builder.declare(CARRY, dtype_of("u32"))
    storage = builder.storage(CARRY)
    assert storage is not None
    carry = builder.view(storage, dtype_of("u32"))
    carry_in, carry_out = builder.constant(np.uint32(0)), -1
    if instruction.opcode.endswith("c"):
        builder.reads.add(carry)
        carry_in = carry
    if "cc" in instruction.modifiers:
        builder.writes.add(carry)
        carry_out = carry
    return carry_in, carry_out


def _sum(left: Any, right: Any, carry: Any) -> tuple[Any, Any]:
    """Return left + right + carry, which wraps, and the carry out: whether the sum has wrapped, bool.

    left, right: unsigned integers of one dtype. carry: uint32.
    """
    partial = left + right
    total = partial + carry
    return total, (partial < left) | (total < partial)  # a sum that wraps is less than its operands


def _difference(left: Any, right: Any, borrow: Any) -> tuple[Any, Any]:
    """Return left - right - borrow, which wraps, and the borrow out: whether it has wrapped, bool.

    left, right: unsigned integers of one dtype. borrow: uint32.
    """
    partial = left - right
    return partial - borrow, (left < right) | (partial < borrow)  # either subtraction may wrap


def multiply_high(lhs: Any, rhs: Any) -> Any:
    """Return the upper half of the exact product of integers of one dtype, in that dtype.

    For u32, 0x80000000 times 6 is 0x3_00000000, of which the upper half is 3.
    """
    dtype = lhs.dtype
    size = dtype.itemsize
    if size < 8:  # the product fits a wider type of NumPy
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * size]
        return (lhs.astype(wide) * rhs.astype(wide) >> wide.type(8 * size)).astype(dtype)
    # Schoolbook multiplication with digits of 32 bits: x = x1 * 2^32 + x0.
    digit_mask, digit_bits = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = lhs.view(np.uint64), rhs.view(np.uint64)
    x0, x1, y0, y1 = x & digit_mask, x >> digit_bits, y & digit_mask, y >> digit_bits
    # Each sum fits 64 bits: a product of two digits is at most (2^32 - 1)^2, which leaves room for two more digits.
    middle = x1 * y0 + (x0 * y0 >> digit_bits)
    middle_carry = x0 * y1 + (middle & digit_mask)
    high = x1 * y1 + (middle >> digit_bits) + (middle_carry >> digit_bits)
    if dtype.kind == "i":  # x = lhs + 2^64 for a negative lhs, which adds y to the upper half
        zero = np.uint64(0)
        high = high - np.where(lhs < 0, y, zero) - np.where(rhs < 0, x, zero)
    return high.view(dtype)


def _product(
    builder: FunctionBuilder, instruction: Instruction, type_: str, mode: str
) -> tuple[Any, Any, np.dtype[Any]]:
    """Return (type of the factors, function that multiplies two arrays of them, type of the product).

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        type_: PTX type of the factors.
        mode: "lo" (low half of the product), "hi" (high half) or "wide" (all of it, in twice the bits).
    """
    dtype = dtype_of(type_)
    if mode == "wide":
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * dtype.itemsize]
        return dtype, lambda x, y: np.multiply(x, y, dtype=wide), wide
    if mode == "hi":
        return dtype, multiply_high, dtype
    # "lo": NumPy drops the high half.
    return dtype, np.multiply, dtype


def _part_of_product(builder: FunctionBuilder, instruction: Instruction, modes: Sequence[str]) -> str:
    """Return which part of a product an instruction computes: the one of its modifiers that is in `modes`.

    Raise ArtifactError for an instruction with none of them, or with several.
    """
    stated = [m for m in instruction.modifiers if m in modes]
    if len(stated) != 1:
        builder.fail(instruction)
    return stated[0]


def mul(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mul.lo, mul.hi and mul.wide."""
    modes = ("lo", "hi", "wide")
    type_ = integer_type(builder, instruction, allowed=modes)
    mode = _part_of_product(builder, instruction, modes)
    factor_dtype, multiply, product_dtype = _product(builder, instruction, type_, mode)
    d, a, b = builder.bind(instruction, product_dtype, factor_dtype, factor_dtype)
    if mode == "lo":
        return lambda regs: np.multiply(regs[a], regs[b], out=regs[d])  # drops the high half

    def store_product(regs: list[Any]) -> None:
        """Store the high half of the product of a and b, or all of it for mul.wide."""
        regs[d][...] = multiply(regs[a], regs[b])

    return store_product


def mad(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mad, d = a * b + c.

    .lo and .hi add the low or the high half of the product to c, .wide all of it, to a c of twice the bits.
    mad.hi.sat.s32 clamps the sum to 32 bits.
    """
    modes = ("lo", "hi", "wide")
    type_ = integer_type(builder, instruction, allowed=(*modes, "sat"))
    mode, saturate = _part_of_product(builder, instruction, modes), "sat" in instruction.modifiers
    if saturate and (mode, type_) != ("hi", "s32"):
        builder.fail(instruction)
    factor_dtype, multiply, product_dtype = _product(builder, instruction, type_, mode)
    d, a, b, c = builder.bind(instruction, product_dtype, factor_dtype, factor_dtype, product_dtype)

    def multiply_and_add(regs: list[Any]) -> None:
        """Store a * b + c in d; `saturate`: clamped to 32 bits. `multiply` returns the required part of the product."""
        left = multiply(regs[a], regs[b])
        if saturate:
            regs[d][...] = np.clip(left.astype(np.int64) + regs[c], S32_LEAST, S32_MOST)
        else:
            np.add(left, regs[c], out=regs[d])

    return multiply_and_add


def _divide(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of div and rem. The quotient is rounded toward zero, the remainder has the dividend's sign.

    A quotient by zero is all ones, a remainder the dividend, as on GPUs; the ISA leaves both open.
    """
    type_ = integer_type(builder, instruction)
    d, a, b = builder.bind(instruction, type_, type_, type_)
    is_remainder = instruction.opcode == "rem"
    is_signed, divide_unsigned = type_.startswith("s"), np.remainder if is_remainder else np.floor_divide
    dtype = dtype_of(type_)

    def divide(regs: list[Any]) -> None:
        """Store a / b, or a % b if `is_remainder`, in d. For b = 0 the quotient is all ones, and the remainder a."""
        left, right = np.broadcast_arrays(regs[a], regs[b])
        is_zero = right == 0
        if is_zero.any():
            right = np.where(is_zero, dtype.type(1), right)  # any divisor; these results are replaced below
        result = _divide_signed(left, right, is_remainder) if is_signed else divide_unsigned(left, right)
        if is_zero.any():
            result = np.where(is_zero, left if is_remainder else ~dtype.type(0), result)
        regs[d][...] = result

    return divide


def _divide_signed(left: Any, right: Any, is_remainder: bool) -> Any:
    """Return quotients of signed integers, rounded toward zero, or the remainders, which have the sign of `left`.

    The quotient of the minimum and -1, which exceeds the type, is the minimum.

    Args:
        left: Dividends.
        right: Divisors of the same dtype, none of them 0.
        is_remainder: Whether to return the remainders.
    """
    # Magnitudes are divided, because NumPy divides toward minus infinity. That of the minimum fits only the unsigned
    # type.
    unsigned = UNSIGNED[left.dtype.itemsize]
    dividend_is_negative, divisor_is_negative = left < 0, right < 0
    dividend = np.where(dividend_is_negative, -left, left).view(unsigned)
    divisor = np.where(divisor_is_negative, -right, right).view(unsigned)
    result = dividend % divisor if is_remainder else dividend // divisor
    is_negative = dividend_is_negative if is_remainder else dividend_is_negative ^ divisor_is_negative
    return np.where(is_negative, unsigned.type(0) - result, result).view(left.dtype)


def _unary(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of abs and neg."""
    type_ = integer_type(builder, instruction)
    d, a = builder.bind(instruction, type_, type_)
    ufunc = np.absolute if instruction.opcode == "abs" else np.negative

    def store_magnitude_or_negation(regs: list[Any]) -> None:
        """Store the magnitude or the negation of a in d."""
        ufunc(regs[a], out=regs[d])

    return store_magnitude_or_negation


def _sad(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of sad: |a - b| + c."""
    type_ = integer_type(builder, instruction)
    d, a, b, c = builder.bind(instruction, type_, type_, type_, type_)

    def add_difference(regs: list[Any]) -> None:
        """Store |a - b| + c; the smaller is subtracted from the larger, since unsigned differences wrap."""
        regs[d][...] = regs[c] + (np.maximum(regs[a], regs[b]) - np.minimum(regs[a], regs[b]))

    return add_difference


def _mul24(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of mul24 and mad24: the low (.lo) or high (.hi) 32 bits of a 48-bit product.

    The factors are the low 24 bits of each operand, with the sign of bit 23 for s32. .hi is bits 16 to 47 of the
    product; mad24 adds c.
    """
    type_ = integer_type(builder, instruction, allowed=("lo", "hi"))
    if type_ not in ("u32", "s32"):
        builder.fail(instruction)
    wide = np.dtype("i8" if type_ == "s32" else "u8")
    d, a, b, *addend = builder.bind(instruction, type_, *(3 if instruction.opcode == "mad24" else 2) * [type_])
    is_high, dtype = _part_of_product(builder, instruction, ("lo", "hi")) == "hi", dtype_of(type_)
    unused_bits, high_shift = wide.type(64 - 24), wide.type(48 - 32)

    def multiply_24_bits(regs: list[Any]) -> None:
        """Multiply the low 24 bits of a and b. Store the low or the high (`is_high`) 32 bits of the product in d.

        mad24 adds c, whose slot is in `addend`. `wide` is the 64-bit type of the product.
        """
        # Shift the other bits out at the top, and back: the right shift of a signed type repeats bit 23.
        left, right = ((regs[slot].astype(wide) << unused_bits) >> unused_bits for slot in (a, b))
        result = left * right >> high_shift if is_high else left * right
        if addend:
            result = result + regs[addend[0]].astype(wide)
        regs[d][...] = result.astype(dtype)

    return multiply_24_bits


def _dot(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `dp4a.u32.s32 d, a, b, c` and dp2a.lo or .hi, which add a dot product to c.

    dp4a multiplies the four bytes of a and b; dp2a the two 16-bit numbers of a with the low or high two bytes of b. The
    types are those of a and b.
    """
    is_dp4a = instruction.opcode == "dp4a"
    half_of_b = "lo" if is_dp4a else _part_of_product(builder, instruction, ("lo", "hi"))  # dp4a takes all of b
    words = instruction.modifiers if is_dp4a else instruction.modifiers[1:]
    if len(words) != 2 or any(word not in ("u32", "s32") for word in words):
        builder.fail(instruction)
    d, a, b, c = builder.bind(instruction, "u32", "u32", "u32", "u32")
    left_dtype, right_dtype = (np.dtype(np.int32 if word == "s32" else np.uint32) for word in words)
    count, left_bits = (4, 8) if is_dp4a else (2, 16)
    first_byte = 2 if half_of_b == "hi" else 0
    # read() of each returns the k-th number of a register, from the lowest bits on, of all threads.
    left = [_PackedInteger(a, left_dtype, left_bits, k) for k in range(count)]
    right = [_PackedInteger(b, right_dtype, 8, first_byte + k) for k in range(count)]

    def add_dot_product(regs: list[Any]) -> None:
        """Store c plus the dot product of the numbers `left` (packed in a) and `right` (packed in b) in d."""
        total = regs[c].astype(np.int64)
        for x, y in zip(left, right, strict=True):
            total = total + x.read(regs) * y.read(regs)
        regs[d][...] = total.astype(np.uint32)

    return add_dot_product


class _PackedInteger(NamedTuple):
    """Integer of a few bits in a 32-bit register.

    Attributes:
        slot: Slot of the register, which is read as u32.
        dtype: int32 if the integer is signed, else uint32.
        width: Number of its bits.
        position: Number of integers of the same width below it.
    """

    slot: int
    dtype: np.dtype[Any]
    width: int
    position: int

    def read(self, regs: list[Any]) -> Any:
        """Return the integers of all threads as int64."""
        # Shift the integer to the top, then down again, which extends it by its sign or zeros. Byte 1 (position 1,
        # width 8) of 0x0000FE00 becomes 0xFE000000, then 0xFFFFFFFE: -2 as s32.
        bits_above = 32 - (self.position + 1) * self.width
        word = regs[self.slot] << np.uint32(bits_above)
        return (word.view(self.dtype) >> self.dtype.type(32 - self.width)).astype(np.int64)


INTEGER = {
    "add": _plain(np.add), "sub": _plain(np.subtract), "min": _plain(np.minimum), "max": _plain(np.maximum),
    "mul": mul, "mad": mad, "div": _divide, "rem": _divide, "abs": _unary, "neg": _unary, "sad": _sad,
    "mul24": _mul24, "mad24": _mul24, "dp4a": _dot, "dp2a": _dot,
}  # fmt: skip
"""Opcode → function that builds its closure for integers; `arithmetic.py` reads it."""
