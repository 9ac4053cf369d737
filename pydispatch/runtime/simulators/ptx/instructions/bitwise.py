"""PTX instructions on bits. A handler returns a closure `step(regs)`, which runs the instruction for all threads of a
frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an array with an element
per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame. `builder.bind` returns the slots of the
destination and the sources; `into(d, f, a, b)` builds a closure that sets regs[d] to f(regs[a], regs[b]);
`builder.fail` refuses an instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import SIZES, Immediate, Instruction
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import UNSIGNED, dtype_of, literal
from pydispatch.runtime.simulators.ptx.instructions.integer import integer_type
from pydispatch.runtime.simulators.ptx.registry import handles

_NO_BIT = 0xFFFFFFFF
"""Result of bfind and fns where there is no such bit."""
_FIELD_BITS = 0xFF
"""Mask for the position and the length of a field: bfe and bfi use only the low 8 bits of these operands."""
_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
"""Opcode → function of both operands."""


def into(target: int, compute: Callable[..., Any], *sources: int) -> Step:
    """Return a closure that stores compute(sources) in a register.

    Args:
        target: Slot of the register.
        compute: Function of the values of the sources, arrays over the threads or scalars, that returns the result.
        sources: Slots of the sources.
    """

    def store_result(regs: list[Any]) -> None:
        """Compute the result from the values in the slots `sources`, and store it in the slot `target`."""
        regs[target][...] = compute(*[regs[source] for source in sources])

    return store_result


@handles("and", "or", "xor")
def logic(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of and, or, xor."""
    type_ = "pred" if instruction.modifiers == ("pred",) else integer_type(builder, instruction)
    d, a, b = builder.bind(instruction, type_, type_, type_)
    ufunc = _LOGIC[instruction.opcode]

    def combine_bits(regs: list[Any]) -> None:
        """Combine the bits of a and b of each thread into d."""
        ufunc(regs[a], regs[b], out=regs[d])

    return combine_bits


