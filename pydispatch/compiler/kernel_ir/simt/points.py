"""scf.parallel, scf.forall, affine.parallel and memref.copy in uniform code: spread over the invocations.

Reductions whose combination may be regrouped are spread too: every invocation combines its points, then the
invocations of a warp by shuffles, then the warps in workgroup memory. Which points meet where depends on the number of
invocations alone. Other reductions run in order, in every invocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import affine, memref, scf
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap

from pydispatch.compiler.kernel_ir.hazards import accesses_of
from pydispatch.compiler.kernel_ir.readers import affine_map, attribute, bound_groups
from pydispatch.compiler.kernel_ir.simt import reduce
from pydispatch.compiler.kernel_ir.simt.build import Build, Index, known
from pydispatch.compiler.kernel_ir.simt.lower import Spreading
from pydispatch.compiler.kernel_ir.simt.ranges import (
    AT_ONCE,
    FEW,
    Range,
    cloned,
    point_of,
    repeats,
    rounds,
    steps,
    total_of,
)
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.scf import ForallOp

Point = Callable[[Build, list[Index]], None]


def spread(s: Spreading, op: Operation, bounds: Sequence[Range], body: Point, times: int = 1) -> None:
    """Writes, in front of `op`, code that runs `body` for the points of this invocation."""
    build = Build(op, op)
    counts = [steps(build, range_) for range_ in bounds]
    total = total_of(build, counts)
    narrow = s.narrow or (isinstance(total, int) and total < FEW)

    def turn(inner: Build, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        body(inner, point_of(inner, bounds, counts, number, narrow))
        return []

    rounds(build, s.own(), total, s.count, times, [], turn)


def points(s: Spreading, op: Operation, ranges: Callable[[], list[Range]]) -> None:
    """A loop over independent points."""
    s.before(op, s.shared(accesses_of(op)))

    block = op.regions[0].blocks[0]

    def body(build: Build, point: list[Index]) -> None:
        cloned(block, build, [build.value(part) for part in point])

    spread(s, op, ranges(), body, repeats(block))
    op.detach()
    op.erase()


def parallel(s: Spreading, op: Operation) -> None:
    loop = cast(scf.ParallelOp, op)
    lists = zip(loop.lowerBound, loop.upperBound, loop.step, strict=True)
    bounds: list[Range] = [(known(low), known(high), known(step)) for low, high, step in lists]
    if not loop.initVals:
        points(s, op, lambda: bounds)
        return
    s.before(op, s.shared(accesses_of(op)))
    if reduce.regroups(loop):
        reduce.tree(s, loop, bounds)


def forall(s: Spreading, op: Operation) -> None:
    loop = cast(ForallOp, op)
    if loop.outputs:
        raise CompileError(
            "scf.forall with shared_outs cannot be compiled into a kernel", location_of(op),
            "its results are tensors: write into memrefs instead",
        )  # fmt: skip

    def number(bound: int | SSAValue) -> Index:
        return bound if isinstance(bound, int) else known(bound)

    sides = [[number(bound) for bound in loop.bounds(which)] for which in ("lower", "upper", "step")]
    points(s, op, lambda: list(zip(*sides, strict=True)))


def affine_parallel(s: Spreading, op: Operation) -> None:
    groups = [*bound_groups(op, "lowerBoundsGroups"), *bound_groups(op, "upperBoundsGroups")]
    if op.results or any(size != 1 for size in groups):
        raise CompileError(
            "affine.parallel with reductions or grouped bounds cannot be compiled into a kernel", location_of(op)
        )
    lower, upper = affine_map(op, "lowerBoundsMap"), affine_map(op, "upperBoundsMap")
    split = lower.num_dims + lower.num_symbols

    def ranges() -> list[Range]:
        build = Build(op, op)
        lows, highs = _applied(build, lower, op.operands[:split]), _applied(build, upper, op.operands[split:])
        attr = attribute(op, "steps")
        assert isinstance(attr, ArrayAttr)
        widths = [int(step.value.data) for step in attr.data if isinstance(step, IntegerAttr)]
        return list(zip(lows, highs, widths, strict=True))

    points(s, op, ranges)


def _applied(build: Build, map_: AffineMap, operands: Sequence[SSAValue]) -> list[Index]:
    found: list[Index] = []
    for expr in map_.results:
        if isinstance(expr, AffineConstantExpr):
            found.append(expr.value)
            continue
        single = AffineMapAttr(AffineMap(map_.num_dims, map_.num_symbols, (expr,)))
        found.append(build.let(affine.ApplyOp(list(operands), single)))
    return found


def copy(s: Spreading, op: Operation) -> None:
    """memref.copy: elementwise, by all invocations."""
    source, target = op.operands
    if not s.keys(op, target):
        s.load(op)
        return  # every invocation has its own
    s.keys(op, source)
    s.before(op, s.shared(accesses_of(op)))
    type_ = target.type
    assert isinstance(type_, MemRefType)
    build = Build(op, op)
    bounds: list[Range] = [(0, _size(build, source, target, dim), 1) for dim in range(type_.get_num_dims())]

    def body(inner: Build, point: list[Index]) -> None:
        where = [inner.value(part) for part in point]
        inner.op(memref.StoreOp.get(inner.let(memref.LoadOp.get(source, where)), target, where))

    spread(s, op, bounds, body, AT_ONCE)
    op.detach()
    op.erase()


def _size(build: Build, source: SSAValue, target: SSAValue, dim: int) -> Index:
    for value in (source, target):
        assert isinstance(value.type, MemRefType)
        if value.type.get_shape()[dim] >= 0:
            return value.type.get_shape()[dim]
    return build.let(memref.DimOp.from_source_and_index(source, build.value(dim)))
