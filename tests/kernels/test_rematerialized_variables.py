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
