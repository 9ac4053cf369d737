"""Conversions of reductions, which combine many elements into one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydispatch.frontends.torch.nodes.pointwise import sub, truth
from pydispatch.frontends.torch.promotion import Category, Number, category
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64, U8, DType
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import normalization, reductions, shapes
from pydispatch.operations.indexing import require_elements

Ints = Sequence[int]


def axes_of(builder: Builder, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the non-negative axes that a reduction reduces: all axes for None and for an empty list."""
    if dim is None or (not isinstance(dim, int) and not dim) or not x.rank:
        return list(range(x.rank))
    return shapes.axes_of(builder, [dim] if isinstance(dim, int) else dim, x.rank)


def _reduced(builder: Builder, name: str, x: Tensor, dim: int | Ints | None, keepdim: bool) -> Tensor:
    """Reduce a tensor along axes, which keep size 1 if `keepdim` and are removed otherwise.

    name: the function that combines two elements, such as "add". dim: see `axes_of`.
    """
    return reductions.reduce(builder, name, x, axes_of(builder, x, dim), keepdim)


def accumulator_type(x: Tensor, dtype: DType | None) -> DType:
    """Return the type of a sum or product: `dtype` if given, i64 for integers and bool, else the type of x."""
    return dtype or (x.dtype if category(x.dtype) >= Category.FLOAT else I64)


