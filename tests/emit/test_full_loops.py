"""Loops over a share of elements get a version for shares that the end of the array does not cut short."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.compiler.kernel_ir.full_loops import separate_full_loops
from pydispatch.ir import parse


def kernel(limit: str, step: int = 1, share: int = 32, body: str = "", order: str = "") -> FuncOp:
    """A sum of the elements from `begin` to `end`, the value that `limit` defines."""
    module = parse(f"""
func.func @kernel(%a: memref<?xf32>, %begin: index, %n: index) -> f32 {{
  %step = arith.constant {step} : index
  %share = arith.constant {share} : index
  %full = arith.addi %begin, %share : index
  %twice = arith.addi %begin, %begin : index
  %zero = arith.constant 0.0 : f32
  {limit}
  %sum = scf.for {order} %i = %begin to %end step %step iter_args(%so_far = %zero) -> (f32) {{
    %x = memref.load %a[%i] : memref<?xf32>
    {body}
    %next = arith.addf %so_far, %x : f32
    scf.yield %next : f32
  }}
  func.return %sum : f32
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


SHARE_OR_END = "%end = arith.minsi %full, %n : index"


@pytest.mark.parametrize(
    ("changed", "steps"),
    [
        ({"limit": SHARE_OR_END}, 32),
        ({"limit": "%end = arith.minsi %n, %full : index"}, 32),
        ({"limit": SHARE_OR_END, "share": 200}, None),
        ({"limit": SHARE_OR_END, "share": 0}, None),
        ({"limit": SHARE_OR_END, "step": 2}, None),
        ({"limit": "%end = arith.minsi %twice, %n : index"}, None),
        ({"limit": "%end = arith.minui %full, %n : index"}, None),
        ({"limit": SHARE_OR_END, "order": "unsigned"}, None),
        ({"limit": SHARE_OR_END, "body": "scf.execute_region { scf.yield }"}, None),
    ],
    ids=[
        "share first",
        "end first",
        "long",
        "empty",
        "another step",
        "not a share",
        "unsigned minimum",
        "unsigned counter",
        "with regions",
    ],
)
def test_which_loops_get_a_version(changed: dict[str, Any], steps: int | None) -> None:
    function = kernel(**changed)
    separate_full_loops(function)
    function.verify()
    loops = [op for op in function.walk() if isinstance(op, scf.ForOp)]
    full = [constant_or_value(loop.ub) for loop in loops if isinstance(constant_or_value(loop.ub), int)]
    assert full == ([steps] if steps else []) and len(loops) == (2 if steps else 1)


def test_a_loop_of_integers_stays() -> None:
    module = parse("""
func.func @kernel(%begin: i32, %n: i32) -> i32 {
  %step = arith.constant 1 : i32
  %share = arith.constant 4 : i32
  %full = arith.addi %begin, %share : i32
  %end = arith.minsi %full, %n : i32
  %sum = scf.for %i = %begin to %end step %step iter_args(%so_far = %begin) -> (i32) : i32 {
    %next = arith.addi %so_far, %i : i32
    scf.yield %next : i32
  }
  func.return %sum : i32
}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    separate_full_loops(function)
    function.verify()
    assert sum(isinstance(op, scf.ForOp) for op in function.walk()) == 1


Integers = Annotated[pd.View, pd.i32["n"]]


@cache
def sums_of_shares() -> Any:
    """The sums of the elements up to each one, within each 8."""

    @pd.kernel(workgroup=16, grid=lambda x, y: pd.cdiv(x.shape[0], 128))
    def sums(x: Integers, y: Integers) -> None:
        begin, total = pd.global_id(0) * 8, 0
        for i in range(begin, min(begin + 8, x.shape[0])):
            total += x[i]
            y[i] = total

    return pd.device("cpu").load(pd.compile(sums, targets="cpu", cpu="native")).sums


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 300))
def test_shares_that_the_end_cuts_short(n: int) -> None:
    x = np.arange(n, dtype=np.int32) % 7 - 2
    padded = np.pad(x, (0, -n % 8)).reshape(-1, 8)
    np.testing.assert_array_equal(sums_of_shares()(x, np.zeros_like(x)), np.cumsum(padded, axis=1).reshape(-1)[:n])


@pd.kernel(workgroup=1, grid=2)
def far_apart(x: Integers, y: Annotated[pd.View, pd.i32[2]]) -> None:
    """The second workgroup has the largest index as its first: the end of its share wraps around."""
    group = pd.group_id(0)
    begin, total = group * ((1 << 63) - 1), 0
    for i in range(begin, min(begin + 8, x.shape[0])):
        total += x[i]
    y[group] = total


def test_a_share_whose_end_wraps_around_is_empty() -> None:
    x = np.arange(20, dtype=np.int32) + 1
    y = np.full(2, 7, np.int32)
    far_apart(x, y)
    np.testing.assert_array_equal(y, [x[:8].sum(), 0])
