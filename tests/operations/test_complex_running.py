"""Running sums and products of complex numbers, and their logarithms to bases, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import scans

NAMES = {"add": np.add, "mul": np.multiply}


def numbers(*shape: int) -> np.ndarray:
    random = np.random.default_rng(3)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(np.complex64)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("exclusive", "backwards"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_running_results(run, name: str, exclusive: bool, backwards: bool, dynamic: bool) -> None:
    def running(b: Builder, x: Tensor) -> Tensor:
        return scans.cumulative(b, name, x, 1, exclusive, backwards)

    for size in (5, 1, 0):
        x = numbers(2, size, 3)
        step = -1 if backwards else 1
        expected = NAMES[name].accumulate(x[:, ::step], axis=1)
        if exclusive:
            first = np.full((2, 1, 3), NAMES[name].identity, np.complex64)
            expected = np.concatenate([first, expected], axis=1)[:, :size]
        (result,) = run(running, x, dynamic=dynamic)
        np.testing.assert_allclose(result, expected[:, ::step], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "base"), [("log2", 2), ("log10", 10)])
def test_logarithms(run, name: str, base: int) -> None:
    z = np.append(numbers(20), np.array([1, -8, 1e30, 1 + 1e-6j], np.complex64))
    (result,) = run(lambda b, x: ew.unary(b, name, x), z)
    np.testing.assert_allclose(result, np.log(z.astype(np.complex128)) / np.log(base), rtol=1e-6)
