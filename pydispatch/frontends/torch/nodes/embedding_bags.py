"""Conversions of embedding bags, sums (means, maxima) of groups of table rows, and of their gradients."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.ordering import searchsorted
from pydispatch.frontends.torch.registry import converts
from pydispatch.frontends.torch.trace import Saved
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, gathers, normalization, reductions, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula

_SUM, _MEAN, _MAX = range(3)
"""PyTorch's codes of the ways to combine the rows of a bag."""
_TYPES_WITHOUT_BAG_INDICES = ("f32", "f16")
"""Element types of tables. For their sums, the returned bag of each index is an empty vector, as PyTorch's CPU kernel
returns it."""


@converts("aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    builder: Builder,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor | Saved, ...]:
    """Return the sum, mean or maximum of the rows of the table `weight` in each bag, a group of consecutive indices.

    For example, the indices [4, 1, 4, 2] with the offsets [0, 1, 1] are the bags [4], [] and [1, 4, 2]. Their sums are
    weight[4], zeros, and weight[1] + weight[4] + weight[2].

    Args:
        builder: The builder.
        weight: The table, [rows, columns].
        indices: A vector of row numbers; bag b has those from offsets[b] to offsets[b + 1], exclusive.
        offsets: Begin of each bag in `indices`.
        scale_grad_by_freq: Affects gradients only.
        mode: _SUM, _MEAN or _MAX.
        sparse: Affects gradients only.
        per_sample_weights: A factor for each index; None for 1.
        include_last_offset: Whether `offsets` also has the end of the last bag, which else is the end of the indices.
        padding_idx: Number of a row that belongs to no bag; None or below 0 for no such row.

    Returns:
        The combined rows, [bags, columns]. The others are what PyTorch saves for gradients: the bag of each index; the
        number of rows of each bag; for _MAX, the row number of each maximum, [bags, columns].
    """
    if mode not in (_SUM, _MEAN, _MAX) or indices.rank != 1:
        raise builder.fail(f"bags of {indices} in mode {mode}; expected a vector, and mode 0, 1 or 2")
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    bag = _bag_of_each(builder, indices, offsets, bags, padding_idx)
    counts = _counts(builder, bag, bags)
    rows = gathers.take(builder, weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = ew.binary(builder, "mul", rows, shapes.expand_dims(builder, per_sample_weights, axes=[1]))
    shape, column = (bags, weight.shape[1]), shapes.expand_dims(builder, counts, axes=[1])
    # As in PyTorch, the bags of the indices are returned as an empty vector for sums of some types without padding.
    omits_bags = (
        mode == _SUM and weight.dtype.name in _TYPES_WITHOUT_BAG_INDICES and (padding_idx is None or padding_idx < 0)
    )
    bags_of_indices = shapes.full(builder, 0, [0], offsets.dtype) if omits_bags else bag

    # Combine the rows of each bag; an empty bag has zeros. Rows of padding have the bag -1, which `put_rows` ignores.
    if mode == _MAX:
        least = shapes.full(builder, reductions.least(weight.dtype), shape, weight.dtype)
        largest = assignment.put_rows(builder, least, [bag], rows, "max")
        result = formula(builder, lambda v, n: (n > 0).where(v, 0.0), largest, column)
        maximum_indices = _argmax_of_bags(builder, largest, rows, bag, indices)
        return result, Saved(bags_of_indices), Saved(counts), Saved(maximum_indices)
    result = assignment.put_rows(builder, shapes.full(builder, 0, shape, weight.dtype), [bag], rows, "add")
    if mode == _MEAN:
        result = formula(builder, lambda v, n: v / n.max(1).to(v.dtype), result, column)
    # The last result stands for the row numbers of maxima, which the gradients of sums and means do not read.
    return result, Saved(bags_of_indices), Saved(counts), Saved(counts)


@converts("aten.embedding_bag")
def embedding_bag_with_any_padding(
    builder: Builder, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = _SUM, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Tensor | Saved, ...]:  # fmt: skip
    """Return the results of `embedding_bag`: the sum, mean or maximum of the rows of `weight` in each bag, and the
    tensors that PyTorch saves for gradients.

    Only `padding_idx` differs. In this operator, a number below 0 counts from the end of the table: -1 is the last row.
    In `embedding_bag`, a number below 0 means that no row is padding.

    Raise CompileError for a `padding_idx` below 0 of a table with a dynamic number of rows.
    """
    if padding_idx is not None and padding_idx < 0:
        rows = weight.shape[0]
        if isinstance(rows, Expr):
            raise builder.fail(
                f"row {padding_idx}, from the end, is the padding of bags of {weight}", "state a row from 0 on"
            )
        padding_idx += rows
    return embedding_bag(
        builder, weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )  # fmt: skip


def _bag_of_each(builder: Builder, indices: Tensor, offsets: Tensor, bags: Size, padding_idx: int | None) -> Tensor:
    """Return the bag of each index; -1 for padding, which belongs to no bag.

    bags: number of bags. An index is in the last bag that begins at its position or before: with the offsets [0, 1, 1],
    the index at position 0 is in bag 0, all others are in bag 2.
    """
    begins = slicing.slice_axis(builder, offsets, axis=0, start=0, limit=bags)
    positions = searchsorted(
        builder, begins, shapes.iota(builder, indices.shape, axis=0, dtype=offsets.dtype), right=True
    )
    bag = formula(builder, lambda n: n - 1, positions)
    if padding_idx is None or padding_idx < 0:
        return bag
    return formula(builder, lambda n, i: i.is_equal(padding_idx).where(-1, n), bag, indices)


def _counts(builder: Builder, bag: Tensor, bags: Size) -> Tensor:
    """Return the number of rows of each bag. bag: the bag of each row; -1 for none, which is not counted."""
    ones = shapes.full(builder, 1, bag.shape, I64)
    return assignment.put_rows(builder, shapes.full(builder, 0, [bags], I64), [bag], ones, "add")


def _argmax_of_bags(builder: Builder, largest: Tensor, rows: Tensor, bag: Tensor, indices: Tensor) -> Tensor:
    """Return, for each bag and column, the table index of the first row that has the maximum.

    largest: the maxima [bags, columns]. rows: the gathered rows [n, columns]. bag, indices: the bag and the table index
    of each row.
    """
    no_row = reductions.largest(I64)  # greater than all rows, so that the minimum of a bag ignores it
    largest_of_bag = gathers.take(builder, largest, bag, axis=0)
    row_numbers = formula(
        builder, lambda v, m: v.is_equal(m).where(v.position(0, I64), v.const(no_row).to(I64)), rows, largest_of_bag
    )
    first_row = assignment.put_rows(
        builder, shapes.full(builder, no_row, largest.shape, I64), [bag], row_numbers, "min"
    )
    return gathers.take(builder, indices, first_row, axis=0)


@converts("aten._embedding_bag_backward")
def embedding_bag_backward(
    builder: Builder, grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor,
    maximum_indices: Tensor, num_weights: Size, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """Return the gradient of the table of `embedding_bag`: each row gets the sum of the gradients of its bags.

    For example, with sums of the bags [4] and [1, 4], row 4 gets grad[0] + grad[1], row 1 grad[1], and others 0. For
    means, the gradient of a bag is first divided by the number of its rows. For maxima, each column of the gradient is
    added to the row that has the maximum of this column.

    Args:
        builder: The builder.
        grad: Gradient of the combined rows, [bags, columns].
        indices: Row numbers of all bags, one bag after the other.
        offsets: Begin of each bag in `indices`; an end of the last bag after these is not read.
        offset2bag: Bag of each index from the forward pass. Not read: the bags are computed again from `offsets`.
        bag_size: Number of rows of each bag from the forward pass. Not read: it is counted again.
        maximum_indices: Row number of each maximum from the forward pass, [bags, columns]; only read for _MAX.
        num_weights: Number of rows of the table.
        scale_grad_by_freq: Unsupported unless false.
        mode: _SUM, _MEAN or _MAX.
        sparse: Unsupported unless false.
        per_sample_weights: A factor for each index; None for 1.
        padding_idx: Number of a row that belongs to no bag and gets no gradient; below 0 for no such row.

    Raises:
        CompileError: `sparse` or `scale_grad_by_freq` is true.
    """
    if sparse:
        raise builder.fail("a sparse gradient of a table is unsupported", "make the layer with sparse=False")
    if scale_grad_by_freq:  # PyTorch's gradients on the CPU are not those that its documentation describes
        raise builder.fail("gradients of bags scaled by frequency are unsupported", "leave out scale_grad_by_freq")
    inner = normalization.wide(grad.dtype)
    bags, width = grad.shape
    bag = _bag_of_each(builder, indices, offsets, bags, padding_idx)
    counts = shapes.expand_dims(builder, _counts(builder, bag, bags), axes=[1])
    table = shapes.full(builder, 0, [num_weights, width], inner)
    if mode == _MAX:
        # An empty bag has no maximum: its entry in `maximum_indices` is arbitrary.
        updates = formula(builder, lambda g, n: (n > 0).where(g.to(inner), 0.0), grad, counts)
        return ew.convert(
            builder, assignment.put_along(builder, table, maximum_indices, updates, axis=0, combine="add"), grad.dtype
        )
    # Gradient of each row of a bag: that of the bag, divided by the number of rows for a mean, times the row's factor.
    share = ew.convert(builder, grad, inner)
    if mode == _MEAN:
        share = formula(builder, lambda g, n: g / n.max(1).to(inner), share, counts)
    rows = gathers.take(builder, share, bag, axis=0)
    if per_sample_weights is not None:
        rows = formula(
            builder, lambda g, w: g * w.to(inner), rows, shapes.expand_dims(builder, per_sample_weights, axes=[1])
        )
    # `put_rows` ignores the position -1, of padding.
    positions = formula(builder, lambda n, i: (n < 0).where(-1, i.to(I64)), bag, indices)
    return ew.convert(builder, assignment.put_rows(builder, table, [positions], rows, "add"), grad.dtype)


@converts("aten._embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    builder: Builder, grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """Return the gradient of `per_sample_weights`, the factors of the rows that `embedding_bag` adds up.

    For each index, it is the dot product of its row of the table and the gradient of its bag: with the bags [4] and
    [1, 4], the result is [weight[4] . grad[0], weight[1] . grad[1], weight[4] . grad[1]].

    Args:
        builder: The builder.
        grad: Gradient of the sums, [bags, columns].
        weight: The table, [rows, columns].
        indices: Row numbers of all bags, one bag after the other.
        offsets: Begin of each bag in `indices`; an end of the last bag after these is not read.
        offset2bag: Bag of each index from the forward pass. It is computed again, because it is empty for some sums.
        mode: Always _SUM: PyTorch allows factors in no other mode.
        padding_idx: Number of a row that belongs to no bag; below 0 for no such row.
    """
    inner = normalization.wide(grad.dtype)
    bag = _bag_of_each(builder, indices, offsets, grad.shape[0], padding_idx)
    rows, bag_grads = gathers.take(builder, weight, indices, axis=0), gathers.take(builder, grad, bag, axis=0)
    total = reductions.reduce(
        builder, "add", formula(builder, lambda w, g: w.to(inner) * g.to(inner), rows, bag_grads), axes=[1]
    )
    # An index of padding has the bag -1; the gradient of its factor is 0.
    return ew.convert(builder, formula(builder, lambda v, n: (n < 0).where(0.0, v), total, bag), grad.dtype)
