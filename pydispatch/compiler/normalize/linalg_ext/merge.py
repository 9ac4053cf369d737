"""Stable sorting of rows by merging: each pass makes runs of twice the length.

A run is a sorted sequence of elements of a row. A pass merges pairs of runs, block by block of its result. A block
finds by bisection where it begins in the two runs that it merges, and then takes the lesser of their next elements,
again and again. Blocks and rows are independent.

Functions emit code. Tensors have the shape (rows, n); of several tensors, an element is one value of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import IndexType, TensorType, UnitAttr, i64
from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.kernel import UNPREDICTABLE
from pydispatch.compiler.normalize.build import Build
from pydispatch.compiler.normalize.linalg_ext.code import Before, LoopBody, element_of, host_loop, recurrence
from pydispatch.compiler.normalize.linalg_ext.insertion import MOST_SELECTED, selected_rows
from pydispatch.compiler.normalize.linalg_ext.rows import MixedSize, as_value, blocks_of, joined_blocks, size_of
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.structure import shape_of

BLOCK = 256
"""Elements of a block: its bisection costs little beside them, and long rows have many blocks."""


def sorted_rows(
    build: Build, tensors: Sequence[SSAValue], before: Before, most_passes: int | None = None
) -> list[SSAValue]:
    """Sort the rows of tensors, (rows, n) each, together by merges, and return the sorted tensors.

    A run is a sorted part of a row. Pass 0 merges pairs of single elements to runs of 2, pass 1 these to runs of 4, and
    so on. Rows of the results have n elements or more, of which those beyond n are undefined.

    Args:
        build: Builder of the code.
        tensors: The tensors; element i of a row of all of them moves together.
        before: Function that emits whether one element (a value of each tensor) precedes another.
        most_passes: Maximum number of passes, each of which doubles the length of sorted runs; None to sort whole rows.
    """
    size = size_of(build, tensors[0], axis=1)
    if most_passes == 0 or (isinstance(size, int) and size < 2):
        return list(tensors)
    # Pass 0, whose results are the first operands of a loop over the other passes.
    block = _block(build, size)  # number of elements that are merged in sequence
    passes = _passes(build, size, most_passes)
    merged = _merged(build, tensors, size, block, build.index(0), before)

    def next_pass(inner: Build, pass_index: SSAValue, runs: list[SSAValue]) -> list[SSAValue]:
        return _merged(inner, runs, size, block, pass_index, before)

    return host_loop(build, 1, passes, merged, next_pass)


def _block(build: Build, size: MixedSize) -> MixedSize:
    """Return the number of elements of a block: the row size, at most BLOCK.

    A dynamic size may be 0. The block then has one element, because its length is a divisor.
    """
    if isinstance(size, int):
        return min(size, BLOCK)
    positive_size = build.add(arith.MaxSIOp(size, build.index(1))).result
    return build.add(arith.MinSIOp(positive_size, build.index(BLOCK))).result


def first_of_rows(build: Build, tensors: Sequence[SSAValue], before: Before, count: int) -> list[SSAValue]:
    """Return tensors whose rows begin with the first `count` elements, in order, of the rows of `tensors`.

    A few elements are selected in one pass. Otherwise runs (sorted parts of a row) are merged until they have `count`
    elements or more; each further pass retains only the first elements of each pair of runs, and so halves the length
    of a row. A short row is sorted as a whole.

    Args:
        build: Builder of the code.
        tensors: Tensors, (rows, n) each, that are ordered together.
        before: Function that emits whether one element precedes another.
        count: Number of elements.
    """
    length = 1 << (count - 1).bit_length()  # of a run: the least power of two that is not less than `count`
    size = size_of(build, tensors[0], axis=1)
    # Insertion selects at most a quarter of a row. If a run exceeds a quarter, a sort of the whole row costs no more.
    if isinstance(size, int) and count <= min(MOST_SELECTED, size // 4):
        return selected_rows(build, tensors, size, before, count)
    if isinstance(size, int) and size < 4 * length:
        return sorted_rows(build, tensors, before)
    doublings = length.bit_length() - 1  # log2(length): runs of 1 become runs of `length`
    runs = sorted_rows(build, tensors, before, most_passes=doublings)
    rows = shape_of(tensors[0].type)[0]
    carried_types = [TensorType(element_of(t), [rows, DYNAMIC]) for t in runs]  # each pass changes the length of rows
    runs = [build.add(tensor.CastOp(t, type_)).dest for t, type_ in zip(runs, carried_types, strict=True)]

    def next_pass(inner: Build, _: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit a pass that halves the rows; `carried` is the number of elements of a row, then the tensors."""
        row_size, *tensors = carried
        return _halved(inner, tensors, row_size, length, before)

    run_count = blocks_of(build, size, length)
    passes = _passes(build, run_count, most=None)  # until one run is left
    _, *selected = host_loop(build, 0, passes, [as_value(build, size), *runs], next_pass)
    return selected


