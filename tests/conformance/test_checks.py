"""Every function of every check file, on every backend. What does not work is listed here; a row that works fails."""

from __future__ import annotations

import re
from pathlib import Path

import check_files
import pytest
from backends import ALL, Backend

import pydispatch as pd

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "checks"
FILES = {path.stem: path for path in [*check_files.files(), *EXAMPLES.glob("*.mlir")]}

UNSUPPORTED: dict[tuple[str, str, str], str] = {}
"""(backend, file, function) -> what it says."""

UNWATCHED = {
    ("cuda", "linalg_idioms", "argmax_only_index_used_large"):
        "an argmax of 131,072 elements by one thread takes 12 s when each access is noted"
}  # fmt: skip
"""Functions that run without looking for data races, and why."""

SLOW = {("webgpu", "functions_f64"), ("webgpu", "linalg_elementwise", "erf")}
"""Files, and functions, that are compiled and loaded only: functions of f64 are thousands of integer operations in
WGSL, for which lavapipe's compiler takes minutes."""


@pytest.mark.parametrize("name", FILES)
def test_check_file(name: str, backend: Backend) -> None:
    artifact = pd.compile(FILES[name], targets=backend.targets)
    program = backend.open().load(artifact)
    unwatched = {function for other, file, function in UNWATCHED if (other, file) == (backend.name, name)}
    wrong = {}
    ran = [function for function, call in program.functions.items() if not call.arguments]
    is_slow = {function for function in ran if {(backend.name, name), (backend.name, name, function)} & SLOW}
    for function in (function for function in ran if function not in is_slow):
        device = pd.device(backend.device.partition("?")[0]) if function in unwatched else backend.open()
        call = device.load(artifact).functions[function] if function in unwatched else program.functions[function]
        try:
            call()
        except pd.Error as error:
            wrong[function] = f"{type(error).__name__}: {error}"
    expected = {f: said for (other, file, f), said in UNSUPPORTED.items() if (other, file) == (backend.name, name)}
    assert wrong.keys() == expected.keys(), wrong
    assert all(said in wrong[function] for function, said in expected.items()), wrong
    assert ran


def test_the_lists_name_what_is_there() -> None:
    named = UNSUPPORTED.keys() | UNWATCHED.keys()
    assert {row[1] for row in SLOW} <= set(FILES)
    assert {backend for backend, _, _ in named} <= {backend.name for backend in ALL}
    assert {file for _, file, _ in named} <= set(FILES)
    public = re.compile(r"^func\.func (?!private)@([\w.]+)\(\)", re.MULTILINE)
    functions = {(name, f) for name, path in FILES.items() for f in public.findall(path.read_text())}
    assert len(functions) > 550
    not_run = {(name, f) for name, f in functions if {("webgpu", name), ("webgpu", name, f)} & SLOW}
    assert len(not_run) <= 0.05 * len(functions)
    assert len(FILES) == len(check_files.files()) + len(list(EXAMPLES.glob("*.mlir")))
