"""Random kernels over tiles compute what NumPy does: variables, loops, conditions, stores, products, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_works import check
from random_tiles import Program


def arguments(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    numbers = np.random.default_rng(seed)
    x, y = (numbers.integers(-3, 4, numbers.integers(6, 15, 2)).astype(np.float32) for _ in range(2))
    return x, y, int(numbers.integers(-1, 3))


@pytest.mark.parametrize("seed", range(4))
def test_on_the_cpu(seed: int) -> None:
    program, (x, y, c) = Program(seed), arguments(seed)
    found = y.copy()
    program.kernel()(x, found, c)
    np.testing.assert_array_equal(found, program.expected(x, y, c), err_msg="\n".join(program.lines))


def test_on_devices() -> None:
    program, (x, y, c) = Program(100), arguments(100)
    kernel = program.kernel()
    check(kernel, (x, y, c), program.expected(x, y, c))
