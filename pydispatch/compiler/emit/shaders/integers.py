"""Integer operations, constants and choices of arith, with one meaning in every shader language.

`Integers` decides what is known while compiling. Divisions, shifts, values of one bit and of other widths than those of
registers are as `kernel_ir/expand/` leaves them. A language implements the instructions that it writes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.emit.shaders.registers import ARITHMETIC_RIGHT, LEFT, LOGICAL_RIGHT, E, Registers, Shift, V
from pydispatch.compiler.emit.shaders.values import known, signed
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES, attribute, integer, op_name, operands_of
from pydispatch.compiler.kernel_ir.types import bit_width, is_integer

Index = Any
"""An `int` when it is known while compiling, else a V."""


@dataclass(frozen=True)
class Division:
    """A division of integers that rounds toward zero.

    Attributes:
        is_signed: Whether the integers are signed.
        is_quotient: Whether the result is the quotient; otherwise it is the remainder.
    """

    is_signed: bool
    is_quotient: bool


@dataclass(frozen=True)
class Extreme:
    """A minimum or maximum of integers.

    Attributes:
        is_signed: Whether the integers are signed.
        is_larger: Whether the result is the maximum; otherwise it is the minimum.
    """

    is_signed: bool
    is_larger: bool


def require_integer(emitter: ShaderFunction[Any], type_: Attribute) -> None:
    """Raise CompileError for a type that is neither an integer nor index."""
    if not is_integer(type_):
        raise emitter.error(
            f"operation '{op_name(emitter.op)}' on {type_} cannot be compiled into a kernel",
            "kernel IR computes on scalars; vectors come from parallel loops",
        )


def bits_of(emitter: ShaderFunction[Any], type_: Attribute) -> int:
    """Return the significant bits of an integer type, whose register may be wider: 8 for i8 in a register of 32 bits.

    Raises:
        CompileError: The type is no integer, or has more than 64 bits, so that no register holds it.
    """
    require_integer(emitter, type_)
    return emitter.index_width if type(type_) is IndexType else min(bit_width(type_), emitter.width(type_))


def width_of(emitter: ShaderFunction[Any], type_: Attribute) -> int:
    """Return the width of the register of an integer type: 1, 32 or 64.

    Raises:
        CompileError: The type is no integer.
    """
    require_integer(emitter, type_)
    return emitter.width(type_)


class Integers(Registers[E, V]):
    """Lowerings of integer operations, constants and choices for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions; `rows` is its table of lowerings by operation. E is the type
    of the emitter of an entry point, V the type of a value in the language.
    """

    # Instructions of the language

    @abstractmethod
    def divided(self, emitter: E, division: Division, width: int, lhs: V, rhs: V) -> V:
        """Emit a division of registers of `width` bits.

        The divisor is not 0, nor -1 in a signed division: `kernel_ir/expand/integers.py` handles these before.
        """

    @abstractmethod
    def extreme(self, emitter: E, extreme: Extreme, width: int, lhs: V, rhs: V) -> V:
        """Emit a minimum or maximum of registers of `width` bits.

        Narrower integers are sign-extended in registers, which keeps the order of unsigned integers, too: the i8 128
        and 255 are 0xFFFFFF80 and 0xFFFFFFFF, above all i8 up to 127.
        """

    @abstractmethod
    def product(self, emitter: E, is_signed: bool, lhs: V, rhs: V) -> tuple[V, V]:
        """Emit the 64-bit product of two registers of 32 bits, and return its words (low, high) as registers."""

    # Lowerings

    def constant(self, emitter: E, op: Operation) -> None:
        """Lower `arith.constant`. An integer becomes a Python int, which gets a register only where one is needed."""
        value, (result,) = attribute(op, "value"), op.results
        type_ = result.type
        if type(type_) is IndexType and type(value) is IntegerAttr:  # the most frequent constants
            emitter.values[result] = signed(int(value.value.data), emitter.index_width)
            return
        emitter.width(type_)  # raises for types that registers do not hold
        if isinstance(value, IntegerAttr):
            emitter.define(result, signed(int(value.value.data), bits_of(emitter, type_)))
        elif isinstance(value, FloatAttr):
            emitter.define(result, self.float_constant(emitter, float(value.value.data), type_))
        else:
            raise emitter.error(f"a constant of type {type_} cannot be compiled into a kernel")

    def of_indices(self, kind: str) -> Callable[[E, Operation], None]:
        """Return the lowering of a sum, difference or product; `kind` is a key of INDEX_ARITHMETIC.

        Indices are computed by the index arithmetic of the emitter, as addresses are: constants are folded, and a value
        that the current block has already computed, such as an equal sum, is reused. Other integers use `binary`.
        """
        index_arithmetic = INDEX_ARITHMETIC[kind]

        def lower(emitter: E, op: Operation) -> None:
            """Emit the operation: on indices by `index_arithmetic`, on other integers by `binary`."""
            (first, second), (result,) = operands_of(op), op.results
            if type(result.type) is IndexType:
                values = emitter.values
                values[result] = index_arithmetic(emitter, values[first], values[second])
            else:
                self.binary(emitter, op, kind)

        return lower

    def binary(self, emitter: E, op: Operation, kind: str) -> None:
        """Lower a sum, difference, product or bitwise operation.

        The result is a number for two known numbers, an operand for x + 0 and x * 1, else that of an instruction.

        kind: "add", "sub", "mul", "and", "or" or "xor", a key of FOLDS.
        """
        (first, second), (result,) = operands_of(op), op.results
        type_ = result.type
        a, b = emitter.int_or_value(first), emitter.int_or_value(second)  # an int if known while compiling
        bits, width = bits_of(emitter, type_), emitter.width(type_)  # of the type, and of its registers
        if known(a) and known(b):
            emitter.define(result, signed(FOLDS[kind](a, b), bits))
            return
        if width == 1:  # truth values; expand_integers() has replaced sums by `xori`, and products by `andi`
            emitter.define(result, self.logical(emitter, LOGICAL[kind], emitter.get(first), emitter.get(second)))
            return
        unchanged = _operand_beside_neutral(kind, a, b) if kind in ("add", "sub", "mul") else None
        if unchanged is not None:
            emitter.define(result, unchanged)
            return
        emitter.define(result, self.arithmetic(emitter, kind, width, emitter.get(first), emitter.get(second)))

    def division(self, emitter: E, op: Operation, division: Division) -> None:
        """Lower a division to its quotient or remainder.

        Known numbers that are not negative are folded. An unsigned division by a constant power of two becomes a shift
        or mask. Others are emitted by `divided`, for a divisor that is not 0, nor -1 in a signed division: an earlier
        pass has replaced such divisions.
        """
        (first, second), (result,) = operands_of(op), op.results
        width = width_of(emitter, result.type)
        a, b = emitter.int_or_value(first), emitter.int_or_value(second)  # an int if known while compiling
        has_known_divisor = known(b) and b > 0
        # Negative numbers are not folded. Python rounds down instead of toward zero, and in an unsigned division a
        # negative int stands for a large number, since known integers are stored as signed ones.
        if has_known_divisor and known(a) and a >= 0:
            emitter.define(result, a // b if division.is_quotient else a % b)
            return
        lhs, rhs = self.operands(emitter, (first, second))
        is_power_of_two = has_known_divisor and b & (b - 1) == 0
        if is_power_of_two and not division.is_signed:
            emitter.define(result, self._divided_by_power(emitter, division, width, lhs, b))
        else:
            emitter.define(result, self.divided(emitter, division, width, lhs, rhs))

    def _divided_by_power(self, emitter: E, division: Division, width: int, lhs: V, power: int) -> V:
        """Emit an unsigned division of a register of `width` bits by a power of two.

        x / 8 is x >> 3, and x % 8 is x & 7.
        """
        if division.is_quotient:
            return self.shifted(emitter, LOGICAL_RIGHT, width, lhs, power.bit_length() - 1)
        mask = emitter.constant(power - 1, IntegerType(width))
        return self.arithmetic(emitter, "and", width, lhs, mask)

    def shift(self, emitter: E, op: Operation, shift: Shift) -> None:
        """Lower a shift. `expand_integers` ensures that its result is used only if its count is below the width.

        A count that is folded to a larger number is reduced: WGSL refuses it, even where the result is not used.
        """
        (first, second), (result,) = operands_of(op), op.results
        width = width_of(emitter, result.type)
        value, count_register = self.operands(emitter, (first, second))
        count = emitter.int_or_value(second)
        amount = count % width if known(count) else count_register
        emitter.define(result, self.shifted(emitter, shift, width, value, amount))

    def extreme_of(self, emitter: E, op: Operation, extreme: Extreme) -> None:
        """Lower the minimum or maximum of integers that `extreme` describes."""
        (first, second), (result,) = operands_of(op), op.results
        width = width_of(emitter, result.type)
        a, b = emitter.int_or_value(first), emitter.int_or_value(second)  # an int if known while compiling
        # Known integers are stored as signed ones (the i8 255 is -1), so that an unsigned order is not folded.
        if known(a) and known(b) and extreme.is_signed:
            emitter.define(result, max(a, b) if extreme.is_larger else min(a, b))
            return
        lhs, rhs = self.operands(emitter, (first, second))
        emitter.define(result, self.extreme(emitter, extreme, width, lhs, rhs))

    def wide_product(self, emitter: E, op: Operation, is_signed: bool) -> None:
        """Lower a product with two results, its low and its high half, each as wide as a factor.

        A product of another width than 32 bits is expanded: computed from products of the halves of its factors.
        """
        type_ = op.results[0].type
        bits = bits_of(emitter, type_)
        if bits == 32:
            low, high = self.product(emitter, is_signed, *self.operands(emitter, operands_of(op)))
            emitter.define(op.results[0], low)
            emitter.define(op.results[1], high)
        elif bits % 2:  # has no halves
            raise emitter.error(f"{op_name(op)} on {type_} cannot be compiled into a kernel for this target")
        else:
            self.expand(emitter, op)

    def sum_with_carry(self, emitter: E, op: Operation) -> None:
        """Lower `arith.addui_extended` of 32 or 64 bits; passes of kernel IR have expanded other widths."""
        type_ = op.results[0].type
        width = width_of(emitter, type_)
        lhs, rhs = self.operands(emitter, operands_of(op))
        total = self.arithmetic(emitter, "add", width, lhs, rhs)
        emitter.define(op.results[0], total)
        # The sum wrapped around exactly if it is below an operand.
        emitter.define(op.results[1], self.compared(emitter, "ult", width, total, lhs))

    def comparison(self, emitter: E, op: Operation) -> None:
        """Lower `arith.cmpi`."""
        (first, second), (result,) = operands_of(op), op.results
        predicate, width = INT_PREDICATES[integer(op, "predicate")], emitter.width(first.type)
        lhs, rhs = self.operands(emitter, (first, second))
        if width == 1:  # truth values: `predicate` is "eq", expand_integers() has replaced the others
            emitter.define(result, self.logical(emitter, predicate, lhs, rhs))
        else:
            emitter.define(result, self.compared(emitter, predicate, width, lhs, rhs))

    def choice(self, emitter: E, op: Operation) -> None:
        """Lower `arith.select` of scalars, and of memrefs that are in the same buffer or variable."""
        (test, then, other), (result,) = operands_of(op), op.results
        condition = emitter.get(test)
        if emitter.width(test.type) != 1:
            raise emitter.error("arith.select takes an i1")
        if not isinstance(result.type, MemRefType):
            selected = self.select(emitter, result.type, condition, emitter.get(then), emitter.get(other))
            emitter.define(result, selected)
            return
        # A memref is its storage (root), which both must have, and several indices into it (parts).
        roots, index = emitter.roots([then]), IndexType()
        emitter.require_same_roots(roots, [other])
        pairs = zip(emitter.parts([then]), emitter.parts([other]), strict=True)
        parts = [a if a == b else self.select(emitter, index, condition, a, b) for a, b in pairs]
        emitter.define_from_parts([result], parts, roots)

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {
            "arith.constant": self.constant,
            "arith.addi": self.of_indices("add"),
            "arith.subi": self.of_indices("sub"),
            "arith.muli": self.of_indices("mul"),
            "arith.andi": partial(self.binary, kind="and"),
            "arith.ori": partial(self.binary, kind="or"),
            "arith.xori": partial(self.binary, kind="xor"),
            "arith.divsi": partial(self.division, division=Division(is_signed=True, is_quotient=True)),
            "arith.divui": partial(self.division, division=Division(is_signed=False, is_quotient=True)),
            "arith.remsi": partial(self.division, division=Division(is_signed=True, is_quotient=False)),
            "arith.remui": partial(self.division, division=Division(is_signed=False, is_quotient=False)),
            "arith.shli": partial(self.shift, shift=LEFT),
            "arith.shrsi": partial(self.shift, shift=ARITHMETIC_RIGHT),
            "arith.shrui": partial(self.shift, shift=LOGICAL_RIGHT),
            "arith.minsi": partial(self.extreme_of, extreme=Extreme(is_signed=True, is_larger=False)),
            "arith.maxsi": partial(self.extreme_of, extreme=Extreme(is_signed=True, is_larger=True)),
            "arith.minui": partial(self.extreme_of, extreme=Extreme(is_signed=False, is_larger=False)),
            "arith.maxui": partial(self.extreme_of, extreme=Extreme(is_signed=False, is_larger=True)),
            "arith.mulsi_extended": partial(self.wide_product, is_signed=True),
            "arith.mului_extended": partial(self.wide_product, is_signed=False),
            "arith.addui_extended": self.sum_with_carry,
            "arith.cmpi": self.comparison,
            "arith.select": self.choice,
        }


INDEX_ARITHMETIC: dict[str, Callable[[Any, Index, Index], Index]] = {
    "add": ShaderFunction.plus, "sub": ShaderFunction.minus, "mul": ShaderFunction.times,
}  # fmt: skip
"""Arithmetic of indices, which folds, and reuses values of the current block."""

FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
"""Kinds of arithmetic -> what they return for numbers known while compiling."""
LOGICAL = {"and": "and", "or": "or", "xor": "ne"}
"""Bitwise operation on i1 -> the operation on truth values that computes it."""


def _operand_beside_neutral(kind: str, lhs: Index, rhs: Index) -> Index | None:
    """Return x for x + 0, 0 + x, x - 0, x * 1 and 1 * x; None for other operands.

    An operand is an int if it is known while compiling, else a value of the shader. kind: "add", "sub" or "mul".
    """
    neutral = 1 if kind == "mul" else 0
    if known(rhs) and rhs == neutral:
        return lhs
    is_commutative = kind != "sub"
    return rhs if is_commutative and known(lhs) and lhs == neutral else None
