"""Loop interchange on CPUs for loops in which invocation i of W processes elements i, i + W, ...

    parallel lane in 0..W { for i = lane to n step W { total += f(i) } }

has strided accesses when a thread runs the invocations one after another, and is not vectorized. It becomes

    for first = 0 to n step W { parallel lane in 0..min(W, n - first) { total[lane] += f(first + lane) } }

with the loop-carried values in workgroup memory. Each invocation executes the same steps in the same order. A softmax
of 2,048 rows of 1,000 with 64 invocations took 6.6 ms before, 0.84 ms after (Zen 5, 2 workers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.compiler.kernel_ir.bindings import read_only_memrefs
from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index, known
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import info_of

Body = Callable[[Build, SSAValue, dict[SSAValue, SSAValue]], None]
"""Emitter of the body of an invocation. Its arguments: a builder, the index of the invocation, and the map from values
of the original loop to their copies."""

FEWEST = 8
"""Invocations below which a step does not fill a vector."""

_WORKGROUP = IntegerAttr(3, 64)
"""The memory space of workgroup memory."""


def take_steps_together(function: FuncOp) -> None:
    """Interchange the strided loops of a function with the loops over invocations, in place."""
    pending = [op for op in walk(function) if isinstance(op, scf.ParallelOp)]
    entry, read_only = Entry(function), read_only_memrefs(function)
    while pending:
        loop = pending.pop()
        steps = _find_strided_loop(loop, read_only)
        if steps is not None:
            _interchange(entry, loop, steps)
            pending.append(loop)


@dataclass(frozen=True)
class Steps:
    """A strided loop in a parallel loop over invocations, which can be interchanged.

    Attributes:
        loop: The strided loop; in invocation p its counter begins at `start` + p.
        start: A value that is the same for all invocations.
        own: Operations before the strided loop that depend on the invocation.
        shared: Operations before the strided loop that do not.
    """

    loop: scf.ForOp
    start: Index
    own: Sequence[Operation]
    shared: Sequence[Operation]


def _find_strided_loop(loop: scf.ParallelOp, read_only: frozenset[SSAValue]) -> Steps | None:
    """Return the first loop in a loop over invocations, if its step is their number and it can be interchanged."""
    block = loop.body.block
    if len(block.args) != 1 or loop.initVals or known(loop.lowerBound[0]) != 0 or known(loop.step[0]) != 1:
        return None
    width = known(loop.upperBound[0])
    if not isinstance(width, int) or width < FEWEST:
        return None
    own, shared, varying = list[Operation](), list[Operation](), set[SSAValue](block.args)
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            start = _constant_start(op.lb, block.args[0], varying)
            can = start is not None and known(op.step) == width and op.ub not in varying
            can = can and all(_fits(inner_op.type) for inner_op in op.results)
            nests = any(isinstance(inner_op, scf.ParallelOp) for inner_op in walk(op))
            return Steps(op, start, own, shared) if can and start is not None and not nests else None
        is_load = isinstance(op, memref.LoadOp) and op.memref in read_only
        if op.regions or not (info_of(op).is_pure or is_load or op.name == "hal.interface.workgroup.id"):
            return None
        if varying.isdisjoint(op.operands):
            shared.append(op)
        else:
            own.append(op)
            varying.update(op.results)
    return None


def _constant_start(lower: SSAValue, lane: SSAValue, varying: set[SSAValue]) -> Index | None:
    """Return `start` if a lower bound is `start + lane` and `start` is equal in all invocations; else None."""
    if lower is lane:
        return 0
    if not isinstance(lower.owner, arith.AddiOp) or lane not in lower.owner.operands:
        return None
    left, right = lower.owner.operands
    other = right if left is lane else left
    return None if other in varying else known(other)


def _fits(type_: Attribute) -> bool:
    """Return whether elements of a type can be stored in workgroup memory."""
    if isinstance(type_, IntegerType):
        return type_.width.data in (8, 16, 32, 64)
    return isinstance(type_, Float16Type | Float32Type | Float64Type | IndexType)


def _interchange(entry: Entry, loop: scf.ParallelOp, split: Steps) -> None:
    """Emit the interchanged loops before `loop`; the code after the strided loop remains in `loop`."""
    steps, own = split.loop, split.own
    width = known(loop.upperBound[0])
    build = Build.before(entry, loop)
    assert isinstance(width, int)
    for op in split.shared:
        op.detach()
        build.insert(op)
    memories = [_allocated(build, op.type, width) for op in steps.results]
    if memories:

        def begin(inner: Build, lane: SSAValue, values: dict[SSAValue, SSAValue]) -> None:
            """Emit the stores of the initial carried values of one invocation."""
            for first, memory in zip(steps.iter_args, memories, strict=True):
                inner.op(memref.StoreOp.get(values.get(first, first), memory, [lane]))

        _invocations(build, loop, own, width, begin)

    def step(outer: Build, first: SSAValue, carried: list[SSAValue]) -> Sequence[SSAValue]:
        """Emit one step of the outer loop: a parallel loop over the invocations, with carried values in memory."""

        def body(inner: Build, lane: SSAValue, values: dict[SSAValue, SSAValue]) -> None:
            """Emit the loop body for one lane."""
            index, *variables = steps.body.block.args
            values[index] = inner.plus(first, lane)  # type: ignore[assignment]
            for variable, memory in zip(variables, memories, strict=True):
                values[variable] = inner.let(memref.LoadOp.get(memory, [lane]))
            *inside, end = steps.body.block.ops
            for op in inside:
                inner.insert(op.clone(values))
            for value, memory in zip(end.operands, memories, strict=True):
                inner.op(memref.StoreOp.get(values.get(value, value), memory, [lane]))

        _invocations(outer, loop, own, outer.least(width, outer.minus(known(steps.ub), first)), body)
        return ()

    build.loop(split.start, known(steps.ub), width, (), step)
    after = Build.before(entry, steps)
    for result, memory in zip(steps.results, memories, strict=True):
        result.replace_all_uses_with(after.let(memref.LoadOp.get(memory, [loop.body.block.args[0]])))
    steps.detach()
    steps.erase()


def _allocated(build: Build, type_: Attribute, width: int) -> SSAValue:
    """Allocate workgroup memory of an element for each of `width` invocations at the entry, and return it."""
    allocation = memref.AllocOp([], [], MemRefType(type_, [width], memory_space=_WORKGROUP))
    allocation.location = build.like.location
    build.entry.insert(allocation)
    return allocation.results[0]


def _invocations(build: Build, like: scf.ParallelOp, own: Sequence[Operation], width: Index, body: Body) -> None:
    """Emit a parallel loop over `width` invocations: each computes the operations `own` again, then runs `body`."""
    block = Block(arg_types=[INDEX])
    inner = build.inside(block)
    values: dict[SSAValue, SSAValue] = {like.body.block.args[0]: block.args[0]}
    for op in own:
        inner.insert(op.clone(values))
    body(inner, block.args[0], values)
    inner.op(scf.ReduceOp())
    build.op(scf.ParallelOp([build.value(0)], [build.value(width)], [build.value(1)], Region(block)))
