"""Operators that take or replace elements at places that tensors state."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import F32, I64
from pydispatch.frontends.graph.sizes import Expr, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, gathers, ordering, reductions, regions, scatters, selection, shapes
from pydispatch.frontends.ops.formulas import Element, formula, formulas
from pydispatch.frontends.ops.indexing import Places, elements_at


def _check_integers(c: Call, indices: Tensor) -> None:
    if not indices.dtype.is_integer:
        raise c.fail(f"its indices are {indices}; expected integers")


def _gather(c: Call, x: Tensor, indices: Tensor) -> Tensor:
    _check_integers(c, indices)
    return gathers.take(c.b, x, indices, c.axis(c.integer("axis", 0), x.rank))


def _gather_elements(c: Call, x: Tensor, indices: Tensor) -> Tensor:
    axis = c.axis(c.integer("axis", 0), x.rank)
    _check_within(c, x, indices, axis)
    return gathers.take_along(c.b, x, indices, axis)


def _check_within(c: Call, x: Tensor, indices: Tensor, axis: int) -> None:
    _check_integers(c, indices)
    if indices.rank != x.rank:
        raise c.fail(f"its operands are {x} and indices {indices}; expected as many axes")
    for d, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if d != axis and not isinstance(n, Expr) and not isinstance(m, Expr) and m > n:
            raise c.fail(f"its indices {indices} are larger than {x} along axis {d}")


def _gather_nd(c: Call, x: Tensor, indices: Tensor) -> Tensor:
    _check_integers(c, indices)
    batch = c.integer("batch_dims", 0)
    if not 0 <= batch < max(1, min(x.rank, indices.rank)) or not indices.rank:
        raise c.fail(f"batch_dims is {batch} for {x} and {indices}")
    return gathers.take_nd(c.b, x, indices, batch)


_COMBINE = {"none": None, "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _scatter_elements(c: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = c.axis(c.integer("axis", 0), x.rank)
    _check_within(c, x, indices, axis)
    combine = _COMBINE[c.text("reduction", "none", tuple(_COMBINE))]
    return scatters.put_along(c.b, x, indices, updates, axis, combine)


def _scatter_nd(c: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    _check_integers(c, indices)
    return scatters.put_nd(c.b, x, indices, updates, _COMBINE[c.text("reduction", "none", tuple(_COMBINE))])


def _tensor_scatter(c: Call, cache: Tensor, update: Tensor, begin: Tensor | None = None) -> Tensor:
    """Update written into a cache [batch, ..., length, ...] from a place on that each batch states."""
    axis = c.axis(c.integer("axis", -2), cache.rank)
    around = c.text("mode", "linear", ("linear", "circular")) == "circular"
    start = begin if begin is not None else c.b.constant([0], I64)
    start = shapes.reshape(c.b, start, [start.shape[0], *[1] * (cache.rank - 1)])
    places = shapes.iota(c.b, update.shape, axis, I64)
    size = reductions.size_as(c.b, cache.shape[axis], I64)
    places = formula(c.b, lambda i, s, n: (i + s) % n if around else i + s, places, start, size)
    return scatters.put_along(c.b, cache, places, update, axis)


def _one_hot(c: Call, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """Return a tensor of two values: the second one where the place along a new axis is the index, elsewhere the first
    one.
    """
    axis = c.axis(c.integer("axis", -1), indices.rank + 1)
    (size,) = c.sizes(depth, "depth")
    spread = shapes.expand_dims(c.b, elementwise.convert(c.b, indices, I64), [axis])
    shape = tuple(size if d == axis else n for d, n in enumerate(spread.shape))
    wide = reductions.size_as(c.b, size, I64)
    spread = formula(c.b, lambda i, n: (i < 0).choose(i + n, i), spread, wide)
    off, on = (shapes.reshape(c.b, shapes.slice_axis(c.b, values, 0, n, n + 1), []) for n in (0, 1))
    places = shapes.iota(c.b, shape, axis, I64)
    return formula(c.b, lambda at, i, no, yes: at.is_equal(i).choose(yes, no), places, spread, off, on)


def _top_k(c: Call, x: Tensor, k: Tensor | None = None) -> Sequence[Tensor]:
    axis = c.axis(c.integer("axis", -1), x.rank)
    largest = c.flag("largest", True)
    c.ignore("sorted")  # sorted ones are as good
    count = c.integer("k") if k is None else c.sizes(k, "k")[0]
    n = x.shape[axis]
    if not isinstance(count, Expr) and (count < 0 or (not isinstance(n, Expr) and count > n)):
        raise c.fail(f"k is {count} for axis {axis} of {x}")
    return ordering.top_k(c.b, x, count, axis, largest=largest)


def _non_zero(c: Call, x: Tensor) -> Tensor:
    """Return the places of elements that are not 0, a row for each axis."""
    rows = selection.places_of_nonzero(c.b, x if x.rank else shapes.reshape(c.b, x, [1]))
    return shapes.stack(c.b, rows, 0) if x.rank else shapes.full(c.b, 0, [0, *rows[0].shape], I64)


def _compress(c: Call, x: Tensor, condition: Tensor) -> Tensor:
    """Return the slices along an axis whose condition is true."""
    if c.has("axis"):
        axis = c.axis(c.integer("axis"), x.rank)
    else:
        x, axis = shapes.reshape(c.b, x, [product(x.shape)]), 0
    return gathers.take(c.b, x, selection.places_of_true(c.b, condition), axis)


def _reverse_sequence(c: Call, x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first elements along the time axis, as many as each batch states."""
    batch, time = c.axis(c.integer("batch_axis", 1), x.rank), c.axis(c.integer("time_axis", 0), x.rank)
    given = shapes.reshape(c.b, lengths, [lengths.shape[0] if d == batch else 1 for d in range(x.rank)])
    last = c.b.index(x.shape[time] - 1)

    def places(p: Places) -> list[SSAValue]:
        length, at = p.index_of(p.given[0]), p.index(time)
        inside = p.add_op(arith.CmpiOp(at, length, "slt"))
        back = p.minus(p.minus(length, p.number(1)), at)
        return [p.clamped(p.add_op(arith.SelectOp(inside, back, at)), last) if d == time else p.index(d)
                for d in range(x.rank)]  # fmt: skip

    return elements_at(c.b, x, x.shape, places, given)


