"""Wheels are built where the home folder cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import manylinux
import pytest


def test_zig_has_a_cache_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file, in which no folder can be made")
    for name in ("ZIG_GLOBAL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYDISPATCH_CACHE_DIR", str(tmp_path / "own"))
    machine = os.uname().machine
    variables = manylinux.environment(machine, tmp_path / "cc")
    assert variables["ZIG_GLOBAL_CACHE_DIR"] == str(tmp_path / "own" / "zig")
    assert variables["CC"] == str(tmp_path / "cc") and variables["_PYTHON_HOST_PLATFORM"] == f"linux-{machine}"
