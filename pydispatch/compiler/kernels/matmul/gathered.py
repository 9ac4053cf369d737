"""Gathers of whole pages: tensors composed of contiguous rows of another tensor, which a table of indices selects.

Keys of a paged cache are one: `cache[pages]` with the pages and the rows of a page as one dimension. A register block
that does not cross a page reads the cache in place, at an address that it computes from the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.scalar_code import index_loop, loops_read, scalar_at
from pydispatch.ir.affine_maps import is_identity
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

MIN_PAGE_ROWS = 8
"""Rows of a page below which register blocks, which do not cross pages, would be too small."""


@dataclass(frozen=True)
class GatheredPages:
    """Tensor [table dimensions ..., table size * rows, others ...] of the pages [rows, others ...] of a source.

    Attributes:
        gather: The gather of pages [table dimensions ..., table size, rows, others ...].
        operations: The gather, the widening of its elements if there is one, and the reshape of the table size and
            the rows to one dimension.
        source: The tensor [pages, rows, others ...].
        page: The number of the page, a scalar in the body of the gather.
        axis: The dimension of the tensor that has the rows of the pages.
        rows: Rows of a page.
    """

    gather: Structured
    operations: tuple[Operation, ...]
    source: SSAValue
    page: SSAValue
    axis: int
    rows: int

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension of the tensor, within a page; 0 along table dimensions."""
        inner = shape_of(self.source)[1:]
        return (*[0] * self.axis, *(prod(inner[d + 1 :]) for d in range(len(inner))))

    @property
    def element_type(self) -> Attribute:
        assert isinstance(self.source.type, TensorType)
        return self.source.type.element_type

    def offset(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> Index:
        """Emit the offset in the source of the element at `indices` of the tensor."""
        table, row = build.quotient(indices[self.axis], self.rows), build.remainder(indices[self.axis], self.rows)
        point = [*indices[: self.axis], table, *[0] * (len(shape_of(self.source)) - 1)]
        pages, *inner = shape_of(self.source)
        offset: Index = build.times(
            build.clamp(scalar_at(elements, build, self.gather, self.page, point), pages), prod(inner)
        )
        for index, stride in zip((row, *indices[self.axis + 1 :]), self.strides[self.axis :], strict=True):
            offset = build.plus(offset, build.times(index, stride))
        return offset


def gathered_pages(value: SSAValue) -> GatheredPages | None:
    """Return a tensor as gathered pages; None if it is none, or its sizes are dynamic."""
    if not isinstance(value, OpResult) or value.op.name != "tensor.collapse_shape":
        return None
    collapsed = value.op
    widening = _widening(collapsed.operands[0])
    gather = (collapsed if widening is None else widening).operands[0].owner
    if not isinstance(gather, Operation) or gather.name != GENERIC or len(gather.results) != 1:
        return None
    generic = structured(gather)
    if not generic.is_parallel or not is_identity(generic.output_maps[0]) or None in generic.extents:
        return None
    read = _row_read(generic)
    if read is None:
        return None
    source, page, axis = read
    reassociation = collapsed.properties["reassociation"]
    assert isinstance(reassociation, ArrayAttr)
    groups = [[n.value.data for n in group.data] for group in reassociation.data]
    rank = len(generic.iterators)
    if axis < 1 or groups != [*([d] for d in range(axis - 1)), [axis - 1, axis], *([d] for d in range(axis + 1, rank))]:
        return None
    rows = shape_of(source)[1]
    operations = (gather, collapsed) if widening is None else (gather, widening, collapsed)
    return GatheredPages(generic, operations, source, page, axis - 1, rows) if rows >= MIN_PAGE_ROWS else None


def _widening(value: SSAValue) -> Operation | None:
    """Return the operation that computes a tensor by widening the elements of another one; None if there is none."""
    if not isinstance(value, OpResult) or value.op.name != GENERIC:
        return None
    generic = structured(value.op)
    is_widened = [op.name for op in generic.block.ops] == ["arith.extf", "linalg.yield"]
    return value.op if is_widened and generic.maps[0] == generic.maps[-1] else None


def _row_read(generic: Structured) -> tuple[SSAValue, SSAValue, int] | None:
    """Return (source, page, number of table dimensions) of a generic that yields `source[page, i, j, ...]` with its
    innermost loops i, j, ...; None for another."""
    last = generic.block.last_op
    assert last is not None
    element = last.operands[0]
    if not isinstance(element, OpResult) or element.op.name != "tensor.extract":
        return None
    source, page, *others = element.op.operands
    if not isinstance(source.type, TensorType) or not source.type.has_static_shape() or not others:
        return None
    tables = len(generic.iterators) - len(others)
    counters = [i.owner for i in others if isinstance(i.owner, Operation) and i.owner.name == "linalg.index"]
    if [index_loop(op) for op in counters] != list(range(tables, len(generic.iterators))):
        return None
    loops = loops_read(generic, page)
    is_whole = list(generic.extents[tables:]) == list(shape_of(source)[1:])
    return (source, page, tables) if is_whole and loops is not None and max(loops, default=0) < tables else None
