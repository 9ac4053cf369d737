"""Conversions of operators that read or replace elements at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.products import paddings, positive
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import (
    assignment,
    elementwise,
    gathers,
    ordering,
    reductions,
    regions,
    selection,
    shapes,
    slicing,
)
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.host_integers import HostInteger
from pydispatch.operations.indexing import CoordinateBuilder, elements_at


def _check_integers(call: NodeCall, indices: Tensor) -> None:
    """Raise CompileError if indices are not integers."""
    if not indices.dtype.is_integer:
        raise call.fail(f"its indices are {indices}; expected integers")


@ONNX.converts("Gather")
def _gather(call: NodeCall, x: Tensor, indices: Tensor) -> Tensor:
    """Return the slices of x along an axis at the indices; the axes of `indices` replace that axis."""
    _check_integers(call, indices)
    return gathers.take(call.b, x, indices, call.axis(call.integer("axis", 0), x.rank))


@ONNX.converts("GatherElements")
def _gather_elements(call: NodeCall, x: Tensor, indices: Tensor) -> Tensor:
    """Return numpy.take_along_axis: result[i, j] is x[indices[i, j], j] for two axes and axis 0."""
    axis = call.axis(call.integer("axis", 0), x.rank)
    _check_within(call, x, indices, axis)
    return gathers.take_along(call.b, x, indices, axis)


def _check_within(call: NodeCall, x: Tensor, indices: Tensor, axis: int) -> None:
    """Raise CompileError unless indices have the rank of x and are, except along `axis`, at most as large.

    Dynamic sizes are not compared.
    """
    _check_integers(call, indices)
    if indices.rank != x.rank:
        raise call.fail(f"its operands are {x} and indices {indices}; expected as many axes")
    for d, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if d != axis and not isinstance(n, Expr) and not isinstance(m, Expr) and m > n:
            raise call.fail(f"its indices {indices} are larger than {x} along axis {d}")


@ONNX.converts("GatherND")
def _gather_nd(call: NodeCall, x: Tensor, indices: Tensor) -> Tensor:
    """Return the slices of x at the positions in the rows of `indices` [..., k].

    The first `batch_dims` axes of x and indices correspond; a row has the positions along the next k axes of x.
    """
    _check_integers(call, indices)
    batch = call.integer("batch_dims", 0)
    if not 0 <= batch < max(1, min(x.rank, indices.rank)) or not indices.rank:
        raise call.fail(f"batch_dims is {batch} for {x} and {indices}")
    return gathers.take_nd(call.b, x, indices, batch)


_REDUCTIONS = {"none": None, "add": "add", "mul": "mul", "max": "max", "min": "min"}
"""Value of the attribute `reduction` → function that combines old and new elements; None replaces the old ones."""


@ONNX.converts("Scatter", "ScatterElements")
def _scatter_elements(call: NodeCall, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Return x with each update stored at a position, or combined with x's element there by the attribute `reduction`.

    The position of an update is its own position in `updates`, except along `axis`, where `indices` has it.
    """
    axis = call.axis(call.integer("axis", 0), x.rank)
    _check_within(call, x, indices, axis)
    # The function that combines old and new elements; None replaces the old ones.
    combine = _REDUCTIONS[call.text("reduction", "none", tuple(_REDUCTIONS))]
    return assignment.put_along(call.b, x, indices, updates, axis, combine)


