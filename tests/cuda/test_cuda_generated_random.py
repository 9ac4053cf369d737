"""Random programs over tensors as kernels for CUDA, on the interpreter with the search for races, against NumPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

sys.path.insert(0, str(Path(__file__).parent))
import cuda_kernels

programs = cuda_kernels.load_file(Path(__file__).parents[1] / "compiler" / "test_form_random.py", "random_programs")


@pytest.mark.parametrize("seed", range(1000, 1024))
def test_random_programs(seed: int) -> None:
    program = programs.Program(seed, dynamic=seed % 2 == 1)
    with np.errstate(over="ignore"):
        for _ in range(program.rng.randint(3, 12)):
            program.step()
    text = program.text()
    loaded: Any = pd.device("ptx-interpreter?races=1").load(pd.compile(text, targets="sm_80"))
    found = loaded.f(*[array for _, _, array in program.inputs])
    found = found if isinstance(found, tuple | list) else [found]
    for (name, _, expected), got in zip(program.results, found, strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected, err_msg=f"{name} of\n{text}")
