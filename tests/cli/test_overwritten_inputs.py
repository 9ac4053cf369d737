"""Output files that are inputs of the same command: they are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main

TEXT = "func.func @f() -> i32 {\n  %c = arith.constant 3 : i32\n  return %c : i32\n}"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Write the inputs into the current folder, and return their contents by name."""
    monkeypatch.chdir(tmp_path)
    Path("f.mlir").write_text(TEXT)
    Path("text.pdx").write_text(TEXT)
    pd.compile(TEXT).save("f.pdx")
    Path("p.py").write_text("import pydispatch as pd\n")
    Path("f.c").write_text("int f;\n")
    Path("a.so").write_bytes(b"\x7fELF")
    Path("link").symlink_to("f.mlir")
    return {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "command",
    [
        "compile f.mlir -o f.mlir",
        "compile f.mlir -o ./link",
        "compile link -o f.mlir",
        "compile text.pdx",
        "compile f.mlir --compile-to=input -o f.mlir",
        "compile f.mlir --pdl-spec=a.so --output=a.so",
        "compile f.mlir --tune-plugin=a.so -o a.so",
        "fatelf join a.so -o a.so",
        "fatelf select a.so -o a.so",
        "plugin build f.c -o f.c",
        "stubgen f.pdx -o f.pdx",
        "bench f.pdx --json f.pdx",
        "bench f.pdx --compare text.pdx --json text.pdx",
        "check f.mlir --junit f.mlir",
        "check . --summary f.mlir",
    ],
)
def test_refused(command: str, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 1
    assert "which would be overwritten; name another file" in capsys.readouterr().err
    assert {name: Path(name).read_bytes() for name in files} == files


def test_other_files_are_overwritten(files: dict[str, bytes]) -> None:
    for _ in range(2):
        assert main(["compile", "f.mlir"]) == 0
    assert Path("f.pdx").read_bytes() != files["f.mlir"]
    assert main(["compile", "f.mlir", "-o", "text.pdx"]) == 0
    assert Path("f.mlir").read_bytes() == files["f.mlir"]