def _halved(build: Build, tensors: Sequence[SSAValue], size: SSAValue, length: int, before: Before) -> list[SSAValue]:
    """Replace each pair of sorted runs of `length` elements by a run of the pair's first `length` elements.

    No more elements of the pair can be among the first `length` elements of the row, which `first_of_rows` selects.
    With a length of 2, a row of the runs [1 4], [2 3], [0] becomes [1 2], [0]: 3 elements. A `pyd.recurrence` computes
    the tensors with the shape (rows, pairs, length), whose last two dimensions are then joined.

    Args:
        build: Builder of the code.
        tensors: Tensors, (rows, n) each.
        size: Number of elements of a row, at most n; its last run may be shorter, and have no other one to form a pair.
        length: Number of elements of a run.
        before: Function that emits whether one element precedes another.

    Returns:
        The new number of elements of a row, and the tensors. Their rows may be longer: elements after that number are
        undefined.
    """
    pairs = _RunPairs(tensors, size, run_length=build.index(length), pair_length=build.index(2 * length), before=before)
    pair_count = build.add(arith.CeilDivUIOp(size, pairs.pair_length)).result
    rows = shape_of(tensors[0].type)[0]
    dynamic = [*([build.dim(tensors[0], 0)] if rows == DYNAMIC else []), pair_count]
    types = [TensorType(element_of(t), [rows, DYNAMIC, length]) for t in tensors]
    merged = recurrence(build, types, dynamic, along=2, begin_row=pairs.begin_row, step=pairs.step)
    halved = [joined_blocks(build, t) for t in merged]
    return [pairs.size_of_halves(build, pair_count), *halved]


