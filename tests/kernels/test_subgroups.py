"""Operations on subgroups, on every device, against NumPy."""

from __future__ import annotations

import re
from typing import Annotated

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.kernel_ir.simt.own_rows import is_own_row
from pydispatch.ir.dialects.pyd import subgroups as operations
from pydispatch.kernels.subgroups import SUBGROUP_SIZE

N, GROUP = 160, 80  # of subgroups of 32, 32 and 16


@pd.kernel(workgroup=(20, 4), grid=2)
def subgroups(
    x: Annotated[pd.View, pd.f32[N]],
    sums: Annotated[pd.View, pd.f32[N]],
    most: Annotated[pd.View, pd.i32[N]],
    turned: Annotated[pd.View, pd.f32[N]],
    bits: Annotated[pd.View, pd.u32[N]],
    scan: Annotated[pd.View, pd.f32[N]],
) -> None:
    own = pd.local_id(1) * 20 + pd.local_id(0)
    i, lane = pd.group_id(0) * GROUP + own, own % 32
    total = pd.subgroup_sum(x[i])
    size = pd.subgroup_sum(1)
    pd.barrier()
    sums[i] = total + pd.f32(size)
    largest = pd.subgroup_max(pd.i32(x[i]))
    opposite = pd.subgroup_shuffle(x[i], 31 - lane)
    ballot = pd.subgroup_ballot(x[i] > 0)
    is_positive = pd.subgroup_shuffle(x[i] > 0, 0)
    most[i], turned[i], bits[i] = largest if is_positive else -largest, opposite, ballot
    value, step = x[i], 1
    while step < 32:
        before = pd.subgroup_shuffle(value, lane - step)
        if lane >= step:
            value += before
        step *= 2
    scan[i] = value


@pytest.mark.parametrize("device", DEVICES)
def test_subgroups(device: str) -> None:
    x = np.random.default_rng(3).integers(-9, 10, N).astype(np.float32)
    given = [np.zeros(N, dtype) for dtype in (np.float32, np.int32, np.float32, np.uint32, np.float32)]
    artifact = pd.compile(subgroups, targets={"ptx-interpreter": "cuda"}.get(device, device))
    sums, most, turned, bits, scan = map(np.asarray, pd.device(device).load(artifact).subgroups(x, *given))
    starts = [group + start for group in (0, GROUP) for start in (0, 32, 64)]
    for start in starts:
        part = slice(start, start + (32 if start % GROUP < 64 else 16))
        values = x[part]
        np.testing.assert_array_equal(sums[part], values.sum() + len(values))
        np.testing.assert_array_equal(most[part], values.max() if values[0] > 0 else -values.max())
        np.testing.assert_array_equal(turned[part], values[::-1] if len(values) == 32 else values)
        np.testing.assert_array_equal(bits[part], sum(1 << k for k, value in enumerate(values) if value > 0))
        np.testing.assert_array_equal(scan[part], values.cumsum())


@pd.kernel(workgroup=32, grid=1)
def rotated(x: Annotated[pd.View, pd.i32[32]], y: Annotated[pd.View, pd.i32[32]]) -> None:
    """The lanes are read from memory that the invocations write after they have met."""
    lanes = pd.shared(32, pd.i32)
    own = pd.local_id(0)
    lanes[own] = pd.i32((own + 1) % 32)
    pd.barrier()
    value = pd.subgroup_shuffle(x[own], lanes[31 - own])
    lanes[own] = 0
    y[own] = value


@pytest.mark.parametrize("device", DEVICES)
def test_lane_is_read_before_invocations_meet(device: str) -> None:
    x = np.arange(32, dtype=np.int32) * 3
    artifact = pd.compile(rotated, targets={"ptx-interpreter": "cuda"}.get(device, device))
    result = pd.device(device).load(artifact).rotated(x, np.zeros(32, np.int32))
    np.testing.assert_array_equal(np.asarray(result), x[(32 - np.arange(32)) % 32])


def combined(
    x: Annotated[pd.View, pd.f32["n"]], sums: Annotated[pd.View, pd.f32["n"]], least: Annotated[pd.View, pd.f32["n"]]
) -> None:
    """Values of two axes; the reductions are of floats, so that their order shows."""
    own = pd.local_id(1) * pd.group_size(0) + pd.local_id(0)
    i = pd.group_id(0) * pd.group_size(0) * pd.group_size(1) + own
    total = pd.subgroup_sum(x[i])
    smallest = pd.subgroup_min(x[i])
    positive = pd.subgroup_ballot(x[i] > 0)
    sums[i] = total
    least[i] = smallest if positive != 0 else 0.0


