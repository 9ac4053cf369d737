"""The rooms of docs/architecture.md and the direction of their arrows: imports, cimports and includes are walked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What each folder of csrc may include, besides itself and the public headers.
C_ROOMS = {
    "base": set(),
    "platform": {"base"},
    "elf": {"base", "platform"},
    "artifact": {"base", "platform"},
    "imports": {"base"},
    "executable": {"base"},
    "memory": {"base", "platform"},
    "fatelf": {"base"},
    "plugin": {"base", "platform"},
    "sched": {"base", "platform"},
    "program": {"base"},
    "process": {"base", "platform"},
    "api": {"base"},
}

# What each room of the package may import.
PYTHON_ROOMS = {
    "pydispatch.errors": {"pydispatch._core"},
    "pydispatch.files": {"pydispatch.errors"},
    "pydispatch.packages": {"pydispatch.errors"},
    "pydispatch.formats": {"pydispatch._core", "pydispatch.errors", "pydispatch.files"},
    "pydispatch.ir": {"pydispatch.errors"},
    "pydispatch.patterns": {"pydispatch.errors", "pydispatch.files"},
    "pydispatch.compiler": {
        "pydispatch._core", "pydispatch.errors", "pydispatch.files", "pydispatch.packages", "pydispatch.formats",
        "pydispatch.ir", "pydispatch.patterns",
    },
    "pydispatch.runtime": {
        "pydispatch._core", "pydispatch.errors", "pydispatch.files", "pydispatch.packages", "pydispatch.formats",
    },
}

PYTHON_FILES = sorted((ROOT / "pydispatch").rglob("*.py"))
C_FILES = sorted(p for p in (ROOT / "csrc").rglob("*.[ch]"))


def imports_of(path: Path) -> set[str]:
    """The modules of pydispatch that a file imports anywhere, lazily too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            if node.module == "pydispatch":
                found |= {f"pydispatch.{a.name}" for a in node.names}
    return {name for name in found if name.startswith("pydispatch.")}


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_the_walk_sees_files() -> None:
    assert len(PYTHON_FILES) > 30
    assert len(C_FILES) > 30
    assert set(C_ROOMS) == {p.name for p in (ROOT / "csrc").iterdir() if p.is_dir() and p.name != "include"}


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_imports_follow_the_arrows(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    room = room_of(module)
    if room not in PYTHON_ROOMS:  # __init__ and cli may use everything
        assert room in ("pydispatch.__init__", "pydispatch.cli"), f"{module} belongs to no room"
        return
    for name in imports_of(path):
        target = room_of(name)
        assert target == room or target in PYTHON_ROOMS[room], f"{module} imports {name}"


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_c_includes_follow_the_arrows(path: Path) -> None:
    room = path.relative_to(ROOT / "csrc").parts[0]
    for include in re.findall(r'#\s*include\s+["<]([^">]+)[">]', path.read_text()):
        assert include != "Python.h", f"{path} includes Python.h"
        folder = include.split("/")[0]
        if "/" not in include or folder in ("pydispatch", "sys", "linux", "asm", room):
            continue
        assert room != "include", f"the public header {path.name} includes {include}"
        if folder in C_ROOMS:
            assert folder in C_ROOMS[room], f"csrc/{room} includes {include}"


def test_core_imports_nothing_above_it() -> None:
    for path in (ROOT / "_core").glob("*.p[yx][xd]"):
        for name in re.findall(r"^\s*(?:from|cimport|import)\s+(pydispatch[\w.]*)", path.read_text(), re.M):
            assert name.startswith("pydispatch._core"), f"{path.name} imports {name}"


def test_importing_the_package_loads_neither_compiler_nor_gpu() -> None:
    code = (
        "import sys, pydispatch\n"
        "heavy = {'xdsl', 'llvmlite', 'elftools', 'vulkan', 'cuda', 'wgpu', 'pydispatch.compiler', 'pydispatch.ir'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
