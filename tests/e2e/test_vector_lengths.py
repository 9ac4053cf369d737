"""Code for vectors whose length only the machine knows gives the same bits on machines of every length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elf_build import runner_command
from machine_works import Emulated

SVE = [f"max,sve-max-vq={quarters}" for quarters in (1, 2, 4)]
RVV = [f"rv64,v=true,vext_spec=v1.0,vlen={bits}" for bits in (128, 256, 512)]
MACHINES = [
    ("aarch64", "neoverse-v1", "", SVE), ("aarch64", "neoverse-v2", "", SVE), ("riscv64", "generic", "+v", RVV),
    ("riscv64", "generic", "+v,+zvl256b", RVV[1:]),
]  # fmt: skip
ROWS, COLUMNS, STEPS = 5, 333, 20
X, Y, SUM = f"tensor<{ROWS}x{COLUMNS}xf32>", f"tensor<{ROWS}xf32>", f"tensor<{COLUMNS}xf32>"
W, HALVES = f"tensor<{STEPS}x{COLUMNS}xf32>", f"tensor<{ROWS}x{COLUMNS}xf16>"


def reduction(name: str, dimension: int, result: str, op: str, start: str) -> str:
    return f"""
func.func @{name}(%x: {X}) -> {result} {{
  %s = arith.constant dense<{start}> : {result}
  %r = linalg.reduce {{ {op} }} ins(%x: {X}) outs(%s: {result}) dimensions = [{dimension}]
  return %r : {result}
}}"""


PROGRAM = f"""
func.func @elements(%x: {X}) -> {X} {{
  %e = math.exp %x : {X}
  %t = math.tanh %e : {X}
  %r = arith.divf %t, %x : {X}
  return %r : {X}
}}
func.func @halves(%x: {X}) -> {X} {{
  %h = arith.truncf %x : {X} to {HALVES}
  %p = arith.mulf %h, %h : {HALVES}
  %s = arith.addf %p, %h : {HALVES}
  %f = math.fma %s, %h, %p : {HALVES}
  %q = arith.divf %f, %s : {HALVES}
  %r = arith.extf %q : {HALVES} to {X}
  return %r : {X}
}}
func.func @product(%x: tensor<{ROWS}x{STEPS}xf32>, %w: {W}) -> {X} {{
  %z = arith.constant dense<0.0> : {X}
  %r = linalg.matmul ins(%x, %w : tensor<{ROWS}x{STEPS}xf32>, {W}) outs(%z : {X}) -> {X}
  return %r : {X}
}}
{reduction("rows", 1, Y, "arith.addf", "0.0")}
{reduction("columns", 0, SUM, "arith.addf", "0.0")}
{reduction("factors", 1, Y, "arith.mulf", "1.0")}
{reduction("largest", 1, Y, "arith.maximumf", "0xFF800000")}
"""


@pytest.mark.parametrize(
    ("arch", "cpu", "features", "models"), MACHINES, ids=["SVE V1", "SVE V2", "RVV", "RVV of 256 bits"]
)
def test_the_length_of_vectors_changes_no_bit(
    arch: str, cpu: str, features: str, models: list[str], tmp_path: Path
) -> None:
    runner = runner_command(arch)
    assert runner, f"qemu-{arch}-static is not installed (apt-get install qemu-user-static)"
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 1.5, (ROWS, COLUMNS)).astype(np.float32)
    w = rng.standard_normal((STEPS, COLUMNS)).astype(np.float32)
    wide, half = x.astype(np.float64), x.astype(np.float16)
    square = half * half
    total = square + half
    fused = (total.astype(np.float64) * half + square).astype(np.float16)
    left = x[:, :STEPS]
    emulated = Emulated(PROGRAM, arch, cpu, tmp_path, runner, features)
    for name, inputs, expected, error in (
        ("elements", (x,), np.tanh(np.exp(wide)) / wide, 2e-6),
        ("halves", (x,), (fused / total).astype(np.float32), 0),
        ("product", (left, w), left.astype(np.float64) @ w, 1e-5),
        ("rows", (x,), wide.sum(1), 1e-6),
        ("columns", (x,), wide.sum(0), 1e-6),
        ("factors", (x,), wide.prod(1), 1e-4),
        ("largest", (x,), x.max(1), 0),
    ):
        first, *others = (emulated.run(name, inputs, expected.shape, model) for model in models)
        np.testing.assert_allclose(first, expected, rtol=error, atol=error, err_msg=name)
        for model, other in zip(models[1:], others, strict=True):
            assert first.tobytes() == other.tobytes(), f"{name} on {model}"
