"""Instructions of WGSL on registers, for the lowerings of all subjects.

Integers of up to 32 bits are i32; those of 64 bits are two words, computed by functions of the library.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.llvm.types import float_bits
from pydispatch.compiler.emit.shaders.registers import ARITHMETIC_RIGHT, LEFT, LOGICAL_RIGHT, Registers, Shift
from pydispatch.compiler.emit.shaders.values import is_f32_or_f64, signed
from pydispatch.compiler.emit.wgsl.definitions import expand
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter
from pydispatch.compiler.emit.wgsl.words import Literal, Name, as_unsigned, finite_f32, integer, two_words, unsigned
from pydispatch.compiler.kernel_ir.types import bit_width

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""Last two letters of a predicate of `arith.cmpi` -> operators."""
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
"""Kinds of arithmetic on i32 -> operators."""
WIDE = {"add": "pyd_i64_add", "sub": "pyd_i64_sub", "mul": "pyd_i64_mul"}
"""Kind of operation -> library function on 64-bit integers (two words). Kinds that are missing are bitwise operations:
WGSL's operators apply to both words."""
LOGICAL = {"and": "&", "or": "|", "eq": "==", "ne": "!="}
"""Kinds of operations on bools -> operators."""
WIDE_SHIFTS = {
    LEFT: "pyd_i64_shift_left", LOGICAL_RIGHT: "pyd_u64_shift_right", ARITHMETIC_RIGHT: "pyd_i64_shift_right",
}  # fmt: skip
"""Kind of shift -> library function that shifts a 64-bit integer (two words) by a u32 number of bits."""


class WgslRegisters(Registers[FunctionEmitter, Name]):
    """Base of all lowerings to WGSL: emitters of the expressions on values that lowerings of several subjects use."""

    def operands(self, emitter: FunctionEmitter, values: Sequence[SSAValue]) -> list[Name]:
        """Return the registers of scalars; if all are literals, the first one is bound to a name.

        WGSL evaluates expressions of literals alone at compile time, and refuses those that overflow.
        """
        return emitter.operands(values)

    def sign_extended(self, emitter: FunctionEmitter, value: Name, *, bits: int, width: int) -> Name:
        """Sign-extend the low `bits` bits of a register of `width` bits."""
        if bits == width:
            return value
        if width == 32:
            return emitter.let(f"extractBits({value}, 0u, {bits}u)")
        shift = unsigned(width - bits)  # to the left until the sign is the highest bit, and back
        return emitter.call("pyd_i64_shift_right", emitter.call("pyd_i64_shift_left", value, shift), shift)

    def zero_extended(self, emitter: FunctionEmitter, value: Name, bits: int, width: int) -> Name:
        """Clear all but the low `bits` bits of a register of `width` bits."""
        if bits == width:
            return value
        return emitter.let(f"{value} & {emitter.number((1 << bits) - 1, width)}")

    def resized(self, emitter: FunctionEmitter, value: Name, from_width: int, to_width: int) -> Name:
        """Convert a register between 1 (bool), 32 (i32) and 64 bits (vec2u).

        A bool becomes 0 or -1; a wider integer is extended with its sign, a narrower one has the low bits.
        """
        if from_width == to_width:
            return value
        if from_width == 1:
            return emitter.let(f"select({emitter.number(0, to_width)}, {emitter.number(-1, to_width)}, {value})")
        if to_width == 1:
            return emitter.let(f"({value}.x & 1u) != 0u" if from_width == 64 else f"({value} & 1) != 0")
        return emitter.call("pyd_i64_from_i32", value) if to_width == 64 else emitter.let(f"i32({value}.x)")

    def logical(self, emitter: FunctionEmitter, kind: str, lhs: Name, rhs: Name) -> Name:
        """Combine two bools: `kind` is "and", "or", "eq" or "ne"."""
        return emitter.let(f"{lhs} {LOGICAL[kind]} {rhs}")

    def inverted(self, emitter: FunctionEmitter, value: Name) -> Name:
        """Negate a bool."""
        return emitter.let(f"!{value}")

    def arithmetic(self, emitter: FunctionEmitter, kind: str, width: int, lhs: Name, rhs: Name) -> Name:
        """Emit a sum, difference, product or bitwise operation of 32 or 64 bits; `kind` is a key of `OPERATORS`."""
        if width == 64 and kind in WIDE:  # sums, differences and products; bitwise operators take vectors of words
            return emitter.call(WIDE[kind], lhs, rhs)
        return emitter.let(f"{lhs} {OPERATORS[kind]} {rhs}")

    def shifted(self, emitter: FunctionEmitter, shift: Shift, width: int, value: Name, count: Name | int) -> Name:
        """Emit a shift of a register of `width` bits, 32 or 64.

        count: from 0 to width - 1, as a number known while compiling or a register of the same width.
        """
        if width == 64:
            has_members = type(value) is not Literal  # .x and .y, the two words
            if isinstance(count, int) and count > 0 and has_members:
                return emitter.let(_shifted_words(shift, value, count))
            wide_amount = unsigned(count) if isinstance(count, int) else f"{count}.x"  # the low word
            return emitter.call(WIDE_SHIFTS[shift], value, wide_amount)
        amount = unsigned(count) if isinstance(count, int) else as_unsigned(count)
        if shift == LOGICAL_RIGHT:
            return emitter.let(f"i32({as_unsigned(value)} >> {amount})")
        return emitter.let(f"{value} {'<<' if shift.is_left else '>>'} {amount}")

    def compared(self, emitter: FunctionEmitter, predicate: str, width: int, lhs: Name, rhs: Name) -> Name:
        """Emit a comparison of integers by a predicate of `arith.cmpi`, such as "ult".

        The library has `<` of 64 bits alone: a > b is b < a, a <= b is !(b < a), and a >= b is !(a < b).
        """
        is_unsigned, order = predicate[0] == "u", predicate[-2:]  # "ult" is unsigned and "lt"
        if width == 64:
            if predicate in ("eq", "ne"):
                return emitter.let(f"all({lhs} == {rhs})" if predicate == "eq" else f"any({lhs} != {rhs})")
            if order in ("gt", "le"):
                lhs, rhs = rhs, lhs
            is_below = emitter.less(lhs, rhs, 64, unsigned=is_unsigned)
            return emitter.let(is_below if order in ("lt", "gt") else f"!{is_below}")
        if is_unsigned:
            return emitter.let(f"{as_unsigned(lhs)} {COMPARISONS[order]} {as_unsigned(rhs)}")
        return emitter.let(f"{lhs} {COMPARISONS[order]} {rhs}")

    def select(self, emitter: FunctionEmitter, type_: Attribute, condition: Name, then: Name, other: Name) -> Name:
        """Emit the choice of `then` if the condition holds, else `other`; WGSL's select takes them in reverse."""
        return emitter.let(f"select({other}, {then}, {condition})")

    def float_constant(self, emitter: FunctionEmitter, value: float, type_: Attribute) -> Name:
        """Return a float constant: an f32 or f16 of WGSL, the two words of an f64, or else its bits in an i32."""
        bits = float_bits(value, type_)
        if type(type_) is Float32Type:
            literal = finite_f32(bits)
            return literal if literal is not None else _infinity_or_nan(emitter, bits)
        if emitter.is_f16(type_):
            return emitter.at_entry(("f16", bits), lambda: emitter.call("pyd_f16", integer(signed(bits, 16))))
        return two_words(bits) if is_f32_or_f64(type_) else integer(signed(bits, bit_width(type_)))

    def from_bits(self, emitter: FunctionEmitter, value: Name, type_: Attribute) -> Name:
        """Convert an integer register, which holds the bits of a scalar, to the register of the scalar's type.

        Only f32, and f16 where WGSL has it, have float registers. Other registers hold the bits: `value` is returned.
        """
        if type(type_) is Float32Type:
            return emitter.let(f"bitcast<f32>({value})")
        return emitter.from_bits(value, type_)

    def to_bits(self, emitter: FunctionEmitter, value: Name, type_: Attribute) -> Name:
        """Convert the register of a scalar to an integer register that holds the scalar's bits.

        Only f32, and f16 where WGSL has it, have float registers. Other registers hold the bits: `value` is returned.
        """
        if type(type_) is Float32Type:
            return emitter.let(f"bitcast<i32>({value})")
        return emitter.to_bits(value, type_)

    def expand(self, emitter: FunctionEmitter, op: Operation, exponent: int | None = None) -> None:
        """Emit an operation by a call of its definition.

        exponent: the exponent of an integer power if it is known while compiling, else None.
        """
        expand(emitter, op, exponent)


