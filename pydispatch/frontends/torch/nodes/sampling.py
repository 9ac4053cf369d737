"""Conversions of operators that sample images at the positions of a grid."""

from __future__ import annotations

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import sampling

_MODES = ("linear", "nearest", "cubic")
"""Interpolations of `GridSampler`, by PyTorch's codes."""
_BEYOND = ("zeros", "border", "reflection")
"""Values that `GridSampler` reads beyond the border of an image, by PyTorch's codes."""


@converts(*(f"aten.{name}" for name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")))
def grid_sampler(
    builder: Builder, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return interpolated elements of images [n, c, ...] at the positions of a grid [n, ..., axes].

    A position has a number from -1 to 1 for each axis, beginning with the last axis of the image. The modes are
    PyTorch's codes: interpolation 0 is linear, 1 nearest, 2 cubic; padding 0 is zeros, 1 border, 2 reflection.
    """
    return sampling.grid_sample(
        builder, input, grid, sampler_of(builder, interpolation_mode, padding_mode, align_corners)
    )


def sampler_of(
    builder: Builder, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> sampling.GridSampler:
    """Return the sampling options for PyTorch's codes of the interpolation mode (0: linear, 1: nearest, 2: cubic) and
    of the padding mode (0: zeros, 1: border, 2: reflection).

    align_corners: whether the positions -1 and 1 are the centers of the corner elements instead of the outer edges.
    """
    if not 0 <= interpolation_mode < len(_MODES) or not 0 <= padding_mode < len(_BEYOND):
        raise builder.fail(f"interpolation mode {interpolation_mode} and padding mode {padding_mode} are 0, 1 or 2")
    return sampling.GridSampler(_MODES[interpolation_mode], _BEYOND[padding_mode], align_corners)
