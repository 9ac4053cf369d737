"""Ways to dispatch one multiplication, as a suite of pytest-benchmark that can be compared over time.

    pytest examples/dispatch_modes --benchmark-autosave
    pytest examples/dispatch_modes --benchmark-compare --benchmark-group-by=param:size

`pydispatch bench --modes` measures the same in turns and draws it; the kernels are in `pydispatch/bench/modes/mul.c`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.bench.modes.catalog import Mode, modes

SIZES = (64, 16_384, 1 << 22)  # elements of the vectors that are multiplied


@pytest.fixture(scope="module", params=modes(), ids=lambda mode: mode.name)
def contender(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Mode, Any, Any]:
    """Return a way to dispatch, its device (None for a direct call) and the function that multiplies two tensors."""
    try:
        return (request.param, *request.param.make(tmp_path_factory.mktemp("mode")))
    except pd.DeviceUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("size", SIZES)
def test_multiply(contender: tuple[Mode, Any, Any], size: int, dispatch_benchmark: Any) -> None:
    """Measure a product in one of the ways, and compare it with NumPy's; skip sizes that take too long."""
    mode, device, function = contender
    if size > mode.most_elements:
        pytest.skip(f"{size} elements take too long with {mode.name}")
    lhs, rhs = np.random.default_rng(size).uniform(-1, 1, (2, size)).astype(np.float32)
    product = dispatch_benchmark(function, lhs, rhs, device=device, items=size)
    assert np.array_equal(product, lhs * rhs)
