"""The elements of `dense<...>` as arrays of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from pydispatch.frontends.graph.dtypes import DType, Kind

if TYPE_CHECKING:
    import numpy as np


def elements_of(constant: DenseIntOrFPElementsAttr[Any], dtype: DType) -> np.ndarray[Any, Any]:
    """An array of `dtype.numpy`, read-only where it can share the memory of the constant."""
    import numpy as np

    data = constant.data.data
    shape = constant.get_shape()
    if dtype.is_bool:
        return (np.frombuffer(data, np.uint8) & 1).astype(np.bool_).reshape(shape)
    array = np.frombuffer(data, dtype.numpy)
    if dtype.kind is Kind.UINT and dtype.bits < 8:  # Widened by their sign, or not.
        array = array & dtype.numpy.type((1 << dtype.bits) - 1)
    return array.reshape(shape)
