"""Expansion of affine operations: maps become index arithmetic; loops, branches and accesses become scf and memref."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineSetAttr, ArrayAttr, IntegerAttr
from xdsl.ir import Operation, Region, SSAValue
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

from pydispatch.compiler.kernel_ir.build import TRUTH, Build, Index, constant_or_value
from pydispatch.compiler.kernel_ir.expand.rule import Rule
from pydispatch.compiler.kernel_ir.readers import affine_map, attribute, bound_groups, integer, integers
from pydispatch.errors import CompileError

if TYPE_CHECKING:
    from xdsl.dialects import affine

FLOOR, CEIL, MOD = AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.CeilDiv, AffineBinaryOpKind.Mod
"""Divisions of affine expressions: quotients rounded down and up, and the remainder that is not negative."""


def expression(build: Build, expr: AffineExpr, dims: Sequence[Index], symbols: Sequence[Index]) -> Index:
    """Insert the arithmetic of an affine expression, folded where operands are constant, and return the value.

    dims, symbols: values of the dimensions and symbols of the map that has the expression.
    """
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    if isinstance(expr, AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, AffineSymExpr):
        return symbols[expr.position]
    assert isinstance(expr, AffineBinaryOpExpr)
    a, b = (expression(build, part, dims, symbols) for part in (expr.lhs, expr.rhs))
    if expr.kind == AffineBinaryOpKind.Add:
        return build.plus(a, b)
    if expr.kind == AffineBinaryOpKind.Mul:
        return build.times(a, b)
    return _division(build, expr.kind, a, b)  # floordiv, ceildiv or mod


def _division(build: Build, kind: AffineBinaryOpKind, lhs: Index, rhs: Index) -> Index:
    """Insert lhs / rhs rounded down (FLOOR) or up (CEIL), or the nonnegative remainder (MOD), and return the value.

    Raises CompileError for a constant divisor that is not positive. A dynamic divisor below 1 counts as 1.
    """
    if isinstance(rhs, int):
        if rhs <= 0:
            raise CompileError(f"affine division by {rhs}: divisors are positive")
        if isinstance(lhs, int):
            return {MOD: lhs % rhs, FLOOR: lhs // rhs, CEIL: -(-lhs // rhs)}[kind]
    else:  # avoids a trap: a dynamic size may be 0 in code that was hoisted before the loop over it
        rhs = build.most(rhs, 1)
    if kind != MOD:
        return build.binary(arith.FloorDivSIOp if kind == FLOOR else arith.CeilDivSIOp, lhs, rhs)
    remainder = build.binary(arith.RemSIOp, lhs, rhs)
    return build.select(build.compare("slt", remainder, 0), build.plus(remainder, rhs), remainder)


def _split(operands: Sequence[SSAValue], dims: int) -> tuple[list[Index], list[Index]]:
    """Return the operands of a map or set as (dimensions, symbols); an operand that is a constant becomes an int.

    dims: number of dimensions, which are the first operands.
    """
    indices = [constant_or_value(operand) for operand in operands]
    return indices[:dims], indices[dims:]


def _results(build: Build, map_: AffineMap, operands: Sequence[SSAValue]) -> list[Index]:
    """Insert the arithmetic of all results of a map, and return them."""
    dims, symbols = _split(operands, map_.num_dims)
    return [expression(build, expr, dims, symbols) for expr in map_.results]


def _least(build: Build, values: Sequence[Index]) -> Index:
    """Emit the minimum of at least one index."""
    best = values[0]
    for value in values[1:]:
        best = build.least(best, value)
    return best


def _most(build: Build, values: Sequence[Index]) -> Index:
    """Emit the maximum of at least one index."""
    best = values[0]
    for value in values[1:]:
        best = build.most(best, value)
    return best


def _apply(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.apply`."""
    return [build.value(_results(build, affine_map(op), op.operands)[0])]