@ONNX.converts("ScatterND")
def _scatter_nd(call: NodeCall, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Return x with slices replaced by updates, or combined with them by the attribute `reduction`.

    A row of `indices` [..., k] is the position of a slice along the first k axes of x.
    """
    _check_integers(call, indices)
    # _REDUCTIONS: the function that combines old and new elements; None replaces the old ones.
    return assignment.put_nd(
        call.b, x, indices, updates, _REDUCTIONS[call.text("reduction", "none", tuple(_REDUCTIONS))]
    )


@ONNX.converts("TensorScatter")
def _tensor_scatter(call: NodeCall, cache: Tensor, update: Tensor, begin: Tensor | None = None) -> Tensor:
    """Return a cache [batch, ..., length, ...] with an update written along the attribute `axis` from a position on.

    `begin` has that position for each batch; without it, it is 0. In the mode "circular" positions beyond the end
    continue at 0.
    """
    axis = call.axis(call.integer("axis", -2), cache.rank)
    is_circular = call.text("mode", "linear", ("linear", "circular")) == "circular"
    start = begin if begin is not None else call.b.constant([0], I64)
    start = shapes.reshape(call.b, start, [start.shape[0], *[1] * (cache.rank - 1)])
    # For each element of the update its position in the cache along the axis.
    positions = shapes.iota(call.b, update.shape, axis, I64)
    size = reductions.size_as(call.b, cache.shape[axis], I64)
    positions = formula(call.b, lambda i, s, n: (i + s) % n if is_circular else i + s, positions, start, size)
    return assignment.put_along(call.b, cache, positions, update, axis)


@ONNX.converts("OneHot")
def _one_hot(call: NodeCall, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """Return values[1] where the position along a new axis of `depth` elements equals the index, values[0] elsewhere.

    A negative index counts from the end.
    """
    axis = call.axis(call.integer("axis", -1), indices.rank + 1)
    (size,) = call.sizes(depth, "depth")
    expanded = shapes.expand_dims(call.b, elementwise.convert(call.b, indices, I64), [axis])
    shape = tuple(size if d == axis else n for d, n in enumerate(expanded.shape))
    length = reductions.size_as(call.b, size, I64)
    expanded = formula(call.b, lambda i, n: (i < 0).where(i + n, i), expanded, length)
    off, on = (
        shapes.reshape(call.b, slicing.slice_axis(call.b, values, axis=0, start=n, limit=n + 1), []) for n in (0, 1)
    )
    positions = shapes.iota(call.b, shape, axis, I64)
    return formula(call.b, lambda at, i, no, yes: at.is_equal(i).where(yes, no), positions, expanded, off, on)


@ONNX.converts("TopK")
def _top_k(call: NodeCall, x: Tensor, k: Tensor | None = None) -> Sequence[Tensor]:
    """Return the k largest or smallest elements along an axis and their indices."""
    axis = call.axis(call.integer("axis", -1), x.rank)
    largest = call.flag("largest", default=True)
    call.ignore("sorted")  # sorted results are valid in either case
    count = call.integer("k") if k is None else call.sizes(k, "k")[0]
    n = x.shape[axis]
    if not isinstance(count, Expr) and (count < 0 or (not isinstance(n, Expr) and count > n)):
        raise call.fail(f"k is {count} for axis {axis} of {x}")
    is_computed_in_call = k is not None and call.maybe_sizes(k) is None  # not known from the shapes of inputs
    if is_computed_in_call:
        (HostInteger.of(call.b, count) <= n).require(f"TopK: k is larger than axis {axis} of {x}")
    return ordering.top_k(call.b, x, count, axis, largest=largest)


@ONNX.converts("NonZero")
def _non_zero(call: NodeCall, x: Tensor) -> Tensor:
    """Return the positions of the non-zero elements as [axes, elements]."""
    rows = selection.indices_of_nonzero(call.b, x if x.rank else shapes.reshape(call.b, x, [1]))
    # A scalar has no axes, so that its result has no rows.
    return slicing.stack(call.b, rows, axis=0) if x.rank else shapes.full(call.b, 0, [0, *rows[0].shape], I64)


@ONNX.converts("Compress")
def _compress(call: NodeCall, x: Tensor, condition: Tensor) -> Tensor:
    """Return the slices along an axis for which the condition is true; without an axis, those of the
    flattened tensor.
    """
    if call.has("axis"):
        axis = call.axis(call.integer("axis"), x.rank)
    else:
        x, axis = shapes.reshape(call.b, x, [product(x.shape)]), 0
    return gathers.take(call.b, x, selection.indices_of_true(call.b, condition), axis)


@ONNX.converts("ReverseSequence")
def _reverse_sequence(call: NodeCall, x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first `lengths[batch]` elements along the time axis for each batch; the others stay in place.

    The sequence [a, b, c, d] with the length 3 becomes [c, b, a, d].
    """
    batch, time = call.axis(call.integer("batch_axis", 1), x.rank), call.axis(call.integer("time_axis", 0), x.rank)
    # With size 1 along the other axes, the lengths broadcast to x.
    lengths_ = shapes.reshape(call.b, lengths, [lengths.shape[0] if d == batch else 1 for d in range(x.rank)])
    last = call.b.index(x.shape[time] - 1)

    def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
        """Return the position in x of an element of the result: its own position, except along the time axis.

        There, index `at` within a sequence becomes length - 1 - at. `coords.elements` has the length of the sequence;
        `last` is the last index of the time axis.
        """
        length, at = coords.index_of(coords.elements[0]), coords.loop_index(time)
        inside = coords.add_op(arith.CmpiOp(at, length, "slt"))
        from_end = coords.minus(coords.minus(length, coords.index_constant(1)), at)
        # A length beyond the axis is invalid: clamped to the last element, it reads nothing out of bounds.
        time_index = coords.clamped(coords.add_op(arith.SelectOp(inside, from_end, at)), last)
        return [time_index if d == time else coords.loop_index(d) for d in range(x.rank)]

    return elements_at(call.b, x, x.shape, coordinates, lengths_)


@ONNX.converts("MaxUnpool")
def _max_unpool(call: NodeCall, x: Tensor, indices: Tensor, shape: Tensor | None = None) -> Tensor:
    """Put each element at the position that MaxPool returned for it, with 0 elsewhere.

    The shape of the result is the operand `shape` if there is one. Otherwise it is the smallest operand from which a
    MaxPool with these attributes makes the shape of x. With windows of 2 and strides of 2, x = [7, 9] at the positions
    [1, 2] becomes [0, 7, 9, 0].
    """
    # The shape that a MaxPool turns into the shape of x, without the dilations, which MaxUnpool does not have.
    kernel = call.integers("kernel_shape")
    rank = len(kernel)
    strides, pads = positive(call, "strides", rank), paddings(call, "pads", 2 * rank)
    if rank != x.rank - 2:
        raise call.fail(f"a kernel_shape of {kernel} does not fit {x}")
    spatial = [(x.shape[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[rank + d] for d in range(rank)]
    inferred_shape = [*x.shape[:2], *spatial]
    wanted = inferred_shape if shape is None else call.sizes(shape, "output_shape")
    # Indices are flattened positions in a tensor of the inferred shape, even if output_shape states another one.
    positions = shapes.reshape(call.b, indices, [product(indices.shape), 1])
    flat = shapes.full(call.b, 0.0, [product(wanted)], x.dtype)
    if shape is not None:
        positions = _reflattened(call, positions, inferred_shape, wanted)
    unpooled = assignment.put_nd(call.b, flat, positions, shapes.reshape(call.b, x, [product(x.shape)]))
    return shapes.reshape(call.b, unpooled, wanted)


def _reflattened(call: NodeCall, positions: Tensor, old: Sequence[Size], new: Sequence[Size]) -> Tensor:
    """Convert flattened positions in a tensor of shape `old` to flattened positions in a tensor of shape `new`.

    Position 5 in the shape [2, 3] is at the indices [1, 2], which are position 6 in the shape [4, 4].

    MaxUnpool needs this if `output_shape` differs from the shape that its positions were computed for.
    """
    sizes = [reductions.size_as(call.b, n, I64) for n in (*old, *new)]

    def reflattened(position: Element, *sizes: Element) -> Element:
        """Return the row-major position in the new shape of the indices that `position` has in the old one.

        `sizes` has the sizes of the old shape, then the sizes of the new shape, which has the same rank.
        """
        # `total` and `stride` begin as 0 and 1 in the type of `position`. From the last axis on, the remainder by the
        # old size is the index along the axis, which is multiplied by the axis's stride in the new shape.
        # All are integers, so that `/` drops the remainder.
        remaining, total, stride = position, position * 0, position * 0 + 1
        for d in reversed(range(len(old))):
            total = total + remaining % sizes[d] * stride
            remaining, stride = remaining / sizes[d], stride * sizes[len(old) + d]
        return total

    return formula(call.b, reflattened, positions, *sizes)


@ONNX.converts("NonMaxSuppression")
def _non_max_suppression(
    call: NodeCall, boxes: Tensor, scores: Tensor, max_count: Tensor | None = None,
    max_overlap: Tensor | None = None, min_score: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return rows (batch, class, box) of the boxes that remain after non-maximum suppression in each class.

    Args:
        call: The node.
        boxes: [batch, boxes, 4]: two opposite corners (y, x, y, x) or, if the attribute center_point_box is 1, center
            and size (x, y, width, height).
        scores: [batch, classes, boxes].
        max_count: Maximum number of boxes per class; 0, so that no box remains, if omitted.
        max_overlap: Boxes whose intersection over union with a better box exceeds this are removed; 0 if omitted.
        min_score: Boxes of this score or less are removed; none if omitted. A box whose score is NaN is removed always.
    """
    b = call.b
    centered = call.integer("center_point_box", 0) == 1
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != 4:
        raise call.fail(
            f"its operands are {boxes} and {scores}; expected [batch, boxes, 4] and [batch, classes, boxes]"
        )
    batch, classes, count = scores.shape
    size = classes * batch
    most = shapes.reshape(b, max_count if max_count is not None else b.constant(0, I64), [])
    threshold = shapes.reshape(b, max_overlap if max_overlap is not None else b.constant(0.0, F32), [])

    # Sort the boxes of each class by their scores, best first; `order` has their indices.
    sorted_scores, order = ordering.top_k(b, scores, count, axis=2)
    is_eligible = formula(b, lambda v: v.is_equal(v), sorted_scores)  # false for NaN
    if min_score is not None:
        is_eligible = formula(b, lambda v, n: v > n, sorted_scores, shapes.reshape(b, min_score, []))
    sides = [gathers.take_along(b, _coordinate_per_class(call, boxes, n, scores), order, axis=2) for n in range(4)]
    low_y, low_x, high_y, high_x = formulas(b, lambda *v: _corners(v, centered), *sides)
    flat = [shapes.reshape(b, t, [size, count]) for t in (low_y, low_x, high_y, high_x)]
    is_eligible = shapes.reshape(b, is_eligible, [size, count])

    # Remove overlapping boxes in each class of each image, and list the remaining ones as (batch, class, box).
    # `best_boxes` takes the boxes best first, and passes the lambda the areas of the intersection and the union of a
    # box with each better box that remains: the box is removed if the lambda returns true for one of them.
    kept = regions.best_boxes(
        b, flat, is_eligible, threshold, lambda common, union, threshold: common > union * threshold, most=most
    )
    return _kept_boxes(b, shapes.reshape(b, kept, [size * count]), order)


def _kept_boxes(b: Builder, kept: Tensor, order: Tensor) -> Tensor:
    """Return a row (batch, class, box) for each box that remains.

    Args:
        b: The builder.
        kept: Whether each box remains, [batch * classes * boxes].
        order: Index of each of these boxes in its image, [batch, classes, boxes].
    """
    _batch, classes, count = order.shape
    indices = selection.indices_of_true(b, kept)
    box = gathers.take(b, shapes.reshape(b, order, kept.shape), indices, axis=0)
    class_count, box_count = (reductions.size_as(b, n, I64) for n in (classes, count))
    # An index is (image * classes + class) * boxes + position of the box in `order`.
    image = formula(b, lambda at, k, n: at / (k * n), indices, class_count, box_count)
    class_index = formula(b, lambda at, k, n: at / n % k, indices, class_count, box_count)
    return slicing.concat(b, [shapes.expand_dims(b, t, axes=[1]) for t in (image, class_index, box)], axis=1)


def _coordinate_per_class(call: NodeCall, boxes: Tensor, side: int, scores: Tensor) -> Tensor:
    """Return boxes[:, :, side] (0 to 3), repeated for each class: [batch, classes, boxes], the shape of `scores`."""
    part = shapes.reshape(
        call.b,
        slicing.slice_axis(call.b, boxes, axis=2, start=side, limit=side + 1),
        [boxes.shape[0], 1, boxes.shape[1]],
    )
    return shapes.broadcast_to(call.b, part, scores.shape)


def _corners(values: Sequence[Element], centered: bool) -> list[Element]:
    """Return y and x of the lower corner and y and x of the upper corner of a box.

    The box is given by two opposite corners (y, x, y, x) or, if `centered`, by center and size (x, y, width, height).
    """
    if centered:
        x, y, width, height = values
        return [y - height * 0.5, x - width * 0.5, y + height * 0.5, x + width * 0.5]
    return [
        values[0].min(values[2]),
        values[1].min(values[3]),
        values[0].max(values[2]),
        values[1].max(values[3]),
    ]


@ONNX.converts("Unique")
def _unique(call: NodeCall, x: Tensor) -> list[Tensor]:
    """Return the distinct slices of x along an axis, without the attribute `axis` the distinct elements of flattened x.

    Further results are the position of the first occurrence of each distinct slice, for each slice of x the index of
    its distinct one, and how often each distinct one occurs.
    """
    sort = call.flag("sorted", default=True)
    if call.has("axis"):
        axis = call.axis(call.integer("axis"), x.rank)
    else:
        x, axis = shapes.reshape(call.b, x, [product(x.shape)]), 0
    return list(selection.distinct_slices(call.b, x, axis, sort))
