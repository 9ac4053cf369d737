"""Conversions of operators that change the shape or the order of the axes, but no elements.

Most results are views. The table VIEWS has the inverse of each view: the function that writes new contents of the view
back into the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.torch.promotion import Operand, as_tensor
from pydispatch.frontends.torch.trace import Conversion, Inverse
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import shapes

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def axis_of(b: Builder, dim: int, rank: int) -> int:
    """Return a non-negative axis for one that may count from the end (-1 is the last)."""
    return shapes.axis_of(b, dim, rank)


# -- reshape


def view(b: Builder, self: Tensor, size: Sizes) -> Tensor:
    return shapes.reshape(b, self, size)


def reshape_alias(b: Builder, self: Tensor, size: Sizes, stride: Sizes) -> Tensor:
    return view(b, self, size)


def view_as(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    return shapes.reshape(b, self, other.shape)


def _write_reshaped(b: Builder, whole: Tensor, written: Tensor, output_index: int, *_: Any, **__: Any) -> Tensor:
    """Write to the base of a view that only changes the shape."""
    return shapes.reshape(b, written, whole.shape)


def flatten(b: Builder, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the axes from start_dim to end_dim, both included, into one."""
    if not self.rank:
        return shapes.reshape(b, self, [1])
    first, last = axis_of(b, start_dim, self.rank), axis_of(b, end_dim, self.rank)
    joined = product(self.shape[first : last + 1])
    return shapes.reshape(b, self, [*self.shape[:first], joined, *self.shape[last + 1 :]])


