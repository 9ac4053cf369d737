"""Loads and closes leave nothing: the short form of tests/reliability/cycles.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "reliability" / "cycles.py"


@pytest.mark.parametrize("kind", ["program", "prepared", "plugin", "device", "broken"])
def test_maps_files_threads_and_memory_stay(kind: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--count", "300", "--kind", kind], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("0 failed\n"), done.stdout + done.stderr
