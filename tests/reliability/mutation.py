"""Mutation testing: small faults put into modules of the package, one at a time, and whether the tests notice each.

    python tests/reliability/mutation.py [--seed 12] [--mutants 40] [--jobs 1] [--root CHECKOUT] [--draw N] [--sampled]
                                         [MODULE.py TEST.py ...]

Without a module it takes those of SAMPLE; with --draw so many modules that the seed chooses, each with the tests that
are nearest to it. --sampled runs only those cases of these tests that `make test` runs today, and so shows what its
sample misses. A mutant is killed when a test fails, or runs five times as long as before. No file changes: each run of
the tests compiles the module from a changed syntax tree (this file is the plugin of pytest that does so). Prints each
mutant that survived, then one JSON object: module -> killed and all.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = {
    "pydispatch/runtime/devices/cuda/steps.py": [
        *(f"tests/cuda/test_cuda_device_{name}.py" for name in ("driver", "calls", "errors", "interop")),
        *(f"tests/devices/test_device_{name}.py" for name in ("calls", "kernels")),
    ],
    "pydispatch/compiler/outline/form.py": [
        *(f"tests/compiler/test_{name}.py" for name in ("fusion", "form", "form_programs", "regions")),
        "tests/e2e/test_grids.py",
    ],
    "pydispatch/runtime/simulators/ptx/instructions/loads.py": [
        f"tests/ptx/test_ptx_engine_{name}.py" for name in ("memory", "kernels", "races", "matrices")
    ],
}
"""Modules of 100 to 300 lines that `random.Random(12).sample` took, and the tests that are about them."""

FILES = 16
"""Test files of a module that was drawn, at most. With fewer, faults pass that `make test` notices; each that passes
takes the time of all of them."""

MUTANT = "PYDISPATCH_MUTANT"
"""Environment of a run: the checkout, the file in it, and the number of the fault among those that `faults` gives."""

_OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotations, no assertions, nothing for type checkers."""
    yield node
    if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _code(child)