def unflatten(b: Builder, self: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """Split an axis into several; a size of -1 is inferred."""
    axis = axis_of(b, dim, self.rank)
    if -1 in sizes:
        rest = product(n for n in sizes if n != -1)
        sizes = [self.shape[axis] // rest if n == -1 else n for n in sizes]
    return shapes.reshape(b, self, [*self.shape[:axis], *sizes, *self.shape[axis + 1 :]])


def unsqueeze(b: Builder, self: Tensor, dim: int) -> Tensor:
    return shapes.expand_dims(b, self, [dim])


def squeeze(b: Builder, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    """Remove the axes of size 1: all of them, or those of `dim`; other axes of `dim` stay."""
    if dim is None:
        return shapes.squeeze(b, self)
    axes = [axis_of(b, d, self.rank) for d in ([dim] if isinstance(dim, int) else dim)]
    return shapes.squeeze(b, self, [d for d in axes if self.rank and self.shape[d] == 1])


def same(b: Builder, self: Tensor, *_: Any) -> Tensor:
    """Return the operand itself."""
    return self


# -- axes in another order


def permute(b: Builder, self: Tensor, dims: Ints) -> Tensor:
    return shapes.transpose(b, self, list(dims))


def _write_permuted(b: Builder, whole: Tensor, written: Tensor, output_index: int, dims: Ints) -> Tensor:
    """Write to the base of a view whose axes are permuted."""
    order = [axis_of(b, d, whole.rank) for d in dims]
    return shapes.transpose(b, written, [order.index(d) for d in range(whole.rank)])


def transpose(b: Builder, self: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(self.rank))
    if order:
        i, j = axis_of(b, dim0, self.rank), axis_of(b, dim1, self.rank)
        order[i], order[j] = order[j], order[i]
    return shapes.transpose(b, self, order)


def _write_transposed(b: Builder, base: Tensor, new_part: Tensor, output_index: int, dim0: int, dim1: int) -> Tensor:
    """Return the base of a view in which two axes are swapped, replaced by `new_part`."""
    return transpose(b, new_part, dim0, dim1)


def reversed_axes(b: Builder, self: Tensor) -> Tensor:
    return shapes.transpose(b, self)


def _write_reversed(b: Builder, whole: Tensor, written: Tensor, output_index: int) -> Tensor:
    """Write to the base of a view whose axes are reversed."""
    return shapes.transpose(b, written)


def matrix_transpose(b: Builder, self: Tensor) -> Tensor:
    return transpose(b, self, -2, -1)


def movedim(b: Builder, self: Tensor, source: int | Ints, destination: int | Ints) -> Tensor:
    """Move axes to other positions; the remaining axes fill the free positions in order."""
    sources = [source] if isinstance(source, int) else source
    destinations = [destination] if isinstance(destination, int) else destination
    source_of = {
        axis_of(b, to, self.rank): axis_of(b, d, self.rank) for d, to in zip(sources, destinations, strict=True)
    }
    unmoved_axes = iter(d for d in range(self.rank) if d not in source_of.values())
    return shapes.transpose(b, self, [source_of[n] if n in source_of else next(unmoved_axes) for n in range(self.rank)])


# -- broadcast


def expand(b: Builder, self: Tensor, size: Sizes, *, implicit: bool = False) -> Tensor:
    first = len(size) - self.rank
    sizes = [self.shape[d - first] if n == -1 and d >= first else n for d, n in enumerate(size)]
    return shapes.broadcast_to(b, self, sizes)


def expand_as(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    return shapes.broadcast_to(b, self, other.shape)


def broadcast_tensors(b: Builder, tensors: Tensors) -> list[Tensor]:
    shape = ew.broadcast_shape(b, *(x.shape for x in tensors))
    return [shapes.broadcast_to(b, x, shape) for x in tensors]


def repeat(b: Builder, self: Tensor, repeats: Sizes) -> Tensor:
    x = shapes.reshape(b, self, [1] * (len(repeats) - self.rank) + list(self.shape))
    return shapes.tile(b, x, repeats)


def tile(b: Builder, self: Tensor, dims: Sizes) -> Tensor:
    return repeat(b, self, [1] * (self.rank - len(dims)) + list(dims))


def repeat_interleave(
    b: Builder, self: Tensor, repeats: Size, dim: int | None = None, *, output_size: Size | None = None
) -> Tensor:
    """Repeat each element along an axis, or of the flattened tensor, `repeats` times in a row."""
    x = self if dim is not None else flatten(b, self)
    axis = axis_of(b, dim or 0, x.rank)
    wide = shapes.expand_dims(b, x, [axis + 1])
    repeated = shapes.broadcast_to(b, wide, [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])
    return shapes.reshape(b, repeated, [*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]])


def meshgrid(b: Builder, tensors: Tensors, *, indexing: str = "ij") -> list[Tensor]:
    """Broadcast vectors to a common grid; with the indexing "xy" its first two axes change places."""
    sizes = [x.shape[0] if x.rank else 1 for x in tensors]
    grids = [
        shapes.broadcast_to(b, shapes.reshape(b, x, [sizes[i] if d == i else 1 for d in range(len(sizes))]), sizes)
        for i, x in enumerate(tensors)
    ]
    return [transpose(b, x, 0, 1) for x in grids] if indexing == "xy" and len(grids) > 1 else grids


def copy(b: Builder, self: Tensor, src: Operand) -> Tensor:
    return shapes.broadcast_to(b, as_tensor(b, src, self.dtype), self.shape)


_SAME = ("alias", "detach", "clone", "contiguous", "lift_fresh_copy", "lift_fresh", "lift", "positive", "resolve_conj",
         "resolve_neg", "requires_grad", "detach_copy", "alias_copy")  # fmt: skip

SHAPES: dict[str, Conversion] = {
    **{f"aten.{name}": same for name in _SAME},
    "aten.copy": copy,
    "aten.view": view,
    "aten.reshape": view,
    "aten._unsafe_view": view,
    "aten._reshape_alias": reshape_alias,
    "aten.view_as": view_as,
    "aten.flatten": flatten,
    "aten.unflatten": unflatten,
    "aten.unsqueeze": unsqueeze,
    "aten.squeeze": squeeze,
    "aten.permute": permute,
    "aten.transpose": transpose,
    "aten.swapaxes": transpose,
    "aten.swapdims": transpose,
    "aten.t": reversed_axes,
    "aten.numpy_T": reversed_axes,
    "aten.mT": matrix_transpose,
    "aten.movedim": movedim,
    "aten.moveaxis": movedim,
    "aten.expand": expand,
    "aten.broadcast_to": expand,
    "aten.expand_as": expand_as,
    "aten.broadcast_tensors": broadcast_tensors,
    "aten.repeat": repeat,
    "aten.tile": tile,
    "aten.repeat_interleave.self_int": repeat_interleave,
    "aten.meshgrid": meshgrid,
}


def _write_whole(b: Builder, whole: Tensor, written: Tensor, output_index: int, *_: Any, **__: Any) -> Tensor:
    """Write to the base of a view that is the whole base."""
    return written


VIEWS: dict[str, Inverse | None] = {
    "aten.alias": _write_whole, "aten.detach": _write_whole, "aten.view": _write_reshaped,
    "aten._unsafe_view": _write_reshaped,
    "aten._reshape_alias": _write_reshaped, "aten.view_as": _write_reshaped, "aten.unsqueeze": _write_reshaped,
    "aten.squeeze": _write_reshaped, "aten.unflatten": _write_reshaped, "aten.permute": _write_permuted,
    "aten.transpose": _write_transposed, "aten.swapaxes": _write_transposed, "aten.swapdims": _write_transposed,
    "aten.t": _write_reversed, "aten.numpy_T": _write_reversed,
    # Not invertible: the result is a view or a copy, depending on strides, or has one element at several positions.
    "aten.reshape": None, "aten.flatten": None, "aten.contiguous": None, "aten.to": None, "aten.expand": None,
    "aten.expand_as": None, "aten.broadcast_to": None, "aten.movedim": None, "aten.mT": None,
}  # fmt: skip
"""View operators -> the function that writes new contents of the view back into the base; None if there is
no inverse."""
