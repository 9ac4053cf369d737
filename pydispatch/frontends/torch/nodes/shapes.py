"""Conversions of operators that change the shape or the order of the axes, but no elements.

Most results are views. The table VIEWS has the inverse of each view: the function that writes new contents of the view
back into the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.torch.promotion import Operand, as_tensor
from pydispatch.frontends.torch.registry import VIEWS, converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import shapes

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def axis_of(builder: Builder, dim: int, rank: int) -> int:
    """Return a non-negative axis for one that may count from the end (-1 is the last). A scalar permits 0 and -1."""
    return 0 if rank == 0 and dim == -1 else shapes.axis_of(builder, dim, rank)


# -- reshape


@converts("prims.reshape", "aten.view", "aten.reshape", "aten._unsafe_view", "aten._reshape_alias")
def view(builder: Builder, self: Tensor, size: Sizes, stride: Sizes = ()) -> Tensor:
    """Return the elements, in row-major order, in another shape; one size may be -1, which is inferred.

    `stride`, which `_reshape_alias` has, has no effect.
    """
    return shapes.reshape(builder, self, size)


@converts("aten.view_as")
def view_as(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Return the elements, in row-major order, in the shape of another tensor."""
    return shapes.reshape(builder, self, other.shape)


def write_reshaped(builder: Builder, whole: Tensor, written: Tensor, output_index: int, *_: Any, **__: Any) -> Tensor:
    """Return the contents of the base `whole` after `written` was written to a view of it that only changes the shape.

    The signature is that of `registry.Inverse`.
    """
    return shapes.reshape(builder, written, whole.shape)


