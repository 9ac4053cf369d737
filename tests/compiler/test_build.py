"""Passes over kernel IR write the same with xDSL's own constructors as with the faster ones."""

from __future__ import annotations

import pytest

import pydispatch as pd
from pydispatch.compiler.kernel_ir import build

SOFTMAX = """
func.func @f(%x: tensor<?x70xf32>) -> tensor<?x70xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x70xf32>
  %e = tensor.empty(%n) : tensor<?x70xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<?x70xf32>) outs(%e : tensor<?x70xf32>) -> tensor<?x70xf32>
  return %y : tensor<?x70xf32>
}
"""


@pytest.mark.parametrize("target", ["vulkan", "cuda"])
def test_both_ways_write_the_same(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build._HAS_KNOWN_LAYOUT, "xDSL's operations have changed: see `create` and `move`"
    fast = pd.compile(SOFTMAX, targets=target).to_bytes()
    monkeypatch.setattr(build, "_HAS_KNOWN_LAYOUT", False)
    assert pd.compile(SOFTMAX, targets=target).to_bytes() == fast
