"""Conversions of operators that concatenate, pad, reverse, roll or shuffle elements."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.nodes.shapes import axis_of, flatten, transpose
from pydispatch.frontends.torch.promotion import Number, as_tensor, result_type
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import indexing, padding, shapes

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def _without_empty_vectors(tensors: Tensors) -> list[Tensor]:
    """Return the tensors without vectors of size 0, which PyTorch accepts for concatenation with tensors of
    any rank.
    """
    kept = [x for x in tensors if x.shape != (0,)]
    return kept or list(tensors[:1])


def cat(b: Builder, tensors: Tensors, dim: int = 0) -> Tensor:
    dtype = result_type(list(tensors))
    return shapes.concat(b, [ew.convert(b, x, dtype) for x in _without_empty_vectors(tensors)], dim)


def stack(b: Builder, tensors: Tensors, dim: int = 0) -> Tensor:
    dtype = result_type(list(tensors))
    axis = axis_of(b, dim, tensors[0].rank + 1)
    return shapes.stack(b, [ew.convert(b, x, dtype) for x in tensors], axis)


def _pads_by_axis(x: Tensor, pad: Sizes) -> tuple[list[Size], list[Size]]:
    """Return the padding before and after each axis. In PyTorch's list the pair of the last axis is first."""
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for n in range(len(pad) // 2):
        low[x.rank - 1 - n], high[x.rank - 1 - n] = pad[2 * n], pad[2 * n + 1]
    return low, high


def constant_pad_nd(b: Builder, self: Tensor, pad: Sizes, value: Number = 0) -> Tensor:
    return shapes.pad(b, self, *_pads_by_axis(self, pad), as_tensor(b, value, self.dtype))


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(b: Builder, self: Tensor, pad: Sizes, mode: str = "constant", value: Number | None = None) -> Tensor:
    """Convert `pad`, of which `constant` is one of several modes."""
    if mode == "constant":
        return constant_pad_nd(b, self, pad, 0 if value is None else value)
    if mode not in _MODES:
        raise b.fail(f"padding mode '{mode}' is not known")
    return padding.pad_with(b, self, *_pads_by_axis(self, pad), _MODES[mode])


def _pad_by(mode: str) -> Conversion:
    """Return the conversion of a padding operator of one mode."""

    def convert(b: Builder, self: Tensor, padding: Sizes) -> Tensor:
        return pad(b, self, padding, mode)

    return convert


def flip(b: Builder, self: Tensor, dims: Ints) -> Tensor:
    return indexing.reverse(b, self, [axis_of(b, d, self.rank) for d in dims])


def roll(b: Builder, self: Tensor, shifts: Sizes, dims: Ints = ()) -> Tensor:
    """Rotate elements along axes, or in the flattened tensor if `dims` is empty."""
    if not dims:
        return shapes.reshape(b, roll(b, flatten(b, self), shifts, (0,)), self.shape)
    result = self
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(b, dim, self.rank)
        n = self.shape[axis]
        if n == 0:
            continue
        cut: Size = (
            (n - shift) % n
            if isinstance(shift, int) and isinstance(n, int)
            else (n - shift if isinstance(shift, Expr) or shift > 0 else -shift)
        )
        parts = shapes.split(b, result, axis, [cut, n - cut])
        result = shapes.concat(b, parts[::-1], axis)
    return result


def pixel_shuffle(b: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    """Move groups of r * r channels into blocks of r x r pixels."""
    r, lead = upscale_factor, len(self.shape) - 3
    c, h, w = self.shape[-3:]
    x = shapes.reshape(b, self, [*self.shape[:-3], c // (r * r), r, r, h, w])
    x = shapes.transpose(b, x, [*range(lead), *(lead + n for n in (0, 3, 1, 4, 2))])
    return shapes.reshape(b, x, [*self.shape[:-3], c // (r * r), h * r, w * r])


def pixel_unshuffle(b: Builder, self: Tensor, downscale_factor: int) -> Tensor:
    """Move blocks of r x r pixels into groups of r * r channels."""
    r, lead = downscale_factor, len(self.shape) - 3
    c, h, w = self.shape[-3:]
    x = shapes.reshape(b, self, [*self.shape[:-3], c, h // r, r, w // r, r])
    x = shapes.transpose(b, x, [*range(lead), *(lead + n for n in (0, 2, 4, 1, 3))])
    return shapes.reshape(b, x, [*self.shape[:-3], c * (r * r), h // r, w // r])


def channel_shuffle(b: Builder, self: Tensor, groups: int) -> Tensor:
    n, c, *rest = self.shape
    x = shapes.reshape(b, self, [n, groups, c // groups, *rest])
    return shapes.reshape(b, transpose(b, x, 1, 2), self.shape)


ARRANGEMENTS: dict[str, Conversion] = {
    "aten.cat": cat,
    "aten.concat": cat,
    "aten.concatenate": cat,
    "aten.stack": stack,
    "aten.constant_pad_nd": constant_pad_nd,
    "aten.pad": pad,
    **{
        f"aten.{mode}_pad{n}d": _pad_by({"reflection": "reflect", "replication": "replicate"}[mode])
        for mode in ("reflection", "replication")
        for n in (1, 2, 3)
    },
    "aten.flip": flip,
    "aten.roll": roll,
    "aten.pixel_shuffle": pixel_shuffle,
    "aten.pixel_unshuffle": pixel_unshuffle,
    "aten.channel_shuffle": channel_shuffle,
}
