"""The first elements of rows by insertion: one pass over a row, which keeps a few elements in order in registers.

Functions emit code. Tensors have the shape (rows, n); of several tensors, an element is one value of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Region, SSAValue

from pydispatch.compiler.normalize.build import Build
from pydispatch.compiler.normalize.linalg_ext.code import Before, LoopBody, element_of, recurrence
from pydispatch.compiler.normalize.linalg_ext.rows import joined_blocks
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.structure import shape_of

MOST_SELECTED = 16
"""Maximum number of elements of a row that are selected by insertion: they stay in registers. More are selected by
merging sorted runs (`merge.py`)."""

SEGMENT = 1024
"""Minimum number of elements of a segment of a divided row. Elements are selected from the segments in parallel. In a
shorter segment, a larger share of the elements is inserted: the first ones are, as long as slots are free."""


def selected_rows(build: Build, tensors: Sequence[SSAValue], size: int, before: Before, count: int) -> list[SSAValue]:
    """Return the first `count` elements in order of each row, as tensors of (rows, count).

    A long row is divided into segments of at least `SEGMENT` (1024) elements. The first `count` elements of each
    segment are selected in parallel, and the function then calls itself to select from the elements of all segments:
    with a count of 5, from 50 elements for a row of 10,240.

    Args:
        build: Builder of the code.
        tensors: Tensors, (rows, n) each, that are ordered together.
        size: Number of elements n of a row.
        before: Function that emits whether one element precedes another.
        count: Number of elements to select.
    """
    segments, rows = max(1, size // SEGMENT), shape_of(tensors[0].type)[0]
    selection = _Selection(tensors=tensors, size=size, segments=segments, before=before, count=count)
    types = [TensorType(element_of(t), [rows, segments, count]) for t in tensors]
    dynamic = [build.dim(tensors[0], 0)] if rows == DYNAMIC else []
    # `select` computes the slots of a segment, its first elements; `take_first` stores them one by one.
    results = recurrence(build, types, dynamic, along=2, begin_row=selection.select, step=selection.take_first)
    selected = [joined_blocks(build, t) for t in results]
    if segments == 1:
        return selected
    # The recursion ends: each level divides the number of elements by SEGMENT / count or more.
    return selected_rows(build, selected, segments * count, before, count)


@dataclass(frozen=True)
class _Selection:
    """Emitter of the selection: a recurrence over (row, segment, selected element).

    It carries `count` slots in order, each with one value of each tensor. `select` fills them at the start of a
    segment, and each `take_first` stores one.

    Attributes:
        tensors: Tensors, (rows, n) each, that are ordered together.
        size: Number of elements n of a row.
        segments: Number of segments of a row; the last one may be longer.
        before: Function that emits whether one element precedes another.
        count: Number of elements to select from each segment.
    """

    tensors: Sequence[SSAValue]
    size: int
    segments: int
    before: Before
    count: int

    def select(self, code: LoopBody, index: list[SSAValue]) -> list[SSAValue]:
        """Emit the loop that selects the first elements of a segment, and return the slots that hold them.

        The `count` slots hold the selected elements in the order of `before`: the values of slot 0, one for each
        tensor, then those of slot 1. All segments of a row have the same length; the last one also has the remainder.

        index: The row and the number of the segment.
        """
        row, segment = index
        length = self.size // self.segments
        start = code.times(segment, code.index(length))
        is_last = code.equal(segment, code.index(self.segments - 1))
        steps = code.select(is_last, code.index(self.size - (self.segments - 1) * length), code.index(length))

        def step(inner: LoopBody, position: SSAValue, slots: list[SSAValue]) -> Sequence[SSAValue]:
            """Emit the insertion of the element at `position` of the segment into the slots, if it is among the first
            elements so far. The segment begins at column `start` of `row`.
            """
            element = [inner.extract(t, [row, inner.plus(start, position)]) for t in self.tensors]
            return self._insert_if_selected(inner, position, element, slots)

        # A loop needs initial values. Step i, for i below `count`, fills one more slot, so that it replaces them.
        initial_slots = [code.extract(t, [row, start]) for t in self.tensors] * self.count
        return code.loop(steps, initial_slots, step)

    def _insert_if_selected(
        self, code: LoopBody, position: SSAValue, element: list[SSAValue], slots: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit the insertion of an element if a slot is free, or if the element precedes the last slot.

        The slots are the first elements of a segment so far, in order, which a loop carries. Return the new slots.

        Args:
            code: Receives the code.
            position: Index of the element in its segment. This many elements were inserted before: slots from this
                index on are free.
            element: The element to insert: one value of each tensor.
            slots: The values of the first slot, then those of the others, in the order of `before`.
        """
        has_free_slot = code.less(position, code.index(self.count))
        last_slot = slots[-len(self.tensors) :]
        is_selected = code.add(arith.OrIOp(has_free_slot, self.before(code, element, last_slot)))
        then, other = LoopBody([]), LoopBody([])
        then.block.add_op(scf.YieldOp(*_inserted(then, self.before, position, element, slots)))
        other.block.add_op(scf.YieldOp(*slots))
        branch = scf.IfOp(is_selected, [v.type for v in slots], Region(then.block), Region(other.block))
        code.block.add_op(branch)
        return list(branch.results)

    def take_first(
        self, code: LoopBody, index: list[SSAValue], carried: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Return (the slots to carry on, the element to store in this step): the element is that in the first slot.

        The slots are rotated by one, so that the next step finds its element in the first slot, too.
        """
        first_slot, others = carried[: len(self.tensors)], carried[len(self.tensors) :]
        return others + first_slot, first_slot


def _inserted(
    code: LoopBody, before: Before, seen: SSAValue, new: list[SSAValue], carried: list[SSAValue]
) -> list[SSAValue]:
    """Emit the insertion of an element into the selected elements, after equal ones, and return as many as before.

    A 3 changes the slots 1 4 6 to 1 3 4: it takes the first slot that is free or whose element it precedes. The
    elements from there on move to the next slots, and the last one is dropped. Slot by slot:

        slot    is_placed    slot becomes    arriving at the next slot
        1       false        1               3
        4       true         3               4
        6       true         4               6, which is dropped

    `before` is no order if elements are NaN: the new element may precede slot 0 and not slot 1. `is_placed` stays true
    from slot 0 on, so that the new element is inserted only once.

    Args:
        code: Receives the code.
        before: Function that emits whether one element precedes another.
        seen: Number of elements inserted before this one: slots from this index on are free.
        new: The new element, one value of each tensor.
        carried: The slots of selected elements in order, each with one value of each tensor.
    """
    width, result = len(new), list[SSAValue]()
    arriving = new  # element that this slot gets if `is_placed`
    is_placed: SSAValue | None = None  # whether the new element is in this slot or in one before
    for i in range(0, len(carried), width):
        slot = carried[i : i + width]
        is_free = code.opposite(code.less(code.index(i // width), seen))
        precedes = code.add(arith.OrIOp(is_free, before(code, new, slot)))
        is_placed = precedes if is_placed is None else code.add(arith.OrIOp(is_placed, precedes))
        # The slot gets the arriving element, or keeps its own before the new element is placed.
        result += [code.select(is_placed, *pair) for pair in zip(arriving, slot, strict=True)]
        # The next slot gets the old element of this one, or the new element if it is not placed yet.
        arriving = [code.select(is_placed, *pair) for pair in zip(slot, new, strict=True)]
    return result