def _infinity_or_nan(emitter: FunctionEmitter, bits: int) -> Name:
    """Return the f32 with these bits, an infinity or NaN, which no constant expression of WGSL may be."""

    def make() -> Name:
        """Emit the float from `bits`, which are bound to a name first.

        WGSL evaluates expressions of literals alone, and rejects one that is an infinity or NaN.
        """
        named_bits = emitter.let(unsigned(bits), stem="k")
        return emitter.let(f"bitcast<f32>({named_bits})", stem="k")

    return emitter.at_entry(("special", bits), make)


def _shifted_words(shift: Shift, value: Name, count: int) -> str:
    """Return the expression of a 64-bit shift by a constant number of bits, 1 to 63.

    `value` is the name of a vec2u of (low word, high word). A shift by `count` < 32 moves bits from one word into the
    other by 32 - count in the opposite direction; one by more than 32 moves a whole word by count - 32. To the left by
    8, v becomes `vec2u(v.x << 8u, (v.y << 8u) | (v.x >> 24u))`; by 40, `vec2u(0u, v.x << 8u)`.
    """
    cross_shift = f"{abs(32 - count)}u"
    if shift.is_left:
        if count >= 32:
            return f"vec2u(0u, {value}.x << {cross_shift})" if count > 32 else f"vec2u(0u, {value}.x)"
        return f"vec2u({value}.x << {count}u, ({value}.y << {count}u) | ({value}.x >> {cross_shift}))"
    high, sign = f"{value}.y", "0u"  # the high word, and the word that fills it from the left
    if shift.is_signed:
        high, sign = f"i32({high})", f"u32(i32({high}) >> 31u)"
    if count == 32:
        return f"vec2u({value}.y, {sign})"
    if count > 32:
        return f"vec2u({_word(f'{high} >> {cross_shift}')}, {sign})"
    return f"vec2u(({value}.x >> {count}u) | ({value}.y << {cross_shift}), {_word(f'{high} >> {count}u')})"


def _word(text: str) -> str:
    """Return an expression of `_shifted_words` as a u32: it is an i32 if it begins with a conversion `i32(...)`."""
    return f"u32({text})" if text.startswith("i32") else text


REGISTERS = WgslRegisters()
"""Instructions on registers for code outside of the lowerings' classes."""