@handles("not", "cnot")
def invert(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of not and cnot, which is 1 for zero and 0 for other values."""
    type_ = "pred" if instruction.modifiers == ("pred",) else integer_type(builder, instruction)
    d, a = builder.bind(instruction, type_, type_)
    if instruction.opcode == "cnot":
        return into(d, lambda v: v == 0, a)
    return lambda regs: np.invert(regs[a], out=regs[d])


@handles("shl", "shr")
def shift(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of shl and shr: d = a << b or d = a >> b, by the sign for s16 to s64.

    Amounts of the width or more shift everything out: they give 0, or -1 for a negative number that is shifted right.
    """
    type_ = integer_type(builder, instruction)
    amount = builder.operands(instruction, 3)[2]
    dtype = dtype_of(type_)
    bits = 8 * dtype.itemsize
    d, a, b = builder.bind(instruction, dtype, dtype, "u32")
    left, signed = instruction.opcode == "shl", dtype.kind == "i"
    if isinstance(amount, Immediate):
        return _shift_by_constant(dtype, d, a, int(literal(amount, np.dtype("u4"))), left)

    def shift_values(value: Any, count: Any) -> Any:
        """Shift by `count` bits, to the left if `left`, else to the right, by the sign if `signed`.

        A count of all `bits` or more gives 0, or in a signed right shift copies of the sign.
        """
        if signed and not left:
            return value >> np.minimum(count, bits - 1).astype(dtype)
        is_too_large = count >= bits
        amounts = np.where(is_too_large, 0, count).astype(dtype)
        return np.where(is_too_large, dtype.type(0), value << amounts if left else value >> amounts)

    return into(d, shift_values, a, b)


def _shift_by_constant(dtype: np.dtype[Any], d: int, a: int, count: int, left: bool) -> Step:
    """Return the closure of a shift of slot a by `count` bits into slot d, in one call of NumPy."""
    bits = 8 * dtype.itemsize
    if count >= bits:  # for NumPy such shifts are undefined
        if dtype.kind == "u" or left:
            return into(d, lambda v: dtype.type(0), a)
        count = bits - 1  # an arithmetic shift by all bits or more gives the same: the sign in all bits
    ufunc, constant = np.left_shift if left else np.right_shift, dtype.type(count)
    return lambda regs: ufunc(regs[a], constant, out=regs[d])


@handles("shf")
def funnel(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `shf.l.wrap.b32 d, a, b, c` and shf.r, which shift the 64 bits b:a (b above a) by c.

    The result is the upper word after a left, the lower one after a right shift. c is taken modulo 32 with .wrap, and
    is at most 32 with .clamp.
    """
    if len(instruction.modifiers) != 3:
        builder.fail(instruction)
    direction, overflow, type_ = instruction.modifiers
    if direction not in ("l", "r") or overflow not in ("wrap", "clamp") or type_ != "b32":
        builder.fail(instruction)
    d, a, b, c = builder.bind(instruction, "u32", "u32", "u32", "u32")
    is_left, wraps = direction == "l", overflow == "wrap"

    def shift_pair(low: Any, high: Any, amount: Any) -> Any:
        """Shift the 64 bits high:low, and return the upper word after a left shift, the lower one after a right shift.

        `is_left`: the direction. The amount is taken modulo 32 if `wraps` (.wrap), else is at most 32 (.clamp).
        """
        n = (amount & np.uint32(31) if wraps else np.minimum(amount, np.uint32(32))).astype(np.uint64)
        pair = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        return ((pair << n) >> np.uint64(32) if is_left else pair >> n).astype(np.uint32)

    return into(d, shift_pair, a, b, c)


@handles("lop3")
def lop3(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `lop3.b32 d, a, b, c, table`: any logic function of three inputs, bit by bit.

    The function of bits a, b and c is bit 4 a + 2 b + c of the table: 0x80 is a & b & c, 0x96 is a ^ b ^ c.
    """
    if instruction.modifiers != ("b32",):
        builder.fail(instruction)
    table = builder.operands(instruction, 5)[4]
    if not isinstance(table, Immediate) or not isinstance(table.value, int):
        builder.fail(instruction, "has no integer as its table")
    bits = table.value
    d, a, b, c, _ = builder.bind(instruction, "u32", "u32", "u32", "u32", "u32")

    def apply_table(x: Any, y: Any, z: Any) -> Any:
        """Combine the bits of three inputs: bit 4x + 2y + z of the truth table `bits` is the result for x, y and z."""
        result = np.uint32(0)
        for k in range(8):  # for each combination of input bits with a 1 in the table
            if bits >> k & 1:
                result = result | ((x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z))
        return result

    return into(d, apply_table, a, b, c)


def bit_length(value: Any) -> Any:
    """Return how many bits unsigned values need, int64: 0 -> 0, 0b1010 -> 4.

    A binary search: if the upper half of the remaining bits is not zero, the lower half counts, and the upper remains.
    """
    length = np.zeros(np.shape(value), np.int64)
    remaining = np.asarray(value).astype(np.uint64)
    for width in (32, 16, 8, 4, 2, 1):
        shifted = remaining >> np.uint64(width)
        is_nonzero = shifted != 0
        length = length + np.where(is_nonzero, width, 0)
        remaining = np.where(is_nonzero, shifted, remaining)
    return length + (remaining != 0)


@handles("popc", "clz")
def count(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of popc (the number of ones) and clz (the number of zeros above the highest one)."""
    type_ = integer_type(builder, instruction)
    bits = 8 * SIZES[type_]
    d, a = builder.bind(instruction, "u32", f"b{bits}")
    if instruction.opcode == "popc":
        return into(d, np.bitwise_count, a)
    return into(d, lambda v: bits - bit_length(v), a)


@handles("bfind")
def bfind(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of bfind: the index of the highest bit that differs from the sign bit.

    With .shiftamt it is the distance of that bit from the top one. If there is none, it is 0xFFFFFFFF.
    """
    type_ = integer_type(builder, instruction, allowed=("shiftamt",))
    d, a = builder.bind(instruction, "u32", type_)
    bits = 8 * SIZES[type_]
    returns_shift = "shiftamt" in instruction.modifiers

    def find_highest_bit(value: Any) -> Any:
        """Return the index of the highest bit that differs from the sign of numbers of `bits` bits.

        If `returns_shift`, return the distance of that bit from the top bit instead.
        """
        # The inverse of a negative value has ones where the value differs from its sign.
        length = bit_length(np.where(value < 0, ~value, value).astype(UNSIGNED[bits // 8]))
        position = bits - length if returns_shift else length - 1
        return np.where(length == 0, _NO_BIT, position).astype(np.uint32)

    return into(d, find_highest_bit, a)


@handles("brev")
def brev(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of brev, which reverses the bits: bit 0 of b32 becomes bit 31.

    Neighbouring groups of 1, 2, 4, ... bits are exchanged: the bits abcd become badc, then dcba.
    """
    type_ = integer_type(builder, instruction)
    dtype = UNSIGNED[SIZES[type_]]
    bits = 8 * dtype.itemsize
    d, a = builder.bind(instruction, dtype, dtype)

    def reverse_bits(value: Any) -> Any:
        """Reverse the order of the `bits` bits: exchange neighbours, then pairs, and so on."""
        width = 1
        while width < bits:
            # Ones in every second group of `width` bits, from bit 0 on. Each is exchanged with the group above it.
            mask = dtype.type(sum(((1 << width) - 1) << k for k in range(0, bits, 2 * width)))
            distance = dtype.type(width)
            value = ((value >> distance) & mask) | ((value & mask) << distance)
            width *= 2
        return value

    return into(d, reverse_bits, a)


@handles("bfe")
def bfe(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `bfe d, value, position, length`, which extracts a field of bits.

    The field is extended to the whole width by its sign, or by zeros for unsigned types. Bits of the field beyond the
    top of the value are copies of the value's sign, or zeros. Of 0xF5, position 4 and length 4 give 15, or -1 for s32.
    Of position and length only the low 8 bits count.
    """
    type_ = integer_type(builder, instruction)
    dtype = dtype_of(type_)
    bits = 8 * dtype.itemsize
    d, a, b, c = builder.bind(instruction, dtype, dtype, "u32", "u32")

    def extract_signed(value: Any, pos: Any, width: Any) -> Any:
        """Extract `width` bits from bit `pos` on, extended by the sign: the last bit of the field or of the value."""
        extended = value.astype(np.int64)
        pos, width = (pos & _FIELD_BITS).astype(np.int64), (width & _FIELD_BITS).astype(np.int64)
        shifted = extended >> np.minimum(pos, 63)
        # The sign is the top bit of the field, or of the value if the field goes beyond it.
        sign = (extended >> np.clip(np.minimum(pos + width - 1, bits - 1), 0, 63)) & 1
        # NumPy does not define shifts by 64 bits or more.
        mask = np.where(width >= 64, -1, (np.int64(1) << np.minimum(width, 63)) - 1)
        field = np.where(sign == 1, (shifted & mask) | ~mask, shifted & mask)  # all bits above the field are the sign
        return np.where(width == 0, 0, field).astype(dtype)

    def extract_unsigned(value: Any, pos: Any, width: Any) -> Any:
        """Extract `width` bits from bit `pos` on, extended by zeros."""
        # NumPy does not define shifts by 64 bits or more, hence the minimums.
        extended = value.astype(np.uint64)
        pos, width = (pos & _FIELD_BITS).astype(np.int64), (width & _FIELD_BITS).astype(np.int64)
        shifted = np.where(pos >= 64, np.uint64(0), extended >> np.minimum(pos, 63).astype(np.uint64))
        ones = (np.uint64(1) << np.minimum(width, 63).astype(np.uint64)) - np.uint64(1)
        return (shifted & np.where(width >= 64, ~np.uint64(0), ones)).astype(dtype)

    return into(d, extract_signed if dtype.kind == "i" else extract_unsigned, a, b, c)


@handles("bfi")
def bfi(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `bfi f, value, base, position, length`.

    It replaces `length` bits of the base, from `position` on, by the low bits of the value: the value 0x5, the base
    0xFF00, the position 4 and the length 4 give 0xFF50.
    """
    type_ = integer_type(builder, instruction)
    dtype = UNSIGNED[SIZES[type_]]
    f, a, b, c, d = builder.bind(instruction, dtype, dtype, dtype, "u32", "u32")

    def insert_field(value: Any, base: Any, pos: Any, width: Any) -> Any:
        """Insert the low `width` bits of `value` into `base` at bit `pos`."""
        mask = _mask(pos & _FIELD_BITS, width & _FIELD_BITS)  # ones at the replaced bits
        shift_count = (pos & _FIELD_BITS).astype(np.int64)
        shift_in_range = np.minimum(shift_count, 63).astype(np.uint64)  # NumPy does not define shifts by 64 or more
        shifted = np.where(shift_count >= 64, np.uint64(0), value.astype(np.uint64) << shift_in_range)
        return ((base.astype(np.uint64) & ~mask) | (shifted & mask)).astype(dtype)

    return into(f, insert_field, a, b, c, d)


def _mask(pos: Any, width: Any) -> Any:
    """Return the 64-bit mask of `width` ones from bit `pos` on, u64, without ones beyond bit 63. Both may be any u32.

    NumPy does not define shifts by 64 bits or more, which are therefore special cases here.
    """
    pos, width = pos.astype(np.int64), width.astype(np.int64)
    width_in_range, pos_in_range = (np.minimum(v, 63).astype(np.uint64) for v in (width, pos))
    ones = np.where(width >= 64, ~np.uint64(0), (np.uint64(1) << width_in_range) - np.uint64(1))
    return np.where(pos >= 64, np.uint64(0), ones << pos_in_range)


@handles("bmsk")
def bmsk(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `bmsk.clamp.b32 d, position, width`: a mask of `width` ones from bit `position` on.

    Position 4 and width 8 give 0xFF0. With .wrap both are taken modulo 32; with .clamp ones beyond bit 31 are dropped.
    """
    wrap = instruction.modifiers == ("wrap", "b32")
    if not wrap and instruction.modifiers != ("clamp", "b32"):
        builder.fail(instruction)
    d, a, b = builder.bind(instruction, "u32", "u32", "u32")

    def make_mask(pos: Any, width: Any) -> Any:
        """Return `width` ones from bit `pos` on in 32 bits. Both operands are taken modulo 32 with .wrap."""
        if wrap:
            pos, width = pos & 31, width & 31
        return _mask(pos, width).astype(np.uint32)  # drops the ones beyond bit 31

    return into(d, make_mask, a, b)


@handles("szext")
def szext(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `szext d, value, width`: the low `width` bits of a value, extended by sign or zeros.

    Of the value 5, whose low bits are 101, szext.clamp.s32 with the width 3 gives -3, and with the width 4 it gives 5.
    """
    if instruction.modifiers not in [(mode, type_) for mode in ("clamp", "wrap") for type_ in ("u32", "s32")]:
        builder.fail(instruction)
    d, a, b = builder.bind(instruction, "u32", "u32", "u32")
    wrap, signed = instruction.modifiers[0] == "wrap", instruction.modifiers[1] == "s32"

    def extend(value: Any, width: Any) -> Any:
        """Extend the low `width` bits to 32 bits, by the sign if `signed`, else by zeros.

        A width of 32 or more is taken modulo 32 if `wrap`, so that 32 counts as 0; else as 32. The width 0 gives 0.
        """
        width = (width & 31 if wrap else np.minimum(width, 32)).astype(np.int64)
        ones = (np.int64(1) << width) - 1
        low = value.astype(np.int64) & ones
        if signed:
            # If the top bit of the field is 1, all bits above the field become 1.
            low = np.where((width > 0) & ((low >> np.maximum(width - 1, 0)) & 1 == 1), low | ~ones, low)
        return low.astype(np.uint32)

    return into(d, extend, a, b)


_PRMT_MODES: dict[str, Callable[[int, int], int]] = {
    "f4e": lambda k, n: k + n, "b4e": lambda k, n: (k - n) % 8, "rc8": lambda k, n: k,
    "ecl": lambda k, n: max(k, n), "ecr": lambda k, n: min(k, n), "rc16": lambda k, n: (k & 1) * 2 + n % 2,
}  # fmt: skip
"""Mode of prmt → function (k, n) that returns which byte of b:a becomes byte n of the result, if the low two bits of
the selector are k. Byte 0 is the lowest."""


@handles("prmt")
def prmt(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `prmt.b32 d, a, b, selector`: four bytes out of the eight of b:a.

    Bytes 0 to 3 are those of a, the lowest first, and 4 to 7 those of b. Nibble n of the selector, from the lowest on,
    chooses byte n of d: the selector 0x5410 joins the low halves of b and a. If the nibble's highest bit is set, byte n
    is filled with the sign bit of the chosen byte instead: it is 0x00 or 0xFF.

    In a mode such as .f4e, only the low two bits k of the selector count. `_PRMT_MODES[mode](k, n)` is then the byte
    chosen for byte n of d: k + n for .f4e.
    """
    mode = instruction.modifiers[1] if len(instruction.modifiers) > 1 else ""
    if instruction.modifiers not in (("b32",), ("b32", mode)) or (mode and mode not in _PRMT_MODES):
        builder.fail(instruction)
    d, a, b, c = builder.bind(instruction, "u32", "u32", "u32", "u32")

    def select_bytes(low: Any, high: Any, selectors: Any) -> Any:
        """Select four of the eight bytes high:low, by the nibbles of the selector, or by the table of a mode."""
        pair = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        result = np.uint32(0)
        for n in range(4):
            if mode:
                # The byte for each value of the selector's low two bits.
                bytes_of_selectors = np.array([_PRMT_MODES[mode](k, n) for k in range(4)], np.uint64)
                index, copies_sign = bytes_of_selectors[selectors & 3], np.bool_(False)
            else:
                nibble = selectors >> np.uint32(4 * n)
                index, copies_sign = (nibble & 7).astype(np.uint64), (nibble & 8) != 0
            byte = (pair >> (index * np.uint64(8))).astype(np.uint32) & np.uint32(0xFF)
            sign_bits = np.where(byte & 0x80, np.uint32(0xFF), np.uint32(0))
            byte = np.where(copies_sign, sign_bits, byte)
            result = result | (byte << np.uint32(8 * n))
        return result

    return into(d, select_bytes, a, b, c)


@handles("fns")
def fns(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of `fns d, mask, base, n`: the index of the n-th set bit of a mask from bit `base` on.

    Bits are counted from 1, upwards for n > 0, downwards for n < 0. For n = 0 the result is `base` if that bit is set.
    If there is no such bit, it is 0xFFFFFFFF, also for a base above 31, which PTX leaves undefined.
    """
    if instruction.modifiers != ("b32",):
        builder.fail(instruction)
    d, a, b, c = builder.bind(instruction, "u32", "u32", "u32", "s32")

    def find_set_bits(mask: Any, base: Any, ordinal: Any) -> Any:
        """Return the position of the n-th set bit of each mask from bit `base` on, or `_NO_BIT` if there is none.

        ordinal: n of each thread. Bits are counted from 1: upwards for n > 0, downwards for n < 0. For n = 0 the result
        is `base` if that bit is set.
        """
        masks, bases, ordinals = np.broadcast_arrays(mask, base, ordinal)
        result = np.full(masks.shape, _NO_BIT, np.uint32)
        for thread in np.ndindex(masks.shape):
            bits, start, n = int(masks[thread]), int(bases[thread]), int(ordinals[thread])
            if start > 31:
                continue
            order = range(start, 32) if n >= 0 else range(start, -1, -1)
            set_bits = [k for k in order if bits >> k & 1]
            if n == 0:
                result[thread] = start if bits >> start & 1 else _NO_BIT
            elif len(set_bits) >= abs(n):
                result[thread] = set_bits[abs(n) - 1]
        return result

    return into(d, find_set_bits, a, b, c)
