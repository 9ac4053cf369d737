"""Sums, means, extremes, running results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.frontends.graph.dtypes import DTYPES, F16, F32, I64, DType
from pydispatch.frontends.graph.sizes import product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import (
    elementwise,
    reductions,
    scans,
    shapes,
)
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import axes_of, dtype_from, quotients, truth
from pydispatch.programs.trace import Trace


def _summed(x: Tensor, dtype: Any) -> DType:
    """Return the type in which NumPy adds up the elements of x: `dtype` when it is given."""
    if dtype is not None:
        return dtype_from(dtype)
    if x.dtype.is_bool or (x.dtype.is_integer and x.dtype.bits < 64):
        return DTYPES["u64"] if x.dtype.is_unsigned and not x.dtype.is_bool else I64
    return x.dtype


def _reduction(name: str) -> Callable[..., Array]:
    def made(t: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        x = t.tensor_of(a)
        if name in ("add", "mul"):
            x = elementwise.convert(t, x, _summed(x, dtype))
        else:
            _require_elements(t, f"numpy.{name}", x, axes_of(axis))
        return Array(t, reductions.reduce(t, name, x, axes_of(axis), keepdims))

    return made


def _require_elements(t: Trace, name: str, x: Tensor, axes: Sequence[int] | None) -> None:
    """Refuse a reduction that has results and combines no elements for them, in the trace or in a call."""
    gone = shapes.axes_of(t, axes, x.rank)
    others = product(n for axis, n in enumerate(x.shape) if axis not in gone)
    t.require_positive(reductions.count(x, gone), f"{name} of no elements, of an array {x}", unless_zero=others)


def _truths(name: str) -> Callable[..., Array]:
    return lambda t, a, axis=None, keepdims=False: Array(
        t, reductions.reduce(t, name, truth(t, a), axes_of(axis), keepdims)
    )


def _averaged(t: Trace, a: Any, dtype: Any) -> Tensor:
    (x,) = quotients(t, a)
    return x if dtype is None else elementwise.convert(t, t.tensor_of(a), dtype_from(dtype))


def mean(t: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    x = _averaged(t, a, dtype)
    wide = elementwise.convert(t, x, F32) if x.dtype == F16 else x  # NumPy adds halves up in f32
    return Array(t, elementwise.convert(t, reductions.mean(t, wide, axes_of(axis), keepdims), x.dtype))


def var(
    t: Trace, a: Any, axis: Any = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False, correction: int = 0
) -> Array:
    x = _averaged(t, a, dtype)
    return Array(t, reductions.variance(t, x, axes_of(axis), keepdims, ddof or correction))


def std(
    t: Trace, a: Any, axis: Any = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False, correction: int = 0
) -> Array:
    return Array(t, elementwise.unary(t, "sqrt", var(t, a, axis, dtype, ddof, keepdims, correction).tensor))


def _argument(name: str) -> Callable[..., Array]:
    def made(t: Trace, a: Any, axis: int | None = None, keepdims: bool = False) -> Array:
        x = t.tensor_of(a)
        if axis is None:
            x, axis = shapes.reshape(t, x, shapes.inferred(t, x, (-1,))), 0
        t.require_positive(x.shape[axis], f"numpy.arg{name} of no elements, of an array {x}")
        return Array(t, reductions.argument(t, name, x, axis, keepdims))

    return made


def _cumulative(name: str) -> Callable[..., Array]:
    def made(t: Trace, a: Any, axis: int | None = None, dtype: Any = None) -> Array:
        x = t.tensor_of(a)
        if axis is None:
            x, axis = shapes.reshape(t, x, shapes.inferred(t, x, (-1,))), 0
        x = elementwise.convert(t, x, _summed(x, dtype))
        return Array(t, scans.cumulative(t, name, x, axis % x.rank))

    return made


Array.FUNCTIONS |= {
    "sum": _reduction("add"), "prod": _reduction("mul"), "max": _reduction("max"), "min": _reduction("min"),
    "amax": _reduction("max"), "amin": _reduction("min"), "all": _truths("and"), "any": _truths("or"), "mean": mean,
    "var": var, "std": std, "argmax": _argument("max"), "argmin": _argument("min"), "cumsum": _cumulative("add"),
    "cumprod": _cumulative("mul"), "add.reduce": _reduction("add"), "maximum.reduce": _reduction("max"),
    "minimum.reduce": _reduction("min"), "multiply.reduce": _reduction("mul"),
}  # fmt: skip