@dataclass(frozen=True)
class _RunPairs:
    """Pairs of adjacent sorted runs in the rows of some tensors.

    Attributes:
        tensors: Tensors, (rows, n) each, whose elements move together.
        size: Number of elements of a row; its last run may be shorter, and have no other one to form a pair.
        run_length: Number of elements of a run.
        pair_length: Number of elements of a pair.
        before: Function that emits whether one element precedes another.
    """

    tensors: Sequence[SSAValue]
    size: SSAValue
    run_length: SSAValue
    pair_length: SSAValue
    before: Before

    def begin_row(self, code: LoopBody, index: list[SSAValue]) -> list[SSAValue]:
        """Emit the columns at which the two runs of a pair start; `index` is (row, pair).

        The first run starts at pair * `pair_length`, the second `run_length` later, but not after the `size` elements
        of the row: the last pair may have only one run.
        """
        _row, pair_index = index
        start = code.times(pair_index, self.pair_length)
        return [start, code.minimum(code.plus(start, self.run_length), self.size)]

    def step(
        self, code: LoopBody, index: list[SSAValue], carried: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Emit one step that merges the two runs of a pair; return (next columns in both runs, merged element).

        `index` is (row, pair, element), and `carried` the columns of the next elements of both runs. The runs are
        [start, middle) and [middle, end), of `run_length` elements each unless the `size` elements of the row end
        before.
        """
        left, right = carried
        row, pair_index, _ = index
        start = code.times(pair_index, self.pair_length)
        middle = code.minimum(code.plus(start, self.run_length), self.size)
        end = code.minimum(code.plus(start, self.pair_length), self.size)

        def read(column: SSAValue) -> list[SSAValue]:
            """Emit the read of the elements of all tensors at a column of the row."""
            return [code.extract(t, [row, column]) for t in self.tensors]

        return _merge_step(code, read, self.before, (left, middle), (right, end))

    def size_of_halves(self, build: Build, pair_count: SSAValue) -> SSAValue:
        """Emit the number of elements of a row of the merged runs: `run_length` of each pair, or fewer of the last one.

        The last pair has 1 to `pair_length` elements, and leaves at most `run_length` of them.
        """
        whole_pairs = build.add(arith.SubiOp(pair_count, build.index(1))).result
        before_last = build.add(arith.MuliOp(whole_pairs, self.pair_length)).result
        last_pair = build.add(arith.SubiOp(self.size, before_last)).result
        last_run = build.add(arith.MinSIOp(last_pair, self.run_length)).result
        return build.add(arith.AddiOp(build.add(arith.MuliOp(whole_pairs, self.run_length)).result, last_run)).result


def _merge_step(
    code: LoopBody, read: Callable[[SSAValue], list[SSAValue]], before: Before, left_run: tuple[SSAValue, SSAValue],
    right_run: tuple[SSAValue, SSAValue],
) -> tuple[list[SSAValue], list[SSAValue]]:  # fmt: skip
    """Emit one step of a merge of two runs; of equal elements those of the left run come first.

    Return the positions in the two runs after the step, and the next element of the merged run.

    Args:
        code: Receives the code.
        read: Function that emits the read of an element at a position.
        before: Function that emits whether one element precedes another.
        left_run: (position, end) of the left run.
        right_run: (position, end) of the right run.
    """
    (left, left_end), (right, right_end) = left_run, right_run
    left_element, right_element = read(left), read(right)
    # The next element is that of the right run if this run has one, and it is less or the left run has none.
    left_is_over = code.opposite(code.less(left, left_end))
    right_is_next = code.add(arith.OrIOp(left_is_over, before(code, right_element, left_element)))
    takes_right = code.both(code.less(right, right_end), right_is_next)
    # The position is selected, and the element read again: LLVM emits a conditional move for integers. For the
    # elements, which may be floats, it would emit a branch, which CPUs cannot predict.
    position = arith.SelectOp(takes_right, right, left)
    position.attributes[UNPREDICTABLE] = UnitAttr()
    one = code.index(1)
    next_left = code.select(takes_right, left, code.plus(left, one))
    next_right = code.select(takes_right, code.plus(right, one), right)
    return [next_left, next_right], read(code.add(position))


def _passes(build: Build, size: MixedSize, most: int | None) -> MixedSize:
    """Return how many times runs of one element must double in length until one run has `size` elements.

    It is ceil(log2(size)), at most `most` unless that is None, and at least 1 if the size is dynamic.
    """
    if isinstance(size, int):
        needed = (size - 1).bit_length()
        return needed if most is None else min(needed, most)
    # ceil(log2(size)) is the bit length of size - 1: 64 - its leading zeros. A size of at least 2 gives at least 1.
    size = build.add(arith.MaxSIOp(size, build.index(2))).result
    size_minus_1 = build.add(arith.IndexCastOp(build.add(arith.SubiOp(size, build.index(1))).result, i64)).result
    leading_zeros = build.add(math.CountLeadingZerosOp(size_minus_1)).result
    zeros = build.add(arith.IndexCastOp(leading_zeros, IndexType())).result
    passes = build.add(arith.SubiOp(build.index(64), zeros)).result
    return passes if most is None else build.add(arith.MinSIOp(passes, build.index(most))).result


def _merged(
    build: Build, tensors: Sequence[SSAValue], size: MixedSize, block: MixedSize, pass_index: SSAValue, before: Before
) -> list[SSAValue]:
    """Merge pairs of runs of 2 ** pass_index elements into one run each, and return the tensors.

    Pass 1 changes the row [1 5] [2 9] [0 3] [4 8] to [1 2 5 9] [0 3 4 8]. The result is computed in blocks, which need
    not end where a run ends: with blocks of 3 elements, the second one has 9 0 3. Rows of the results have the elements
    of all blocks, `size` or more; those beyond `size` are undefined.

    Args:
        build: Builder of the code.
        tensors: Tensors, whose rows begin with the `size` elements to merge.
        size: Number of elements of a row.
        block: Number of elements of a row that are merged in sequence; blocks are merged in parallel.
        pass_index: Index of the pass, from 0.
        before: Function that emits whether one element precedes another.
    """
    # The shape of the results: (rows, blocks, elements of a block), whose last two dimensions are joined at the end.
    run_length = build.add(arith.ShLIOp(build.index(1), pass_index)).result
    row_length, block_length = as_value(build, size), as_value(build, block)
    blocks = blocks_of(build, size, block)
    rows = shape_of(tensors[0].type)[0]
    shape = [rows, *(DYNAMIC if isinstance(n, SSAValue) else n for n in (blocks, block))]
    dynamic = [build.dim(tensors[0], 0)] if rows == DYNAMIC else []
    dynamic += [n for n in (blocks, block) if isinstance(n, SSAValue)]
    merge = _MergePass(
        tensors=tensors, before=before, pass_index=pass_index, run_length=run_length, row_length=row_length,
        block_length=block_length,
    )  # fmt: skip
    types = [TensorType(element_of(t), shape) for t in tensors]
    return [
        joined_blocks(build, t)
        for t in recurrence(build, types, dynamic, along=2, begin_row=merge.begin, step=merge.step)
    ]


@dataclass(frozen=True)
class _MergePass:
    """Emitter of one pass of a merge sort of rows: a recurrence over (row, block, element of the block).

    It carries four columns of the row: the next element of the first and of the second run, and the ends of both.

    Attributes:
        tensors: The tensors, (rows, n) each, which are merged together.
        before: Function that emits whether one element precedes another.
        pass_index: Index of the pass, from 0.
        run_length: Elements of a run before the pass, 2 ** pass_index.
        row_length: Elements of a row.
        block_length: Elements of a block.
    """

    tensors: Sequence[SSAValue]
    before: Before
    pass_index: SSAValue
    run_length: SSAValue
    row_length: SSAValue
    block_length: SSAValue

    def begin(self, code: LoopBody, index: list[SSAValue]) -> list[SSAValue]:
        """Emit the carried values with which the block at (row, block) begins: the columns of the next element of the
        left and of the right run, and the ends of both.

        Runs [start, middle) and [middle, end) form a pair. A block that begins inside of a merged pair continues after
        the elements of both runs that precede it there.
        """
        row, block = index
        column = code.times(block, self.block_length)  # at which the block begins
        pair_length = code.times(self.run_length, code.index(2))
        start = code.times(code.add(arith.DivUIOp(column, pair_length)), pair_length)  # of the pair with this column
        middle = code.minimum(code.plus(start, self.run_length), self.row_length)
        end = code.minimum(code.plus(start, pair_length), self.row_length)
        preceding = code.minus(column, start)
        left_count = self._count_of_left(code, row, (start, middle, end), preceding)
        left = code.plus(start, left_count)
        right = code.plus(middle, code.minus(preceding, left_count))
        return [left, right, middle, end]

    def _count_of_left(
        self, code: LoopBody, row: SSAValue, runs: tuple[SSAValue, SSAValue, SSAValue], preceding: SSAValue
    ) -> SSAValue:
        """Emit a binary search for how many of the first `preceding` elements of a merged pair come from its left run.

        A block that begins inside of a merged pair continues the two runs from there. For the runs [1 4 7] and [2 3 9],
        the first 4 elements are 1 2 3 4: the count is 2.

        Args:
            code: Receives the code.
            row: Index of the row.
            runs: Columns of the pair: the start of the left run, the start of the right run, which is the end of the
                left one, and the end of the right run.
            preceding: Number of elements of the merged pair before the block.
        """
        start_of_left, start_of_right, end = runs

        def bisect(inner: LoopBody, _: SSAValue, bounds: list[SSAValue]) -> list[SSAValue]:
            """Emit one step of the search: halve the interval from `low` to `high`, both included, of possible counts.

            Nothing changes if they are equal. The variables of `_count_of_left` state the runs and the row.
            """
            low, high = bounds
            half = inner.add(arith.ShRUIOp(inner.plus(low, high), inner.index(1)))
            # Assume that `half` of the `preceding` elements come from the left run. The last one from the right run is
            # then at column start_of_right + (preceding - half) - 1, and the next one of the left run at
            # start_of_left + half. If the former precedes the latter, the count is at most `half`, else it is larger.
            right = inner.minus(inner.plus(start_of_right, inner.minus(preceding, inner.index(1))), half)
            right_elements = self._read(inner, row, right)
            left_elements = self._read(inner, row, inner.plus(start_of_left, half))
            is_at_most_half = self.before(inner, right_elements, left_elements)
            is_open = inner.less(low, high)
            raises_low = inner.both(is_open, inner.opposite(is_at_most_half))
            lowers_high = inner.both(is_open, is_at_most_half)
            new_low = inner.select(raises_low, inner.plus(half, inner.index(1)), low)
            new_high = inner.select(lowers_high, half, high)
            return [new_low, new_high]

        # At most all elements of a run precede: the count is at least `preceding` - the length of the right run, and at
        # most the length of the left run. Runs have 2 ** pass_index elements: after pass_index + 1 halvings, `low` and
        # `high` are equal.
        low = code.maximum(code.minus(preceding, code.minus(end, start_of_right)), code.index(0))
        high = code.minimum(preceding, code.minus(start_of_right, start_of_left))
        halvings = code.plus(self.pass_index, code.index(1))
        count, _ = code.loop(halvings, [low, high], bisect)
        return count

    def step(
        self, code: LoopBody, index: list[SSAValue], carried: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Emit one merge step of the runs [left, middle) and [right, end); return the carried values and the element.

        The row has pairs of runs of `run_length` elements, and `index` is (row, block, element of the block): a block
        computes part of the merged row, and may cross pairs. If the element is at `end`, the pair is complete: the step
        first moves on to the runs of the next pair. The carried values are (left, right, middle, end).
        """
        left, right, middle, end = carried
        row, block, element = index
        column = code.plus(code.times(block, self.block_length), element)
        # If the pair is complete, the next one starts at `end`: its runs are [end, next_middle), [next_middle, ...).
        is_complete = code.equal(column, end)
        next_middle = code.minimum(code.plus(end, self.run_length), self.row_length)
        left, middle = code.select(is_complete, end, left), code.select(is_complete, next_middle, middle)
        right = code.select(is_complete, next_middle, right)
        end = code.select(is_complete, code.minimum(code.plus(next_middle, self.run_length), self.row_length), end)
        next_positions, elements = _merge_step(
            code, lambda column: self._read(code, row, column), self.before, (left, middle), (right, end)
        )
        return [*next_positions, middle, end], elements

    def _read(self, code: LoopBody, row: SSAValue, column: SSAValue) -> list[SSAValue]:
        """Emit the read of the elements of all tensors at one position."""
        return [code.extract(t, [row, column]) for t in self.tensors]
