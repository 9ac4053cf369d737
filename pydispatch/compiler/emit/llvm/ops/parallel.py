"""Lowering of scf.parallel and scf.forall on the CPU: sequential loops with reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.llvm.extremes import Order, reduction_order
from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.loops import Loop, Range, is_rolled_in_products, is_vectorised, loop_metadata, nest
from pydispatch.compiler.emit.llvm.types import scalar
from pydispatch.compiler.emit.llvm.values import Index
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.readers import attribute
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.scf.parallel import ForallOp
from pydispatch.ir.op_info import Cost, info_of
from pydispatch.ir.values import constant_index

_MANY_STEPS = 64
"""Minimum steps of a loop that keep the loop around it rolled in functions with matrix products: more than a register
block has columns. If it is larger, LLVM unrolls the loops around those that pack rows, which multiplies
the code. If smaller, the operations after a register block remain a loop over its rows, which is up to 3 % slower (AMD
EPYC Zen 4)."""


def _independent(emitter: FunctionEmitter, op: Operation, bounds: list[Range]) -> None:
    """Emit the loop nest of an `scf.parallel` without reductions; LLVM may assume that iterations of its innermost loop
    are independent.

    bounds: for each dimension its lower bound, upper bound and step.
    """
    block = op.regions[0].blocks[0]

    def body(indices: list[str]) -> None:
        """Emit an iteration of `op` at these indices, the arguments of its `block`."""
        for argument, value in zip(block.args, indices, strict=True):
            emitter.define(argument, value)
        emitter.region(op.regions[0], leave=lambda terminator: None)  # the end of an iteration needs no code

    # Functions such as exp are expensive: a loop that computes them is vectorized even if it has few steps.
    computes_functions = any(info_of(inner).cost is Cost.FUNCTION for inner in walk(op))
    # In functions with matrix products, long inner loops fill or pack operands. The loop around them stays rolled:
    # copies would multiply the code.
    has_long_inner_loop = any(map(_has_many_steps, walk(block)))
    nest(
        emitter,
        bounds,
        body,
        is_parallel=True,
        computes_functions=computes_functions,
        lanes=_lanes(emitter, op),  # 0, so that LLVM chooses, for most loops
        keep_rolled=is_rolled_in_products(emitter, op) and has_long_inner_loop,
    )


def _has_many_steps(op: Operation) -> bool:
    """Return whether an operation is a parallel loop with an innermost range of at least _MANY_STEPS or dynamic.

    Copies of such a loop cost more to compile than they save at run time.
    """
    if not isinstance(op, scf.ParallelOp):
        return False
    lower, upper = constant_index(op.lowerBound[-1]), constant_index(op.upperBound[-1])
    return lower is None or upper is None or upper - lower >= _MANY_STEPS


def _lanes(emitter: FunctionEmitter, op: Operation) -> int:
    """Return the number of lanes of the vectors that all iterations of a loop become; 0 if LLVM chooses.

    Such a loop has the attribute WHOLE_VECTORS; its static upper bound is its number of iterations.
    """
    loop = cast(scf.ParallelOp, op)
    if attribute(op, WHOLE_VECTORS) is None:
        return 0
    length = emitter.index(loop.upperBound[0])
    assert isinstance(length, int)
    return length


def _parallel(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.parallel`, with or without a reduction."""
    loop = cast(scf.ParallelOp, op)
    bounds: list[Range] = [
        (emitter.index(lower), emitter.index(upper), emitter.index(step))
        for lower, upper, step in zip(loop.lowerBound, loop.upperBound, loop.step, strict=True)
    ]
    if loop.initVals:
        _reduce(emitter, loop, bounds)
    else:
        _independent(emitter, op, bounds)


def _reduce(emitter: FunctionEmitter, loop: scf.ParallelOp, bounds: list[Range]) -> None:
    """Emit sequential loops that carry the values of a reduction, and define its results.

    Sequential loops combine values in a fixed order, so that results do not depend on the machine.
    """
    reduce_op = loop.body.blocks[0].last_op
    if reduce_op is None or len(reduce_op.regions) != len(loop.initVals):
        combined = len(reduce_op.regions) if reduce_op else 0
        raise emitter.error(f"scf.reduce combines {combined} values, the loop carries {len(loop.initVals)}")
    is_long = is_vectorised(emitter, bounds[-1])
    # A result with an order is a float maximum or minimum, which a long loop carries as an integer, since it is faster.
    orders = [reduction_order(emitter, region) if is_long else None for region in reduce_op.regions]
    types = [scalar(value.type) if order is None else order.integer
             for value, order in zip(loop.initVals, orders, strict=True)]  # fmt: skip
    starts = [emitter.get(value) if order is None else order.integer_of(emitter, emitter.get(value))
              for value, order in zip(loop.initVals, orders, strict=True)]  # fmt: skip
    reduction = _Reduction(emitter, loop, bounds, orders, types, is_long)
    for result, value, order in zip(loop.results, reduction.emit_loops(starts), orders, strict=True):
        emitter.define(result, value if order is None else order.float_of(emitter, value))


