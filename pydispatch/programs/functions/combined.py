"""NumPy functions on traced arrays that are composed of other functions of NumPy, as a program would be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch.graph.sizes import differ
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes
from pydispatch.programs.array import Array
from pydispatch.programs.functions.common import axis_of, division_operands, floats, ordered_axes, promoted
from pydispatch.programs.trace import Trace


def _floats(trace: Trace, *operands: Any) -> list[Array]:
    """Return operands as traced arrays of one float type."""
    return [Array(trace, tensor) for tensor in floats(trace, *operands)]


def hypot(trace: Trace, a: Any, b: Any) -> Any:
    """Compute the hypotenuse without overflow of squares, as `large * sqrt(1 + (small / large)**2)`."""
    x, y = (abs(operand) for operand in _floats(trace, a, b))
    large, small = np.maximum(x, y), np.minimum(x, y)
    quotient = small / np.where(large > 0, large, 1)
    return np.where(np.isinf(x) | np.isinf(y), math.inf, large * np.sqrt(1 + quotient * quotient))


def _log_of_sum(base: float) -> Callable[..., Any]:
    """Return the handler of logaddexp (base e) or logaddexp2 (base 2)."""

    def log_of_sum(trace: Trace, a: Any, b: Any) -> Any:
        """Return log_base(base^a + base^b) as max(a, b) + log_base(1 + base^-|a - b|), whose power cannot overflow."""
        x, y = _floats(trace, a, b)
        distance = np.where(np.equal(x, y), 0, -abs(np.subtract(x, y)))  # inf - inf would be NaN
        power = np.exp(distance) if base == math.e else np.exp2(distance)
        return np.maximum(x, y) + np.log1p(power) / math.log(base)

    return log_of_sum


def _without_nan(function: Any) -> Callable[..., Any]:
    """Return the handler of fmax or fmin from numpy.maximum or numpy.minimum."""

    def ignoring_nan(trace: Trace, a: Any, b: Any) -> Any:
        """Apply `function` to each pair of elements; if one of them is NaN, return the other one."""
        return np.where(np.not_equal(a, a), b, np.where(np.not_equal(b, b), a, function(a, b)))

    return ignoring_nan


def _scaled(factor: float) -> Callable[..., Any]:
    """Return the handler of a multiplication by a constant, such as numpy.radians."""

    def scaled(trace: Trace, a: Any) -> Any:
        """Return the elements of `a` as floats, times `factor`."""
        (floats,) = _floats(trace, a)
        return floats * factor

    return scaled


def heaviside(trace: Trace, a: Any, b: Any) -> Any:
    """Return 0 for negative elements of a, 1 for positive ones, b for 0, and NaN for NaN."""
    x, at_zero = _floats(trace, a, b)
    return np.where(np.isnan(x), x, np.where(x > 0, 1, np.where(x < 0, 0, at_zero)))


def diff(trace: Trace, a: Any, n: int = 1, axis: int = -1) -> Any:
    """Return the n-th differences along an axis: n times, element i + 1 minus element i, which removes an element."""
    if a.dtype == np.bool_:
        raise trace.fail("differences of conditions are not a part of programs", "convert them: x.astype(np.int32)")
    if n < 0:
        raise trace.fail(f"numpy.diff of order {n}", "the order n is 0 or more")
    axis = axis_of(trace, axis, trace.tensor_of(a))
    for _ in range(n):
        before: list[Any] = [slice(None)] * a.ndim
        after = list(before)
        before[axis], after[axis] = slice(None, a.shape[axis] - 1), slice(1, None)
        a = a[tuple(after)] - a[tuple(before)]
    return a


def ptp(trace: Trace, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest minus the smallest element along axes."""
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


def atleast_nd(rank: int) -> Callable[..., Any]:
    """Return the handler of atleast_1d or atleast_2d: `rank` is 1 or 2."""

    def with_rank(trace: Trace, *arrays: Any) -> Any:
        """Return the arrays with axes of size 1 put before their own until they have `rank` axes.

        One array is returned alone, several are a tuple.
        """
        results: list[Any] = []
        for array in arrays:
            x: Any = Array(trace, trace.tensor_of(array))
            results.append(x if x.ndim >= rank else np.reshape(x, (1,) * (rank - x.ndim) + tuple(x.shape)))
        return results[0] if len(results) == 1 else tuple(results)

    return with_rank


def _all_atleast_nd(trace: Trace, arrays: Sequence[Any], rank: int) -> list[Any]:
    """Return arrays with axes of size 1 inserted in front up to a rank."""
    return [atleast_nd(rank)(trace, array) for array in arrays]


def vstack(trace: Trace, arrays: Sequence[Any]) -> Any:
    """Join arrays along axis 0; vectors are rows."""
    return np.concatenate(_all_atleast_nd(trace, arrays, rank=2), axis=0)


