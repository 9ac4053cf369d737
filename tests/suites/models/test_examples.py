"""The examples with frameworks of this suite: each compares its program with the framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "models"


@pytest.mark.parametrize("example", ["resnet50.py", "bert.py"])
@pytest.mark.parametrize("options", [["--small"], []], ids=["small", "whole"])
def test_example(example: str, options: list[str]) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / example, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest difference" in done.stdout
