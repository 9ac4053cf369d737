"""Contractions on every architecture, under user emulation where it is not this one's."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elf_build import runner_command

import pydispatch as pd

MACHINES = {"x86_64": "embedded-elf-x86_64", "aarch64": "embedded-elf-arm_64", "riscv64": "embedded-elf-riscv_64"}
M, N, K = 29, 37, 11
# What the factors and sums of the product are, and how they come from f32 and go back to it: the emulated runner has
# buffers of f32 only, so the conversions join the packing and what follows.
TYPES = {
    "f32": ("f32", "f32", [], "mulf", "addf", "0.0", ""),
    "f64": ("f64", "f64", ["extf f32 f64"], "mulf", "addf", "0.0", "truncf"),
    "f16": ("f32", "f32", ["truncf f32 f16", "extf f16 f32"], "mulf", "addf", "0.0", ""),
    "i8": ("i32", "i32", ["fptosi f32 i8", "extsi i8 i32"], "muli", "addi", "0", "sitofp"),
    "i64": ("i64", "i64", ["fptosi f32 i64"], "muli", "addi", "0", "sitofp"),
}


def conversions(value: str, steps: list[str]) -> tuple[str, str]:
    """(lines, the last value)."""
    lines = []
    for number, step in enumerate(steps):
        op, source, target = step.split()
        before = f"{value}{number - 1}" if number else value
        lines.append(f"{value}{number} = arith.{op} {before} : {source} to {target}")
    return "\n    ".join(lines), f"{value}{len(steps) - 1}" if steps else value


def program(type_: str) -> str:
    _, acc, steps, mul, add, zero, back = TYPES[type_]
    a, b, c, r = f"tensor<{M}x{K}xf32>", f"tensor<{K}x{N}xf32>", f"tensor<{M}x{N}x{acc}>", f"tensor<{M}x{N}xf32>"
    (first, x), (second, y) = conversions("%x", steps), conversions("%y", steps)
    targets = ", ".join(f'#hal.executable.target<"llvm-cpu", "{f}">' for f in MACHINES.values())
    end = f"%t = arith.{back} %r : {c} to {r}\n  return %t : {r}" if back else f"return %r : {c}"
    return f"""
module attributes {{hal.device.targets = [#hal.device.target<"local", [{targets}]>]}} {{
func.func @f(%a: {a}, %b: {b}) -> {r} {{
  %z = arith.constant dense<{zero}> : {c}
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : {a}, {b}) outs(%z : {c}) {{
  ^bb0(%x: f32, %y: f32, %s: {acc}):
    {first}
    {second}
    %p = arith.{mul} {x}, {y} : {acc}
    %q = arith.{add} %s, %p : {acc}
    linalg.yield %q : {acc}
  }} -> {c}
  {end}
}}
}}
"""


def spelled(array: np.ndarray[Any, Any]) -> str:
    return f"--binding={array.size}xf32=" + ",".join(str(v) for v in array.ravel().tolist())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("type_", TYPES)
def test_product(machine: str, type_: str, tmp_path: Path) -> None:
    command = runner_command(machine)
    assert command, f"qemu-{machine}-static is not installed (apt-get install qemu-user-static)"
    artifact = pd.compile(program(type_))
    (executable,) = artifact.executables
    (variant,) = [v for v in executable.variants if v.format == MACHINES[machine]]
    path = tmp_path / "f.so"
    path.write_bytes(artifact.read(variant.member))
    # Small integers: exact in every type, so whatever order sums are in gives the same.
    rng = np.random.default_rng(2)
    a, b = rng.integers(-9, 9, (M, K)), rng.integers(-9, 9, (K, N))
    done = subprocess.run(
        [*command, path, spelled(a), spelled(b), f"--binding={M * N}xf32", f"--export={executable.exports[0]}",
         "--grid=1x1x1", "--print=2"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = np.array([float(v) for v in done.stdout.rpartition("=")[2].split()]).reshape(M, N)
    np.testing.assert_array_equal(found, a @ b)
