"""The check files: `pydispatch check` runs each of their functions, and those that a script writes are as it writes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import write_checks

FILES = sorted(write_checks.FOLDER.rglob("*.mlir"))


def test_every_function_passes() -> None:
    tests = sum(len(re.findall(r"^func\.func (?!private)@[\w.]+\(\)", p.read_text(), re.MULTILINE)) for p in FILES)
    assert tests > 550
    words = [sys.executable, "-m", "pydispatch.cli", "check", *map(str, FILES), "--device=cpu?workers=2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    wrong = "\n".join(line for line in done.stdout.splitlines() if not line.startswith("ok "))
    assert wrong == f"{tests} passed, 0 failed", wrong + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("name", write_checks.FILES)
def test_files_are_as_written(name: str) -> None:
    found = (write_checks.FOLDER / f"{name}.mlir").read_text()
    assert found == write_checks.text_of(name), "run python tests/ops/write_checks.py"
