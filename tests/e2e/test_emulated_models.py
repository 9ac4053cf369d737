"""Contractions are right for machine models that choose differently; `make test-machines` has the whole table."""

from __future__ import annotations

from pathlib import Path

import machine_levels
import pytest
from elf_build import runner_command
from machine_works import F32, INTEGERS, Work, check_emulated, check_here


@pytest.mark.parametrize("cpu", machine_levels.parameters(("native", "haswell", "cascadelake")))
def test_here(cpu: str) -> None:
    check_here(cpu)


@pytest.mark.parametrize(("arch", "cpu", "works"), [
    ("aarch64", "neoverse-n1", F32[:5]), ("aarch64", "neoverse-v1", INTEGERS[1:3]), ("riscv64", "sifive-u74", F32[:5]),
    ("riscv64", "sifive-x280", F32[:5]),
])  # fmt: skip
def test_emulated(arch: str, cpu: str, works: tuple[Work, ...], tmp_path: Path) -> None:
    runner = runner_command(arch)
    assert runner, f"qemu-{arch}-static is not installed (apt-get install qemu-user-static)"
    check_emulated(arch, cpu, tmp_path, runner, works)
