"""affine: maps become index arithmetic; loops and accesses become what scf and memref have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import affine
from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineSetAttr, ArrayAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops.divide import quotient, rounded_division
from pydispatch.compiler.emit.llvm.ops.memref import load, store
from pydispatch.compiler.emit.llvm.ops.parallel import points
from pydispatch.compiler.emit.llvm.ops.scf import choose, counted
from pydispatch.compiler.emit.llvm.values import Index
from pydispatch.compiler.kernel_ir.readers import affine_map, attribute, bound_groups, integer, integers
from pydispatch.compiler.kernel_ir.storage import READ_ONLY_NOTE


def expression(f: FunctionEmitter, expr: AffineExpr, dims: Sequence[Index], symbols: Sequence[Index]) -> Index:
    """The value of an affine expression, folded where it can be."""
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if isinstance(expr, AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, AffineSymExpr):
        return symbols[expr.position]
    assert isinstance(expr, AffineBinaryOpExpr)
    a, b = (expression(f, part, dims, symbols) for part in (expr.lhs, expr.rhs))
    if expr.kind == AffineBinaryOpKind.Add:
        return f.body.add(a, b)
    if expr.kind == AffineBinaryOpKind.Mul:
        return f.body.mul(a, b)
    return _division(f, expr.kind, a, b)


def _division(f: FunctionEmitter, kind: AffineBinaryOpKind, a: Index, b: Index) -> Index:
    if isinstance(b, int) and b <= 0:
        raise f.error(f"affine division by {b}: divisors are positive")
    if isinstance(a, int) and isinstance(b, int):
        return {
            AffineBinaryOpKind.Mod: a % b,
            AffineBinaryOpKind.FloorDiv: a // b,
            AffineBinaryOpKind.CeilDiv: -(-a // b),
        }[kind]
    if not isinstance(b, int):  # a size may turn out to be 0 in code that runs ahead of the loop it belongs to
        b = f.intrinsic("llvm.smax.i64", "i64", ("i64", str(b)), ("i64", "1"))
    if kind == AffineBinaryOpKind.FloorDiv:
        return rounded_division(f, "i64", str(a), str(b), "slt", "sub", safe=True)
    if kind == AffineBinaryOpKind.CeilDiv:
        return rounded_division(f, "i64", str(a), str(b), "sge", "add", safe=True)
    remainder = quotient(f, "srem", "i64", str(a), str(b))
    negative = f.body.let(f"icmp slt i64 {remainder}, 0")
    lifted = f.body.let(f"add i64 {remainder}, {b}")
    return f.body.let(f"select i1 {negative}, i64 {lifted}, i64 {remainder}")


def results(f: FunctionEmitter, map_: AffineMap, operands: Sequence[SSAValue]) -> list[Index]:
    """The results of a map: dimensions first, then symbols."""
    given = [f.index(operand) for operand in operands]
    dims, symbols = given[: map_.num_dims], given[map_.num_dims :]
    return [expression(f, expr, dims, symbols) for expr in map_.results]


def _extreme(f: FunctionEmitter, values: list[Index], name: str) -> Index:
    best = values[0]
    for value in values[1:]:
        if isinstance(best, int) and isinstance(value, int):
            best = min(best, value) if name == "smin" else max(best, value)
        else:
            best = f.intrinsic(f"llvm.{name}.i64", "i64", ("i64", str(best)), ("i64", str(value)))
    return best


def _apply(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], str(results(f, affine_map(op), op.operands)[0]))


def _min_max(name: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        f.define(op.results[0], str(_extreme(f, results(f, affine_map(op), op.operands), name)))

    return lower


def _for(f: FunctionEmitter, op: Operation) -> None:
    loop = cast(affine.ForOp, op)
    lower = _extreme(f, results(f, affine_map(op, "lowerBoundMap"), loop.lowerBoundOperands), "smax")
    upper = _extreme(f, results(f, affine_map(op, "upperBoundMap"), loop.upperBoundOperands), "smin")
    counted(f, op, (lower, upper, integer(op, "step")), list(loop.inits), "i64", "slt")


def _load(f: FunctionEmitter, op: Operation) -> None:
    indices = _indices(f, op, op.operands[1:])
    f.define(op.results[0], load(f, f.memref(op.operands[0]), indices))


def _store(f: FunctionEmitter, op: Operation) -> None:
    indices = _indices(f, op, op.operands[2:])
    target = f.memref(op.operands[1])
    if target.read_only:
        raise f.error("a store into a binding that is only read", READ_ONLY_NOTE)
    store(f, f.get(op.operands[0]), target, indices)


def _indices(f: FunctionEmitter, op: Operation, operands: Sequence[SSAValue]) -> list[Index]:
    if attribute(op, "map") is None:
        return [f.index(operand) for operand in operands]
    return results(f, affine_map(op), operands)


def _if(f: FunctionEmitter, op: Operation) -> None:
    found = attribute(op, "condition")
    assert isinstance(found, AffineSetAttr)
    constraints = found.data
    given = [f.index(operand) for operand in op.operands]
    dims, symbols = given[: constraints.num_dims], given[constraints.num_dims :]
    holds = "true"
    for constraint in constraints.constraints:
        left = expression(f, constraint.lhs, dims, symbols)
        right = expression(f, constraint.rhs, dims, symbols)
        predicate = {AffineConstraintKind.eq: "eq", AffineConstraintKind.ge: "sge", AffineConstraintKind.le: "sle"}
        test = f.body.let(f"icmp {predicate[constraint.kind]} i64 {left}, {right}")
        holds = test if holds == "true" else f.body.let(f"and i1 {holds}, {test}")
    choose(f, op, holds)


def _parallel(f: FunctionEmitter, op: Operation) -> None:
    """One map result per bound: the form without minima and maxima in the groups."""
    groups = [*bound_groups(op, "lowerBoundsGroups"), *bound_groups(op, "upperBoundsGroups")]
    if op.results or any(size != 1 for size in groups):
        raise f.error("affine.parallel with reductions or grouped bounds cannot be compiled into a kernel")
    lower_map, upper_map = affine_map(op, "lowerBoundsMap"), affine_map(op, "upperBoundsMap")
    split = lower_map.num_dims + lower_map.num_symbols
    lower = results(f, lower_map, op.operands[:split])
    upper = results(f, upper_map, op.operands[split:])
    steps = attribute(op, "steps")
    assert isinstance(steps, ArrayAttr)
    widths = [int(step.value.data) for step in steps.data if isinstance(step, IntegerAttr)]
    points(f, op, list(zip(lower, upper, widths, strict=True)))


def _basis(f: FunctionEmitter, op: Operation, operands: Sequence[SSAValue], count: int) -> list[Index]:
    """The sizes of all dimensions but the outermost, whose bound is optional and without effect."""
    rest = iter(operands)
    sizes = [f.index(next(rest)) if size == DYNAMIC_INDEX else size for size in integers(op, "static_basis")]
    return sizes[1:] if len(sizes) == count else sizes


def _delinearize(f: FunctionEmitter, op: Operation) -> None:
    rest = f.index(op.operands[0])
    basis = _basis(f, op, op.operands[1:], len(op.results))
    for result, size in zip(reversed(op.results[1:]), reversed(basis), strict=True):
        f.define(result, str(_division(f, AffineBinaryOpKind.Mod, rest, size)))
        rest = _division(f, AffineBinaryOpKind.FloorDiv, rest, size)
    f.define(op.results[0], str(rest))


def _linearize(f: FunctionEmitter, op: Operation) -> None:
    count = integers(op, "operandSegmentSizes")[0]
    total, *others = (f.index(operand) for operand in op.operands[:count])
    for index, size in zip(others, _basis(f, op, op.operands[count:], count), strict=True):
        total = f.body.add(f.body.mul(total, size), index)
    f.define(op.results[0], str(total))


ROWS: dict[str, Lowering] = {
    "affine.delinearize_index": _delinearize,
    "affine.linearize_index": _linearize,
    "affine.apply": _apply,
    "affine.min": _min_max("smin"),
    "affine.max": _min_max("smax"),
    "affine.for": _for,
    "affine.parallel": _parallel,
    "affine.if": _if,
    "affine.load": _load,
    "affine.store": _store,
}
