"""The code of a kernel does not depend on the order of Python's sets, which another process hashes in another way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pydispatch as pd

Matrix = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel(workgroup=(8, 8), grid=lambda x, y: (pd.cdiv(x.shape[1], 8), pd.cdiv(x.shape[0], 8)))
def blurred(x: Matrix, y: Matrix) -> None:
    """Values of six names cross a barrier, some as formulas and some in memory; a loop has two exits."""
    tile = pd.shared((8, 8), pd.f32)
    row, column = pd.local_id(1), pd.local_id(0)
    first, second = pd.group_id(1) * 8 + row, pd.group_id(0) * 8 + column
    left, above = x[first, second], x[second, first]
    tile[row, column] = left + above
    pd.barrier()
    total = pd.f32(0)
    for k in range(8):
        if tile[row, k] < 0:
            continue
        if tile[k, column] > 9:
            break
        total += tile[row, k] * left + above
    y[first, second] = total


def test_code_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", "from test_same_code import blurred; print(blurred.mlir())"]
    codes = set()
    for seed in range(4):
        variables = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(command, env=variables, cwd=Path(__file__).parent, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        codes.add(run.stdout)
    assert len(codes) == 1
