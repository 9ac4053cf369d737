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

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.ops.arith import extreme
from pydispatch.compiler.emit.spirv.ops.memref import load, note_read, put
from pydispatch.compiler.emit.spirv.ops.parallel import points
from pydispatch.compiler.emit.spirv.ops.scf import choose, counted
from pydispatch.compiler.emit.spirv.types import Index, known
from pydispatch.compiler.kernel_ir.readers import affine_map, attribute, bound_groups, integer, integers


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
        return f.add(a, b)
    if expr.kind == AffineBinaryOpKind.Mul:
        return f.mul(a, b)
    return _division(f, expr.kind, a, b)


def _division(f: FunctionEmitter, kind: AffineBinaryOpKind, a: Index, b: Index) -> Index:
    """floordiv, ceildiv, mod by a positive number."""
    if known(b) and b <= 0:
        raise f.error(f"affine division by {b}: divisors are positive")
    if known(a) and known(b):
        floor, mod = a // b, a % b
        found = {
            AffineBinaryOpKind.Mod: mod,
            AffineBinaryOpKind.FloorDiv: floor,
            AffineBinaryOpKind.CeilDiv: -(-a // b),
        }
        return found[kind]
    type_, let, m = f.index_type(), f.code.let, f.m
    left, right = f.idx(a), f.idx(b)
    if not known(b):  # a size may turn out to be 0 in code that runs ahead of the loop it belongs to
        right = extreme(f, "SMax", "SGreaterThan", f.index_width, right, f.idx(1))
    remainder, zero = let("SRem", type_, left, right), f.idx(0)
    if kind == AffineBinaryOpKind.Mod:
        negative = let("SLessThan", m.bool(), remainder, zero)
        return let("Select", type_, negative, let("IAdd", type_, remainder, right), remainder)
    quotient = let("SDiv", type_, left, right)
    up = kind == AffineBinaryOpKind.CeilDiv
    move = let("SGreaterThan" if up else "SLessThan", m.bool(), remainder, zero)
    return let("Select", type_, move, let("IAdd", type_, quotient, f.idx(1 if up else -1)), quotient)


def results(f: FunctionEmitter, map_: AffineMap, operands: Sequence[SSAValue]) -> list[Index]:
    """The results of a map: dimensions first, then symbols."""
    given = [f.index(operand) for operand in operands]
    dims, symbols = given[: map_.num_dims], given[map_.num_dims :]
    return [expression(f, expr, dims, symbols) for expr in map_.results]


def _extreme(f: FunctionEmitter, values: list[Index], name: str) -> Index:
    best = values[0]
    for value in values[1:]:
        if known(best) and known(value):
            best = min(best, value) if name == "SMin" else max(best, value)
        else:
            compare = "SLessThan" if name == "SMin" else "SGreaterThan"
            best = extreme(f, name, compare, f.index_width, f.idx(best), f.idx(value))
    return best


def _apply(f: FunctionEmitter, op: Operation) -> None:
    f.define(op.results[0], results(f, affine_map(op), op.operands)[0])


def _min_max(name: str) -> Lowering:
    def lower(f: FunctionEmitter, op: Operation) -> None:
        f.define(op.results[0], _extreme(f, results(f, affine_map(op), op.operands), name))

    return lower


def _for(f: FunctionEmitter, op: Operation) -> None:
    loop = cast(affine.ForOp, op)
    lower = _extreme(f, results(f, affine_map(op, "lowerBoundMap"), loop.lowerBoundOperands), "SMax")
    upper = _extreme(f, results(f, affine_map(op, "upperBoundMap"), loop.upperBoundOperands), "SMin")
    counted(f, op, (lower, upper, integer(op, "step")), list(loop.inits))


def _load(f: FunctionEmitter, op: Operation) -> None:
    memref = f.memref(op.operands[0])
    note_read(f, op, memref)
    f.define(op.results[0], load(f, memref, _indices(f, op, op.operands[1:])))


def _store(f: FunctionEmitter, op: Operation) -> None:
    indices = _indices(f, op, op.operands[2:])
    put(f, f.get(op.operands[0]), f.memref(op.operands[1]), indices)


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
    holds = f.m.truth(True)
    predicate = {
        AffineConstraintKind.eq: "IEqual", AffineConstraintKind.ge: "SGreaterThanEqual",
        AffineConstraintKind.le: "SLessThanEqual",
    }  # fmt: skip
    for constraint in constraints.constraints:
        left = f.idx(expression(f, constraint.lhs, dims, symbols))
        right = f.idx(expression(f, constraint.rhs, dims, symbols))
        test = f.code.let(predicate[constraint.kind], f.m.bool(), left, right)
        holds = f.code.let("LogicalAnd", f.m.bool(), holds, test)
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
        f.define(result, _division(f, AffineBinaryOpKind.Mod, rest, size))
        rest = _division(f, AffineBinaryOpKind.FloorDiv, rest, size)
    f.define(op.results[0], rest)


def _linearize(f: FunctionEmitter, op: Operation) -> None:
    count = integers(op, "operandSegmentSizes")[0]
    total, *others = (f.index(operand) for operand in op.operands[:count])
    for index, size in zip(others, _basis(f, op, op.operands[count:], count), strict=True):
        total = f.add(f.mul(total, size), index)
    f.define(op.results[0], total)


ROWS: dict[str, Lowering] = {
    "affine.delinearize_index": _delinearize,
    "affine.linearize_index": _linearize,
    "affine.apply": _apply,
    "affine.min": _min_max("SMin"),
    "affine.max": _min_max("SMax"),
    "affine.for": _for,
    "affine.parallel": _parallel,
    "affine.if": _if,
    "affine.load": _load,
    "affine.store": _store,
}
