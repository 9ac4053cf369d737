"""docs/cuda-device.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from cuda_fake import device, fake
from cuda_programs import MUL, source, target
from fake_driver import FakeDriver
from tools import DATA

import pydispatch as pd
from pydispatch.runtime.devices.cuda import OPTIONS, driver

__all__ = ["device", "fake"]  # fixtures

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "cuda-device.md").read_text()


def test_the_calls_of_the_page(fake: FakeDriver, device: Any) -> None:
    host = """func.func @f(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
      %d = arith.constant 64 : index
      %n = arith.constant 64 : i32
      %r = flow.dispatch @executable::@simple_mul[%d](%n, %a, %b)
        : (i32, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      return %r : tensor<64xf32>
    }"""
    text = source({target(): [DATA / "kernels_sm_75.ptx"]}, MUL, host)
    program = device.load(pd.compile(text, targets="cuda"))
    a, b = np.random.default_rng(1).standard_normal((2, 64), dtype=np.float32)
    x, w, x2, w2 = (device.upload(each) for each in (a, b, b, b))
    names: dict[str, Any] = {"program": program, "a": a, "b": b, "x": x, "w": w, "x2": x2, "w2": w2}
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(block, names)
    np.testing.assert_array_equal(names["y"], a * b)
    fake.calls.clear()
    np.testing.assert_array_equal(names["call"](), b * b)
    assert fake.calls["cuGraphLaunch"] == 1


def test_names_and_numbers_of_the_page() -> None:
    for option in OPTIONS:
        assert f"?{option}=1" in TEXT
    assert f"{driver.MIN_PACKAGE} (CUDA {driver.version_text(driver.MIN_VERSION)})" in TEXT
    for name in re.findall(r"`device\.(\w+)", TEXT):
        from pydispatch.runtime.devices.cuda.device import CudaDevice

        assert hasattr(CudaDevice, name), name
