"""Pooling to a size: as many windows as the result has elements, which may overlap and differ in size by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import gathers, normalization, reductions, shapes
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.torch.trace import Conversion, Tracer

Sizes = Sequence[Size]
Reduce = Callable[[list[Tensor], int], list[Tensor]]
"""reduce(tensors, axis) -> the tensors reduced together along the axis, which stays with size 1."""
ReduceWindows = Callable[[list[Tensor], int, Tensor], list[Tensor]]
"""reduce_windows(tensors, axis, counts): the same where only the first counts[o] elements of window o count. The others
repeat the last one of these. The axis before `axis` numbers windows; counts [windows, 1] broadcasts from there on."""


def _pooled(
    t: Tracer, tensors: list[Tensor], output_size: Sizes, reduce: Reduce, reduce_windows: ReduceWindows
) -> list[Tensor]:
    """Cut each of the last axes of tensors of one shape into windows, and reduce each window over the tensors together.
    """
    made = tensors
    for d, out in enumerate(output_size):
        axis = tensors[0].rank - len(output_size) + d
        shape = made[0].shape
        n = shape[axis]
        if out == n:
            continue
        if out == 1:
            made = reduce(made, axis)
        elif isinstance(n, int) and isinstance(out, int) and n % out == 0:
            split = [*shape[:axis], out, n // out, *shape[axis + 1 :]]
            whole = reduce([shapes.reshape(t.b, x, split) for x in made], axis + 1)
            made = [shapes.squeeze(t.b, x, [axis + 1]) for x in whole]
        else:
            taken, counts = _windows(t, n, out)
            whole = reduce_windows([gathers.take(t.b, x, taken, axis) for x in made], axis + 1, counts)
            made = [shapes.squeeze(t.b, x, [axis + 1]) for x in whole]
    return made


def _windows(t: Tracer, n: Size, out: Size) -> tuple[Tensor, Tensor]:
    """Return the indices [out, longest window] of the elements of each window of an axis, and their number [out, 1].

    Windows that are shorter than the longest one repeat their last index.
    """
    if isinstance(n, int) and isinstance(out, int):
        longest: Size = max(-(-(o + 1) * n // out) - o * n // out for o in range(out))
    else:
        longest = n // out + 2
    size, count = (reductions.size_as(t.b, v, I64) for v in (n, out))
    numbers = shapes.reshape(t.b, shapes.iota(t.b, [out], 0, I64), [out, 1])
    first = formula(t.b, lambda o, n, m: o * n / m, numbers, size, count)
    last = formula(t.b, lambda o, n, m: ((o + 1) * n - 1) / m, numbers, size, count)
    within = shapes.reshape(t.b, shapes.iota(t.b, [longest], 0, I64), [1, longest])
    taken = formula(t.b, lambda k, f, e: (f + k).at_most(e), within, first, last)
    return taken, formula(t.b, lambda f, e: e - f + 1, first, last)


def adaptive_avg_pool(t: Tracer, self: Tensor, output_size: Sizes) -> Tensor:
    inner = normalization.wide(self.dtype)

    def mean(parts: list[Tensor], axis: int) -> list[Tensor]:
        return [reductions.mean(t.b, part, [axis], keep=True) for part in parts]

    def mean_of_windows(parts: list[Tensor], axis: int, counts: Tensor) -> list[Tensor]:
        (part,) = parts
        count = shapes.reshape(t.b, counts, [*counts.shape, *[1] * (part.rank - axis - 1)])
        number = shapes.reshape(t.b, shapes.iota(t.b, [part.shape[axis]], 0, I64), [-1, *[1] * (part.rank - axis - 1)])
        counted = formula(t.b, lambda v, k, c: (k < c).choose(v, 0.0), part, number, count)
        total = reductions.reduce(t.b, "add", counted, [axis], keep=True)
        return [formula(t.b, lambda v, c: v / c.to(inner), total, count)]

    (made,) = _pooled(t, [ew.convert(t.b, self, inner)], output_size, mean, mean_of_windows)
    return ew.convert(t.b, made, self.dtype)


def adaptive_max_pool(t: Tracer, self: Tensor, output_size: Sizes) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its index in the image: the first of equal elements, the last NaN.
    """
    spatial = len(output_size)

    def larger(s: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        (best, place), (value, here) = running, elements
        before, behind = s.compare("lt", here, place), s.compare("gt", here, place)
        taken = s.binary("or", s.compare("gt", value, best), s.binary("and", s.compare("eq", value, best), before))
        if value.dtype.is_float:
            first = s.unary("not", s.unary("is_nan", best))
            taken = s.binary("or", taken, s.binary("and", s.unary("is_nan", value), s.binary("or", first, behind)))
        return [s.select(taken, value, best), s.select(taken, here, place)]

    starts = [t.b.constant(reductions.least(self.dtype), self.dtype), t.b.constant(reductions.largest(I64), I64)]

    def reduce(parts: list[Tensor], axis: int) -> list[Tensor]:
        made = reductions.reduce_with(t.b, parts, starts, [axis], larger)
        return [reductions.kept_axes(t.b, x, parts[0], [axis]) for x in made]

    number = t.b.constant(0, I64)
    for d in range(self.rank - spatial, self.rank):
        size = reductions.size_as(t.b, self.shape[d], I64)
        along = shapes.reshape(t.b, shapes.iota(t.b, [self.shape[d]], 0, I64), [-1, *[1] * (self.rank - d - 1)])
        number = formula(t.b, lambda whole, n, at: whole * n + at, number, size, along)
    places = shapes.broadcast_to(t.b, number, self.shape)
    values, places = _pooled(t, [self, places], output_size, reduce, lambda parts, axis, _: reduce(parts, axis))
    return values, places


ADAPTIVE_POOLING: dict[str, Conversion] = {
    **{f"aten.adaptive_avg_pool{n}d": adaptive_avg_pool for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d": adaptive_avg_pool for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d": adaptive_max_pool for n in (1, 2, 3)},
}
