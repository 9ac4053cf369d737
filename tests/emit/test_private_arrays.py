"""Loops over arrays of one invocation are unrolled completely, so that the arrays are vectors in registers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.kernel import UNROLLED
from pydispatch.compiler.kernel_ir.private_arrays import unroll_loops_over_private_arrays
from pydispatch.ir import parse


def kernel(space: str = "private", index: str = "%j", begin: str = "%c0", end: str = "%c4") -> FuncOp:
    """A loop over i around a loop over j, which stores into an array of 4096 elements."""
    module = parse(f"""
func.func @kernel(%n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c2000 = arith.constant 2000 : index
  %zero = arith.constant 0.0 : f32
  scf.parallel (%lane) = (%c0) to (%n) step (%c1) {{
    %a = memref.alloca() : memref<4096xf32, #gpu.address_space<{space}>>
    scf.for %i = %c0 to %c4 step %c1 {{
      %after_i = arith.addi %i, %c1 : index
      scf.for %j = {begin} to {end} step %c1 {{
        %twice = arith.addi %j, %j : index
        memref.store %zero, %a[{index}] : memref<4096xf32, #gpu.address_space<{space}>>
      }}
    }}
    scf.reduce
  }}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(
    ("function", "is_unrolled"),
    [
        (kernel(), [False, True]),
        (kernel(index="%twice"), [False, True]),
        (kernel(index="%i"), [True, False]),
        (kernel(index="%lane"), [False, False]),
        (kernel(begin="%after_i"), [True, True]),
        (kernel(space="workgroup"), [False, False]),
        (kernel(end="%n"), [False, False]),
        (kernel(end="%c2000"), [False, False]),
    ],
    ids=["inner", "computed", "outer", "neither", "triangle", "workgroup memory", "unknown steps", "many steps"],
)
def test_which_loops_are_unrolled(function: FuncOp, is_unrolled: list[bool]) -> None:
    unroll_loops_over_private_arrays(function)
    loops = [op for op in function.walk() if isinstance(op, scf.ForOp)]
    assert [UNROLLED in loop.attributes for loop in loops] == is_unrolled


Points = Annotated[pd.View, pd.f32["n", 4]]


@pd.kernel(workgroup=64)
def sorted_points(x: Points, y: Points) -> None:
    """The coordinates of each point in ascending order."""
    i = pd.global_id(0)
    if i >= x.shape[0]:
        return
    a = pd.private(4, pd.f32)
    for j in range(4):
        a[j] = x[i, j]
    for j in range(4):
        for k in range(j + 1, 4):
            if a[k] < a[j]:
                a[j], a[k] = a[k], a[j]
    for j in range(4):
        y[i, j] = a[j]


@pytest.mark.parametrize("n", [1, 15, 64, 70])
def test_arrays_in_registers_have_the_same_elements(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
    y = np.zeros_like(x)
    sorted_points(x, y)
    np.testing.assert_array_equal(y, np.sort(x, axis=1))


def test_invocations_with_arrays_are_lanes_of_vectors(tmp_path: Path) -> None:
    pd.compile(sorted_points, cpu="x86-64-v4", dump=tmp_path)
    (text,) = (path.read_text() for path in tmp_path.glob("*.optimized.ll"))
    assert "alloca" not in text and "fcmp olt <" in text
