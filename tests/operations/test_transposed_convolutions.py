"""Convolutions of images with inserted zeros, compared with NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pydispatch.operations.convolutions import Window, convolution

Array = np.ndarray[Any, Any]


def expected(x: Array, w: Array, window: Window, factors: tuple[int, int]) -> Array:
    """Convolve x, with zeros between its elements and around them, by w."""
    spread = np.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], factors, strict=True))))
    spread[:, :, :: factors[0], :: factors[1]] = x
    padded = np.pad(spread, ((0, 0), (0, 0), *zip(window.low, window.high, strict=True)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    return np.einsum("ncyxij,fcij->nfyx", windows, w)


@pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("factors", [(2, 2), (2, 3), (4, 1)])
def test_first_results_of_each_phase(run, factors: tuple[int, int], channels_last: bool) -> None:
    """Paddings shift which element of the kernel the first result reads, and how many results there are."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    w = rng.standard_normal((6, 3, 2 * factors[0], 2 * factors[1])).astype(np.float32)
    windows = [Window((1, 1), low, high, (1, 1)) for low, high in itertools.product(((0, 1), (1, 2), (3, 0)), repeat=2)]
    found = run(lambda b, *values: [
        convolution(b, *values, window, input_dilations=factors, channels_last=channels_last) for window in windows
    ], x, w)  # fmt: skip
    for result, window in zip(found, windows, strict=True):
        np.testing.assert_allclose(result, expected(x, w, window, factors), rtol=1e-4, atol=1e-5)
