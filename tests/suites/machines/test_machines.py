"""Every row of the table of machine models, and every level, through the code generation of contractions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import machine_levels  # noqa: E402
from elf_build import runner_command  # noqa: E402
from machine_works import F32, INTEGERS, check_emulated, check_here  # noqa: E402

from pydispatch.compiler.target.cpu import cpu_names  # noqa: E402

FEWER = dict.fromkeys(("sapphirerapids", "graniterapids"), "-avx512fp16,-amx-fp16,-amx-bf16,-amx-int8,-amx-tile")
"""What contractions do not need, left out so that more machines run the code."""

MATRICES = {"sapphirerapids": "-avx512fp16"}
"""With the registers that hold matrices."""


NO_INTEGERS = ("sifive-x280",)
"""QEMU 7.2 ends with an assertion of its own (decode_save_opc) in their vectors of integers."""


@pytest.mark.parametrize("cpu", machine_levels.parameters(("generic", *cpu_names("x86_64")), FEWER))
def test_here(cpu: str) -> None:
    check_here(cpu, FEWER.get(cpu, ""))


@pytest.mark.parametrize("cpu", machine_levels.parameters(MATRICES, MATRICES))
def test_with_matrix_registers(cpu: str) -> None:
    check_here(cpu, MATRICES[cpu])


@pytest.mark.parametrize(("arch", "cpu"), [(a, c) for a in ("aarch64", "riscv64") for c in ("generic", *cpu_names(a))])
def test_emulated(arch: str, cpu: str, tmp_path: Path) -> None:
    runner = runner_command(arch)
    assert runner, f"qemu-{arch}-static is not installed (apt-get install qemu-user-static)"
    check_emulated(arch, cpu, tmp_path, runner, F32 if cpu in NO_INTEGERS else (*F32, *INTEGERS))
