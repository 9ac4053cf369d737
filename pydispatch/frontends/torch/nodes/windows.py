"""Windows that move over images: pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, products, reductions, shapes, windows
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.torch.trace import Conversion, Tracer

Ints = Sequence[int]
Sizes = Sequence[Size]


def _each(values: Any, count: int) -> tuple[int, ...]:
    found = (values,) if isinstance(values, int) else tuple(values)
    return found * count if len(found) == 1 else found


class Pool:
    """A pooling over the last `spatial` axes of a tensor, which may come without an axis of batches."""

    def __init__(
        self, t: Tracer, x: Tensor, spatial: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
    ) -> None:
        self.t = t
        self.rank = x.rank
        self.spatial = spatial
        self.x = self.batched(x)
        self.kernel = _each(kernel, spatial)
        strides, around, steps = (_each(v, spatial) for v in (stride or self.kernel, padding, dilation))
        if any(len(v) != spatial for v in (self.kernel, strides, around, steps)) or min(strides, default=1) < 1:
            raise t.b.fail(f"pooling over {spatial} axes with kernel {list(kernel)} and strides {list(strides)}")
        self.window = products.Window(strides, around, around, steps)
        self.out = products.window_sizes(t.b, self.x.shape[2:], self.kernel, self.window, ceil)

    def batched(self, x: Tensor) -> Tensor:
        """Return a tensor of the rank of the operand with an axis of batches."""
        return x if x.rank == self.spatial + 2 else shapes.expand_dims(self.t.b, x, [0])

    def done(self, made: Tensor) -> Tensor:
        """A result, without the axis of batches where the operand has none."""
        return made if made.rank == self.rank else shapes.squeeze(self.t.b, made, [0])


def _max_pool(spatial: int) -> Conversion:
    def convert(
        t: Tracer, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> Tensor:  # fmt: skip
        p = Pool(t, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
        return p.done(windows.pool(t.b, "max", p.x, p.kernel, p.window, p.out))

    return convert


def _max_pool_with_places(spatial: int) -> Conversion:
    def convert(
        t: Tracer, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        p = Pool(t, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
        values, places = windows.max_pool_with_places(t.b, p.x, p.kernel, p.window, p.out)
        return p.done(values), p.done(places)

    return convert


def _avg_pool(spatial: int) -> Conversion:
    def convert(
        t: Tracer, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        p = Pool(t, self, spatial, kernel_size, stride, padding, (1,), ceil_mode)
        inner = normalization.wide(p.x.dtype)
        total = windows.pool(t.b, "add", ew.convert(t.b, p.x, inner), p.kernel, p.window, p.out)
        if divisor_override is not None:
            divisor = t.b.constant(divisor_override, inner)
        else:
            divisor = elements_in_windows(t, p, count_include_pad, inner)
        return p.done(ew.convert(t.b, ew.binary(t.b, "div", total, divisor), p.x.dtype))

    return convert


def elements_in_windows(t: Tracer, p: Pool, padding_counts: bool, dtype: Any) -> Tensor:
    """How many elements each window has, as a tensor that broadcasts to the result."""
    made = t.b.constant(1, I64)
    for d, (out, n) in enumerate(zip(p.out, p.x.shape[2:], strict=True)):
        around, step, reach = p.window.low[d], p.window.strides[d], p.kernel[d]
        first, beyond = (-around, n + around) if padding_counts else (0, n)
        size = reductions.size_as(t.b, beyond, I64)
        counts = formula(
            t.b, lambda o, m: (o * step - around + reach).at_most(m) - (o * step - around).at_least(first),  # noqa: B023
            shapes.iota(t.b, [out], 0, I64), size,
        )  # fmt: skip
        made = ew.binary(t.b, "mul", made, shapes.reshape(t.b, counts, [-1, *[1] * (len(p.out) - d - 1)]))
    return ew.convert(t.b, made, dtype)


# -- pooling to a size


def _adaptive_windows(n: int, out: int) -> list[tuple[int, int]]:
    return [(o * n // out, -((-(o + 1) * n) // out)) for o in range(out)]


def _adaptive(
    t: Tracer, tensors: list[Tensor], output_size: Sizes, reduce: Callable[[list[Tensor], int], list[Tensor]]
) -> list[Tensor]:
    """Each of the last axes of tensors of one shape cut into windows, which are reduced together."""
    made = tensors
    for d, out in enumerate(output_size):
        axis = tensors[0].rank - len(output_size) + d
        shape = made[0].shape
        n = shape[axis]
        if out == n:
            continue
        if out == 1:
            made = reduce(made, axis)
            continue
        if not isinstance(n, int) or not isinstance(out, int):
            raise t.b.fail(f"pooling of {tensors[0]} to the size {list(output_size)}: sizes must be known")
        if n % out == 0:
            split = [*shape[:axis], out, n // out, *shape[axis + 1 :]]
            whole = reduce([shapes.reshape(t.b, x, split) for x in made], axis + 1)
            made = [shapes.squeeze(t.b, x, [axis + 1]) for x in whole]
        else:
            windows_ = _adaptive_windows(n, out)
            parts = [reduce([shapes.slice_axis(t.b, x, axis, *window) for x in made], axis) for window in windows_]
            made = [shapes.concat(t.b, list(column), axis) for column in zip(*parts, strict=True)]
    return made


def adaptive_avg_pool(t: Tracer, self: Tensor, output_size: Sizes) -> Tensor:
    def mean(parts: list[Tensor], axis: int) -> list[Tensor]:
        return [reductions.mean(t.b, part, [axis], keep=True) for part in parts]

    (made,) = _adaptive(t, [ew.convert(t.b, self, normalization.wide(self.dtype))], output_size, mean)
    return ew.convert(t.b, made, self.dtype)


def adaptive_max_pool(t: Tracer, self: Tensor, output_size: Sizes) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its number in the image: of equal ones the first, of NaN the last."""
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
    values, places = _adaptive(t, [self, shapes.broadcast_to(t.b, number, self.shape)], output_size, reduce)
    return values, places


WINDOWS: dict[str, Conversion] = {
    **{f"aten.max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices": _max_pool_with_places(n) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{n}d": adaptive_avg_pool for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d": adaptive_avg_pool for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d": adaptive_max_pool for n in (1, 2, 3)},
}
