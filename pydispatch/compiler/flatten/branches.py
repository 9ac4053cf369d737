"""Lowering of structured control flow (`scf`) in host functions to blocks with branches (`cf`), and if-conversion.

The result has only blocks that end in `cf.br`, `cf.cond_br` or a return. An `scf.if` with inexpensive scalar code
becomes `arith.select`, so that many functions stay without branches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith, cf, scf
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.flatten.blocks import (
    add_implicit_yield,
    append,
    append_value,
    move_blocks,
    redirect,
    split_after,
)
from pydispatch.compiler.flatten.loop_arguments import record_iterations
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.op_info import info_of


def lower_branches(region: Region) -> None:
    """Lower the structured control flow in `region`, the body of a host function, to branches between blocks, in place.

    An `scf.if` that yields only scalars becomes selects instead, if its operations may run unconditionally.
    """
    # Inner scf.ifs come first: one that contains an scf.if can be converted when that has become selects.
    for choice in [o for o in region.walk(reverse=True) if isinstance(o, scf.IfOp)]:
        _convert_to_selects(choice)
    block = region.blocks.first
    while block is not None:
        op = next((o for o in block.ops if o.name in LOWERINGS), None)
        if op is None:
            block = block.next_block
        else:
            LOWERINGS[op.name](op)  # inserts blocks after `block`, which the loop visits next
    simplify(region)


def simplify(region: Region) -> None:
    """Erase unreachable blocks, and merge each block into its predecessor if they are each other's only neighbour."""
    _drop_unreachable(region)
    _merge(region)


def successors(block: Block) -> Sequence[Block]:
    """Return the blocks that the terminator of a block may branch to."""
    terminator = block.last_op
    return () if terminator is None else terminator.successors


# -- scf.if without branches


def _is_speculatable(op: Operation) -> bool:
    """Return whether an operation may run unconditionally: it has no side effects, cannot trap, and is inexpensive.

    Operations on tensors are expensive, except for reading a size.
    """
    if op.name == "tensor.dim":
        return True
    is_on_tensors = any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))
    has_no_effect = info_of(op).is_pure and not info_of(op).traps
    return has_no_effect and not is_on_tensors


def _convert_to_selects(op: scf.IfOp) -> None:
    """Replace an `scf.if` by selects if it yields no tensors and its operations may run unconditionally.

    The operations of both regions are moved before it, and each result becomes a select of the two yielded values.
    """
    regions = [r for r in op.regions if r.blocks]  # an absent else region has no block
    yields_tensors = any(isinstance(r.type, TensorType) for r in op.results)
    have_branches = any(len(r.blocks) != 1 for r in regions)
    if yields_tensors or have_branches:
        return
    operations = [o for r in regions for o in r.block.ops if o.next_op is not None]  # all but the yields
    if not all(_is_speculatable(o) for o in operations):
        return
    block = op.parent
    assert block is not None
    yields: list[Sequence[SSAValue]] = []
    for region in regions:
        for inner in list(region.block.ops):
            if inner.next_op is None and inner.name == "scf.yield":
                yields.append(list(inner.operands))
                erase_op(inner)
            else:
                inner.detach()
                block.insert_op_before(inner, op)
    # An `scf.if` with results has both regions, so that there are two yields here.
    for index, result in enumerate(op.results):
        chosen = arith.SelectOp(op.cond, yields[0][index], yields[1][index])
        set_location(chosen, op)
        block.insert_op_before(chosen, op)
        result.replace_all_uses_with(chosen.result)
    erase_op(op, safe_erase=False)


# -- scf to blocks


def _lower_if(op: Operation) -> None:
    """Lower `scf.if` to a conditional branch; an absent else region branches to the continuation."""
    assert isinstance(op, scf.IfOp)
    block, after = split_after(op)
    targets = []
    for region in op.regions:
        if not region.blocks:
            targets.append(after)
            continue
        add_implicit_yield(region)
        first = move_blocks(region, after)
        redirect(first, after=after, terminator="scf.yield", target=after)
        targets.append(first)
    append(block, cf.ConditionalBranchOp(op.cond, targets[0], [], targets[1], []), op)
    op.erase(safe_erase=False)


