"""Index arithmetic of a function: it folds, and gives what the block has already."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.function import ShaderFunction, Table
from pydispatch.compiler.emit.spirv.module import Code, Id
from pydispatch.compiler.emit.spirv.types import Index
from pydispatch.compiler.emit.spirv.words import OP
from pydispatch.compiler.kernel_ir.simt.distribute import Kernel


class BlockArithmetic(ShaderFunction[Id]):
    """Sums, products and quotients of indices, written into `code`."""

    handle = Id

    def __init__(self, code: Code, table: Table, kernel: Kernel) -> None:
        super().__init__(table, kernel)
        self.code, self.m = code, code.module
        self._sums: dict[tuple[str, int, int], Id] = {}  # in the block `_block`, by ids
        self._block: Id | None = None

    def index_type(self) -> Id:
        return self.m.int(self.index_width)

    def idx(self, value: Index) -> Id:
        """Return an index as an id; an int becomes a constant."""
        return value if type(value) is Id else self.m.integer(value, self.index_width)

    def _sum(self, a: Id, b: Index) -> Id:
        return self._reused("IAdd", a, b)

    def _difference(self, a: Index, b: Id) -> Id:
        return self.code.let("ISub", self.index_type(), self.idx(a), b)

    def _product(self, a: Id, b: Index) -> Id:
        return self._reused("IMul", a, b)

    def _reused(self, op: str, a: Index, b: Index) -> Id:
        """Return a sum or product of indices, the one that this block has already or a new one."""
        code = self.code
        if self._block != code.label:
            self._block = code.label
            self._sums.clear()
        left = a if type(a) is Id else self.m.integer(a, self.index_width)
        right = b if type(b) is Id else self.m.integer(b, self.index_width)
        key = (op, left, right)
        found = self._sums.get(key)
        if found is None:
            type_ = self.m.int(self.index_width)
            found = self._sums[key] = Id(self.m.bound)
            self.m.bound += 1
            code.lines += (5 << 16 | OP[op], type_, found, left, right)
        return found

    def divide(self, a: Index, b: int, remainder: bool = False) -> Index:
        """Return the quotient, or the remainder, of a non-negative number divided by `b`."""
        if type(a) is int:
            return a % b if remainder else a // b
        if b == 1:
            return 0 if remainder else a
        if b & (b - 1) == 0:
            op, operand = ("BitwiseAnd", b - 1) if remainder else ("ShiftRightLogical", b.bit_length() - 1)
        else:
            op, operand = ("UMod" if remainder else "UDiv"), b
        return self.code.let(op, self.index_type(), a, self.idx(operand))
