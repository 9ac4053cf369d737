"""Conversions of Fourier transforms, along axes of static size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from pydispatch.frontends.torch.promotion import as_tensor, promoted
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import fourier, shapes, slicing

Ints = Sequence[int]

_BY_ROOT, _BY_COUNT = 1, 2
"""PyTorch's codes of a division by sqrt(n) and by n, for transforms of n elements; the code 0 is no division."""
_SCALES = {None: (0, _BY_COUNT), "backward": (0, _BY_COUNT), "ortho": (_BY_ROOT, _BY_ROOT), "forward": (_BY_COUNT, 0)}
"""Argument `norm` -> PyTorch's codes of the scaling of (forward, inverse) transforms, 0 for none."""


def _scaled(builder: Builder, x: Tensor, count: Size, normalization: int, is_divided: bool = False) -> Tensor:
    """Divide the result of a transform of `count` elements by sqrt(count), by `count` or by 1.

    normalization: PyTorch's code of the divisor: _BY_ROOT, _BY_COUNT, or another one for 1. is_divided: whether
    `operations.fourier` has divided the result by the count already, as in inverse transforms. The result is then
    multiplied by the count too, to undo that.
    """
    if isinstance(count, Expr):
        raise builder.fail("a Fourier transform along an axis whose size is not known")
    factor = {_BY_ROOT: 1 / math.sqrt(max(count, 1)), _BY_COUNT: 1 / max(count, 1)}.get(normalization, 1.0)
    factor *= count if is_divided else 1
    return x if factor == 1 else ew.binary(builder, "mul", x, as_tensor(builder, factor, x.dtype))


def _count(x: Tensor, axes: Ints) -> Size:
    """Return the number of elements along axes."""
    return product(x.shape[d] for d in axes)


@converts("aten._fft_c2c")
def complex_to_complex(builder: Builder, self: Tensor, dim: Ints, normalization: int, forward: bool) -> Tensor:
    """Return the Fourier transform along all axes of `dim`, or the inverse unless `forward`.

    `normalization` is PyTorch's code of the scaling: 0 for none, 1 to divide by the root of the number n of elements
    along the axes, 2 to divide by n.
    """
    axes = shapes.axes_of(builder, list(dim), self.rank)
    result = self
    for axis in axes:
        result = fourier.fft(builder, result, axis, inverse=not forward)
    return _scaled(builder, result, _count(self, axes), normalization, is_divided=not forward)


@converts("aten._fft_r2c")
def real_to_complex(builder: Builder, self: Tensor, dim: Ints, normalization: int, onesided: bool) -> Tensor:
    """Return the Fourier transform of real numbers along all axes of `dim`, of which the last is transformed first.

    onesided: whether only the first n // 2 + 1 of n elements along the last axis of `dim` are returned; the others are
    conjugates of these. normalization: PyTorch's code of the scaling: 0 for none, 1 to divide by the root of the number
    n of elements along the axes, 2 to divide by n.
    """
    axes = [shapes.axis_of(builder, d, self.rank) for d in dim]
    result = fourier.rfft(builder, self, axes[-1]) if onesided else fourier.fft(builder, self, axes[-1])
    for axis in axes[:-1]:
        result = fourier.fft(builder, result, axis)
    return _scaled(builder, result, _count(self, axes), normalization)


@converts("aten._fft_c2r")
def complex_to_real(builder: Builder, self: Tensor, dim: Ints, normalization: int, last_dim_size: int) -> Tensor:
    """Return the real numbers of a spectrum: its inverse Fourier transform along all axes of `dim`.

    Along the last axis of `dim`, `self` has the first half of a spectrum, last_dim_size // 2 + 1 elements, and the
    result has last_dim_size numbers.
    `normalization` is PyTorch's code of the scaling: 0 for none, 1 to divide by the root of the number n of elements
    along the axes, 2 to divide by n.
    """
    axes = [shapes.axis_of(builder, d, self.rank) for d in dim]
    result = self
    for axis in axes[:-1]:
        result = fourier.fft(builder, result, axis, inverse=True)
    result = fourier.irfft(builder, result, last_dim_size, axes[-1])
    # Each inverse transform has divided by the size of its axis, as numpy.fft does: `_scaled` accounts for that.
    return _scaled(builder, result, _count(result, axes), normalization, is_divided=True)


def _crop_or_pad(builder: Builder, x: Tensor, n: Size | None, axis: int) -> Tensor:
    """Crop an axis at its end, or pad it there with zeros, to the size n; None keeps its size. Integers become f32."""
    (x,) = promoted(builder, x, floats=True)
    if n is None or n == x.shape[axis]:
        return x
    return slicing.pad(builder, x, [0] * x.rank, [n - m if d == axis else 0 for d, m in enumerate(x.shape)])


def _scaling_code(builder: Builder, norm: str | None, back: bool) -> int:
    """Return the code of the scaling that `norm` states for a forward transform, or for an inverse one if `back`."""
    if norm not in _SCALES:
        raise builder.fail(f"a Fourier transform with norm='{norm}'")
    return _SCALES[norm][back]


def _transform_along_axis(
    builder: Builder, self: Tensor, n: Size | None = None, dim: int = -1, norm: str | None = None, *, inverse: bool
) -> Tensor:
    """Return fft, or ifft if `inverse`, along one axis, which is cropped or padded to n elements unless n is None."""
    axis = shapes.axis_of(builder, dim, self.rank)
    resized, scaling = _crop_or_pad(builder, self, n, axis), _scaling_code(builder, norm, inverse)
    return complex_to_complex(builder, resized, [axis], scaling, forward=not inverse)


@converts("aten.fft_rfft")
def rfft(builder: Builder, self: Tensor, n: Size | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform real numbers along an axis, cropped or padded to n elements, to the first half of a spectrum."""
    axis = shapes.axis_of(builder, dim, self.rank)
    return real_to_complex(
        builder, _crop_or_pad(builder, self, n, axis), [axis], _scaling_code(builder, norm, back=False), onesided=True
    )


@converts("aten.fft_irfft")
def irfft(builder: Builder, self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform half a spectrum back to n real numbers along an axis: the inverse of `rfft`.

    The spectrum of real numbers is symmetric: element n - k is the conjugate of element k. The transform
    reads the first n // 2 + 1 elements along the axis, for example 4 for n = 6. `self` is cropped at the end, or padded
    with zeros, to this size.

    Args:
        builder: The builder.
        self: Half spectra.
        n: Number of real numbers; None for 2 * (size - 1), the even number whose half spectrum has the axis' size.
        dim: The axis.
        norm: Divisor of the result: n for None or "backward", sqrt(n) for "ortho", 1 for "forward".

    Raises:
        CompileError: `n` is None and the axis has a dynamic size, or `norm` is unknown.
    """
    axis = shapes.axis_of(builder, dim, self.rank)
    size = self.shape[axis]
    count = n if n is not None else 2 * (size - 1)
    if not isinstance(count, int):
        raise builder.fail(f"a Fourier transform of {self} along axis {axis}, whose size is not known")
    return complex_to_real(
        builder,
        _crop_or_pad(builder, self, count // 2 + 1, axis),
        [axis],
        _scaling_code(builder, norm, back=True),
        count,
    )


register({
    "aten.fft_fft": partial(_transform_along_axis, inverse=False),
    "aten.fft_ifft": partial(_transform_along_axis, inverse=True),
})  # fmt: skip
