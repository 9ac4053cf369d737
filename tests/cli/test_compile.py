"""`pydispatch compile`: the file, the phases, and every intermediate in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def test_compile_to_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all constants, so that it is a program again; what has no constants cannot be parsed, and says why."""
    data = np.random.default_rng(0).bytes(4000)
    source, whole, short = (tmp_path / name for name in ("a.mlir", "whole.mlir", "short.mlir"))
    source.write_text(f"""func.func @f(%a: tensor<1000xf32>) -> tensor<1000xf32> {{
      %c = arith.constant dense<"0x{data.hex().upper()}"> : tensor<1000xf32>
      %r = arith.addf %a, %c : tensor<1000xf32>
      return %r : tensor<1000xf32>
    }}""")
    assert main(["compile", str(source), "--compile-to=input", "-o", str(whole)]) == 0
    assert capsys.readouterr().out == ""
    assert ir.print_module(ir.parse(whole.read_text())) == ir.print_module(ir.parse(source.read_text()))
    assert main(["compile", str(source), "--compile-to=input", "--elide-constants=3999", "-o", str(short)]) == 0
    assert "dense_resource<__elided__> : tensor<1000xf32>" in short.read_text()
    assert main(["compile", str(short)]) == 1
    assert "write the program with all its constants" in capsys.readouterr().err
    assert main(["compile", str(source), "--compile-to=input", "--elide-constants=4000", "-o", "-"]) == 0
    assert capsys.readouterr().out == whole.read_text()
    assert main(["compile", str(source), "--compile-to=input", "--elide-constants=-1"]) == 1
    assert "--elide-constants=-1: expected 0 or more bytes" in capsys.readouterr().err


def test_dumps_leave_large_constants_out(tmp_path: Path) -> None:
    values = np.random.default_rng(0).bytes(1 << 15).hex()
    text = f"""func.func @f(%a: tensor<8192xf32>) -> tensor<8192xf32> {{
      %c = arith.constant dense<"0x{values}"> : tensor<8192xf32>
      %r = arith.addf %a, %c : tensor<8192xf32>
      return %r : tensor<8192xf32>
    }}"""
    pd.compile(text, dump=tmp_path)
    assert "__elided__" in (tmp_path / "module.input.mlir").read_text()
    assert len((tmp_path / "module.input.mlir").read_text()) < 1000


def test_dumps_of_any_symbol_are_files_of_the_folder(tmp_path: Path) -> None:
    text = """func.func @"../f/g"(%a: tensor<4xf32>) -> tensor<4xf32> {
      %r = math.tanh %a : tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    folder = tmp_path / "dump"
    pd.compile(text, targets="cpu", dump=folder)
    assert list(tmp_path.iterdir()) == [folder]
    names = sorted(path.name for path in folder.iterdir() if path.suffix == ".so")
    assert names and all(name.startswith("..%2Ff%2Fg_dispatch_0") for name in names)


@pytest.mark.parametrize(
    ("arguments", "calls_earlier_handlers"), [(["compile"], False), (["run", "--function=f"], True)]
)
def test_only_commands_without_devices_skip_exit_handlers(
    arguments: list[str], calls_earlier_handlers: bool, tmp_path: Path
) -> None:
    """Devices load libraries of users, whose handlers have to run; a compilation ends without freeing its objects."""
    (tmp_path / "f.mlir").write_text("func.func @f() -> i32 {\n  %c = arith.constant 3 : i32\n  return %c : i32\n}")
    command = [arguments[0], "f.mlir", *arguments[1:], *(["-o", "f.pdx"] if arguments[0] == "compile" else [])]
    script = (
        "import atexit, sys\n"
        "from pydispatch.cli.__main__ import process\n"
        "atexit.register(lambda: print('handlers'))\n"
        f"sys.argv = ['pydispatch', *{command!r}]\n"
        "sys.exit(process())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYDISPATCH_CHECK"}  # it loads devices
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ("handlers" in done.stdout) == calls_earlier_handlers
