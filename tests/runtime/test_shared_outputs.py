"""`out=` of several results on every device: memory that two of them share is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

# A function, and a procedure: what has state has steps that the host runs.
SOURCE = """
util.global private mutable @calls = 0 : i64
func.func @both(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.mulf %a, %a : tensor<?xf32>
  %1 = arith.addf %a, %a : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
func.func @counted(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %calls = util.global.load @calls : i64
  %one = arith.constant 1 : i64
  %next = arith.addi %calls, %one : i64
  util.global.store %next, @calls : i64
  %0 = arith.mulf %a, %a : tensor<?xf32>
  %1 = arith.addf %a, %a : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
func.func @total() -> i64 {
  %calls = util.global.load @calls : i64
  return %calls : i64
}
"""
X = np.arange(1, 9, dtype=np.float32)


@cache
def artifact() -> Any:
    return pd.compile(SOURCE, targets=("cpu", "vulkan", "webgpu", "cuda"))


@pytest.mark.parametrize("name", ["cpu?workers=2", "vulkan:0", "webgpu:0", "ptx-interpreter"])
def test_results_that_share_memory_are_refused(name: str) -> None:
    device = pd.device(name)
    program = device.load(artifact())
    pair, buffer, other = np.zeros(16, np.float32), device.empty(8), device.empty(8)
    shared: list[tuple[Any, Any]] = [(pair[:8], pair[:8]), (pair[:8], pair[7:15]), (buffer, buffer)]
    if buffer.is_mapped:
        shared += [(buffer, buffer.numpy()), (buffer.numpy(), buffer)]
    for function in (program.both, program.counted):
        message = rf"@{function.name}: out 0 and out 1 share memory, but results 0 and 1 are different arrays; pass sep"
        for out in shared:
            for call in (function, function.prepare, lambda x, out, f=function: f.submit(x, out=out).result(60)):
                with pytest.raises(pd.InvalidArgumentError, match=message):
                    call(X, out=out)
        for out in ((pair[8:], pair[:8]), (buffer, other), (buffer, pair[:8])):
            function(X, out=out)
            np.testing.assert_array_equal(np.asarray(out[0]), X * X)
            np.testing.assert_array_equal(np.asarray(out[1]), X + X)
        function(X[:0], out=(pair[:0], pair[:0]))
    assert program.total() == 4, "a refused call changes nothing"
