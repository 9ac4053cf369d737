"""Code with tiles that is no kernel is refused where it is written; its twin without the fault compiles."""

from __future__ import annotations

import pytest
from bad_kernel_works import ARGUMENTS, Case, cases, check_refused, executed, whole

import pydispatch as pd

CASES = cases("bad_tiles.txt")


def written(code: str, grid: str = "(grid=1)") -> str:
    return whole(code, ARGUMENTS, f"@pd.kernel{grid}")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_is_refused_where_it_stands(case: Case) -> None:
    check_refused(case, written(case.code, "" if case.name == "no grid" else "(grid=1)"))


def test_there_are_enough_cases() -> None:
    assert len(CASES) == len({case.name for case in CASES}) >= 60


GOOD = {
    "a size from a variable on": "i = c * 8\ny[0:8] = x[i - 1:i + 7]",
    "a multiple": "y[0:8] = x[c * 8:(c + 1) * 8]",
    "a size of a tile": "t = x[0:8]\ny[0:len(t)] = t + t.ndim",
    "a number in all elements": "y[0:8] = 1",
    "a row in all rows": "w[0:8, 0:4] = w[0, 0:4]",
    "axes": "t = w[0:4, 0:8]\nw[0:4, 0:8] = t - pd.max(t, axis=1)[:, None]",
    "conditions": "t = x[0:8]\ny[0:8] = pd.where((t > 0) & (t < 1), 1.0, 0.0)",
    "a condition of a sum": "if pd.sum(x[0:8]) > 0:\n    y[0:8] = 1.0",
    "another shape without a loop": "t = x[0:8]\nt = t[:, None] * t\nw[0:8, 0:8] = t",
    "indices of a tile": "y[z[0:8]] += x[z[0:8] - 1]",
    "atomic operations of a tile": "pd.atomic_max(w, (z[0:8], c), x[0:8])",
    "shorter integers": "t = z[0:8]\nfor i in range(4):\n    t = pd.i32(pd.i8(t))\nz[0:8] = t",
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD.keys())
def test_twins_without_the_fault_compile(body: str) -> None:
    pd.compile(executed(written(body)), targets="cpu")
