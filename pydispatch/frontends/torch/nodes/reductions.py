"""Many elements become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydispatch.frontends.graph.dtypes import I64, DType
from pydispatch.frontends.graph.sizes import product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, reductions, shapes
from pydispatch.frontends.torch.nodes.pointwise import sub, truth
from pydispatch.frontends.torch.promotion import Number, category
from pydispatch.frontends.torch.trace import Conversion, Tracer

Ints = Sequence[int]


def axes_of(t: Tracer, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the axes that a reduction reduces: all for None and for an empty list."""
    if dim is None or (not isinstance(dim, int) and not dim) or not x.rank:
        return list(range(x.rank))
    return shapes.axes_of(t.b, [dim] if isinstance(dim, int) else dim, x.rank)


def _reduced(t: Tracer, name: str, x: Tensor, dim: int | Ints | None, keepdim: bool) -> Tensor:
    return reductions.reduce(t.b, name, x, axes_of(t, x, dim), keepdim)


def _summed_as(x: Tensor, dtype: DType | None) -> DType:
    """Return the type of a sum: integers are summed as i64."""
    return dtype or (x.dtype if category(x.dtype) >= 2 else I64)


def sum_(
    t: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    return _reduced(t, "add", ew.convert(t.b, self, _summed_as(self, dtype)), dim, keepdim)


def sum_all(t: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return sum_(t, self, dtype=dtype)


def prod(
    t: Tracer, self: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    return _reduced(t, "mul", ew.convert(t.b, self, _summed_as(self, dtype)), dim, keepdim)


def prod_all(t: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return prod(t, self, dtype=dtype)


def mean(
    t: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    dtype = dtype or self.dtype
    x = ew.convert(t.b, self, normalization.wide(dtype))
    return ew.convert(t.b, reductions.mean(t.b, x, axes_of(t, x, dim), keepdim), dtype)


def mean_all(t: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return mean(t, self, dtype=dtype)


def _extreme(name: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
        return _reduced(t, name, self, dim, keepdim)

    return convert


def _extreme_with_place(name: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        if not self.rank:
            return self, t.b.constant(0, I64)
        (axis,) = axes_of(t, self, dim)
        place = reductions.argument(t.b, name, self, axis, keepdim)
        return _reduced(t, name, self, axis, keepdim), place

    return convert


def _place(name: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if not self.rank:
            return t.b.constant(0, I64)
        if dim is not None:
            (axis,) = axes_of(t, self, dim)
            return reductions.argument(t.b, name, self, axis, keepdim)
        flat = reductions.argument(t.b, name, shapes.reshape(t.b, self, [-1]), 0)
        return shapes.reshape(t.b, flat, [1] * self.rank) if keepdim else flat

    return convert


def aminmax(t: Tracer, self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _reduced(t, "min", self, dim, keepdim), _reduced(t, "max", self, dim, keepdim)


def _truth(name: str) -> Conversion:
    def convert(t: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
        return _reduced(t, name, truth(t, self), dim, keepdim)

    return convert


def _divisor_less(unbiased: bool | None, correction: Number | None) -> int:
    if correction is not None:
        return int(correction)  # type: ignore[arg-type]
    return 0 if unbiased is False else 1


def var_mean(
    t: Tracer, self: Tensor, dim: int | Ints | bool | None = None, unbiased: bool | None = None, keepdim: bool = False,
    *, correction: Number | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if isinstance(dim, bool):  # the overload without axes
        dim, unbiased = None, dim
    axes = axes_of(t, self, dim)
    average, spread = normalization.moments(t.b, self, axes, _divisor_less(unbiased, correction))
    results = [ew.convert(t.b, x, self.dtype) for x in (spread, average)]
    if not keepdim:
        results = [shapes.squeeze(t.b, x, axes) if axes else x for x in results]
    return results[0], results[1]


def var(
    t: Tracer, self: Tensor, dim: int | Ints | bool | None = None, unbiased: bool | None = None, keepdim: bool = False,
    *, correction: Number | None = None,
) -> Tensor:  # fmt: skip
    return var_mean(t, self, dim, unbiased, keepdim, correction=correction)[0]


def std(
    t: Tracer, self: Tensor, dim: int | Ints | bool | None = None, unbiased: bool | None = None, keepdim: bool = False,
    *, correction: Number | None = None,
) -> Tensor:  # fmt: skip
    return ew.unary(t.b, "sqrt", var(t, self, dim, unbiased, keepdim, correction=correction))


def std_mean(
    t: Tracer, self: Tensor, dim: int | Ints | bool | None = None, unbiased: bool | None = None, keepdim: bool = False,
    *, correction: Number | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    spread, average = var_mean(t, self, dim, unbiased, keepdim, correction=correction)
    return ew.unary(t.b, "sqrt", spread), average


def logsumexp(t: Tracer, self: Tensor, dim: int | Ints, keepdim: bool = False) -> Tensor:
    return normalization.log_sum_exp(t.b, self, axes_of(t, self, dim), keepdim)


def vector_norm(
    t: Tracer,
    self: Tensor,
    ord: Number = 2,
    dim: int | Ints | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    x = self if dtype is None else ew.convert(t.b, self, dtype)
    return normalization.lp_norm(t.b, x, float(ord), axes_of(t, x, dim), keepdim)  # type: ignore[arg-type]


def norm(
    t: Tracer, self: Tensor, p: Number | None = 2, dim: int | Ints | None = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    return vector_norm(t, self, 2 if p is None else p, dim, keepdim, dtype=dtype)


def dist(t: Tracer, self: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    return vector_norm(t, sub(t, self, other), p)


def count_nonzero(t: Tracer, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    return _reduced(t, "add", ew.convert(t.b, truth(t, self), I64), dim, False)


def numel(t: Tracer, self: Tensor) -> Any:
    return product(self.shape)


REDUCTIONS: dict[str, Conversion] = {
    "aten.sum": sum_all,
    "aten.sum.dim_IntList": sum_,
    "aten.prod": prod_all,
    "aten.prod.dim_int": prod,
    "aten.mean": mean_all,
    "aten.mean.dim": mean,
    "aten.amax": _extreme("max"),
    "aten.amin": _extreme("min"),
    "aten.max": _extreme("max"),
    "aten.min": _extreme("min"),
    "aten.max.dim": _extreme_with_place("max"),
    "aten.min.dim": _extreme_with_place("min"),
    "aten.aminmax": aminmax,
    "aten.argmax": _place("max"),
    "aten.argmin": _place("min"),
    "aten.any": _truth("or"),
    "aten.all": _truth("and"),
    "aten.var": var,
    "aten.var_mean": var_mean,
    "aten.std": std,
    "aten.std_mean": std_mean,
    "aten.logsumexp": logsumexp,
    "aten.linalg_vector_norm": vector_norm,
    "aten.norm": norm,
    "aten.dist": dist,
    "aten.count_nonzero": count_nonzero,
    "aten.numel": numel,
    "aten.sym_numel": numel,
}
