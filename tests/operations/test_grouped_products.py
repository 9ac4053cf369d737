"""Products by groups, compared with NumPy."""

from __future__ import annotations

import numpy as np

from pydispatch.graph.dtypes import F32
from pydispatch.operations import grouped


def test_elements_in_no_group_are_left_out(run) -> None:
    x, y = np.random.default_rng(2).standard_normal((2, 4, 7)).astype(np.float32)
    x[:, 5:] = y[:, 5:] = np.nan
    x[1, 0], y[2, 4] = np.nan, np.inf
    (sums,) = run(lambda b, *values: grouped.by_groups_of_sums(b, *values, F32), x, y.T, np.array([2, 2, 5], np.int32))
    expected = [x[:, :2] @ y.T[:2], np.zeros((4, 4)), x[:, 2:5] @ y.T[2:5]]
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-6)
