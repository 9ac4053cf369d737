"""Which file an object of a program is read from: next to the program, the search path, the working directory."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.target.variants import inline_bytes

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


SOURCE = "void k(float* out) { *out = 7; }  "  # 34 characters: as many bytes as 17 elements of i16 have
HEX = SOURCE.encode().hex().upper()


@pytest.mark.parametrize(
    "data",
    [
        f'dense<"0x{HEX}"> : vector<34xi8>',
        f"dense<{list(SOURCE.encode())}> : vector<34xi8>",
        f'dense<"0x{HEX}"> : vector<17xi16>',
        f"dense<{[int.from_bytes(SOURCE.encode()[i : i + 2], 'little') for i in range(0, 34, 2)]}> : vector<17xi16>",
        f"{list(SOURCE.encode())}",
        f'"{SOURCE}"',
        f'"{SOURCE} // \u00e9 \u0416"',
        f'"{SOURCE} // \\C3\\A9"',
        f'dense<"0x{HEX}"> : tensor<34xui8>',
    ],
)
def test_inline_data_are_the_bytes_of_its_elements(data: str) -> None:
    program = PROGRAM.replace('path = "kernels/k.c"', f'path = "k.c", data = {data}')
    assert value(program) == 7


@pytest.mark.parametrize(("type", "expected"), [("4000xi8", b"\5" * 4000), ("2000xi16", b"\5\0" * 2000)])
def test_inline_data_of_one_repeated_element(type: str, expected: bytes) -> None:
    module = ir.parse(f"builtin.module attributes {{data = dense<5> : vector<{type}>}} {{}}")
    assert inline_bytes(module.attributes["data"], module) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[118, 258]", "object data has the element 258"),
        ("[118, -129]", "object data has the element -129"),
        ('[118, "a"]', 'object data has the element "a"'),
        ("[1.5]", "object data has the element 1.5"),
        ("dense<[1, 2]> : vector<2xi4>", "cannot read object data given as dense elements of type i4"),
        ("dense<[true, false]> : vector<2xi1>", "cannot read object data given as dense elements of type i1"),
        ("array<i8: 1, 2>", "cannot read object data given as array"),
    ],
)
def test_inline_data_without_bytes_is_refused(data: str, message: str) -> None:
    program = PROGRAM.replace('path = "kernels/k.c"', f'path = "k.c", data = {data}')
    with pytest.raises(pd.CompileError, match=message) as error:
        pd.compile(program)
    assert error.value.location is not None and error.value.note == "write dense<...> : vector<Nxi8>"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("libs.v2/scale", ""), ("a.b/K.CU", ".cu"), ("k.ptx", ".ptx"), ("k", ""), ("/x.d/lib.so.a", ".a")],
)
def test_folders_have_no_suffix(name: str, suffix: str) -> None:
    assert ObjectFile(name, b"").suffix == suffix
