"""Conversions of reductions, which combine many elements into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.frontends.torch.nodes.pointwise import sub, truth
from pydispatch.frontends.torch.promotion import Number, category
from pydispatch.frontends.torch.registry import Conversion, converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64, U8, DType
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, reductions, shapes
from pydispatch.operations.indexing import require_elements

Ints = Sequence[int]


def axes_of(builder: Builder, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the axes that a reduction reduces: all axes for None and for an empty list."""
    if dim is None or (not isinstance(dim, int) and not dim) or not x.rank:
        return list(range(x.rank))
    return shapes.axes_of(builder, [dim] if isinstance(dim, int) else dim, x.rank)


def _reduced(builder: Builder, name: str, x: Tensor, dim: int | Ints | None, keepdim: bool) -> Tensor:
    """Reduce a tensor along axes by a function of one name."""
    return reductions.reduce(builder, name, x, axes_of(builder, x, dim), keepdim)


def _accumulator_type(x: Tensor, dtype: DType | None) -> DType:
    """Return the type of a sum or product: `dtype` if given, i64 for integers and bool, else the type of x."""
    return dtype or (x.dtype if category(x.dtype) >= 2 else I64)


@converts("aten.sum.dim_IntList")
def sum_(
    builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    return _reduced(builder, "add", ew.convert(builder, self, _accumulator_type(self, dtype)), dim, keepdim)


@converts("aten.sum")
def sum_all(builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return sum_(builder, self, dtype=dtype)


@converts("aten.prod.dim_int")
def prod(
    builder: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    return _reduced(builder, "mul", ew.convert(builder, self, _accumulator_type(self, dtype)), dim, keepdim)


@converts("aten.prod")
def prod_all(builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return prod(builder, self, dtype=dtype)


@converts("aten.mean.dim")
def mean(
    builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    dtype = dtype or self.dtype
    x = ew.convert(builder, self, normalization.wide(dtype))
    return ew.convert(builder, reductions.mean(builder, x, axes_of(builder, x, dim), keepdim), dtype)


@converts("aten.mean")
def mean_all(builder: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    return mean(builder, self, dtype=dtype)


def _axes_of_extreme(builder: Builder, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the axes that a maximum or minimum reduces. As in PyTorch, an extreme of no elements is refused."""
    axes = axes_of(builder, x, dim)
    require_elements(builder, x, axes, tuple(n for d, n in enumerate(x.shape) if d not in axes))
    return axes


def _extreme_along(builder: Builder, name: str, x: Tensor, dim: int | Ints | None, keepdim: bool) -> Tensor:
    """Return the "max" or "min" along axes."""
    return reductions.reduce(builder, name, x, _axes_of_extreme(builder, x, dim), keepdim)


def _extreme(name: str) -> Conversion:
    """Return the conversion of a maximum ("max") or minimum ("min")."""

    def convert(builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
        return _extreme_along(builder, name, self, dim, keepdim)

    return convert


def _extreme_with_index(name: str) -> Conversion:
    """Return the conversion of a maximum or minimum along an axis that also returns its index."""

    def convert(builder: Builder, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        if not self.rank:
            return self, builder.constant(0, I64)
        (axis,) = axes_of(builder, self, dim)
        extreme = _extreme_along(builder, name, self, axis, keepdim)
        return extreme, reductions.argument(builder, name, self, axis, keepdim)

    return convert


def _argument(name: str) -> Conversion:
    """Return the conversion of argmax ("max") or argmin ("min"); without an axis the index counts in the flattened
    tensor.
    """

    def convert(builder: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if not self.rank:
            return builder.constant(0, I64)
        axes = _axes_of_extreme(builder, self, dim)
        if dim is not None:
            return reductions.argument(builder, name, self, axes[0], keepdim)
        flat = reductions.argument(builder, name, shapes.reshape(builder, self, [-1]), 0)
        return shapes.reshape(builder, flat, [1] * self.rank) if keepdim else flat

    return convert


@converts("aten.aminmax")
def aminmax(builder: Builder, self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _extreme_along(builder, "min", self, dim, keepdim), _extreme_along(builder, "max", self, dim, keepdim)


def _logical_reduction(name: str) -> Conversion:
    """Return the conversion of any ("or") or all ("and")."""

    def convert(builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
        holds = _reduced(builder, name, truth(builder, self), dim, keepdim)
        return ew.convert(builder, holds, U8) if self.dtype == U8 else holds

    return convert


def _correction(unbiased: bool | None, correction: Number | None) -> float:
    """Return the number that is subtracted from the count in the divisor of a variance: 1 by default (Bessel's
    correction).
    """
    if correction is not None:
        return float(correction)  # type: ignore[arg-type]
    return 0 if unbiased is False else 1


def _of_moments(results: Callable[[Builder, Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]) -> Conversion:
    """Return the conversion of an operator whose results are a function of the variance and the mean."""

    def convert(
        builder: Builder,
        self: Tensor,
        dim: int | Ints | bool | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Number | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if isinstance(dim, bool):  # the overload without axes
            dim, unbiased = None, dim
        axes = axes_of(builder, self, dim)
        average, variance = normalization.moments(builder, self, axes, _correction(unbiased, correction))
        moments = [ew.convert(builder, x, self.dtype) for x in (variance, average)]
        if not keepdim:
            moments = [shapes.squeeze(builder, x, axes) if axes else x for x in moments]
        return results(builder, *moments)

    return convert


def _root(builder: Builder, x: Tensor) -> Tensor:
    return ew.unary(builder, "sqrt", x)


var = _of_moments(lambda builder, variance, average: variance)
var_mean = _of_moments(lambda builder, variance, average: (variance, average))
std = _of_moments(lambda builder, variance, average: _root(builder, variance))
std_mean = _of_moments(lambda builder, variance, average: (_root(builder, variance), average))


@converts("aten.logsumexp")
def logsumexp(builder: Builder, self: Tensor, dim: int | Ints, keepdim: bool = False) -> Tensor:
    x = self if self.dtype.is_float else ew.convert(builder, self, F32)
    return normalization.log_sum_exp(builder, x, axes_of(builder, x, dim), keepdim)


@converts("aten.linalg_vector_norm")
def vector_norm(
    builder: Builder,
    self: Tensor,
    ord: Number = 2,
    dim: int | Ints | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    x = self if dtype is None else ew.convert(builder, self, dtype)
    return normalization.lp_norm(builder, x, float(ord), axes_of(builder, x, dim), keepdim)  # type: ignore[arg-type]


@converts("aten.norm")
def norm(
    builder: Builder, self: Tensor, p: Number | None = 2, dim: int | Ints | None = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    return vector_norm(builder, self, 2 if p is None else p, dim, keepdim, dtype=dtype)


@converts("aten.dist")
def dist(builder: Builder, self: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    return vector_norm(builder, sub(builder, self, other), p)


@converts("aten.count_nonzero")
def count_nonzero(builder: Builder, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    return _reduced(builder, "add", ew.convert(builder, truth(builder, self), I64), dim, keepdim=False)


@converts("aten.numel", "aten.sym_numel")
def numel(builder: Builder, self: Tensor) -> Any:
    return product(self.shape)


register({
    "aten.amax": _extreme("max"),
    "aten.amin": _extreme("min"),
    "aten.max": _extreme("max"),
    "aten.min": _extreme("min"),
    "aten.max.dim": _extreme_with_index("max"),
    "aten.min.dim": _extreme_with_index("min"),
    "aten.argmax": _argument("max"),
    "aten.argmin": _argument("min"),
    "aten.any": _logical_reduction("or"),
    "aten.all": _logical_reduction("and"),
    "aten.var": var,
    "aten.var_mean": var_mean,
    "aten.std": std,
    "aten.std_mean": std_mean,
})  # fmt: skip
