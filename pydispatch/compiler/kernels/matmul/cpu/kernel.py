"""A contraction with all that is fused around it → kernel IR.

A workgroup computes a tile of C in register blocks (`pyd.contract`). What a block reads is packed into workgroup memory
by computing elements of the factors, so that their producers are fused into the packing; operands that lie well as they
are are read in place. When a block is done, the results of the dispatch are computed from it while it is in the cache.

Blocks never hang over an edge of known size: the last one moves back and computes some elements again, with the same
bits. Where sizes are not known, or zeros fill the last panel of a constant, blocks run over the edge, and only what
exists is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.cpu.chain import lower_chain
from pydispatch.compiler.kernels.matmul.cpu.outputs import outputs_of
from pydispatch.compiler.kernels.matmul.cpu.plan import IllegalSchedule, Plan, groups, holds, plans_of
from pydispatch.compiler.kernels.matmul.cpu.planes import lower_planes
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule, refused, schedule_of
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, level_of
from pydispatch.compiler.kernels.matmul.cpu.windows import lower_windows
from pydispatch.compiler.kernels.matmul.cpu.write import Writer
from pydispatch.compiler.kernels.matmul.match import Contraction, contractions
from pydispatch.compiler.kernels.matmul.results import positions
from pydispatch.compiler.kernels.ops.builder import Builder, opposite
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.structured import is_reduction


def lower_contraction(source: func.FuncOp, backend: Backend, machine: Machine) -> Kernel | None:
    """Return the kernel of a dispatch function that is one contraction, a chain of two, or one reduction over windows,
    with elementwise code around it, else None. machine: for whose registers it is cut into blocks.
    """
    schedule = schedule_of(source)
    kernel = lower_windows(source, backend)
    if kernel is None and schedule is None:
        kernel = lower_planes(source, backend)
    found = None if kernel is not None else contraction_in(source)
    if found is not None:
        return _lower(source, backend, level_of(machine), found, schedule)
    if schedule is not None:
        raise refused(source, "the function is no contraction that is computed in register blocks")
    return kernel or lower_chain(source, backend, machine)


def _lower(
    source: func.FuncOp, backend: Backend, level: Level, found: tuple[Contraction, list[list[int]]],
    schedule: Schedule | None,
) -> Kernel | None:  # fmt: skip
    """Return the kernel of a function that is one contraction. found: see `contraction_in`."""
    c, results = found
    frame = Frame(source, backend)
    try:
        plans = _plans(frame, c, level, schedule)
    except IllegalSchedule as error:
        raise refused(source, str(error)) from None
    if not plans:
        if schedule is not None:
            raise refused(source, "the function is computed without register blocks")
        return None
    frame.bind()
    _choose(frame, plans, results)
    return frame.finish(lambda e, build: groups(plans, build, loop_sizes(e, c.generic)))


def _plans(frame: Frame, contraction: Contraction, level: Level, schedule: Schedule | None = None) -> list[Plan]:
    return (
        []
        if any(argument >= 0 for argument in frame.updated)
        else plans_of(contraction, frame.elements, level, schedule)
    )


def plan_in(source: func.FuncOp, backend: Backend, machine: Machine) -> Plan | None:
    """Return the plan that `lower_contraction` has for a function that is one contraction of known sizes and states no
    schedule; None for others."""
    found = None if lower_windows(source, backend) is not None else contraction_in(source)
    plans = [] if found is None else _plans(Frame(source, backend), found[0], level_of(machine))
    return plans[0] if len(plans) == 1 else None


def _choose(frame: Frame, plans: Sequence[Plan], results: list[list[int]]) -> None:
    """Emit a choice at run time between plans for different numbers of rows.

    plans: first the default plan, then the plans for smaller row counts, in ascending order.
    """
    number = frame.workgroup()
    many, *few = plans
    outputs = outputs_of(frame, results)
    sizes = loop_sizes(frame.elements, many.c.generic)

    def write(build: Builder, rest: Sequence[Plan]) -> None:
        if not rest:
            Writer(frame, build, many, outputs).run(number)
            return
        condition = holds(rest[0], build, sizes)
        build.when(condition, lambda b: Writer(frame, b, rest[0], outputs).run(number))
        build.when(opposite(build, condition), lambda b: write(b, rest[1:]))

    write(frame.build, few)


def contraction_in(source: func.FuncOp) -> tuple[Contraction, list[list[int]]] | None:
    """Return the contraction of a dispatch function, and for each result the dimensions of the contraction's result
    that its own are. None when there is not exactly one, or something else in the function reduces.
    """
    operations = list(source.body.block.ops)
    found = contractions(operations)
    if len(found) != 1:
        return None
    c = found[0]
    for op in operations:
        if op is not c.op and is_reduction(op):
            return None
    last = source.body.block.last_op
    assert last is not None
    results = [positions(value, c.op.results[0]) for value in last.operands]
    known = [r for r in results if r is not None]
    return (c, known) if known and len(known) == len(results) else None
