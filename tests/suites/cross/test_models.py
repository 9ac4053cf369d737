"""Contractions and math compiled for what a model has, run on that model under user emulation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "core")]
from elf_build import runner_command  # noqa: E402
from test_contract_cross import MACHINES, TYPES, K, M, N, program, spelled  # noqa: E402

import pydispatch as pd  # noqa: E402

# (architecture, model of the emulator, CPU that is compiled for, features)
MODELS = [
    ("x86_64", "qemu64", "x86-64", ""),
    ("x86_64", "Nehalem", "x86-64-v2", ""),
    ("x86_64", "Haswell", "x86-64-v3", ""),
    ("aarch64", "cortex-a53", "generic", ""),
    ("aarch64", "cortex-a72", "cortex-a72", ""),
    ("aarch64", "neoverse-n1", "neoverse-n1", ""),
    ("aarch64", "max", "generic", "+dotprod,+i8mm"),
    ("riscv64", "rv64,v=true,vext_spec=v1.0,vlen=128", "generic", "+v"),
    ("riscv64", "rv64,v=true,vext_spec=v1.0,vlen=512", "generic", "+v"),
]
MATH = """
func.func @f(%x: tensor<999xf32>) -> tensor<999xf32> {
  %a = math.exp %x : tensor<999xf32>
  %b = math.tanh %x : tensor<999xf32>
  %c = arith.mulf %a, %b : tensor<999xf32>
  %d = math.sin %c : tensor<999xf32>
  return %d : tensor<999xf32>
}
"""


def run(arch: str, model: str, artifact: pd.Artifact, folder: Path, *arguments: str) -> np.ndarray:
    """The last binding of the one dispatch of an artifact."""
    (executable,) = artifact.executables
    (variant,) = executable.variants
    assert variant.format == MACHINES[arch]
    path = folder / "f.so"
    path.write_bytes(artifact.read(variant.member))
    command = runner_command(arch)
    assert command
    emulator = shutil.which(f"qemu-{arch}-static")
    assert emulator
    which = [f"--export={executable.exports[0]}", "--grid=1x1x1", f"--print={len(arguments) - 1}"]
    words = [emulator, command[-1], str(path), *arguments, *which]
    done = subprocess.run(words, env={**os.environ, "QEMU_CPU": model}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return np.array([float(v) for v in done.stdout.rpartition("=")[2].split()])


# QEMU 7.2 ends with an assertion of its own (decode_save_opc) in vector code for integers, so those are left out.
CASES = [(*row, type_) for row in MODELS for type_ in TYPES if not (row[3] == "+v" and type_.startswith("i"))]


@pytest.mark.parametrize(("arch", "model", "cpu", "features", "type_"), CASES)
def test_products(arch: str, model: str, cpu: str, features: str, type_: str, tmp_path: Path) -> None:
    artifact = pd.compile(program(type_), targets=arch, cpu=cpu, cpu_features=features)
    rng = np.random.default_rng(3)
    a, b = rng.integers(-9, 9, (M, K)), rng.integers(-9, 9, (K, N))
    found = run(arch, model, artifact, tmp_path, spelled(a), spelled(b), f"--binding={M * N}xf32")
    np.testing.assert_array_equal(found.reshape(M, N), a @ b)


@pytest.mark.parametrize(("arch", "model", "cpu", "features"), MODELS)
def test_math(arch: str, model: str, cpu: str, features: str, tmp_path: Path) -> None:
    artifact = pd.compile(MATH, targets=arch, cpu=cpu, cpu_features=features)
    x = np.linspace(-3, 3, 999, dtype=np.float32)
    found = run(arch, model, artifact, tmp_path, spelled(x), "--binding=999xf32")
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found, np.sin(np.exp(wide) * np.tanh(wide)), rtol=2e-5, atol=2e-5)
