"""The kernel of a chain of two contractions for GPUs: attention over pages of a cache, which are read in place.

A workgroup computes some rows of the first product, the row-wise operations on them, and the second product of them.
The rows stay in workgroup memory. Columns that comparisons hide from all rows of a workgroup are not visited, so that
the time depends on the length of a sequence and not on the size of its table of pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, inf

from xdsl.dialects import func
from xdsl.dialects.builtin import Float32Type, Float64Type, TensorType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.analysis import analyse
from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.gpu.lower import MAX_GRID, finish, over_groups
from pydispatch.compiler.kernels.loops.gpu.reduce import distributed_reduction
from pydispatch.compiler.kernels.loops.loop_nest import LoopNest
from pydispatch.compiler.kernels.loops.row_storage import allocate_rows
from pydispatch.compiler.kernels.matmul.chain import Chain, chain_of
from pydispatch.compiler.kernels.matmul.column_end import column_limits
from pydispatch.compiler.kernels.matmul.gpu.product_sums import ProductSums
from pydispatch.compiler.kernels.matmul.gpu.row_tiles import MAX_ROWS, STORED_ROWS, RowTiles, pages_of
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.results import matching_dims
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.values import shape_of

MIN_ROWS = 4
"""Minimum number of rows of a workgroup, for chains with more than `MAX_ROWS` rows: with fewer, too many workgroups
read each page."""

MAX_COLUMNS = 4
"""Maximum number of columns of the first product that an invocation computes. It computes them for several rows, and
uses each loaded element for several products."""


def has_chain_kernel(chain: Chain) -> bool:
    """Return whether GPUs have a kernel for a chain: both products read pages, and workgroups compute enough rows.

    Other chains are faster as separate dispatches, which use each loaded element of a factor for more rows.
    """
    if not all(isinstance(product.acc, Float32Type | Float64Type) for product in (chain.first, chain.second)):
        return False  # the chain kernel adds in the type of the result, other kernels add f16 and bf16 in f32
    if pages_of(chain) is None or RowTiles.rows_that_fit(chain) < 1:
        return False
    # Each workgroup reads all pages once. Few rows for each of many workgroups would read the pages too often.
    tiles = RowTiles.of(chain)
    has_enough_rows = tiles.rows >= MIN_ROWS
    has_few_workgroups = tiles.row_count <= MAX_ROWS
    return has_enough_rows or has_few_workgroups


def lower_chain_gpu(source: func.FuncOp, backend: Backend) -> Kernel | None:
    """Return the kernel of a dispatch function that is a chain for which `has_chain_kernel` holds; None for others.

    A chain is a product, row-wise operations on its result, and a product of these rows, as in attention. The kernel
    has a workgroup for each few rows of an outer index, such as 4 queries of a head. Return None, too, if a result is
    not computed element by element from the second product, or updates an argument.
    """
    chain = chain_of([op for op in source.body.block.ops if op.results])
    if chain is None or not has_chain_kernel(chain):
        return None
    frame = Frame(source, backend)
    dims = [matching_dims(value, chain.second.op.results[0]) for value in frame.returned]
    result_dims = [d for d in dims if d is not None]  # None: the result is not elementwise on the second product
    if frame.updates_arguments or len(result_dims) != len(dims):
        return None
    tiles = RowTiles.of(chain)
    frame.bind()  # emits the buffers of arguments and results
    frame.elements.distribute = distributed_reduction  # all invocations of a workgroup reduce a row together

    def emit_workgroup(build: Builder, workgroup: Index) -> None:
        """Emit the code of a workgroup of `chain`: one of `tiles.workgroups`, numbered by outer indices, then rows."""
        *outer, tile = build.split(workgroup, [*tiles.outer, tiles.row_count // tiles.rows])
        buffer = frame.elements.fresh(tensor_type(chain.rows).element_type, tiles.rows * tiles.columns)
        rows = _Rows(
            frame=frame,
            chain=chain,
            result_dims=result_dims,
            tiles=tiles,
            outer=tuple(outer),
            first_row=build.times(tile, tiles.rows),
            buffer=buffer,
        )
        rows.emit(build)

    # A grid has at most `MAX_GRID` workgroups. With more tiles, `over_groups` emits a loop over them in each workgroup.
    over_groups(frame, tiles.workgroups, emit_workgroup)
    return finish(frame, grid=lambda elements, build: min(tiles.workgroups, MAX_GRID))


@dataclass(frozen=True)
class _Rows:
    """Emitter of a workgroup's code for chained products: scores, row-wise operations, and the second product.

    Attributes:
        frame: The kernel function, and its inputs and results.
        chain: The chain.
        result_dims: For each result of the dispatch, the dimensions of the second product's result that index it.
        tiles: The division of the chain's rows among workgroups.
        outer: Indices of the workgroup in the outer dimensions, such as a head.
        first_row: Index of the workgroup's first row along `tiles.axis`.
        buffer: Workgroup memory of the rows, [row][column]: of the scores, and later of `chain.rows`.
    """

    frame: Frame
    chain: Chain
    result_dims: Sequence[list[int]]
    tiles: RowTiles
    outer: tuple[Index, ...]
    first_row: Index
    buffer: SSAValue

    def emit(self, build: Builder) -> None:
        """Emit the code of the workgroup: both products of the chain, and the row-wise operations between them."""
        end = self._column_end(build)  # exclusive: columns from `end` on are hidden, and not computed
        self._emit_first_product(build, end)
        self._emit_operations(build, end)
        self._emit_second_product(build, end)

    def _point(self, build: Builder, row: Index, column: Index = 0) -> list[Index]:
        """Return the indices in the first product's result of an element of the workgroup's rows.

        The workgroup has one index of each outer dimension. `row` is counted from the first row of the workgroup.
        """
        point: list[Index] = [0] * len(shape_of(self.chain.rows))
        for dim, index in zip(self.chain.outer, self.outer, strict=True):
            point[dim] = index
        if self.tiles.axis is not None:
            point[self.tiles.axis] = build.plus(self.first_row, row)
        point[-1] = column
        return point

    def _offset(self, build: Builder, indices: Sequence[Index]) -> Index:
        """Return the offset of an element in the workgroup's buffer, which is [row of the workgroup][column].

        indices: the indices of the element in the first product's result, with the column last.
        """
        axis = self.tiles.axis  # None: there is a single row
        row = 0 if axis is None else build.minus(indices[axis], self.first_row)
        return build.plus(build.times(row, self.tiles.columns), indices[-1])

    def _store(self, build: Builder, value: SSAValue, indices: Sequence[Index]) -> None:
        """Compute the element of `value` at `indices`, and store it in the workgroup's buffer.

        `value` has the shape of the first product's result.
        """
        element = self.frame.elements.at(build, value, indices)
        self.frame.elements.store(build, element, self.buffer, [self._offset(build, indices)])

    def _read_from_buffer(self, value: SSAValue) -> None:
        """Let later code read elements of `value`, of the shape of the first product's result, from the buffer."""
        self.frame.elements.materialize(value, self.buffer, lambda build, indices: [self._offset(build, indices)])

    def _column_end(self, build: Builder) -> Index:
        """Emit the end of the columns that the mask shows to at least one row of the workgroup, rounded up to pages.

        Columns are keys, which are stored in pages of `page_rows`. The end is exclusive, and a multiple of `page_rows`.
        In causal attention, the mask compares `column <= position` of the query. Rows at the positions 33 to 40 need 41
        columns, with pages of 16 rounded up to 48. The end is that of all columns if the mask has no comparisons.
        """
        limits, columns, page_rows = column_limits(self.chain), self.tiles.columns, self.tiles.page_rows
        # `fill` is the score that the mask gives to hidden columns. With a finite score, hidden columns have a weight
        # if a row has no visible column: they must be computed.
        has_finite_fill = limits.fill != -inf
        if not limits.bounds or has_finite_fill:
            return columns

        def include_row(inner: Builder, row: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
            """Emit the greater of two ends of columns: that of the earlier rows, in `carried`, and that of this row."""
            end_of_earlier_rows = carried[0]
            end_of_row = limits.end(self.frame.elements, inner, self._point(inner, row), columns)
            return [inner.value(inner.most(end_of_earlier_rows, end_of_row))]

        # The end is at least 1: a row without visible columns is computed from hidden ones, not from none.
        (end,) = build.loop(0, self.tiles.rows, [build.index(1)], include_row)
        # `end` is at most `columns`, a multiple of `page_rows`, so that the last page is whole.
        pages = build.value(build.ceil_quotient(build.assume_below(end, columns + 1), page_rows))
        build.assume_below(pages, columns // page_rows + 1)
        return build.linear(high=pages, size=page_rows, low=0)  # pages * page_rows, divisible by `page_rows`

    def _emit_first_product(self, build: Builder, end: Index) -> None:
        """Emit the first product for columns before `end`, and elementwise operations on it, into the buffer.

        Columns are keys, which are stored in pages of `page_rows` each. An invocation computes the scores of all rows
        of the workgroup at `width` adjacent columns: 8 x 4 scores with 8 rows and pages of 16 columns. It uses each
        loaded element of A and B for several of them.
        """
        # `width` divides `page_rows`, so that the adjacent columns of an invocation are in one page.
        chain, width = self.chain, gcd(self.tiles.rows, MAX_COLUMNS, self.tiles.page_rows)

        def emit_columns(inner: Builder, block: Index) -> None:
            """Emit the scores of all rows at `width` adjacent columns, from column block * width on, and store them.

            `_multiply` registers the elements of the product that it emits. `_store` computes the scores from them.
            """
            points = [
                self._point(inner, row, inner.linear(block, width, column_of_block))
                for row in range(self.tiles.rows)
                for column_of_block in range(width)
            ]
            self._multiply(inner, chain.first, [dict(zip(chain.first_loops, p, strict=True)) for p in points])
            for point in points:
                self._store(inner, chain.scores, point)

        build.parallel(0, build.quotient(end, width), emit_columns, index_below=self.tiles.columns // width)

    def _emit_operations(self, build: Builder, end: Index) -> None:
        """Emit the row-wise operations on columns before `end`. All invocations compute each reduction together.

        The buffer has the scores before this code, and `chain.rows` after it. For a softmax, the code of a row is the
        maximum and the sum of exponentials, then a parallel loop over the columns that stores the quotients.
        """
        self._read_from_buffer(self.chain.scores)
        nest = self._nest_of_rows()
        self._end_columns_at(end)
        build.loop(0, self.tiles.rows, [], partial(self._emit_row, nest, end))
        self.frame.elements.forget_rows()
        self.frame.elements.forget(self.chain.scores)  # the buffer has `chain.rows` now, in place of the scores
        self._read_from_buffer(self.chain.rows)

    def _nest_of_rows(self) -> LoopNest:
        """Return the row-wise operations as one loop nest over rows, as in a kernel that reads scores from memory.

        Allocate memory for the first `STORED_ROWS` of the values that a row could store for its later loops, such as
        its exponentials. Later loops compute the others again.
        """
        nest_of_rows = LoopNest(stores=[(self.chain.rows, self.buffer)], space=self.chain.rows)
        (nest,) = analyse(self.frame, [nest_of_rows])
        nest.row_storage = dict(list(nest.row_storage.items())[:STORED_ROWS])
        allocate_rows(self.frame, nest)
        return nest

    def _end_columns_at(self, end: Index) -> None:
        """Let all tensors with the shape of the scores end at column `end` in later code, reductions included."""
        chain, elements = self.chain, self.frame.elements
        for value in {chain.scores, *(v for op in chain.parts.row_operations for v in (*op.operands, *op.results))}:
            if isinstance(value.type, TensorType) and shape_of(value) == shape_of(chain.scores):
                elements.resize(value, [*elements.dims(value)[:-1], end])

    def _emit_row(
        self, nest: LoopNest, end: Index, build: Builder, row: Index, carried: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit the operations of `nest` on a row: their reductions, then `chain.rows` before column `end`, in parallel.

        carried: empty, since the loop over rows carries no values.
        """
        row_indices = self._point(build, row)[:-1]  # without the column, the last index
        self.frame.elements.begin_row(row_indices)  # from here on, the allocated rows have the values of this row
        nest.emit_row_reductions(self.frame.elements, build, row_indices)
        build.parallel(
            0,
            end,
            lambda inner, column: self._store(inner, self.chain.rows, [*row_indices, column]),
            index_below=self.tiles.columns,
        )
        return []

    def _emit_second_product(self, build: Builder, end: Index) -> None:
        """Emit the second product, the results of the dispatch that are computed from it, and their stores.

        Steps of K are the columns of the first product: those before `end` are summed, the others are hidden.
        """
        product = self.chain.second
        columns = 1 if product.n is None else product.generic.extents[product.n]
        assert columns is not None
        build.parallel(0, columns, partial(self._emit_result_column, end), index_below=columns)

    def _emit_result_column(self, end: Index, build: Builder, column: Index) -> None:
        """Emit the results of all rows at a column of the second product. They share loaded elements of B."""
        frame, product = self.frame, self.chain.second
        index_of_column: dict[int, Index] = {} if product.n is None else {product.n: column}
        points = [
            dict(zip(self.chain.second_loops, self._point(build, row), strict=True)) | index_of_column
            for row in range(self.tiles.rows)
        ]
        # `_multiply` registers the elements of the product that it emits, for the results computed from them.
        for product_indices in self._multiply(build, product, points, end):
            for value, dims, buffer in zip(frame.returned, self.result_dims, frame.results, strict=True):
                result_indices = [product_indices[d] for d in dims]
                element = frame.elements.at(build, value, result_indices)
                frame.elements.store(build, element, buffer, result_indices)

    def _multiply(
        self, build: Builder, product: Contraction, points: Sequence[dict[int, Index]], end: Index | None = None
    ) -> list[list[Index]]:
        """Emit elements of a product, register them, and return their indices in the product's result.

        Operations on the product that are emitted later use the registered elements instead of computing them again.

        Args:
            build: The builder of an invocation's code.
            product: The product.
            points: For each element that the invocation computes: parallel loop of the product -> its index, such as
                {0: head, 1: query, 2: key}.
            end: The end of the steps of K, a multiple of the rows of a page; None for all steps.
        """
        elements, generic = self.frame.elements, product.generic
        output_map = generic.output_maps[0]
        result_indices = []
        for point in points:
            loop_indices = [point.get(loop, 0) for loop in range(len(generic.iterators))]  # 0 for reductions: unused
            result_indices.append(evaluate(build, output_map, loop_indices))
        # The loops over the reductions, K innermost, add the products to elements of the output operand.
        initial = [elements.at(build, generic.outputs[0], indices) for indices in result_indices]
        loops = ProductSums(elements=elements, product=product, points=points, page_rows=self.tiles.page_rows, end=end)
        totals = loops.emit(build, dims=[*product.reductions, product.k], reduced={}, sums=initial)
        for indices, total in zip(result_indices, totals, strict=True):
            elements.define(build, product.op.results[0], indices, total)
        return result_indices
