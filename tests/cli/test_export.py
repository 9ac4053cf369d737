"""`pydispatch export --web`: what is written, and what a page cannot run. Pages themselves: tests/suites/web."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.program.opcodes import Opcode
from pydispatch.formats.web import functions, site

SCRIPT = Path(site.__file__).with_name("pydispatch.js")
WEIGHTS = np.arange(300, dtype=np.float32)
ADD = f"""
func.func @add(%a: tensor<?xf32>) -> tensor<?xf32> {{
  %w = arith.constant dense<"0x{WEIGHTS.tobytes().hex()}"> : tensor<300xf32>
  %s = tensor.cast %w : tensor<300xf32> to tensor<?xf32>
  %c = arith.addf %a, %s : tensor<?xf32>
  return %c : tensor<?xf32>
}}
"""
LOOP = """
func.func @loop(%a: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %i = tensor.extract %n[] : tensor<i32>
  %k = arith.index_cast %i : i32 to index
  %r = scf.for %j = %c0 to %k step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %y = arith.addf %x, %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""
ROOT = Path(__file__).resolve().parents[2]


def test_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.compile(ADD, targets=("cpu", "webgpu")).save(tmp_path / "p.pdx")
    folder = tmp_path / "a" / "site"
    assert main(["export", "--web", str(tmp_path / "p.pdx"), "-o", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: 4 files; ")
    program = json.loads((folder / "program.json").read_text())
    (function,) = program["functions"]
    assert (function["name"], function["arguments"][0]["shape"]) == ("add", [-1])
    (constant,) = program["constants"]
    weights = (folder / constant["file"]).read_bytes()[constant["offset"] :][: constant["bytes"]]
    assert weights == WEIGHTS.tobytes()
    (variant,) = program["executables"][0]["variants"]  # that for the CPU is left out
    (kernel,) = variant["kernels"]
    assert f"fn {kernel['entry']}(" in (folder / variant["modules"][kernel["module"]]).read_text()
    assert len(kernel["declared"]) == 3 and kernel["written"].count(True) == 1
    assert (folder / "pydispatch.js").read_bytes() == SCRIPT.read_bytes()


def test_a_loop_on_values() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^p\.pdx: @loop is a procedure \(it has loops or branches"):
        site.files(pd.compile(LOOP, targets="webgpu"), "p.pdx")


def test_functions_imported_at_load() -> None:
    artifact = pd.compile(ROOT / "examples" / "plugin" / "program.mlir", targets="webgpu")
    with pytest.raises(InvalidArgumentError, match="imports 'simple_mul_workgroup' at load; a page has no plugins"):
        site.files(artifact, "p.pdx")


def test_no_variant_for_webgpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.compile(ADD, targets="cpu").save(tmp_path / "p.pdx")
    assert main(["export", "--web", str(tmp_path / "p.pdx"), "-o", str(tmp_path / "site")]) != 0
    said = capsys.readouterr().err
    assert "has no variant for WebGPU; compile the program with --target webgpu" in said
    assert not (tmp_path / "site").exists()


def test_every_instruction_is_in_the_script() -> None:
    text = SCRIPT.read_text()
    refused = {op for op in Opcode if op in functions._FLOATS and op not in functions._PAGE_MATH} | {Opcode.CUSTOM}
    for op in Opcode:
        if op not in refused:
            name = op.name.lower()
            assert any(form in text for form in (f"'{name}'", f" {name}:", f"  {name}(")), name
