"""Ranges whose step only the call knows, and grids that compare sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd

Rows = Annotated[pd.View, pd.f32["m", "n"]]
ForThreads = Annotated[pd.View, pd.f32["m", "threads"]]
Vector = Annotated[pd.View, pd.f32["m"]]
Other = Annotated[pd.View, pd.f32["n"]]
I32 = Annotated[int, pd.i32]


@pd.kernel(workgroup=32, grid=3)
def sums(x: Rows, y: Vector) -> None:
    """Three workgroups take turns with the rows."""
    for row in range(pd.group_id(0), x.shape[0], pd.grid_size(0)):
        part = 0.0
        for j in range(pd.local_id(0), x.shape[1], pd.group_size(0)):
            part += x[row, j]
        total = pd.group_sum(part)
        if pd.local_id(0) == 0:
            y[row] = total


@pd.kernel(workgroup=1, grid=1)
def numbers(first: I32, end: I32, step: I32, least: I32, y: Vector) -> None:
    """The numbers of a range, by a loop that is left where there is no room, and the sum of those above a limit."""
    k = 0
    for i in range(first, end, step):
        if k == y.shape[0] - 1:
            break
        y[k] = pd.f32(i)
        k += 1  # noqa: SIM113  (kernels have no enumerate)
    total = pd.i64(0)
    for i in range(first, end, step):
        if i < least:
            continue
        total += pd.i64(i)
    y[y.shape[0] - 1] = pd.f32(total)


RANGES = [(0, 10, 3), (10, 0, -3), (0, 10, -1), (10, 0, 1), (5, 5, 1), (3, 100, 2), (-7, 9, 4), (7, -9, -4)]


@pytest.mark.parametrize("name", DEVICES)
def test_steps_that_only_the_call_knows(name: str) -> None:
    device = pd.device(name)
    x = np.random.default_rng(0).standard_normal((20, 70)).astype(np.float32)
    y = device.upload(np.zeros(20, np.float32))
    sums(device.upload(x), y)
    np.testing.assert_allclose(np.asarray(y), x.sum(1), atol=1e-4)
    for first, end, step in RANGES:
        made = device.upload(np.full(20, -99, np.float32))
        numbers(first, end, step, 2, made)
        expected = list(range(first, end, step))
        found = np.asarray(made)
        np.testing.assert_array_equal(found[:-1], (expected + [-99] * 20)[:19])
        assert found[-1] == sum(i for i in expected if i >= 2)
    numbers(0, 10, 0, 2, made)  # a step of 0 gives no numbers
    assert np.asarray(made)[-1] == 0


def test_a_step_of_0() -> None:
    @pd.kernel(workgroup=1, grid=1)
    def bad(y: Vector) -> None:
        for i in range(0, 4, 0):
            y[i] = 1.0

    with pytest.raises(pd.CompileError, match="the step of range is 0"):
        bad(np.zeros(4, np.float32))


def capped(x: Any, y: Any) -> Any:
    return min(pd.cdiv(x.shape[0], 2), 7, y.shape[0])


def cases(x: Any, y: Any) -> Any:
    if not x.shape[0]:
        return 1
    if x.shape[0] == y.shape[0]:
        return 9, 9
    return max(x.shape[0] % 5, 2), 3 if 4 < y.shape[0] <= 8 else 1, 17 % x.shape[0] + 1


def kernel_over(grid: Callable[..., Any]) -> Any:
    @pd.kernel(workgroup=1, grid=grid)
    def kernel(x: Vector, y: Other) -> None:
        if pd.group_id(0) == 0 and pd.group_id(1) == 0 and pd.group_id(2) == 0:
            y[0] = pd.f32((pd.grid_size(0) * 100 + pd.grid_size(1)) * 100 + pd.grid_size(2))

    return kernel


@pytest.mark.parametrize(
    "grid",
    [capped, cases, lambda x, y: min(x.shape[0], y.shape[0]) + 1, lambda x, y: 5 if x.shape[0] == np.int64(4) else 6],
)
def test_grids_that_compare_sizes(grid: Callable[..., Any]) -> None:
    kernel = kernel_over(grid)
    for m, n in ((3, 10), (100, 10), (100, 3), (4, 4), (22, 5), (23, 8), (24, 9), (1, 2)):
        y = np.zeros(n, np.float32)
        kernel(np.zeros(m, np.float32), y)
        expected = grid(np.zeros(m), np.zeros(n))
        x_, y_, z_ = (*(expected if isinstance(expected, tuple) else (expected,)), 1, 1)[:3]
        assert y[0] == (x_ * 100 + y_) * 100 + z_
    program = pd.device("ptx-interpreter").load(pd.compile(kernel, targets="cuda"))
    assert np.asarray(program.kernel(np.zeros(3, np.float32), np.zeros(10, np.float32)))[0] > 0


def test_what_grids_cannot_do() -> None:
    def many(x: Any, y: Any) -> Any:
        return sum(1 for i in range(200) if x.shape[0] > i)

    with pytest.raises(pd.InvalidArgumentError, match=r"'kernel': grid: comparisons of sizes have more than 64 cases"):
        pd.compile(kernel_over(many))
    with pytest.raises(pd.InvalidArgumentError, match=r"grid: unsupported .* with \+ - \* // % and comparisons"):
        pd.compile(kernel_over(lambda x, y: x.shape[0] / 2))
    for other in (4.0, None):
        with pytest.raises(pd.InvalidArgumentError, match=rf"grid: a size is compared with {other}, which is no whole"):
            pd.compile(kernel_over(lambda x, y, other=other: 7 if x.shape[0] == other else 3))


def test_grids_that_are_no_numbers_of_workgroups_are_refused_under_python() -> None:
    x, y = np.zeros(3, np.float32), np.ones(2, np.float32)
    for grid, chosen in ((lambda x, y: x.shape[0] - 100, "-97"), (lambda x, y: (1, x.shape[0] / 2), r"\(1, 1\.5\)")):
        with pytest.raises(pd.InvalidArgumentError, match=f"'kernel': grid: expected .* of workgroups, got {chosen}"):
            kernel_over(grid).python(x, y)
    kernel_over(lambda x, y: x.shape[0] - 3).python(x, y)  # without workgroups
    np.testing.assert_array_equal(y, [1, 1])


@pytest.mark.parametrize("grid", [lambda y, count: int(count - 9), lambda y, count: -(-count // 4)])
def test_grids_of_numbers_are_refused_everywhere(grid: Callable[..., Any]) -> None:
    """Those of an unsigned number under Python would have billions of workgroups where the difference is negative."""

    @pd.kernel(workgroup=1, grid=grid)
    def filled(y: Annotated[pd.View, pd.f32["n"]], count: pd.u32) -> None:
        y[0] = 1.0

    for call in (filled.mlir, lambda: filled.python(np.zeros(1, np.float32), 8)):
        with pytest.raises(pd.InvalidArgumentError, match=r"'filled': grid: .* parameters that are numbers are None"):
            call()


def weighted_sums(x: Rows, weights: ForThreads, y: Rows, totals: ForThreads) -> None:
    """Elements and carried values of an invocation, whose number the body uses beside the counter of its loop."""
    row, lane, threads = pd.group_id(0), pd.local_id(0), pd.group_size(0)
    weight = weights[row, lane]
    total, count = 0.0, 0
    for j in range(lane + 3, x.shape[1], threads):
        total = total * 0.5 + x[row, j] * weight
        count += pd.i32(lane + j)
        y[row, j] = x[row, j] + weights[row, lane]
    totals[row, lane] = total + pd.f32(count)


@pytest.mark.parametrize("threads", [8, 24, 64, 100])
def test_steps_of_all_invocations(threads: int) -> None:
    kernel = pd.kernel(workgroup=threads, grid=lambda x, *_: x.shape[0])(weighted_sums)
    generator = np.random.default_rng(threads)
    for n in (0, 2, 3, 4, threads + 2, threads + 3, 3 * threads + 3, 3 * threads + 10):
        x, weights = generator.standard_normal((2, n)), generator.standard_normal((2, threads))
        x, weights = x.astype(np.float32), weights.astype(np.float32)
        y, totals = np.zeros_like(x), np.zeros_like(weights)
        kernel(x, weights, y, totals)
        expected_y, expected = np.zeros_like(x), np.zeros(weights.shape)
        for lane in range(threads):
            for j in range(lane + 3, n, threads):
                expected[:, lane] = expected[:, lane] * 0.5 + x[:, j] * weights[:, lane]
                expected_y[:, j] = x[:, j] + weights[:, lane]
            expected[:, lane] += sum(lane + j for j in range(lane + 3, n, threads))
        np.testing.assert_array_equal(y, expected_y)
        np.testing.assert_allclose(totals, expected, rtol=1e-5, atol=1e-4)