def _min(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.min`."""
    return [build.value(_least(build, _results(build, affine_map(op), op.operands)))]


def _max(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.max`."""
    return [build.value(_most(build, _results(build, affine_map(op), op.operands)))]


def _moved(region: Region, terminator: type[Operation]) -> Region:
    """Move the blocks of a region into a new region, and return it. Each `affine.yield` becomes a `terminator`."""
    moved = Region()
    region.move_blocks(moved)
    for block in moved.blocks:
        old = block.last_op
        if old is not None and old.name == "affine.yield":
            new = terminator.create(operands=list(old.operands))
            new.location = old.location
            block.insert_op_before(new, old)
            old.detach()
            old.erase()
    return moved


def _for(build: Build, op: Operation) -> list[SSAValue]:
    """Expand an `affine.for`: the lower bound is the maximum of its map's results, the upper bound the minimum."""
    loop = cast("affine.ForOp", op)
    lower = _most(build, _results(build, affine_map(op, "lowerBoundMap"), loop.lowerBoundOperands))
    upper = _least(build, _results(build, affine_map(op, "upperBoundMap"), loop.upperBoundOperands))
    bounds = [build.value(part) for part in (lower, upper, integer(op, "step"))]
    lowered = scf.ForOp.create(
        operands=[*bounds, *loop.inits],
        result_types=list(op.result_types),
        regions=[_moved(op.regions[0], scf.YieldOp)],
    )
    return list(build.op(lowered).results)


def _parallel(build: Build, op: Operation) -> list[SSAValue]:
    """Expand an `affine.parallel` without results to an `scf.parallel`.

    Raises:
        CompileError: It reduces, or a bound is a minimum or maximum of several map results (a group of several).
    """
    # For each dimension and side, the number of map results that bound it.
    groups = [*bound_groups(op, "lowerBoundsGroups"), *bound_groups(op, "upperBoundsGroups")]
    if op.results or any(size != 1 for size in groups):
        raise CompileError("affine.parallel with reductions or grouped bounds cannot be compiled into a kernel")
    lower_map, upper_map = affine_map(op, "lowerBoundsMap"), affine_map(op, "upperBoundsMap")
    # The operands of the lower map are followed by those of the upper map.
    lower_count = lower_map.num_dims + lower_map.num_symbols
    lower_operands, upper_operands = op.operands[:lower_count], op.operands[lower_count:]
    steps = attribute(op, "steps")
    assert isinstance(steps, ArrayAttr)
    step_sizes = [int(step.value.data) for step in steps.data if isinstance(step, IntegerAttr)]
    # The bounds and steps of all dimensions, as values.
    bounds = (_results(build, lower_map, lower_operands), _results(build, upper_map, upper_operands), step_sizes)
    lower, upper, step = ([build.value(index) for index in indices] for indices in bounds)
    build.op(scf.ParallelOp(lower, upper, step, _moved(op.regions[0], scf.ReduceOp)))
    return []


def _if(build: Build, op: Operation) -> list[SSAValue]:
    """Expand an `affine.if`: the condition is the conjunction of its constraints."""
    condition = attribute(op, "condition")
    assert isinstance(condition, AffineSetAttr)
    constraints = condition.data
    dims, symbols = _split(op.operands, constraints.num_dims)
    predicates = {AffineConstraintKind.eq: "eq", AffineConstraintKind.ge: "sge", AffineConstraintKind.le: "sle"}
    holds: SSAValue | None = None
    for constraint in constraints.constraints:
        left, right = (expression(build, side, dims, symbols) for side in (constraint.lhs, constraint.rhs))
        test = build.compare(predicates[constraint.kind], left, right)
        holds = test if holds is None else build.let(arith.AndIOp.create(operands=[holds, test], result_types=[TRUTH]))
    if holds is None:  # a set without constraints
        holds = build.entry.constant(1, TRUTH)
    regions = [_moved(region, scf.YieldOp) for region in op.regions]
    branch = scf.IfOp.create(operands=[holds], result_types=list(op.result_types), regions=regions)
    return list(build.op(branch).results)


def _indices(build: Build, op: Operation, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """Return the indices of a load or store: the results of its map for `operands`, or these if it has no map."""
    if attribute(op, "map") is None:
        return list(operands)
    return [build.value(index) for index in _results(build, affine_map(op), operands)]


def _load(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.load`."""
    operands = [op.operands[0], *_indices(build, op, op.operands[1:])]
    return [build.let(memref.LoadOp.create(operands=operands, result_types=[op.results[0].type]))]


def _store(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.store`."""
    build.op(memref.StoreOp.create(operands=[*op.operands[:2], *_indices(build, op, op.operands[2:])]))
    return []


def _inner_sizes(op: Operation, operands: Sequence[SSAValue], count: int) -> list[Index]:
    """Return the sizes of all dimensions of a linearization but the outermost, which no index depends on.

    Sizes that are constants are ints.

    Args:
        op: The operation, whose `static_basis` has the sizes, perhaps without the outermost one.
        operands: Its dynamic sizes.
        count: Number of dimensions.
    """
    dynamic = iter(operands)
    sizes = [
        constant_or_value(next(dynamic)) if size == DYNAMIC_INDEX else size for size in integers(op, "static_basis")
    ]
    return sizes[1:] if len(sizes) == count else sizes


def _delinearize(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.delinearize_index`: the remainder by each size, from the innermost one, is an index."""
    remaining = constant_or_value(op.operands[0])
    indices: list[Index] = []
    # One division for each dimension but the outermost, whose index is the last quotient.
    for size in reversed(_inner_sizes(op, op.operands[1:], count=len(op.results))):
        indices.insert(0, _division(build, MOD, remaining, size))
        remaining = _division(build, FLOOR, remaining, size)
    return [build.value(index) for index in (remaining, *indices)]


def _linearize(build: Build, op: Operation) -> list[SSAValue]:
    """Expand `affine.linearize_index`: (i0 * size1 + i1) * size2 + i2."""
    count = integers(op, "operandSegmentSizes")[0]
    total, *others = (constant_or_value(operand) for operand in op.operands[:count])
    for index, size in zip(others, _inner_sizes(op, op.operands[count:], count=count), strict=True):
        total = build.plus(build.times(total, size), index)
    return [build.value(total)]


RULES: dict[str, Rule] = {
    "affine.delinearize_index": _delinearize,
    "affine.linearize_index": _linearize,
    "affine.apply": _apply,
    "affine.min": _min,
    "affine.max": _max,
    "affine.for": _for,
    "affine.parallel": _parallel,
    "affine.if": _if,
    "affine.load": _load,
    "affine.store": _store,
}
"""Name of an operation → function that inserts its expansion and returns the values that replace its results."""