def faults(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """Where a fault can be made, and which."""
    found: list[tuple[ast.AST, str]] = []
    for node in _code(tree):
        match node:
            case ast.Compare(ops=[op]) | ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _OTHER:
                found.append((node, f"{type(op).__name__} becomes {_OTHER[type(op)].__name__}"))
            case ast.Constant(value=bool() | int()):
                found.append((node, f"{node.value} becomes {_changed(node.value)}"))
            case ast.UnaryOp(op=ast.Not()):
                found.append((node, "no `not`"))
            case ast.If() | ast.While() | ast.IfExp():
                found += [(node, "the condition is true"), (node, "the condition is false")]
            case ast.Return(value=ast.AST()):
                found.append((node, "returns None"))
            case ast.Raise() | ast.Expr(value=ast.Call()) | ast.AugAssign():
                found.append((node, "is left out"))
    return found


def _changed(value: Any) -> Any:
    return not value if isinstance(value, bool) else value + 1


def _put(node: Any, fault: str) -> ast.AST:
    """The node with the fault."""
    if fault == "is left out":
        return ast.Pass()
    if fault == "no `not`":
        return node.operand  # type: ignore[no-any-return]
    if fault == "returns None":
        node.value = None
    elif fault.startswith("the condition"):
        node.test = ast.Constant(fault.endswith("true"))
    elif isinstance(node, ast.Constant):
        node.value = _changed(node.value)
    elif isinstance(node, ast.Compare):
        node.ops = [_OTHER[type(node.ops[0])]()]
    else:
        node.op = _OTHER[type(node.op)]()
    return node  # type: ignore[no-any-return]


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return ast.copy_location(self.new, node) if node is self.old else self.generic_visit(node)


def mutant(text: str, number: int) -> ast.Module:
    """The syntax tree of a module with one fault."""
    tree = ast.parse(text)
    node, fault = faults(tree)[number]
    return ast.fix_missing_locations(_Replace(node, _put(copy.copy(node), fault)).visit(tree))  # type: ignore[no-any-return]


# -- in the process of the tests


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module with its fault."""

    def __init__(self, root: str, file: str, number: str) -> None:
        self.path, self.number = Path(root, file), int(number)
        self.name = ".".join(Path(file).with_suffix("").parts)

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def get_filename(self, name: str) -> str:
        return str(self.path)

    def get_data(self, path: str) -> bytes:
        return self.path.read_bytes()

    def get_code(self, name: str) -> Any:
        return compile(mutant(self.path.read_text(), self.number), str(self.path), "exec")


if MUTANT in os.environ:
    sys.meta_path.insert(0, _Finder(*os.environ[MUTANT].split(os.pathsep)))


# -- in the process that counts


def passes(root: Path, module: str, tests: Sequence[str], number: int | None, limit: float) -> bool:
    """Whether all tests pass; not within `limit` seconds counts as a failure."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    if number is not None:
        environment[MUTANT] = os.pathsep.join((str(root), module, str(number)))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "mutation", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def run(root: Path, module: str, tests: Sequence[str], seed: int, count: int, jobs: int) -> dict[str, int]:
    """Runs the tests on a sample of the mutants of a module."""
    text = (root / module).read_text()
    places = faults(ast.parse(text))
    chosen = sorted(random.Random(seed).sample(range(len(places)), min(count, len(places))))
    start = time.monotonic()
    if not passes(root, module, tests, None, 3600):
        raise SystemExit(f"{module}: its tests fail without any fault: {' '.join(tests)}")
    limit = 30 + 5 * (time.monotonic() - start)
    lines, survived = text.splitlines(), 0
    with ThreadPoolExecutor(jobs) as pool:
        alive = pool.map(lambda number: passes(root, module, tests, number, limit), chosen)
        for number in (number for number, each in zip(chosen, alive, strict=True) if each):
            survived += 1
            node, fault = places[number]
            line = getattr(node, "lineno", 1)
            print(f"{module}:{line}: survived ({number}): {fault}\n    {lines[line - 1].strip()}", flush=True)
    return {"killed": len(chosen) - survived, "of": len(chosen), "possible": len(places)}


def drawn(root: Path, count: int, seed: int) -> dict[str, list[str]]:
    """Return modules of 100 to 300 lines that the seed chooses, with the tests nearest to each."""
    paths = sorted((root / "pydispatch").rglob("*.py"))
    names = [
        path.relative_to(root).as_posix()
        for path in paths
        if path.stem != "__init__" and 100 <= path.read_text().count("\n") <= 300
    ]
    chosen: dict[str, list[str]] = {}
    for name in random.Random(seed).sample(names, len(names)):
        tests = nearest(name)
        if tests and len(chosen) < count:
            chosen[name] = tests
    return chosen


def nearest(module: str) -> list[str]:
    """Return the tests that import a module or have its name, then those of its innermost folder that tests have.

    A module without tests of the first kind has none. A folder with more than FILES is about too much.
    """
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    import changed

    folders = Path(module).parent.parts
    distances = {path.relative_to(ROOT / "tests"): distance for path, distance in changed.ranked([module]).items()}
    named = sorted((distance, path) for path, distance in distances.items() if distance <= 1)
    depths = {
        path: max((folders.index(part) for part in path.parts if part in folders), default=0) for path in distances
    }
    innermost = max(depths.values(), default=0)
    of_folder = sorted(path for path, depth in depths.items() if depth == innermost > 0)
    paths = dict.fromkeys(path for _, path in named)
    if named and len(of_folder) <= FILES:
        paths |= dict.fromkeys(of_folder)
    return [f"tests/{path.as_posix()}" for path in paths][:FILES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="a module and its tests")
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout of the project, this one by default")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="so many modules that the seed chooses")
    parser.add_argument("--sampled", action="store_true", help="only the cases that `make test` runs today")
    args = parser.parse_args()
    if args.sampled:
        os.environ["PYDISPATCH_TEST_SAMPLED"] = "1"
    found: dict[str, dict[str, int]] = {}
    chosen = {args.paths[0]: args.paths[1:]} if args.paths else SAMPLE
    for module, tests in (drawn(args.root.resolve(), args.draw, args.seed) if args.draw else chosen).items():
        found[module] = run(args.root.resolve(), module, tests, args.seed, args.mutants, args.jobs)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
