"""Random functions that kernels inline compute what Python does: loops, conditions and returns, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_works import check
from random_helpers import Program


def arguments(program: Program, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.random.default_rng(seed).integers(-9, 10, (2, 50))
    dtype = {"i32": np.int32, "f32": np.float32}[program.type]
    return x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("seed", range(6))
def test_on_the_cpu(seed: int) -> None:
    program = Program(seed)
    x, y = arguments(program, seed)
    found = y.copy()
    program.kernel()(x, found)
    np.testing.assert_array_equal(found, program.expected(x, y), err_msg=program.functions)


def test_on_devices() -> None:
    program = Program(100)
    x, y = arguments(program, 100)
    check(program.kernel(), (x, y), program.expected(x, y))
