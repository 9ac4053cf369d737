"""Objects that stay between runs of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import kept_objects
import pytest


def linked(tmp_path: Path, name: str) -> Path | None:
    """Return where the objects of a run are kept, or None for a run that keeps none."""
    (tmp_path / name).mkdir()
    kept_objects.link(tmp_path / name, [tmp_path / "sources"], tmp_path / "kept")
    objects = tmp_path / name / "objects"
    return objects.resolve() if objects.exists() else None


@pytest.fixture(autouse=True)
def sources(tmp_path: Path) -> Path:
    (tmp_path / "sources" / "folder").mkdir(parents=True)
    source = tmp_path / "sources" / "folder" / "file.py"
    source.write_text("a = 1\n")
    return source


def test_a_change_to_the_sources_compiles_everything_again(tmp_path: Path, sources: Path) -> None:
    first = linked(tmp_path, "first")
    (sources.parent / "file.pyc").write_bytes(b"bytecode")
    assert first is not None and linked(tmp_path, "second") == first
    sources.write_text("a = 2\n")
    other = linked(tmp_path, "third")
    assert other is not None and other != first and first.is_dir()


def test_objects_that_no_run_uses_are_removed(tmp_path: Path, sources: Path) -> None:
    first = linked(tmp_path, "first")
    assert first is not None
    os.utime(first, (0, 0))
    assert linked(tmp_path, "second") == first  # it is in use again
    os.utime(first, (0, 0))
    sources.write_text("a = 2\n")
    assert linked(tmp_path, "third") != first and not first.exists()


def test_without_a_place_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where the folder would be")
    assert linked(tmp_path, "first") is None
