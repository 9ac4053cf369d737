"""The peer's compiler finds the same in the same programs with the same spec."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from pathlib import Path

import match_cases as cases
import pytest

from pydispatch.compiler.driver import pipeline

FUNCTION = """util.func private @call_square_diff(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  util.return %a : tensor<?xf32>
}"""
ACT = "\n".join(line for line in cases.ACT.splitlines() if "@kernels" not in line)
SPEC = cases.spec(FUNCTION, cases.MATCH, ACT, cases.main())
PROGRAMS = {
    "dynamic": cases.DYNAMIC,
    "static": cases.STATIC,
    "another operation": cases.DYNAMIC.replace("arith.subf", "arith.addf"),
    "other operands": cases.DYNAMIC.replace("%p, %q :", "%q, %p :"),
    "not the square": cases.DYNAMIC.replace("ins(%d, %d :", "ins(%d, %p :"),
}


@pytest.mark.peer
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_is_found(name: str, tmp_path: Path) -> None:
    folder = os.environ.get("PYDISPATCH_PEER")
    compiler = shutil.which("iree-compile", path=folder) if folder else shutil.which("iree-compile")
    if compiler is None:
        pytest.skip("iree-compile of the peer is not on PATH (pip install iree-base-compiler)")
    (tmp_path / "spec.mlir").write_text(SPEC)
    (tmp_path / "program.mlir").write_text(PROGRAMS[name])
    command = [
        compiler, "--compile-to=preprocessing", "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        f"--iree-preprocessing-transform-spec-filename={tmp_path / 'spec.mlir'}", str(tmp_path / "program.mlir"),
    ]  # fmt: skip
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = pipeline.compile_to("preprocessing", PROGRAMS[name], transform_spec=SPEC)
    assert ours.count("call @call_square_diff") == theirs.count("call @call_square_diff")
