"""The same elements in another arrangement; most of these are views, and say how a write to them goes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.sizes import Expr, Size, ceil_div, maximum, minimum, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import indexing, padding, shapes
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor, result_type
from pydispatch.frontends.torch.trace import Conversion, Inverse, Tracer

Sizes = Sequence[Size]
Ints = Sequence[int]
Tensors = Sequence[Tensor]


def axis_of(t: Tracer, dim: int, rank: int) -> int:
    """An axis counted from the front."""
    return shapes.axis_of(t.b, dim, rank)


# -- reshape


def view(t: Tracer, self: Tensor, size: Sizes) -> Tensor:
    return shapes.reshape(t.b, self, size)


def view_as(t: Tracer, self: Tensor, other: Tensor) -> Tensor:
    return shapes.reshape(t.b, self, other.shape)


def _like_before(t: Tracer, whole: Tensor, written: Tensor, number: int, *_: Any, **__: Any) -> Tensor:
    return shapes.reshape(t.b, written, whole.shape)


def flatten(t: Tracer, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if not self.rank:
        return shapes.reshape(t.b, self, [1])
    first, last = axis_of(t, start_dim, self.rank), axis_of(t, end_dim, self.rank)
    joined = product(self.shape[first : last + 1])
    return shapes.reshape(t.b, self, [*self.shape[:first], joined, *self.shape[last + 1 :]])


def unflatten(t: Tracer, self: Tensor, dim: int, sizes: Sizes) -> Tensor:
    axis = axis_of(t, dim, self.rank)
    if -1 in sizes:
        rest = product(n for n in sizes if n != -1)
        sizes = [self.shape[axis] // rest if n == -1 else n for n in sizes]
    return shapes.reshape(t.b, self, [*self.shape[:axis], *sizes, *self.shape[axis + 1 :]])


def unsqueeze(t: Tracer, self: Tensor, dim: int) -> Tensor:
    return shapes.expand_dims(t.b, self, [dim])


def squeeze(t: Tracer, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    if dim is None:
        return shapes.squeeze(t.b, self)
    axes = [axis_of(t, d, self.rank) for d in ([dim] if isinstance(dim, int) else dim)]
    return shapes.squeeze(t.b, self, [d for d in axes if self.rank and self.shape[d] == 1])


def same(t: Tracer, self: Tensor, *_: Any) -> Tensor:
    return self


# -- axes in another order


def permute(t: Tracer, self: Tensor, dims: Ints) -> Tensor:
    return shapes.transpose(t.b, self, list(dims))


def _permuted_back(t: Tracer, whole: Tensor, written: Tensor, number: int, dims: Ints) -> Tensor:
    order = [axis_of(t, d, whole.rank) for d in dims]
    return shapes.transpose(t.b, written, [order.index(d) for d in range(whole.rank)])


def transpose(t: Tracer, self: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(self.rank))
    if order:
        i, j = axis_of(t, dim0, self.rank), axis_of(t, dim1, self.rank)
        order[i], order[j] = order[j], order[i]
    return shapes.transpose(t.b, self, order)


def _transposed_back(t: Tracer, whole: Tensor, written: Tensor, number: int, dim0: int, dim1: int) -> Tensor:
    return transpose(t, written, dim0, dim1)


def reversed_axes(t: Tracer, self: Tensor) -> Tensor:
    return shapes.transpose(t.b, self)


def _reversed_back(t: Tracer, whole: Tensor, written: Tensor, number: int) -> Tensor:
    return shapes.transpose(t.b, written)


def adjoint(t: Tracer, self: Tensor) -> Tensor:
    return transpose(t, self, -2, -1)


def movedim(t: Tracer, self: Tensor, source: int | Ints, destination: int | Ints) -> Tensor:
    given = [source] if isinstance(source, int) else source
    wanted = [destination] if isinstance(destination, int) else destination
    placed = {axis_of(t, to, self.rank): axis_of(t, d, self.rank) for d, to in zip(given, wanted, strict=True)}
    rest = iter(d for d in range(self.rank) if d not in placed.values())
    return shapes.transpose(t.b, self, [placed[n] if n in placed else next(rest) for n in range(self.rank)])


# -- broadcast


def expand(t: Tracer, self: Tensor, size: Sizes, *, implicit: bool = False) -> Tensor:
    first = len(size) - self.rank
    sizes = [self.shape[d - first] if n == -1 and d >= first else n for d, n in enumerate(size)]
    return shapes.broadcast_to(t.b, self, sizes)


def expand_as(t: Tracer, self: Tensor, other: Tensor) -> Tensor:
    return shapes.broadcast_to(t.b, self, other.shape)


def broadcast_tensors(t: Tracer, tensors: Tensors) -> list[Tensor]:
    shape = ew.broadcast_shape(t.b, *(x.shape for x in tensors))
    return [shapes.broadcast_to(t.b, x, shape) for x in tensors]


def repeat(t: Tracer, self: Tensor, repeats: Sizes) -> Tensor:
    x = shapes.reshape(t.b, self, [1] * (len(repeats) - self.rank) + list(self.shape))
    return shapes.tile(t.b, x, repeats)


def tile(t: Tracer, self: Tensor, dims: Sizes) -> Tensor:
    return repeat(t, self, [1] * (self.rank - len(dims)) + list(dims))


def repeat_interleave(
    t: Tracer, self: Tensor, repeats: Size, dim: int | None = None, *, output_size: Size | None = None
) -> Tensor:
    x = self if dim is not None else flatten(t, self)
    axis = axis_of(t, dim or 0, x.rank)
    wide = shapes.expand_dims(t.b, x, [axis + 1])
    made = shapes.broadcast_to(t.b, wide, [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])
    return shapes.reshape(t.b, made, [*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]])


def meshgrid(t: Tracer, tensors: Tensors, *, indexing: str = "ij") -> list[Tensor]:
    sizes = [x.shape[0] if x.rank else 1 for x in tensors]
    made = [
        shapes.broadcast_to(t.b, shapes.reshape(t.b, x, [sizes[i] if d == i else 1 for d in range(len(sizes))]), sizes)
        for i, x in enumerate(tensors)
    ]
    return [transpose(t, x, 0, 1) for x in made] if indexing == "xy" and len(made) > 1 else made


# -- parts


def _bound(place: Size | None, n: Size, missing: Size) -> Size:
    """A place as Python's slices have it: from the end when it is negative, and within 0 to n."""
    if place is None:
        return missing
    if isinstance(place, int) and place >= (1 << 62):
        return n
    if isinstance(place, int) and place < 0:
        place = n + place
    return maximum(0, minimum(place, n))


