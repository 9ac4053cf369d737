"""Grids of kernels without grid=, inferred from what global_id and group_id index and are compared with."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Matrix = Annotated[pd.View, pd.f32["m", "n"]]
DEVICES = ("cpu", "vulkan:0", "webgpu:0", "ptx-interpreter")


@pd.kernel(workgroup=64)
def rows(q: Matrix, o: Matrix) -> None:
    i = pd.global_id(0)
    if i < q.shape[0]:
        for c in range(q.shape[1]):
            o[i, c] = q[i, c] * 2.0


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_for_each_invocation_on_every_device(device: str) -> None:
    q = np.random.default_rng(0).random((100, 3), np.float32)
    if device == "cpu":
        o = np.full_like(q, np.nan)
        rows(q, o)
    else:
        here = pd.device(device)
        target = here.upload(np.full_like(q, np.nan))
        rows(here.upload(q), target)
        o = target.numpy()
    np.testing.assert_array_equal(o, q * 2)


def counts(kernel: Any, *shapes: tuple[int, ...]) -> str:
    """Return the grid of the one dispatch for views of these shapes."""
    program = pd.device("cpu").load(pd.compile(kernel))
    commands = program[kernel.name].plan_of(*(np.zeros(shape, np.float32) for shape in shapes))
    (dispatch,) = [command for command in commands if " dispatch " in command]
    return dispatch.rpartition(" ")[2]


@pd.kernel(workgroup=(8, 4))
def transposed(x: Matrix, y: Annotated[pd.View, pd.f32["n", "m"]]) -> None:
    i, j = pd.global_id(0), pd.global_id(1)
    if i < y.shape[0] and j < y.shape[1]:
        y[i, j] = x[j, i]


@pd.kernel(workgroup=4)
def compared(x: Annotated[pd.View, pd.f32["n"]], y: Annotated[pd.View, pd.f32["m"]]) -> None:
    i = pd.global_id(0)
    if i >= x.shape[0]:
        return
    y[2 * i] = x[i]


@pd.kernel(workgroup=4)
def guarded(x: Annotated[pd.View, pd.f32["n"]], y: Annotated[pd.View, pd.f32["m"]]) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[2 * i] = 1.0


@pd.kernel(workgroup=4)
def left_early(x: Annotated[pd.View, pd.f32["n"]], y: Annotated[pd.View, pd.f32["m"]]) -> None:
    i, n = pd.global_id(0), x.shape[0]
    if i >= n:
        return
    y[2 * i] = 1.0


@pd.kernel(workgroup=4)
def read(x: Annotated[pd.View, pd.f32["n"]], y: Annotated[pd.View, pd.f32["m"]]) -> None:
    y[pd.i32(x[pd.global_id(0)])] = 1.0


@pd.kernel(workgroup=4)
def groups(x: Matrix, y: Annotated[pd.View, pd.f32["m"]]) -> None:
    row, lane = pd.group_id(0), pd.local_id(0)
    if lane == 0:
        y[row] = x[row, 0]


@pd.kernel(workgroup=4)
def other_axes(x: Matrix, y: Matrix) -> None:
    i, j = pd.global_id(0), pd.global_id(1)
    if i < x.shape[1]:
        y[j, i] = x[j, i]


@pd.kernel(workgroup=4)
def unused(y: Annotated[pd.View, pd.f32["n"]]) -> None:
    _ = pd.global_id(0)
    y[0] = 1.0


@pytest.mark.parametrize(
    ("kernel", "shapes", "expected"),
    [
        (transposed, [(9, 20), (20, 9)], "3x3x1"),
        (compared, [(9,), (20,)], "3x1x1"),
        (guarded, [(9,), (20,)], "3x1x1"),
        (left_early, [(9,), (20,)], "3x1x1"),
        (read, [(9,), (20,)], "3x1x1"),
        (groups, [(9, 5), (9,)], "9x1x1"),
        (other_axes, [(9, 5), (9, 5)], "2x9x1"),
        (unused, [(9,)], "1x1x1"),
    ],
)
def test_grids(kernel: Any, shapes: list[tuple[int, ...]], expected: str) -> None:
    assert counts(kernel, *shapes) == expected


@pd.kernel(workgroup=4)
def unbounded(x: Annotated[pd.View, pd.f32["n"]], y: Annotated[pd.View, pd.f32["n"]]) -> None:
    i = pd.global_id(0) * 2
    y[i] = x[i]


@pd.kernel(workgroup=4)
def guarded_by_a_number(y: Annotated[pd.View, pd.f32["n"]], n: pd.i64) -> None:
    i = pd.global_id(0)
    if i < n:
        y[2 * i] = 1.0


def test_a_guard_that_is_no_size_bounds_no_grid() -> None:
    with pytest.raises(pd.CompileError, match=r"kernel 'guarded_by_a_number' has no grid=.* pydispatch.global_id\(0\)"):
        counts(guarded_by_a_number, (20,))


def test_a_kernel_without_an_inferred_grid_is_launched_over_a_stated_one() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(pd.CompileError, match=r"kernel 'unbounded' has no grid=.* pydispatch.global_id\(0\)") as caught:
        unbounded(x, y)
    assert caught.value.location is not None and "grid=lambda x, y: ..." in (caught.value.note or "")
    unbounded[1](x, y)
    np.testing.assert_array_equal(y, x * (np.arange(8) % 2 == 0))
