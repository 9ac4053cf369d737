"""Kernels of contractions with everything that is fused around them: dispatch function → kernel IR.

A workgroup computes a tile of C in register blocks (`pyd.contract`). Operands are read in place where that is fast;
others are packed into workgroup memory by computing elements of the factors, so that their producers are fused into the
packing. The results of the dispatch are computed from each block while it is in the cache.

`plan.py` decides, `nest.py` has the loop nest as data, and `tile.py` emits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects import func

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.matmul.block_quantized import block_quantized_of
from pydispatch.compiler.kernels.matmul.cpu.block_quantized import lower_block_quantized
from pydispatch.compiler.kernels.matmul.cpu.chain import lower_chain
from pydispatch.compiler.kernels.matmul.cpu.nest import has_few_enough_rows, workgroup_count
from pydispatch.compiler.kernels.matmul.cpu.outputs import dims_of_results, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.plan import IllegalSchedule, Plan, variants
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule
from pydispatch.compiler.kernels.matmul.cpu.stated_schedule import schedule_error, stated_schedule
from pydispatch.compiler.kernels.matmul.cpu.tile import emit_workgroup
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, level_of
from pydispatch.compiler.kernels.matmul.match import Contraction, contractions
from pydispatch.compiler.kernels.matmul.windows.channels_first import lower_channels_first
from pydispatch.compiler.kernels.matmul.windows.channels_last import lower_channels_last
from pydispatch.compiler.kernels.ops.builder import Builder
from pydispatch.compiler.kernels.ops.conditions import opposite
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.target.backend import Backend
from pydispatch.compiler.target.cpu import Machine
from pydispatch.ir.structured import is_reduction


def lower_contraction(source: func.FuncOp, backend: Backend, machine: Machine) -> Kernel | None:
    """Return the kernel of a contraction, a chain of two, or a reduction over sliding windows; else None.

    The first kernel that can compute the function is returned:

    1. a product by block-quantized weights,
    2. a depthwise convolution or pooling of NHWC, and of NCHW,
    3. a contraction in register blocks and tiles,
    4. a chain: two contractions with row-wise operations between them, such as attention.

    A function may state a schedule in the attribute `pydispatch.schedule`: the register blocks and tiles of kernel 3.
    With a schedule, the kernels of block-quantized weights and of NCHW are not tried, since their functions may also be
    contractions.

    Args:
        source: The dispatch function, which may have elementwise code around the contraction.
        backend: The backend that the kernel is for.
        machine: The CPU, whose registers determine the blocks.

    Raises:
        CompileError: The function states a schedule that is malformed, or that its kernel cannot have.
    """
    schedule = stated_schedule(source)  # None if the function states none
    match = contraction_in(source)
    # 1. Block-quantized weights. If there is no such kernel, as for a dynamic number of rows, kernel 3 is used.
    quantized = block_quantized_of(match.contraction) if match is not None and schedule is None else None
    if match is not None and quantized is not None:
        quantized_kernel = lower_block_quantized(source, backend, level_of(machine), quantized, match.result_dims)
        return quantized_kernel or _lower_in_blocks(source, backend, level_of(machine), match, schedule=None)
    # 2. Sliding windows: images whose channels are the last dimension (NHWC), then the first (NCHW).
    window_kernel = lower_channels_last(source, backend)
    if window_kernel is None and schedule is None:
        window_kernel = lower_channels_first(source, backend)
    # 3. Register blocks and tiles.
    if window_kernel is None and match is not None:
        return _lower_in_blocks(source, backend, level_of(machine), match, schedule)
    if schedule is not None:  # a function with sliding windows, or without a contraction
        raise schedule_error(source, "the function is no contraction that is computed in register blocks")
    # 2., or else 4.: a chain, which has two contractions.
    return window_kernel or lower_chain(source, backend, machine)


def _lower_in_blocks(
    source: func.FuncOp,
    backend: Backend,
    level: Level,
    match: ContractionMatch,
    schedule: Schedule | None,
) -> Kernel | None:
    """Return the kernel of a function that is one contraction, in register blocks and tiles.

    The kernel has the code of each plan: several if the number of rows is dynamic, of which one is chosen at run time.
    Return None if there is no plan: the contraction's element types have no register block, or the function updates an
    argument in place. It is computed in plain loops then.

    Args:
        source: The dispatch function.
        backend: The backend that the kernel is for.
        level: Vector registers, caches and instructions of the CPU.
        match: The contraction, and which of its dimensions the function's results have.
        schedule: The schedule that the function states; None for the default of the CPU.

    Raises:
        CompileError: The contraction cannot have the stated schedule, or has no register blocks.
    """
    frame, generic = Frame(source, backend), match.contraction.generic
    try:
        plans = _plans(frame, match.contraction, level, schedule)
    except IllegalSchedule as error:
        raise schedule_error(source, str(error)) from None
    if not plans and schedule is not None:
        raise schedule_error(source, "the function is computed without register blocks")
    if not plans:
        return None
    frame.bind()  # emits the buffers of arguments and results
    _emit_variants(frame, plans, match.result_dims)
    return frame.finish(workgroups=lambda elements, build: workgroup_count(plans, build, loop_sizes(elements, generic)))


def _plans(frame: Frame, contraction: Contraction, level: Level, schedule: Schedule | None = None) -> list[Plan]:
    """Return the plans of a contraction: several if the kernel chooses one by the number of rows at run time.

    The list is empty if the element types have no register block.
    """
    if frame.updates_arguments:  # in place: plain loops write only the elements that change, tiles would write all
        return []
    return variants(contraction, frame.elements, level, schedule)


def plan_in(source: func.FuncOp, backend: Backend, machine: Machine) -> Plan | None:
    """Return the plan that `lower_contraction` has for a function that is one contraction of static sizes; else None.

    Tuning tries other schedules of such a function. A schedule that the function states is not considered. `machine` is
    the CPU to plan for.
    """
    # A function with a kernel for sliding windows is computed by that kernel, which has no plan. The kernel is built
    # here only to see whether there is one.
    has_window_kernel = lower_channels_last(source, backend) is not None
    match = None if has_window_kernel else contraction_in(source)
    plans = [] if match is None else _plans(Frame(source, backend), match.contraction, level_of(machine))
    return plans[0] if len(plans) == 1 else None


def _emit_variants(frame: Frame, plans: Sequence[Plan], result_dims: Sequence[list[int]]) -> None:
    """Emit a choice at run time between plans for different numbers of rows.

    Plans for at least 14 rows, for 1 row and for 2 to 13 rows become the code `if rows <= 1 {plan 1} else if rows <= 13
    {plan 2} else {plan 0}`. A single plan is emitted without a choice.

    Args:
        frame: The kernel function.
        plans: The plan without an upper bound of the rows, then those for fewer rows, by ascending bounds.
        result_dims: For each result of the function, the dimension of the contraction's result that each of its own
            dimensions is equal to: [1, 0] for a transposed result.
    """
    workgroup_id = frame.workgroup()
    unbounded_plan, *bounded_plans = plans
    outputs = outputs_of(frame, result_dims)
    sizes = loop_sizes(frame.elements, unbounded_plan.contraction.generic)

    def emit_choice(build: Builder, candidates: Sequence[Plan]) -> None:
        """Emit code that runs the first of `candidates` whose bound the rows do not exceed, or else `unbounded_plan`.

        The code for the first candidate is in an `if`, and that for all others in its `else`, by a recursive call.
        """
        if not candidates:
            emit_workgroup(frame, build, unbounded_plan, outputs, workgroup_id)
            return
        plan, *later_candidates = candidates
        has_few_rows = has_few_enough_rows(plan, build, sizes)
        build.when(has_few_rows, lambda inner: emit_workgroup(frame, inner, plan, outputs, workgroup_id))
        build.when(opposite(build, has_few_rows), lambda inner: emit_choice(inner, later_candidates))

    emit_choice(frame.build, bounded_plans)


class ContractionMatch(NamedTuple):
    """The only contraction of a dispatch function, and which of its dimensions the function's results have.

    Attributes:
        contraction: The contraction.
        result_dims: For each result of the function, the dimension of the contraction's result that each of its own
            dimensions is equal to: [1, 0] for a transposed result.
    """

    contraction: Contraction
    result_dims: list[list[int]]


def contraction_in(source: func.FuncOp) -> ContractionMatch | None:
    """Return the only contraction of a dispatch function, and which of its dimensions the function's results have.

    Return None if there is not exactly one contraction, if another operation reduces, or if a result of the function is
    not computed element by element from the result of the contraction.
    """
    operations = list(source.body.block.ops)
    candidates = contractions(operations)
    if len(candidates) != 1:
        return None
    (contraction,) = candidates
    if any(op is not contraction.op and is_reduction(op) for op in operations):
        return None
    terminator = source.body.block.last_op
    assert terminator is not None
    result_dims = dims_of_results(terminator.operands, contraction)
    return ContractionMatch(contraction, result_dims) if result_dims else None
