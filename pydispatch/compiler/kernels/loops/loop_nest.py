"""Plan of one loop nest of a kernel, which the analysis fills in and the emitters of loops read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from pydispatch.compiler.kernels.loops.columns import ColumnReduction
from pydispatch.compiler.kernels.loops.transposition import Transposition
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.ir.dialects.pyd.ordered import OrderedOp

Store = tuple[SSAValue, SSAValue]
"""(result of the dispatch function, memref that its elements are stored into)"""


class RowReduction(NamedTuple):
    """Reduction that is emitted once per row.

    Attributes:
        value: Its result.
        nest_dims: For each axis of the result, the dimension of the nest that indexes it; -1 for an axis of size 1,
            whose index is 0.
    """

    value: SSAValue
    nest_dims: list[int]


@dataclass
class LoopNest:
    """Plan of one loop nest of a kernel: the results that it computes and stores, and how it is distributed.

    `nests_of` creates it with `stores` and `space`, `analyse` sets the other fields, and the emitters of loops read
    them. On GPUs, `plan_nest` changes some of them in between.

    A row is all elements at one index of the outer dimensions. A softmax over f32[64, 100] has `outer_rank` 1: 64 rows
    of 100 elements, whose maximum and sum are row reductions.

    Attributes:
        stores: The results, each with its buffer.
        space: The iteration space: the elements of a result, those that an update writes, or those of the results of
            a recurrence, which have equal sizes.
        outer_rank: Number of leading dimensions that are outer ones; the others are inner ones. Without rows, only the
            last dimension is inner.
        by_rows: Whether the nest has rows: a reduction depends on outer dimensions only, and runs once per row. A
            workgroup, or an invocation of a GPU, then computes whole rows.
        row_stores: Results that have one element per row, each with its buffer.
        row_reductions: The reductions that run before the inner loops of a row, producers first.
        row_storage: Value that a loop of a row stores for later loops of the row -> the result whose row, which is
            written later, serves as its memory; None for workgroup memory. A softmax with rows that are too long for
            workgroup memory stores the exponentials in the row of its result. The last loop reads them there, and
            replaces them by the quotients.
        columns: The reductions over outer dimensions (`columns.py`), producers first, if a workgroup computes a range
            of columns, which are the indices of the last dimension; else empty.
        transposition: The dimension along which operands are contiguous, if it is not the last one of the results;
            else None.
    """

    stores: list[Store]
    space: SSAValue | UpdateStep | OrderedOp
    outer_rank: int = 0
    by_rows: bool = False
    row_stores: list[Store] = field(default_factory=list)
    row_reductions: list[RowReduction] = field(default_factory=list)
    row_storage: dict[SSAValue, SSAValue | None] = field(default_factory=dict)
    columns: list[ColumnReduction] = field(default_factory=list)
    transposition: Transposition | None = None

    @property
    def representative(self) -> SSAValue:
        """The first result, for properties that all results of the nest have in common.

        These are the sizes, and whether elements have less than a byte, so that bytes contain several elements.
        """
        value, _buffer = self.stores[0]
        return value

    def emit_row_reductions(self, elements: Elements, build: Builder, indices: list[Index]) -> None:
        """Emit the reductions of a row before its inner loops, which then reuse the values.

        `indices` has the index of the row in each outer dimension.
        """
        # `nest_dims`: for each axis of the reduction's result, the dimension that indexes it; -1 for an axis of size 1.
        for value, nest_dims in self.row_reductions:
            # This emits the reduction, and caches the value for later calls with the same indices.
            elements.at(build, value, [0 if dim < 0 else indices[dim] for dim in nest_dims])

    def dims(self, elements: Elements) -> list[Index]:
        """Return the sizes of the dimensions of the nest: those of the iteration space `space`."""
        if isinstance(self.space, UpdateStep):
            return self.space.dims(elements)
        result = self.space.res[0] if isinstance(self.space, OrderedOp) else self.space
        return elements.dims(result)

    def tensors(self) -> Iterator[SSAValue]:
        """Yield the results, and all tensors that they are computed from, once each."""
        pending, visited = [value for value, _ in self.all_stores()], set[SSAValue]()
        while pending:
            value = pending.pop()
            if value not in visited and isinstance(value.type, TensorType):
                visited.add(value)
                pending += value.op.operands if isinstance(value, OpResult) else []
                yield value

    def all_stores(self) -> list[Store]:
        """Return the results with one element per row, then the others, each with its buffer."""
        return [*self.row_stores, *self.stores]
