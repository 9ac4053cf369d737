"""What frontends compose of many operations, on every backend."""

from __future__ import annotations

import numpy as np
from backends import Backend

from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import dtype_of_numpy
from pydispatch.operations import fourier, linear

RNG = np.random.default_rng(3)


def complex_numbers(*shape: int) -> np.ndarray:
    return (RNG.uniform(-1, 1, shape) + 1j * RNG.uniform(-1, 1, shape)).astype(np.complex64)


def test_transforms_and_factorizations(backend: Backend) -> None:
    x = RNG.standard_normal((2, 5, 5)).astype(np.float32)
    arrays = {"a": x @ x.transpose(0, 2, 1) + 5 * np.eye(5, dtype=np.float32), "y": x[..., :3],
              "product": complex_numbers(3, 100), "prime": complex_numbers(2, 263)}  # fmt: skip
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    b = Builder("composed")
    a, y, product, prime = b.begin([Input(name, dtype_of_numpy(v), v.shape) for name, v in arrays.items()])
    made = [linear.cholesky(b, a), linear.triangular_solve(b, a, y), fourier.fft(b, product), fourier.fft(b, prime)]
    b.finish("main", {f"r{n}": tensor for n, tensor in enumerate(made)})
    found = backend.load(b.module).main(*arrays.values())
    wanted = [np.linalg.cholesky(arrays["a"]), np.linalg.solve(np.tril(arrays["a"]), arrays["y"]),
              np.fft.fft(arrays["product"]), np.fft.fft(arrays["prime"])]  # fmt: skip
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-4, atol=1e-4)
