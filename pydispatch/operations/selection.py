"""Selection of elements by their values: true ones, distinct ones. Their number is computed in each call."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.size_functions import one_unless_empty
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, ordering, reductions, scans, shapes, slicing
from pydispatch.operations.assignment import put_rows
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.gathers import take
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def indices_of_true(builder: Builder, mask: Tensor) -> Tensor:
    """Return the indices of the true elements of a vector, in ascending order, as i64.

    Their number, the size of the result, is computed in each call. The index of a true element is stored at the
    position that is the number of true elements before it.
    """
    ones = elementwise.convert(builder, mask, I64)
    count = builder.size_of(builder.scalar(reductions.reduce(builder, "add", ones)), "count")
    before = scans.cumulative(builder, "add", ones, axis=0, exclusive=True)
    # Stores at -1, outside of the result, are ignored.
    targets = formula(builder, lambda e, n: e.where(n, n.const(-1)), mask, before)
    zeros = builder.wrap(I64, (count,), builder.splat(builder.scalar_constant(0, I64), (count,)))
    return put_rows(builder, zeros, [targets], shapes.iota(builder, mask.shape, axis=0, dtype=I64), combine=None)


def indices_of_nonzero(builder: Builder, x: Tensor) -> list[Tensor]:
    """Return the indices of the non-zero elements of a tensor in row-major order, one i64 vector per axis."""
    flat = indices_of_true(builder, elementwise.convert(builder, shapes.reshape(builder, x, [product(x.shape)]), BOOL))
    rows = []
    for d in range(x.rank):
        stride, size = (reductions.size_as(builder, n, I64) for n in (product(x.shape[d + 1 :]), x.shape[d]))
        rows.append(formula(builder, lambda index, step, n: index / step % n, flat, stride, size))
    return rows


def distinct_slices(builder: Builder, x: Tensor, axis: int, sort: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the distinct slices of x along an axis, and three vectors about them.

    With `sort`, distinct slices are in ascending order, else in the order of their first occurrence.

    Returns:
        The distinct slices. The index of the first occurrence of each distinct slice. For each slice of x the index of
        its distinct slice. The number of occurrences of each distinct slice.
    """
    first, inverse, counts = distinct(builder, _columns_of_slices(builder, x, axis), sort)
    return take(builder, x, first, axis), first, inverse, counts


