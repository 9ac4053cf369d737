"""Element types of buffers, on every device, and arrays of them without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from pydispatch._core.dlpack import open_capsule

import pydispatch as pd

ml_dtypes = pytest.importorskip("ml_dtypes")
DEVICES = ("cpu", "vulkan:0", "webgpu:0", "ptx-interpreter")
BYTES = {"float8_e5m2": 5, "float8_e4m3fn": 5, "bfloat16": 10, "float6_e2m3fn": 5, "int4": 3, "uint4": 3, "int2": 2,
         "uint2": 2, "float4_e2m1fn": 3}  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_types_of_ml_dtypes(device: str) -> None:
    opened = pd.device(device)
    for name, nbytes in BYTES.items():
        array = np.array([0, 1, 0, 1, 1]).astype(getattr(ml_dtypes, name))
        buffer = opened.upload(array)
        assert (buffer.dtype, buffer.nbytes) == (array.dtype, nbytes)  # packed, where elements have less than a byte
        np.testing.assert_array_equal(buffer.numpy(), array)
        assert opened.empty(3, array.dtype).dtype == array.dtype


def test_buffers_have_the_codes_of_dlpack() -> None:
    """Codes of DLPack 1.1 (DLDataTypeCode); they say how another library reads the same bytes."""
    codes = {"bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
             "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14}  # fmt: skip
    for name, code in codes.items():
        array = np.arange(1, 5).astype(getattr(ml_dtypes, name))
        buffer = pd.device("cpu").upload(array)
        for source in (buffer, pd.dlpack(array)):
            back = open_capsule(source.__dlpack__())
            np.testing.assert_array_equal(back, array)
            assert (back.dtype, type_code(source.__dlpack__())) == (array.dtype, code)


def type_code(capsule: object) -> int:
    """Return the type code in a DLManagedTensor: after data, device and ndim, at byte 20."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.string_at(pointer(capsule, b"dltensor") + 20, 1)[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, ">f4"])
def test_types_that_programs_do_not_have(device: str, dtype: Any) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=f"there is no element type for {np.dtype(dtype)}"):
        pd.device(device).upload(np.zeros(3, dtype))


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_without_a_copy(device: str) -> None:
    x = np.arange(4, dtype=np.float32)
    opened = pd.device(device)
    buffer, packed = opened.upload(x), opened.upload(x.astype(ml_dtypes.int4))
    if buffer.is_mapped:
        view = np.array(buffer, copy=False)
        view[1] = 7
        assert buffer.numpy()[1] == 7
        assert open_capsule(buffer.__dlpack__(copy=False)).ctypes.data == view.ctypes.data
    else:
        with pytest.raises(BufferError, match=r"DLPack of .* needs a copy"):
            buffer.__dlpack__(copy=False)
        with pytest.raises(ValueError, match=r"an array of float32 over .* needs a copy"):
            np.array(buffer, copy=False)
    for other, dtype in ((buffer, np.float64), (packed, None)):
        with pytest.raises(ValueError, match="needs a copy"):
            np.array(other, dtype, copy=False)
    with pytest.raises(BufferError, match="needs a copy"):
        packed.__dlpack__(copy=False)
    assert np.asarray(buffer, np.float64).dtype == np.float64 and np.array(packed, copy=True)[2] == 2
