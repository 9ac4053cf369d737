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
from pydispatch.compiler.kernels.ops.expressions import Expression
from pydispatch.ir.values import shape_of

MIN_PAGE_ROWS = 8
"""Minimum number of rows of a page. Register blocks do not cross pages, and blocks for smaller pages are slow."""


@dataclass(frozen=True)
class GatheredPages:
    """Tensor of pages of a source tensor, which a table selects, as in a paged cache of keys and values.

    Its dimensions are [table dimensions ..., table size * rows, others ...].
    The table has the shape [table dimensions ..., table size], and each of its elements is the number of a page. The
    source has the shape [pages, ...]. The dimensions of a page are the rows and the other dimensions of the tensor, in
    any order.

    A cache f32[100, 16, 4, 64] has 100 pages of 16 rows, each with 4 heads of 64 elements. With a table i64[2, 8] for 2
    sequences of 8 pages, the tensor is f32[2, 128, 4, 64]; `axis` is 1, `rows` 16 and `strides` (0, 256, 64, 1). Its
    element [1, 37, 2, 5] is row 5 of entry 2 (37 = 2 * 16 + 5): element [5, 2, 5] of the page table[1, 2].

    Attributes:
        page: The expression by which the gather computes the number of a page. It is indexed by the gather's loops:
            [table dimensions ..., table size, rows, others ...].
        source: The tensor of all pages; their number may be dynamic.
        operations: The operations from the gather to the tensor: copies and widenings of its result, and the reshape
            of the table size and the rows to one dimension.
        axis: The dimension of the tensor that has the rows of the pages, page after page: an index divided by `rows`
            is the index of the page in the table.
        rows: Number of rows of a page.
        strides: Distance of neighbours along each dimension of the tensor, within a page, in elements; 0 along table
            dimensions.
    """

    page: Expression
    source: SSAValue
    operations: tuple[Operation, ...]
    axis: int
    rows: int
    strides: tuple[int, ...]

    @property
    def element_type(self) -> Attribute:
        """The element type of the source."""
        assert isinstance(self.source.type, TensorType)
        return self.source.type.element_type

    def offset(self, elements: Elements, build: Builder, indices: Sequence[Index]) -> Index:
        """Emit the offset in the source of the element at `indices` of the tensor, in elements.

        The source must have a static number of pages, at least one. A page number below 0 becomes 0, and one beyond the
        last page the number of the last page.
        """
        # Dimension `axis` has the rows of the pages of all entries of the table, one page after the other.
        entry, row = build.quotient(indices[self.axis], self.rows), build.remainder(indices[self.axis], self.rows)
        others = indices[self.axis + 1 :]
        page_count, *page_shape = shape_of(self.source)
        page = self.page.emit(elements, build, [*indices[: self.axis], entry, row, *others])
        offset = build.times(build.clamp(page, page_count), prod(page_shape))
        # The dimensions before `axis` are dimensions of the table: they select the page, and have no stride in it.
        for index, stride in zip((row, *others), self.strides[self.axis :], strict=True):
            offset = build.plus(offset, build.times(index, stride))
        return offset


def gathered_pages(value: SSAValue) -> GatheredPages | None:
    """Return a tensor as gathered pages; None if it does not consist of pages, or its sizes are dynamic.

    A page is source[i], a block of rows, and a table has the numbers i of the pages, as in a paged cache of keys. An
    element of the tensor is source[page number, indices in the page ...]. The page number must depend on the table
    index alone, and each index in the page must be a dimension of the tensor. The form is a gather and a reshape, such
    as

        %0 = linalg.generic ... -> tensor<2x8x16x4x64xf32>         table[d0, d1] is %page in the body, which yields
                                                                   tensor.extract %cache[%page, d2, d3, d4]
        %1 = tensor.collapse_shape %0 [[0], [1, 2], [3], [4]] : ... into tensor<2x128x4x64xf32>

    Copies and widenings to a longer float type may be between them.
    """
    if not isinstance(value, OpResult) or value.op.name != "tensor.collapse_shape":
        return None
    reshape, gathered = value.op, value.op.operands[0]
    shape = shape_of(gathered)
    axis = _merged_dim(reshape)  # dimension `axis` of `gathered` counts entries of the table, `axis` + 1 rows of a page
    is_empty_or_dynamic = min(shape) < 1
    if axis is None or is_empty_or_dynamic or shape[axis + 1] < MIN_PAGE_ROWS:
        return None
    # Follow `gathered` to the `tensor.extract` that reads an element source[page number, indices ...].
    expression, operations = _gathered_element(Expression(gathered, tuple(range(len(shape)))))
    extract = expression.op
    if extract is None or extract.name != "tensor.extract":
        return None
    source, page_number, *indices = extract.operands
    page = expression.of(page_number)  # as an expression of the gather's dimensions
    # The dimensions after the table's entries, the rows and the others, must be the indices in a page, each once.
    page_dims = list(range(axis + 1, len(shape)))
    strides = _strides_in_page(expression, indices, shape, shape_of(source)[1:])
    if strides is None or sorted(strides) != page_dims or any(map(page.depends_on, page_dims)):
        return None
    return GatheredPages(
        page=page,
        source=source,
        operations=(*operations, reshape),
        axis=axis,
        rows=shape[axis + 1],
        strides=(*[0] * axis, *(strides[d] for d in page_dims)),
    )


def _strides_in_page(
    expression: Expression, indices: Sequence[SSAValue], shape: Sequence[int], page_shape: Sequence[int]
) -> dict[int, int] | None:
    """Return, for each dimension of a gather that indexes pages, the distance of its neighbours in a page, in elements.

    Pages are blocks source[i] of a tensor, which a table of indices selects. A gather of `source[page, j, i]` with
    pages of 16x64 has the strides {i: 1, j: 64}. Return None unless each index in the page is another dimension of the
    gather, with the same size as that dimension of the page.

    `expression` is the gathered element, `indices` are its indices in the page, scalars in the body of the gather, and
    `shape` has the sizes of the gather's dimensions.
    """
    strides: dict[int, int] = {}
    for position, index in enumerate(indices):
        dim = expression.dim_of_index(index)
        if dim is None and page_shape[position] == 1:
            continue  # a constant index, since the page has size 1 there: the gathered tensor may lack this dimension
        if dim is None or page_shape[position] != shape[dim] or dim in strides:
            return None
        strides[dim] = prod(page_shape[position + 1 :])
    return strides


def _merged_dim(reshape: Operation) -> int | None:
    """Return the dimension into which a reshape merges two dimensions; None for a reshape that does anything else.

    The groups [[0], [1, 2], [3]] merge the dimensions 1 and 2 into dimension 1.
    """
    reassociation = reshape.properties["reassociation"]
    assert isinstance(reassociation, ArrayAttr)
    group_lengths = [len(group.data) for group in reassociation.data]
    merges_one_pair = sorted(group_lengths) == [*[1] * (len(group_lengths) - 1), 2]
    return group_lengths.index(2) if merges_one_pair else None


def _gathered_element(expression: Expression) -> tuple[Expression, list[Operation]]:
    """Follow an expression back through copies and widenings (`arith.extf`) to the value that is copied and widened.

    Return that value as an expression, and the tensor operations that copy or widen it, the last one first.
    """
    operations: list[Operation] = []
    while True:
        expression = expression.expanded(operations)  # follows copies, and appends them to `operations`
        if expression.op is None or expression.op.name != "arith.extf":
            return expression, operations
        expression = expression.of(expression.op.operands[0])  # the value before it was widened
