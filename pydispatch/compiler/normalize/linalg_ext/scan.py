"""Rule that replaces `scan` by a recurrence along its dimension; few long rows are divided into parallel blocks.

Element i of a scan combines the elements 0 to i of its row (inclusive), or an initial value and the elements before i
(exclusive). The second result is the last element of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.normalize.build import Build, Row
from pydispatch.compiler.normalize.generics import generic
from pydispatch.compiler.normalize.linalg_ext.code import LoopBody, element_of, recurrence, require_tensors
from pydispatch.compiler.normalize.linalg_ext.rows import (
    blocks_of,
    collapsed_rows,
    expanded_rows,
    joined_blocks,
    size_of,
    sliced_rows,
)
from pydispatch.compiler.normalize.moves import projection
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.iree_linalg_ext.ordering import Scan
from pydispatch.ir.dialects.linalg.regions import IndexOp
from pydispatch.ir.dialects.linalg.structure import Structure, shape_of
from pydispatch.ir.op_info import Grouping, identity_of, info_of

BLOCK = 512
"""Number of elements of a block. Blocks are scanned in parallel. Their initial values are a sequential scan of one
total per block: larger blocks make it shorter, but fewer of them run in parallel."""

LONG_ROW = 4 * BLOCK
"""Elements of a row up to which blocks are too few to pay for combining them."""

FEW_ROWS = 64
"""Number of rows from which each is scanned in order. Fewer long rows are divided into blocks that run in parallel, but
read each element twice: for the total of its block, and for the results."""


def _scan(op: Operation, build: Build) -> None:
    """Replace a scan by loops.

    Few long rows are divided into blocks that run in parallel. Other rows are scanned in order, each by one loop.
    """
    assert isinstance(op, Scan)
    require_tensors(op)
    *outer_sizes, row_size = shape_of(op.inputs[0].type)
    has_few_rows = DYNAMIC not in outer_sizes and prod(outer_sizes) < FEW_ROWS  # an unknown number counts as many
    has_long_rows = row_size == DYNAMIC or row_size > LONG_ROW
    is_along_last_axis = op.along == len(outer_sizes)
    combine = _combining(op, build.reassociate)
    if combine is not None and is_along_last_axis and has_few_rows and has_long_rows:
        results = _in_blocks(op, build, combine)
    else:
        results = _in_order(op, build)
    # The second result, the last element of each row, is computed only if it is read.
    last = _last(op, build, results) if list(op.res[1].uses) else op.outputs[1]
    build.replace(results, last)


def _combining(op: Scan, reassociate: bool) -> Operation | None:
    """Return the operation that combines two values, if it is the only one of the body and may combine the values in
    any grouping; else None.

    reassociate: whether the rounding of floats may differ.
    """
    end = op.body.block.last_op
    assert end is not None
    value = end.operands[0]
    if not isinstance(value, OpResult) or len(list(op.body.block.ops)) != 2:  # the operation and the terminator
        return None
    inner, arguments = value.op, list(op.body.block.args)
    info = info_of(inner)
    may_regroup = info.grouping is Grouping.EXACT or (info.grouping is Grouping.ROUNDED and reassociate)
    combines_arguments = info.commutative and list(inner.operands) in (arguments, arguments[::-1])
    has_identity = identity_of(inner, value.type) is not None  # it fills the last block of a row
    return inner if may_regroup and combines_arguments and has_identity else None


def _in_order(op: Scan, build: Build) -> SSAValue:
    """Scan each row sequentially from its first element, and return the results.

    With addition, the row 1 2 3 has the inclusive scan 1 3 6, and the exclusive scan 0 1 3 for the initial value 0.
    """
    values, (out, initial) = op.inputs[0], op.outputs
    assert isinstance(out.type, TensorType)

    def begin_row(code: LoopBody, row: list[SSAValue]) -> list[SSAValue]:
        """Emit the value that is carried into a row of the scan `op`: the row's element of `initial`.

        An inclusive scan has no initial value: a 0 is carried. `step` replaces its combination with the first element
        by the element itself.
        """
        if op.is_inclusive:
            return [code.add(arith.ConstantOp(zero_attribute(element_of(out))))]
        return [code.extract(initial, row)]

    def step(code: LoopBody, index: list[SSAValue], carried: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        """Emit one step of the scan `op` along a row; return (values to carry on, result at `index`).

        The value carried on combines the elements of the row up to that at `index` in `values`. It is also the result
        of an inclusive scan. The result of an exclusive scan is the carried value without this element.
        """
        value = code.extract(values, index)
        (combined,) = code.inline(op.body, [carried[0], value])
        if not op.is_inclusive:
            return [combined], carried
        # The first element of a row is not combined with the carried 0.
        combined = code.select(code.equal(index[op.along], code.index(0)), value, combined)
        return [combined], [combined]

    return recurrence(build, [out.type], build.dynamic_dims(values), op.along, begin_row, step)[0]


def _in_blocks(op: Scan, build: Build, combining: Operation) -> SSAValue:
    """Scan rows in blocks, and return the results: compute the total of each block, its initial value, then the
    elements.

    combining: the operation that combines two values.
    """
    scan = _BlockScan.of(op, build, combining)
    starts = scan.starts(scan.totals())
    results = joined_blocks(build, scan.results(starts))
    results = sliced_rows(build, results, size_of(build, scan.values, axis=1))
    return expanded_rows(build, results, shape_of(op.outputs[0].type), build.dynamic_dims(op.inputs[0]))


@dataclass(frozen=True)
class _BlockScan:
    """Emitter of a scan in blocks. Call `totals`, then `starts`, then `results`.

    Blocks have BLOCK elements. Elements that the last block of a row has after the row's end are the identity of the
    combining operation, and change nothing.

    Attributes:
        op: The scan.
        build: Builder of the code.
        values: The scanned tensor, with its outer dimensions collapsed: (rows, n).
        neutral: Identity of the combining operation.
        size: Number of elements of a row, n.
        shape: Numbers of rows and of blocks in a row, each DYNAMIC if it is not known.
        dynamic: The dynamic sizes of `shape`: empty, or the number of blocks in a row.
    """

    op: Scan
    build: Build
    values: SSAValue
    neutral: IntegerAttr | FloatAttr
    size: SSAValue
    shape: tuple[int, int]
    dynamic: list[SSAValue]

    @staticmethod
    def of(op: Scan, build: Build, combining: Operation) -> _BlockScan:
        """Return the emitter of a scan whose body is the operation `combining`."""
        values = collapsed_rows(build, op.inputs[0])
        neutral = identity_of(combining, element_of(values))
        assert neutral is not None
        size = build.dim(values, 1)
        blocks = blocks_of(build, size_of(build, values, axis=1), BLOCK)
        return _BlockScan(
            op=op,
            build=build,
            values=values,
            neutral=neutral,
            size=size,
            shape=(shape_of(values.type)[0], blocks if isinstance(blocks, int) else DYNAMIC),
            dynamic=[] if isinstance(blocks, int) else [blocks],
        )

    def totals(self) -> SSAValue:
        """Return a tensor (rows, blocks) that has, for each block of a row, the combination of all its elements."""
        element = element_of(self.values)
        body = LoopBody([element, element])
        _, running_total = body.block.args
        row, block, offset = (body.add(IndexOp(d)) for d in range(3))
        (sum_,) = body.inline(self.op.body, [running_total, self._value_at(body, row, block, offset)])
        steps = self.build.empty(TensorType(element, [BLOCK]), [])  # only states the size of the loop over a block
        structure = Structure((projection(3, [2]), projection(3, [0, 1])), parallel=(True, True, False))
        identity = self.build.add(arith.ConstantOp(self.neutral)).result
        start = self.build.add(tensor.SplatOp(identity, self.dynamic, self._totals_type())).result
        (totals,) = generic(self.build, structure, [steps], [start], body.finish(sum_))
        return totals

    def starts(self, totals: SSAValue) -> SSAValue:
        """Return the tensor (rows, blocks) of the value that each block begins with: an exclusive scan of `totals`.

        Rows are divided into blocks, and `totals` has the combination of all elements of each. Sums of the blocks 1 2,
        3 4 and 5 6, with the totals 3, 7 and 11, begin with 0, 3 and 10.
        """
        op = self.op

        def begin_row(code: LoopBody, row: list[SSAValue]) -> list[SSAValue]:
            """Emit the value that the first block of a row begins with: the initial value of the scan `op`.

            An inclusive scan has no initial value: it begins with the identity of the operation.
            """
            if op.is_inclusive:
                return [code.add(arith.ConstantOp(self.neutral))]
            (row_number,) = row  # the outer dimensions are collapsed here, but not those of the initial values
            initial_values = op.outputs[1]
            return [code.extract(initial_values, _split(code, row_number, shape_of(initial_values.type)))]

        def step(
            code: LoopBody, index: list[SSAValue], carried: list[SSAValue]
        ) -> tuple[list[SSAValue], list[SSAValue]]:
            """Emit the values with which the next block and this block begin; return ([the next one's], [this one's]).

            `carried` has the value with which the block at `index` begins. The next one begins with its combination
            with the total of this block.
            """
            return code.inline(op.body, [carried[0], code.extract(totals, index)]), carried

        (starts,) = recurrence(self.build, [self._totals_type()], self.dynamic, along=1, begin_row=begin_row, step=step)
        return starts

    def results(self, starts: SSAValue) -> SSAValue:
        """Return the tensor (rows, blocks, BLOCK) of scanned elements; blocks are scanned in parallel.

        starts: tensor (rows, blocks) of the values that blocks begin with, the combinations of all elements before
        them.
        """
        op = self.op

        def begin_row(code: LoopBody, block: list[SSAValue]) -> list[SSAValue]:
            """Emit the element of `starts` for a block, whose index is (row, number of the block)."""
            return [code.extract(starts, block)]

        def step(
            code: LoopBody, index: list[SSAValue], carried: list[SSAValue]
        ) -> tuple[list[SSAValue], list[SSAValue]]:
            """Emit one step along a block of the scan `op`; return (values to carry on, result at `index`).

            `carried` combines the elements of the row before `index` = (row, block, offset), and is the result of an
            exclusive scan. An inclusive scan includes the element.
            """
            combined = code.inline(op.body, [carried[0], self._value_at(code, *index)])
            return combined, combined if op.is_inclusive else carried

        type_ = TensorType(element_of(self.values), [*self.shape, BLOCK])
        (results,) = recurrence(self.build, [type_], self.dynamic, along=2, begin_row=begin_row, step=step)
        return results

    def _totals_type(self) -> TensorType[Attribute]:
        """Return the type of a tensor with one value per block, (rows, blocks)."""
        return TensorType(element_of(self.values), list(self.shape))

    def _value_at(self, code: LoopBody, row: SSAValue, block: SSAValue, offset: SSAValue) -> SSAValue:
        """Emit the element at an offset in a block; the identity after the end of the row."""
        column = code.plus(code.times(block, code.index(BLOCK)), offset)
        is_inside = code.less(column, self.size)
        element = code.extract(self.values, [row, column])
        return code.select(is_inside, element, code.add(arith.ConstantOp(self.neutral)))


def _split(code: LoopBody, row: SSAValue, shape: Sequence[int]) -> list[SSAValue]:
    """Emit the indices, one per outer dimension, of the row with the collapsed number `row`: 7 in (2, 4) -> (1, 3).

    shape: the outer sizes, of which the first is not read.
    """
    index: list[SSAValue] = []
    for size in reversed(shape[1:]):
        divisor = code.index(max(1, size))  # an empty tensor has no rows, but 0 must not be a divisor
        index.insert(0, code.add(arith.RemUIOp(row, divisor)))
        row = code.add(arith.DivUIOp(row, divisor))
    return [row, *index] if shape else []


def _last(op: Scan, build: Build, results: SSAValue) -> SSAValue:
    """Return the last result of each row; for an empty row the initial value of the scan."""
    initial_values = op.outputs[1]
    rank = len(shape_of(initial_values.type))
    size = build.dim(results, op.along)
    body = LoopBody([element_of(initial_values)])
    (initial,) = body.block.args
    row: list[SSAValue] = [body.add(IndexOp(d)) for d in range(rank)]  # the index without dimension `along`
    last = body.minus(size, body.index(1))
    # In an empty row `last` is -1, and the read is without a fault: kernels read 0 from an empty tensor.
    value = body.extract(results, [*row[: op.along], last, *row[op.along :]])
    may_be_empty = shape_of(results.type)[op.along] < 1  # 0, or DYNAMIC
    if may_be_empty:
        value = body.select(body.less(last, body.index(0)), initial, value)
    structure = Structure((AffineMap.identity(rank),), parallel=(True,) * rank)
    return generic(build, structure, inputs=[], outputs=[initial_values], body=body.finish(value))[0]


ROWS: dict[str, Row] = {"iree_linalg_ext.scan": _scan, "tm_tensor.scan": _scan}
"""Name of an operation → function that replaces it."""
