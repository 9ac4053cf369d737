"""Views and tiles of kernels over arrays of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.errors import KernelError

Index = Any


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
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self - other

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self * other

    def __itruediv__(self, other: Any) -> Any:  # type: ignore[misc]
        return self / other

    def __imatmul__(self, other: Any) -> Any:
        return self @ other


def tile(array: Any) -> Any:
    """Return an array as a tile."""
    return np.asarray(array).view(ArrayTile)


class ArrayView:
    """View of a kernel over an array. Parts outside of the array read as 0 and are not written."""

    def __init__(self, name: str, array: Any) -> None:
        self.name, self.array = name, array

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the array."""
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
        if not self._is_part(indices):
            return self.array[self.element(indices)]
        places, inside = self.places(indices)
        result = tile(np.zeros(inside.shape, self.array.dtype))
        result[inside] = self.array[tuple(place[inside] for place in places)]
        result.missing = ~inside
        return result

    def __setitem__(self, index: Index, value: Any) -> None:
        """Store an element, or the elements of a tile that are inside of the view."""
        indices = self._indices(index)
        if not self._is_part(indices):
            self.array[self.element(indices)] = value
            return
        places, inside = self.places(indices)
        values = np.broadcast_to(value, inside.shape)
        self.array[tuple(place[inside] for place in places)] = values[inside]

    def element(self, indices: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the index of an element. Raise KernelError if it lies outside of the view."""
        for dimension, (position, size) in enumerate(zip(indices, self.shape, strict=True)):
            if not -size <= position < size:
                raise KernelError(
                    f"the index {position} is outside of dimension {dimension} of '{self.name}', whose size is {size}"
                )
        return tuple(map(int, indices))

    def places(self, indices: tuple[Any, ...]) -> tuple[list[Any], Any]:
        """Return the index of each element of a slice along each dimension, and whether it is inside of the view.

        `indices` are those of `_indices`. The results have the shape of the slice.

        Tiles of indices are broadcast together. The axes of their common shape replace that of the first tile's index.
        """
        tiles = [np.asarray(index) for index in indices if isinstance(index, np.ndarray)]
        tile_shape = np.broadcast_shapes(*(index.shape for index in tiles)) if tiles else ()
        shape: list[int] = []
        axes: list[int] = []
        tile_axis = None
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
        places, inside = [], np.ones(shape, bool)
        for index, axis, size in zip(indices, axes, self.shape, strict=True):
            if isinstance(index, slice):
                place = np.arange(index.start, index.stop).reshape(-1, *[1] * (len(shape) - axis - 1))
            elif isinstance(index, np.ndarray):
                place = np.broadcast_to(index, tile_shape).reshape(
                    *tile_shape, *[1] * (len(shape) - axis - len(tile_shape))
                )
            else:
                place = np.asarray(index)
            place = np.broadcast_to(place, shape).astype(np.int64)
            inside &= (place >= 0) & (place < size)
            places.append(place)
        return places, inside

    def _indices(self, index: Index) -> tuple[Any, ...]:
        """Return one index, slice with both ends, or array for each dimension."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != self.ndim:
            raise KernelError(f"{len(indices)} indices of '{self.name}', which has {self.ndim} dimensions")
        return tuple(
            slice(part.start or 0, size if part.stop is None else part.stop) if isinstance(part, slice) else part
            for part, size in zip(indices, self.shape, strict=True)
        )

    @staticmethod
    def _is_part(indices: tuple[Any, ...]) -> bool:
        """Return whether indices denote a slice, not a single element."""
        return any(isinstance(part, (slice, np.ndarray)) and getattr(part, "ndim", 1) > 0 for part in indices)
