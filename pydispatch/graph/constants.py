"""Conversion between NumPy arrays and the constant attributes of MLIR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr

from pydispatch.formats.arrays import small_floats
from pydispatch.graph.dtypes import DType, Kind, dtype_of_numpy
from pydispatch.graph.values import tensor_type
from pydispatch.ir.core.dense import splat_of_bytes

if TYPE_CHECKING:
    import numpy as np


def elements_of(constant: DenseIntOrFPElementsAttr[Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return the elements of a dense constant as an array of `dtype.numpy`, which shares the memory of the constant if
    possible.

    A splat, which is stored as one element, becomes an array with strides of 0.
    """
    import numpy as np

    data = constant.data.data
    shape = constant.get_shape()
    if dtype.is_bool:
        return _shaped((np.frombuffer(data, np.uint8) & 1).astype(np.bool_), shape)
    array = np.frombuffer(data, dtype.numpy)
    if dtype.kind is Kind.UINT and dtype.bits < 8:  # a constant has them sign-extended
        array = array & dtype.numpy.type((1 << dtype.bits) - 1)
    return _shaped(array, shape)


def _shaped(array: np.ndarray[Any, Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Reshape an array; an array of one element, which stands for a splat, is broadcast with strides of 0 instead."""
    import numpy as np

    return np.broadcast_to(array.reshape(()), shape) if array.size == 1 else array.reshape(shape)


def constant_attribute(value: Any, dtype: DType) -> Any:
    """Return a real number as a FloatAttr or IntegerAttr of the type `dtype.element`. Integers wrap around.

    Of a complex type, the number is the real or the imaginary part.
    """
    if dtype.kind in (Kind.FLOAT, Kind.COMPLEX):
        return FloatAttr(float(value), dtype.element)
    bits = int(value) & ((1 << dtype.bits) - 1)
    # Attributes of signless types have signed numbers, also for unsigned types: 255 of u8 is -1. One of i1 has 0 or 1.
    is_top_bit_set = bits >> (dtype.bits - 1) == 1
    if is_top_bit_set and dtype.bits > 1:
        bits -= 1 << dtype.bits
    return IntegerAttr(bits, dtype.element)


def dense_of(array: np.ndarray[Any, Any], dtype: DType) -> DenseIntOrFPElementsAttr[Any]:
    """Return an array of `dtype.numpy` as a dense constant; one whose strides are all 0 becomes a splat."""
    import numpy as np

    type = tensor_type(dtype.element, array.shape)
    # The stride of an axis of one element is not used: it may be any number.
    strides = [stride for n, stride in zip(array.shape, array.strides, strict=True) if n > 1]
    if array.size > 1 and not any(strides):  # all elements are the same one in memory
        return splat_of_bytes(type, array[(0,) * array.ndim].tobytes())
    return DenseIntOrFPElementsAttr(type, BytesAttr(np.ascontiguousarray(array).tobytes()))


def encoded(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return numbers, an array of any NumPy or ml_dtypes type, converted to a type, in an array of `dtype.numpy`.

    Floats that NumPy lacks are rounded to nearest even and encoded as bits.
    """
    import numpy as np

    if dtype.has_numpy_values:
        with np.errstate(all="ignore"):
            return array.astype(dtype.numpy)
    if dtype_of_numpy(array) is dtype:  # an array of ml_dtypes: its elements have these bits already
        return array.view(dtype.numpy)
    if dtype.name == "bf16":
        return small_floats.encode_bfloat(array)
    return small_floats.encode(array, dtype.name)
