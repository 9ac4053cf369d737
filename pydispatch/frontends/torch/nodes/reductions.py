"""Conversions of reductions, which combine many elements into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.frontends.graph.dtypes import F32, I64, U8, DType
from pydispatch.frontends.graph.sizes import product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import normalization, reductions, shapes
from pydispatch.frontends.ops.indexing import require_elements
from pydispatch.frontends.torch.nodes.pointwise import sub, truth
from pydispatch.frontends.torch.promotion import Number, category
from pydispatch.frontends.torch.trace import Conversion, Tracer

Ints = Sequence[int]


def axes_of(tracer: Tracer, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the axes that a reduction reduces: all axes for None and for an empty list."""
    if dim is None or (not isinstance(dim, int) and not dim) or not x.rank:
        return list(range(x.rank))
    return shapes.axes_of(tracer.b, [dim] if isinstance(dim, int) else dim, x.rank)


def _reduced(tracer: Tracer, name: str, x: Tensor, dim: int | Ints | None, keepdim: bool) -> Tensor:
    """Reduce a tensor along axes by a function of one name."""
    return reductions.reduce(tracer.b, name, x, axes_of(tracer, x, dim), keepdim)


def _accumulator_type(x: Tensor, dtype: DType | None) -> DType:
    """Return the type of a sum or product: `dtype` if given, i64 for integers and bool, else the type of x."""
    return dtype or (x.dtype if category(x.dtype) >= 2 else I64)


