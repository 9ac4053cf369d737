"""Which files of csrc each system is built from: one per subject, its own where it has one."""

from __future__ import annotations

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
