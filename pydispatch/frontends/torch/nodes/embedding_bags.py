"""Conversions of embedding bags, sums (means, maxima) of groups of table rows, and of their gradients."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.ordering import searchsorted
from pydispatch.frontends.torch.registry import converts
from pydispatch.frontends.torch.trace import Saved
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, gathers, normalization, reductions, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula

_SUM, _MEAN, _MAX = range(3)
"""PyTorch's codes of the ways to combine the rows of a bag."""
_TYPES_WITHOUT_BAG_INDICES = ("f32", "f16")
"""Element types of tables. For their sums, the returned bag of each index is an empty vector, as PyTorch's CPU kernel
returns it."""


@converts("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")
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
    """Combine the rows of the table `weight` that belong to a bag: add them up, or take their mean or maximum.

    Args:
        builder: The builder.
        weight: The table.
        indices: A vector of rows of the table; bag b has those from offsets[b] to offsets[b + 1], without that end.
        offsets: Begin of each bag in `indices`.
        scale_grad_by_freq: Affects gradients only.
        mode: _SUM, _MEAN or _MAX.
        sparse: Affects gradients only.
        per_sample_weights: A factor for each index; None for 1.
        include_last_offset: Whether `offsets` also has the end of the last bag, which else is the end of the indices.
        padding_idx: Row that belongs to no bag; None or below 0 for no such row.

    Returns:
        The combined rows of each bag and, as PyTorch saves them for gradients, the bag of each index, the number of
        rows of each bag, and the table indices of maxima.
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
    omits_bags = (  # as PyTorch does for these sums
        mode == _SUM and weight.dtype.name in _TYPES_WITHOUT_BAG_INDICES and (padding_idx is None or padding_idx < 0)
    )
    bags_of_indices = shapes.full(builder, 0, [0], offsets.dtype) if omits_bags else bag

    # Combine the rows of each bag; an empty bag has zeros.
    if mode == _MAX:
        least = shapes.full(builder, reductions.least(weight.dtype), shape, weight.dtype)
        largest = assignment.put_rows(builder, least, [bag], rows, "max")
        result = formula(builder, lambda v, n: (n > 0).where(v, 0.0), largest, column)
        return (
            result,
            Saved(bags_of_indices),
            Saved(counts),
            Saved(_argmax_of_bags(builder, largest, rows, bag, indices)),
        )
    result = assignment.put_rows(builder, shapes.full(builder, 0, shape, weight.dtype), [bag], rows, "add")
    if mode == _MEAN:
        result = formula(builder, lambda v, n: v / n.max(1).to(v.dtype), result, column)
    return result, Saved(bags_of_indices), Saved(counts), Saved(counts)  # gradients read no indices of maxima here


def _bag_of_each(builder: Builder, indices: Tensor, offsets: Tensor, bags: Size, padding_idx: int | None) -> Tensor:
    """Return the bag of each index; -1 for padding, which belongs to no bag.

    bags: number of bags. An index is in the last bag that begins at its position or before.
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
    """Return the gradient of the table: each row gets the sum of the gradients of the bags that it is in.

    grad: gradient of the combined rows of each bag. A mean divides it by the number of rows in the bag. A maximum
    passes it to the rows `maximum_indices` that the forward pass saved. The other saved tensors are computed again.
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
        updates = formula(builder, lambda g, n: (n > 0).where(g.to(inner), 0.0), grad, counts)
        return ew.convert(
            builder, assignment.put_along(builder, table, maximum_indices, updates, axis=0, combine="add"), grad.dtype
        )
    # Of a sum or a mean, each row of a bag gets the bag's gradient, times its share or its weight.
    share = ew.convert(builder, grad, inner)
    if mode == _MEAN:
        share = formula(builder, lambda g, n: g / n.max(1).to(inner), share, counts)
    rows = gathers.take(builder, share, bag, axis=0)
    if per_sample_weights is not None:
        rows = formula(
            builder, lambda g, w: g * w.to(inner), rows, shapes.expand_dims(builder, per_sample_weights, axes=[1])
        )
    positions = formula(builder, lambda n, i: (n < 0).where(-1, i.to(I64)), bag, indices)
    return ew.convert(builder, assignment.put_rows(builder, table, [positions], rows, "add"), grad.dtype)


@converts("aten._embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    builder: Builder, grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """Return the gradient of the weights of the rows in a sum: the product of the row and the gradient of its bag.

    PyTorch allows weights in sums only, so that `mode` has one value. The bag of each index is computed from `offsets`
    again: `offset2bag`, in which the forward pass saved it, is empty after some sums.
    """
    inner = normalization.wide(grad.dtype)
    bag = _bag_of_each(builder, indices, offsets, grad.shape[0], padding_idx)
    rows, bag_grads = gathers.take(builder, weight, indices, axis=0), gathers.take(builder, grad, bag, axis=0)
    total = reductions.reduce(
        builder, "add", formula(builder, lambda w, g: w.to(inner) * g.to(inner), rows, bag_grads), axes=[1]
    )
    # The bag of padding is -1, and the gradient of its weight 0.
    return ew.convert(builder, formula(builder, lambda v, n: (n < 0).where(0.0, v), total, bag), grad.dtype)
