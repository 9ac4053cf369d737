"""Conditions in kernel IR: negation, conjunction and comparisons, which are bools where they are known."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index


def opposite(build: Builder, condition: SSAValue | bool) -> SSAValue | bool:
    """Return the negation of a condition: a bool, or an i1."""
    if isinstance(condition, bool):
        return not condition
    return build.pure(arith.XOrIOp(condition, build.pure(arith.ConstantOp(IntegerAttr(1, IntegerType(1))))))


def both(build: Builder, lhs: SSAValue | bool, rhs: SSAValue | bool) -> SSAValue | bool:
    """Return the conjunction of two conditions: a bool if that is known, else an i1."""
    if isinstance(lhs, bool):
        return rhs if lhs else False
    if isinstance(rhs, bool):
        return lhs if rhs else False
    return build.pure(arith.AndIOp(lhs, rhs))


def equal(build: Builder, lhs: Index, rhs: Index) -> SSAValue | bool:
    """Return whether two indices are equal: a bool if that is known, else an i1."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs == rhs
    return True if lhs is rhs else build.pure(arith.CmpiOp(build.value(lhs), build.value(rhs), "eq"))


def not_less(build: Builder, lhs: Index, rhs: Index) -> SSAValue | bool:
    """Return whether lhs >= rhs, signed: a bool if that is known, else an i1."""
    less = build.less(lhs, rhs)
    if isinstance(less, bool):
        return not less
    return build.pure(arith.CmpiOp(build.value(lhs), build.value(rhs), "sge"))
