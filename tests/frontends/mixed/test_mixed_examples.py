"""examples/stablehlo on every device, and custom dispatches in modules that mix StableHLO with other dialects."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "stablehlo"
DEVICES = ("cpu", "vulkan:0", "webgpu:0", "ptx-interpreter")
KERNEL = """
void residual(const float* x, const float* y, float* out, unsigned long count) {
  for (unsigned long i = 0; i < count; ++i) out[i] = x[i] + 0.5f * y[i];
}
"""
CALLS = """
func.func @after_an_operation(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %s = arith.addf %x, %y : tensor<4xf32>
  %r = stablehlo.custom_call @residual(%s, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @in_a_branch(%c: i1, %x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %r = scf.if %c -> (tensor<?xf32>) {
    %s = stablehlo.custom_call @residual(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}
func.func @as_a_composite(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %s = arith.addf %x, %y : tensor<4xf32>
  %r = stablehlo.composite "residual" %s, %y {decomposition = @other} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @other(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @in_a_loop(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %start = arith.constant dense<0> : tensor<i32>
  %count = arith.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<2x2xf32>
   cond {
    %less = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %s = "stablehlo.custom_call"(%v, %y) {call_target_name = "residual", has_side_effect = false}
        : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    stablehlo.return %next, %s : tensor<i32>, tensor<2x2xf32>
  }
  return %r#1 : tensor<2x2xf32>
}
"""
INLINE = """
#cpu = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#arm = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#in = #hal.pipeline.binding<storage_buffer, ReadOnly>
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %a = stablehlo.abs %x : tensor<?xf32>
  %n = tensor.dim %a, %zero : tensor<?xf32>
  %count = arith.index_cast %n : index to i32
  %r = hal.dispatch.extern "residual"[%n](%count, %a, %y)
      : (i32, tensor<?xf32>{%n}, tensor<?xf32>{%n}) -> tensor<?xf32>{%n}
    count(%device: !hal.device, %size: index) -> (index, index, index) {
      %groups = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%size]
      %one = arith.constant 1 : index
      hal.return %groups, %one, %one : index, index, index
    }
    layout(#hal.pipeline.layout<constants = 1, bindings = [#in, #in, #hal.pipeline.binding<storage_buffer>]>)
    objects({ #cpu ordinal(0) = [#hal.executable.object<{path = "cpu/residual.c"}>],
              #arm ordinal(0) = [#hal.executable.object<{path = "cpu/residual.c"}>] })
  %z = stablehlo.negate %r : tensor<?xf32>
  return %z : tensor<?xf32>
}
"""


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("stablehlo_example", FOLDER / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "lines"),
    [("five_ways", ["layer", "normalize", "centered"]), ("custom_call", ["custom call"]),
     ("match_and_replace", ["match and replace"])],
)  # fmt: skip
@pytest.mark.parametrize("device", DEVICES)
def test_examples(example: Any, name: str, lines: list[str], device: str, tmp_path: Path, capsys: Any) -> None:
    getattr(example, name)(device, tmp_path)
    assert capsys.readouterr().out.splitlines() == [f"{line}: right on {device}" for line in lines]


def test_the_script_runs_all_examples(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(example, "EXAMPLES", [lambda name, folder: ran.append((name, folder.is_dir()))] * 2)
    example.main()
    assert ran == [("cpu", True)] * 2


@pytest.mark.parametrize("device", DEVICES)
def test_what_the_device_lacks_is_named(example: Any, device: str, tmp_path: Path) -> None:
    """Each dynamic part of the program is missing in turn."""
    target = example.target_of(device)
    artifact = pd.compile(FOLDER / "program.mlir", targets=target)
    steps = [
        ("plugin", "clip_workgroup", lambda opened: opened.add_plugin(example.plugin(target, tmp_path))),
        ("kernel", "given", lambda opened: opened.add_executable("given", example.residual(target, tmp_path))),
        ("command", "center", lambda opened: opened.add_command("center", example.center, synchronous=True)),
    ]
    for missing, symbol, _ in steps:
        opened = pd.device(device)
        for name, _, give in steps:
            if name != missing:
                give(opened)
        with pytest.raises(pd.MissingImportError, match=symbol):
            opened.load(artifact)


def test_custom_calls_where_other_dialects_are() -> None:
    kernel = pd.CFunction(KERNEL, "residual", "in0", "in1", "out", "count")
    program = pd.device("cpu").load(pd.compile(CALLS, kernels={"residual": kernel}))
    x, y = np.float32([1, 2, 3, 4]), np.float32([4, -3, 2, 1])
    np.testing.assert_array_equal(program.after_an_operation(x, y), x + 1.5 * y)
    np.testing.assert_array_equal(program.in_a_branch(True, x, y), x + 0.5 * y)
    np.testing.assert_array_equal(program.in_a_branch(False, x, y), x)
    np.testing.assert_array_equal(program.as_a_composite(x, y), x + 1.5 * y)
    x, y = x.reshape(2, 2), y.reshape(2, 2)
    np.testing.assert_array_equal(program.in_a_loop(x, y), x + 1.5 * y)
    with pytest.raises(pd.CompileError, match="there is no kernel for the custom operation 'residual'"):
        pd.compile(CALLS)


def test_a_kernel_in_place_between_operations_of_stablehlo() -> None:
    program = pd.device("cpu").load(pd.compile(INLINE, object_search_path=[FOLDER]))
    x, y = np.linspace(-2, 2, 100, dtype=np.float32), np.ones(100, np.float32)
    np.testing.assert_array_equal(program.main(x, y), -(np.abs(x) + y / 2))
    with pytest.raises(pd.CompileError, match=r"cpu/residual\.c"):
        pd.compile(INLINE)
