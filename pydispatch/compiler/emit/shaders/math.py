"""Operations of `math` on integers, with one meaning in every shader language: counts of bits, sizes and powers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.integers import width_of
from pydispatch.compiler.emit.shaders.registers import E, Registers, V
from pydispatch.compiler.emit.shaders.values import known
from pydispatch.compiler.kernel_ir.readers import operands_of


class IntegerMath(Registers[E, V]):
    """Lowerings of operations of the dialect `math` on integers for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions; `rows` is its table of lowerings by operation. E is the type
    of the emitter of an entry point, V the type of a value in the language.
    """

    # Instructions of the language

    @abstractmethod
    def counted(self, emitter: E, kind: str, value: V, width: int) -> V:
        """Emit the number of leading zeros (`ctlz`), trailing zeros (`cttz`) or ones (`ctpop`) of a register.

        The count is a register of the same width; 0 has as many zeros as the register has bits.
        """

    # Lowerings

    def count(self, kind: str) -> Callable[[E, Operation], None]:
        """Return the lowering of a count of bits. kind: `ctpop`, `ctlz` or `cttz`, as `counted` defines them."""

        def lower(emitter: E, op: Operation) -> None:
            """Emit the count of bits `kind` ("ctpop", "ctlz" or "cttz") of an integer."""
            (result,) = op.results
            width = width_of(emitter, result.type)
            (value,) = self.operands(emitter, operands_of(op))
            emitter.define(result, self.counted(emitter, kind, value, width))

        return lower

    def absolute(self, emitter: E, op: Operation) -> None:
        """Lower `math.absi` of 32 or 64 bits; the absolute value of the smallest integer wraps to itself."""
        (operand,), (result,) = operands_of(op), op.results
        width = width_of(emitter, result.type)
        (value,) = self.operands(emitter, [operand])
        zero = emitter.constant(0, result.type)
        is_negative = self.compared(emitter, "slt", width, value, zero)
        negated = self.arithmetic(emitter, "sub", width, zero, value)
        emitter.define(result, self.select(emitter, result.type, is_negative, negated, value))

    def power(self, emitter: E, op: Operation) -> None:
        """Lower a power with an integer exponent by its definition, which is shorter if the exponent is known."""
        exponent = emitter.int_or_value(op.operands[1])
        self.expand(emitter, op, exponent=exponent if known(exponent) else None)

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {
            "math.absi": self.absolute,
            "math.ctlz": self.count("ctlz"),
            "math.cttz": self.count("cttz"),
            "math.ctpop": self.count("ctpop"),
            "math.fpowi": self.power,
            "math.ipowi": self.power,
        }
