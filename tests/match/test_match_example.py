"""The three ways of docs/match-and-replace.md, on its one example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from documents import commands

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
    plugin = str(tmp_path / "square.sos")
    assert cli(["plugin", "build", str(EXAMPLE / "plugin_kernel.c"), "-o", plugin]) == 0
    device = pd.device("cpu")
    device.add_plugin(plugin)
    artifact = pd.compile(EXAMPLE / "program.mlir", pdl_spec=EXAMPLE / "spec.pdl.mlir", require_match=True)
    np.testing.assert_allclose(device.load(artifact).distance(A, B), EXPECTED, rtol=1e-6)


def test_the_python_way_and_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    documented = commands("docs/match-and-replace.md")
    assert len(documented) == 7
    for words in documented:
        assert cli(words[1:]) == 0
        if words[1] == "run":
            assert "4xf32=101 101 101 101" in capsys.readouterr().out
        if words[1] == "match":
            assert "matches arith.mulf in @distance" in capsys.readouterr().out
    from runpy import run_path

    pattern = run_path(str(EXAMPLE / "patterns.py"))["square_of_difference"]
    artifact = pd.compile(EXAMPLE / "program.mlir", patterns=[pattern], require_match=True)
    np.testing.assert_allclose(pd.device("cpu").load(artifact).distance(A, B), EXPECTED, rtol=1e-6)
