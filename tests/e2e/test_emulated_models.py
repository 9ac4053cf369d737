"""Contractions are right for machine models that choose differently; `make test-machines` has the whole table."""

from __future__ import annotations

from pathlib import Path

import machine_levels
import numpy as np
import pytest
from elf_build import runner_command
from machine_works import EVERYTHING, F32, GENERIC, INTEGERS, Emulated, Work, check_emulated, check_here


@pytest.mark.parametrize("cpu", machine_levels.parameters(("native", "haswell", "cascadelake")))
def test_here(cpu: str) -> None:
    check_here(cpu)


@pytest.mark.parametrize(("arch", "cpu", "works"), [
    ("aarch64", "neoverse-n1", F32[:5]), ("aarch64", "neoverse-v1", INTEGERS[1:5]), ("riscv64", "sifive-u74", F32[:5]),
    ("riscv64", "sifive-x280", F32[:5]),
])  # fmt: skip
def test_emulated(arch: str, cpu: str, works: tuple[Work, ...], tmp_path: Path) -> None:
    runner = runner_command(arch)
    assert runner, f"qemu-{arch}-static is not installed (apt-get install qemu-user-static)"
    check_emulated(arch, cpu, tmp_path, runner, works)


@pytest.mark.parametrize(("signs", "op"), [("ss", "linalg.matmul"), ("su", GENERIC)])
def test_constant_bytes_of_arm(signs: str, op: str, tmp_path: Path) -> None:
    """A constant lies in panels of 32 columns, with the eight steps of K side by side that one instruction takes."""
    runner = runner_command("aarch64")
    assert runner, "qemu-aarch64-static is not installed (apt-get install qemu-user-static)"
    m, k, n = 13, 64, 64
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    expected = a.astype(np.int32) @ b.view(np.uint8 if signs[1] == "u" else np.int8).astype(np.int32)
    text = Work("f", op, ((m, k), (k, n), (m, n)), "mk,kn->mn", "i8", signs=signs).text
    weights = f"tensor<{k}x{n}xi8>"
    constant = f'%b = arith.constant dense<"0x{b.tobytes().hex()}"> : {weights}'
    text = text.replace(f", %b: {weights}", "").replace("  %zero =", f"  {constant}\n  %zero =", 1)
    emulated = Emulated(text, "aarch64", "neoverse-v1", tmp_path, runner)
    panels = np.ascontiguousarray(b.reshape(k // 8, 8, n // 32, 32).transpose(2, 0, 3, 1))
    np.testing.assert_array_equal(emulated.run("f", [a, panels], (m, n), EVERYTHING["aarch64"]), expected)