@converts("aten.flatten", "prims.collapse", "prims.collapse_view")
def flatten(builder: Builder, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the axes from start_dim to end_dim, both included, into one."""
    if not self.rank:
        return shapes.reshape(builder, self, [1])
    first, last = axis_of(builder, start_dim, self.rank), axis_of(builder, end_dim, self.rank)
    joined = product(self.shape[first : last + 1])
    return shapes.reshape(builder, self, [*self.shape[:first], joined, *self.shape[last + 1 :]])


@converts("aten.unflatten")
def unflatten(builder: Builder, self: Tensor, dim: int, sizes: Sizes) -> Tensor:
    """Split the axis `dim` into axes of the sizes `sizes`; a size of -1 is inferred from the size of the axis."""
    axis = axis_of(builder, dim, self.rank)
    if -1 in sizes:
        stated_product = product(n for n in sizes if n != -1)
        sizes = [self.shape[axis] // stated_product if n == -1 else n for n in sizes]
    return shapes.reshape(builder, self, [*self.shape[:axis], *sizes, *self.shape[axis + 1 :]])


@converts("aten.unsqueeze")
def unsqueeze(builder: Builder, self: Tensor, dim: int) -> Tensor:
    """Insert an axis of size 1, which is axis `dim` of the result."""
    return shapes.expand_dims(builder, self, [dim])


@converts("aten.squeeze")
def squeeze(builder: Builder, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    """Remove the axes of size 1: all of them, or those of `dim`; other axes of `dim` stay."""
    if dim is None:
        return shapes.squeeze(builder, self)
    axes = [axis_of(builder, d, self.rank) for d in ([dim] if isinstance(dim, int) else dim)]
    return shapes.squeeze(builder, self, [d for d in axes if self.rank and self.shape[d] == 1])


_SAME = ("alias", "detach", "clone", "contiguous", "lift_fresh_copy", "lift_fresh", "lift", "positive", "resolve_conj",
         "resolve_neg", "requires_grad", "detach_copy", "alias_copy")  # fmt: skip
"""Operators that return the elements of their operand."""


@converts("prims.view_of", "prims.clone", *(f"aten.{name}" for name in _SAME))
def same(builder: Builder, self: Tensor, *_: Any) -> Tensor:
    """Return the operand itself; other arguments, such as a memory format, have no effect on elements."""
    return self


# -- axes in another order


@converts("prims.transpose", "aten.permute")
def permute(builder: Builder, self: Tensor, dims: Ints) -> Tensor:
    """Permute the axes: axis d of the result is axis dims[d]."""
    return shapes.transpose(builder, self, list(dims))


def _write_permuted(builder: Builder, whole: Tensor, written: Tensor, output_index: int, dims: Ints) -> Tensor:
    """Return the contents of the base `whole` after `written` was written to a view whose axes are permuted by `dims`.

    Axis d of the base is axis order.index(d) of the view. The signature is that of `registry.Inverse`.
    """
    order = [axis_of(builder, d, whole.rank) for d in dims]
    return shapes.transpose(builder, written, [order.index(d) for d in range(whole.rank)])


@converts("aten.transpose", "aten.swapaxes", "aten.swapdims")
def transpose(builder: Builder, self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two axes."""
    order = list(range(self.rank))
    if order:
        i, j = axis_of(builder, dim0, self.rank), axis_of(builder, dim1, self.rank)
        order[i], order[j] = order[j], order[i]
    return shapes.transpose(builder, self, order)


def _write_transposed(
    builder: Builder, base: Tensor, new_part: Tensor, output_index: int, dim0: int, dim1: int
) -> Tensor:
    """Return the contents of `base` after `new_part` was written to a view in which two axes are swapped.

    The signature is that of `registry.Inverse`; the old contents are not read, as the view covers the whole base.
    """
    return transpose(builder, new_part, dim0, dim1)


@converts("aten.t", "aten.numpy_T")
def reversed_axes(builder: Builder, self: Tensor) -> Tensor:
    """Reverse the axes."""
    return shapes.transpose(builder, self)


def _write_reversed(builder: Builder, whole: Tensor, written: Tensor, output_index: int) -> Tensor:
    """Return the contents of the base `whole` after `written` was written to a view whose axes are reversed.

    The signature is that of `registry.Inverse`.
    """
    return shapes.transpose(builder, written)


@converts("aten.mT")
def matrix_transpose(builder: Builder, self: Tensor) -> Tensor:
    """Exchange the last two axes."""
    return transpose(builder, self, -2, -1)


@converts("aten.movedim", "aten.moveaxis")
def movedim(builder: Builder, self: Tensor, source: int | Ints, destination: int | Ints) -> Tensor:
    """Move axis source[n] to position destination[n]; the remaining axes fill the free positions in order."""
    sources = [source] if isinstance(source, int) else source
    destinations = [destination] if isinstance(destination, int) else destination
    source_of = {  # axis of the result -> axis of self
        axis_of(builder, to, self.rank): axis_of(builder, d, self.rank)
        for d, to in zip(sources, destinations, strict=True)
    }
    unmoved_axes = iter(d for d in range(self.rank) if d not in source_of.values())
    return shapes.transpose(
        builder, self, [source_of[n] if n in source_of else next(unmoved_axes) for n in range(self.rank)]
    )


# -- broadcast


@converts("aten.expand", "aten.broadcast_to")
def expand(builder: Builder, self: Tensor, size: Sizes, *, implicit: bool = False) -> Tensor:
    """Broadcast to a shape, whose last entries are the new sizes of the tensor's axes; -1 keeps the size of an axis."""
    first = len(size) - self.rank
    sizes = [self.shape[d - first] if n == -1 and d >= first else n for d, n in enumerate(size)]
    return shapes.broadcast_to(builder, self, sizes)


@converts("aten.expand_as")
def expand_as(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of another tensor."""
    return shapes.broadcast_to(builder, self, other.shape)


@converts("aten.broadcast_tensors")
def broadcast_tensors(builder: Builder, tensors: Tensors) -> list[Tensor]:
    """Broadcast tensors to their common shape."""
    shape = ew.broadcast_shape(builder, *(x.shape for x in tensors))
    return [shapes.broadcast_to(builder, x, shape) for x in tensors]


@converts("aten.repeat")
def repeat(builder: Builder, self: Tensor, repeats: Sizes) -> Tensor:
    """Repeat the whole tensor along each axis; for more counts than axes, axes of size 1 are inserted before them."""
    x = shapes.reshape(builder, self, [1] * (len(repeats) - self.rank) + list(self.shape))
    return shapes.tile(builder, x, repeats)


@converts("aten.tile")
def tile(builder: Builder, self: Tensor, dims: Sizes) -> Tensor:
    """Repeat the whole tensor along each axis; counts are those of the last axes, and missing ones are 1."""
    return repeat(builder, self, [1] * (self.rank - len(dims)) + list(dims))


@converts("aten.repeat_interleave.self_int")
def repeat_interleave(
    builder: Builder, self: Tensor, repeats: Size, dim: int | None = None, *, output_size: Size | None = None
) -> Tensor:
    """Repeat each element along an axis, or of the flattened tensor for None, `repeats` times in a row.

    `output_size`, the size of the axis of the result, has no effect: it is computed from `repeats`.
    """
    x = self if dim is not None else flatten(builder, self)
    axis = axis_of(builder, dim or 0, x.rank)
    wide = shapes.expand_dims(builder, x, [axis + 1])
    repeated = shapes.broadcast_to(builder, wide, [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])
    return shapes.reshape(builder, repeated, [*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]])


@converts("aten.meshgrid")
def meshgrid(builder: Builder, tensors: Tensors, *, indexing: str = "ij") -> list[Tensor]:
    """Return a tensor for each vector: its elements along its own axis of a grid, repeated along the other axes.

    Vector i belongs to axis i of the grid. With the indexing "xy", the first two axes of the grid are exchanged. For
    the vectors [1, 2] and [3, 4, 5], the tensors are [2, 3], or [3, 2] for "xy".
    """
    sizes = [x.shape[0] if x.rank else 1 for x in tensors]
    grids = [
        shapes.broadcast_to(
            builder, shapes.reshape(builder, x, [sizes[i] if d == i else 1 for d in range(len(sizes))]), sizes
        )
        for i, x in enumerate(tensors)
    ]
    return [transpose(builder, x, 0, 1) for x in grids] if indexing == "xy" and len(grids) > 1 else grids


@converts("aten.copy")
def copy(builder: Builder, self: Tensor, src: Operand) -> Tensor:
    """Return the source, in the type and shape of `self`."""
    return shapes.broadcast_to(builder, as_tensor(builder, src, self.dtype), self.shape)


def _write_whole(builder: Builder, whole: Tensor, written: Tensor, output_index: int, *_: Any, **__: Any) -> Tensor:
    """Return the contents of the base `whole` after `written` was written to a view that is the whole base: `written`.

    The signature is that of `registry.Inverse`.
    """
    return written


_RESHAPES = ("view", "_unsafe_view", "_reshape_alias", "view_as", "unsqueeze", "squeeze", "unflatten", "reshape",
             "flatten")  # fmt: skip
"""Views whose elements have the row-major order of the base, so that a write to them is a reshape."""
VIEWS.update({
    **{f"aten.{name}": _write_whole for name in ("alias", "detach", "contiguous", "to")},
    **{f"aten.{name}": write_reshaped for name in _RESHAPES},
    **{f"aten.{name}": _write_transposed for name in ("transpose", "swapaxes", "swapdims")},
    "aten.permute": _write_permuted, "aten.t": _write_reversed, "aten.numpy_T": _write_reversed,
    # Not inverted: the result has one element at several positions.
    "aten.expand": None, "aten.expand_as": None, "aten.broadcast_to": None, "aten.movedim": None, "aten.mT": None,
})  # fmt: skip
