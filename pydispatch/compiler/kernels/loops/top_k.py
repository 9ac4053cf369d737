"""Lowering of `pyd.top_k`: one pass over a row retains its first elements in a heap, which is sorted at the end.

The root of the heap is the last of the retained elements. Most elements of a long row do not precede it, so the row is
compared with the root in vectors, and only vectors with an element that precedes it are visited element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, UnitAttr, i1
from xdsl.ir import Block, Region, SSAValue

from pydispatch.compiler.kernel_ir.kernel import UNPREDICTABLE
from pydispatch.compiler.kernels.loops.nest_bytes import element_bytes_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.dialects.pyd.top_k import TopKOp

WIDTHS = (64, 16)
"""Elements of a block that is compared with the root at once, and of the smaller blocks that a block with an element
before the root is then cut into. Larger blocks skip more of a row where few elements precede the root; smaller ones
leave less to visit where some do."""

INSERTION_BYTES = 256
"""Cost estimate of an insertion into the heap, as the number of bytes that are copied in the same time."""


def top_k_bytes(elements: Elements, build: Builder, op: TopKOp) -> Index:
    """Estimate the cost of a row, as the number of bytes that are copied in the same time."""
    read = sum(map(element_bytes_of, op.inputs))
    return build.plus(build.times(elements.dims(op.inputs[0])[1], read), op.count * INSERTION_BYTES)


def write_top_k(
    elements: Elements, build: Builder, op: TopKOp, buffers: dict[SSAValue, SSAValue], row: Sequence[Index]
) -> None:
    """Emit the first elements of one row in sorted order, and their stores.

    With `op.count` = 2 and the ascending order, the row [5, 1, 4, 2] has the results [1, 2] and their columns [1, 3].

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        op: The operation.
        buffers: For each result that is stored, its buffer.
        row: Index of the row, as a list of one index: operands are matrices, whose rows are sorted.
    """
    # A heap keeps the first `op.count` elements that were visited so far; then it is sorted.
    heap = _Heap(elements, op, build)
    _Scan(elements, op, heap, row).run(build)
    heap.sort(build)

    def store_element(builder: Builder, position: Index) -> None:
        """Emit the stores of the element at a position of the sorted heap in column `position` of this row of results.

        The element consists of one value for each result: those of the operands, and its column in their row.
        """
        for value, result in zip(heap.load(builder, position), op.res, strict=True):
            if result in buffers:  # the kernel returns it
                type_ = tensor_type(result).element_type
                is_column = value.type != type_  # an `index` in the heap, another integer type in the result
                stored = builder.add(arith.IndexCastOp(value, type_)) if is_column else value
                elements.store(builder, stored, buffers[result], [*row, position])

    build.sequential(0, op.count, store_element)


class _Scan:
    """Emitter of the pass over the elements of one row, which leaves its first `op.count` elements in a heap.

    Attributes:
        elements: Tensors of the kernel.
        op: The operation.
        heap: The heap, whose root is the last of its elements in the order of the operation.
        row: Index of the row, as a list.
        size: Number of elements of the row, at least `op.count`.
    """

    def __init__(self, elements: Elements, op: TopKOp, heap: _Heap, row: Sequence[Index]) -> None:
        """Prepare the pass over `row`, which has as many elements as dimension 1 of the operation's first input."""
        self.elements, self.op, self.heap, self.row = elements, op, heap, row
        self.size = elements.dims(op.inputs[0])[1]

    def run(self, build: Builder) -> None:
        """Emit the pass: the leading elements fill the heap, then every element that precedes the root replaces it."""
        count = self.op.count

        def fill(builder: Builder, column: Index) -> None:
            """Copy the element at a column to the heap."""
            self.heap.store(builder, column, self._read(builder, column))

        build.sequential(0, count, fill)
        self.heap.order(build)
        self._visit_blocks(build, count, self.size, WIDTHS)

    def _read(self, build: Builder, column: Index) -> list[SSAValue]:
        """Emit the loads of the element in a column: a value of each operand, and the column itself.

        A column that is not known to be in the row is clamped, so that the loads read no other memory.
        """
        in_row = build.clamp(column, self.size)
        values = [self.elements.at(build, x, [*self.row, in_row]) for x in self.op.inputs]
        return [*values, build.value(column)]

    def _visit(self, build: Builder, column: Index) -> None:
        """Emit the visit of one column: its element replaces the root of the heap if it comes before the root.

        The columns of both need no comparison: columns are visited in ascending order, so that an element that is equal
        to the root comes after the root.
        """
        element = self._read(build, column)
        enters = self.heap.compare(build, element, self.heap.load(build, 0))
        build.when(enters, lambda inner: self.heap.sift_down(inner, element, start=0, size=self.op.count))

    def _visit_blocks(self, build: Builder, low: Index, high: Index, widths: Sequence[int]) -> None:
        """Emit the visits of the columns `low` to `high`, but skip blocks in which no element enters the heap.

        The heap has those `op.count` of the elements so far that come first in the order, and its root is the last of
        them. An element enters the heap if it precedes the root. With the widths (64, 16), 64 elements are compared
        with the root at once. If one of them enters, each 16 of the 64 are compared again. Only blocks of 16 in which
        an element enters are visited element by element.

        Args:
            build: Receives the code.
            low, high: Half-open range of the columns.
            widths: Elements of a block, then of the smaller blocks within it, and so on; empty to visit all columns.
        """
        if not widths:
            build.sequential(low, high, self._visit, index_below=self.size)
            return
        width = widths[0]

        def visit_block(inner: Builder, start: Index) -> None:
            """Emit the visits of the block of `width` columns from `start` on, if one of its elements enters the heap.

            The block is divided into blocks of the next smaller width.
            """
            has_entering = self._has_entering(inner, start, width)
            inner.when(has_entering, lambda b: self._visit_blocks(b, start, b.plus(start, width), widths[1:]))

        # The columns in whole blocks, then the remaining ones one by one.
        end_of_blocks = build.plus(low, build.times(build.quotient(build.minus(high, low), width), width))
        build.sequential(low, end_of_blocks, visit_block, step=width, index_below=self.size)
        build.sequential(end_of_blocks, high, self._visit, index_below=self.size)

    def _has_entering(self, build: Builder, start: Index, width: int) -> SSAValue:
        """Emit whether any element in the columns `start` to `start + width` comes before the root of the heap."""
        root = self.heap.load(build, 0)

        def visit(inner: Builder, offset: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit `carried[0]` or whether the element in column `start + offset` comes before the root."""
            enters = self.heap.compare(inner, self._read(inner, inner.plus(start, offset)), root)
            return [inner.add(arith.OrIOp(carried[0], enters))]

        false = _truth(build, 0)
        (has_entering,) = build.loop(0, width, [false], visit)
        return has_entering


class _Heap:
    """Emitter of a heap in memory: a binary tree whose parents do not precede their children.

    An element is a value of each operand of the operation, and its column in the row. The children of the element at
    position i are at 2 * i + 1 and 2 * i + 2; the root, at 0, is the last element in the order of the operation.

    Elements are stored in any order first, and `order` makes a heap of them. `sift_down` then replaces the root, as
    often as needed. `sort` ends the heap: it leaves the elements in the order of the operation.

    Attributes:
        elements: Tensors of the kernel.
        op: The operation.
        memory: For each value of an element, a buffer with `op.count` values.
    """

    def __init__(self, elements: Elements, op: TopKOp, build: Builder) -> None:
        """Allocate the heap of a row: on the stack if `build` is in a parallel loop, whose invocations compute rows.

        Else rows are computed one after the other, and share one heap in workgroup memory.
        """
        self.elements, self.op = elements, op
        types = [*(tensor_type(x).element_type for x in op.inputs), IndexType()]
        if build.in_parallel:  # rows of other invocations have heaps of their own
            self.memory = [build.add(memref.AllocaOp.get(type_, shape=[op.count])) for type_ in types]
        else:
            self.memory = [elements.fresh(type_, op.count) for type_ in types]

    def load(self, build: Builder, position: Index) -> list[SSAValue]:
        """Emit the loads of the element at a position."""
        return [load(build, buffer, position) for buffer in self.memory]

    def store(self, build: Builder, position: Index, element: Sequence[SSAValue]) -> None:
        """Emit the stores of an element at a position."""
        for value, buffer in zip(element, self.memory, strict=True):
            self.elements.store(build, value, buffer, [position])

    def compare(self, build: Builder, lhs: Sequence[SSAValue], rhs: Sequence[SSAValue]) -> SSAValue:
        """Emit the comparator of the operation, such as lhs < rhs, and return its result, an i1."""
        # The arguments of its block are lhs[0], rhs[0], lhs[1], rhs[1], ... without the column, the last value.
        arguments = [value for pair in zip(lhs[:-1], rhs[:-1], strict=True) for value in pair]
        mapping: dict[SSAValue, SSAValue] = dict(zip(self.op.before.block.args, arguments, strict=True))
        (comes_before,) = clone_block(self.elements, build, self.op.before.block, mapping, point=[])
        return comes_before

    def precedes(self, build: Builder, lhs: Sequence[SSAValue], rhs: Sequence[SSAValue]) -> SSAValue:
        """Emit whether `lhs` comes before `rhs` in the order of the results, in which equal elements keep their order.

        With the comparator "<": lhs < rhs or (not (rhs < lhs) and lhs.column < rhs.column).
        """
        lhs_column, rhs_column = lhs[-1], rhs[-1]  # an element is its values, then its column
        has_lower_column = build.add(arith.CmpiOp(lhs_column, rhs_column, "ult"))
        comes_after = self.compare(build, rhs, lhs)
        not_after = build.add(arith.XOrIOp(comes_after, _truth(build, 1)))
        precedes_equal = build.add(arith.AndIOp(has_lower_column, not_after))
        return build.add(arith.OrIOp(self.compare(build, lhs, rhs), precedes_equal))

    def sift_down(self, build: Builder, element: Sequence[SSAValue], start: Index, size: Index) -> None:
        """Emit the insertion of an element at position `start` or below it: children that it precedes move up.

        The element at `start` is overwritten. Elements that are later in the order of the operation are above others:
        to insert 5 at the root of the heap [9, 7, 8, 1], in ascending order, 8 moves up, and the heap is [8, 7, 5, 1].

        Args:
            build: Receives the code.
            element: The element: a value of each operand, and its column.
            start: The position.
            size: Number of elements of the heap.
        """

        def has_left_child(inner: Builder, carried: list[SSAValue]) -> SSAValue | bool:
            """Return whether the position of the left child, the second carried value, is in the heap."""
            return inner.less(carried[1], size)

        left = build.plus(build.times(start, 2), 1)
        initial = [build.value(start), build.value(left)]
        hole, _ = _repeat(build, initial, has_left_child, partial(self._sift_level, element, size))
        self.store(build, hole, element)

    def _sift_level(
        self, element: Sequence[SSAValue], size: Index, build: Builder, carried: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit one level of `sift_down`: the later child moves into the hole if `element` precedes it.

        The hole is the position that `element` would get. The later child is the one that the other child precedes.

        Args:
            element: The element that is inserted.
            size: Number of elements of the heap.
            build: Receives the code.
            carried: Position of the hole, and of its left child, which is in the heap.

        Returns:
            The next carried values. A left child at `size`, outside of the heap, ends the loop.
        """
        hole, left = carried
        later = self._later_child(build, left, size)
        later_child = self.load(build, later)
        moves_up = self.precedes(build, element, later_child)
        build.when(moves_up, lambda inner: self.store(inner, hole, later_child))
        next_left = build.value(build.plus(build.times(later, 2), 1))
        return [
            build.add(arith.SelectOp(moves_up, later, hole)),
            build.add(arith.SelectOp(moves_up, next_left, build.value(size))),
        ]

    def _later_child(self, build: Builder, left: SSAValue, size: Index) -> SSAValue:
        """Emit the position of the child that its sibling precedes, from that of the left child."""
        # Without a right child, the left one is compared with itself.
        right = build.least(build.plus(left, 1), build.minus(size, 1))
        is_right_later = self.precedes(build, self.load(build, left), self.load(build, right))
        # The position is selected, and the child loaded again: LLVM emits a conditional move for integers. For the
        # values of a child, which may be floats, it would emit a branch, which CPUs cannot predict.
        select_later = arith.SelectOp(is_right_later, build.value(right), left)
        select_later.attributes[UNPREDICTABLE] = UnitAttr()
        return build.add(select_later)

    def order(self, build: Builder) -> None:
        """Emit the code that makes a heap of elements in any order: sift down each parent, the last one first."""
        parent_count = self.op.count // 2  # the children of position i are at 2 * i + 1 and 2 * i + 2

        def order_subtree(inner: Builder, index: Index) -> None:
            """Emit the code that makes a heap of the subtree below parent number `parent_count - 1 - index`.

            The subtrees below its children are heaps already: parents are visited from the last one up to the root, 0.
            """
            parent = inner.minus(parent_count - 1, index)
            self.sift_down(inner, self.load(inner, parent), start=parent, size=self.op.count)

        build.sequential(0, parent_count, order_subtree)

    def sort(self, build: Builder) -> None:
        """Emit the sort of the heap: repeatedly exchange its root with the element at its last position.

        The root is the last element of the heap in the order of the operation. The exchange puts it into its final
        position, and the heap then ends one position earlier.
        """

        def exchange(inner: Builder, index: Index) -> None:
            """Emit exchange number `index`: of the root with the last element of a heap of `op.count - index` elements.

            The former root is then behind the end of the heap, which becomes shorter by one element.
            """
            last = inner.minus(self.op.count - 1, index)  # position of the last element
            element = self.load(inner, last)
            self.store(inner, last, self.load(inner, 0))
            # The element does not stay at the root: it sinks to a position where it precedes no child.
            self.sift_down(inner, element, start=0, size=last)

        build.sequential(0, self.op.count - 1, exchange)


def _truth(build: Builder, value: int) -> SSAValue:
    """Return the i1 constant `value`: 0 for false, 1 for true."""
    return build.pure(arith.ConstantOp(IntegerAttr(value, i1)))


def _repeat(
    build: Builder, carried: Sequence[SSAValue], goes_on: Callable[[Builder, list[SSAValue]], SSAValue | bool],
    step: Callable[[Builder, list[SSAValue]], Sequence[SSAValue]],
) -> list[SSAValue]:  # fmt: skip
    """Emit an `scf.while` that repeats `step` while `goes_on` holds, and return the final carried values.

    Args:
        build: The builder of the enclosing block.
        carried: The initial carried values.
        goes_on: Emits the condition, an i1 or a constant, from the carried values before a step.
        step: Emits an iteration from the carried values, and returns the next ones.
    """
    types = [value.type for value in carried]
    test, body = Block(arg_types=types), Block(arg_types=types)
    # An iteration must load what earlier ones have stored, so that its loads stay in it.
    testing, inner = build.nested(test, pins_loads=True), build.nested(body, pins_loads=True)
    condition = goes_on(testing, list(test.args))
    condition = _truth(testing, condition) if isinstance(condition, bool) else condition
    testing.add(scf.ConditionOp(condition, *test.args))
    inner.add(scf.YieldOp(*step(inner, list(body.args))))
    loop = scf.WhileOp(list(carried), types, Region(test), Region(body))
    build.add(loop)
    return list(loop.results)
