"""Windows that move over images: pooling; and images of another size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import gathers, normalization, products, reductions, shapes, windows
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.torch.trace import Conversion, Tracer

if TYPE_CHECKING:
    import numpy as np

Ints = Sequence[int]
Floats = Sequence[float]
Sizes = Sequence[Size]


def _each(values: Any, count: int) -> tuple[int, ...]:
    found = (values,) if isinstance(values, int) else tuple(values)
    return found * count if len(found) == 1 else found


class _Pool:
    """A pooling over the last `spatial` axes of a tensor, which may come without an axis of batches."""

    def __init__(
        self, t: Tracer, x: Tensor, spatial: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
    ) -> None:
        self.t = t
        self.rank = x.rank
        self.x = x if x.rank == spatial + 2 else shapes.expand_dims(t.b, x, [0])
        self.kernel = _each(kernel, spatial)
        strides, around, steps = (_each(v, spatial) for v in (stride or self.kernel, padding, dilation))
        if any(len(v) != spatial for v in (self.kernel, strides, around, steps)) or min(strides, default=1) < 1:
            raise t.b.fail(f"pooling over {spatial} axes with kernel {list(kernel)} and strides {list(strides)}")
        self.window = products.Window(strides, around, around, steps)
        out = products.window_sizes(t.b, self.x.shape[2:], self.kernel, self.window, ceil)
        # A window that begins beyond the image and what is in front of it is left out.
        self.out = tuple(
            o - 1 if ceil and isinstance(o, int) and (o - 1) * s >= n + p else o
            for o, s, n, p in zip(out, strides, self.x.shape[2:], around, strict=True)
        )

    def done(self, made: Tensor) -> Tensor:
        """A result, without the axis of batches where the operand has none."""
        return made if made.rank == self.rank else shapes.squeeze(self.t.b, made, [0])


def _max_pool(spatial: int) -> Conversion:
    def convert(
        t: Tracer, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> Tensor:  # fmt: skip
        p = _Pool(t, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
        return p.done(windows.pool(t.b, "max", p.x, p.kernel, p.window, p.out))

    return convert


def _max_pool_with_places(spatial: int) -> Conversion:
    def convert(
        t: Tracer, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        p = _Pool(t, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
        values, places = _largest_with_places(t, p)
        return p.done(values), p.done(places)

    return convert


def _largest_with_places(t: Tracer, p: _Pool) -> list[Tensor]:
    """The largest element of each window, and its number in the image."""
    sizes = p.x.shape[2:]
    if any(isinstance(n, Expr) for n in sizes):
        values = windows.pool(t.b, "max", p.x, p.kernel, p.window, p.out)
        return [values, shapes.broadcast_to(t.b, t.b.constant(-1, I64), values.shape)]
    spatial, window = len(sizes), p.window

    def combine(s: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        (best, place), (value,) = running, elements
        here = s.const(0, I64)
        for d in range(spatial):
            at = s.binary("mul", s.position(2 + d), s.const(window.strides[d], I64))
            inside = s.binary("mul", s.position(2 + spatial + d), s.const(window.dilations[d], I64))
            at = s.binary("sub", s.binary("add", at, inside), s.const(window.low[d], I64))  # type: ignore[arg-type]
            here = s.binary("add", s.binary("mul", here, s.const(sizes[d], I64)), at)  # type: ignore[arg-type]
        larger = s.compare("gt", value, best)
        if value.dtype.is_float:
            larger = s.binary("or", larger, s.unary("is_nan", value))
        return [s.select(larger, value, best), s.select(larger, here, place)]

    least = reductions.least(p.x.dtype)
    starts = [(least, p.x.dtype), (0, I64)]
    return windows.reduce_image_windows(t.b, p.x, starts, p.kernel, p.window, p.out, combine, least)


def _avg_pool(spatial: int) -> Conversion:
    def convert(
        t: Tracer, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        p = _Pool(t, self, spatial, kernel_size, stride, padding, (1,), ceil_mode)
        inner = normalization.wide(p.x.dtype)
        total = windows.pool(t.b, "add", ew.convert(t.b, p.x, inner), p.kernel, p.window, p.out)
        if divisor_override is not None:
            divisor = t.b.constant(divisor_override, inner)
        else:
            divisor = _elements_in_windows(t, p, count_include_pad, inner)
        return p.done(ew.convert(t.b, ew.binary(t.b, "div", total, divisor), p.x.dtype))

    return convert


def _elements_in_windows(t: Tracer, p: _Pool, padding_counts: bool, dtype: Any) -> Tensor:
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


def _adaptive(t: Tracer, x: Tensor, output_size: Sizes, reduce: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Each of the last axes cut into windows, which are reduced."""
    made = x
    for d, out in enumerate(output_size):
        axis = x.rank - len(output_size) + d
        n = made.shape[axis]
        if out == n:
            continue
        if out == 1:
            made = reduce(made, axis)
            continue
        if not isinstance(n, int) or not isinstance(out, int):
            raise t.b.fail(f"pooling of {x} to the size {list(output_size)}: sizes must be known")
        parts = [shapes.slice_axis(t.b, made, axis, *window) for window in _adaptive_windows(n, out)]
        if n % out == 0:
            split = shapes.reshape(t.b, made, [*made.shape[:axis], out, n // out, *made.shape[axis + 1 :]])
            made = shapes.squeeze(t.b, reduce(split, axis + 1), [axis + 1])
        else:
            made = shapes.concat(t.b, [reduce(part, axis) for part in parts], axis)
    return made


def adaptive_avg_pool(t: Tracer, self: Tensor, output_size: Sizes) -> Tensor:
    x = ew.convert(t.b, self, normalization.wide(self.dtype))
    made = _adaptive(t, x, output_size, lambda part, axis: reductions.mean(t.b, part, [axis], keep=True))
    return ew.convert(t.b, made, self.dtype)


def adaptive_max_pool(t: Tracer, self: Tensor, output_size: Sizes) -> tuple[Tensor, None]:
    return _adaptive(t, self, output_size, lambda part, axis: reductions.reduce(t.b, "max", part, [axis], True)), None


# -- other sizes


def _target(t: Tracer, x: Tensor, output_size: Sizes | None, scales: Floats | None, spatial: int) -> list[Size]:
    if output_size is not None:
        return list(output_size)
    found: list[Size] = []
    for n, scale in zip(x.shape[-spatial:], scales or (), strict=True):
        if isinstance(n, Expr) and scale != int(scale):
            raise t.b.fail(f"{x} is scaled by {scale}; its size must be known")
        found.append(n * int(scale) if scale == int(scale) else math.floor(n * scale))  # type: ignore[operator]
    return found


def _step(n: int, out: int, scale: float | None, corners: bool) -> float:
    """How far apart the places of neighbours of the result are in the source."""
    if corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / scale if scale else n / out


def _nearest(n: int, out: int, scale: float | None, corners: bool) -> list[tuple[Any, Any]]:
    import numpy as np

    step = np.float32(_step(n, out, scale, False))
    return [(np.minimum(np.floor(np.arange(out, dtype=np.float32) * step).astype(np.int64), n - 1), None)]


def _nearest_exact(n: int, out: int, scale: float | None, corners: bool) -> list[tuple[Any, Any]]:
    import numpy as np

    step = np.float32(_step(n, out, scale, False))
    places = np.floor((np.arange(out, dtype=np.float32) + np.float32(0.5)) * step).astype(np.int64)
    return [(np.minimum(places, n - 1), None)]


def _source_places(n: int, out: int, scale: float | None, corners: bool) -> np.ndarray[Any, Any]:
    import numpy as np

    step = np.float32(_step(n, out, scale, corners))
    numbers = np.arange(out, dtype=np.float32)
    return numbers * step if corners else (numbers + np.float32(0.5)) * step - np.float32(0.5)


def _linear(n: int, out: int, scale: float | None, corners: bool) -> list[tuple[Any, Any]]:
    import numpy as np

    at = np.maximum(_source_places(n, out, scale, corners), 0)
    low = np.minimum(np.floor(at).astype(np.int64), n - 1)
    part = np.clip(at - low, 0, 1).astype(np.float32)
    return [(low, 1 - part), (np.minimum(low + 1, n - 1), part)]


def _cubic(n: int, out: int, scale: float | None, corners: bool) -> list[tuple[Any, Any]]:
    """Keys' weights with a = -0.75."""
    import numpy as np

    at, a = _source_places(n, out, scale, corners), -0.75
    low = np.floor(at)
    part = at - low

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(part + 1), near(part), near(1 - part), far(2 - part))
    return [(np.clip(low + k - 1, 0, n - 1).astype(np.int64), w.astype(np.float32)) for k, w in enumerate(weights)]


Taps = Callable[..., "list[tuple[Any, Any]]"]
"""taps(size, new size, scale, corners) -> for each element that a new one is made of its place and weight."""


def _resized(t: Tracer, x: Tensor, target: Sizes, scales: Sequence[float | None], corners: bool, taps: Taps) -> Tensor:
    """An axis after the other. The weights are constants, so sizes must be known."""
    made = ew.convert(t.b, x, normalization.wide(x.dtype))
    for d, out in enumerate(target):
        axis = x.rank - len(target) + d
        n = x.shape[axis]
        if taps is _nearest and (repeats := out // n) * n == out and isinstance(repeats, int):
            wide = shapes.broadcast_to(t.b, shapes.expand_dims(t.b, made, [axis + 1]),
                                       [*made.shape[: axis + 1], repeats, *made.shape[axis + 1 :]])  # fmt: skip
            made = shapes.reshape(t.b, wide, [*made.shape[:axis], out, *made.shape[axis + 1 :]])
            continue
        if not isinstance(n, int) or not isinstance(out, int):
            raise t.b.fail(f"{x} is resized to {list(target)}: the sizes must be known")
        parts = []
        for places, weights in taps(n, out, scales[d], corners):
            part = gathers.take(t.b, made, t.b.constant(places, I64), axis)
            if weights is not None:
                column = t.b.constant(weights.reshape(-1, *[1] * (x.rank - axis - 1)), made.dtype)
                part = ew.binary(t.b, "mul", part, column)
            parts.append(part)
        made = parts[0]
        for part in parts[1:]:
            made = ew.binary(t.b, "add", made, part)
    return ew.convert(t.b, made, x.dtype)


def _upsample(spatial: int, taps: Taps) -> Conversion:
    """With a parameter for aligned corners where the weights depend on it."""

    def plain(t: Tracer, self: Tensor, output_size: Sizes | None, scale_factors: Floats | None = None) -> Tensor:
        target = _target(t, self, output_size, scale_factors, spatial)
        return _resized(t, self, target, scale_factors or [None] * spatial, False, taps)

    def aligned(
        t: Tracer, self: Tensor, output_size: Sizes | None, align_corners: bool, scale_factors: Floats | None = None
    ) -> Tensor:
        target = _target(t, self, output_size, scale_factors, spatial)
        return _resized(t, self, target, scale_factors or [None] * spatial, align_corners, taps)

    return plain if taps in (_nearest, _nearest_exact) else aligned


def _upsample_by_axis(spatial: int, taps: Taps) -> Conversion:
    """The overloads with a scale for each axis."""

    def plain(t: Tracer, self: Tensor, output_size: Sizes, *scales: float | None) -> Tensor:
        return _resized(t, self, output_size, [*scales, *[None] * spatial][:spatial], False, taps)

    def aligned(t: Tracer, self: Tensor, output_size: Sizes, align_corners: bool, *scales: float | None) -> Tensor:
        return _resized(t, self, output_size, [*scales, *[None] * spatial][:spatial], align_corners, taps)

    return plain if taps in (_nearest, _nearest_exact) else aligned


_UPSAMPLE = {
    "upsample_nearest1d": (1, _nearest), "upsample_nearest2d": (2, _nearest), "upsample_nearest3d": (3, _nearest),
    "_upsample_nearest_exact1d": (1, _nearest_exact), "_upsample_nearest_exact2d": (2, _nearest_exact),
    "_upsample_nearest_exact3d": (3, _nearest_exact), "upsample_linear1d": (1, _linear),
    "upsample_bilinear2d": (2, _linear), "upsample_trilinear3d": (3, _linear), "upsample_bicubic2d": (2, _cubic),
}  # fmt: skip

WINDOWS: dict[str, Conversion] = {
    **{f"aten.max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices": _max_pool_with_places(n) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{n}d": adaptive_avg_pool for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d": adaptive_avg_pool for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d": adaptive_max_pool for n in (1, 2, 3)},
    **{f"aten.{name}.vec": _upsample(*how) for name, how in _UPSAMPLE.items()},
    **{f"aten.{name}": _upsample_by_axis(*how) for name, how in _UPSAMPLE.items()},
}
