"""Sums, means, extremes and running results of traced arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydispatch.graph.dtypes import DTYPES, F16, F32, I64, DType
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import (
    elementwise,
    reductions,
    scans,
    shapes,
)
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import division_operands, dtype_from, reduced_axes, truth, vector_and_axis
from pydispatch.programs.trace import Trace


def _type_of_sums(x: Tensor, dtype: Any) -> DType:
    """Return the type in which NumPy sums the elements of x: `dtype` if it is stated, else at least 64 bits for
    integers.
    """
    if dtype is not None:
        return dtype_from(dtype)
    if x.dtype.is_bool or (x.dtype.is_integer and x.dtype.bits < 64):
        return DTYPES["u64"] if x.dtype.is_unsigned and not x.dtype.is_bool else I64
    return x.dtype


def _reduction(name: str) -> Callable[..., Array]:
    """Return the handler of a reduction: "add", "mul", "max" or "min"."""

    def reduce(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        """Reduce along axes; without `axis`, over all elements."""
        x = trace.tensor_of(a)
        if name in ("add", "mul"):
            x = elementwise.convert(trace, x, _type_of_sums(x, dtype))
        else:
            _require_elements(trace, f"numpy.{name}", x, reduced_axes(trace, axis, x))
        return Array(trace, reductions.reduce(trace, name, x, reduced_axes(trace, axis, x), keepdims))

    return reduce


def _require_elements(trace: Trace, name: str, x: Tensor, axes: Sequence[int] | None) -> None:
    """Require that each element of a result is reduced from at least one element of x.

    A maximum of x[3, 0] along axis 1, which has 3 elements, raises CompileError. If the sizes are dynamic, each call
    checks it. name: the reduction, for the error.
    """
    reduced = shapes.axes_of(trace, axes, x.rank)
    result_size = product(n for axis, n in enumerate(x.shape) if axis not in reduced)
    message = f"{name} of no elements, of an array {x}"
    trace.require_positive(reductions.count(x, reduced), message, unless_zero=result_size)


def _truths(name: str) -> Callable[..., Array]:
    """Return the handler of "and" (numpy.all) or "or" (numpy.any) of truth values."""

    def reduce(trace: Trace, a: Any, axis: Any = None, keepdims: bool = False) -> Array:
        """Combine the truth values of the elements along axes by the function `name`; all elements without `axis`."""
        x = truth(trace, a)
        return Array(trace, reductions.reduce(trace, name, x, reduced_axes(trace, axis, x), keepdims))

    return reduce


def _operand_of_mean(trace: Trace, a: Any, dtype: Any) -> Tensor:
    """Return the operand of a mean or variance in the type of the result: `dtype`, else floats stay and integers become
    f64.
    """
    (x,) = division_operands(trace, a)
    return x if dtype is None else elementwise.convert(trace, trace.tensor_of(a), dtype_from(dtype))


def mean(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Return the mean along axes. NumPy sums f16 in f32."""
    x = _operand_of_mean(trace, a, dtype)
    wide = elementwise.convert(trace, x, F32) if x.dtype == F16 else x
    result = reductions.mean(trace, wide, reduced_axes(trace, axis, x), keepdims)
    return Array(trace, elementwise.convert(trace, result, x.dtype))


def var(
    trace: Trace,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    correction: int = 0,
) -> Array:
    """Return the variance along axes. `ddof` and `correction`, two names of one option, are subtracted from the
    count.
    """
    x = _operand_of_mean(trace, a, dtype)
    return Array(trace, reductions.variance(trace, x, reduced_axes(trace, axis, x), keepdims, ddof or correction))


def std(
    trace: Trace,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    correction: int = 0,
) -> Array:
    """Return the standard deviation along axes, the square root of `var`."""
    return Array(trace, elementwise.unary(trace, "sqrt", var(trace, a, axis, dtype, ddof, keepdims, correction).tensor))


def _argument(name: str) -> Callable[..., Array]:
    """Return the handler of argmax ("max") or argmin ("min")."""

    def arg_extreme(trace: Trace, a: Any, axis: int | None = None, keepdims: bool = False) -> Array:
        """Return the index of the largest or smallest element along an axis.

        Without `axis`, the index counts all elements in row-major order.
        """
        x = trace.tensor_of(a)
        if axis is None or x.rank == 0:
            vector = Array(trace, vector_and_axis(trace, x, axis)[0])
            position = arg_extreme(trace, vector, axis=0).tensor
            return Array(trace, shapes.reshape(trace, position, [1] * x.rank if keepdims else []))
        trace.require_positive(x.shape[axis], f"numpy.arg{name} of no elements, of an array {x}")
        return Array(trace, reductions.arg_reduce(trace, name, x, axis, keepdims))

    return arg_extreme


def _cumulative(name: str) -> Callable[..., Array]:
    """Return the handler of cumsum ("add") or cumprod ("mul")."""

    def cumulate(trace: Trace, a: Any, axis: int | None = None, dtype: Any = None) -> Array:
        """Return the running sums or products along an axis; without `axis`, of the elements in row-major order."""
        x, axis = vector_and_axis(trace, trace.tensor_of(a), axis)
        return Array(trace, scans.cumulative(trace, name, elementwise.convert(trace, x, _type_of_sums(x, dtype)), axis))

    return cumulate


Array.FUNCTIONS |= {
    "sum": _reduction("add"), "prod": _reduction("mul"), "max": _reduction("max"), "min": _reduction("min"),
    "amax": _reduction("max"), "amin": _reduction("min"), "all": _truths("and"), "any": _truths("or"), "mean": mean,
    "var": var, "std": std, "argmax": _argument("max"), "argmin": _argument("min"), "cumsum": _cumulative("add"),
    "cumprod": _cumulative("mul"), "add.reduce": _reduction("add"), "maximum.reduce": _reduction("max"),
    "minimum.reduce": _reduction("min"), "multiply.reduce": _reduction("mul"),
}  # fmt: skip