def _lower_for(op: Operation) -> None:
    """Lower `scf.for` to a header block that compares the index with the bound, and a body that increments the index.

    A step that is not a positive constant is checked at run time.
    """
    assert isinstance(op, scf.ForOp)
    # Split the block around the loop, and put the header and the body between its parts. The header's arguments are the
    # index and the carried values; the body uses them, since the header dominates it.
    block, after = split_after(op)
    _check_step(op, block)
    add_implicit_yield(op.body)
    header = Block(arg_types=[a.type for a in op.body.block.args])
    parent = block.parent
    assert parent is not None
    parent.insert_block_before(header, after)
    first = move_blocks(op.body, after)
    _replace_arguments(first, header)

    # Enter the header with the initial values; it branches to the body or leaves the loop.
    append(block, cf.BranchOp(header, op.lb, *op.iter_args), op)
    unsigned = "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes
    is_in_bounds = append_value(header, arith.CmpiOp(header.args[0], op.ub, "ult" if unsigned else "slt"), op)
    branch = cf.ConditionalBranchOp(is_in_bounds, first, [], after, list(header.args[1:]))
    record_iterations(branch, op)
    append(header, branch, op)

    # At the end of the body, return to the header with the next index and the values that the body yields.
    last = _last_before(after, first)
    end = last.last_op
    assert end is not None
    values = list(end.operands)  # of scf.yield: the iteration arguments of the next iteration
    end.detach()
    next_index = append_value(last, arith.AddiOp(header.args[0], op.step), op)
    append(last, cf.BranchOp(header, next_index, *values), end)
    end.erase(safe_erase=False)
    op.erase(safe_erase=False)


def _last_before(after: Block, first: Block) -> Block:
    """Return the last block of a loop's body, which may have several: the one before `after`, from `first` on."""
    last = first
    while last.next_block is not after:
        assert last.next_block is not None
        last = last.next_block
    return last


def _check_step(op: scf.ForOp, block: Block) -> None:
    """Append a check to `block` that the step of a loop is positive, unless it is a positive constant."""
    step = op.step.owner
    value = step.properties.get("value") if isinstance(step, arith.ConstantOp) else None
    if not isinstance(value, IntegerAttr) or value.value.data <= 0:
        zero = append_value(block, arith.ConstantOp(IntegerAttr(0, cast(Any, op.step.type))), op)
        positive = append_value(block, arith.CmpiOp(op.step, zero, "sgt"), op)
        append(block, cf.AssertOp(positive, "the step of a loop must be positive"), op)


