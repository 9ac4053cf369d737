# ruff: noqa: E501  (lines of MLIR)
"""Functions over buffer views and fences, as exporters print them."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd

TWINS = """
module @module {
  util.func public @main$async(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.fence, %arg3: !hal.fence) -> (!hal.buffer_view, !hal.buffer_view) attributes {inlining_policy = #util.inline.never, iree.abi.model = "coarse-fences", iree.abi.stub} {
    %cst = arith.constant dense_resource<torch_tensor_2_2_torch.float32_1> : tensor<2x2xf32>
    %zero = arith.constant 0.000000e+00 : f32
    %n = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
    %0 = hal.tensor.import wait(%arg2) => %arg0 : !hal.buffer_view -> tensor<?x2xf32>{%n}
    %1 = hal.tensor.import wait(%arg2) => %arg1 : !hal.buffer_view -> tensor<2xf32>
    %2 = tensor.empty(%n) : tensor<?x2xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<?x2xf32>) -> tensor<?x2xf32>
    %4 = linalg.matmul ins(%0, %cst : tensor<?x2xf32>, tensor<2x2xf32>) outs(%3 : tensor<?x2xf32>) -> tensor<?x2xf32>
    %5 = arith.mulf %1, %1 : tensor<2xf32>
    %6:2 = hal.tensor.barrier join(%4, %5 : tensor<?x2xf32>, tensor<2xf32>) => %arg3 : !hal.fence
    %7 = hal.tensor.export %6#0 : tensor<?x2xf32>{%n} -> !hal.buffer_view
    %8 = hal.tensor.export %6#1 : tensor<2xf32> -> !hal.buffer_view
    util.return %7, %8 : !hal.buffer_view, !hal.buffer_view
  }
  util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) attributes {iree.abi.stub} {
    %0 = util.null : !hal.fence
    %c-1_i32 = arith.constant -1 : i32
    %c0 = arith.constant 0 : index
    %device_0 = hal.devices.get %c0 : !hal.device
    %fence = hal.fence.create device(%device_0 : !hal.device) flags("None") : !hal.fence
    %1:2 = util.call @main$async(%arg0, %arg1, %0, %fence) : (!hal.buffer_view, !hal.buffer_view, !hal.fence, !hal.fence) -> (!hal.buffer_view, !hal.buffer_view)
    %status = hal.fence.await until([%fence]) timeout_millis(%c-1_i32) flags("None") : i32
    util.return %1#0, %1#1 : !hal.buffer_view, !hal.buffer_view
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_2_2_torch.float32_1: "0x040000000000803F000000400000404000008040"
    }
  }