def in_pairs(values: np.ndarray) -> np.float32:
    """Sum neighbours, then neighbouring pairs, and so on."""
    while len(values) > 1:
        pairs = values[: len(values) // 2 * 2].reshape(-1, 2)
        values = np.append(pairs[:, 0] + pairs[:, 1], values[len(pairs) * 2 :])
    return values[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(16, 4), (20, 4), (3, 1)])  # whole subgroups, a last one of 16, and one of 3
def test_both_paths_give_the_same_bits(device: str, shape: tuple[int, int]) -> None:
    group = shape[0] * shape[1]
    x = np.random.default_rng(7).standard_normal(2 * group).astype(np.float32)
    x[group // 2] = np.nan
    artifact = pd.compile(
        pd.kernel(workgroup=shape, grid=2)(combined), targets={"ptx-interpreter": "cuda"}.get(device, device)
    )
    sums, least = map(np.asarray, pd.device(device).load(artifact).combined(x, np.zeros_like(x), np.zeros_like(x)))
    for start in (first + lane for first in (0, group) for lane in range(0, group, 32)):
        part = slice(start, min(start + 32, start // group * group + group))
        np.testing.assert_array_equal(sums[part], in_pairs(x[part]))
        np.testing.assert_array_equal(least[part], x[part].min() if (x[part] > 0).any() else 0)


def test_warps_exchange_registers() -> None:
    """Whole subgroups are warps: no workgroup memory, no barrier, one vote. A last one with fewer uses memory."""
    whole, partial = (ptx(shape) for shape in ((16, 4), (20, 4)))
    assert (whole.count("shfl.sync.bfly"), whole.count("vote.sync.ballot")) == (10, 1)
    assert "bar.sync" not in whole and ".shared" not in whole
    assert "shfl" not in partial and "bar.sync" in partial
    assert "shfl.sync.idx" in ptx_of(rotated)


def ptx(shape: tuple[int, int]) -> str:
    return ptx_of(pd.kernel(workgroup=shape, grid=2)(combined))


def ptx_of(kernel: object) -> str:
    """Return the PTX of a kernel."""
    artifact = pd.compile(kernel, targets="cuda")
    (name,) = (member for member in artifact.members if member.endswith(".ptx"))
    return bytes(artifact.read(name)).decode()


ROW = "memref<64xf32, 3>"


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (f"pyd.subgroup_shuffle %row[%own], %own : {ROW} -> f64", "gives f32, not f64"),
        (f"pyd.subgroup_reduce subf %row[%own] : {ROW} -> f32", "unknown combiner 'subf', expected one of addf, addi"),
        (f"pyd.subgroup_reduce addi %row[%own] : {ROW} -> f32", "pyd.subgroup_reduce addi of memref<64xf32"),
        (f"pyd.subgroup_ballot %row[%own] : {ROW} -> i32", "pyd.subgroup_ballot takes conditions, got memref<64xf32"),
        ("pyd.subgroup_reduce addf %rows[%own] : memref<?xf32, 3> -> f32", "reads a static row of values"),
    ],
)
def test_operations_that_kernel_ir_refuses(operation: str, message: str) -> None:
    text = f"func.func @f(%row: {ROW}, %rows: memref<?xf32, 3>, %own: index) {{\n  %0 = {operation}\n  return\n}}"
    with pytest.raises(pd.CompileError, match=re.escape(message)):
        ir.verify(ir.parse(text))


def test_width_is_that_of_kernel_ir() -> None:
    assert SUBGROUP_SIZE == operations.SUBGROUP_SIZE


@pytest.mark.parametrize(("doublings", "is_own"), [(0, True), (1, False), (60, False)])
def test_rows_of_invocations_are_found_by_their_indices(doublings: int, is_own: bool) -> None:
    """Each doubling uses the one before twice: through sixty of them there are 2^60 paths."""
    doubled = "\n".join(f"%i{k + 1} = arith.addi %i{k}, %i{k} : index" for k in range(doublings))
    (function,) = ir.parse(f"""
      func.func @f(%v: f32) {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %c16 = arith.constant 16 : index
        %row = memref.alloc() : {ROW}
        scf.parallel (%y, %x) = (%c0, %c0) to (%c4, %c16) step (%c1, %c1) {{
          %first = arith.muli %y, %c16 : index
          %i0 = arith.addi %first, %x : index
          {doubled}
          memref.store %v, %row[%i{doublings}] : {ROW}
          scf.reduce
        }}
        func.return
      }}""").body.block.ops
    (row,) = (op.results[0] for op in function.walk() if op.name == "memref.alloc")
    assert is_own_row(row, 64) == is_own
