"""Stores of globals at the end of a function move to where their values are computed.

Programs in Python and models store state when everything else is done, often behind loops and branches. A global whose
load, update and store are in one block is updated in place (`saved_rows.py`); otherwise it is copied.
"""

from __future__ import annotations

from collections import defaultdict

from xdsl.ir import Block, Operation, OpResult

from pydispatch.compiler.flatten.globals import name_of
from pydispatch.ir.core.dominance import successors
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.util.dialect import GlobalLoadOp, GlobalStoreOp


def store_early(function: Operation) -> None:
    """Move each store of a global to just after the operation that computes its value, if this is in another block.

    A global whose load, update and store are in one block is updated in place: in `^a: %s = load @g; %t = update(%s);
    br ^b; ^b: ...; store %t, @g`, the store is moved after the update.

    A store stays where it is in these cases:

    - The function may return after the value is computed without reaching the store.
    - A loop computes the value: the store would run in each iteration.
    - Another load or store of the global may run after the value is computed.
    """
    accesses: dict[str, list[Operation]] = defaultdict(list)  # name of a global → its loads and stores
    for op in walk(function):
        if isinstance(op, GlobalLoadOp | GlobalStoreOp):
            accesses[name_of(op)].append(op)
    for ops in accesses.values():
        for store in [op for op in ops if isinstance(op, GlobalStoreOp)]:
            value, block = store.value, store.parent
            if not isinstance(value, OpResult) or value.op.parent is block:
                continue  # an argument of a block, or an update in the block of its store: nothing to gain
            origin = value.op
            others = [op for op in ops if op is not store]
            if _is_reached_once(origin, store) and not any(_may_follow(op, origin) for op in others):
                _move_after(store, origin)


def _move_after(op: Operation, origin: Operation) -> None:
    """Move an operation to just after `origin`."""
    block = origin.parent
    assert block is not None
    op.detach()
    block.insert_op_after(op, origin)


def _reachable(start: Block, without: Block | None = None) -> set[Block]:
    """Return the blocks that are entered on paths from the end of `start`, without passing the block `without`."""
    seen: set[Block] = set()
    pending = [*successors(start)]
    while pending:
        block = pending.pop()
        if block is not without and block not in seen:
            seen.add(block)
            pending += successors(block)
    return seen


def _is_reached_once(origin: Operation, store: Operation) -> bool:
    """Return whether every path from `origin` leads to the block of `store`, without passing `origin` again."""
    start = origin.parent
    assert start is not None
    before_store = _reachable(start, without=store.parent)
    is_repeated = start in before_store
    may_return_before = any(not successors(block) for block in (start, *before_store))  # without successors: returns
    return not is_repeated and not may_return_before


def _may_follow(op: Operation, origin: Operation) -> bool:
    """Return whether `op` may run after `origin`, by the control flow of their region.

    The result is True, without analysis, if they are in different regions, such as a loop body and its surroundings.
    """
    block, start = op.parent, origin.parent
    assert block is not None and start is not None
    if block is start and origin.is_before_in_block(op):
        return True
    return block.parent is not start.parent or block in _reachable(start)
