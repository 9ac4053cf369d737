"""Variables that live across a barrier: computed again in each phase, or stored in workgroup memory."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Order = Annotated[pd.View, pd.i32[64]]


@pd.kernel(workgroup=64, grid=lambda x, order, y: x.shape[0] // 64)
def reversed_by_index(x: Vector, order: Order, y: Vector) -> None:
    """The variable that lives across the barrier is computed from one that does not."""
    block = pd.shared(64, pd.f32)
    lane = pd.local_id(0)
    own = 63 - lane
    block[own] = x[pd.group_id(0) * 64 + lane]
    pd.barrier()
    y[pd.group_id(0) * 64 + own] = block[own]


@pd.kernel(workgroup=64, grid=lambda x, order, y: x.shape[0] // 64)
def reversed_by_order(x: Vector, order: Order, y: Vector) -> None:
    """The variable that lives across the barrier is loaded from memory."""
    block = pd.shared(64, pd.f32)
    lane = pd.local_id(0)
    own = order[lane]
    block[own] = x[pd.group_id(0) * 64 + lane]
    pd.barrier()
    y[pd.group_id(0) * 64 + own] = block[own]


@pytest.mark.parametrize(("kernel", "allocations"), [(reversed_by_index, 1), (reversed_by_order, 2)])
def test_variables_of_indices_take_no_memory(kernel: Any, allocations: int) -> None:
    assert kernel.mlir().count("memref.alloc") == allocations
    x = np.random.default_rng(1).standard_normal(192, np.float32)
    y = np.zeros_like(x)
    kernel(x, np.arange(63, -1, -1, dtype=np.int32), y)
    np.testing.assert_array_equal(y, x.reshape(3, 64)[:, ::-1].reshape(-1))


@pd.kernel(workgroup=64, grid=lambda x, order, y: x.shape[0] // 64)
def reversed_by_last_target(x: Vector, order: Order, y: Vector) -> None:
    """A name is a target twice: it has the value of the last one."""
    block = pd.shared(64, pd.f32)
    lane = pd.local_id(0)
    own, own = lane, 63 - lane
    block[own] = x[pd.group_id(0) * 64 + lane]
    pd.barrier()
    y[pd.group_id(0) * 64 + own] = block[own]


@pd.kernel(workgroup=64, grid=lambda x, order, y: x.shape[0] // 64)
def reversed_by_nested_target(x: Vector, order: Order, y: Vector) -> None:
    """The last target is in a tuple of its own."""
    block = pd.shared(64, pd.f32)
    lane = pd.local_id(0)
    own, (own, _) = lane, (63 - lane, lane)
    block[own] = x[pd.group_id(0) * 64 + lane]
    pd.barrier()
    y[pd.group_id(0) * 64 + own] = block[own]


@pytest.mark.parametrize("kernel", [reversed_by_last_target, reversed_by_nested_target])
def test_the_last_target_of_a_name_counts(kernel: Any) -> None:
    x = np.random.default_rng(2).standard_normal(128, np.float32)
    y = np.zeros_like(x)
    kernel(x, np.arange(64, dtype=np.int32), y)
    np.testing.assert_array_equal(y, x.reshape(2, 64)[:, ::-1].reshape(-1))


@pd.kernel(workgroup=64, grid=lambda x, y: x.shape[0] // 64)
def sums_but_in_one_lane(x: Vector, y: Vector) -> None:
    """The result of a reduction is changed in a condition before the barrier."""
    i = pd.global_id(0)
    total = pd.group_sum(x[i])
    if pd.local_id(0) == 5:
        total = 0.0
    pd.barrier()
    y[i] = total


@pd.kernel(workgroup=64, grid=lambda x, y: x.shape[0] // 64)
def sums_per_pair(x: Vector, y: Vector) -> None:
    """The result of a reduction is changed by a loop and by a tuple before the barrier."""
    i = pd.global_id(0)
    total = pd.group_sum(x[i])
    for _ in range(pd.local_id(0)):
        total += 1.0
    pair = (x[i], total)
    _, total = pair
    pd.barrier()
    y[i] = total


@pd.kernel(workgroup=64, grid=lambda x, y: x.shape[0] // 64)
def sums_of_steps(x: Vector, y: Vector) -> None:
    """The variable of a loop with a barrier is changed in one invocation of each step."""
    i = pd.global_id(0)
    y[i] = 0.0
    for k in range(3):
        if pd.local_id(0) == k:
            k = 10
        pd.barrier()
        y[i] = y[i] + pd.f32(k)


@pd.kernel(workgroup=64, grid=lambda x, y: x.shape[0] // 64)
def sums_of_items(x: Vector, y: Vector) -> None:
    """The variable of an unrolled loop with a barrier is changed in one invocation of each step."""
    i = pd.global_id(0)
    y[i] = 0.0
    for k in (0, 1, 2):
        if pd.local_id(0) == k:
            k = 10
        pd.barrier()
        y[i] = y[i] + pd.f32(k)


def test_collective_values_that_invocations_change_are_their_own() -> None:
    x = np.random.default_rng(3).integers(0, 9, 128).astype(np.float32)
    lane = np.arange(128) % 64
    sums = x.reshape(2, 64).sum(1).repeat(64)
    steps = np.where(lane < 3, 13 - lane, 3)
    for kernel, expected in [
        (sums_but_in_one_lane, np.where(lane == 5, 0, sums)),
        (sums_per_pair, sums + lane),
        (sums_of_steps, steps),
        (sums_of_items, steps),
    ]:
        y = np.zeros_like(x)
        kernel(x, y)
        np.testing.assert_array_equal(y, expected.astype(np.float32), kernel.__name__)


@pd.kernel(workgroup=64, grid=lambda x, y: x.shape[0] // 64)
def reused_loop_variable(x: Vector, y: Vector) -> None:
    """A loop with barriers and a loop between barriers have the same variable; the sum stays uniform."""
    i = pd.global_id(0)
    for k in range(3):
        total = pd.group_sum(x[i])
        if k > 0:
            pd.barrier()
        y[i] = total * pd.f32(k)
    for k in range(2):
        y[i] = y[i] + pd.f32(k)


def test_a_reused_name_whose_values_cross_no_barrier_takes_no_memory() -> None:
    assert "memref.alloc" not in reused_loop_variable.mlir()
    x = np.ones(64, np.float32)
    y = np.zeros_like(x)
    reused_loop_variable(x, y)
    np.testing.assert_array_equal(y, np.full(64, 129, np.float32))
