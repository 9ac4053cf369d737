"""Contractions whose number of rows only the call knows: a single row, less than a block, and more."""

from __future__ import annotations

from typing import Any

import machine_levels
import numpy as np
import pytest
from test_contract import DTYPES, run
from test_contract_wide import small

ROWS = (0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 27, 40, 113)
FORMS = {"mk,kn->mn": "matmul", "mk,nk->mn": "matmul_transpose_b", "km,kn->mn": "matmul_transpose_a",
         "bmk,bkn->bmn": "batch_matmul"}  # fmt: skip


def program(sums: str, sizes: dict[str, int], types: tuple[str, str]) -> str:
    shapes = ["".join(f"{'?' if d == 'm' else sizes[d]}x" for d in part) for part in sums.replace("->", ",").split(",")]
    ta, tb, tc = (f"tensor<{s}{t}>" for s, t in zip(shapes, (types[0], types[0], types[1]), strict=True))
    f = "f" if types[1].startswith("f") else "i"
    out = sums.rpartition(">")[2]
    identity = f"affine_map<({', '.join(out)}) -> ({', '.join(out)})>"
    column = f"affine_map<({', '.join(out)}) -> ({out[-1]})>"
    bias = f"tensor<{shapes[2].split('x')[-2]}x{types[1]}>"
    return f"""
func.func @f(%a: {ta}, %b: {tb}, %bias: {bias}, %m: index) -> {tc} {{
  %zero = arith.constant {"0.0" if f == "f" else "0"} : {types[1]}
  %e = tensor.empty(%m) : {tc}
  %z = linalg.fill ins(%zero : {types[1]}) outs(%e : {tc}) -> {tc}
  %r = linalg.{FORMS[sums]} ins(%a, %b : {ta}, {tb}) outs(%z : {tc}) -> {tc}
  %q = linalg.generic {{indexing_maps = [{identity}, {column}, {identity}],
      iterator_types = [{", ".join(['"parallel"'] * len(out))}]}} ins(%r, %bias : {tc}, {bias}) outs(%e : {tc}) {{
    ^bb0(%x: {types[1]}, %y: {types[1]}, %o: {types[1]}):
      %s = arith.add{f} %x, %y : {types[1]}
      linalg.yield %s : {types[1]}
  }} -> {tc}
  return %q : {tc}
}}
"""


@pytest.mark.parametrize("level", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("types", [("f32", "f32"), ("i8", "i32"), ("f16", "f32"), ("f64", "f64")], ids="-".join)
@pytest.mark.parametrize("sums", FORMS)
def test_rows_at_run_time(sums: str, types: tuple[str, str], level: str) -> None:
    import pydispatch as pd

    rng = np.random.default_rng(1)
    exact: Any = np.int64 if types[1] == "i32" else np.float64
    for k, n in ((33, 70), (200, 5)):
        sizes = {"k": k, "n": n, "b": 2, "m": 1}
        f = pd.device("cpu?workers=2").load(pd.compile(program(sums, sizes, types), targets="cpu", cpu=level)).f
        for m in ROWS:
            sizes["m"] = m
            left, right, out = [tuple(sizes[d] for d in p) for p in sums.replace("->", ",").split(",")]
            a, b = small(rng, left, types[0]), small(rng, right, types[0])
            bias = small(rng, out[-1:], types[1])
            expected = (np.einsum(sums, a.astype(exact), b.astype(exact)) + bias).astype(DTYPES[types[1]])
            np.testing.assert_array_equal(f(a, b, bias, m), expected)


@pytest.mark.parametrize("m", [1, 5, 40])
def test_workers_do_not_show(m: int) -> None:
    rng = np.random.default_rng(2)
    text = program("mk,kn->mn", {"k": 100, "n": 300, "m": 1}, ("f32", "f32"))
    a, b = rng.standard_normal((m, 100)).astype(np.float32), rng.standard_normal((100, 300)).astype(np.float32)
    one, three = (run(text, a, b, np.zeros(300, np.float32), m, workers=w) for w in (1, 3))
    assert one.tobytes() == three.tobytes()
