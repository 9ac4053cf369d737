"""Conversions of operators that concatenate, pad, reverse, roll or shuffle elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydispatch.frontends.torch.nodes.shapes import axis_of, flatten, transpose
from pydispatch.frontends.torch.promotion import Number, as_tensor, result_type
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import indexing, padding, shapes, slicing

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def _without_empty_vectors(tensors: Tensors) -> list[Tensor]:
    """Return the tensors without vectors of size 0, which PyTorch accepts for concatenation with tensors of
    any rank; the first tensor if all are such vectors.
    """
    kept = [x for x in tensors if x.shape != (0,)]
    return kept or list(tensors[:1])


@converts("aten.cat", "aten.concat", "aten.concatenate", "prims.cat")
def cat(builder: Builder, tensors: Tensors, dim: int = 0) -> Tensor:
    """Concatenate tensors along an axis, after conversion to the type that PyTorch's promotion selects for them."""
    dtype = result_type(list(tensors))
    return slicing.concat(builder, [ew.convert(builder, x, dtype) for x in _without_empty_vectors(tensors)], dim)


@converts("aten.stack")
def stack(builder: Builder, tensors: Tensors, dim: int = 0) -> Tensor:
    """Stack tensors of one shape along a new axis, after conversion to the type that PyTorch's promotion selects for
    them.
    """
    dtype = result_type(list(tensors))
    axis = axis_of(builder, dim, tensors[0].rank + 1)
    return slicing.stack(builder, [ew.convert(builder, x, dtype) for x in tensors], axis)


def _pads_by_axis(x: Tensor, pad: Sizes) -> tuple[list[Size], list[Size]]:
    """Return the padding before each axis of x, and that after each axis.

    pad: PyTorch's list of pairs (before, after), that of the last axis first. Axes without a pair have no padding.
    """
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for n in range(len(pad) // 2):
        low[x.rank - 1 - n], high[x.rank - 1 - n] = pad[2 * n], pad[2 * n + 1]
    return low, high


@converts("aten.constant_pad_nd")
def constant_pad_nd(builder: Builder, self: Tensor, pad: Sizes, value: Number = 0) -> Tensor:
    """Pad with a value. pad: pairs of the numbers of elements before and after an axis, for the last axis first;
    negative ones crop.
    """
    return slicing.pad_or_crop(builder, self, *_pads_by_axis(self, pad), as_tensor(builder, value, self.dtype))


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""PyTorch's names of padding modes -> those of `operations.padding`, which are NumPy's."""


@converts("aten.pad")
def pad(builder: Builder, self: Tensor, pad: Sizes, mode: str = "constant", value: Number | None = None) -> Tensor:
    """Pad with the number `value` (0 for None) or, in another mode than "constant", with elements of the tensor.

    pad: numbers of elements before and after an axis, for the last axis first.
    """
    if mode == "constant":
        return constant_pad_nd(builder, self, pad, 0 if value is None else value)
    if mode not in _MODES:
        raise builder.fail(f"padding mode '{mode}' is not known")
    return padding.pad_with(builder, self, *_pads_by_axis(self, pad), _MODES[mode])


def _pad_by(mode: str, builder: Builder, self: Tensor, padding: Sizes) -> Tensor:
    """Convert an operator such as `aten.reflection_pad2d`, whose name states the padding mode: "reflect"."""
    return pad(builder, self, padding, mode)


@converts("aten.flip", "prims.rev")
def flip(builder: Builder, self: Tensor, dims: Ints) -> Tensor:
    """Reverse the order of elements along axes."""
    if not self.rank:  # has one element, and permits the axes 0 and -1
        return self
    return indexing.reverse(builder, self, [axis_of(builder, d, self.rank) for d in dims])


@converts("aten.roll")
def roll(builder: Builder, self: Tensor, shifts: Sizes, dims: Ints = ()) -> Tensor:
    """Move elements by `shifts` positions along the axes `dims`; elements beyond the end continue at the start.

    Negative shifts move toward the start. For a shift of 1, [1, 2, 3] becomes [3, 1, 2]. If `dims` is empty, elements
    move in the flattened tensor.
    """
    if not dims:
        return shapes.reshape(builder, roll(builder, flatten(builder, self), shifts, dims=(0,)), self.shape)
    result = self
    for shift, dim in zip(shifts, dims, strict=True):
        result = slicing.roll(builder, result, shift, axis_of(builder, dim, self.rank))
    return result


@converts("aten.diff")
def diff(
    builder: Builder, self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the n-th differences of neighbours along an axis; of booleans, whether they differ.

    prepend, append: tensors that are joined to the start and the end of the axis first.
    """
    axis = axis_of(builder, dim, self.rank)
    result = cat(builder, [x for x in (prepend, self, append) if x is not None], axis)
    for _ in range(n):
        size = result.shape[axis]
        if size == 0:  # no neighbours, and the slice below would have a negative size
            break
        later = slicing.slice_axis(builder, result, axis, start=1, limit=size)
        earlier = slicing.slice_axis(builder, result, axis, start=0, limit=size - 1)
        result = ew.binary(builder, "xor" if result.dtype == BOOL else "sub", later, earlier)
    return result


@converts("aten.pixel_shuffle")
def pixel_shuffle(builder: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    """Move groups of r * r channels into blocks of r x r pixels.

    [..., c * r * r, h, w] becomes [..., c, h * r, w * r], for r = upscale_factor.
    """
    r, lead = upscale_factor, len(self.shape) - 3  # lead: axes before the channels
    c, h, w = self.shape[-3:]
    x = shapes.reshape(builder, self, [*self.shape[:-3], c // (r * r), r, r, h, w])
    x = shapes.transpose(builder, x, [*range(lead), *(lead + n for n in (0, 3, 1, 4, 2))])  # [c, h, r, w, r]
    return shapes.reshape(builder, x, [*self.shape[:-3], c // (r * r), h * r, w * r])


@converts("aten.pixel_unshuffle")
def pixel_unshuffle(builder: Builder, self: Tensor, downscale_factor: int) -> Tensor:
    """Move blocks of r x r pixels into groups of r * r channels.

    [..., c, h * r, w * r] becomes [..., c * r * r, h, w], for r = downscale_factor.
    """
    r, lead = downscale_factor, len(self.shape) - 3  # lead: axes before the channels
    c, h, w = self.shape[-3:]
    x = shapes.reshape(builder, self, [*self.shape[:-3], c, h // r, r, w // r, r])
    x = shapes.transpose(builder, x, [*range(lead), *(lead + n for n in (0, 2, 4, 1, 3))])  # [c, r, r, h, w]
    return shapes.reshape(builder, x, [*self.shape[:-3], c * (r * r), h // r, w // r])


@converts("aten.channel_shuffle")
def channel_shuffle(builder: Builder, self: Tensor, groups: int) -> Tensor:
    """Interleave groups of channels: channels a0 a1 b0 b1 of two groups become a0 b0 a1 b1."""
    n, c, *rest = self.shape
    x = shapes.reshape(builder, self, [n, groups, c // groups, *rest])
    return shapes.reshape(builder, transpose(builder, x, 1, 2), self.shape)


register({
    f"aten.{name}_pad{n}d": partial(_pad_by, mode)
    for name, mode in (("reflection", "reflect"), ("replication", "replicate")) for n in (1, 2, 3)
})  # fmt: skip
