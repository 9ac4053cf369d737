"""Integers that the host computes in each call: sizes, axes and positions that are operands of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith, builtin, cf, tensor
from xdsl.ir import Operation, SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, Kind
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise


def _comparison(predicate: str) -> Callable[[HostInteger, Integer], HostCondition]:
    """Return the method that compares two integers by a predicate of arith.cmpi, such as "slt"."""
    return lambda self, other: self._compared(predicate, other)


@dataclass(frozen=True, eq=False)
class HostInteger:
    """Integer of any sign that the host computes, as an SSA value of type index.

    Comparisons of sizes are decided at compile time by bounds; these integers are compared in each call.
    """

    builder: Builder
    value: SSAValue

    @classmethod
    def of(cls, builder: Builder, n: Integer) -> HostInteger:
        """Return a number, a size or a HostInteger as a HostInteger."""
        return n if isinstance(n, HostInteger) else cls(builder, builder.index(n))

    def size(self, hint: str = "n", least: int | None = 0) -> Size:
        """Return this integer as a size. It must be at least `least`, unless that is None. `hint` begins the name of
        its symbol.
        """
        return self.builder.size_of(self.value, hint, least)

    def _combined(self, operation: type[Operation], other: Integer, swapped: bool = False) -> HostInteger:
        """Emit an operation on this and another integer; with `swapped` the other one is the first operand."""
        operands = [self.value, HostInteger.of(self.builder, other).value]
        op = operation.create(operands=operands[::-1] if swapped else operands, result_types=[self.value.type])
        if operation in (arith.AddiOp, arith.SubiOp, arith.MuliOp):  # xDSL requires the property of these
            op.properties["overflowFlags"] = arith.IntegerOverflowAttr("none")
        return HostInteger(self.builder, self.builder.add(op).results[0])

    def __add__(self, other: Integer) -> HostInteger:
        return self._combined(arith.AddiOp, other)

    def __sub__(self, other: Integer) -> HostInteger:
        return self._combined(arith.SubiOp, other)

    def __rsub__(self, other: Integer) -> HostInteger:
        return self._combined(arith.SubiOp, other, swapped=True)

    def __mul__(self, other: Integer) -> HostInteger:
        return self._combined(arith.MuliOp, other)

    def __floordiv__(self, other: Integer) -> HostInteger:
        return self._combined(arith.FloorDivSIOp, other)

    def __neg__(self) -> HostInteger:
        return 0 - self

    def max(self, other: Integer) -> HostInteger:
        """Return the larger of this integer and `other`."""
        return self._combined(arith.MaxSIOp, other)

    def min(self, other: Integer) -> HostInteger:
        """Return the smaller of this integer and `other`."""
        return self._combined(arith.MinSIOp, other)

    def _compared(self, predicate: str, other: Integer) -> HostCondition:
        """Emit a comparison of this with another integer by a predicate of arith.cmpi, such as "slt"."""
        op = arith.CmpiOp(self.value, HostInteger.of(self.builder, other).value, predicate)
        return HostCondition(self.builder, self.builder.add(op).result)

    __lt__, __le__, __gt__, __ge__, is_equal = (
        _comparison(predicate) for predicate in ("slt", "sle", "sgt", "sge", "eq")
    )


Integer = int | Expr | HostInteger
"""Integer that the host knows while compiling, as an expression over sizes, or computes in a call."""


@dataclass(frozen=True, eq=False)
class HostCondition:
    """Truth value that the host computes in each call, as an SSA value of type i1.

    Comparisons of a HostInteger create it. Example, for a HostInteger `axis`: `(axis < 0).where(axis + rank, axis)`.
    """

    builder: Builder
    value: SSAValue

    def __and__(self, other: HostCondition) -> HostCondition:
        return HostCondition(self.builder, self.builder.add(arith.AndIOp(self.value, other.value)).result)

    def __or__(self, other: HostCondition) -> HostCondition:
        return HostCondition(self.builder, self.builder.add(arith.OrIOp(self.value, other.value)).result)

    def where(self, yes: Integer, no: Integer) -> HostInteger:
        """Return `yes` if this condition holds, else `no`."""
        values = (HostInteger.of(self.builder, n).value for n in (yes, no))
        return HostInteger(self.builder, self.builder.add(arith.SelectOp(self.value, *values)).result)

    def require(self, message: str) -> None:
        """Add a check that fails the call with `message` unless this condition holds."""
        self.builder.add(cf.AssertOp(self.value, message))


def product(builder: Builder, factors: Iterable[Integer]) -> HostInteger:
    """Return the product of integers; 1 for none."""
    return reduce(HostInteger.__mul__, factors, HostInteger.of(builder, 1))


def read_integers(builder: Builder, x: Tensor) -> list[HostInteger]:
    """Return the elements of a computed tensor of rank 0 or 1 as integers that the host reads back in each call.

    A vector's length must be static. Floats are truncated to i64, and unsigned elements are zero-extended.
    """
    count = x.shape[0] if x.rank else 1
    if x.rank > 1 or isinstance(count, Expr):
        raise builder.fail(f"{x} is read while it is computed; expected a vector whose length is known")
    # arith.index_cast takes integers and sign-extends them: floats and unsigned elements are converted to i64 before.
    value = builder.value(x if x.dtype.kind is Kind.INT else elementwise.convert(builder, x, I64))
    integers = []
    for n in range(count):
        element = builder.add(tensor.ExtractOp(value, [builder.index(n)] * x.rank, value.type.element_type)).result  # type: ignore[attr-defined]
        integers.append(HostInteger(builder, builder.add(arith.IndexCastOp(element, builtin.IndexType())).result))
    return integers
