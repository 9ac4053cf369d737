"""Arithmetic and comparisons of floats, with one meaning in every shader language.

A language states for which types it has an instruction; all other operations are emitted as their definitions
(`kernel_ir/math`), so that floats of 16 bits and less compute in f32.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.shaders.registers import E, Registers, V
from pydispatch.compiler.kernel_ir.math.definitions import COMPOSED, FUNCTIONS, TESTS
from pydispatch.compiler.kernel_ir.readers import FLOAT_PREDICATES, flags, integer, op_name, operands_of

INSTRUCTIONS = (
    "arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf", "math.absf", "math.sqrt", "math.floor",
    "math.ceil", "math.trunc", "math.roundeven", "math.fma",
)  # fmt: skip
"""Operations that are one instruction if the language has it for the type, else their definitions in `kernel_ir/math`.
Results of the instructions are exact, or accurate to the last binary digit."""
EXTREMES = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")
"""Minima and maxima: instructions where fast-math flags exclude NaN and signs of zeros. Otherwise they are expanded to
other operations, since the instructions of shader languages leave the results for NaN and zeros open."""


class Floats(Registers[E, V]):
    """Lowerings of operations on floats for any shader language.

    A subclass for SPIR-V or WGSL emits the instructions; `rows` is its table of lowerings by operation. E is the type
    of the emitter of an entry point, V the type of a value in the language.
    """

    # Instructions of the language

    @abstractmethod
    def has_instruction(self, emitter: E, name: str, type_: Attribute) -> bool:
        """Return whether the language has an instruction for the operation `name` on a float type, with exact results.

        `arith.cmpf` stands for all comparisons.
        """

    @abstractmethod
    def computed(self, emitter: E, op: Operation, operands: Sequence[V]) -> V:
        """Emit the instruction of an operation in `INSTRUCTIONS`, and return its result.

        The instruction may be fused with another to a multiply-add only if the fast-math flags of `op` allow it.
        """

    @abstractmethod
    def plain_extreme(self, emitter: E, is_larger: bool, type_: Attribute, operands: Sequence[V]) -> V:
        """Emit a maximum (`is_larger`) or minimum of numbers that are neither NaN nor zeros of unlike signs."""

    @abstractmethod
    def is_nan(self, emitter: E, type_: Attribute, value: V) -> V:
        """Emit whether a float is NaN."""

    @abstractmethod
    def float_compared(self, emitter: E, predicate: str, type_: Attribute, lhs: V, rhs: V) -> V:
        """Emit a comparison of two floats by a predicate of `arith.cmpf`.

        `comparison` lowers "ord" and "uno" to tests for NaN, "true" and "false" to constants, without this method.
        """

    # Lowerings

    def instruction(self, emitter: E, op: Operation) -> None:
        """Lower one of `INSTRUCTIONS` to an instruction, or expand it if the language has none for the type.

        An expansion computes it by other operations, such as f64 by integers in WGSL.
        """
        if not self.has_instruction(emitter, op_name(op), op.results[0].type):
            self.expand(emitter, op)
            return
        emitter.values[op.results[0]] = self.computed(emitter, op, self.operands(emitter, operands_of(op)))

    def extreme(self, emitter: E, op: Operation) -> None:
        """Lower a maximum or minimum, one of `EXTREMES`.

        It is an instruction if flags exclude NaN and signs of zeros, else it is expanded into other operations.
        """
        (result,), fast_flags = op.results, set(flags(op, "fastmath").split())
        # nnan: no operand is NaN; nsz: the sign of a zero does not matter
        is_plain = "fast" in fast_flags or {"nnan", "nsz"} <= fast_flags
        if not (is_plain and self.has_instruction(emitter, op_name(op), result.type)):
            self.expand(emitter, op)
            return
        operands, is_larger = self.operands(emitter, operands_of(op)), "max" in op_name(op)
        emitter.define(result, self.plain_extreme(emitter, is_larger, result.type, operands))

    def comparison(self, emitter: E, op: Operation) -> None:
        """Lower `arith.cmpf` to a constant, a comparison, or one or two tests for NaN.

        It is expanded into other operations if the language has no comparison of the type.
        """
        predicate, (result,), type_ = FLOAT_PREDICATES[integer(op, "predicate")], op.results, op.operands[0].type
        if predicate in ("false", "true"):
            emitter.define(result, -int(predicate == "true"))  # known integers are signed: true is -1
            return
        if not self.has_instruction(emitter, op_name(op), type_):
            self.expand(emitter, op)
            return
        lhs, rhs = self.operands(emitter, operands_of(op))
        if predicate not in ("uno", "ord"):
            emitter.define(result, self.float_compared(emitter, predicate, type_, lhs, rhs))
            return
        is_unordered = self.is_nan(emitter, type_, lhs)
        if lhs != rhs:  # x is compared with itself to test it for NaN: one test suffices then
            is_unordered = self.logical(emitter, "or", is_unordered, self.is_nan(emitter, type_, rhs))
        emitter.define(result, is_unordered if predicate == "uno" else self.inverted(emitter, is_unordered))

    def rows(self) -> dict[str, Callable[[E, Operation], None]]:
        """Return the lowering of each operation that this class lowers, by the name of the operation."""
        return {
            # Functions such as exp are computed by other operations: those of shader languages are too inexact.
            **dict.fromkeys((*FUNCTIONS, *COMPOSED, *TESTS, "math.isnormal", "math.copysign"), self.expand),
            **dict.fromkeys(INSTRUCTIONS, self.instruction),
            **dict.fromkeys(EXTREMES, self.extreme),
            "arith.cmpf": self.comparison,
        }
