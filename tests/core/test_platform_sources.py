"""Which files of csrc each system is built from: one per subject, its own where it has one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[2] / "csrc"
sys.path.insert(0, str(CSRC))
from sources import SUFFIXES, sources  # noqa: E402

FOLDERS = sorted(p for p in CSRC.iterdir() if any(p.glob("*.c")))


def subject(path: Path) -> Path:
    stem, _, suffix = path.stem.rpartition("_")
    return path.with_name(stem if suffix in SUFFIXES else path.stem)


@pytest.mark.parametrize("system", ["linux", "macos", "windows", "generic"])
def test_every_subject_has_one_file(system: str) -> None:
    for folder in FOLDERS:
        counts = Counter(map(subject, sources(folder, system)))
        assert counts == dict.fromkeys(map(subject, folder.rglob("*.c")), 1), folder


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("linux", {"thread_linux.c", "pages_linux.c", "mem_linux.c", "cpu_linux.c", "cpu_x86.c", "cpu_features.c"}),
        ("macos", {"thread_generic.c", "pages_generic.c", "mem_macos.c", "cpu_generic.c", "cpu_arm64.c"}),
        ("windows", {"thread_generic.c", "pages_generic.c", "mem_windows.c", "cpu_windows.c", "cpu_arm64.c"}),
        ("generic", {"thread_generic.c", "pages_generic.c", "mem_generic.c", "dl_generic.c", "file_generic.c"}),
    ],
)
def test_own_files_come_first(system: str, expected: set[str]) -> None:
    names = {path.name for path in sources(CSRC / "platform", system)}
    assert expected <= names
    assert not any(name.endswith(f"_{other}.c") for name in names for other in SUFFIXES - {system, "generic"})


def test_a_subject_nobody_serves_is_left_out(tmp_path: Path) -> None:
    for name in ("a.c", "b_linux.c", "c_windows.c", "c_generic.c", "d_x.c"):
        (tmp_path / name).touch()
    assert [p.name for p in sources(tmp_path, "macos")] == ["a.c", "c_generic.c", "d_x.c"]
    assert [p.name for p in sources(tmp_path, "windows")] == ["a.c", "c_windows.c", "d_x.c"]


@pytest.mark.parametrize(
    ("file", "macros"),
    [
        ("cpu_riscv.c", []),  # an architecture whose features are not listed
        ("cpu_riscv.c", ["-D__riscv=1", "-D__riscv_xlen=64"]),
        ("cpu_arm64.c", ["-D__aarch64__=1"]),
    ],
)
def test_features_that_no_system_reports_compile(file: str, macros: list[str]) -> None:
    host = ["-U__linux__", "-U__x86_64__", "-U__aarch64__", "-U__riscv"]
    command = [os.environ.get("CC", "gcc"), "-std=c11", "-ffreestanding", "-fsyntax-only", "-Wall", "-Wextra",
               "-Werror", *host, *macros, f"-I{CSRC}", f"-I{CSRC / 'include'}", f"{CSRC}/platform/{file}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
