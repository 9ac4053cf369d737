"""Versions and entry points that are read from folders, compared with `importlib.metadata`."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from pydispatch import distributions

GROUP = "pydispatch.extensions"


def install(folder: Path, name: str, version: str, points: str = "") -> Path:
    """Write the metadata of a package without modules, as installers do; return the folder that is on the path."""
    info = folder / f"{name}-{version.replace('-', '_')}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: of the text\n")
    if points:
        (info / "entry_points.txt").write_text(points)
    return folder


@pytest.mark.parametrize("name", ["numpy", "xdsl", "llvmlite", "Typing.Extensions", "not-installed-at-all"])
def test_versions(name: str) -> None:
    try:
        expected = metadata.version(name)
    except metadata.PackageNotFoundError:
        expected = None
    assert distributions.version(name) == expected


def test_version_of_the_first_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, version in (("b", "2.0+local.1"), ("a", "1.0")):
        monkeypatch.syspath_prepend(install(tmp_path / folder, "some_package", version))
    assert distributions.version("some-package") == metadata.version("some-package") == "1.0"
    monkeypatch.setattr(sys, "path", sys.path[1:])
    assert distributions.version("some-package") == metadata.version("some-package") == "2.0+local.1"


def test_version_in_a_file_of_old_installers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old_one-1.2.egg-info").write_text("Metadata-Version: 1.0\nName: old-one\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert distributions.version("old-one") == metadata.version("old-one") == "1.2"


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(install(tmp_path / "other", "other", "1", "[console_scripts]\na = b:c\n"))])
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    assert not distributions.may_have_entry_points(GROUP) and not metadata.entry_points(group=GROUP)
    sys.path.append(str(install(tmp_path / "toy", "toy", "1", f"[{GROUP}]\ntoy = toy:register\n")))
    assert distributions.may_have_entry_points(GROUP) and metadata.entry_points(group=GROUP)


def test_packages_may_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not distributions.may_have_entry_points(GROUP)
    archive = tmp_path / "modules.zip"
    archive.write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert distributions.may_have_entry_points(GROUP)

    class Finder:
        def find_distributions(self, context: object) -> list[object]:
            return []

        def find_spec(self, *args: object) -> None:
            return None

    monkeypatch.setattr(sys, "path", [str(tmp_path / "no folder")])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert distributions.may_have_entry_points(GROUP)