def _accumulated(
    name: str, builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return the sum ("add") or product ("mul") along axes; see `_reduced`, and `accumulator_type` for `dtype`."""
    return _reduced(builder, name, ew.convert(builder, self, accumulator_type(self, dtype)), dim, keepdim)


@converts("aten.mean", "aten.mean.dim")
def mean(
    builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Return the mean along axes as `dtype`, by default the type of `self`; floats below f32 are added up in f32."""
    dtype = dtype or self.dtype
    x = ew.convert(builder, self, normalization.wide(dtype))
    return ew.convert(builder, reductions.mean(builder, x, axes_of(builder, x, dim), keepdim), dtype)


def _axes_of_extreme(builder: Builder, x: Tensor, dim: int | Ints | None) -> list[int]:
    """Return the axes that a maximum or minimum reduces. As in PyTorch, an extreme of no elements is refused."""
    axes = axes_of(builder, x, dim)
    result_shape = tuple(n for d, n in enumerate(x.shape) if d not in axes)
    require_elements(builder, x, axes, result_shape)  # unless the result has no elements
    return axes


def _extreme(name: str, builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False) -> Tensor:
    """Return the maximum ("max") or minimum ("min") along axes."""
    return reductions.reduce(builder, name, self, _axes_of_extreme(builder, self, dim), keepdim)


def _extreme_with_index(
    name: str, builder: Builder, self: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maximum or minimum along an axis, and its index; of equal elements the first is chosen."""
    if not self.rank:
        return self, builder.constant(0, I64)
    (axis,) = axes_of(builder, self, dim)
    extreme = _extreme(name, builder, self, axis, keepdim)
    return extreme, reductions.arg_reduce(builder, name, self, axis, keepdim)


def _argument(name: str, builder: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the index along an axis of the maximum (name "max") or minimum ("min"); of equal ones, that of the first.

    Without an axis, return the index in the flattened tensor.
    """
    if not self.rank:
        return builder.constant(0, I64)
    axes = _axes_of_extreme(builder, self, dim)
    if dim is not None:
        return reductions.arg_reduce(builder, name, self, axes[0], keepdim)
    flat = reductions.arg_reduce(builder, name, shapes.reshape(builder, self, [-1]), axis=0)
    return shapes.reshape(builder, flat, [1] * self.rank) if keepdim else flat


@converts("aten.aminmax")
def aminmax(builder: Builder, self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the minimum and the maximum along an axis, or of all elements."""
    return _extreme("min", builder, self, dim, keepdim), _extreme("max", builder, self, dim, keepdim)


def _logical_reduction(
    name: str, builder: Builder, self: Tensor, dim: int | Ints | None = None, keepdim: bool = False
) -> Tensor:
    """Return whether any ("or") or all ("and") elements along axes are not 0: a bool; for u8 a u8, as in PyTorch."""
    holds = _reduced(builder, name, truth(builder, self), dim, keepdim)
    return ew.convert(builder, holds, U8) if self.dtype == U8 else holds


def _correction(unbiased: bool | None, correction: Number | None) -> float:
    """Return the number that is subtracted from the count in the divisor of a variance: `correction`, else 0 if
    `unbiased` is False, else 1 (Bessel's correction).
    """
    if correction is not None:
        return float(correction)  # type: ignore[arg-type]
    return 0 if unbiased is False else 1


def _of_moments(
    takes_root: bool, has_mean: bool, builder: Builder, self: Tensor, dim: int | Ints | bool | None = None,
    unbiased: bool | None = None, keepdim: bool = False, *, correction: Number | None = None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Return the variance along axes, or its root if `takes_root`; with `has_mean`, also the mean, as second result.

    The root is taken before the variance is rounded to the type of `self`, in which it may overflow. The variance of n
    elements is their sum of squared deviations divided by n - correction. Without `correction`, that number is 0 if
    `unbiased` is False, else 1.
    """
    if isinstance(dim, bool):  # the overload without axes, whose second parameter is `unbiased`
        dim, unbiased = None, dim
    axes = axes_of(builder, self, dim)
    average, spread = normalization.moments(builder, self, axes, _correction(unbiased, correction))
    if takes_root:
        spread = ew.unary(builder, "sqrt", spread)
    moments = [spread, average] if has_mean else [spread]
    if self.dtype.is_float:
        moments = [ew.convert(builder, x, self.dtype) for x in moments]
    if not keepdim and axes:
        moments = [shapes.squeeze(builder, x, axes) for x in moments]
    return (moments[0], moments[1]) if has_mean else moments[0]


@converts("aten.logsumexp")
def logsumexp(builder: Builder, self: Tensor, dim: int | Ints, keepdim: bool = False) -> Tensor:
    """Return log(sum(exp(x))) along axes, of integers in f32."""
    x = self if self.dtype.is_float else ew.convert(builder, self, F32)
    return normalization.log_sum_exp(builder, x, axes_of(builder, x, dim), keepdim)


@converts("aten.linalg_vector_norm", "aten.norm")
def vector_norm(
    builder: Builder, self: Tensor, ord: Number | None = 2, dim: int | Ints | None = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """Return the norm along axes, sum(|x|^ord)^(1/ord), computed in `dtype`, by default the type of `self`.

    The order `ord` is 2 for None; infinite orders give the largest or smallest |x|, 0 the number of non-zero elements.
    """
    x = self if dtype is None else ew.convert(builder, self, dtype)
    order = 2.0 if ord is None else float(ord)  # type: ignore[arg-type]
    return normalization.lp_norm(builder, x, order, axes_of(builder, x, dim), keepdim)


@converts("aten.dist")
def dist(builder: Builder, self: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """Return the norm of order p of the difference of two tensors."""
    return vector_norm(builder, sub(builder, self, other), p)


@converts("aten.count_nonzero")
def count_nonzero(builder: Builder, self: Tensor, dim: int | Ints | None = None) -> Tensor:
    """Return the number of elements that are not 0, along axes."""
    return _reduced(builder, "add", ew.convert(builder, truth(builder, self), I64), dim, keepdim=False)


@converts("aten.numel", "aten.sym_numel")
def numel(builder: Builder, self: Tensor) -> Any:
    """Return the number of elements of a tensor as a size."""
    return product(self.shape)


register({
    **{f"aten.sum{overload}": partial(_accumulated, "add") for overload in ("", ".dim_IntList")},
    **{f"aten.prod{overload}": partial(_accumulated, "mul") for overload in ("", ".dim_int")},
    **{f"aten.{form}{name}": partial(_extreme, name) for form in ("", "a") for name in ("max", "min")},
    **{f"aten.{name}.dim": partial(_extreme_with_index, name) for name in ("max", "min")},
    **{f"aten.arg{name}": partial(_argument, name) for name in ("max", "min")},
    "aten.any": partial(_logical_reduction, "or"),
    "aten.all": partial(_logical_reduction, "and"),
    **{f"aten.{name}{suffix}": partial(_of_moments, name == "std", suffix == "_mean")
       for name in ("var", "std") for suffix in ("", "_mean")},
})  # fmt: skip
