"""arith on integers, constants and choices: one row per operation.

Integers of up to 32 bits are i32, wider ones two words; those narrower than their register keep its upper bits equal to
their sign. Nothing is undefined (docs/kernel-ir.md, Numbers); guards that constants make superfluous are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.values import known, signed
from pydispatch.compiler.emit.wgsl.definitions import expand
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Index, Lowering
from pydispatch.compiler.emit.wgsl.ops.floats import float_constant
from pydispatch.compiler.emit.wgsl.words import Literal, Name, as_unsigned, unsigned
from pydispatch.compiler.kernel_ir.kernel import IN_RANGE
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES, attribute, integer, op_name, operands_of
from pydispatch.compiler.kernel_ir.types import bit_width, is_integer

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def bits_of(emitter: FunctionEmitter, type_: Attribute) -> int:
    """Return the width of an integer type in bits; its register may be wider. Raises CompileError for other types."""
    if not is_integer(type_):
        raise emitter.error(
            f"operation '{op_name(emitter.op)}' on {type_} cannot be compiled into a kernel",
            "kernel IR computes on scalars; vectors come from parallel loops",
        )
    return emitter.index_width if type(type_) is IndexType else min(bit_width(type_), emitter.width(type_))


def wrap(emitter: FunctionEmitter, value: Name, bits: int, width: int) -> Name:
    """Extend the low `bits` bits of a register with their sign, and return the register."""
    if bits == width:
        return value
    if width == 32:
        return emitter.let(f"extractBits({value}, 0u, {bits}u)")
    shift = unsigned(width - bits)
    return emitter.call("pyd_i64_shift_right", emitter.call("pyd_i64_shift_left", value, shift), shift)


def zero_extended(emitter: FunctionEmitter, value: Name, bits: int, width: int) -> Name:
    """Extend the low `bits` bits of a register with zeros, and return the register."""
    if bits == width:
        return value
    return emitter.let(f"{value} & {emitter.number((1 << bits) - 1, width)}")


def _constant(emitter: FunctionEmitter, op: Operation) -> None:
    value, (result,) = attribute(op, "value"), op.results
    type_ = result.type
    if type(type_) is IndexType and type(value) is IntegerAttr:
        emitter.values[result] = signed(int(value.value.data), emitter.index_width)
        return
    emitter.width(type_)
    if isinstance(value, IntegerAttr):
        emitter.define(result, signed(int(value.value.data), bits_of(emitter, type_)))
    elif isinstance(value, FloatAttr):
        emitter.define(result, float_constant(emitter, float(value.value.data), type_))
    else:
        raise emitter.error(f"a constant of type {type_} cannot be compiled into a kernel")


INDEX_ARITHMETIC: dict[str, Callable[[FunctionEmitter, Index, Index], Index]] = {
    "+": FunctionEmitter.plus, "-": FunctionEmitter.minus, "*": FunctionEmitter.times,
}  # fmt: skip
"""What indices have of their own: it folds, and gives what a scope has already."""

_WIDE = {"+": "pyd_i64_add", "-": "pyd_i64_sub", "*": "pyd_i64_mul"}


def _int(operator: str, foldable: Callable[[int, int], int], logical: str) -> Lowering:
    """logical: the operator on i1."""
    of_indices = INDEX_ARITHMETIC.get(operator)

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        if of_indices is not None and type(type_) is IndexType:
            values: dict[SSAValue, Any] = emitter.values
            values[result] = of_indices(emitter, values[first], values[second])
            return
        a, b = emitter.index(first), emitter.index(second)
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        if known(a) and known(b):
            emitter.define(result, signed(foldable(a, b), bits))  # type: ignore[arg-type]
            return
        left, right = emitter.get(first), emitter.get(second)
        if width == 1:
            emitter.define(result, emitter.let(f"{left} {logical} {right}"))
        elif width == 64 and operator in _WIDE:
            emitter.define(result, wrap(emitter, emitter.call(_WIDE[operator], left, right), bits, width))
        else:
            value = emitter.let(f"{left} {operator} {right}")
            emitter.define(result, value if operator in "&|^" else wrap(emitter, value, bits, width))

    return lower


def divided(emitter: FunctionEmitter, kind: str, bits: int, width: int, lhs: Index, rhs: Index) -> Name:
    """kind: i_div, u_div, i_rem, u_rem. By zero 0 and the dividend, the smallest number by -1 itself and 0."""
    is_signed, quotient = kind[0] == "i", kind.endswith("div")
    left, right = (each if isinstance(each, Name) else emitter.number(each, width) for each in (lhs, rhs))
    if not is_signed:
        left, right = zero_extended(emitter, left, bits, width), zero_extended(emitter, right, bits, width)
    if width == 32 and type(rhs) is int and rhs > 0 and type(left) is not Literal:
        if is_signed:
            made = emitter.let(f"{left} {'/' if quotient else '%'} {rhs}")
        elif rhs & (rhs - 1) == 0:
            made = emitter.let(
                f"i32({as_unsigned(left)} >> {rhs.bit_length() - 1}u)" if quotient else f"{left} & {rhs - 1}"
            )
        else:
            made = emitter.let(f"i32({as_unsigned(left)} {'/' if quotient else '%'} {unsigned(rhs)})")
    else:
        made = emitter.call(f"pyd_{kind[0]}{width}_{kind[2:]}", left, right)
    return wrap(emitter, made, bits, width)


def _division(kind: str) -> Lowering:
    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        a, b = emitter.index(first), emitter.index(second)
        if type(a) is int and type(b) is int and a >= 0 and b > 0:
            emitter.define(result, a // b if kind.endswith("div") else a % b)
        elif width == 1:
            emitter.define(result, _division_of_bits(emitter, kind, emitter.get(first), emitter.get(second)))
        elif IN_RANGE in op.attributes and bits == width == 32 and not known(b):
            x, y = emitter.operands((first, second))
            emitter.define(
                result, emitter.let(f"i32({as_unsigned(x)} {'/' if kind.endswith('div') else '%'} {as_unsigned(y)})")
            )
        else:
            emitter.define(result, divided(emitter, kind, bits, width, a, b))

    return lower


def _division_of_bits(emitter: FunctionEmitter, kind: str, lhs: Name, rhs: Name) -> Name:
    """i1: the only divisor is 1, or -1."""
    return emitter.let(f"{lhs} & {rhs}" if kind.endswith("div") else f"{lhs} & !{rhs}")


def _shift(kind: str) -> Lowering:
    """kind: i_shl, i_shr, u_shr. By the width or more: 0, or the sign."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits, width = bits_of(emitter, result.type), emitter.width(result.type)
        count = emitter.index(second)
        a, b = emitter.operands((first, second))
        if width == 1:
            emitter.define(result, a if kind == "i_shr" else emitter.let(f"{a} & !{b}"))
            return
        if kind == "u_shr":
            a = zero_extended(emitter, a, bits, width)
        fits = IN_RANGE in op.attributes or (type(count) is int and 0 <= count < bits)
        if fits and width == 32:
            amount = unsigned(count) if type(count) is int else as_unsigned(b)
            made = emitter.let({"i_shl": f"{a} << {amount}", "i_shr": f"{a} >> {amount}",
                          "u_shr": f"i32({as_unsigned(a)} >> {amount})"}[kind])  # fmt: skip
            emitter.define(result, wrap(emitter, made, bits, width))
            return
        if type(count) is int and 0 < count < bits and type(a) is not Literal:
            emitter.define(result, wrap(emitter, emitter.let(_shifted(kind, a, count)), bits, width))
            return
        if bits < width:  # a count that the register would still shift by
            b = zero_extended(emitter, b, bits, width)
        made = emitter.call(f"pyd_{kind[0]}{width}_{kind[2:]}", a, b)
        if bits < width and kind == "i_shl":
            beyond = emitter.let(emitter.less(b, emitter.number(bits, width), width))
            made = emitter.let(f"select({emitter.number(0, width)}, {made}, {beyond})")
        emitter.define(result, wrap(emitter, made, bits, width))

    return lower


