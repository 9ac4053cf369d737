"""Steps over sequences, also over none, against the same steps in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise
from pydispatch.operations.sequences import over_steps


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 3, 6])
def test_running_sums(run: Any, steps: int, backwards: bool, dynamic: bool) -> None:
    x, state = np.arange(steps * 6, dtype=np.float32).reshape(steps, 2, 3), np.ones((2, 3), np.float32)

    def write(b: Builder, x: Tensor, state: Tensor) -> list[Tensor]:
        def add(row: Tensor, states: list[Tensor]) -> list[Tensor]:
            return [elementwise.binary(b, "add", states[0], row)]

        x = b.as_shape(x, (x.shape[0], *state.shape))
        outputs, ends = over_steps(b, x, [state], add, backwards=backwards, unrolled=4)
        return [outputs, *ends]

    outputs, end = run(write, x, state, dynamic=dynamic)
    in_order = x[::-1] if backwards else x
    sums = np.cumsum(in_order, axis=0) + state
    np.testing.assert_array_equal(outputs, sums[::-1] if backwards else sums)
    np.testing.assert_array_equal(end, state + x.sum(axis=0))
