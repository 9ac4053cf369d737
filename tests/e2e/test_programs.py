"""Small programs, one for each spelling and feature, against NumPy and, where they are valid there, against IREE."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import CASES, Case

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.cli.values import Reader
from pydispatch.compiler.toolchain import tools

PROGRAMS = Path(__file__).parent / "programs"
ARCH = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
FORMAT = {"x86_64": "x86_64", "aarch64": "arm_64", "riscv64": "riscv_64"}[ARCH]


def text_of(program: str) -> str:
    """A program for this machine."""
    return (PROGRAMS / f"{program}.mlir").read_text().replace("embedded-elf-x86_64", f"embedded-elf-{FORMAT}")


@cache
def artifact(program: str) -> pd.Artifact:
    return pd.compile(text_of(program), object_search_path=[PROGRAMS])


@cache
def loaded(program: str) -> pd.Program:
    return pd.device("cpu").load(artifact(program))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_numpy(case: Case) -> None:
    function = loaded(case.program)[case.function]
    kinds = [kind if rank is None else None for _, kind, rank in function.arguments]
    inputs = Reader().read_all(list(case.inputs), kinds)
    results = function(*inputs)
    expected = case.oracle(*inputs)
    if isinstance(expected, tuple) and not expected:
        assert results is None
        return
    if not isinstance(expected, tuple):
        results, expected = (results,), (expected,)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        wanted = np.asarray(wanted)
        if isinstance(result, np.ndarray):
            assert result.shape == wanted.shape
            assert result.dtype == wanted.dtype or result.dtype.kind == "V"  # bf16, which NumPy has no name for
        np.testing.assert_allclose(
            np.asarray(result, np.float64), np.asarray(wanted, np.float64), rtol=case.loose, atol=0
        )


@pytest.mark.parametrize("form", ["text", "numbers"])
def test_an_object_in_the_program_itself(form: str) -> None:
    """An inline object needs no file at all."""
    code = tools.find().compile_c(PROGRAMS / "kernels.c", arch=ARCH, cpu="generic", features=(), emit="obj")
    numbers = f'"0x{code.hex().upper()}"' if form == "text" else str([b - 256 if b > 127 else b for b in code])
    data = f"data = dense<{numbers}> : vector<{len(code)}xi8>"
    text = text_of("keys").replace('path = "kernels.c"', data)
    assert pd.device("cpu").load(pd.compile(text)).main(41) == 42


@pytest.mark.parametrize("cpu", [None, "generic", "native", ["generic", "native"]])
def test_levels_for_variants_written_by_hand(cpu: str | list[str] | None) -> None:
    artifact = pd.compile(text_of("layout_flat"), object_search_path=[PROGRAMS], cpu=cpu)
    assert len(artifact.executables[0].variants) == (len(cpu) if isinstance(cpu, list) else 1)
    a = np.arange(100, dtype=np.float32)
    assert np.array_equal(pd.device("cpu").load(artifact).main(a, a + 1), np.full(100, -1, np.float32))


def peer_tool(name: str) -> Path:
    """A tool of the peer, which is installed next to Python."""
    tool = Path(sys.executable).parent / name
    assert tool.exists(), f"{tool} is missing: pip install iree-base-compiler iree-base-runtime"
    return tool


@pytest.fixture(scope="module")
def peer_module(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles a program with the peer, once."""
    folder = tmp_path_factory.mktemp("peer")
    code = tools.find().compile_c(PROGRAMS / "kernels.c", arch=ARCH, cpu="generic", features=(), emit="obj")
    (folder / "kernels.o").write_bytes(code)

    @cache
    def build(program: str) -> Path:
        source, module = folder / f"{program}.mlir", folder / f"{program}.vmfb"
        source.write_text(text_of(program).replace("kernels.c", "kernels.o"))
        subprocess.run(
            [
                peer_tool("iree-compile"), source, "-o", module, "--iree-input-demote-f64-to-f32=false",
                f"--iree-hal-executable-object-search-path={folder}",
            ],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return module

    return build


@pytest.mark.peer
@pytest.mark.parametrize("case", [c for c in CASES if c.peer], ids=str)
def test_prints_what_the_peer_prints(
    case: Case, peer_module: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--device=local-sync", f"--function={case.function}", *(f"--input={text}" for text in case.inputs)]
    command = [peer_tool("iree-run-module"), f"--module={peer_module(case.program)}", *flags]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True)
    artifact(case.program).save(tmp_path / "program.pdx")
    assert main(["run", f"--module={tmp_path / 'program.pdx'}", *flags]) == 0
    assert capsys.readouterr().out.rstrip("\n") == theirs.stdout.rstrip("\n")
