"""Element types of buffers, on every device, and arrays of them without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
    else:
        with pytest.raises(ValueError, match=r"an array of float32 over .* needs a copy"):
            np.array(buffer, copy=False)
    for other, dtype in ((buffer, np.float64), (packed, None)):
        with pytest.raises(ValueError, match="needs a copy"):
            np.array(other, dtype, copy=False)
    assert np.asarray(buffer, np.float64).dtype == np.float64 and np.array(packed, copy=True)[2] == 2
