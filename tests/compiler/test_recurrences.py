"""What becomes of recurrences and of updates in order: dispatches, loops and copies."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd

SCAN = """func.func @f(%x: tensor<{rows}x{columns}xf32>, %z: tensor<{rest}xf32>) -> tensor<{rows}x{columns}xf32> {{
  %two = arith.constant dense<2.0> : tensor<{rows}x{columns}xf32>
  %y = arith.mulf %x, %two : tensor<{rows}x{columns}xf32>
  %s:2 = iree_linalg_ext.scan dimension({along}) inclusive(true) ins(%y : tensor<{rows}x{columns}xf32>)
      outs(%x, %z : tensor<{rows}x{columns}xf32>, tensor<{rest}xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %r = arith.subf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  }} -> tensor<{rows}x{columns}xf32>, tensor<{rest}xf32>
  %w = arith.addf %s#0, %two : tensor<{rows}x{columns}xf32>
  return %w : tensor<{rows}x{columns}xf32>
}}"""


def dumped(text: str, folder: Path, pattern: str) -> str:
    """What compiling writes into the files of a name."""
    pd.compile(text, targets="cpu", dump=str(folder))
    return "\n".join(path.read_text() for path in sorted(folder.glob(pattern)))


@pytest.mark.parametrize("along", [0, 1])
def test_what_comes_before_is_fused_and_what_follows_is_not(along: int, tmp_path: Path) -> None:
    text = SCAN.format(rows=50, columns=70, rest=[70, 50][along], along=along)
    program = dumped(text, tmp_path, "program.txt")
    assert [line.split("@")[-1].split(":")[0] for line in program.splitlines() if line.startswith("export")] == [
        "f_dispatch_0_recurrence_50x70xf32", "f_dispatch_1_addf_50x70xf32"
    ]  # fmt: skip
    x = np.random.default_rng(1).integers(0, 9, (50, 70)).astype(np.float32)
    z = np.zeros([70, 50][along], np.float32)
    expected = np.moveaxis(np.subtract.accumulate(np.moveaxis(x * 2, along, 0)), 0, along) + 2
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text))["f"](x, z), expected)


def test_rows_side_by_side_are_vectors(tmp_path: Path) -> None:
    text = SCAN.format(rows=50, columns=70, rest=70, along=0)
    pd.compile(text, targets="cpu", cpu="x86-64-v3", dump=str(tmp_path))
    code = "\n".join(path.read_text() for path in tmp_path.glob("*f_dispatch_0*.optimized.ll"))
    assert re.search(r"fsub <\d+ x float>", code)


def test_a_merge_chooses_without_branches(tmp_path: Path) -> None:
    text = """func.func @f(%x: tensor<5000xf32>) -> tensor<5000xf32> {
      %s = iree_linalg_ext.sort dimension(0) outs(%x : tensor<5000xf32>) {
      ^bb0(%a: f32, %b: f32):
        %r = arith.cmpf olt, %a, %b : f32
        iree_linalg_ext.yield %r : i1
      } -> tensor<5000xf32>
      return %s : tensor<5000xf32>
    }"""
    assert "!unpredictable" in dumped(text, tmp_path, "*.optimized.ll")


@pytest.mark.parametrize("source, copies", [("%x", 1), ("%y", 0), ("%z", 0)])
def test_an_update_is_made_where_its_destination_lies(source: str, copies: int, tmp_path: Path) -> None:
    text = f"""func.func @f(%x: tensor<90x64xf32>, %u: tensor<5x64xf32>, %i: tensor<5x1xi32>) -> tensor<90x64xf32> {{
      %y = arith.addf %x, %x : tensor<90x64xf32>
      %z = arith.constant dense<0.0> : tensor<90x64xf32>
      %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
          ins(%u, %i : tensor<5x64xf32>, tensor<5x1xi32>) outs({source} : tensor<90x64xf32>) {{
      ^bb0(%a: f32, %b: f32):
        %r = arith.addf %a, %b : f32
        iree_linalg_ext.yield %r : f32
      }} -> tensor<90x64xf32>
      return %s : tensor<90x64xf32>
    }}"""
    assert dumped(text, tmp_path, "program.txt").count(": copy ") == copies
