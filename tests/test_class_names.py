"""Names of classes say which one is meant: none occurs twice in a folder, nor in several folders below the compiler."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "pydispatch"
UNIQUE = ("bench", "cli", "formats", "ir", "link")
"""Folders whose names occur in one of their folders alone; a dialect names operations, types and attributes itself."""
DIALECT_NAMES = ("Op", "Type", "ComparisonDirection", "Precision")
NOT_RENAMED = frozenset((
    ("compiler/kernels/matmul/windows", "_Workgroup"),
    ("frontends/onnx", "Tracer"), ("operations", "Grid"), ("runtime/accelerators", "Linked"),
    ("runtime/accelerators", "_Repeated"),
))  # fmt: skip
"""Names that files of one folder still share."""


@cache
def classes_of(path: Path) -> tuple[str, ...]:
    """Return the names of the classes that a file defines, without those in functions and classes."""
    return tuple(node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))


def names_of(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the files that define each class."""
    names: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        for name in classes_of(path):
            names[name].append(path)
    return names


def repeated(names: Mapping[str, list[Path]]) -> dict[str, list[Path]]:
    return {name: paths for name, paths in names.items() if len(paths) > 1}


def test_no_class_name_occurs_twice_in_a_folder() -> None:
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    found = {
        (folder.relative_to(PACKAGE).as_posix(), name)
        for folder in folders
        for name in repeated(names_of(folder.glob("*.py")))
    }
    assert found <= NOT_RENAMED, f"rename one of each: {sorted(found - NOT_RENAMED)}"


def test_no_class_name_occurs_in_several_folders_below_the_compiler() -> None:
    paths = [path for folder in UNIQUE for path in sorted((PACKAGE / folder).rglob("*.py"))]
    found = {
        name: [str(path.relative_to(PACKAGE)) for path in paths]
        for name, paths in repeated(names_of(paths)).items()
        if not (name.endswith(DIALECT_NAMES) and all("dialects" in path.parts for path in paths))
    }
    assert found == {}, "rename all but one of each"


def test_repeated_names_are_seen(tmp_path: Path) -> None:
    for stem, name in (("one", "Reader"), ("two", "Reader"), ("three", "Writer")):
        (tmp_path / f"{stem}.py").write_text(f"class {name}: pass\n")
    assert repeated(names_of(tmp_path.glob("*.py"))).keys() == {"Reader"}


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by their names alone, and would refuse the second one in a run of both."""
    tests = PACKAGE.parent / "tests"
    paths = [path for path in sorted(tests.rglob("test_*.py")) if "suites" not in path.parts]
    files = repeated({path.stem: [p for p in paths if p.stem == path.stem] for path in paths})
    assert files == {}, "rename all but one of each; names with the folder's subject in them are unique"
