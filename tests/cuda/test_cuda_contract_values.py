"""Matrix products on the PTX interpreter with its search for races: older machines, bf16, and every tile.

What holds on every backend is in `conformance/test_products.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from products import Array, matmul, product, whole

import pydispatch as pd
from pydispatch.compiler.kernels.matmul.gpu import plan as plans
from pydispatch.compiler.kernels.matmul.gpu import tiles


def same(text: str, expected: Array, *arguments: Array, target: str = "sm_80") -> None:
    got = np.asarray(pd.device("ptx-interpreter?races=1").load(pd.compile(text, targets=target)).f(*arguments))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", ["sm_70", "sm_75"])
def test_halves_on_older_machines(target: str) -> None:
    a, b = whole(1, (40, 24), "f16"), whole(2, (24, 48), "f16")
    same(matmul(40, 48, 24, "f16"), product(a, b, "f32"), a, b, target=target)


def test_bf16() -> None:
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = whole(1, (40, 40), "f32").astype(bf16), whole(2, (40, 48), "f32").astype(bf16)
    same(matmul(40, 48, 40, "bf16"), product(a, b, "f32"), a, b)


TILES = [
    (element, number, open_)
    for element, table in (("f32", tiles.TILES_32), ("f64", tiles.TILES_64), ("f16", tiles.TENSOR_TILES))
    for number in range(len(table))
    for open_ in (False, True)[: 2 - number % 2]
]


@pytest.mark.parametrize("element,number,open_", TILES)
def test_every_tile(element: str, number: int, open_: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that only larger products choose: one whole tile and parts beside it."""
    monkeypatch.setattr(plans, "choose_tile", lambda table, *sizes: table[number])
    table = {"f32": tiles.TILES_32, "f64": tiles.TILES_64, "f16": tiles.TENSOR_TILES}[element]
    m, n, k = table[number].height + 2, table[number].width + 4, table[number].depth + 4
    text = matmul(-1, -1, -1, element, element) if open_ else matmul(m, n, k, element, element)
    a, b = whole(1, (m, k), element, 3), whole(2, (k, n), element, 3)
    loaded = pd.device("ptx-interpreter?races=1").load(pd.compile(text, targets="sm_80"))
    np.testing.assert_array_equal(np.asarray(loaded.f(a, b)), product(a, b, element))
