"""Reductions outside parallel loops on GPUs: their steps are distributed over the invocations of a workgroup.

The combining operation is split from the body, so that the loop becomes `scf.parallel` with `scf.reduce`; the emitter
combines the partial results of the invocations. Only reductions with one combining operation per result qualify.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import are_sums, body_at, initial_values, loop_sizes
from pydispatch.compiler.kernels.ops.sums import with_fresh_accumulators
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.op_info import Grouping, info_of
from pydispatch.ir.structured import Structured

BLOCK_STEPS = 1 << 18
"""Steps of a float sum between two combinations of the invocations' partial sums; it bounds the rounding error."""

FEWEST_DISTRIBUTED_STEPS = 32
"""Steps below which a single invocation computes a reduction: synchronization would cost more."""


def combiners(generic: Structured, reassociate: bool) -> list[Operation] | None:
    """Return, for each result of a reduction, the operation of the body that combines it with the value of a step.

    For the body `acc + a * b` it is the addition. Return None if a result is combined in another way, as in `acc - a`
    or `a * (acc + b)`, or if regrouping the steps would change it and `reassociate` is false, as for a float sum.
    """
    terminator = generic.block.last_op
    assert terminator is not None
    ops: list[Operation] = []
    for index, value in enumerate(terminator.operands):
        accumulator = generic.block.args[len(generic.inputs) + index]
        if not isinstance(value, OpResult) or value.op.parent_block() is not generic.block:
            return None
        op = value.op
        grouping = info_of(op).grouping
        if grouping is Grouping.FIXED or (grouping is Grouping.ROUNDED and not reassociate):
            return None
        reads_accumulator_once = len(list(accumulator.uses)) == 1 and accumulator in op.operands
        is_only_yielded = len(list(value.uses)) == 1
        if not reads_accumulator_once or not is_only_yielded:
            return None
        ops.append(op)
    return ops


def distributed_reduction(
    elements: Elements, build: Builder, generic: Structured, point: Sequence[Index | None]
) -> list[SSAValue] | None:
    """Emit the reduction at `point` as a loop over invocations, and return its results.

    Return None, and emit nothing, in three cases: `build` is inside of a parallel loop, the reduction has few steps, or
    a result is not combined by a single operation that may be regrouped, such as an addition. The caller then emits a
    sequential loop. In kernels for GPUs, `Elements.distribute` is this function.

    A long float sum is cut into blocks of its outermost reduced loop, which bounds the rounding error. For 1,000,000
    elements, a sequential loop visits blocks of `BLOCK_STEPS` = 262,144 steps. Each block is a loop over invocations,
    whose result is added to the sum of the blocks.

    Args:
        elements: Tensors of the kernel.
        build: Receives the loops.
        generic: The reduction.
        point: Index of each loop of the reduction; None for reduced ones.
    """
    if build.in_parallel or combiners(generic, elements.reassociate) is None:
        return None
    sizes = loop_sizes(elements, generic)
    if not _has_enough_steps(generic, sizes):
        return None
    indices = [0 if index is None else index for index in point]
    initial = initial_values(elements, build, generic, indices)
    return _DistributedReduction(elements, generic, indices, sizes).emit(build, initial)


def _has_enough_steps(generic: Structured, sizes: Sequence[Index]) -> bool:
    """Return whether a reduction has enough steps to distribute them; a dynamic number of steps is taken to be enough.

    `sizes` has the size of each loop of the reduction.
    """
    # A reduced loop, which indexes no result, may have the kind "parallel" only if it has one iteration. False here
    # lets `reduce_at` emit the reduction without distribution, which checks the number of iterations.
    if any(generic.iterators[dim] == "parallel" for dim in generic.reduced_loops):
        return False
    extents = [sizes[dim] for dim in generic.reduced_loops]
    static_extents = [n for n in extents if isinstance(n, int)]
    return len(static_extents) < len(extents) or prod(static_extents) >= FEWEST_DISTRIBUTED_STEPS


