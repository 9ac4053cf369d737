"""Numbers and arrays of NumPy as attributes of a program, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr

from pydispatch.formats.arrays import small_floats
from pydispatch.frontends.graph.dtypes import DType, Kind, dtype_of_numpy
from pydispatch.frontends.graph.values import tensor_type

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


def constant_attribute(value: Any, dtype: DType) -> Any:
    """A number as an attribute of the element type; integers wrap around."""
    if dtype.kind in (Kind.FLOAT, Kind.COMPLEX):
        return FloatAttr(float(value), dtype.element)
    number = int(value) & ((1 << dtype.bits) - 1)
    signed = number - (1 << dtype.bits) if number >> (dtype.bits - 1) and dtype.bits > 1 else number
    return IntegerAttr(signed, dtype.element)


def dense_of(array: np.ndarray[Any, Any], dtype: DType) -> DenseIntOrFPElementsAttr[Any]:
    """An array of `dtype.numpy` as a constant."""
    import numpy as np

    type = tensor_type(dtype.element, array.shape)
    return DenseIntOrFPElementsAttr(type, BytesAttr(np.ascontiguousarray(array).tobytes()))


def encoded(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Numbers as elements of a type, an array of `dtype.numpy`: to nearest even where NumPy has no such type."""
    import numpy as np

    if dtype.has_numpy_values:
        with np.errstate(all="ignore"):
            return array.astype(dtype.numpy)
    if dtype_of_numpy(array) is dtype:  # an array of ml_dtypes
        return array.view(dtype.numpy)
    if dtype.name != "bf16":
        return small_floats.encode(array, dtype.name)
    bits = array.astype(np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(array.astype(np.float32)), np.uint16(0x7FC0), rounded)