def distinct_neighbours(builder: Builder, x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the runs of equal slices of x along an axis, such as [a, a, b, a] -> [a, b, a].

    Returns:
        One slice of each run. For each slice of x the index of its run, such as [0, 0, 1, 2]. The length of each run,
        such as [2, 1, 1].
    """
    columns = _columns_of_slices(builder, x, axis)
    size = x.shape[axis]
    starts, run_index = _runs(builder, columns)
    # The length of a run is the distance from its first index to that of the next run, or to the end of the axis.
    first = indices_of_true(builder, starts)
    boundaries = slicing.concat(
        builder, [first, shapes.reshape(builder, reductions.size_as(builder, size, I64), [1])], axis=0
    )
    ends = slicing.slice_axis(builder, boundaries, axis=0, start=1, limit=first.shape[0] + 1)
    return take(builder, x, first, axis), run_index, elementwise.binary(builder, "sub", ends, first)


# Largest number of elements of the slices whose distinct ones are selected; more are an error. Each element is a column
# of the sorted table, and adds operands to the comparison of the sort.
_MAX_COLUMNS = 64


def _columns_of_slices(builder: Builder, x: Tensor, axis: int) -> list[Tensor]:
    """Return the elements of the slices along an axis as columns of a table that has a row for each slice.

    There is one vector per position in a slice, in row-major order. Slices without elements, which are all equal, have
    one column of zeros.
    """
    front = shapes.transpose(builder, x, [axis, *(d for d in range(x.rank) if d != axis)])
    width = product(front.shape[1:])
    if isinstance(width, Expr) or width > _MAX_COLUMNS:
        raise builder.fail(
            f"the slices of {x} along axis {axis} have {width} elements each; distinct slices of at most "
            f"{_MAX_COLUMNS} elements, a number that is known while compiling, are supported"
        )
    if width == 0:
        return [shapes.full(builder, 0, [x.shape[axis]], I64)]
    table = shapes.reshape(builder, front, [front.shape[0], width])
    return [
        shapes.reshape(builder, slicing.slice_axis(builder, table, axis=1, start=n, limit=n + 1), [table.shape[0]])
        for n in range(width)
    ]


def distinct(builder: Builder, columns: Sequence[Tensor], sort: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct rows of a table, whose columns are vectors of one size, as three vectors.

    With `sort`, distinct rows are in ascending lexicographic order, else in the order of their first occurrence. For
    example, the column [7, 5, 7] has the distinct rows 5 and 7 with `sort`, and the results are [1, 0], [1, 0, 1] and
    [1, 2]. Without it they are 7 and 5, and the results [0, 1], [0, 1, 0] and [2, 1].

    Returns:
        The index of the first occurrence of each distinct row. For each row the index of its distinct row. The number
        of occurrences of each distinct row.
    """
    size = columns[0].shape[0]
    positions = shapes.iota(builder, [size], axis=0, dtype=I64)
    # Sort the rows, so that equal rows are a run. The sort is stable: the first row of a run is the first of these in
    # the table. `origin` has the index in the table of each sorted row: [1, 0, 2] in the example.
    *sorted_columns, origin = ordering.sort(builder, [*columns, positions], axis=0, before=_is_row_before)
    starts, run_index = _runs(builder, sorted_columns)

    # A distinct row is the first one of a run. Scattering the runs' indices by `origin` undoes the sort: sorted row i
    # is row origin[i] of the table, so that inverse[origin[i]] = run_index[i].
    first = take(builder, origin, indices_of_true(builder, starts), axis=0)
    zeros = _repeated(builder, 0, size)
    inverse = put_rows(builder, zeros, [origin], run_index, combine=None)
    zeros_of_distinct = _repeated(builder, 0, first.shape[0])
    if not sort:  # renumber the distinct rows by their first occurrence: distinct row order[k] becomes number k
        first, order = ordering.sort_with_indices(builder, first, axis=0)
        ranks = shapes.iota(builder, first.shape, axis=0, dtype=I64)
        rank_of_sorted = put_rows(builder, zeros_of_distinct, [order], ranks, combine=None)
        inverse = take(builder, rank_of_sorted, inverse, axis=0)
    # Count the rows of each distinct row: add 1 at its index for each of them.
    ones = _repeated(builder, 1, size)
    return first, inverse, put_rows(builder, zeros_of_distinct, [inverse], ones, combine="add")


def _is_row_before(scalars: Scalars, row: Sequence[Scalar], other: Sequence[Scalar]) -> Scalar:
    """Return whether a row precedes another one in lexicographic order of their columns.

    NaN is greater than all numbers. The last scalar of each is the row's index in the table, and is ignored.
    """
    less = scalars.const(value=False, dtype=BOOL)
    for u, v in zip(reversed(row[:-1]), reversed(other[:-1]), strict=True):  # earlier columns take precedence
        below, tied = ordering.less(scalars, u, v), scalars.compare("eq", u, v)
        less = scalars.binary("or", below, scalars.binary("and", tied, less))
    return less


def _repeated(builder: Builder, value: int, count: Size) -> Tensor:
    """Return a vector of `count` equal integers."""
    return builder.wrap(I64, (count,), builder.splat(builder.scalar_constant(value, I64), (count,)))


def _runs(builder: Builder, columns: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return, for each row of a table, whether it is the first or differs from the previous row, and the index of its
    run of equal rows. `columns` are the columns of the table.

    A run is a sequence of equal neighbouring rows: the column [5, 7, 7, 5] gives [true, true, false, true] and
    [0, 1, 1, 2].
    """
    size = columns[0].shape[0]
    head_count = one_unless_empty(size)  # 1, or 0 for a table without rows

    def preceded(column: Tensor) -> Tensor:
        """Return the element before each element of a column; the first one, which has none, is repeated."""
        head, all_but_last = (
            slicing.slice_axis(builder, column, axis=0, start=0, limit=n) for n in (head_count, size - head_count)
        )
        return slicing.concat(builder, [head, all_but_last], axis=0)

    previous = [preceded(column) for column in columns]

    def begins(i: Element, *pairs: Element) -> Element:
        """Return whether row i is the first row or differs from the previous one.

        pairs: for each column its element in row i, then its element in the previous row.
        """
        new = i.is_equal(0)
        for u, v in zip(pairs[::2], pairs[1::2], strict=True):
            new = new | u.is_unequal(v)
        return new

    positions = shapes.iota(builder, [size], axis=0, dtype=I64)
    starts = formula(builder, begins, positions, *(t for pair in zip(columns, previous, strict=True) for t in pair))
    # The index of a run is the number of rows up to its first one that begin a run, minus 1.
    run_index = scans.cumulative(builder, "add", elementwise.convert(builder, starts, I64), axis=0)
    return starts, formula(builder, lambda n: n - 1, run_index)
