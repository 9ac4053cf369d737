"""Fourier transforms of any length, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.operations import fourier

RNG = np.random.default_rng(7)


def numbers(*shape: int, dtype: str = "complex64") -> np.ndarray:
    real = RNG.uniform(-1, 1, shape)
    return (real + 1j * RNG.uniform(-1, 1, shape)).astype(dtype) if dtype[0] == "c" else real.astype(dtype)


def close(found: np.ndarray, wanted: np.ndarray, dtype: str) -> None:
    epsilon = 1e-12 if dtype in ("complex128", "float64") else 4e-6
    np.testing.assert_allclose(found, wanted, rtol=epsilon, atol=epsilon * max(1.0, np.abs(wanted).max(initial=0)))


# Each small length, primes with a matrix and without, powers of two, products, a prime times a factor.
LENGTHS = (*range(1, 65), 67, 71, 73, 79, 83, 89, 97, 100, 101, 103, 107, 109, 113, 127, 128, 251, 257, 263, 514, 1000,
           1024, 1111)  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms(run, n: int, dtype: str) -> None:
    x, real = numbers(3, n, dtype=dtype), numbers(3, n, dtype={"complex64": "float32"}.get(dtype, "float64"))
    half = np.fft.rfft(real).astype(dtype)
    got = run(lambda b, x, r, h: [fourier.fft(b, x), fourier.fft(b, x, inverse=True), fourier.fft(b, r),
                                  fourier.rfft(b, r), fourier.irfft(b, h, n)], x, real, half)  # fmt: skip
    expected = [np.fft.fft(x), np.fft.ifft(x), np.fft.fft(real), np.fft.rfft(real), np.fft.irfft(half, n)]
    for found, wanted in zip(got, expected, strict=True):
        close(found, wanted, dtype)


@pytest.mark.parametrize("n", [1, 2, 5, 48])
def test_lengths_that_a_call_decides(run, n: int) -> None:
    x, real = numbers(3, n), numbers(3, n, dtype="float32")
    got = run(lambda b, x, r: [fourier.fft(b, x), fourier.fft(b, x, inverse=True), fourier.rfft(b, r),
                               fourier.irfft(b, fourier.rfft(b, r), r.shape[1])], x, real, dynamic=True)  # fmt: skip
    for found, wanted in zip(got, [np.fft.fft(x), np.fft.ifft(x), np.fft.rfft(real), real], strict=True):
        close(found, wanted, "complex64")


@pytest.mark.parametrize("shape", [(4, 6, 5), (2, 0, 5), (12,)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float64"])
def test_axes(run, shape: tuple[int, ...], dtype: str) -> None:
    x = numbers(*shape, dtype=dtype)
    axes = [axis for axis in range(len(shape)) if shape[axis]]
    got = run(lambda b, x: [fourier.fft(b, x, axis) for axis in axes], x)
    for found, axis in zip(got, axes, strict=True):
        close(found, np.fft.fft(x, axis=axis), dtype)


def test_the_imaginary_parts_of_a_real_transform_that_do_not_matter(run) -> None:
    half = numbers(2, 5)
    (got,) = run(lambda b, h: fourier.irfft(b, h, 8), half)
    close(got, np.fft.irfft(half, 8), "float32")


def test_refused(run) -> None:
    x, whole = numbers(4, 6), np.zeros((2, 3), np.int32)
    with pytest.raises(pd.CompileError, match="elements are f32, f64, c64 or c128"):
        run(lambda b, x: fourier.fft(b, x), whole)
    with pytest.raises(pd.CompileError, match=r"7 real elements along axis 1 of .* need 4 elements of a transform"):
        run(lambda b, x: fourier.irfft(b, x, 7), x)
