"""Index arithmetic in kernel IR that folds, and the operations of invocations that no dialect has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def

from pydispatch.ir.core.locations import set_location
from pydispatch.ir.dialects.arith import IndexCastUIOp

Index = int | SSAValue
"""An index: a Python int when it is known."""


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """A register of another invocation of the warp: `down` by so many lanes, or of the lane `index`.

    lanes: how many invocations take part, those with the lowest numbers of the warp. What comes from beyond them is
    the own value.
    """

    name = "gpu.shuffle"
    value = operand_def()
    mode = prop_def(IntegerAttr)
    offset = prop_def(IntegerAttr)
    lanes = prop_def(IntegerAttr)
    result = result_def()


DOWN, INDEX = 0, 1


def known(value: SSAValue) -> Index:
    """An int when the value is a constant."""
    op = value.op if isinstance(value, OpResult) else None
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return int(op.value.value.data)
    return value


class Build:
    """Inserts operations in front of `at`, or at the end of `block`; they get the place of `like`."""

    def __init__(self, like: Operation, at: Operation | None = None, block: Block | None = None) -> None:
        self.like, self.at, self.block = like, at, block

    def inside(self, block: Block) -> Build:
        """A builder at the end of `block`."""
        return Build(self.like, None, block)

    def op(self, op: Operation) -> Operation:
        set_location(op, self.like)
        return self.insert(op)

    def insert(self, op: Operation) -> Operation:
        """An operation that has its own place."""
        if self.at is not None:
            assert self.at.parent is not None
            self.at.parent.insert_op_before(op, self.at)
        else:
            assert self.block is not None
            self.block.add_op(op)
        return op

    def let(self, op: Operation) -> SSAValue:
        return self.op(op).results[0]

    def value(self, index: Index) -> SSAValue:
        if isinstance(index, SSAValue):
            return index
        return self.let(arith.ConstantOp(IntegerAttr(index, IndexType())))

    def constant(self, value: int, type_: Attribute) -> SSAValue:
        assert isinstance(type_, IntegerType)
        return self.let(arith.ConstantOp(IntegerAttr(value, type_)))

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self.let(arith.AddiOp(self.value(a), self.value(b)))

    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.let(arith.SubiOp(self.value(a), self.value(b)))

    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        return a if b == 1 else self.let(arith.MuliOp(self.value(a), self.value(b)))

    def divide(self, a: Index, b: Index, narrow: bool) -> tuple[Index, Index]:
        """Quotient and remainder of numbers that are not negative. narrow: both fit into 31 bits."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b, a % b
        if b == 1:
            return a, 0
        left, right = self.value(a), self.value(b)
        if narrow:
            word = IntegerType(32)
            left, right = self.let(arith.IndexCastOp(left, word)), self.let(arith.IndexCastOp(right, word))
        both = self.let(arith.DivUIOp(left, right)), self.let(arith.RemUIOp(left, right))
        if narrow:
            both = (self._widened(both[0]), self._widened(both[1]))
        return both

    def _widened(self, value: SSAValue) -> SSAValue:
        return self.let(IndexCastUIOp.create(operands=[value], result_types=[IndexType()]))

    def less(self, a: Index, b: Index) -> SSAValue:
        return self.let(arith.CmpiOp(self.value(a), self.value(b), "slt"))

    def when(self, condition: SSAValue) -> Build:
        """Opens an scf.if without results."""
        block = Block()
        self.op(scf.IfOp(condition, [], Region(block)))
        return self.inside(block)

    def loop(
        self,
        lower: Index,
        upper: Index,
        step: Index,
        carried: Sequence[SSAValue],
        body: Callable[[Build, SSAValue, list[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """An scf.for; body: gets counter and carried values, returns the next ones."""
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        inner = self.inside(block)
        inner.op(scf.YieldOp(*body(inner, block.args[0], list(block.args[1:]))))
        low, high, stride = (self.value(part) for part in (lower, upper, step))
        return list(self.op(scf.ForOp(low, high, stride, list(carried), Region(block))).results)

    def shuffle(self, value: SSAValue, mode: int, offset: int, lanes: int) -> SSAValue:
        numbers = {"mode": mode, "offset": offset, "lanes": lanes}
        properties = {name: IntegerAttr(number, 64) for name, number in numbers.items()}
        return self.let(ShuffleOp(operands=[value], properties=properties, result_types=[value.type]))

    def thread(self, dimension: str) -> SSAValue:
        return self.let(gpu.ThreadIdOp(gpu.DimensionAttr(gpu.DimensionEnum(dimension))))
