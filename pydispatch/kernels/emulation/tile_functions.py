"""The functions of tiles under plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.kernels.emulation.views import ArrayTile, tile
from pydispatch.patterns.types import DType


def dtype_of(dtype: DType) -> Any:
    """Return the NumPy dtype of arrays with elements of a type of kernels."""
    return np.asarray(dtype(0)).dtype


class TileFunctions:
    """Functions on tiles under plain Python, where tiles are NumPy arrays of the class `ArrayTile`.

    A call of `zeros(...)` in a kernel calls the method `zeros` of the invocation that runs: `Invocation` inherits these
    methods. `kernels/tiles/functions.py` describes the functions and their parameters.
    """

    def zeros(self, shape: Any, dtype: DType) -> Any:
        """Return a tile of zeros."""
        return tile(np.zeros(shape, dtype_of(dtype)))

    def full(self, shape: Any, value: Any, dtype: DType) -> Any:
        """Return a tile whose elements are all equal."""
        return tile(np.full(shape, value, dtype_of(dtype)))

    def arange(self, size: int) -> Any:
        """Return a tile of the numbers 0 to size - 1, as i32."""
        return tile(np.arange(size, dtype=np.int32))

    def load(self, part: ArrayTile, other: Any) -> Any:
        """Return `part`, a slice that was read from a view, with `other` in place of elements outside of the view.

        `part.missing` is True for these elements, which `ArrayView` has read as 0.
        """
        return tile(np.where(part.missing, np.asarray(other, part.dtype), part))

    def reshape(self, x: ArrayTile, shape: Any) -> Any:
        """Return the elements in another shape."""
        return tile(np.reshape(x, shape))

    def sum(self, x: ArrayTile, axis: int | None, keepdims: bool) -> Any:
        """Return the sum along an axis, or of all elements for None, in the type of the elements."""
        return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)

    def max(self, x: ArrayTile, axis: int | None, keepdims: bool) -> Any:
        """Return the maximum along an axis, or of all elements for None."""
        return np.max(x, axis=axis, keepdims=keepdims)

    def min(self, x: ArrayTile, axis: int | None, keepdims: bool) -> Any:
        """Return the minimum along an axis, or of all elements for None."""
        return np.min(x, axis=axis, keepdims=keepdims)

    def cumsum(self, x: ArrayTile, axis: int | None) -> Any:
        """Return the cumulative sum along an axis, in the type of the elements."""
        return np.cumsum(x, axis=axis, dtype=x.dtype)

    def scan(self, x: ArrayTile, combine: Callable[[Any, Any], Any], axis: int | None) -> Any:
        """Combine each element with the result before it along an axis; None for the only axis of a tile.

        With `combine` as the sum, [1, 2, 3] gives [1, 3, 6].
        """
        result = np.moveaxis(np.array(x), axis or 0, -1)
        for line in np.ndindex(result.shape[:-1]):
            for position in range(1, result.shape[-1]):
                before, here = (*line, position - 1), (*line, position)
                result[here] = combine(result[before], result[here])
        return tile(np.moveaxis(result, -1, axis or 0))

    def argmin(self, x: ArrayTile, axis: int | None, keepdims: bool) -> Any:
        """Return the smallest elements along an axis, and their indices along it as i32."""
        indices = np.argmin(x, axis=axis, keepdims=keepdims).astype(np.int32)
        return np.min(x, axis=axis, keepdims=keepdims), indices
