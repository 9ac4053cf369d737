"""The kernels of examples/python_kernels, on every device, and on random shapes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
import typecheck
from hypothesis import given
from hypothesis import strategies as st
from kernel_works import DEVICES, EXAMPLES, example

import pydispatch as pd


@pytest.mark.parametrize(("name", "kernels"), [("kernels", 7), ("tiles", 4)])
@pytest.mark.parametrize("device", [*DEVICES, "cpu?checks=1"])
def test_the_examples(name: str, kernels: int, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    example(name).main(device)
    assert capsys.readouterr().out.count(f"right on {device}") == kernels


def test_the_examples_are_typed() -> None:
    found = typecheck.check(*EXAMPLES.glob("*.py"))
    assert "Success" in found, found


SIZES = st.integers(0, 300)


@given(st.integers(1, 40), st.integers(1, 150), st.integers(0, 2**32 - 1))
def test_softmax(rows: int, columns: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32) * 8
    y = np.full_like(x, np.nan)
    example().softmax(x, y)
    powers = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=2e-5, atol=1e-7)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_matmul(m: int, k: int, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.standard_normal((m, k)).astype(np.float32), random.standard_normal((k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    example().matmul(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 40000), st.integers(0, 2**32 - 1))
def test_histogram(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-3, 260, n).astype(np.int32)
    counts = np.zeros(256, np.int32)
    example().histogram(x, counts)
    np.testing.assert_array_equal(counts, np.bincount(x[(x >= 0) & (x < 256)], minlength=256))


@given(SIZES, st.floats(-4, 4, width=32), st.integers(0, 2**32 - 1))
def test_saxpy_in_place(n: int, a: float, seed: int) -> None:
    x, y = np.random.default_rng(seed).standard_normal((2, n)).astype(np.float32)
    expected = np.float32(a) * x + y
    place = y.ctypes.data
    example().saxpy(a, x, y)
    assert y.ctypes.data == place
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", DEVICES)
def test_arrays_and_buffers_without_elements(name: str) -> None:
    device, empty = pd.device(name), np.zeros(0, np.float32)
    buffer = device.upload(empty)
    example().saxpy(2.0, buffer, buffer)
    example().saxpy(2.0, buffer, empty)
    assert buffer.download().shape == (0,)


def test_arrays_that_cannot_be_written_or_have_another_rank() -> None:
    x = np.ones((3, 4), np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    softmax = example().softmax
    for _ in range(2):  # the first call compiles the kernel
        with pytest.raises(pd.InvalidArgumentError) as caught:
            softmax(x, np.ones((4, 3), np.float32).T)
        assert "writes 'y', which is not contiguous; pass a copy, c = y.copy(), and copy it back" in str(caught.value)
        with pytest.raises(pd.InvalidArgumentError, match=r"'y', which is read-only; pass a copy, c = y\.copy\(\)$"):
            softmax(x, frozen)
        with pytest.raises(pd.InvalidArgumentError, match=r"argument 1 'y': .*got rank 1.*; reshape it to 2 sizes if"):
            softmax(x, np.ones(12, np.float32))
        softmax(x, x.copy())


def test_an_array_that_is_read_and_written() -> None:
    x = np.arange(100, dtype=np.float32)
    example().saxpy(2.0, x, x)
    np.testing.assert_array_equal(x, 3 * np.arange(100, dtype=np.float32))


def test_a_compiled_kernel_returns_what_it_writes() -> None:
    program = pd.device("cpu").load(pd.compile(example().swish))
    x, y = np.linspace(-3, 3, 50, dtype=np.float32), np.zeros(50, np.float32)
    result = program.swish(x, y, 2.0)
    np.testing.assert_allclose(result, x / (1 + np.exp(-2 * x)), rtol=1e-5)
    assert not y.any()


def test_the_grid_of_a_call() -> None:
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    example().saxpy[1](1.0, x, y)  # a workgroup of 512
    np.testing.assert_array_equal(y, np.arange(1000) < 512)

    @pd.program
    def launched(x: Annotated[np.ndarray, pd.f32[8]]) -> Any:
        y = np.zeros_like(x)
        example().saxpy[()](1.0, x, y)
        return y

    for grid in ((), (1, 1, 1, 1), (-1,), (1.5,)):
        with pytest.raises(pd.InvalidArgumentError, match="'saxpy': grid: expected one to three numbers of workgroups"):
            example().saxpy[grid](1.0, x, y)
    with pytest.raises(pd.InvalidArgumentError, match=r"grid: expected one to three numbers of workgroups, got \(\)"):
        launched(x[:8])


def test_sizes_that_differ() -> None:
    with pytest.raises(pd.InvalidArgumentError, match="'n' is 3 in dimension 0 of 'x' and 4 in dimension 0 of 'y'"):
        example().saxpy(1.0, np.zeros(3, np.float32), np.zeros(4, np.float32))
    with pytest.raises(pd.InvalidArgumentError, match="float64"):
        example().saxpy(1.0, np.zeros(3), np.zeros(3, np.float32))
    with pytest.raises(pd.InvalidArgumentError, match=r"kernel 'saxpy' takes 3 arguments \(a, x, y\), got 2"):
        example().saxpy(1.0, np.zeros(3, np.float32))
    read_only = np.zeros(3, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(pd.InvalidArgumentError, match="'y', which is read-only"):
        example().saxpy(1.0, np.zeros(3, np.float32), read_only)


def test_views_that_are_not_contiguous() -> None:
    x, whole = np.arange(8, dtype=np.float32), np.zeros((8, 2), np.float32)
    calls: list[Any] = []
    try:
        example().saxpy(1.0, x, whole[:, 1])
    except pd.InvalidArgumentError as error:
        calls.append(error)
    assert calls or np.array_equal(whole[:, 1], x)
