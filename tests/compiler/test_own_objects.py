"""Symbols that an object of our own needs, against another reader of ELF files."""

import io
import subprocess
from pathlib import Path

import pytest

from pydispatch.compiler.toolchain import objects

SOURCE = "extern float f(float), g(float); extern int t[]; float h(float x) { return f(x) + g(x) + (float)t[1]; }"


@pytest.mark.parametrize("source", [SOURCE, "int alone(int x) { return x + 1; }"])
def test_undefined_symbols(tmp_path: Path, source: str) -> None:
    elffile = pytest.importorskip("elftools.elf.elffile")
    (tmp_path / "a.c").write_text(source)
    subprocess.run(["cc", "-c", "-O1", "-fno-pic", "a.c"], cwd=tmp_path, check=True)
    data = (tmp_path / "a.o").read_bytes()
    symbols = elffile.ELFFile(io.BytesIO(data)).get_section_by_name(".symtab").iter_symbols()
    expected = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name}
    assert objects.undefined_symbols([data]) == expected
    assert expected == ({"f", "g", "t"} if source is SOURCE else set())
