"""Runs the tests that are closest to a change, for as long as somebody waits: `make test-changed`.

    python tests/changed.py [--seconds 25] [FILE...]      by default the files that git says are changed, or HEAD's

The order is that of DISTANCES: changed tests, and those whose data or modules are changed; what every change must keep;
tests that import a changed module, or are named like it in a folder of its name; tests of modules that import it; other
tests in a folder of its name, or named like it; and a few of everything. Among equals, tests come first whose folders
have the most names in common with those of the change. The first tests of each file run before the others. Changes in
csrc/ and _core/ also run the C tests that are built from them.

A recorded selection (pytest-testmon) was tried: it attributes what a module does on import to the first test alone, and
sees nothing of other processes, in which much of this package runs. `make test` has everything.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONVENTIONS = ("test_lists.py", "test_folder_readmes.py", "test_class_names.py", "test_variable_names.py",
               "test_docstrings.py")  # fmt: skip
"""What every change must keep; these tests take two seconds together."""
SMOKE = ("test_layers.py", "e2e/test_mixed.py", "runtime/test_runtime_call.py", "core/test_artifact.py")
FIRST = 8
"""Tests of a file that run before those of the next; a file that is further away is reached in time."""
DISTANCES = ("changed", "conventions", "imports it or has its name and folder", "imports what imports it",
             "has its folder or name", "smoke")  # fmt: skip


def changed_files() -> list[str]:
    """Return the files that git says are changed or new; those of the last commit where there are none."""
    words = ["git", "status", "--porcelain", "--untracked-files=all"]
    found = [line[3:].rpartition(" -> ")[2] for line in _lines(*words)]
    return found or _lines("git", "diff", "--name-only", "HEAD~1", "HEAD")


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return the modules of pydispatch that a file imports, and the names that it imports from them."""
    text, found = path.read_text(), set()
    for module, names in re.findall(r"^\s*from (pydispatch[\w.]*) import \(?([\w\s,]+)", text, re.MULTILINE):
        found |= {module, *(f"{module}.{name.split()[0]}" for name in names.split(",") if name.strip())}
    found.update(re.findall(r"^\s*import (pydispatch[\w.]+)", text, re.MULTILINE))
    return frozenset(found)


def module_of(path: str) -> str:
    """Return the name of the module of a file of the package."""
    name = path.replace("_core/", "pydispatch/_core/", 1) if path.startswith("_core/") else path
    return re.sub(r"(/__init__)?\.\w+$", "", name).replace("/", ".")


def ranked(changed: list[str]) -> dict[Path, int]:
    """Return the files of tests that are near to changed files, and how far each is: an index of DISTANCES.

    The nearest are first.
    """
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if "suites" not in path.parts]
    modules = {module_of(path) for path in changed if path.startswith(("pydispatch/", "_core/"))}
    users = {
        module_of(path.relative_to(ROOT).as_posix())
        for path in (ROOT / "pydispatch").rglob("*.py")
        if imports_of(path) & modules
    }
    stems = {module.rpartition(".")[2] for module in modules}
    folders = {part for path in changed for part in Path(path).parent.parts} - {"pydispatch", "tests", "csrc", "c"}
    if any(path.startswith(("csrc/", "_core/")) for path in changed):
        folders.add("core")
    found = {}
    for path in tests:
        own = path.relative_to(ROOT)
        shared = folders & set(own.parent.parts)
        words = {path.stem.removeprefix("test_"), *path.stem.split("_")[1:]}
        near = (
            own.as_posix() in changed or any(p.startswith("tests/") and _uses(path, ROOT / p) for p in changed),
            own.relative_to("tests").as_posix() in CONVENTIONS,
            bool(imports_of(path) & modules or (words & stems and shared)),
            bool(imports_of(path) & users),
            bool(shared or words & stems),
            own.relative_to("tests").as_posix() in SMOKE,
        )
        if any(near):
            found[path] = (near.index(True), -len(shared))
    return {path: found[path][0] for path in sorted(found, key=lambda path: (found[path], path))}


def _uses(path: Path, changed: Path) -> bool:
    """Whether a test imports a module of the tests, or names a file of its own folder, such as its data."""
    text, module = path.read_text(), re.escape(changed.stem)
    is_imported = changed.suffix == ".py" and re.search(rf"^(from|import) {module}\b", text, re.MULTILINE)
    return bool(is_imported or (changed.parent == path.parent and changed.name in text))


class Budget:
    """A plugin of pytest: the nearest tests first, and none after a time."""

    def __init__(self, files: dict[Path, int], seconds: float) -> None:
        self.files, self.end = files, time.monotonic() + seconds
        self.count = self.ran = self.failed = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.count, items[:] = len(items), list(self._ordered(items))

    def _ordered(self, items: list[pytest.Item]) -> Iterator[pytest.Item]:
        of_files = defaultdict(list)
        for item in items:
            of_files[item.path].append(item)
        for distance in range(len(DISTANCES)):
            chosen = [tests for path, tests in of_files.items() if self.files.get(path) == distance]
            for tests in chosen:
                yield from tests[:FIRST]
            for tests in chosen:
                yield from tests[FIRST:]

    def pytest_runtest_logfinish(self) -> None:
        self.ran += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        if time.monotonic() > self.end and self.ran < self.count:
            item.session.shouldstop = "the time is over"
        return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=25.0)
    args = parser.parse_args()
    start = time.monotonic()
    changed = [Path(name).resolve().relative_to(ROOT).as_posix() for name in args.files] or changed_files()
    code = 0
    sources = [name for name in changed if name.startswith(("csrc/", "tests/c/")) and name.endswith((".c", ".h"))]
    if sources:
        folders = sorted({Path(name).parts[-2 if name.startswith("tests") else 1] for name in sources})
        known = [name for name in folders if list((ROOT / "tests" / "c" / name).glob("test_*.c"))]
        command = [sys.executable, str(ROOT / "tests" / "c" / "run.py"), *known, "--plain", "--changed", *sources]
        code = subprocess.run(command, cwd=ROOT).returncode
    files = ranked(changed)
    for distance, words in enumerate(DISTANCES):
        print(f"{list(files.values()).count(distance):4} files of tests: {words}", flush=True)
    budget = Budget(files, args.seconds - (time.monotonic() - start))
    found = pytest.main(["-n", "0", "-p", "no:cacheprovider", *map(str, files)], plugins=[budget])
    print(f"{budget.ran} of {budget.count} tests ran; make test has the others" if budget.ran < budget.count else "")
    is_over = found == pytest.ExitCode.INTERRUPTED and budget.ran < budget.count
    return code or (0 if is_over and not budget.failed else int(found))


if __name__ == "__main__":
    sys.exit(main())