def _replace_arguments(first: Block, header: Block) -> None:
    """Make the body of a loop use the header's arguments instead of its own, which are removed.

    The header dominates the body, and branches to `first`, the body's first block, without values.
    """
    for old, new in zip(first.args, header.args, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for argument in reversed(list(first.args)):
        first.erase_arg(argument)


def _lower_while(op: Operation) -> None:
    """Lower `scf.while`: each `scf.condition` becomes a conditional branch to the body or the continuation."""
    assert isinstance(op, scf.WhileOp)
    # Put the blocks of both regions between the parts of the split block: block -> before -> body -> before, and from
    # `before` to `after`, whose arguments are the results of the loop.
    block, after = split_after(op)
    add_implicit_yield(op.after_region)
    before = move_blocks(op.before_region, after)
    body = move_blocks(op.after_region, after)
    redirect(body, after=after, terminator="scf.yield", target=before)
    append(block, cf.BranchOp(before, *op.arguments), op)
    # The condition region may have several blocks by now, each of which may end in an scf.condition.
    inner: Block | None = before
    while inner is not None and inner is not body:
        last = inner.last_op
        if isinstance(last, scf.ConditionOp):
            condition, values = last.condition, list(last.args)
            last.detach()
            append(inner, cf.ConditionalBranchOp(condition, body, values, after, values), last)
            last.erase(safe_erase=False)
        inner = inner.next_block
    op.erase(safe_erase=False)


def _lower_region(op: Operation) -> None:
    """Lower `scf.execute_region` to a branch into its blocks."""
    assert isinstance(op, scf.ExecuteRegionOp)
    block, after = split_after(op)
    first = move_blocks(op.region, after)
    redirect(first, after=after, terminator="scf.yield", target=after)
    append(block, cf.BranchOp(first), op)
    op.erase(safe_erase=False)


def _append_comparisons(
    block: Block, flag: SSAValue, cases: Sequence[int], targets: Sequence[tuple[Block, Sequence[SSAValue]]],
    default: tuple[Block, Sequence[SSAValue]], like: Operation,
) -> None:  # fmt: skip
    """End `block` with a chain of equality comparisons: one conditional branch per case, then the default.

    Args:
        block: The block; further blocks are inserted after it.
        flag: The integer or index to compare.
        cases: The constant that `flag` equals in each case.
        targets: (block, arguments) to branch to in each case.
        default: (block, arguments) to branch to in no case.
        like: Operation whose location the new ones have.
    """
    if not cases:  # the loop below has no iteration
        append(block, cf.BranchOp(default[0], *default[1]), like)
    for index, (case, (target, values)) in enumerate(zip(cases, targets, strict=True)):
        case_value = append_value(block, arith.ConstantOp(IntegerAttr(case, cast(Any, flag.type))), like)
        is_case = append_value(block, arith.CmpiOp(flag, case_value, "eq"), like)
        if index + 1 == len(cases):
            append(block, cf.ConditionalBranchOp(is_case, target, values, *default), like)
            return
        next_comparison = Block()
        region = block.parent
        assert region is not None
        region.insert_block_after(next_comparison, block)
        append(block, cf.ConditionalBranchOp(is_case, target, values, next_comparison, []), like)
        block = next_comparison


def _lower_index_switch(op: Operation) -> None:
    """Lower `scf.index_switch` to a chain of comparisons."""
    assert isinstance(op, scf.IndexSwitchOp)
    block, after = split_after(op)
    entry_blocks = []  # of the default region, then of the region of each case
    for region in (op.default_region, *op.case_regions):
        add_implicit_yield(region)
        first = move_blocks(region, after)
        redirect(first, after=after, terminator="scf.yield", target=after)
        entry_blocks.append(first)
    cases = [int(n) for n in cast(Any, op.cases).get_values()]
    default, *targets = [(entry, list[SSAValue]()) for entry in entry_blocks]  # blocks without arguments
    _append_comparisons(block, op.arg, cases, targets=targets, default=default, like=op)
    op.erase(safe_erase=False)


def _lower_switch(op: Operation) -> None:
    """Lower `cf.switch` to a chain of comparisons."""
    assert isinstance(op, cf.SwitchOp)
    block = op.parent
    assert block is not None
    cases = [] if op.case_values is None else [int(n) for n in cast(Any, op.case_values).get_values()]
    values, targets = iter(op.case_operands), []
    for target, count in zip(op.case_blocks, cast(Any, op.case_operand_segments).get_values(), strict=True):
        targets.append((target, [next(values) for _ in range(int(count))]))
    default = op.default_block, list(op.default_operands)
    op.detach()
    _append_comparisons(block, op.flag, cases, targets=targets, default=default, like=op)
    op.erase(safe_erase=False)


def _lower_unreachable(op: Operation) -> None:
    """Lower `util.unreachable` to an assertion that always fails, followed by a branch that never runs."""
    block = op.parent
    assert block is not None
    message = op.properties.get("message")
    op.detach()
    false = append_value(block, arith.ConstantOp(IntegerAttr(0, 1)), op)
    text = message.data if isinstance(message, StringAttr) else "a place that cannot be reached was reached"
    append(block, cf.AssertOp(false, text), op)
    region = block.parent
    assert region is not None
    forever = Block()  # an endless loop: a return would need values for the results of the function
    region.insert_block_after(forever, block)
    append(block, cf.BranchOp(forever), op)
    append(forever, cf.BranchOp(forever), op)
    op.erase(safe_erase=False)


def refuse(op: Operation) -> None:
    """Raise CompileError for a parallel loop, which has no iteration order."""
    raise CompileError(f"'{op.name}' is not supported in host code", location_of(op),
                       "loops of the host are scf.for and scf.while; parallel ones belong into a dispatch")  # fmt: skip


LOWERINGS: dict[str, Callable[[Operation], None]] = {
    "scf.if": _lower_if,
    "scf.for": _lower_for,
    "scf.while": _lower_while,
    "scf.execute_region": _lower_region,
    "scf.index_switch": _lower_index_switch,
    "cf.switch": _lower_switch,
    "util.unreachable": _lower_unreachable,
    "scf.parallel": refuse,
    "scf.forall": refuse,
}
"""Name of an operation → function that replaces it by blocks and branches in place, or raises CompileError."""


# -- fewer blocks


def _reachable(region: Region) -> set[Block]:
    """Return the blocks of `region` that are reachable from its entry block, which is one of them."""
    first = region.blocks.first
    seen: set[Block] = set()
    pending = [first] if first is not None else []
    while pending:
        block = pending.pop()
        if block not in seen:
            seen.add(block)
            pending += successors(block)
    return seen


def _drop_unreachable(region: Region) -> None:
    """Erase the unreachable blocks."""
    reachable = _reachable(region)
    dead = [block for block in region.blocks if block not in reachable]
    for block in dead:  # dead blocks may use values of each other
        for op in block.ops:
            op.drop_all_references()
    for block in dead:
        region.erase_block(block, safe_erase=False)


def _merge(region: Region) -> None:
    """Merge each block whose only predecessor branches to it unconditionally into that predecessor."""
    # Number of branches to each block. Merging leaves those of the other blocks unchanged: the terminator of the merged
    # block moves, and the branch to that block is removed with it.
    jumps = Counter(s for block in region.blocks for s in successors(block))
    block = region.blocks.first
    while block is not None:
        last = block.last_op
        if isinstance(last, cf.BranchOp):
            target = last.successor
            is_entry = target is region.blocks.first  # it has one more predecessor: the caller
            is_endless_loop = target is block
            if jumps[target] == 1 and not is_entry and not is_endless_loop:
                for argument, value in zip(target.args, last.arguments, strict=True):
                    argument.replace_all_uses_with(value)
                erase_op(last)
                for op in list(target.ops):
                    op.detach()
                    block.add_op(op)
                region.erase_block(target)
                continue  # `block` has a new terminator, which may be such a branch again
        block = block.next_block
