"""Which file an object of a program is read from: next to the program, the search path, the working directory."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd

PROGRAM = """
stream.executable private @exe attributes {
  hal.executable.objects = [#hal.executable.object<{path = "kernels/k.c"}>]
} {
  stream.executable.export public @entry workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func private @k(memref<f32>) attributes {hal.import.static, llvm.bareptr}
    func.func @entry(%b: !stream.binding) {
      %c0 = arith.constant 0 : index
      %m = stream.binding.subspan %b[%c0] : !stream.binding -> memref<f32>
      func.call @k(%m) : (memref<f32>) -> ()
      return
    }
  }
}
func.func @f() -> tensor<f32> {
  %r = flow.dispatch @exe::@entry() : () -> tensor<f32>
  return %r : tensor<f32>
}
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `here`, the working directory, beside `program` and `path`."""
    for name in ("here", "program", "path"):
        (tmp_path / name).mkdir()
    (tmp_path / "program/p.mlir").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def kernel(folder: Path, number: int) -> None:
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / "kernels/k.c").write_text(f"void k(float* out) {{ *out = {number}; }}\n")


def value(source: str | Path, *path: Path) -> float:
    return float(np.asarray(pd.device("cpu").load(pd.compile(source, object_search_path=path)).f()))


def test_the_file_next_to_the_program_holds(folders: Path) -> None:
    for name, number in (("program", 1), ("here", 2)):
        kernel(folders / name, number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(folders / "program/p.mlir") == 1
        kernel(folders / "path", 1)  # a copy
        assert value(folders / "program/p.mlir", folders / "path", folders / "program") == 1
    kernel(folders / "path", 3)
    with pytest.raises(pd.CompileError, match=r"object file 'kernels/k\.c' is ambiguous: \S*program/kernels/k\.c a"):
        value(folders / "program/p.mlir", folders / "path")


def test_the_search_path_holds_over_the_working_directory(folders: Path) -> None:
    kernel(folders / "path", 1)
    kernel(folders / "here", 2)
    assert value(folders / "program/p.mlir", folders / "path") == 1
    assert value(PROGRAM, folders / "path") == 1
    (folders / "more").mkdir()
    kernel(folders / "more", 3)
    assert value(PROGRAM, folders / "more", folders / "path") == 3  # a search path has an order


def test_the_working_directory_is_the_last(folders: Path) -> None:
    kernel(folders / "here", 2)
    assert value(PROGRAM) == 2  # a text has no folder
    with pytest.warns(pd.CompileWarning, match=r"'kernels/k\.c' is that of the working directory, \S*here/kern"):
        assert value(folders / "program/p.mlir") == 2
    with pytest.raises(pd.CompileError, match=r"was not found[\s\S]*looked at \S*program/gone\.c, gone\.c"):
        (folders / "program/p.mlir").write_text(PROGRAM.replace("kernels/k.c", "gone.c"))
        value(folders / "program/p.mlir")