def _max_unpool(c: Call, x: Tensor, indices: Tensor, shape: Tensor | None = None) -> Tensor:
    """Put elements back at the places where MaxPool found them, with 0 elsewhere."""
    kernel = c.integers("kernel_shape")
    rank = len(kernel)
    strides, pads = c.integers("strides", [1] * rank), c.integers("pads", [0] * (2 * rank))
    if rank != x.rank - 2 or len(strides) != rank or len(pads) != 2 * rank:
        raise c.fail(f"a kernel_shape of {kernel} does not fit {x}")
    inferred = [(x.shape[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[rank + d] for d in range(rank)]
    out = [*x.shape[:2], *inferred]
    wanted = out if shape is None else c.sizes(shape, "output_shape")
    # Places are those in a result of the inferred shape.
    places = shapes.reshape(c.b, indices, [product(indices.shape), 1])
    flat = shapes.full(c.b, 0.0, [product(wanted)], x.dtype)
    if shape is not None:
        places = _in_other_shape(c, places, out, wanted)
    made = scatters.put_nd(c.b, flat, places, shapes.reshape(c.b, x, [product(x.shape)]))
    return shapes.reshape(c.b, made, wanted)


def _in_other_shape(c: Call, places: Tensor, old: Sequence[Size], new: Sequence[Size]) -> Tensor:
    sizes = [reductions.size_as(c.b, n, I64) for n in (*old, *new)]

    def moved(at: Element, *given: Element) -> Element:
        left, total, stride = at, at * 0, at * 0 + 1
        for d in reversed(range(len(old))):
            total = total + left % given[d] * stride
            left, stride = left / given[d], stride * given[len(old) + d]
        return total

    return formula(c.b, moved, places, *sizes)


def _non_max_suppression(
    c: Call, boxes: Tensor, scores: Tensor, most: Tensor | None = None, overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the best boxes of each class that overlap no better one too much: rows (batch, class, box).

    boxes: [batch, boxes, 4]; scores: [batch, classes, boxes].
    """
    b = c.b
    centered = c.integer("center_point_box", 0) == 1
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != 4:
        raise c.fail(f"its operands are {boxes} and {scores}")
    batch, classes, count = scores.shape
    size = classes * batch
    limit = shapes.reshape(b, most if most is not None else b.constant(0, I64), [])
    enough = shapes.reshape(b, overlap if overlap is not None else b.constant(0.0, F32), [])
    valued, order = ordering.top_k(b, scores, count, 2)
    good = formula(b, lambda v: v.is_equal(v), valued)
    if least is not None:
        good = formula(b, lambda v, n: v > n, valued, shapes.reshape(b, least, []))
    sides = [gathers.take_along(b, _spread(c, boxes, n, scores), order, 2) for n in range(4)]
    low_y, low_x, high_y, high_x = formulas(b, lambda *v: _corners(v, centered), *sides)
    flat = [shapes.reshape(b, t, [size, count]) for t in (low_y, low_x, high_y, high_x)]
    good = shapes.reshape(b, good, [size, count])

    kept = regions.best_boxes(b, flat, good, enough, lambda common, both, limit: common > both * limit, limit)
    found = selection.places_of_true(b, shapes.reshape(b, kept, [size * count]))
    box = gathers.take(b, shapes.reshape(b, order, [size * count]), found, 0)
    number, each = (reductions.size_as(b, n, I64) for n in (classes, count))
    image = formula(b, lambda at, k, n: at / (k * n), found, number, each)
    kind = formula(b, lambda at, k, n: at / n % k, found, number, each)
    return shapes.concat(b, [shapes.expand_dims(b, t, [1]) for t in (image, kind, box)], 1)


def _spread(c: Call, boxes: Tensor, side: int, scores: Tensor) -> Tensor:
    """Return one coordinate of each box, repeated for each class."""
    part = shapes.reshape(c.b, shapes.slice_axis(c.b, boxes, 2, side, side + 1), [boxes.shape[0], 1, boxes.shape[1]])
    return shapes.broadcast_to(c.b, part, scores.shape)


def _corners(v: Sequence[Element], centered: bool) -> list[Element]:
    """Return the lower and the upper corner of a box: of two corners in any order, or of a center and sizes."""
    if centered:
        x, y, width, height = v
        return [y - height * 0.5, x - width * 0.5, y + height * 0.5, x + width * 0.5]
    return [v[0].at_most(v[2]), v[1].at_most(v[3]), v[0].at_least(v[2]), v[1].at_least(v[3])]


def _unique(c: Call, x: Tensor) -> list[Tensor]:
    """Return the distinct elements, or slices along an axis; the first place of each; the distinct one that each
    element is; and how often each one occurs.
    """
    sort = c.flag("sorted", True)
    if c.has("axis"):
        axis = c.axis(c.integer("axis"), x.rank)
    else:
        x, axis = shapes.reshape(c.b, x, [product(x.shape)]), 0
    return list(selection.distinct_slices(c.b, x, axis, sort))


TABLE: dict[str, Conversion] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "NonZero": _non_zero,
    "Compress": _compress,
    "ReverseSequence": _reverse_sequence,
    "MaxUnpool": _max_unpool,
    "Unique": _unique,
    "NonMaxSuppression": _non_max_suppression,
}
