"""Instructions on registers that lowerings of several subjects emit, in every shader language.

Registers of integers have 32 or 64 bits, `width`; those of truth values have 1. `bits` of a register are significant,
and its upper bits are copies of their sign.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.kernel_ir.math.definitions import Definition, Native, definition
from pydispatch.compiler.kernel_ir.readers import op_name
from pydispatch.compiler.kernel_ir.types import is_float, is_integer

WIDTHS = (32, 64)
"""Widths of registers of integers. Values of other widths are sign-extended in the next larger one."""

E = TypeVar("E", bound=ShaderFunction[Any])
V = TypeVar("V")
"""Type of a runtime value of the shader language: a name of WGSL, or an id of SPIR-V."""


@dataclass(frozen=True)
class Shift:
    """Kind of a shift.

    Attributes:
        is_left: Whether it is to the left, which fills with zeros.
        is_signed: Whether a shift to the right fills with copies of the sign; otherwise with zeros.
    """

    is_left: bool
    is_signed: bool


LEFT = Shift(is_left=True, is_signed=True)
"""Shift to the left, which `is_signed` does not change."""
LOGICAL_RIGHT, ARITHMETIC_RIGHT = (Shift(is_left=False, is_signed=is_signed) for is_signed in (False, True))
"""Shifts to the right, which fill with zeros and with copies of the sign."""


class Registers(ABC, Generic[E, V]):
    """Base of all lowerings for shader languages: the instructions on values in registers that they emit.

    A subclass implements the methods for one language. E is the type of the emitter of an entry point, V that of a
    value in the language. The objects have no state: each method gets the emitter.
    """

    @abstractmethod
    def operands(self, emitter: E, values: Sequence[SSAValue]) -> list[V]:
        """Return the registers of scalars that are the operands of one instruction.

        A language that refuses instructions on literals alone returns one of them as a name.
        """

    @abstractmethod
    def sign_extended(self, emitter: E, value: V, *, bits: int, width: int) -> V:
        """Extend the low `bits` bits of a register of `width` bits with their sign, and return the register."""

    @abstractmethod
    def zero_extended(self, emitter: E, value: V, bits: int, width: int) -> V:
        """Extend the low `bits` bits of a register of `width` bits with zeros, and return the register."""

    @abstractmethod
    def resized(self, emitter: E, value: V, from_width: int, to_width: int) -> V:
        """Convert a register to another width: extend it with its sign, or truncate it."""

    @abstractmethod
    def logical(self, emitter: E, kind: str, lhs: V, rhs: V) -> V:
        """Emit an operation on truth values, "and", "or", "eq" or "ne", and return a truth value."""

    @abstractmethod
    def inverted(self, emitter: E, value: V) -> V:
        """Emit the negation of a truth value."""

    @abstractmethod
    def arithmetic(self, emitter: E, kind: str, width: int, lhs: V, rhs: V) -> V:
        """Emit "add", "sub", "mul", "and", "or" or "xor" of integer registers."""

    @abstractmethod
    def shifted(self, emitter: E, shift: Shift, width: int, value: V, count: V | int) -> V:
        """Emit a shift by a count below `width`: a register, or an int if it is known."""

    @abstractmethod
    def compared(self, emitter: E, predicate: str, width: int, lhs: V, rhs: V) -> V:
        """Emit a comparison of integer registers by a predicate of `arith.cmpi`, such as "slt"; return a truth value.

        Unsigned predicates need no other extension: sign extension keeps the order of unsigned integers, too.
        """

    @abstractmethod
    def select(self, emitter: E, type_: Attribute, condition: V, then: V, other: V) -> V:
        """Emit the choice of `then` if the condition holds, else `other`, both of a type of kernel IR."""

    @abstractmethod
    def float_constant(self, emitter: E, value: float, type_: Attribute) -> V:
        """Return a float constant in the register of its type."""

    @abstractmethod
    def from_bits(self, emitter: E, value: V, type_: Attribute) -> V:
        """Convert an integer register with the bits of a scalar, as in memory, to the register of its type."""

    @abstractmethod
    def to_bits(self, emitter: E, value: V, type_: Attribute) -> V:
        """Convert the register of a scalar to an integer register with its bits, as in memory."""

    @abstractmethod
    def expand(self, emitter: E, op: Operation, exponent: int | None = None) -> None:
        """Emit an operation by its definition in simpler operations.

        exponent: the exponent of an integer power if it is known while compiling, else None.
        """


_NATIVE = Native(registers=WIDTHS)
"""Types that shader languages have instructions for. `definition_of` expresses other operations in these types."""


def definition_of(emitter: ShaderFunction[Any], op: Operation, exponent: int | None) -> Definition:
    """Return the definition of an operation: a function of kernel IR that computes it by native instructions.

    exponent: the exponent of an integer power if it is known while compiling, else None.

    Raises:
        CompileError: The operation is on neither floats nor integers.
    """
    if not any(is_float(value.type) or is_integer(value.type) for value in (op.operands[0], op.results[0])):
        raise emitter.error(f"operation '{op_name(op)}' on {op.operands[0].type} cannot be compiled into a kernel")
    return definition(op, _NATIVE, exponent)