@dataclass(frozen=True)
class _Reduction:
    """Reduction that becomes sequential loops, which carry one value for each of its results."""

    emitter: FunctionEmitter
    loop: scf.ParallelOp
    bounds: list[Range]
    """Range of each dimension, the innermost last."""
    orders: list[Order | None]
    """For each result, the Order that represents its floats by integers, since an integer maximum or minimum is faster
    than one of floats; None if the loops carry the value itself."""
    types: list[str]
    """LLVM type of each carried value."""
    is_long: bool
    """Whether the innermost loop has enough iterations for LLVM to vectorize it. LLVM must not unroll such a loop: it
    does not vectorize a loop that it has unrolled completely."""

    def emit_loops(self, carried: list[str], depth: int = 0) -> list[str]:
        """Emit the loop of dimension `depth` with the loops inside it; return the carried values after it.

        `carried` are the carried values before it.
        """
        emitter, loop = self.emitter, self.loop
        if depth == len(self.bounds):
            return _iteration(emitter, loop, carried, self.orders)
        llvm_loop = Loop(emitter, self.bounds[depth])
        llvm_loop.begin()
        phis = [emitter.body.phi(type_) for type_ in self.types]
        for phi, value in zip(phis, carried, strict=True):
            phi.incoming.append((value, llvm_loop.before))
        llvm_loop.enter()
        emitter.define(loop.body.blocks[0].args[depth], llvm_loop.counter)
        next_values = self.emit_loops([phi.name for phi in phis], depth + 1)
        for phi, value in zip(phis, next_values, strict=True):
            phi.incoming.append((value, emitter.body.label))
        is_innermost = depth == len(self.bounds) - 1
        keep_rolled = self.is_long and is_innermost  # LLVM does not vectorize a loop that it unrolled completely
        llvm_loop.end(loop_metadata(emitter, loop.results, keep_rolled=keep_rolled, lanes=_lanes(emitter, loop)))
        return [phi.name for phi in phis]


def _iteration(
    emitter: FunctionEmitter, loop: scf.ParallelOp, carried: list[str], orders: Sequence[Order | None]
) -> list[str]:
    """Emit the body of a reduction once, and return its values combined with `carried`, the values so far.

    `orders` has, for each value, None, or the Order of a float maximum or minimum: then the carried value is an integer
    that represents the float, since a maximum or minimum of integers is faster.
    """
    combined: list[str] = []

    def leave(terminator: Operation) -> None:
        """Emit the combination of each carried value with the value of the iteration, and collect it in `combined`.

        A region of the terminator (`scf.reduce`) computes it. For a value with an Order, which represents floats by
        integers of the same order, an integer maximum or minimum replaces the region.
        """
        for region, value, operand, order in zip(terminator.regions, carried, terminator.operands, orders, strict=True):
            left, right = region.blocks[0].args
            emitter.define(left, value)
            emitter.define(right, emitter.get(operand))
            if order is None:
                emitter.region(region, lambda end: combined.append(emitter.get(end.operands[0])))
            else:
                # The operands of `order.combine`, the region's only operation, are `left`, which is already an integer,
                # and `right`, a float that emit_step() converts.
                combined.append(order.emit_step(emitter))

    emitter.region(loop.body, leave)
    return combined


def _forall(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `scf.forall` without results."""
    loop = cast(ForallOp, op)
    if loop.outputs:
        raise emitter.error(
            "scf.forall with shared_outs cannot be compiled into a kernel",
            "its results are tensors: write into memrefs instead",
        )

    def as_index(bound: int | SSAValue) -> Index:
        """Return a bound as an int if it is known while compiling, else as an index of LLVM."""
        return bound if isinstance(bound, int) else emitter.index(bound)

    # The lower bounds of all dimensions, the upper bounds and the steps.
    bounds = [[as_index(bound) for bound in loop.bounds(kind)] for kind in ("lower", "upper", "step")]
    _independent(emitter, op, list(zip(*bounds, strict=True)))


ROWS: dict[str, Lowering] = {"scf.parallel": _parallel, "scf.forall": _forall}
"""Name of an operation → function that emits LLVM IR for it."""
