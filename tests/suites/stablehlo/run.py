"""Runs all rows of tests/frontends/stablehlo/test_every_operation.py, of which `make test` runs a part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

if __name__ == "__main__":
    words = [sys.executable, "-m", "pytest", "-n", "2", "tests/frontends/stablehlo/test_every_operation.py"]
    sys.exit(subprocess.run(words, cwd=ROOT, env={**os.environ, "PYDISPATCH_EVERY_ROW": "1"}).returncode)
