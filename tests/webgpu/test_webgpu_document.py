"""The first code and the shaders of docs/webgpu.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from documents import ROOT, blocks
from webgpu_programs import source

import pydispatch as pd

KERNEL, FUNCTION = blocks("docs/webgpu.md", "wgsl")[:2]


def test_the_first_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = blocks("docs/webgpu.md", "python")[0]
    exec(code, {})
    assert code.endswith(f"# {capsys.readouterr().out}")


def test_the_kernel_and_the_function_of_the_document(tmp_path: Path) -> None:
    device = pd.device("webgpu")
    (tmp_path / "mul.wgsl").write_text(KERNEL)
    a, b = np.random.default_rng(1).random((2, 1000), np.float32)
    whole = device.load(pd.compile(source([tmp_path / "mul.wgsl"]), targets="webgpu"))
    np.testing.assert_array_equal(np.asarray(whole.mul(a, b)), a * b)
    device.add_plugin(FUNCTION.encode())
    linked = device.load(pd.compile(ROOT / "examples" / "plugin" / "program.mlir", targets="webgpu"))
    np.testing.assert_array_equal(np.asarray(linked.multiply(a, b)), a * b)
