"""`pydispatch compile`: the file, the phases, and every intermediate in a folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.cli.__main__ import main

MIXED = Path(__file__).resolve().parents[2] / "examples" / "mixed"
SOURCE = str(MIXED / "program.mlir")
MACHINES = {"x86_64": "X86-64", "arm_64": "AArch64", "riscv_64": "RISC-V"}


def test_dump_writes_every_intermediate(tmp_path: Path) -> None:
    """Text that parses again, LLVM IR before and after, assembly, the object and the ELF that is in the artifact."""
    dump, output = tmp_path / "new" / "dump", tmp_path / "mixed.pdx"
    assert main(["compile", SOURCE, "-o", str(output), f"--dump={dump}"]) == 0
    for phase in ("input", "preprocessing", "dispatches", "executables"):
        ir.parse((dump / f"module.{phase}.mlir").read_text())
    assert "@mixed_invocation" in (dump / "program.txt").read_text()
    artifact = pd.Artifact.from_file(output)
    assert len(artifact.executables) == 2
    for executable in artifact.executables:
        for short, machine in MACHINES.items():
            stem = f"{executable.name}_embedded_elf_{short}"
            assert "define" in (dump / f"{stem}.ll").read_text()
            assert "define" in (dump / f"{stem}.optimized.ll").read_text()
            assert "iree_hal_executable_library_query:" in (dump / f"{stem}.s").read_text()
            for suffix, kind in ((".o", "REL"), (".so", "DYN")):
                header = subprocess.run(
                    ["readelf", "-h", str(dump / f"{stem}{suffix}")], capture_output=True, text=True, check=True
                ).stdout
                assert machine in header and kind in header
            member = artifact.read(f"executables/{executable.name}/embedded_elf_{short}.so")
            assert (dump / f"{stem}.so").read_bytes() == member


@pytest.mark.parametrize("phase", ["input", "preprocessing", "dispatches", "executables", "flow"])
def test_compile_to_prints_a_program(phase: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", SOURCE, f"--compile-to={phase}"]) == 0
    text = capsys.readouterr().out
    module = ir.parse(text)
    assert module.is_structurally_equivalent(ir.parse(ir.print_module(module)))
    # The addition between the hand-written kernels is one of the program's operations until it is outlined.
    assert ("flow.dispatch @mixed_invocation_dispatch_0" in text) == (phase not in ("input", "preprocessing"))


def test_an_unknown_phase_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", SOURCE, "--compile-to=nonsense"]) != 0
    error = capsys.readouterr().err
    assert "'nonsense'" in error and "dispatches" in error


def test_the_name_of_the_file_comes_from_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("program.mlir", "functions.c"):
        shutil.copy(MIXED / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["compile", "program.mlir"]) == 0
    a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
    assert pd.device("cpu").load(tmp_path / "program.pdx").mixed_invocation(a, b).tolist() == [96.0] * 8