def _slice_bounds(
    t: Tracer, x: Tensor, dim: int, start: Size | None, end: Size | None, step: int
) -> tuple[int, Size, Size]:
    axis = axis_of(t, dim, x.rank)
    if step < 1:
        raise t.b.fail(f"a slice has the step {step}")
    n = x.shape[axis]
    first, last = _bound(start, n, 0), _bound(end, n, n)
    return axis, first, maximum(first, last)


def slice_(
    t: Tracer, self: Tensor, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Tensor:
    axis, first, last = _slice_bounds(t, self, dim, start, end, step)
    return shapes.slice_axis(t.b, self, axis, first, last, step)


def slice_scatter(
    t: Tracer,
    self: Tensor,
    src: Tensor,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Tensor:
    axis, first, _ = _slice_bounds(t, self, dim, start, end, step)
    return _inserted(t, self, ew.convert(t.b, src, self.dtype), axis, first, step)


def _inserted(t: Tracer, x: Tensor, part: Tensor, axis: int, start: Size, step: int = 1) -> Tensor:
    starts = [start if d == axis else 0 for d in range(x.rank)]
    return indexing.insert_slice(t.b, x, part, starts, [step if d == axis else 1 for d in range(x.rank)])


def _slice_back(t: Tracer, whole: Tensor, written: Tensor, number: int, *args: Any, **kwargs: Any) -> Tensor:
    return slice_scatter(t, whole, written, *args, **kwargs)


def _place(t: Tracer, x: Tensor, axis: int, index: Size) -> Size:
    n = x.shape[axis]
    if isinstance(index, int) and isinstance(n, int) and not -n <= index < n:
        raise t.b.fail(f"index {index} of axis {axis} of {x} is out of bounds")
    return index + n if isinstance(index, int) and index < 0 else index


def select(t: Tracer, self: Tensor, dim: int, index: Size) -> Tensor:
    axis = axis_of(t, dim, self.rank)
    place = _place(t, self, axis, index)
    return shapes.squeeze(t.b, shapes.slice_axis(t.b, self, axis, place, place + 1), [axis])


def select_scatter(t: Tracer, self: Tensor, src: Tensor, dim: int, index: Size) -> Tensor:
    axis = axis_of(t, dim, self.rank)
    part = shapes.expand_dims(t.b, ew.convert(t.b, src, self.dtype), [axis])
    return _inserted(t, self, part, axis, _place(t, self, axis, index))


def _select_back(t: Tracer, whole: Tensor, written: Tensor, number: int, dim: int, index: Size) -> Tensor:
    return select_scatter(t, whole, written, dim, index)


def narrow(t: Tracer, self: Tensor, dim: int, start: Size, length: Size) -> Tensor:
    axis = axis_of(t, dim, self.rank)
    place = _place(t, self, axis, start) if length != 0 else start
    return shapes.slice_axis(t.b, self, axis, place, place + length)


def split(t: Tracer, self: Tensor, split_size: Size, dim: int = 0) -> list[Tensor]:
    axis = axis_of(t, dim, self.rank)
    n = self.shape[axis]
    count = ceil_div(n, split_size)
    if isinstance(count, Expr):
        raise t.b.fail(f"{self} is split along axis {axis} into a number of parts that depends on its size")
    return shapes.split(t.b, self, axis, [*[split_size] * (count - 1), n - split_size * (count - 1)])


def split_with_sizes(t: Tracer, self: Tensor, split_sizes: Sizes, dim: int = 0) -> list[Tensor]:
    return shapes.split(t.b, self, axis_of(t, dim, self.rank), split_sizes)


def chunk(t: Tracer, self: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    return split(t, self, maximum(1, ceil_div(self.shape[axis_of(t, dim, self.rank)], chunks)), dim)


def unbind(t: Tracer, self: Tensor, dim: int = 0) -> list[Tensor]:
    axis = axis_of(t, dim, self.rank)
    n = self.shape[axis]
    if isinstance(n, Expr):
        raise t.b.fail(f"{self} is taken apart along axis {axis}, whose size is not known")
    return [select(t, self, axis, i) for i in range(n)]


def _unbound_back(t: Tracer, whole: Tensor, written: Tensor, number: int, dim: int = 0) -> Tensor:
    return select_scatter(t, whole, written, dim, number)


def _part_back(conversion: Conversion) -> Inverse:
    """A write to one of the parts that an operator splits a tensor into."""

    def back(t: Tracer, whole: Tensor, written: Tensor, number: int, *args: Any, **kwargs: Any) -> Tensor:
        parts = conversion(t, whole, *args, **kwargs)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        return shapes.concat(t.b, [*parts[:number], written, *parts[number + 1 :]], axis_of(t, dim, whole.rank))

    return back


def diagonal(t: Tracer, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements where both axes have the same place, along a last axis."""
    i, j = axis_of(t, dim1, self.rank), axis_of(t, dim2, self.rank)
    rest = [d for d in range(self.rank) if d not in (i, j)]
    rows, columns = self.shape[i], self.shape[j]
    count = minimum(rows, columns - offset) if offset >= 0 else minimum(rows + offset, columns)
    x = shapes.slice_axis(t.b, self, j if offset >= 0 else i, abs(offset), columns if offset >= 0 else rows)
    place = {d: AffineExpr.dimension(n) for n, d in enumerate(rest)}
    last = AffineExpr.dimension(len(rest))
    source = tuple(place.get(d, last) for d in range(self.rank))
    shape = (*(self.shape[d] for d in rest), count)
    return shapes.rearranged(t.b, x, shape, AffineMap(len(shape), 0, source))


def unfold(t: Tracer, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows along an axis; their elements are the last axis."""
    axis = axis_of(t, dimension, self.rank)
    shape = [*self.shape, size]
    shape[axis] = (self.shape[axis] - size) // step + 1
    exprs: list[Any] = [AffineExpr.dimension(d) for d in range(self.rank)]
    exprs[axis] = AffineExpr.dimension(axis) * step + AffineExpr.dimension(self.rank)
    return shapes.rearranged(t.b, self, tuple(shape), AffineMap(len(shape), 0, tuple(exprs)))


# -- joined, padded, moved


def _without_legacy(tensors: Tensors) -> list[Tensor]:
    """Empty vectors join with everything."""
    kept = [x for x in tensors if x.shape != (0,)]
    return kept or list(tensors[:1])


def cat(t: Tracer, tensors: Tensors, dim: int = 0) -> Tensor:
    dtype = result_type(list(tensors))
    return shapes.concat(t.b, [ew.convert(t.b, x, dtype) for x in _without_legacy(tensors)], dim)


def stack(t: Tracer, tensors: Tensors, dim: int = 0) -> Tensor:
    dtype = result_type(list(tensors))
    axis = axis_of(t, dim, tensors[0].rank + 1)
    return shapes.stack(t.b, [ew.convert(t.b, x, dtype) for x in tensors], axis)


def _around(x: Tensor, pad: Sizes) -> tuple[list[Size], list[Size]]:
    """How much comes before and after each axis; the file has pairs, those of the last axis first."""
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for n in range(len(pad) // 2):
        low[x.rank - 1 - n], high[x.rank - 1 - n] = pad[2 * n], pad[2 * n + 1]
    return low, high


def constant_pad_nd(t: Tracer, self: Tensor, pad: Sizes, value: Number = 0) -> Tensor:
    return shapes.pad(t.b, self, *_around(self, pad), as_tensor(t, value, self.dtype))


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(t: Tracer, self: Tensor, pad: Sizes, mode: str = "constant", value: Number | None = None) -> Tensor:
    if mode == "constant":
        return constant_pad_nd(t, self, pad, 0 if value is None else value)
    if mode not in _MODES:
        raise t.b.fail(f"padding mode '{mode}' is not known")
    return padding.pad_with(t.b, self, *_around(self, pad), _MODES[mode])


def _pad_by(mode: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, padding: Sizes) -> Tensor:
        return pad(t, self, padding, mode)

    return convert


def flip(t: Tracer, self: Tensor, dims: Ints) -> Tensor:
    return indexing.reverse(t.b, self, [axis_of(t, d, self.rank) for d in dims])


def roll(t: Tracer, self: Tensor, shifts: Sizes, dims: Ints = ()) -> Tensor:
    if not dims:
        return shapes.reshape(t.b, roll(t, flatten(t, self), shifts, (0,)), self.shape)
    made = self
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(t, dim, self.rank)
        n = self.shape[axis]
        if n == 0:
            continue
        cut: Size = (
            (n - shift) % n
            if isinstance(shift, int) and isinstance(n, int)
            else (n - shift if isinstance(shift, Expr) or shift > 0 else -shift)
        )
        parts = shapes.split(t.b, made, axis, [cut, n - cut])
        made = shapes.concat(t.b, parts[::-1], axis)
    return made


def pixel_shuffle(t: Tracer, self: Tensor, upscale_factor: int) -> Tensor:
    r, lead = upscale_factor, len(self.shape) - 3
    c, h, w = self.shape[-3:]
    x = shapes.reshape(t.b, self, [*self.shape[:-3], c // (r * r), r, r, h, w])
    x = shapes.transpose(t.b, x, [*range(lead), *(lead + n for n in (0, 3, 1, 4, 2))])
    return shapes.reshape(t.b, x, [*self.shape[:-3], c // (r * r), h * r, w * r])


def pixel_unshuffle(t: Tracer, self: Tensor, downscale_factor: int) -> Tensor:
    r, lead = downscale_factor, len(self.shape) - 3
    c, h, w = self.shape[-3:]
    x = shapes.reshape(t.b, self, [*self.shape[:-3], c, h // r, r, w // r, r])
    x = shapes.transpose(t.b, x, [*range(lead), *(lead + n for n in (0, 2, 4, 1, 3))])
    return shapes.reshape(t.b, x, [*self.shape[:-3], c * (r * r), h // r, w // r])


def channel_shuffle(t: Tracer, self: Tensor, groups: int) -> Tensor:
    n, c, *rest = self.shape
    x = shapes.reshape(t.b, self, [n, groups, c // groups, *rest])
    return shapes.reshape(t.b, transpose(t, x, 1, 2), self.shape)


# -- complex numbers


def real(t: Tracer, self: Tensor) -> Tensor:
    return ew.apply(t.b, lambda s, u: s.real(u), self) if self.dtype.is_complex else self


def imag(t: Tracer, self: Tensor) -> Tensor:
    return ew.apply(t.b, lambda s, u: s.imag(u), self)


def view_as_real(t: Tracer, self: Tensor) -> Tensor:
    return shapes.stack(t.b, [real(t, self), imag(t, self)], self.rank)


def complex_(t: Tracer, real: Tensor, imag: Tensor) -> Tensor:
    return ew.apply(t.b, lambda s, u, v: s.complex(u, v), real, imag)


def view_as_complex(t: Tracer, self: Tensor) -> Tensor:
    return complex_(t, select(t, self, self.rank - 1, 0), select(t, self, self.rank - 1, 1))


def conj(t: Tracer, self: Tensor) -> Tensor:
    return ew.apply(t.b, lambda s, u: s.conj(u), self) if self.dtype.is_complex else self


def polar(t: Tracer, abs: Tensor, angle: Tensor) -> Tensor:
    return ew.apply(
        t.b,
        lambda s, r, a: s.complex(s.binary("mul", r, s.unary("cos", a)), s.binary("mul", r, s.unary("sin", a))),
        abs, angle,
    )  # fmt: skip


def copy(t: Tracer, self: Tensor, src: Operand) -> Tensor:
    return shapes.broadcast_to(t.b, as_tensor(t, src, self.dtype), self.shape)


_SAME = ("alias", "detach", "clone", "contiguous", "lift_fresh_copy", "lift_fresh", "lift", "positive", "resolve_conj",
         "resolve_neg", "requires_grad", "detach_copy", "alias_copy", "_conj_physical")  # fmt: skip

SHAPES: dict[str, Conversion] = {
    **{f"aten.{name}": same for name in _SAME},
    "aten.copy": copy,
    "aten.view": view,
    "aten.reshape": view,
    "aten._unsafe_view": view,
    "aten._reshape_alias": view,
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
    "aten.mT": adjoint,
    "aten.movedim": movedim,
    "aten.moveaxis": movedim,
    "aten.expand": expand,
    "aten.broadcast_to": expand,
    "aten.expand_as": expand_as,
    "aten.broadcast_tensors": broadcast_tensors,
    "aten.repeat": repeat,
    "aten.tile": tile,
    "aten.repeat_interleave": repeat_interleave,
    "aten.meshgrid": meshgrid,
    "aten.slice": slice_,
    "aten.slice_scatter": slice_scatter,
    "aten.select": select,
    "aten.select_scatter": select_scatter,
    "aten.narrow": narrow,
    "aten.split": split,
    "aten.split.sizes": split_with_sizes,
    "aten.split_with_sizes": split_with_sizes,
    "aten.chunk": chunk,
    "aten.unbind": unbind,
    "aten.diagonal": diagonal,
    "aten.unfold": unfold,
    "aten.cat": cat,
    "aten.concat": cat,
    "aten.concatenate": cat,
    "aten.stack": stack,
    "aten.constant_pad_nd": constant_pad_nd,
    "aten.pad": pad,
    **{f"aten.{mode}_pad{n}d": _pad_by({"reflection": "reflect", "replication": "replicate"}[mode])
       for mode in ("reflection", "replication") for n in (1, 2, 3)},
    "aten.flip": flip,
    "aten.roll": roll,
    "aten.pixel_shuffle": pixel_shuffle,
    "aten.pixel_unshuffle": pixel_unshuffle,
    "aten.channel_shuffle": channel_shuffle,
    "aten.real": real,
    "aten.imag": imag,
    "aten.complex": complex_,
    "aten.polar": polar,
    "aten.conj": conj,
    "aten._conj": conj,
    "aten.view_as_real": view_as_real,
    "aten.view_as_complex": view_as_complex,
}  # fmt: skip


def _itself(t: Tracer, whole: Tensor, written: Tensor, number: int, *_: Any, **__: Any) -> Tensor:
    return written


VIEWS: dict[str, Inverse | None] = {
    "aten.alias": _itself, "aten.detach": _itself, "aten.view": _like_before, "aten._unsafe_view": _like_before,
    "aten._reshape_alias": _like_before, "aten.view_as": _like_before, "aten.unsqueeze": _like_before,
    "aten.squeeze": _like_before, "aten.unflatten": _like_before, "aten.permute": _permuted_back,
    "aten.transpose": _transposed_back, "aten.swapaxes": _transposed_back, "aten.swapdims": _transposed_back,
    "aten.t": _reversed_back, "aten.numpy_T": _reversed_back, "aten.slice": _slice_back, "aten.select": _select_back,
    "aten.unbind": _unbound_back, "aten.split": _part_back(split),
    "aten.split_with_sizes": _part_back(split_with_sizes), "aten.chunk": _part_back(chunk),
    # A view or a copy, by strides; or one element in several places.
    "aten.reshape": None, "aten.flatten": None, "aten.contiguous": None, "aten.to": None, "aten.expand": None,
    "aten.expand_as": None, "aten.broadcast_to": None, "aten.narrow": None, "aten.movedim": None, "aten.mT": None,
    "aten.diagonal": None, "aten.unfold": None, "aten.real": None, "aten.imag": None, "aten.view_as_real": None,
    "aten.view_as_complex": None, "aten.conj": None,
}  # fmt: skip
"""Operators whose results are views of their first argument -> how a write goes back into it."""
