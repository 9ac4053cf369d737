"""Partition of functions with branches or read-backs into segments that run as a unit.

A block is cut at each *stop*, an operation that needs values outside of commands: elements that are read back, globals,
checks and branches. The operations between two stops of a block are a *segment*, which becomes one straight-line
function. An operation belongs to the earliest segment in which its operands are available, so that independent stops
cut a block only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.analysis.kinds import is_view
from pydispatch.compiler.flatten.branches import successors
from pydispatch.compiler.flatten.globals import name_of
from pydispatch.ir.op_info import Effects, info_of

EFFECTS = ("cf.assert",)
"""Operations without results but with effects: a segment that has one runs even without outputs."""

LOAD, STORE, READ, SAVE = "util.global.load", "util.global.store", "tensor.extract", "pyd.save_rows"
"""Operations that cut a block, beside checks: accesses to globals, the read-back of an element to the host, and the
copy of rows that an update in place will overwrite."""


def is_stop(op: Operation) -> bool:
    """Return whether an operation is a stop, which cuts its block: an access to a global, a copy of rows that an update
    in place will overwrite, a read-back of an element, or a check. The host executes it between straight-line
    functions.
    """
    return op.name in (LOAD, STORE, READ, SAVE) or op.name.startswith("check.")


def is_constant(value: SSAValue) -> bool:
    """Return whether a value is the result of a constant operation."""
    return isinstance(value, OpResult) and info_of(value.op).constant


def _is_view(op: Operation) -> bool:
    """Return whether the result of an operation shares memory with its operand, and may be recomputed anywhere."""
    info = info_of(op)
    # Operations whose effects are UNORDERED, such as optimization barriers, must not be repeated.
    return (info.forwards and info.effects is not Effects.UNORDERED) or is_view(op)


def _is_repeated(op: Operation) -> bool:
    """Return whether each segment that reads the result recomputes the operation, so that its result is not passed
    between segments.
    """
    return info_of(op).constant or _is_view(op)


def definition(value: SSAValue) -> Operation | None:
    """Return the operation that computes a value; None for an argument of a block."""
    return value.op if isinstance(value, OpResult) else None


@dataclass(eq=False)
class Segment:
    """Sequence of operations that becomes one straight-line function.

    Attributes:
        own: Operations that only this segment computes, in program order.
        ops: `own`, and the constants and views that it reads: each segment that reads these recomputes them.
        inputs: Values that it reads from outside, which become the arguments of the function.
        outputs: Values of `own` that are read outside, which become its results.
    """

    own: list[Operation] = field(default_factory=list)
    ops: list[Operation] = field(default_factory=list)
    inputs: list[SSAValue] = field(default_factory=list)
    outputs: list[SSAValue] = field(default_factory=list)


@dataclass(eq=False)
class BlockPartition:
    """Partition of one block into segments, which are compiled, and stops, which run in the order of their levels.

    A stop is an operation that the host executes between segments: a read-back, an access to a global or a check.

    At each level, the segment runs first, then the stops that read its results. An operation that reads the result of a
    stop belongs to the segment of the next level. Stops of level -1 read no result of the block's segments.

    Attributes:
        block: The block.
        segments: Level → the segment of that level.
        stops: Level → the stops that run after the segment of that level; those of level -1 run first.
    """

    block: Block
    segments: dict[int, Segment] = field(default_factory=dict)
    stops: dict[int, list[Operation]] = field(default_factory=dict)

    def levels(self) -> Iterator[int]:
        """Return the levels (execution ranks: a segment, then the stops that read its results) in ascending order."""
        return iter(sorted({*self.segments, *self.stops}))


@dataclass(eq=False)
class _StopOrder:
    """Levels of the stops of one block so far, which later stops must not precede.

    `Segmentation._partition` creates one per block, and calls `level_of` for each stop in program order. A stop is an
    operation that the host executes between segments; a level is one segment, then the stops that run after it.

    Attributes:
        last_store: Name of a global → level of the last store to it.
        last_load: Name of a global → highest level of a load of it.
        last_check: Level of the last check; -1 without one.
    """

    last_store: dict[str, int] = field(default_factory=dict)
    last_load: dict[str, int] = field(default_factory=dict)
    last_check: int = -1

    def level_of(self, op: Operation, operand_level: int) -> int:
        """Return the level of a stop, and record it for later stops.

        The result is at least the level of each earlier stop that must run before `op`. Equal levels suffice, since
        stops of one level run in program order:

        - A load of a global must not precede earlier stores to it. After a store to @g at level 1, a load of @g, which
          has no operands and could run at level -1, gets level 1.
        - A store must not precede earlier loads of the global and stores to it.
        - Checks keep their order. Read-backs of elements (READ) and copies of rows (SAVE) depend on their operands
          alone.

        Args:
            op: The stop.
            operand_level: The earliest level at which its operands are available.
        """
        level = operand_level
        if op.name == LOAD:
            name = name_of(op)
            level = max(level, self.last_store.get(name, -1))
            self.last_load[name] = max(level, self.last_load.get(name, -1))
        elif op.name == STORE:
            name = name_of(op)
            level = max(level, self.last_store.get(name, -1), self.last_load.get(name, -1))
            self.last_store[name] = level
        elif op.name not in (READ, SAVE):  # a check
            level = self.last_check = max(level, self.last_check)
        return level


class Segmentation:
    """Partition of the operations of a host function with control flow into segments and stops.

    A segment becomes a straight-line function. A stop is an operation that the interpreter of procedures executes, such
    as a read-back. The operations of a block have levels: segment 0 runs before the stops of level 0, these before
    segment 1, and so on. Stops of level -1 run before segment 0.

    Attributes:
        blocks: The blocks in reverse postorder.
        level: Operation → level in its block. Constants and terminators have none.
        segment_of: Operation → the segment of its level in its block; stops have none. The segment computes the
            operation, unless it is a view, which each segment that reads it recomputes.
        position_of: Operation → its position in the function, counting all operations of all blocks.
        partitions: Block → its segments and stops.
        needed: Values that segments must return, because stops or other segments read them.
    """

    def __init__(self, region: Region) -> None:
        """Partition the blocks of `region`, and determine the operations, inputs and outputs of each segment.

        First each operation gets a level, and with it a segment. Then the values that cross the border of a segment are
        determined: a value that a stop, a terminator or another segment reads is an output of the segment that computes
        it, and an input of the other segment.
        """
        self.blocks = reverse_postorder(region)
        # Filled by `_partition`: the level of each operation, and the segment of each that is no stop.
        self.level: dict[Operation, int] = {}
        self.segment_of: dict[Operation, Segment] = {}
        self.position_of = {op: n for n, op in enumerate(op for block in self.blocks for op in block.ops)}
        self.partitions = {block: self._partition(block) for block in self.blocks}
        # Values that segments must return. The loop below adds those that stops and terminators read; `_complete` adds
        # those that other segments read.
        self.needed: set[SSAValue] = set()
        for block in self.blocks:
            for op in block.ops:
                if is_stop(op) or op.next_op is None:  # a stop or the terminator: the host reads its operands
                    self._require_as_outputs(op.operands)
        segments = [s for partition in self.partitions.values() for s in partition.segments.values()]
        for segment in segments:
            self._complete(segment)
        for segment in segments:  # `needed` is complete only after the loop above has seen all segments
            segment.outputs = [r for op in segment.own for r in op.results if r in self.needed]

    def _partition(self, block: Block) -> BlockPartition:
        """Divide a block into segments and stops: each operation gets the earliest level at which it can run.

        A stop is an operation that the host executes itself, such as a read-back of an element. The other operations
        of one level are a segment, which becomes one function. Segment 0 runs before the stops of level 0, these before
        segment 1, and so on; stops of level -1 run before segment 0. For example:

            %a = flow.dispatch @ex::@a(%x)          segment 0
            %n = tensor.extract %a[%i]              stop of level 0: it reads a result of segment 0
            %b = flow.dispatch @ex::@b(%x)          segment 0: it does not depend on %n
            %c = flow.dispatch @ex::@c(%b, %n)      segment 1: it reads the result of a stop of level 0

        Accesses to a global and checks also keep their order (`_StopOrder.level_of`).
        """
        partition = BlockPartition(block)
        order = _StopOrder()
        for op in block.ops:
            if op.next_op is None or info_of(op).constant:  # the terminator, and constants, which segments recompute
                continue
            level = self._level_of_operands(op, block)
            if is_stop(op):
                level = order.level_of(op, operand_level=level)
                partition.stops.setdefault(level, []).append(op)
            else:
                segment = partition.segments.setdefault(level, Segment())
                self.segment_of[op] = segment
                if not _is_view(op):  # each segment that reads a view recomputes it
                    segment.own.append(op)
            self.level[op] = level
        return partition

    def _level_of_operands(self, op: Operation, block: Block) -> int:
        """Return the earliest level at which the operands of an operation are available.

        A level is at most one segment (operations of one straight-line function), and the stops that run after it:
        operations of the host between two segments, such as a read-back. Level -1 has only stops, which run before
        segment 0.
        """
        op_is_stop = is_stop(op)
        level = -1 if op_is_stop else 0
        for value in op.operands:
            source = definition(value)  # None for an argument of a block
            # Constants have no level, and operations of other blocks have run before.
            if source is not None and source in self.level and source.parent is block:
                # A segment precedes the stops of its level, and stops of one level run in program order.
                runs_at_next_level = is_stop(source) and not op_is_stop
                level = max(level, self.level[source] + (1 if runs_at_next_level else 0))
        return level

    def _require_as_outputs(self, values: Iterable[SSAValue]) -> None:
        """Record that stops or a terminator read these values, so that segments must return them."""
        for value in values:
            if is_constant(value):
                continue
            self.needed.add(value)
            source = definition(value)
            # A view is among a segment's `own` operations only if the segment returns it; readers recompute it.
            if source is not None and _is_view(source):
                segment = self.segment_of[source]  # the segment of the view's level
                if source not in segment.own:
                    segment.own.append(source)

    def _complete(self, segment: Segment) -> None:
        """Set `ops` and `inputs` of a segment, and record the inputs as outputs that other segments need.

        `ops` are its own operations, with the constants and views that they read, directly or through other views. For
        example, another segment computes %a, and this one has the operation %c alone:

            %v = tensor.cast %a                     a view: it shares the memory of %a
            %c = flow.dispatch @ex::@c(%v)          ops: %v and %c; inputs: %a
        """
        # Collect the constants and views that the operations read, and those that these views read.
        members = set(segment.own)
        pending = list(segment.own)
        while pending:
            for value in pending.pop().operands:
                source = definition(value)
                if source is not None and source not in members and _is_repeated(source):
                    members.add(source)
                    pending.append(source)
        # Sort them into program order. The inputs are the values that no member computes.
        segment.own.sort(key=self.position_of.__getitem__)
        segment.ops = sorted(members, key=self.position_of.__getitem__)
        inputs = (v for op in segment.ops for v in op.operands if definition(v) not in members)
        segment.inputs = list(dict.fromkeys(inputs))
        self.needed.update(segment.inputs)


def reverse_postorder(region: Region) -> list[Block]:
    """Return the reachable blocks of a region in reverse postorder: each block precedes those that it dominates.

    A depth-first search appends a block after all its successors; the reversed list begins with the entry block.
    """
    first = region.blocks.first
    if first is None:
        return []
    order: list[Block] = []
    seen = {first}
    stack = [(first, iter(successors(first)))]
    while stack:
        block, unvisited = stack[-1]
        following = next(unvisited, None)
        if following is None:  # all successors are in `order`
            order.append(block)
            stack.pop()
        elif following not in seen:
            seen.add(following)
            stack.append((following, iter(successors(following))))
    return order[::-1]
