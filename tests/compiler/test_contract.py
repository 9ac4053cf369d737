"""Contractions against NumPy: every form, type and CPU level, static and dynamic, with what is fused around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import machine_levels
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pydispatch as pd

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64,
}  # fmt: skip
LEVELS = machine_levels.of_this_machine("generic", "x86-64-v3", "x86-64-v4", "native")
SIZES = st.sampled_from([0, 1, 2, 3, 5, 7, 13, 14, 16, 17, 31, 33, 64, 67, 97, 130])


def random(rng: np.random.Generator, shape: Sequence[int], type_: str) -> Array:
    if type_.startswith("f"):
        return rng.standard_normal(tuple(shape)).astype(DTYPES[type_])
    info = np.iinfo(DTYPES[type_])
    return rng.integers(info.min, info.max, tuple(shape), dtype=DTYPES[type_], endpoint=True)


def tensor(shape: Sequence[int], type_: str, dynamic: bool = False) -> str:
    return f"tensor<{''.join(('?' if dynamic else str(n)) + 'x' for n in shape)}{type_}>"


def product(a: str, b: str, type_: str, acc: str) -> str:
    """Lines of a body: %p = ext(%a) * ext(%b)."""
    f = "f" if acc.startswith("f") else "i"
    if type_ == acc:
        return f"%p = arith.mul{f} {a}, {b} : {acc}"
    ext = "extf" if f == "f" else "extsi"
    return f"""%ea = arith.{ext} {a} : {type_} to {acc}
      %eb = arith.{ext} {b} : {type_} to {acc}
      %p = arith.mul{f} %ea, %eb : {acc}"""


def contraction(
    maps: Sequence[str], iterators: str, shapes: Sequence[Sequence[int]], type_: str = "f32", acc: str = "f32",
    dynamic: bool = False, after: str = "", result: str = "", start: bool = False,
) -> str:  # fmt: skip
    """A function of one contraction. maps, shapes: of A, B, C. start: sums begin with a third argument."""
    ta, tb, tc = (tensor(s, t, dynamic) for s, t in zip(shapes, (type_, type_, acc), strict=True))
    f = "f" if acc.startswith("f") else "i"
    names = {"p": "parallel", "r": "reduction"}
    dims = ", ".join(f'"{names[i]}"' for i in iterators)
    affine = ", ".join(f"affine_map<{m}>" for m in maps)
    third = f"%c: {tc}" if start else ""
    if dynamic and not start:
        third = "".join(f", %s{i}: index" for i in range(len(shapes[2])))[2:]
        sizes = ", ".join(f"%s{i}" for i in range(len(shapes[2])))
    else:
        sizes = ""
    zero = "0.0" if f == "f" else "0"
    begin = (
        ""
        if start
        else f"""
  %zero = arith.constant {zero} : {acc}
  %e = tensor.empty({sizes}) : {tc}
  %c = linalg.fill ins(%zero : {acc}) outs(%e : {tc}) -> {tc}"""
    )
    return f"""
