"""Lowering of scf.parallel, scf.forall and memref.copy: distributed over invocations in uniform code, else plain loops.

Reductions whose values may be combined in any order are distributed, too (reduce.py). Other reductions run in order, in
every invocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Index, constant_or_value, replace
from pydispatch.compiler.kernel_ir.expand.views import strided
from pydispatch.compiler.kernel_ir.hazards import accesses_of
from pydispatch.compiler.kernel_ir.readers import segments
from pydispatch.compiler.kernel_ir.simt import reduce
from pydispatch.compiler.kernel_ir.simt.ranges import AT_ONCE, Range, distribute, inline_block, unroll_factor
from pydispatch.compiler.kernel_ir.simt.workgroup import Workgroup
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.dialects.scf.parallel import ForallOp


def bounds_of(op: Operation) -> list[Range]:
    """Return (lower bound, upper bound, step) of each dimension of a parallel loop, an `scf.parallel` or `scf.forall`.

    Raises:
        CompileError: An `scf.forall` returns tensors.
    """
    if isinstance(op, scf.ParallelOp):
        lower, upper, step, _ = segments(op, 4)
        return [
            (constant_or_value(low), constant_or_value(high), constant_or_value(distance))
            for low, high, distance in zip(lower, upper, step, strict=True)
        ]
    loop = cast(ForallOp, op)  # its bounds are ints or values, by the name of the bound
    if loop.outputs:
        raise CompileError(
            "scf.forall with shared_outs cannot be compiled into a kernel", location_of(op),
            "its results are tensors: write into memrefs instead",
        )  # fmt: skip

    def as_index(bound: int | SSAValue) -> Index:
        """Return a bound as an int if it is known while compiling."""
        return bound if isinstance(bound, int) else constant_or_value(bound)

    lowers, uppers, steps = ([as_index(bound) for bound in loop.bounds(name)] for name in ("lower", "upper", "step"))
    return list(zip(lowers, uppers, steps, strict=True))


def parallel(workgroup: Workgroup, op: Operation) -> None:
    """Lower a parallel loop in uniform code: distribute its iterations over the invocations of the workgroup.

    Uniform code is outside parallel loops; every invocation executes it. With 64 invocations, a loop over i in 0..256
    becomes `for i = number of the invocation to 256 step 64`, or an unrolled form of it.
    """
    # Insert a barrier before the loop if its accesses to shared memory conflict with earlier ones.
    workgroup.synchronize_before(op, workgroup.shared(accesses_of(op)))
    if isinstance(op, scf.ParallelOp) and op.results:
        if reduce.can_distribute(op):
            reduce.distribute_reduction(workgroup, op, bounds_of(op))
        # Other reductions stay parallel loops here. `in_order` later makes them sequential: every invocation then runs
        # all iterations.
        return
    block = op.regions[0].block

    def element(build: Build, indices: list[SSAValue], carried: list[SSAValue], *, may_move: bool) -> list[SSAValue]:
        """Insert one iteration of the loop with the body `block`, and return no carried values.

        may_move: whether the body is inlined for the last time, so that its operations are moved instead of copied.
        """
        inline_block(block, build, indices, may_move=may_move)
        return []

    distribute(workgroup, op, bounds_of(op), carried=[], element=element, unroll=unroll_factor(workgroup, block))
    replace(op, ())


def copy(workgroup: Workgroup, op: Operation) -> None:
    """Lower a `memref.copy` in uniform code: distribute its elements over the invocations of the workgroup."""
    source, target = op.operands
    # A private target: every invocation copies to its own. For barriers, the copy is a load of its first operand.
    if not workgroup.shared_storage(op, target):
        workgroup.load(op)
        return
    workgroup.shared_storage(op, source)  # called for its CompileError: the source may be private or shared

    def element(build: Build, indices: list[SSAValue], carried: list[SSAValue], *, may_move: bool) -> list[SSAValue]:
        """Insert the copy of one element; `carried` is empty, and `may_move` is not needed, as there is no body."""
        return _element(build, source, target, indices)

    workgroup.synchronize_before(op, workgroup.shared(accesses_of(op)))
    distribute(workgroup, op, _ranges_of_copy(op), carried=[], element=element, unroll=AT_ONCE)
    replace(op, ())


def _element(build: Build, source: SSAValue, target: SSAValue, indices: Sequence[SSAValue]) -> list[SSAValue]:
    """Emit the copy of one element from `source` to `target`; return the carried values, of which there are none."""
    type_ = cast(MemRefType, source.type).element_type
    value = build.let(memref.LoadOp.create(operands=[source, *indices], result_types=[type_]))
    build.op(memref.StoreOp.create(operands=[value, target, *indices]))
    return []


def _ranges_of_copy(op: Operation) -> list[Range]:
    """Return (lower bound, upper bound, step) of each dimension of a `memref.copy`."""
    ranges: list[Range] = []
    # Source and target have equal sizes, of which one may be static and the other dynamic: prefer the static one.
    for sizes in zip(*(strided(op, operand).sizes for operand in op.operands), strict=True):
        static = [size for size in sizes if isinstance(size, int)]
        ranges.append((0, static[0] if static else sizes[0], 1))
    return ranges


Iteration = Callable[[Build, list[SSAValue], list[SSAValue]], list[SSAValue]]
"""Function that inserts an iteration: (builder, indices, carried values) -> new carried values."""


def nest(
    build: Build, bounds: Sequence[Range], carried: list[SSAValue], body: Iteration, outer: Sequence[SSAValue] = ()
) -> list[SSAValue]:
    """Insert sequential loops over `bounds` around `body`, and return the carried values after them.

    A range that is known to have one iteration becomes no loop.

    Args:
        build: The builder.
        bounds: Range of each loop, outermost first.
        carried: The initial carried values.
        body: Emits an iteration from a builder, the indices and the carried values; returns the next ones.
        outer: Indices of enclosing loops, which `body` gets before those of `bounds`.
    """
    if not bounds:
        return body(build, list(outer), carried)
    lower, upper, step = bounds[0]
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        has_one_iteration = 0 < upper - lower <= step
        if has_one_iteration:
            return nest(build, bounds[1:], carried, body, [*outer, build.value(lower)])

    def inner_loops(inner: Build, counter: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
        """Emit the loops over the other ranges as the body of the loop over the first one, whose index is `counter`."""
        return nest(inner, bounds[1:], values, body, [*outer, counter])

    return build.loop(lower, upper, step, carried, inner_loops)


def in_order(workgroup: Workgroup, op: Operation) -> None:
    """Rewrite a parallel loop or a `memref.copy` into sequential loops, all of which one invocation runs.

    A loop over (i, j) becomes a loop over i around a loop over j. The loops of a reduction carry its results so far.
    """
    if op.name == "memref.copy":
        _copy_in_order(workgroup, op)
        return
    # A parallel loop, perhaps a reduction, whose loops carry the values so far.
    block, inits = op.regions[0].blocks[0], list[SSAValue]()
    if isinstance(op, scf.ParallelOp) and op.initVals:
        inits = list(op.initVals)
        reduce.check_result_count(op)

    def body(inner: Build, indices: list[SSAValue], carried: list[SSAValue]) -> list[SSAValue]:
        """Emit an iteration: inline the loop's body, `block`, and combine its values with the carried ones.

        The regions of the terminator, an `scf.reduce`, combine them, one region for each value.
        """
        yielded, end = inline_block(block, inner, indices, may_move=True), block.last_op
        assert end is not None
        pairs = zip(end.regions, carried, yielded, strict=True) if carried else ()
        return [inline_block(region.blocks[0], inner, (left, right), may_move=True)[0] for region, left, right in pairs]

    replace(op, nest(workgroup.build(op), bounds_of(op), inits, body))


def _copy_in_order(workgroup: Workgroup, op: Operation) -> None:
    """Rewrite a `memref.copy` into sequential loops over the elements."""
    source, target = op.operands

    def copy_element(inner: Build, indices: list[SSAValue], carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the copy of the element at `indices` from `source` to `target`; `carried` is empty."""
        return _element(inner, source, target, indices)

    nest(workgroup.build(op), _ranges_of_copy(op), carried=[], body=copy_element)
    replace(op, ())
