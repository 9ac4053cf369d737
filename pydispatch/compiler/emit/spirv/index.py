"""Index arithmetic of a function, with constant folding and reuse of equal values in a block."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.function import Table
from pydispatch.compiler.emit.shaders.loops import LoopEmitter
from pydispatch.compiler.emit.spirv.module import Code, Id
from pydispatch.compiler.emit.spirv.types import Index
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel


class BlockArithmetic(LoopEmitter[Id]):
    """Base of the emitter of a SPIR-V function: index arithmetic, such as sums, products and quotients.

    Constants are folded, and a result is used again for an equal operation in the same block.
    """

    handle_type = Id
    unrolled_widths = (32, 64)

    def __init__(self, code: Code, table: Table, kernel: Kernel) -> None:
        """Begin without values to reuse; `code` receives the instructions, and `table` has the lowerings."""
        super().__init__(table, kernel)
        self.code, self.m = code, code.module
        # (opcode name, id of the left operand, of the right one) -> result of such a sum or product in `_block`
        self._results: dict[tuple[str, int, int], Id] = {}
        self._block: Id | None = None  # label of the block that the results are in; None before the first one

    def index_type(self) -> Id:
        """Return the SPIR-V type of an index."""
        return self.m.int(self.index_width)

    def index_value(self, value: Index) -> Id:
        """Return an index as an id; an int becomes a constant."""
        return value if type(value) is Id else self.m.integer(value, self.index_width)

    def _sum(self, lhs: Id, rhs: Index) -> Id:
        """Emit an addition of indices."""
        return self._reused("IAdd", lhs, rhs)

    def _difference(self, lhs: Index, rhs: Id) -> Id:
        """Emit a subtraction of indices."""
        return self.code.let("ISub", self.index_type(), self.index_value(lhs), rhs)

    def _product(self, lhs: Id, rhs: Index) -> Id:
        """Emit a multiplication of indices."""
        return self._reused("IMul", lhs, rhs)

    def _reused(self, op: str, lhs: Index, rhs: Index) -> Id:
        """Emit the sum ("IAdd") or product ("IMul") of two indices, and return its id.

        If the current block has an equal instruction, no new one is emitted.
        """
        # Results are reused only in the block that computed them: another block may not be dominated by it.
        code = self.code
        if self._block != code.label:
            self._block = code.label
            self._results.clear()
        left, right = self.index_value(lhs), self.index_value(rhs)
        key = (op, left, right)
        cached = self._results.get(key)
        if cached is None:
            cached = self._results[key] = code.let(op, self.index_type(), left, right)
        return cached

    def divide(self, lhs: Index, rhs: int, is_remainder: bool = False) -> Index:
        """Return the quotient, or the remainder (`is_remainder`), of a non-negative index and the positive `rhs`."""
        if type(lhs) is int:
            return lhs % rhs if is_remainder else lhs // rhs
        if rhs == 1:
            return 0 if is_remainder else lhs
        is_power_of_two = rhs & (rhs - 1) == 0  # x / 8 is x >> 3, and x % 8 is x & 7
        if is_remainder:
            op, operand = ("BitwiseAnd", rhs - 1) if is_power_of_two else ("UMod", rhs)
        else:
            op, operand = ("ShiftRightLogical", rhs.bit_length() - 1) if is_power_of_two else ("UDiv", rhs)
        return self.code.let(op, self.index_type(), lhs, self.index_value(operand))