func.func @f(%a: {ta}, %b: {tb}{", " + third if third else ""}) -> {result or tc} {{{begin}
  %r = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{dims}]}}
      ins(%a, %b : {ta}, {tb}) outs(%c : {tc}) {{
    ^bb0(%x: {type_}, %y: {type_}, %s: {acc}):
      {product("%x", "%y", type_, acc)}
      %q = arith.add{f} %s, %p : {acc}
      linalg.yield %q : {acc}
  }} -> {tc}
  {after or f"return %r : {tc}"}
}}
"""


def run(text: str, *arguments: Any, cpu: str = "native", workers: int = 2) -> Array:
    artifact = pd.compile(text, targets="cpu", cpu=cpu)
    result: Array = pd.device(f"cpu?workers={workers}").load(artifact).f(*arguments)
    return result


def check(found: Array, expected: Array, type_: str = "f32", terms: int = 1) -> None:
    assert found.shape == expected.shape
    if not type_.startswith("f"):
        np.testing.assert_array_equal(found, expected)
        return
    digits = {"f16": 1e-3, "f32": 1e-6, "f64": 1e-14}[type_]
    np.testing.assert_allclose(found, expected, rtol=4 * digits, atol=digits * 8 * (terms + 4))


FORMS = {
    "matmul": (["(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(m,n)"], "ppr", "mk,kn->mn"),
    "transpose a": (["(m,n,k)->(k,m)", "(m,n,k)->(k,n)", "(m,n,k)->(m,n)"], "ppr", "km,kn->mn"),
    "transpose b": (["(m,n,k)->(m,k)", "(m,n,k)->(n,k)", "(m,n,k)->(m,n)"], "ppr", "mk,nk->mn"),
    "transposed result": (["(m,n,k)->(m,k)", "(m,n,k)->(k,n)", "(m,n,k)->(n,m)"], "ppr", "mk,kn->nm"),
    "batch": (["(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(b,k,n)", "(b,m,n,k)->(b,m,n)"], "pppr", "bmk,bkn->bmn"),
    "batch transpose b": (["(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(b,n,k)", "(b,m,n,k)->(b,m,n)"], "pppr", "bmk,bnk->bmn"),
    "shared b": (["(b,m,n,k)->(b,m,k)", "(b,m,n,k)->(k,n)", "(b,m,n,k)->(b,m,n)"], "pppr", "bmk,kn->bmn"),
    "matvec": (["(m,k)->(m,k)", "(m,k)->(k)", "(m,k)->(m)"], "pr", "mk,k->m"),
    "vecmat": (["(n,k)->(k)", "(n,k)->(k,n)", "(n,k)->(n)"], "pr", "k,kn->n"),
    "dot": (["(k)->(k)", "(k)->(k)", "(k)->()"], "r", "k,k->"),
    "two reductions": (["(m,n,j,k)->(m,j,k)", "(m,n,j,k)->(j,k,n)", "(m,n,j,k)->(m,n)"], "pprr", "mjk,jkn->mn"),
    "outer": (["(m,n,k)->(m,k)", "(m,n,k)->(n)", "(m,n,k)->(m,n)"], "ppr", "mk,n->mn"),
}


def shapes_of(form: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    subscripts = FORMS[form][2]
    return [tuple(sizes[c] for c in part) for part in subscripts.replace("->", ",").split(",")]


def expected_of(form: str, a: Array, b: Array, acc: str) -> Array:
    wide = np.float32 if acc == "f16" else DTYPES[acc]
    result: Array = np.asarray(np.einsum(FORMS[form][2], a.astype(wide), b.astype(wide)))
    return result.astype(DTYPES[acc])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(sizes=st.fixed_dictionaries({d: SIZES for d in "mnk"} | dict.fromkeys("bj", st.sampled_from([1, 3]))),
       level=st.sampled_from(LEVELS))  # fmt: skip
def test_forms(form: str, dynamic: bool, sizes: dict[str, int], level: str) -> None:
    rng = np.random.default_rng(3)
    shapes = shapes_of(form, sizes)
    a, b = (random(rng, s, "f32") for s in shapes[:2])
    text = contraction(FORMS[form][0], FORMS[form][1], shapes, dynamic=dynamic)
    extra = shapes[2] if dynamic else ()
    check(run(text, a, b, *extra, cpu=level), expected_of(form, a, b, "f32"), terms=sizes["k"] * 3)


TYPES = [("f64", "f64"), ("f16", "f32"), ("f16", "f16"), ("i8", "i32"), ("i16", "i32"), ("i16", "i16"), ("i8", "i8"),
         ("i32", "i32"), ("i64", "i64"), ("f32", "f64")]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("type_", "acc"), TYPES, ids=lambda t: str(t))
def test_types(type_: str, acc: str, level: str) -> None:
    rng = np.random.default_rng(5)
    cases = {"matmul": (37, 45, 29), "transpose b": (20, 18, 33), "vecmat": (1, 33, 17), "dot": (1, 1, 101)}
    for form, sizes in cases.items():
        named = dict(zip("mnk", sizes, strict=True))
        shapes = shapes_of(form, named)
        a, b = (random(rng, s, type_) for s in shapes[:2])
        text = contraction(FORMS[form][0], FORMS[form][1], shapes, type_, acc)
        check(run(text, a, b, cpu=level), expected_of(form, a, b, acc), acc, named["k"])


def test_large_blocks_of_k() -> None:
    """K in several packings, and tiles that the last block moves back into."""
    rng = np.random.default_rng(6)
    for m, n, k in ((15, 300, 4000), (230, 70, 1201), (3, 2049, 70)):
        shapes = shapes_of("matmul", {"m": m, "n": n, "k": k})
        a, b = (random(rng, s, "f64") for s in shapes[:2])
        text = contraction(FORMS["matmul"][0], "ppr", shapes, "f64", "f64")
        check(run(text, a, b), a @ b, "f64", k)


def test_sums_begin_with_a_tensor() -> None:
    rng = np.random.default_rng(7)
    for m, n, k in ((40, 50, 30), (3, 5, 2000), (17, 33, 0)):
        for dynamic in (False, True):
            shapes = shapes_of("matmul", {"m": m, "n": n, "k": k})
            a, b, c = (random(rng, s, "f32") for s in shapes)
            text = contraction(FORMS["matmul"][0], "ppr", shapes, start=True, dynamic=dynamic)
            check(run(text, a, b, c), a @ b + c, terms=k)


def test_the_number_of_workers_does_not_show() -> None:
    rng = np.random.default_rng(8)
    shapes = shapes_of("matmul", {"m": 300, "n": 300, "k": 300})
    a, b = (random(rng, s, "f32") for s in shapes[:2])
    text = contraction(FORMS["matmul"][0], "ppr", shapes)
    one, three = (run(text, a, b, workers=w) for w in (1, 3))
    assert one.tobytes() == three.tobytes()


@pytest.mark.parametrize("cpu", ["x86-64-v3", "skylake-avx512"])
def test_sums_stay_in_registers_beside_a_function_of_many_constants(tmp_path: Path, cpu: str) -> None:
    """No step of K stores or loads a sum, whatever follows the product."""
    text = """
!T = tensor<16x64xf32>
func.func @f(%a: !T, %b: tensor<64x64xf32>) -> !T {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !T
  %z = linalg.fill ins(%zero : f32) outs(%e : !T) -> !T
  %m = linalg.matmul ins(%a, %b : !T, tensor<64x64xf32>) outs(%z : !T) -> !T
  %t = math.tanh %m : !T
  return %t : !T
}
"""
    pd.compile(text, targets="x86_64", cpu=cpu, dump=tmp_path)
    (assembly,) = tmp_path.glob("*.s")
    blocks = [text.partition("\n\tj")[0] for text in re.split(r"(?m)^\.LBB\w+:", assembly.read_text())]
    sums = max(blocks, key=lambda block: len(re.findall(r"vfmadd231ps", block)))
    assert len(re.findall(r"vfmadd231ps", sums)) >= 16
    assert "%rsp" not in sums
