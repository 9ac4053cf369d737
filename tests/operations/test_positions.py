"""Numbers of elements compared with constants, on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32, I32, I64, DType
from pydispatch.operations.elementwise import apply
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


@pytest.mark.parametrize("dtype", [I32, I64, F32])
@pytest.mark.parametrize(("device", "target"), [("cpu", "cpu"), ("vulkan", "vulkan"), ("ptx-interpreter", "sm_80")])
def test_elements_up_to_a_place(device: str, target: str, dtype: DType) -> None:
    b = Builder("test.onnx")
    (x,) = b.begin([Input("x", dtype, (3, 5))])

    def chosen(s: Scalars, v: Scalar) -> Scalar:
        return s.select(s.compare("le", s.position(1, dtype), s.const(2, dtype)), v, s.const(-1, dtype))

    b.finish("main", {"y": apply(b, chosen, x)})
    given = np.arange(15, dtype=dtype.numpy).reshape(3, 5)
    found = np.asarray(pd.device(device).load(pd.compile(b.module, targets=target)).main(given))
    np.testing.assert_array_equal(found, np.where(np.arange(5) <= 2, given, -1))
