"""Integer instructions of WGSL; what operations mean is in `shaders/integers.py`.

Integers of up to 32 bits are i32, wider ones two words.
"""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.integers import Division, Extreme, Integers, Shift
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Index, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Literal, Name, as_unsigned, unsigned


class _Integers(WgslRegisters, Integers[FunctionEmitter, Name]):
    def divided(
        self, emitter: FunctionEmitter, division: Division, bits: int, width: int, lhs: Index, rhs: Index
    ) -> Name:
        is_signed, is_quotient = division.is_signed, division.is_quotient
        left, right = (
            operand if isinstance(operand, Name) else emitter.number(operand, width) for operand in (lhs, rhs)
        )
        if not is_signed:
            left, right = (
                self.zero_extended(emitter, left, bits, width),
                self.zero_extended(emitter, right, bits, width),
            )
        if not (width == 32 and type(rhs) is int and rhs > 0 and type(left) is not Literal):
            return self.wrap(emitter, self._guarded(emitter, division, width, left, right), bits, width)
        operator = "/" if is_quotient else "%"
        if is_signed:
            text = f"{left} {operator} {rhs}"
        elif rhs & (rhs - 1) == 0:
            text = f"i32({as_unsigned(left)} >> {rhs.bit_length() - 1}u)" if is_quotient else f"{left} & {rhs - 1}"
        else:
            text = f"i32({as_unsigned(left)} {operator} {unsigned(rhs)})"
        return self.wrap(emitter, emitter.let(text), bits, width)

    def _guarded(self, emitter: FunctionEmitter, division: Division, width: int, lhs: Name, rhs: Name) -> Name:
        """Emit a call of the function of the library that divides."""
        sign, part = "i" if division.is_signed else "u", "div" if division.is_quotient else "rem"
        return emitter.call(f"pyd_{sign}{width}_{part}", lhs, rhs)

    def divided_in_range(self, emitter: FunctionEmitter, division: Division, width: int, lhs: Name, rhs: Name) -> Name:
        if width == 64 or division.is_signed:
            return self._guarded(emitter, division, width, lhs, rhs)
        operator = "/" if division.is_quotient else "%"
        return emitter.let(f"i32({as_unsigned(lhs)} {operator} {as_unsigned(rhs)})")

    def shifted(
        self, emitter: FunctionEmitter, shift: Shift, bits: int, width: int, value: Name, amount: Name, count: Index,
        fits: bool,
    ) -> Name:  # fmt: skip
        if fits and width == 32:
            by = unsigned(count) if type(count) is int else as_unsigned(amount)
            if shift.is_left or shift.is_signed:
                return emitter.let(f"{value} {'<<' if shift.is_left else '>>'} {by}")
            return emitter.let(f"i32({as_unsigned(value)} >> {by})")
        if type(count) is int and 0 < count < bits and type(value) is not Literal:
            return emitter.let(_shifted(shift, value, count))
        if bits < width:  # a count that the register would still shift by
            amount = self.zero_extended(emitter, amount, bits, width)
        sign, direction = "i" if shift.is_signed else "u", "shl" if shift.is_left else "shr"
        moved = emitter.call(f"pyd_{sign}{width}_{direction}", value, amount)
        if bits < width and shift.is_left:
            is_below = emitter.let(emitter.less(amount, emitter.number(bits, width), width))
            moved = emitter.let(f"select({emitter.number(0, width)}, {moved}, {is_below})")
        return moved

    def rounds_away(
        self, emitter: FunctionEmitter, width: int, remainder: Name, rhs: Name, is_known: bool, up: bool,
        is_signed: bool,
    ) -> Name:  # fmt: skip
        zero = emitter.number(0, width)
        unlike = "any({0} != {1})" if width == 64 else "({0} != {1})"
        moves = unlike.format(remainder, zero)
        if not is_known:
            moves += " & " + unlike.format(rhs, zero)
        if is_signed:
            signs = f"({remainder} ^ {rhs})" if width == 32 else f"i32({remainder}.y ^ {emitter.let(rhs)}.y)"
            moves += f" & ({signs} {'>=' if up else '<'} 0)"
        return emitter.let(moves)

    def extreme(self, emitter: FunctionEmitter, extreme: Extreme, width: int, lhs: Name, rhs: Name) -> Name:
        if width == 32:
            name = "max" if extreme.is_larger else "min"
            if extreme.is_signed:
                return emitter.let(f"{name}({lhs}, {rhs})")
            return emitter.let(f"i32({name}({as_unsigned(lhs)}, {as_unsigned(rhs)}))")
        is_below = emitter.let(emitter.less(lhs, rhs, 64, not extreme.is_signed))
        other, chosen = (lhs, rhs) if extreme.is_larger else (rhs, lhs)
        return emitter.let(f"select({other}, {chosen}, {is_below})")

    def product(self, emitter: FunctionEmitter, is_signed: bool, bits: int, lhs: Name, rhs: Name) -> tuple[Name, Name]:
        if bits == 32:
            words = (lhs, rhs) if is_signed else (as_unsigned(lhs), as_unsigned(rhs))
            pair = emitter.call("pyd_i32_product" if is_signed else "pyd_u32_product", *words)
            return emitter.let(f"i32({pair}.x)"), emitter.let(f"i32({pair}.y)")
        whole = emitter.let(f"{lhs} * {rhs}")
        high = f"{whole} >> {bits}u" if is_signed else f"i32(u32({whole}) >> {bits}u)"
        return self.wrap(emitter, whole, bits, 32), self.wrap(emitter, emitter.let(high), bits, 32)


def _shifted(shift: Shift, value: Name, count: int) -> str:
    """Return the expression of a 64-bit shift of two words by a constant number of bits, 1 to 63."""
    rest = f"{abs(32 - count)}u"
    if shift.is_left:
        if count >= 32:
            return f"vec2u(0u, {value}.x << {rest})" if count > 32 else f"vec2u(0u, {value}.x)"
        return f"vec2u({value}.x << {count}u, ({value}.y << {count}u) | ({value}.x >> {rest}))"
    high, sign = f"{value}.y", "0u"
    if shift.is_signed:
        high, sign = f"i32({high})", f"u32(i32({high}) >> 31u)"
    if count == 32:
        return f"vec2u({value}.y, {sign})"
    if count > 32:
        return f"vec2u({_word(f'{high} >> {rest}')}, {sign})"
    return f"vec2u(({value}.x >> {count}u) | ({value}.y << {rest}), {_word(f'{high} >> {count}u')})"


def _word(text: str) -> str:
    """Return an expression of type i32 or u32 as a u32."""
    return f"u32({text})" if text.startswith("i32") else text


ROWS: dict[str, Lowering] = _Integers().rows()
