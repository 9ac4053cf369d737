"""Loops over the columns of tiles get a version for tiles that lie inside of their arrays."""

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
from pydispatch.compiler.kernel_ir.full_tiles import separate_full_tiles
from pydispatch.ir import parse

GATHERED = """
    %number = memref.load %numbers[%row] : memref<?xindex>
    %x = memref.load %a[%number] : memref<?xf32>
"""
"""Load an element of the row whose number is an element."""


def kernel(
    index: str = "%column", limit: str = "%n", predicate: str = "ult", columns: int = 32, inside: str = ""
) -> FuncOp:
    """A tile of 4 rows whose elements are stored where a comparison holds."""
    module = parse(f"""
func.func @kernel(%a: memref<?xf32>, %numbers: memref<?xindex>, %start: index, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %columns = arith.constant {columns} : index
  %zero = arith.constant 0.0 : f32
  scf.parallel (%i, %j) = (%c0, %c0) to (%c4, %columns) step (%c1, %c1) {{
    %row = arith.addi %start, %i : index
    %column = arith.addi %start, %j : index
    %twice = arith.addi %column, %j : index
    %is_inside = arith.cmpi {predicate}, {index}, {limit} : index
    {inside}
    scf.if %is_inside {{
      memref.store %zero, %a[%column] : memref<?xf32>
    }}
    scf.reduce
  }}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(
    ("function", "has_versions"),
    [
        (kernel(), True),
        (kernel(index="%row"), True),
        (kernel(index="%twice"), False),
        (kernel(limit="%row"), False),
        (kernel(predicate="slt"), False),
        (kernel(columns=8), False),
        (kernel(inside=GATHERED), False),
        (kernel(inside=GATHERED.replace("[%number]", "[%row]")), True),
        (kernel(inside=GATHERED + "%y = arith.negf %x : f32"), True),
    ],
    ids=[
        "columns",
        "rows",
        "a stride",
        "a moving limit",
        "signed",
        "few columns",
        "gathered rows",
        "rows that are not gathered",
        "computed elements of gathered rows",
    ],
)
def test_which_loops_get_a_version(function: FuncOp, has_versions: bool) -> None:
    separate_full_tiles(function)
    function.verify()
    loops = [op for op in function.walk() if isinstance(op, scf.ParallelOp)]
    compared = [any(isinstance(op, arith.CmpiOp) for op in loop.body.block.ops) for loop in loops]
    assert compared == ([False, True] if has_versions else [True])


Matrix = Annotated[pd.View, pd.f32["m", "n"]]


@cache
def shifted() -> Any:
    """Return a kernel that copies tiles of 4x32 from `x`, `shift` columns to the right, into `y`."""

    @pd.kernel(workgroup=32)
    def shifted_tiles(x: Matrix, y: Matrix, shift: Annotated[int, pd.i64]) -> None:
        i, j = pd.group_id(1) * 4, pd.group_id(0) * 32
        y[i : i + 4, j : j + 32] = x[i : i + 4, j + shift : j + shift + 32]

    return pd.device("cpu").load(pd.compile(shifted_tiles, cpu="native")).shifted_tiles


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9), st.integers(1, 100), st.sampled_from([0, 1, 40, -1, -31, -200, (1 << 63) - 1, -(1 << 63)]))
def test_tiles_at_all_edges(m: int, n: int, shift: int) -> None:
    x = np.random.default_rng(n).standard_normal((m, n)).astype(np.float32)
    y = shifted()(x, np.full_like(x, 7), shift)
    columns = [column + shift for column in range(n)]
    expected = np.stack([x[:, k] if 0 <= k < n else np.zeros(m, np.float32) for k in columns], axis=1)
    np.testing.assert_array_equal(y, expected)
