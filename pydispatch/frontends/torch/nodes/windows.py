"""Conversions of pooling, which reduces sliding windows over images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydispatch.frontends.torch.registry import register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, normalization, reductions, shapes, windows
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula

Ints = Sequence[int]
Sizes = Sequence[Size]


def _per_axis(values: Any, count: int) -> tuple[int, ...]:
    """Return one number for each of `count` axes; a single number is repeated."""
    per_axis = (values,) if isinstance(values, int) else tuple(values)
    return per_axis * count if len(per_axis) == 1 else per_axis


class PoolWindows:
    """Windows of a pooling over the last `spatial` axes of a tensor, which may lack the batch axis.

    Attributes:
        b: The builder.
        rank: Rank of the tensor that is pooled, as passed.
        spatial: Number of axes over which windows move.
        x: The tensor with a batch axis, [batch, channels, spatial axes...].
        kernel: Size of a window along each spatial axis.
        window: Strides, padding before and after, and dilations, along each spatial axis.
        out: Number of windows along each spatial axis; with `ceil` a last window may reach beyond the padding.
    """

    def __init__(
        self,
        builder: Builder,
        x: Tensor,
        spatial: int,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        ceil: bool,
    ) -> None:
        """Compute the windows from PyTorch's arguments: one number for each spatial axis, or one for all.

        kernel: size of a window. stride: distance of windows; if empty, that is the size of a window. padding: elements
        before and after each axis. ceil: whether a last window may reach beyond the padding.

        Raise CompileError for arguments that do not fit.
        """
        self.b = builder
        self.rank = x.rank
        self.spatial = spatial
        self.x = self.batched(x)  # [batch, channels, ...]: with a batch axis of size 1 if x has none
        self.kernel = _per_axis(kernel, spatial)
        strides, pads, dilations = (_per_axis(v, spatial) for v in (stride or self.kernel, padding, dilation))
        if any(len(v) != spatial for v in (self.kernel, strides, pads, dilations)) or min(strides, default=1) < 1:
            raise builder.fail(f"pooling over {spatial} axes with kernel {list(kernel)} and strides {list(strides)}")
        self.window = convolutions.Window(strides, pads, pads, dilations)
        self.out = convolutions.window_sizes(builder, self.x.shape[2:], self.kernel, self.window, ceil)

    def batched(self, x: Tensor) -> Tensor:
        """Return a tensor with a batch axis of size 1 inserted if it lacks one."""
        return x if x.rank == self.spatial + 2 else shapes.expand_dims(self.b, x, axes=[0])

    def without_batch(self, result: Tensor) -> Tensor:
        """Return a result without the batch axis if the operand of the pooling lacks one."""
        return result if result.rank == self.rank else shapes.squeeze(self.b, result, axes=[0])


def _max_pool(
    spatial: int, builder: Builder, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation:
    Ints = (1,), ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Return the maximum of each window over `spatial` axes."""
    p = PoolWindows(builder, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
    return p.without_batch(windows.pool(builder, "max", p.x, p.kernel, p.window, p.out))


def _max_pool_with_indices(
    spatial: int, builder: Builder, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation:
    Ints = (1,), ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the maximum of each window, and its row-major index in the spatial axes of its image."""
    p = PoolWindows(builder, self, spatial, kernel_size, stride, padding, dilation, ceil_mode)
    values, positions = windows.max_pool_with_indices(builder, p.x, p.kernel, p.window, p.out)
    return p.without_batch(values), p.without_batch(positions)


def _avg_pool(
    spatial: int, builder: Builder, self: Tensor, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode:
    bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of each window over the last `spatial` axes.

    The sum of a window is divided by `divisor_override`; if that is None, by the number of the window's elements, of
    which those in the padding count only with `count_include_pad`.
    """
    p = PoolWindows(builder, self, spatial, kernel_size, stride, padding, dilation=(1,), ceil=ceil_mode)
    inner = normalization.wide(p.x.dtype)
    total = windows.pool(builder, "add", ew.convert(builder, p.x, inner), p.kernel, p.window, p.out)
    divisor = divisor_of_windows(builder, p, count_include_pad, divisor_override, inner)
    return p.without_batch(ew.convert(builder, ew.binary(builder, "div", total, divisor), p.x.dtype))


def divisor_of_windows(
    builder: Builder, pool: PoolWindows, padding_counts: bool, stated: int | None, dtype: DType
) -> Tensor:
    """Return the divisor of each window's sum in average pooling: `stated`, or the number of the window's elements.

    For example, windows of 3 elements at a distance of 2 over 5 elements with a padding of 1 are [-1, 2), [1, 4) and
    [3, 6). The divisors are [2, 3, 2], or [3, 3, 3] with `padding_counts`.

    Args:
        builder: The builder.
        pool: The windows, with dilation 1.
        padding_counts: Whether elements in the padding count. Positions beyond the padding, which the last window may
            include with `ceil_mode`, never count.
        stated: Divisor that the call states; None for the number of elements.
        dtype: Type of the result.

    Returns:
        `stated` as a scalar, or the counts [windows along each spatial axis...]; both broadcast to the sums.
    """
    if stated is not None:
        return builder.constant(stated, dtype)
    # Along an axis, window o is [o * stride - pad, o * stride - pad + extent). The elements in [begin, end) count:
    # `counts` is the length of the intersection of both, min(window end, end) - max(window begin, begin). The number of
    # elements of a window is the product of its counts along the axes.
    total = builder.constant(1, I64)
    for d, (out, n) in enumerate(zip(pool.out, pool.x.shape[2:], strict=True)):
        pad, stride, extent = pool.window.low[d], pool.window.strides[d], pool.kernel[d]
        begin, end = (-pad, n + pad) if padding_counts else (0, n)
        size = reductions.size_as(builder, end, I64)
        counts = formula(
            builder, lambda o, m: (o * stride - pad + extent).min(m) - (o * stride - pad).max(begin),  # noqa: B023
            shapes.iota(builder, [out], axis=0, dtype=I64), size,
        )  # fmt: skip
        total = ew.binary(builder, "mul", total, shapes.reshape(builder, counts, [-1, *[1] * (len(pool.out) - d - 1)]))
    return ew.convert(builder, total, dtype)


register({
    **{f"aten.max_pool{n}d": partial(_max_pool, n) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices": partial(_max_pool_with_indices, n) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d": partial(_avg_pool, n) for n in (1, 2, 3)},
})  # fmt: skip
