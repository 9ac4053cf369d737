"""The three ways of docs/match-and-replace.md, on its one example."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main as cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "match"
A = np.linspace(0, 4, 9, dtype=np.float32)
B = np.linspace(3, 1, 9, dtype=np.float32)
EXPECTED = (A - B) ** 2 + 100


def test_the_transform_way() -> None:
    artifact = pd.compile(EXAMPLE / "program.mlir", transform_spec=EXAMPLE / "spec.mlir", require_match=True)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).distance(A, B), EXPECTED, rtol=1e-6)


def test_the_pdl_way(tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    source = EXAMPLE / "plugin_kernel.c"
    subprocess.run([sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-o", library, source], check=True)
    loaded = ctypes.CDLL(str(library))
    device = pd.device("cpu")
    device.add_import("square_diff_external", ctypes.cast(loaded.square_diff_external, ctypes.c_void_p).value)
    artifact = pd.compile(EXAMPLE / "program.mlir", pdl_spec=EXAMPLE / "spec.pdl.mlir", require_match=True)
    np.testing.assert_allclose(device.load(artifact).distance(A, B), EXPECTED, rtol=1e-6)


def test_the_python_way_and_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    document = (ROOT / "docs" / "match-and-replace.md").read_text()
    commands = [line for line in document.splitlines() if line.startswith("pydispatch ")]
    assert len(commands) == 4
    for command in commands:
        words = command.split()
        words = [w if not w.endswith(".pdx") else "/dev/null" for w in words]
        assert cli(words[1:]) == 0
        if words[1] == "match":
            assert "matches arith.mulf in @distance" in capsys.readouterr().out
    from runpy import run_path

    pattern = run_path(str(EXAMPLE / "patterns.py"))["square_of_difference"]
    artifact = pd.compile(EXAMPLE / "program.mlir", patterns=[pattern], require_match=True)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).distance(A, B), EXPECTED, rtol=1e-6)