#-}
"""

ASYNC = """
util.func public @entry(%arg0: !hal.buffer_view, %arg1: i32, %wait: !hal.fence, %signal: !hal.fence) -> (%arg0, i32) attributes {iree.abi.stub, iree.reflection = {iree.abi.model = "coarse-fences"}} {
  %0 = hal.tensor.import wait(%wait) => %arg0 "input0" : !hal.buffer_view -> tensor<4xf32>
  %1:2 = util.call @_entry(%0, %arg1) : (tensor<4xf32>, i32) -> (tensor<4xf32>, i32)
  %2 = hal.tensor.barrier join(%1#0 : tensor<4xf32>) => %signal : !hal.fence
  %3 = hal.tensor.export %2 "output0" : tensor<4xf32> -> !hal.buffer_view
  util.return %3, %1#1 : !hal.buffer_view, i32
}
util.func private @_entry(%arg0: tensor<4xf32>, %arg1: i32) -> (tensor<4xf32>, i32) {
  %0 = arith.addf %arg0, %arg0 : tensor<4xf32>
  %1 = arith.addi %arg1, %arg1 : i32
  util.return %0, %1 : tensor<4xf32>, i32
}
util.func public @scalars(%arg0: i32 {iree.abi.name = "n"}, %wait: !hal.fence {a}, %signal: !hal.fence) -> i32 {
  %both = hal.fence.join at([%wait, %signal]) flags("None") -> !hal.fence
  %status = hal.fence.query<%both : !hal.fence> : i32
  %sum = arith.addi %arg0, %status : i32
  hal.fence.signal<%signal : !hal.fence>
  util.return %sum : i32
}
util.func public @chain(%view: !hal.buffer_view) -> (!hal.buffer_view, !hal.buffer_view) {
  %none = util.null : !hal.fence
  %one = arith.constant 1 : i32
  %a:2 = util.call @entry(%view, %one, %none, %none) : (!hal.buffer_view, i32, !hal.fence, !hal.fence) -> (%view, i32)
  %b:2 = util.call @entry(%a#0, %a#1, %none, %none) : (!hal.buffer_view, i32, !hal.fence, !hal.fence) -> (!hal.buffer_view, i32)
  util.return %b#0, %view : !hal.buffer_view, !hal.buffer_view
}
util.func public @later(%view: !hal.buffer_view) -> !hal.buffer_view {
  %n = hal.buffer_view.dim<%view : !hal.buffer_view>[0] : index
  %r = util.call @any_size(%view) : (!hal.buffer_view) -> !hal.buffer_view
  %t = hal.tensor.import %r : !hal.buffer_view -> tensor<4xf32>
  %u = arith.addf %t, %t : tensor<4xf32>
  %e = hal.tensor.export %u : tensor<4xf32> -> !hal.buffer_view
  util.return %e : !hal.buffer_view
}
util.func private @any_size(%view: !hal.buffer_view) -> !hal.buffer_view {
  %n = hal.buffer_view.dim<%view : !hal.buffer_view>[0] : index
  %t = hal.tensor.import %view : !hal.buffer_view -> tensor<?xf32>{%n}
  %u = arith.mulf %t, %t : tensor<?xf32>
  %e = hal.tensor.export %u : tensor<?xf32>{%n} -> !hal.buffer_view
  util.return %e : !hal.buffer_view
}
"""


def test_a_function_and_its_asynchronous_twin_are_one() -> None:
    program = pd.device("cpu").load(pd.compile(TWINS, cpu="generic"))
    assert list(program.functions) == ["main"]
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    product, squares = program.main(x, np.array([2, 3], np.float32))
    np.testing.assert_array_equal(product, x @ np.array([[1, 2], [3, 4]], np.float32))
    np.testing.assert_array_equal(squares, [4, 9])


def test_fences_are_no_part_of_a_signature() -> None:
    program = pd.device("cpu").load(pd.compile(ASYNC, cpu="generic"))
    assert sorted(program.functions) == ["chain", "entry", "later", "scalars"]
    x = np.arange(4, dtype=np.float32)
    doubled, number = program.entry(x, 4)
    np.testing.assert_array_equal(doubled, 2 * x)
    assert int(number) == 8
    assert int(program.scalars(5)) == 5
    four_times, same = program.chain(x)
    np.testing.assert_array_equal(four_times, 4 * x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(program.later(x), 2 * x * x)
    with pytest.raises(pd.Error, match="another number of elements"):
        program.later(np.arange(5, dtype=np.float32))


HEAD = "util.func public @f(%v: !hal.buffer_view, %w: !hal.fence) -> "
REFUSED = {
    "the type of this buffer view is not known": HEAD + "!hal.buffer_view {\n  util.return %v : !hal.buffer_view\n}",
    "a buffer view is imported as tensor<2xf32>, tensor<3xf32>": HEAD
    + """tensor<2xf32> {
  %0 = hal.tensor.import wait(%w) => %v : !hal.buffer_view -> tensor<2xf32>
  %1 = hal.tensor.import wait(%w) => %v : !hal.buffer_view -> tensor<3xf32>
  util.return %0 : tensor<2xf32>
}""",
    "a buffer view of tensor<2xf32> is imported as tensor<2xi32>": HEAD
    + """tensor<2xi32> {
  %0 = hal.tensor.import wait(%w) => %v : !hal.buffer_view -> tensor<2xf32>
  %1 = hal.tensor.export %0 : tensor<2xf32> -> !hal.buffer_view
  %2 = hal.tensor.import %1 : !hal.buffer_view -> tensor<2xi32>
  util.return %2 : tensor<2xi32>
}""",
    "'hal.tensor.alias' writes into memory of the caller; return the tensor": HEAD
    + """tensor<2xf32> {
  %0 = hal.tensor.import wait(%w) => %v : !hal.buffer_view -> tensor<2xf32>
  %1 = arith.addf %0, %0 : tensor<2xf32>
  %2 = hal.tensor.alias wait(%w) => %1 : tensor<2xf32> to %v : !hal.buffer_view
  util.return %2 : tensor<2xf32>
}""",
    "'util.return' is not supported on fences; fences are waited for": HEAD
    + "!hal.fence {\n  util.return %w : !hal.fence\n}",
    "'hal.buffer_view.element_type' is not supported in host code": HEAD
    + """i32 {
  %0 = hal.tensor.import wait(%w) => %v : !hal.buffer_view -> tensor<2xf32>
  %1 = hal.buffer_view.element_type<%v : !hal.buffer_view> : i32
  util.return %1 : i32
}""",
    "'@f' takes a buffer view of which it does not say the type": "util.func private @f(%v: !hal.buffer_view, %w: !hal.fence)\n"
    """util.func public @g(%v: !hal.buffer_view, %w: !hal.fence) {
  %0 = hal.tensor.import %v : !hal.buffer_view -> tensor<2xf32>
  util.call @f(%v, %w) : (!hal.buffer_view, !hal.fence) -> ()
  util.return
}""",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(REFUSED[message], cpu="generic")
    assert message in f"{caught.value.message}; {caught.value.note}"
    assert caught.value.location is not None
