"""Views and tiles of kernels over arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.errors import KernelError

Index = Any
"""Index of a view: an integer, a slice or a tile of integers; a tuple of these for several dimensions."""


class ArrayTile(np.ndarray):
    """Tile as an array. Operators such as `+=` make a new array, since variables of kernels share no memory.

    `missing` says for each element whether it is outside of the view that the tile is a slice of; None for other tiles.
    """

    missing: Any = None

    def __matmul__(self, other: Any) -> Any:
        """Return the matrix product, accumulated in the type of `tiles.products.ACCUMULATOR_TYPES`."""
        wide = {"float16": np.float32, "bfloat16": np.float32, "int8": np.int32}.get(self.dtype.name, self.dtype)
        return tile(np.matmul(np.asarray(self, wide), np.asarray(other, wide)))

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        """Return a new array, since kernel variables share no memory: after `b = a`, `a += c` does not change b."""
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        """Return a new array, since kernel variables share no memory: after `b = a`, `a -= c` does not change b."""
        return self - other

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        """Return a new array, since kernel variables share no memory: after `b = a`, `a *= c` does not change b."""
        return self * other

    def __itruediv__(self, other: Any) -> Any:  # type: ignore[misc]
        """Return a new array, since kernel variables share no memory: after `b = a`, `a /= c` does not change b."""
        return self / other

    def __imatmul__(self, other: Any) -> Any:
        """Return a new array, since kernel variables share no memory: after `b = a`, `a @= c` does not change b."""
        return self @ other


def tile(array: Any) -> Any:
    """Return an array as a tile."""
    return np.asarray(array).view(ArrayTile)


class ArrayView:
    """View of a kernel over a NumPy array while the kernel runs under plain Python.

    Attributes:
        name: Name of the view in errors: that of the parameter.
        array: The elements.

    Where a slice reaches beyond the array, its elements read as 0 and are not written. A single element outside of the
    array is an error.
    """

    def __init__(self, name: str, array: Any) -> None:
        self.name, self.array = name, array

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each dimension of the array."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        """NumPy type of the elements."""
        return self.array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Index) -> Any:
        """Return an element, or a slice as a tile: elements outside of the view are 0 and marked as missing."""
        indices = self._indices(index)
        if not self._is_slice(indices):
            return self.array[self.element(indices)]
        positions, inside = self.positions(indices)
        result = tile(np.zeros(inside.shape, self.array.dtype))
        result[inside] = self.array[tuple(position[inside] for position in positions)]
        result.missing = ~inside
        return result

    def __setitem__(self, index: Index, value: Any) -> None:
        """Store an element, or the elements of a tile that are inside of the view."""
        indices = self._indices(index)
        if not self._is_slice(indices):
            self.array[self.element(indices)] = value
            return
        positions, inside = self.positions(indices)
        values = np.broadcast_to(value, inside.shape)
        self.array[tuple(position[inside] for position in positions)] = values[inside]

    def element(self, indices: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the index of an element as ints. Raise KernelError if it is outside of the view.

        A negative index counts from the end of its dimension, as a constant index in a compiled kernel does. It stays
        negative in the result, which indexes a NumPy array.
        """
        for dimension, (position, size) in enumerate(zip(indices, self.shape, strict=True)):
            if not -size <= position < size:
                raise KernelError(
                    f"the index {position} is outside of dimension {dimension} of '{self.name}', whose size is {size}"
                )
        return tuple(map(int, indices))

    def positions(self, indices: tuple[Any, ...]) -> tuple[list[Any], Any]:
        """Return where each element of a slice is in the view, and which of them are inside of it.

        For example, view[3:6, cols] of a view of the shape [5, 9], with a tile of indices cols = [0, 9], has the shape
        [3, 2]. Its element (a, b) has the index 3 + a in dimension 0, and cols[b] in dimension 1. Therefore the
        positions are [[3, 3], [4, 4], [5, 5]] and [[0, 9], [0, 9], [0, 9]], and inside are
        [[True, False], [True, False], [False, False]].

        Args:
            indices: A result of `_indices`: a number, a slice or a tile of numbers for each dimension of the view.

        Returns:
            A list with one array of indices for each dimension of the view, and an array of booleans. All have the
            shape of the slice, which `_axes_of_slice` describes.
        """
        tiles = [np.asarray(index) for index in indices if isinstance(index, np.ndarray)]
        tile_shape = np.broadcast_shapes(*(index.shape for index in tiles)) if tiles else ()
        shape, axes = self._axes_of_slice(indices, tile_shape)
        positions, inside = [], np.ones(shape, bool)
        for index, axis, size in zip(indices, axes, self.shape, strict=True):
            # Broadcasting aligns last axes: an axis of size 1 is appended for each axis of the slice after those of the
            # index. In the example, [3, 4, 5] becomes [[3], [4], [5]], then [[3, 3], [4, 4], [5, 5]].
            if isinstance(index, slice):
                position = np.arange(index.start, index.stop).reshape(-1, *[1] * (len(shape) - axis - 1))
            elif isinstance(index, np.ndarray):
                position = np.broadcast_to(index, tile_shape).reshape(
                    *tile_shape, *[1] * (len(shape) - axis - len(tile_shape))
                )
            else:  # a single index, which is the same for all elements of the slice
                position = np.asarray(index)
            position = np.broadcast_to(position, shape).astype(np.int64)
            inside &= (position >= 0) & (position < size)
            positions.append(position)
        return positions, inside

    @staticmethod
    def _axes_of_slice(indices: tuple[Any, ...], tile_shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Return the shape of a slice, and the axis of the slice along which the index of each view dimension changes.

        A slice `b:b + 4` gives an axis of size 4, and a single index none. All tiles of indices together give the axes
        of `tile_shape`, at the place of the first of them. For example, x[t, i, b:b + 4] with a number i and a tile t
        of 8 numbers has the shape [8, 4], and its three dimensions have the axes [0, 0, 1].

        Args:
            indices: A number, a slice or a tile of numbers for each dimension of the view.
            tile_shape: The shape to which all tiles of indices are broadcast.

        Returns:
            The shape, and for each dimension of the view an axis: for a tile the first of its axes, and for a single
            index 0, since its index changes along none.
        """
        shape: list[int] = []
        axes: list[int] = []
        tile_axis = None  # first of the axes of `tile_shape`; None until the first tile is found
        for index in indices:
            if isinstance(index, np.ndarray):
                if tile_axis is None:
                    tile_axis = len(shape)
                    shape += tile_shape
                axes.append(tile_axis)
            elif isinstance(index, slice):
                axes.append(len(shape))
                shape.append(index.stop - index.start)
            else:
                axes.append(0)
        return shape, axes

    def _indices(self, index: Index) -> tuple[Any, ...]:
        """Return for each dimension an integer, a slice whose start and stop are stated, or an array of indices."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != self.ndim:
            raise KernelError(f"{len(indices)} indices of '{self.name}', which has {self.ndim} dimensions")
        stated: list[Any] = []
        for item, size in zip(indices, self.shape, strict=True):
            if isinstance(item, slice):
                item = slice(item.start or 0, size if item.stop is None else item.stop)
            stated.append(item)
        return tuple(stated)

    @staticmethod
    def _is_slice(indices: tuple[Any, ...]) -> bool:
        """Return whether indices denote a slice, not a single element."""
        # NumPy's integers and arrays of rank 0 are single indices.
        return any(isinstance(index, (slice, np.ndarray)) and getattr(index, "ndim", 1) > 0 for index in indices)
