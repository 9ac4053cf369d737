"""The option weight_type: constant factors of f32 products are rounded to bf16 or f16, and everything else stays."""

from __future__ import annotations

import machine_levels
import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.program.program import disassemble

RNG = np.random.default_rng(49)
W, V = RNG.standard_normal((96, 160), dtype=np.float32), RNG.standard_normal((160, 96), dtype=np.float32)
FILTER = RNG.standard_normal((3, 3, 4, 8), dtype=np.float32)
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def dense(array: np.ndarray) -> str:  # type: ignore[type-arg]
    return f'dense<"0x{array.tobytes().hex()}"> : tensor<{"x".join(map(str, array.shape))}xf32>'


TEXT = f"""
func.func @f(%x: tensor<ROWSx160xf32>, %y: tensor<ROWSx160xf32>) -> (tensor<ROWSx96xf32>, tensor<ROWSx96xf32>,
    tensor<ROWSx96xf32>, tensor<ROWSxROWSxf32>) {{
  %w = arith.constant {dense(W)}
  %v = arith.constant {dense(V)}
  %zero = arith.constant 0.0 : f32
  %a = tensor.splat %zero : tensor<ROWSx96xf32>
  %b = tensor.splat %zero : tensor<ROWSxROWSxf32>
  %p = linalg.matmul_transpose_b ins(%x, %w : tensor<ROWSx160xf32>, tensor<96x160xf32>)
      outs(%a : tensor<ROWSx96xf32>) -> tensor<ROWSx96xf32>
  %q = linalg.matmul_transpose_b ins(%y, %w : tensor<ROWSx160xf32>, tensor<96x160xf32>)
      outs(%a : tensor<ROWSx96xf32>) -> tensor<ROWSx96xf32>
  %r = linalg.matmul ins(%x, %v : tensor<ROWSx160xf32>, tensor<160x96xf32>)
      outs(%a : tensor<ROWSx96xf32>) -> tensor<ROWSx96xf32>
  %s = linalg.matmul_transpose_b ins(%x, %y : tensor<ROWSx160xf32>, tensor<ROWSx160xf32>)
      outs(%b : tensor<ROWSxROWSxf32>) -> tensor<ROWSxROWSxf32>
  return %p, %q, %r, %s : tensor<ROWSx96xf32>, tensor<ROWSx96xf32>, tensor<ROWSx96xf32>, tensor<ROWSxROWSxf32>
}}"""

CONVOLUTION = f"""
func.func @f(%x: tensor<1x8x8x4xf32>) -> tensor<1x6x6x8xf32> {{
  %w = arith.constant {dense(FILTER)}
  %zero = arith.constant 0.0 : f32
  %e = tensor.splat %zero : tensor<1x6x6x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x8x8x4xf32>, tensor<3x3x4x8xf32>)
      outs(%e : tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  return %r : tensor<1x6x6x8xf32>
}}"""


@pytest.mark.parametrize(("rows", "name"), [(1, "bf16"), (6, "f16")])
def test_constant_factors_are_rounded(rows: int, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (RNG.standard_normal((rows, 160), dtype=np.float32) for _ in range(2))
    artifact = pd.compile(TEXT.replace("ROWS", str(rows)), targets="cpu", weight_type=name, explain=True)
    assert disassemble(artifact.read("program.bin")).count("derived by function") == 2  # %w once, and %v
    sentences = [line for line in capsys.readouterr().err.splitlines() if " stays " in line]
    (sentence,) = sentences
    assert sentence.endswith(f"stays tensor<{rows}x{rows}xf32>: neither factor is a constant of f32")
    w, v = (array.astype(TYPES[name]).astype(np.float64) for array in (W, V))
    results = pd.device("cpu").load(artifact).f(x, y)
    for result, wanted in zip(results, (x @ w.T, y @ w.T, x @ v, x @ y.astype(np.float64).T), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)


MACHINES = {"generic": "", "x86-64-v4": "+avx512bf16"}


@pytest.mark.parametrize("cpu", machine_levels.parameters(MACHINES, MACHINES))
def test_both_factors_are_rounded(cpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums are f32, and those of products by constants have the same bits for any number of rows; one row by transposed
    constants is an exception (docs/contractions.md).
    """
    x, y = (RNG.standard_normal((40, 160), dtype=np.float32) for _ in range(2))
    x[0, :2], x[1, 0] = (np.inf, 1e-40), np.nan
    results = {}
    for rows in (1, 5, 40):
        text = TEXT.replace("ROWS", str(rows))
        artifact = pd.compile(text, cpu=cpu, cpu_features=MACHINES[cpu], precision="bf16", explain=True)
        results[rows] = pd.device("cpu").load(artifact).f(x[:rows], y[:rows])
    assert " stays " not in capsys.readouterr().err
    a, b, w, v = (array.astype(TYPES["bf16"]).astype(np.float64) for array in (x, y, W, V))
    for result, wanted in zip(results[40], (a @ w.T, b @ w.T, a @ v, a @ b.T), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)
    for rows, products in ((1, (2,)), (5, (0, 1, 2))):
        for product in products:
            np.testing.assert_array_equal(results[rows][product], results[40][product][:rows])


def test_convolutions_stay(capsys: pytest.CaptureFixture[str]) -> None:
    x = RNG.standard_normal((1, 8, 8, 4), dtype=np.float32)
    one, two = (pd.compile(CONVOLUTION, targets="cpu", weight_type=t, explain=t is not None) for t in ("bf16", None))
    assert "stays tensor<1x6x6x8xf32>: it is a convolution" in capsys.readouterr().err
    np.testing.assert_array_equal(*(pd.device("cpu").load(artifact).f(x) for artifact in (one, two)))


def test_other_types_are_refused() -> None:
    with pytest.raises(pd.InvalidArgumentError, match="precision: expected 'f32' or 'bf16', got 'f16'"):
        pd.compile(CONVOLUTION, precision="f16")
    with pytest.raises(pd.InvalidArgumentError, match="rounds weights to bf16, too; leave out weight_type='f16'"):
        pd.compile(CONVOLUTION, precision="bf16", weight_type="f16")
    with pytest.raises(pd.InvalidArgumentError, match="weight_type: expected 'bf16', 'f16' or None, got 'f8'"):
        pd.compile(CONVOLUTION, weight_type="f8")