def _shifted(kind: str, a: Name, count: int) -> str:
    """Return the expression of a 64-bit shift of two words by a constant number of bits, 1 to 63."""
    rest = f"{abs(32 - count)}u"
    if kind == "i_shl":
        if count >= 32:
            return f"vec2u(0u, {a}.x << {rest})" if count > 32 else f"vec2u(0u, {a}.x)"
        return f"vec2u({a}.x << {count}u, ({a}.y << {count}u) | ({a}.x >> {rest}))"
    high, sign = f"{a}.y", "0u"
    if kind == "i_shr":
        high, sign = f"i32({high})", f"u32(i32({high}) >> 31u)"
    if count == 32:
        return f"vec2u({a}.y, {sign})"
    if count > 32:
        return f"vec2u({_word(f'{high} >> {rest}')}, {sign})"
    return f"vec2u(({a}.x >> {count}u) | ({a}.y << {rest}), {_word(f'{high} >> {count}u')})"


def _word(text: str) -> str:
    """Return an expression of type i32 or u32 as a u32."""
    return f"u32({text})" if text.startswith("i32") else text


def _rounded(up: bool, kind: str = "i") -> Lowering:
    """Return the lowering of a division that rounds up or down: the remainder decides whether the quotient is moved by
    one. Divided by zero, the remainder is the dividend, and the quotient stays 0.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits, width = bits_of(emitter, result.type), emitter.width(result.type)
        if width == 1:  # nothing is left to round
            emitter.define(result, _division_of_bits(emitter, "i_div", emitter.get(first), emitter.get(second)))
            return
        a, b = emitter.index(first), emitter.index(second)
        if known(b) and b == 0:
            emitter.define(result, 0)
            return
        quotient, remainder = (divided(emitter, f"{kind}_{part}", bits, width, a, b) for part in ("div", "rem"))
        zero = emitter.number(0, width)
        unlike = "any({0} != {1})" if width == 64 else "({0} != {1})"
        right = emitter.get(second)
        move = unlike.format(remainder, zero)
        if not known(b):
            move += " & " + unlike.format(right, zero)
        if kind == "i":
            signs = f"({remainder} ^ {right})" if width == 32 else f"i32({remainder}.y ^ {emitter.let(right)}.y)"
            move += f" & ({signs} {'>=' if up else '<'} 0)"
        decided = emitter.let(move)
        step = emitter.number(1, width)
        if width == 64:
            moved = emitter.call("pyd_i64_add" if up else "pyd_i64_sub", quotient, step)
        else:
            moved = emitter.let(f"{quotient} {'+' if up else '-'} {step}")
        emitter.define(result, wrap(emitter, emitter.let(f"select({quotient}, {moved}, {decided})"), bits, width))

    return lower


def _extreme(is_signed: bool, larger: bool) -> Lowering:
    """Return the lowering of a minimum or maximum of integers. Sign-extended registers also compare right as unsigned
    ones.
    """

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        (first, second), (result,) = operands_of(op), op.results
        bits_of(emitter, result.type)
        width = emitter.width(result.type)
        a, b = emitter.index(first), emitter.index(second)
        if type(a) is int and type(b) is int and is_signed:
            emitter.define(result, max(a, b) if larger else min(a, b))
            return
        x, y = emitter.operands((first, second))
        if width == 1:  # true is -1 where there is a sign
            emitter.define(result, emitter.let(f"{x} {'|' if larger != is_signed else '&'} {y}"))
        elif width == 32:
            name = "max" if larger else "min"
            words = f"{as_unsigned(x)}, {as_unsigned(y)}"
            emitter.define(result, emitter.let(f"{name}({x}, {y})" if is_signed else f"i32({name}({words}))"))
        else:
            below = emitter.let(emitter.less(x, y, 64, not is_signed))
            emitter.define(
                result, emitter.let(f"select({x}, {y}, {below})" if larger else f"select({y}, {x}, {below})")
            )

    return lower


def _wide_product(is_signed: bool) -> Lowering:
    """Return the lowering of a product that gives its two halves."""

    def lower(emitter: FunctionEmitter, op: Operation) -> None:
        type_ = op.results[0].type
        bits, width = bits_of(emitter, type_), emitter.width(type_)
        a, b = emitter.operands(operands_of(op))
        if width == 1:
            emitter.define(op.results[0], emitter.let(f"{a} & {b}"))
            emitter.define(op.results[1], 0)
            return
        if bits > 16 and bits != 32:
            if bits % 2:
                raise emitter.error(f"{op_name(op)} on {type_} cannot be compiled into a kernel for this target")
            expand(emitter, op)
            return
        if bits == 32:
            product = ("pyd_i32_product", a, b) if is_signed else ("pyd_u32_product", as_unsigned(a), as_unsigned(b))
            pair = emitter.call(*product)
            emitter.define(op.results[0], emitter.let(f"i32({pair}.x)"))
            emitter.define(op.results[1], emitter.let(f"i32({pair}.y)"))
            return
        if not is_signed:
            a, b = zero_extended(emitter, a, bits, width), zero_extended(emitter, b, bits, width)
        whole = emitter.let(f"{a} * {b}")
        high = f"{whole} >> {bits}u" if is_signed else f"i32(u32({whole}) >> {bits}u)"
        emitter.define(op.results[0], wrap(emitter, whole, bits, 32))
        emitter.define(op.results[1], wrap(emitter, emitter.let(high), bits, 32))

    return lower


def _addui_extended(emitter: FunctionEmitter, op: Operation) -> None:
    type_ = op.results[0].type
    bits, width = bits_of(emitter, type_), emitter.width(type_)
    first, second = emitter.operands(operands_of(op))
    if width == 1:
        emitter.define(op.results[0], emitter.let(f"{first} != {second}"))
        emitter.define(op.results[1], emitter.let(f"{first} & {second}"))
        return
    a, b = (zero_extended(emitter, each, bits, width) for each in (first, second))
    total = emitter.let(f"{a} + {b}") if width == 32 else emitter.call("pyd_i64_add", a, b)
    plain = zero_extended(emitter, total, bits, width)
    emitter.define(op.results[0], wrap(emitter, total, bits, width))
    emitter.define(op.results[1], emitter.let(emitter.less(plain, a, width, unsigned=True)))


def _cmpi(emitter: FunctionEmitter, op: Operation) -> None:
    (first, second), (result,) = operands_of(op), op.results
    predicate = INT_PREDICATES[integer(op, "predicate")]
    a, b = emitter.operands((first, second))
    emitter.define(result, emitter.let(compared(emitter, predicate, emitter.width(first.type), a, b)))


def compared(emitter: FunctionEmitter, predicate: str, width: int, lhs: Name, rhs: Name) -> str:
    """Return the expression of an integer comparison. Sign-extended registers keep their unsigned order as well."""
    is_unsigned, order = predicate[0] == "u", predicate[-2:]
    if width == 1:
        if predicate in ("eq", "ne"):
            return f"{lhs} {COMPARISONS[predicate]} {rhs}"
        if predicate in ("slt", "sle", "ugt", "uge"):  # true is -1 where there is a sign
            lhs, rhs = rhs, lhs
        return f"!{lhs} {'&' if order in ('lt', 'gt') else '|'} {rhs}"
    if width == 64:
        if predicate in ("eq", "ne"):
            return f"all({lhs} == {rhs})" if predicate == "eq" else f"any({lhs} != {rhs})"
        if order in ("gt", "le"):
            lhs, rhs = rhs, lhs
        below = emitter.less(lhs, rhs, 64, is_unsigned)
        return below if order in ("lt", "gt") else f"!{below}"
    if is_unsigned:
        return f"{as_unsigned(lhs)} {COMPARISONS[order]} {as_unsigned(rhs)}"
    return f"{lhs} {COMPARISONS[order]} {rhs}"


def _select(emitter: FunctionEmitter, op: Operation) -> None:
    (test, then, other), (result,) = operands_of(op), op.results
    condition = emitter.get(test)
    if emitter.width(test.type) != 1:
        raise emitter.error("arith.select takes an i1")
    if isinstance(result.type, MemRefType):
        roots = emitter.roots([then])
        emitter.same_roots(roots, [other])
        parts = zip(emitter.parts([then]), emitter.parts([other]), strict=True)
        emitter.take(
            [result], [a if a == b else emitter.let(f"select({b}, {a}, {condition})") for a, b in parts], roots
        )
        return
    a, b = emitter.get(then), emitter.get(other)
    emitter.define(result, emitter.let(f"select({b}, {a}, {condition})"))


ROWS: dict[str, Lowering] = {
    "arith.constant": _constant,
    "arith.addi": _int("+", lambda a, b: a + b, "!="),
    "arith.subi": _int("-", lambda a, b: a - b, "!="),
    "arith.muli": _int("*", lambda a, b: a * b, "&"),
    "arith.divsi": _division("i_div"),
    "arith.divui": _division("u_div"),
    "arith.remsi": _division("i_rem"),
    "arith.remui": _division("u_rem"),
    "arith.andi": _int("&", lambda a, b: a & b, "&"),
    "arith.ori": _int("|", lambda a, b: a | b, "|"),
    "arith.xori": _int("^", lambda a, b: a ^ b, "!="),
    "arith.shli": _shift("i_shl"),
    "arith.shrsi": _shift("i_shr"),
    "arith.shrui": _shift("u_shr"),
    "arith.floordivsi": _rounded(up=False),
    "arith.ceildivsi": _rounded(up=True),
    "arith.ceildivui": _rounded(up=True, kind="u"),
    "arith.minsi": _extreme(is_signed=True, larger=False),
    "arith.maxsi": _extreme(is_signed=True, larger=True),
    "arith.minui": _extreme(is_signed=False, larger=False),
    "arith.maxui": _extreme(is_signed=False, larger=True),
    "arith.mulsi_extended": _wide_product(is_signed=True),
    "arith.mului_extended": _wide_product(is_signed=False),
    "arith.addui_extended": _addui_extended,
    "arith.cmpi": _cmpi,
    "arith.select": _select,
}
