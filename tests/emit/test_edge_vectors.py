"""Loops over invocations with bounds get versions without comparisons for vectors between the edges."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, scf
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.edge_vectors import separate_edge_vectors
from pydispatch.ir import parse

ATTRIBUTES = "attributes {pyd.invocations = 128 : i64}"


def kernel(
    condition: str = "arith.cmpi slt, %after, %n : index",
    invocations: str = "arith.constant 128 : index",
    attributes: str = ATTRIBUTES,
    inside: str = "",
) -> FuncOp:
    """A loop over invocations that store an element where a comparison holds."""
    module = parse(f"""
func.func @kernel(%a: memref<?xf32>, %start: index, %n: index) {attributes} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %invocations = {invocations}
  scf.parallel (%j) = (%c0) to (%invocations) step (%c1) {{
    %i = arith.addi %start, %j : index
    %after = arith.addi %i, %c1 : index
    %before = arith.subi %i, %c1 : index
    %twice = arith.addi %i, %j : index
    %condition = {condition}
    {inside}
    scf.if %condition {{
      memref.store %zero, %a[%i] : memref<?xf32>
    }}
    scf.reduce
  }}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(
    ("changed", "has_versions"),
    [
        ({}, True),
        ({"condition": "arith.cmpi sge, %n, %before : index"}, True),
        ({"condition": "arith.cmpi sgt, %i, %c0 : index"}, True),
        ({"invocations": "arith.minsi %n, %c128 : index"}, True),
        ({"invocations": "arith.constant 120 : index"}, False),
        ({"invocations": "arith.addi %n, %c1 : index"}, False),
        ({"attributes": ""}, False),
        ({"condition": "arith.cmpi slt, %twice, %n : index"}, False),
        ({"condition": "arith.cmpi slt, %i, %j : index"}, False),
        ({"condition": "arith.cmpi ult, %i, %n : index"}, False),
        ({"condition": "arith.cmpi slt, %start, %n : index"}, False),
        ({"condition": "arith.cmpi slt, %j, %c64 : index"}, False),
        ({"inside": "%old = memref.atomic_rmw addf %zero, %a[%i] : (f32, memref<?xf32>) -> f32"}, False),
    ],
    ids=[
        "an upper bound",
        "a mirrored upper bound",
        "a lower bound",
        "a dynamic end",
        "few invocations",
        "an unknown number of invocations",
        "no kernel in Python",
        "a stride",
        "a moving limit",
        "unsigned",
        "invariant",
        "constants",
        "an atomic operation",
    ],
)
def test_which_loops_get_versions(changed: dict[str, str], has_versions: bool) -> None:
    function = kernel(**changed)
    separate_edge_vectors(function)
    function.verify()
    loops = [op for op in function.walk() if isinstance(op, scf.ParallelOp)]
    assert len(loops) == (2 if has_versions else 1)
    if has_versions:
        conditions = [
            [op.cond.owner for op in loop.walk() if isinstance(op, scf.IfOp)] for loop in loops
        ]  # of the vectors between the edges, and of the others
        assert [any(isinstance(owner, arith.CmpiOp) for owner in owners) for owners in conditions] == [False, True]


Vector = Annotated[pd.View, pd.f32["n"]]
Matrix = Annotated[pd.View, pd.f32["m", "n"]]
Index = Annotated[int, pd.i64]
LEAST, LARGEST = -(1 << 63), (1 << 63) - 1


@cache
def bounded() -> Any:
    """Return a kernel that stores 1 to the elements of `y` whose index plus `shift` is from `low` to below `high`."""

    @pd.kernel(workgroup=128)
    def marked(y: Vector, shift: Index, low: Index, high: Index) -> None:
        i = pd.global_id(0)
        if i < y.shape[0]:
            y[i] = 1.0 if i + shift >= low and high > i + shift else 0.0

    return pd.device("cpu").load(pd.compile(marked, targets="cpu", cpu="native")).marked


EDGES = st.one_of(st.integers(-20, 420), st.sampled_from([LEAST, LEAST + 100, LARGEST - 100, LARGEST]))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 400), EDGES, EDGES, EDGES)
def test_bounds_anywhere(n: int, shift: int, low: int, high: int) -> None:
    """Sums of indices wrap around."""
    y = bounded()(np.full(n, 7, np.float32), shift, low, high)
    sums = [(i + shift - LEAST) % (1 << 64) + LEAST for i in range(n)]
    np.testing.assert_array_equal(y, np.array([low <= index < high for index in sums], np.float32))


@cache
def differences() -> Any:
    """Return a kernel that stores differences of neighbours, 0 outside of the array."""

    @pd.kernel(workgroup=(256, 1))
    def differ(x: Matrix, y: Matrix) -> None:
        j, i = pd.global_id(0), pd.global_id(1)
        if i < x.shape[0] and j < x.shape[1]:
            total = x[i, j + 1] if j + 1 < x.shape[1] else 0.0
            total -= x[i, j - 1] if j > 0 else 0.0
            total += x[i - 1, j] if i > 0 else 0.0
            y[i, j] = total

    return pd.device("cpu").load(pd.compile(differ, targets="cpu", cpu="native")).differ


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 4), st.integers(1, 600))
def test_neighbours_at_the_edges(m: int, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((m, n)).astype(np.float32)
    padded = np.pad(x, 1)
    y = differences()(x, np.full_like(x, 7))
    np.testing.assert_array_equal(y, padded[1:-1, 2:] - padded[1:-1, :-2] + padded[:-2, 1:-1])
