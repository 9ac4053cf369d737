"""What debuggers and profilers see of loaded code."""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elf_build import Builder, without_sections
from elftools.elf.elffile import ELFFile
from pydispatch._core import elf

pytestmark = pytest.mark.skipif(elf.host_machine() != "x86_64", reason="builds and runs x86_64 code")

SOURCE = """
int probe_value = 3;
int probe_function(int a) { return *(volatile int *)0 + a; }
int probe_add(int a) { return a + 1; }
__attribute__((noinline)) static int probe_hidden(int a) { return a * a + probe_value; }
int probe_calls(int a) { return probe_hidden(a) + 1; }
"""


class Entry(ctypes.Structure):
    """struct jit_code_entry of gdb's manual."""


Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("previous", ctypes.POINTER(Entry)), ("data", ctypes.c_void_p),
                  ("size", ctypes.c_uint64)]  # fmt: skip


class Descriptor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("relevant", ctypes.POINTER(Entry)),
                ("first", ctypes.POINTER(Entry))]  # fmt: skip


def announced() -> list[ELFFile]:
    """The files that a debugger would find now."""
    descriptor = Descriptor.in_dll(ctypes.CDLL(elf.__file__), "__jit_debug_descriptor")
    assert descriptor.version == 1
    files, entry = [], descriptor.first
    while entry:
        files.append(ELFFile(io.BytesIO(ctypes.string_at(entry[0].data, entry[0].size))))
        entry = entry[0].next
    return files


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = Builder(tmp_path_factory.mktemp("elf"))
    return build.link(build.object(SOURCE))


def test_symbols_are_announced(library: Path) -> None:
    data = library.read_bytes()
    before = len(announced())
    modules = [elf.Module(data, f"module {i}") for i in range(3)]
    files = announced()
    assert len(files) == before + 3
    for file, module in zip(files, reversed(modules), strict=False):
        assert file["e_machine"] == "EM_X86_64"
        text = file.get_section_by_name(".text")
        assert text["sh_addr"] <= module.symbol("probe_function") < text["sh_addr"] + text["sh_size"]
        table = {s.name: s for s in file.get_section_by_name(".symtab").iter_symbols()}
        for name, kind in (("probe_function", "STT_FUNC"), ("probe_add", "STT_FUNC"), ("probe_value", "STT_OBJECT")):
            assert table[name]["st_value"] == module.symbol(name)
            assert table[name]["st_info"]["type"] == kind
            assert table[name]["st_size"] > 0
        assert module.symbol("probe_hidden") is None
    modules[1].close()
    modules[0].close()
    assert text_of(announced()[0]) == text_of(files[0])
    assert len(announced()) == before + 1
    modules[2].close()
    assert len(announced()) == before


def test_unexported_functions_are_announced(library: Path) -> None:
    data = library.read_bytes()
    for file, expected in ((data, True), (without_sections(data), False)):
        with elf.Module(file):
            names = {s.name for s in announced()[0].get_section_by_name(".symtab").iter_symbols()}
        assert ("probe_hidden" in names) == expected and "probe_calls" in names


def text_of(file: ELFFile) -> int:
    return file.get_section_by_name(".text")["sh_addr"]


SCRIPT = """
import ctypes, os, sys
from pydispatch._core import elf
module = elf.Module(open(sys.argv[1], "rb").read(), "probe module")
print(os.getpid(), module.symbol("probe_function"), module.symbol("probe_add"), flush=True)
if "crash" in sys.argv: ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(module.symbol("probe_function"))(1)
"""


@pytest.mark.parametrize("value", ["1", "0", None])
def test_perf_map(library: Path, value: str | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYDISPATCH_PERF_MAP"}
    if value is not None:
        environment["PYDISPATCH_PERF_MAP"] = value
    command = [sys.executable, "-c", SCRIPT, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    pid, function, add = map(int, done.stdout.split())
    path = Path(f"/tmp/perf-{pid}.map")
    if value != "1":
        assert not path.exists()
        return
    rows = [line.split(" ") for line in path.read_text().splitlines()]
    path.unlink()
    assert {(int(a, 16), name) for a, _, name in rows} >= {(function, "probe_function"), (add, "probe_add")}
    assert sorted(name for _, _, name in rows) == ["probe_add", "probe_calls", "probe_function", "probe_hidden"]
    assert all(int(size, 16) > 0 for _, size, _ in rows)


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_gdb_names_the_frame(library: Path) -> None:
    done = subprocess.run(
        ["gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "run", "-ex", "bt 2", "--args",
         sys.executable, "-c", SCRIPT, str(library), "crash"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if "ptrace: Operation not permitted" in done.stderr:
        pytest.skip("this container forbids ptrace")
    assert "SIGSEGV" in done.stdout, done.stdout + done.stderr
    assert " in probe_function ()" in done.stdout, done.stdout + done.stderr
