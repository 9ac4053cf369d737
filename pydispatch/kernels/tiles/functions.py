"""The functions over tiles that kernels call. Like those of `kernels/functions.py`, the compiler never runs them."""

from __future__ import annotations

from typing import Any

from pydispatch.kernels.functions import emulated


def zeros(shape: Any, dtype: Any) -> Any:
    """Return a tile of zeros. shape: a number or a tuple of numbers that are known when the kernel is compiled."""
    return emulated("zeros", shape, dtype)


def full(shape: Any, value: Any, dtype: Any) -> Any:
    """Return a tile whose elements are all `value`. shape: as for `zeros`."""
    return emulated("full", shape, value, dtype)


def arange(size: int) -> Any:
    """Return the tile of i32 0, 1, ..., size - 1."""
    return emulated("arange", size)


def load(part: Any, other: Any = 0) -> Any:
    """Return a slice of a view as a tile, in which elements outside of the view have the value `other`.

    part: the slice, such as `x[i:i + 16]`, which without `load` is a tile with 0 outside of the view. This function is
    for kernels; `pydispatch.device("cpu").load(artifact)` loads a program.
    """
    return emulated("load", part, other)


def reshape(x: Any, shape: Any) -> Any:
    """Return the elements of a tile, in row-major order, as a tile of another shape.

    shape: a number or a tuple of numbers that are known when the kernel is compiled; one of them may be -1.
    """
    return emulated("reshape", x, shape)


def sum(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the sum of a tile along an axis, or of all its elements for None. A negative axis counts from the last.

    Floats are added in an order that depends on the shape alone.

    Returns:
        A tile without the axis, or a number without `axis`. With keepdims the reduced axes stay, with size 1.
    """
    return emulated("sum", x, axis, keepdims)


def max(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the largest element of a tile, along an axis or of the whole tile; NaN if an element is NaN.

    The shape of the result and the parameters are those of `sum`.
    """
    return emulated("max", x, axis, keepdims)


def min(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the smallest element of a tile, along an axis or of the whole tile; NaN if an element is NaN.

    The shape of the result and the parameters are those of `sum`.
    """
    return emulated("min", x, axis, keepdims)


def cumsum(x: Any, axis: int | None = None) -> Any:
    """Return for each element of a tile the sum of those up to it along an axis, added in order, as numpy.cumsum.

    A tile of one axis needs no `axis`. Lines along the axis are computed in parallel, the elements of a line in turn.
    """
    return emulated("cumsum", x, axis)


def scan(x: Any, combine: Any, axis: int | None = None) -> Any:
    """Return the inclusive scan of a tile along an axis: for each element the combination of those up to it.

    `combine(before, element)` is a function of two numbers that is inlined into the kernel; `before` is the result
    for the previous element. A tile of one axis needs no `axis`. Lines along the axis are computed in parallel, the
    elements of a line in turn.
    """
    return emulated("scan", x, combine, axis)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the smallest elements of a tile along an axis, and their indices along it (i32), as a tuple.

    The first of equal elements counts, and the first NaN if there is one. `argmax` is for the largest. A tile of one
    axis needs no `axis`, and gives two numbers; otherwise both results are tiles.
    """
    return emulated("argmin", x, axis, keepdims)