def hstack(trace: Trace, arrays: Sequence[Any]) -> Any:
    """Join arrays along axis 1, and vectors along axis 0."""
    operands = _all_atleast_nd(trace, arrays, rank=1)
    return np.concatenate(operands, axis=0 if operands[0].ndim == 1 else 1)


def column_stack(trace: Trace, arrays: Sequence[Any]) -> Any:
    """Join arrays along axis 1; vectors are columns."""
    operands = _all_atleast_nd(trace, arrays, rank=1)
    return np.concatenate([x[:, None] if x.ndim == 1 else x for x in operands], axis=1)


def norm(trace: Trace, a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return numpy.linalg.norm(a, ord, axis, keepdims): of vectors of any order, and of matrices the Frobenius norm.

    For |x| the absolute values of the elements: ord=None is sqrt(sum(|x|²)), inf the largest and -inf the smallest |x|,
    0 the number of elements other than 0, and another p is sum(|x|^p)^(1/p).

    axis: one axis for vectors; a pair, or None, for matrices. Raise CompileError for other norms of matrices.
    """
    x = Array(trace, division_operands(trace, a)[0])  # integers as floats
    is_matrix_norm = x.ndim > 1 and (axis is None or isinstance(axis, (tuple, list)))
    # The root of the sum of squares: the Frobenius norm, and the norm of order 2 of vectors. The norm of order 2 of a
    # matrix is its largest singular value, which is not supported.
    if ord in (None, "fro") or (ord == 2 and not is_matrix_norm):
        squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
        return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))
    if x.dtype.kind == "c":
        x = abs(x)  # the other orders use magnitudes only
    if is_matrix_norm:
        raise trace.fail(
            f"the norm of a matrix of order {ord!r} is not a part of programs",
            "there is the Frobenius norm, and orders 1, 2, inf, -inf and others of vectors: give axis=",
        )
    if ord == math.inf:
        return np.max(abs(x), axis=axis, keepdims=keepdims)
    if ord == -math.inf:
        return np.min(abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(np.not_equal(x, 0).astype(x.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(abs(x), axis=axis, keepdims=keepdims)
    return np.sum(abs(x) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def trace_of(trace: Trace, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the sum of a diagonal of each matrix, whose axes are axis1 and axis2.

    offset: 0 for the main diagonal; a positive number for one above it, a negative number for one below.
    """
    if a.ndim < 2:
        raise trace.fail(f"numpy.trace of {a.tensor}: expected matrices", "give it two axes or more")
    matrices = np.moveaxis(a, (axis1, axis2), (-2, -1))
    ones = np.ones_like(matrices)
    # The upper and the lower triangle have only the diagonal in common.
    diagonal = np.not_equal(np.triu(ones, offset) * np.tril(ones, offset), 0)
    return np.sum(np.where(diagonal, matrices, np.zeros_like(matrices)), axis=(-2, -1))


def nan_to_num(
    trace: Trace, a: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Replace NaN and infinities by numbers: 0, and the largest and smallest number of the type by default.

    Args:
        trace: The program that is traced.
        a: The array.
        copy: Whether to return a new array. False replaces the elements of the array itself, and returns it.
        nan, posinf, neginf: Values in place of NaN, inf and -inf; None for the largest or smallest number of the type.
    """
    if not copy:
        a.tensor = nan_to_num(trace, a, nan=nan, posinf=posinf, neginf=neginf).tensor
        return a
    if a.dtype.kind == "c":
        real, imag = (nan_to_num(trace, part, copy, nan, posinf, neginf) for part in (a.real, a.imag))
        return real + 1j * imag
    if not a.tensor.dtype.is_float:
        return a.copy()  # integers have no such values
    limits: Any = np.finfo(a.dtype) if a.tensor.dtype.has_numpy_values else _finfo_of_ml_dtypes(a.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    is_nan, is_inf = np.isnan(a), np.isinf(a)
    limit = np.where(a > 0, high, low).astype(a.dtype)  # in place of an infinity
    return np.where(is_nan, nan, np.where(is_inf, limit, a))


def _finfo_of_ml_dtypes(dtype: Any) -> Any:
    """Return the limits of a float type that NumPy lacks, such as bf16."""
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo  # it has no types
    return finfo(dtype)


def count_nonzero(trace: Trace, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the number of elements along axes that are not 0."""
    return np.sum(np.not_equal(a, 0).astype(np.int64), axis=axis, keepdims=keepdims)


def average(trace: Trace, a: Any, axis: Any = None, weights: Any = None) -> Any:
    """Return the mean along axes, weighted by `weights`: an array of a's shape, or one with the axes in `axis` only.

    Integers are averaged in f64, as in NumPy.
    """
    if weights is None:
        return np.mean(a, axis=axis)
    numbers = Array(trace, division_operands(trace, a)[0])
    x, w = promoted(trace, numbers, Array(trace, trace.tensor_of(weights)))
    values, factors = Array(trace, x), Array(trace, _along_axes_of(trace, x, w, axis))
    return np.sum(values * factors, axis=axis) / np.sum(factors, axis=axis)


def _along_axes_of(trace: Trace, x: Tensor, weights: Tensor, axis: Any) -> Tensor:
    """Return the weights of an average of x along axes with the rank of x, and the size 1 along axes that they lack.

    Raise CompileError unless they have the shape of x, or the sizes of the axes in `axis`, in this order.
    """
    what = f"numpy.average of {x} with weights {weights}"
    # Axes of x to which the axes of the weights belong: all of them for weights of the shape of x.
    if x.rank == weights.rank and not any(map(differ, x.shape, weights.shape)):
        axes = list(range(x.rank))
    elif axis is None:
        raise trace.fail(
            f"{what}: their shapes differ",
            "give the axes of the weights as axis=, or weights of the shape of the array",
        )
    else:
        axes = ordered_axes(trace, axis, x.rank)
    if len(axes) != weights.rank or any(differ(x.shape[d], n) for d, n in zip(axes, weights.shape, strict=True)):
        raise trace.fail(f"{what}: their sizes differ along axis={axis}", "give one weight per position along the axes")
    # `differ` sees only sizes that are known now; symbolic sizes are compared in each call.
    for along, size in zip(axes, weights.shape, strict=True):
        trace.require_equal(size, x.shape[along], f"{what}: {{a}} weights along axis {along} of size {{b}}")
    # For x [2, 3, 4], weights [4, 2] and axis=(2, 0): transpose them to [2, 4], and reshape them to [2, 1, 4].
    ascending = shapes.transpose(trace, weights, [axes.index(along) for along in sorted(axes)])
    return shapes.reshape(trace, ascending, [n if along in axes else 1 for along, n in enumerate(x.shape)])


def isclose(trace: Trace, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether |a - b| <= atol + rtol |b|, element by element.

    As in NumPy, b becomes a float first: a difference of integers could exceed their type.
    """
    # A number of Python remains one, so that the result has the type of a.
    y = b * 1.0 if isinstance(b, (int, float, complex)) else Array(trace, division_operands(trace, b)[0])
    within_tolerance = abs(np.subtract(a, y)) <= atol + rtol * abs(y)
    is_close = np.equal(a, y) | (within_tolerance & np.isfinite(y))  # infinities are close only if they are equal
    # x != x holds only for NaN.
    return is_close | (np.not_equal(a, a) & np.not_equal(y, y)) if equal_nan else is_close


def allclose(trace: Trace, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether `isclose` holds for all elements."""
    return np.all(isclose(trace, a, b, rtol, atol, equal_nan))


def _ignoring_nan(function: Any, other: float) -> Callable[..., Any]:
    """Return the handler of a reduction by a function of NumPy that takes `other` in place of NaN."""

    def reduced(trace: Trace, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """Reduce `a` along axes by `function`, with `other` in place of NaN."""
        numbers = np.where(np.isnan(a), other, a) if _may_be_nan(a) else a
        return function(numbers, axis=axis, keepdims=keepdims)

    return reduced


def _may_be_nan(a: Array) -> bool:
    """Return whether the type of an array has NaN: that of floats, with those that NumPy lacks, and complex numbers."""
    return a.tensor.dtype.is_float or a.tensor.dtype.is_complex


def nanmean(trace: Trace, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the mean along axes of the elements that are not NaN. The sum of floats narrower than f32 is of f32."""
    if not _may_be_nan(a):
        return np.mean(a, axis=axis, keepdims=keepdims)
    is_narrow = a.tensor.dtype.real.bits < 32
    numbers = np.where(np.isnan(a), 0, a.astype(np.float32) if is_narrow else a)
    total = np.sum(numbers, axis=axis, keepdims=keepdims)
    count = np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)
    return (total / count.astype(total.real.dtype)).astype(a.dtype)


Array.UFUNCS |= {
    "hypot": hypot, "logaddexp": _log_of_sum(math.e), "logaddexp2": _log_of_sum(2.0), "fmax": _without_nan(np.maximum),
    "fmin": _without_nan(np.minimum), "heaviside": heaviside, "deg2rad": _scaled(math.pi / 180),
    "radians": _scaled(math.pi / 180), "rad2deg": _scaled(180 / math.pi), "degrees": _scaled(180 / math.pi),
}  # fmt: skip

Array.FUNCTIONS |= {
    "diff": diff, "ptp": ptp, "vstack": vstack, "hstack": hstack, "column_stack": column_stack,
    "atleast_1d": atleast_nd(1), "atleast_2d": atleast_nd(2), "norm": norm, "trace": trace_of, "nan_to_num": nan_to_num,
    "count_nonzero": count_nonzero, "average": average, "isclose": isclose, "allclose": allclose,
    "nansum": _ignoring_nan(np.sum, 0.0), "nanprod": _ignoring_nan(np.prod, 1.0), "nanmean": nanmean,
}  # fmt: skip
