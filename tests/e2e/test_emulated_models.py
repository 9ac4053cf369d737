"""Contractions are right for machine models that choose differently; `make test-machines` has the whole table."""

from __future__ import annotations

from pathlib import Path

import machine_levels
import pytest
from elf_build import runner_command
from machine_works import F32, check_emulated, check_here


@pytest.mark.parametrize("cpu", machine_levels.parameters(("native", "haswell", "cascadelake")))
def test_here(cpu: str) -> None:
    check_here(cpu)


@pytest.mark.parametrize(("arch", "cpu"), [
    ("aarch64", "neoverse-n1"), ("riscv64", "sifive-u74"), ("riscv64", "sifive-x280"),
])  # fmt: skip
def test_emulated(arch: str, cpu: str, tmp_path: Path) -> None:
    runner = runner_command(arch)
    assert runner, f"qemu-{arch}-static is not installed (apt-get install qemu-user-static)"
    check_emulated(arch, cpu, tmp_path, runner, F32[:4])
