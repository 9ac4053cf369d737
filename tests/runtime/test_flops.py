"""How many operations dispatches do, as the compiler counts them, and as users state them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydispatch._core.commands import Dispatch
from pydispatch._core.flops import Flops, flops_of

import pydispatch as pd


def stated(text: str) -> list[Any]:
    """Of the exports of a program, in order."""
    artifact = pd.compile(text, targets="x86_64")
    return [row for executable in artifact.executables for row in executable.variants[0].extra.get("flops", [None])]


def function(body: str, arguments: str = "%x: tensor<8x16xf32>", result: str = "tensor<8x16xf32>") -> str:
    return f"func.func @f({arguments}) -> {result} {{\n{body}\n}}"


PRODUCT = """
  %c0 = arith.constant 0 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x64xf32>) -> tensor<?x64xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x64xf32>) outs(%f : tensor<?x64xf32>) -> tensor<?x64xf32>
  %t = math.exp %r : tensor<?x64xf32>
  return %t : tensor<?x64xf32>
"""


def test_a_product_with_sizes_of_the_call() -> None:
    text = function(PRODUCT, "%a: tensor<?x?xf32>, %b: tensor<?x64xf32>", "tensor<?x64xf32>")
    assert stated(text) == [["f32", [64, 0], [128, 0, 2]]]
    program = pd.device("cpu").load(pd.compile(text))
    (timing,) = program.f.profile(np.ones((5, 7), np.float32), np.ones((7, 64), np.float32))
    assert (timing.flops, timing.arithmetic) == (2 * 5 * 64 * 7 + 5 * 64, "f32")


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("%y = arith.addf %x, %x : tensor<8x16xf32> return %y : tensor<8x16xf32>", 128),
        (
            "%y = math.tanh %x : tensor<8x16xf32> %z = arith.divf %y, %x : tensor<8x16xf32> "
            "return %z : tensor<8x16xf32>", 256,
        ),
        ("%y = math.fma %x, %x, %x : tensor<8x16xf32> return %y : tensor<8x16xf32>", 256),
    ],
)  # fmt: skip
def test_elements(body: str, count: int) -> None:
    (row,) = stated(function(body))
    assert row == ["f32", [count]]


def test_reductions_and_convolutions() -> None:
    total = function(
        """
  %z = arith.constant dense<0.0> : tensor<8xf32>
  %r = linalg.reduce ins(%x : tensor<8x16xf32>) outs(%z : tensor<8xf32>) dimensions = [1]
    (%a: f32, %b: f32) { %s = arith.addf %a, %b : f32  linalg.yield %s : f32 }
  return %r : tensor<8xf32>""", result="tensor<8xf32>")  # fmt: skip
    assert stated(total) == [["f32", [128]]]
    convolution = function(
        """
  %z = arith.constant dense<0.0> : tensor<1x6x6x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>)
    outs(%z : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %r : tensor<1x6x6x4xf32>""", "%x: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x4xf32>", "tensor<1x6x6x4xf32>"
    )  # fmt: skip
    counted = sum(term[0] for row in stated(convolution) for term in row[1:])
    assert counted == 2 * 6 * 6 * 4 * 3 * 3 * 3


def test_several_types_have_none() -> None:
    text = function(
        """
  %y = arith.extf %x : tensor<8x16xf16> to tensor<8x16xf32>
  %a = arith.addf %y, %y : tensor<8x16xf32>
  return %a : tensor<8x16xf32>""", "%x: tensor<8x16xf16>")  # fmt: skip
    ((type_, *terms),) = stated(text)
    assert (type_, terms) == ("", [[128]])


def test_movement_is_no_arithmetic() -> None:
    text = function(
        """
  %e = tensor.empty() : tensor<16x8xf32>
  %t = linalg.transpose ins(%x : tensor<8x16xf32>) outs(%e : tensor<16x8xf32>) permutation = [1, 0]
  return %t : tensor<16x8xf32>""", result="tensor<16x8xf32>")  # fmt: skip
    assert stated(text) == [[""]]


KERNEL = """
module {
  stream.executable private @kernels {
    stream.executable.export public @twice workgroups() -> (index, index, index) {
      %c2 = arith.constant 2 : index
      %c1 = arith.constant 1 : index
      stream.return %c2, %c1, %c1 : index, index, index
    } ATTRIBUTES
    builtin.module {
      func.func @twice(%b0: !stream.binding, %b1: !stream.binding) {
        %z = arith.constant 0 : index
        %x = stream.binding.subspan %b0[%z] : !stream.binding -> memref<2xf32>
        %y = stream.binding.subspan %b1[%z] : !stream.binding -> memref<2xf32>
        %i = flow.dispatch.workgroup.id[0] : index
        %v = memref.load %x[%i] : memref<2xf32>
        %w = arith.addf %v, %v : f32
        memref.store %w, %y[%i] : memref<2xf32>
        return
      }
    }
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %a = flow.dispatch @kernels::@twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
    return %a : tensor<2xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("attributes", "flops"),
    [
        ("", (None, "")),
        ("attributes {pydispatch.flops = 3.0 : f32}", (6, "f32")),
        ("attributes {pydispatch.flops = 3 : index}", (6, "")),
    ],
)
def test_users_kernels_state_them(attributes: str, flops: tuple[int | None, str]) -> None:
    program = pd.device("cpu").load(pd.compile(KERNEL.replace("ATTRIBUTES", attributes)))
    profile = program.main.profile(np.ones(2, np.float32))
    assert (profile[0].flops, profile[0].arithmetic) == flops
    (line,) = [line for line in str(profile).splitlines() if "@twice" in line]
    assert ("unknown" in line) == (flops[1] != "f32")


@pytest.mark.parametrize("value", ['"many"', "-1.0 : f32", "0.5 : f32", "[1, 2]", '["f32", [-1]]', '["f32", 3]'])
def test_wrong_statements(value: str) -> None:
    with pytest.raises(pd.CompileError, match=r"pydispatch\.flops is the number of operations of a workgroup"):
        pd.compile(KERNEL.replace("ATTRIBUTES", f"attributes {{pydispatch.flops = {value}}}"))


@pytest.mark.parametrize(
    "row",
    [[], [1], ["f32", 3], ["f32", []], ["f32", [2, 1]], ["f32", ["x"]], ["f32", [2, -2]], ["f32", [-1]]],
)
def test_artifacts_are_not_trusted(row: list[Any]) -> None:
    command = Dispatch(0, (), 0, 0, "k", (2, 1, 1), 0, 2)
    with pytest.raises(pd.ArtifactError, match="flops of export 'k'"):
        flops_of(command, {0: [row]}, bytes(8))


def test_sums() -> None:
    assert Flops(2, "f32") + Flops(3, "f32") == Flops(5, "f32")
    assert Flops(2, "f32") + Flops(3, "f64") == Flops(5)
    assert Flops(2, "f32") + Flops() == Flops()
    assert Flops(2, "f32") + Flops(0) == Flops(2, "f32")
    assert Flops(2, "f32") * 3 == Flops(6, "f32")
    command = Dispatch(0, (), 0, 0, "k", (2, 1, 1), 0, 2)
    assert flops_of(command, {0: [["f32", [2, 0, -1]]]}, (7).to_bytes(8, "little")).count == 28
