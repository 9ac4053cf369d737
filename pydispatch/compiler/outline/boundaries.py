"""Boundaries between dispatches of a host function: which dispatch reads results of which, and the operations in
between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from xdsl.dialects import cf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.kinds import is_fill, is_view
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.ir.dialects.flow import dialect as flow

MOST_CHOICES = 8
"""Maximum number of producers that are listed for a value selected by control flow. After n consecutive branches, a
dispatch may read results of any of them, so that all pairs would be n² / 2 entries of an artifact."""

Jumps = dict[Block, list[Operation]]
"""For each block of a host function, the terminators that branch to it."""


def jumps_of(function: Operation) -> Jumps:
    """Return, for each block of a host function, the terminators that branch to it."""
    jumps: Jumps = {block: [] for block in function.regions[0].blocks}
    for block in function.regions[0].blocks:
        if (end := block.last_op) is not None:
            for target in dict.fromkeys(end.successors):  # a conditional branch may name a block twice
                jumps[target].append(end)
    return jumps


def origins(dispatch: Operation, jumps: Jumps) -> dict[flow.DispatchOp, Operation | None]:
    """Return the producers of a dispatch: the dispatches whose results it reads, directly or through host code.

    Each producer is mapped to the operation through which `dispatch` reads its result: host code or control flow. Of
    several such operations, it is the nearest to `dispatch`. It is None if there are only views in between.

    Of producers selected by control flow, only the nearest `MOST_CHOICES` are returned: through a sequence of branches,
    a dispatch may read results of every dispatch before them.

    Example: dispatch @q reads results of @p1, @p2, and of @p3, which a jump passes to its block:

          %a = flow.dispatch @p1
          %v = tensor.extract_slice %a        // a view
          %b = flow.dispatch @p2
          %s = host_op %b
          %c = flow.dispatch @p3
          cf.br ^bb1(%c : tensor<4xf32>)
        ^bb1(%d: tensor<4xf32>):
          %r = flow.dispatch @q(%v, %s, %d)   // origins: {@p1: None, @p2: host_op, @p3: cf.br}

    Args:
        dispatch: The reading dispatch.
        jumps: The jumps of the host function, as `jumps_of` returns them.
    """
    producers: dict[flow.DispatchOp, Operation | None] = {}
    visited: set[SSAValue] = set()
    # The search goes from the operands of `dispatch` back to producers. It has two queues of values to visit, each with
    # the nearest operation to `dispatch` on its path that is no view. Values selected by control flow are visited after
    # all others, in the order in which they were reached: the nearest first.
    pending: list[tuple[SSAValue, Operation | None]] = [(v, None) for v in dispatch.operands]
    pending_choices: deque[tuple[SSAValue, Operation]] = deque()
    choice_count = 0  # producers selected by control flow so far
    while pending or (pending_choices and choice_count < MOST_CHOICES):
        value, nearest_op = pending.pop() if pending else pending_choices.popleft()
        if value in visited:
            continue
        visited.add(value)
        if isinstance(value.owner, flow.DispatchOp):
            is_choice = nearest_op is not None and _is_control_flow(nearest_op)
            if is_choice and value.owner not in producers:
                choice_count += 1
            producers.setdefault(value.owner, nearest_op)
            continue
        for source, computing_op in _sources(value, jumps):  # computing_op is None for a view
            op = nearest_op or computing_op  # an operation that is nearer to `dispatch` stays the nearest
            if op is not None and _is_control_flow(op):
                pending_choices.append((source, op))
            else:
                pending.append((source, op))
    return producers


def _is_control_flow(op: Operation) -> bool:
    """Return whether an operation of the host is a loop, a branch or a jump."""
    return bool(op.regions or op.successors)


def _sources(value: SSAValue, jumps: Jumps) -> Iterable[tuple[SSAValue, Operation | None]]:
    """Yield the values from which `value` is or may be computed: (source, operation that computes `value` from it).

    For the result of an operation, the sources are its operands; the yielded operation is None for a view. For an
    argument of a block, they are the values that jumps to the block pass as this argument, each with the jump. An
    argument of the function and a fill such as `tensor.splat` have no sources. The sources of %x are %init and %next in

          cf.br ^loop(%low, %init : index, tensor<4xf32>)
        ^loop(%i: index, %x: tensor<4xf32>):
          ...
          cf.br ^loop(%following, %next : index, tensor<4xf32>)
    """
    if isinstance(value, OpResult):
        op = value.op
        if not is_fill(op):  # dispatches have copies of fills, which are not passed to them
            yield from ((v, None if is_view(op) else op) for v in op.operands)
    elif isinstance(value, BlockArgument):
        for jump in jumps.get(value.block, ()):
            yield from ((passed[value.index], jump) for passed in _passed(jump, value.block))


def _passed(jump: Operation, block: Block) -> list[Sequence[SSAValue]]:
    """Return the values that a jump passes to the arguments of a block: two lists if both of its targets are the
    block.
    """
    if isinstance(jump, cf.ConditionalBranchOp):
        targets = ((jump.then_block, jump.then_arguments), (jump.else_block, jump.else_arguments))
        return [arguments for target, arguments in targets if target is block]
    assert isinstance(jump, cf.BranchOp)  # the only other jump of host functions, see `flatten/branches.py`
    return [jump.arguments]


def separation(producer: Operation, consumer: Operation, between: Operation | None, formed: bool) -> str:
    """Return why two dispatches were no candidates for fusion, and what would have to change.

    Args:
        producer: The dispatch whose result is read.
        consumer: The dispatch that reads it.
        between: The host code or control flow through which it is read, as `origins` returns it; None for views alone.
        formed: Whether dispatch formation created both, so that neither is stated by the program.
    """
    if not formed:
        return reasons.STATED
    control = _control_between(producer, consumer, between)
    if control is not None:
        return reasons.CONTROL.format(describe_location(control))
    if between is not None:
        return reasons.HOST.format(describe_location(between))
    return reasons.UNTRIED


def _control_between(producer: Operation, consumer: Operation, between: Operation | None) -> Operation | None:
    """Return the loop or branch of the host that separates two dispatches, or None.

    between: an operation of the host through which the consumer reads the result of the producer, if any.
    """
    if between is not None and _is_control_flow(between):
        return between
    if producer.parent is consumer.parent:
        return None
    deeper = producer if _depth(producer) > _depth(consumer) else consumer
    block = producer.parent
    is_in_loop = _depth(deeper) > 1  # a depth of 1 is a block of the function itself
    if is_in_loop or block is None:
        return deeper.parent_op()  # the loop or branch around the deeper one
    return block.last_op  # both are in blocks of the function itself: the end of the producer's block branches


def _depth(op: Operation) -> int:
    """Return how many operations a dispatch is nested in, the function included."""
    parent = op.parent_op()
    return 0 if parent is None or parent.name == "builtin.module" else 1 + _depth(parent)
