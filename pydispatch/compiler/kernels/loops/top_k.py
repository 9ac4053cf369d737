"""Lowering of `pyd.top_k`: one pass over a row retains its first elements in a heap, which is sorted at the end.

The root of the heap is the last of the retained elements. Most elements of a long row do not precede it, so the row is
compared with the root in vectors, and only vectors with an element that precedes it are visited element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    # Store the sorted elements. Results that the kernel does not return have no buffer.
    stored = [(n, result) for n, result in enumerate(op.res) if result in buffers]

    def store(builder: Builder, column: Index, _: list[SSAValue]) -> list[SSAValue]:
        """Store the element at a position of the sorted heap: its values and its column are those of the results."""
        element = heap.load(builder, column)
        for n, result in stored:
            value, type_ = element[n], tensor_type(result).element_type
            if value.type != type_:  # the column, an index, where the result has other integers
                value = builder.add(arith.IndexCastOp(value, type_))
            elements.store(builder, value, buffers[result], [*row, column])
        return []

    build.loop(0, op.count, [], store)


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

        def fill(builder: Builder, column: Index, _: list[SSAValue]) -> list[SSAValue]:
            """Copy the element at a column to the heap."""
            self.heap.store(builder, column, self._read(builder, column))
            return []

        build.loop(0, count, [], fill)
        self.heap.order(build)
        self._visit_blocks(build, count, self.size, WIDTHS)

    def _read(self, build: Builder, column: Index) -> list[SSAValue]:
        """Emit the loads of the element in a column: a value of each operand, and the column itself.

        A column that is not known to be in the row is clamped, so that the loads read no other memory.
        """
        in_row = build.clamp(column, self.size)
        values = [self.elements.at(build, x, [*self.row, in_row]) for x in self.op.inputs]
        return [*values, build.value(column)]

    def _visit(self, build: Builder, column: Index, _: list[SSAValue]) -> list[SSAValue]:
        """Emit the visit of one column: its element replaces the root if it comes before the root.

        Columns are not compared: among equal elements the one in the heap is first, as its column is lower.
        """
        element = self._read(build, column)
        enters = self.heap.before(build, element, self.heap.load(build, 0))
        build.when(enters, lambda inner: self.heap.sift_down(inner, element, start=0, size=self.op.count))
        return []

    def _visit_blocks(self, build: Builder, low: Index, high: Index, widths: Sequence[int]) -> None:
        """Emit the visits of the columns `low` to `high`, which skip blocks without an element that precedes the root.

        The heap has the first `op.count` elements of the row so far, and its root is the last of them in the order: an
        element that does not precede the root is none of the results. With the widths (64, 16), 64 elements are
        compared with the root at once. If one of them precedes it, each 16 of them are compared again, and only blocks
        of 16 with such an element are visited element by element.

        Args:
            build: Receives the code.
            low, high: Half-open range of the columns.
            widths: Elements of a block, then of the smaller blocks within it, and so on; empty to visit all columns.
        """
        if not widths:
            build.loop(low, high, [], self._visit, index_below=self.size)
            return
        width = widths[0]

        def block(inner: Builder, start: Index, _: list[SSAValue]) -> list[SSAValue]:
            """Visit the elements of the block from `start` on, in narrower blocks, if one of them comes before the
            heap's root.
            """
            root = self.heap.load(inner, 0)

            def compare(code: Builder, offset: Index, carried: list[SSAValue]) -> list[SSAValue]:
                """Return whether the element at an offset in the block, or an earlier one, comes before the root."""
                enters = self.heap.before(code, self._read(code, code.plus(start, offset)), root)
                return [code.add(arith.OrIOp(carried[0], enters))]

            (has_entering,) = inner.loop(0, width, [_truth(inner, 0)], compare)
            inner.when(has_entering, lambda hit: self._visit_blocks(hit, start, hit.plus(start, width), widths[1:]))
            return []

        # The columns in whole blocks, then the remaining ones one by one.
        end_of_blocks = build.plus(low, build.times(build.quotient(build.minus(high, low), width), width))
        build.loop(low, end_of_blocks, [], block, step=width, index_below=self.size)
        build.loop(end_of_blocks, high, [], self._visit, index_below=self.size)


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
        """Allocate the heap: on the stack of an invocation if `build` is in a parallel loop, else once for all rows."""
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

    def before(self, build: Builder, lhs: Sequence[SSAValue], rhs: Sequence[SSAValue]) -> SSAValue:
        """Emit the comparator of the operation: whether the element `lhs` comes before `rhs`, an i1."""
        # The comparator reads the values of both operands in turn, and not the column, the last value of an element.
        pairs = [value for pair in zip(lhs[:-1], rhs[:-1], strict=True) for value in pair]
        mapping: dict[SSAValue, SSAValue] = dict(zip(self.op.before.block.args, pairs, strict=True))
        (comes_before,) = clone_block(self.elements, build, self.op.before.block, mapping, point=[])
        return comes_before

    def precedes(self, build: Builder, lhs: Sequence[SSAValue], rhs: Sequence[SSAValue]) -> SSAValue:
        """Emit whether `lhs` precedes `rhs`: by the comparator, and by column if neither comes before the other."""
        lhs_column, rhs_column = lhs[-1], rhs[-1]  # an element is its values, then its column
        is_left = build.add(arith.CmpiOp(lhs_column, rhs_column, "ult"))
        follows = self.before(build, rhs, lhs)
        ties = build.add(arith.AndIOp(is_left, build.add(arith.XOrIOp(follows, _truth(build, 1)))))
        return build.add(arith.OrIOp(self.before(build, lhs, rhs), ties))

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

        def step(inner: Builder, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit one level: move the later of the two children up if the element precedes it, else end the loop.

            Of two elements, the later one is preceded by the other in the order of the operation. Parents in the heap
            are later than their children.

            `carried` is the position that the element would get, and that of its left child.
            """
            hole, left = carried
            # Without a right child, the left one is compared with itself.
            right = inner.least(inner.plus(left, 1), inner.minus(size, 1))
            is_right_later = self.precedes(inner, self.load(inner, left), self.load(inner, right))
            chosen = arith.SelectOp(is_right_later, inner.value(right), left)
            # The position is selected, and the child loaded again: LLVM emits a conditional move for integers. For
            # the values of a child, which may be floats, it would emit a branch, which CPUs cannot predict.
            chosen.attributes[UNPREDICTABLE] = UnitAttr()
            later_child = inner.add(chosen)  # position of the child that the other one precedes
            child = self.load(inner, later_child)
            moves = self.precedes(inner, element, child)
            inner.when(moves, lambda code: self.store(code, hole, child))
            next_left = inner.value(inner.plus(inner.times(later_child, 2), 1))
            return [
                inner.add(arith.SelectOp(moves, later_child, hole)),
                inner.add(arith.SelectOp(moves, next_left, inner.value(size))),  # `size` ends the loop
            ]

        # Go down while the left child, the second carried value, is in the heap.
        first = build.plus(build.times(start, 2), 1)
        initial = [build.value(start), build.value(first)]
        hole, _ = _repeat(build, initial, lambda inner, carried: inner.less(carried[1], size), step)
        self.store(build, hole, element)

    def order(self, build: Builder) -> None:
        """Emit the code that makes a heap of elements in any order: sift down each parent, the last one first."""

        def step(inner: Builder, index: Index, _: list[SSAValue]) -> list[SSAValue]:
            """Make a heap of the subtree of a parent; parents are visited from the last one on, at count / 2 - 1."""
            parent = inner.minus(self.op.count // 2 - 1, index)
            self.sift_down(inner, self.load(inner, parent), parent, self.op.count)
            return []

        build.loop(0, self.op.count // 2, [], step)

    def sort(self, build: Builder) -> None:
        """Emit the sort of the heap: repeatedly exchange its root with the element at its last position.

        The root is the last element of the heap in the order of the operation. The exchange puts it into its final
        position, and the heap then ends one position earlier.
        """

        def step(inner: Builder, index: Index, _: list[SSAValue]) -> list[SSAValue]:
            """Exchange the root with the element at the last position, and make a heap of those before it again."""
            last = inner.minus(self.op.count - 1, index)
            element = self.load(inner, last)
            self.store(inner, last, self.load(inner, 0))
            self.sift_down(inner, element, start=0, size=last)
            return []

        build.loop(0, self.op.count - 1, [], step)


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
