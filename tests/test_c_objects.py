"""C tests without sanitizers use the objects that setup.py has compiled, and only those that are up to date."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

RUN = Path(__file__).parent / "c" / "run.py"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return tests/c/run.py for a checkout with one file, its header and their object."""
    spec = importlib.util.spec_from_file_location("c_runner", RUN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "BUILD", tmp_path / "build" / "ctest")
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "build" / "objects" / "plain")
    for name, age in (("setup.py", 3), ("csrc/a.c", 3), ("csrc/a.h", 3), ("build/objects/plain/csrc/a.o", 2)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#include "a.h"\n' if name.endswith(".c") else "")
        set_age(path, age)
    return module


def set_age(path: Path, age: int) -> None:
    os.utime(path, (1e9 - age, 1e9 - age))


def test_an_object_of_the_package_is_used(runner: ModuleType) -> None:
    source = runner.ROOT / "csrc" / "a.c"
    found = runner.object_of(source, "plain")
    assert found == runner.PACKAGE / "csrc" / "a.o"
    assert runner.compile_object(source, "plain") == ""
    assert runner.object_of(source, "generic") == found, "it has no macro of that mode"
    assert runner.object_of(source, "asan") == runner.BUILD / "asan" / "obj" / "csrc" / "a.o"


@pytest.mark.parametrize("newer", ["csrc/a.c", "csrc/a.h", "setup.py", ""])
def test_other_objects_are_not(runner: ModuleType, newer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if newer:
        set_age(runner.ROOT / newer, 1)
    else:
        monkeypatch.setenv("CC", "clang")  # which the package is not compiled with
    assert runner.object_of(runner.ROOT / "csrc" / "a.c", "plain") == runner.BUILD / "plain" / "obj" / "csrc" / "a.o"


def test_modes_of_macros_share_the_objects_of_files_without_them(runner: ModuleType) -> None:
    source, header = runner.ROOT / "csrc" / "a.c", runner.ROOT / "csrc" / "a.h"
    assert [runner.shared_mode(source, mode) for mode in ("generic", "extended")] == ["plain", "asan"]
    for text, modes in (
        ("#ifdef PYD_PLATFORM_GENERIC\n#endif", ["generic", "asan"]),
        ("PYD_MORE_COMMANDS(X)", ["plain", "extended"]),
    ):
        header.write_text(text)
        runner.shared_mode.cache_clear()
        assert [runner.shared_mode(source, mode) for mode in ("generic", "extended")] == modes
