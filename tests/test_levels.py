"""PYDISPATCH_TEST_CPU changes what the tests compile for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import machine_levels
import pytest

import pydispatch as pd

TEXT = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""


def test_what_is_generic_is_for_the_level() -> None:
    level = os.environ.get("PYDISPATCH_TEST_CPU", "")
    requires = {f for e in pd.compile(TEXT, cpu="generic").executables for v in e.variants for f in v.requires}
    assert ("avx512f" in requires) == (level == "x86-64-v4")
    assert ("avx2" in requires) == (level in ("x86-64-v3", "x86-64-v4"))
    assert ("sse4.2" in requires) == (level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"))


@pytest.mark.parametrize("level", machine_levels.parameters(machine_levels.X86_64))
def test_each_level(level: str) -> None:
    """This file's first test, as `make test-levels` runs it."""
    first = f"{__file__}::test_what_is_generic_is_for_the_level"
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", first]
    environment = {**os.environ, "PYDISPATCH_TEST_CPU": level}
    done = subprocess.run(words, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_level_that_does_not_run_here_is_refused() -> None:
    environment = {**os.environ, "PYDISPATCH_TEST_CPU": "x86-64-v5"}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", __file__]
    done = subprocess.run(words, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and "x86-64-v5" in done.stdout + done.stderr
