"""Parameters: constants whose bytes are given when a program is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd


def load(text: str, **more: Any) -> Any:
    return pd.device("local-sync").load(pd.compile(text), **more)


PARAMETERS = """
util.global private @bias = #flow.parameter.named<"model"::"layer.bias"> : tensor<3xf32>
util.global private mutable @state = #flow.parameter.named<"model"::"layer.start"> : tensor<3xf32>
func.func @f(%a: tensor<3xf32>) -> tensor<3xf32> {
  %b = util.global.load @bias : tensor<3xf32>
  %r = arith.addf %a, %b : tensor<3xf32>
  return %r : tensor<3xf32>
}
func.func @bump() -> tensor<3xf32> {
  %s = util.global.load @state : tensor<3xf32>
  %t = arith.addf %s, %s : tensor<3xf32>
  util.global.store %t, @state : tensor<3xf32>
  return %t : tensor<3xf32>
}
"""


def test_parameters(tmp_path: Path) -> None:
    bias, start = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    path = tmp_path / "model.npz"
    np.savez(path, **{"layer.bias": bias, "layer.start": start})
    a = np.array([0.5, -1, 2], np.float32)
    for given in (str(path), {"layer.bias": bias, "layer.start": start}):
        program = load(PARAMETERS, parameters={"model": given})
        np.testing.assert_array_equal(program.f(a), a + bias)
        np.testing.assert_array_equal(program.bump(), 2 * start)
        np.testing.assert_array_equal(program.bump(), 4 * start)
    with pytest.raises(pd.Error, match="model"):
        load(PARAMETERS)