def _steps_per_block(extents: Sequence[Index]) -> int:
    """Return the iterations of the outermost reduced loop in a block of a float sum: about `BLOCK_STEPS` steps in all.

    With blocks of 262,144 steps, a reduction over 10000 x 1024 elements has 256 iterations per block. Return 0, for no
    blocks, if an inner loop has a dynamic size. `extents` has the size of each reduced loop, outermost first.
    """
    static_inner_extents = [n for n in extents[1:] if isinstance(n, int)]
    if len(static_inner_extents) < len(extents) - 1:
        return 0
    return max(1, BLOCK_STEPS // max(1, prod(static_inner_extents)))


@dataclass(frozen=True)
class _DistributedReduction:
    """Emitter of a reduction whose steps are distributed over the invocations of a workgroup.

    Attributes:
        elements: Tensors of the kernel.
        generic: The reduction.
        indices: Index of each of its loops; the indices of reduced loops are placeholders.
        sizes: Size of each of its loops.
    """

    elements: Elements
    generic: Structured
    indices: Sequence[Index]
    sizes: Sequence[Index]

    def emit(self, build: Builder, initial: list[SSAValue]) -> list[SSAValue]:
        """Emit one loop over all steps, or a loop over blocks of steps, and return the results.

        `initial` are the initial values of the results.
        """
        extents = [self.sizes[dim] for dim in self.generic.reduced_loops]
        is_sum = are_sums(self.elements, self.generic)  # of floats, for each result
        block_steps = _steps_per_block(extents) if any(is_sum) else 0
        end = extents[0]  # of the outermost reduced loop, which is cut into blocks
        has_one_block = isinstance(end, int) and end <= block_steps
        if not block_steps or has_one_block:
            return self._emit_range(build, 0, end, initial)

        def reduce_block(inner: Builder, low: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the reduction over the block from `low` on, and return the carried values after it.

            Float sums of a block start at -0, and are then added to `carried`. Other results continue from `carried`.
            """
            high = inner.least(inner.plus(low, block_steps), end)
            return with_fresh_accumulators(inner, carried, is_sum, partial(self._emit_range, inner, low, high))

        return build.loop(0, end, initial, reduce_block, step=block_steps, index_below=end)

    def _emit_range(self, build: Builder, low: Index, high: Index, initial: list[SSAValue]) -> list[SSAValue]:
        """Emit one `scf.parallel` with an `scf.reduce` over a range of the outermost reduced loop; return its results.

        The other reduced loops run over all indices. The sum of x[i, k] over k from 0 to n, with the initial value
        %init, becomes

            %sum = scf.parallel (%k) = (%c0) to (%n) step (%c1) init (%init) -> f32 {
              %v = memref.load %x[%i, %k]
              scf.reduce(%v) { ^bb0(%a, %b): %s = arith.addf %a, %b; scf.reduce.return %s }
            }
        """
        dims = self.generic.reduced_loops
        block = Block(arg_types=[IndexType() for _ in dims])
        inner = build.nested(block)
        inner.in_parallel = True
        point = list(self.indices)
        for dim, argument in zip(dims, block.args, strict=True):
            point[dim] = inner.assume_counts_to(argument, self.sizes[dim])
        # The body is emitted with the accumulators as temporary arguments. `_split_combinations` then removes the
        # combining operations, such as additions, and with them all uses of these arguments.
        accumulators = [block.insert_arg(value.type, len(block.args)) for value in initial]
        results = body_at(self.elements, inner, self.generic, point, accumulators)
        inner.add(_split_combinations(block, results, accumulators))
        zero, one = build.index(0), build.index(1)
        lows = [build.value(low), *[zero] * (len(dims) - 1)]
        highs = [build.value(size) for size in (high, *(self.sizes[dim] for dim in dims[1:]))]
        loop = scf.ParallelOp(lows, highs, [one] * len(dims), Region(block), initial)
        build.add(loop)
        return list(loop.results)


def _split_combinations(
    block: Block, results: Sequence[SSAValue], accumulators: Sequence[BlockArgument]
) -> scf.ReduceOp:
    """Remove the combining operation of each result from a body, and return the `scf.reduce` that combines instead.

    The body `%p = mulf %a, %b; %s = addf %acc, %p` with the result %s becomes `%p = mulf %a, %b`, and the operation is
    `scf.reduce(%p)` with a region that adds two values.

    Args:
        block: The body, whose arguments `accumulators` are removed, too.
        results: Results of the combining operations, such as the addition of an accumulator and a product.
        accumulators: For each result, the operand of its combining operation that has the result of earlier steps.
    """
    values, regions = [], []
    for result, accumulator in zip(results, accumulators, strict=True):
        assert isinstance(result, OpResult)
        combine = result.op
        values.append(next(o for o in combine.operands if o is not accumulator))
        regions.append(_combiner(combine, accumulator.type))
        erase_op(combine, safe_erase=False)
    for accumulator in reversed(accumulators):
        block.erase_arg(accumulator, safe_erase=False)
    return scf.ReduceOp(values, regions)


def _combiner(op: Operation, type_: Attribute) -> Region:
    """Return the region of an `scf.reduce` that combines two values with the same operation as `op`."""
    block = Block(arg_types=[type_, type_])
    combine = type(op).create(operands=list(block.args), result_types=[type_], properties=dict(op.properties))
    block.add_ops([combine, scf.ReduceReturnOp(combine.results[0])])
    return Region(block)