def sum_(
    tracer: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    return _reduced(tracer, "add", ew.convert(tracer.b, self, _accumulator_type(self, dtype)), dim, keepdim)


def sum_all(tracer: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return sum_(tracer, self, dtype=dtype)


def prod(
    tracer: Tracer, self: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    return _reduced(tracer, "mul", ew.convert(tracer.b, self, _accumulator_type(self, dtype)), dim, keepdim)


def prod_all(tracer: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return prod(tracer, self, dtype=dtype)


def mean(
    tracer: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    dtype = dtype or self.dtype
    x = ew.convert(tracer.b, self, normalization.wide(dtype))
    return ew.convert(tracer.b, reductions.mean(tracer.b, x, axes_of(tracer, x, dim), keepdim), dtype)


def mean_all(tracer: Tracer, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return mean(tracer, self, dtype=dtype)


def _axes_of_extreme(tracer: Tracer, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the axes that a maximum or minimum reduces. As in PyTorch, an extreme of no elements is refused."""
    axes = axes_of(tracer, x, dim)
    require_elements(tracer.b, x, axes, tuple(n for d, n in enumerate(x.shape) if d not in axes))
    return axes


def _extreme_along(tracer: Tracer, name: str, x: Tensor, dim: int | Ints | None, keepdim: bool) -> Tensor:
    """Return the "max" or "min" along axes."""
    return reductions.reduce(tracer.b, name, x, _axes_of_extreme(tracer, x, dim), keepdim)


def _extreme(name: str) -> Conversion:
    """Return the conversion of a maximum ("max") or minimum ("min")."""

    def convert(tracer: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
        return _extreme_along(tracer, name, self, dim, keepdim)

    return convert


def _extreme_with_index(name: str) -> Conversion:
    """Return the conversion of a maximum or minimum along an axis that also returns its index."""

    def convert(tracer: Tracer, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        if not self.rank:
            return self, tracer.b.constant(0, I64)
        (axis,) = axes_of(tracer, self, dim)
        extreme = _extreme_along(tracer, name, self, axis, keepdim)
        return extreme, reductions.argument(tracer.b, name, self, axis, keepdim)

    return convert


def _argument(name: str) -> Conversion:
    """Return the conversion of argmax ("max") or argmin ("min"); without an axis the index counts in the flattened
    tensor.
    """

    def convert(tracer: Tracer, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if not self.rank:
            return tracer.b.constant(0, I64)
        axes = _axes_of_extreme(tracer, self, dim)
        if dim is not None:
            return reductions.argument(tracer.b, name, self, axes[0], keepdim)
        flat = reductions.argument(tracer.b, name, shapes.reshape(tracer.b, self, [-1]), 0)
        return shapes.reshape(tracer.b, flat, [1] * self.rank) if keepdim else flat

    return convert


def aminmax(tracer: Tracer, self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _extreme_along(tracer, "min", self, dim, keepdim), _extreme_along(tracer, "max", self, dim, keepdim)


def _logical_reduction(name: str) -> Conversion:
    """Return the conversion of any ("or") or all ("and")."""

    def convert(tracer: Tracer, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
        holds = _reduced(tracer, name, truth(tracer, self), dim, keepdim)
        return ew.convert(tracer.b, holds, U8) if self.dtype == U8 else holds

    return convert


def _correction(unbiased: bool | None, correction: Number | None) -> float:
    """Return the number that is subtracted from the count in the divisor of a variance: 1 by default (Bessel's
    correction).
    """
    if correction is not None:
        return float(correction)  # type: ignore[arg-type]
    return 0 if unbiased is False else 1


def _of_moments(results: Callable[[Tracer, Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]) -> Conversion:
    """Return the conversion of an operator whose results are a function of the variance and the mean."""

    def convert(
        tracer: Tracer,
        self: Tensor,
        dim: int | Ints | bool | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Number | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if isinstance(dim, bool):  # the overload without axes
            dim, unbiased = None, dim
        axes = axes_of(tracer, self, dim)
        average, variance = normalization.moments(tracer.b, self, axes, _correction(unbiased, correction))
        moments = [ew.convert(tracer.b, x, self.dtype) for x in (variance, average)]
        if not keepdim:
            moments = [shapes.squeeze(tracer.b, x, axes) if axes else x for x in moments]
        return results(tracer, *moments)

    return convert


def _root(tracer: Tracer, x: Tensor) -> Tensor:
    return ew.unary(tracer.b, "sqrt", x)


var = _of_moments(lambda tracer, variance, average: variance)
var_mean = _of_moments(lambda tracer, variance, average: (variance, average))
std = _of_moments(lambda tracer, variance, average: _root(tracer, variance))
std_mean = _of_moments(lambda tracer, variance, average: (_root(tracer, variance), average))


def logsumexp(tracer: Tracer, self: Tensor, dim: int | Ints, keepdim: bool = False) -> Tensor:
    x = self if self.dtype.is_float else ew.convert(tracer.b, self, F32)
    return normalization.log_sum_exp(tracer.b, x, axes_of(tracer, x, dim), keepdim)


def vector_norm(
    tracer: Tracer,
    self: Tensor,
    ord: Number = 2,
    dim: int | Ints | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    x = self if dtype is None else ew.convert(tracer.b, self, dtype)
    return normalization.lp_norm(tracer.b, x, float(ord), axes_of(tracer, x, dim), keepdim)  # type: ignore[arg-type]


def norm(
    tracer: Tracer, self: Tensor, p: Number | None = 2, dim: int | Ints | None = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    return vector_norm(tracer, self, 2 if p is None else p, dim, keepdim, dtype=dtype)


def dist(tracer: Tracer, self: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    return vector_norm(tracer, sub(tracer, self, other), p)


def count_nonzero(tracer: Tracer, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    return _reduced(tracer, "add", ew.convert(tracer.b, truth(tracer, self), I64), dim, keepdim=False)


def numel(tracer: Tracer, self: Tensor) -> Any:
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
    "aten.max.dim": _extreme_with_index("max"),
    "aten.min.dim": _extreme_with_index("min"),
    "aten.aminmax": aminmax,
    "aten.argmax": _argument("max"),
    "aten.argmin": _argument("min"),
    "aten.any": _logical_reduction("or"),
    "aten.all": _logical_reduction("and"),
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
