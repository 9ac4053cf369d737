"""Rare contractions: unsigned, small and mixed types, zero points at run time, tiled operands, results in place."""

from __future__ import annotations

from typing import Any

import machine_levels
import ml_dtypes
import numpy as np
import pytest
from test_contract import Array, run, tensor

LEVELS = machine_levels.parameters(["generic", "x86-64-v3", "native"])
DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def small(rng: np.random.Generator, shape: tuple[int, ...], type_: str) -> Array:
    """Small whole numbers, whose sums of products are exact in every type of sums."""
    return rng.integers(-4, 5, shape).astype(DTYPES[type_])


def sizes_of(shape: tuple[int, ...]) -> str:
    return ", ".join(f"%s{i}" for i in range(len(shape)))


def named(
    op: str, shapes: list[tuple[int, ...]], types: list[str], dynamic: bool, start: bool = False, more: str = ""
) -> str:
    """A function of one named operation: %a, %b, then %c or the sizes of the result. more: further scalar operands
    i32 `%z0`, `%z1` in words."""
    ta, tb, tc = (tensor(s, t, dynamic) for s, t in zip(shapes, types, strict=True))
    arguments = [f"%a: {ta}", f"%b: {tb}"]
    operands, kinds = "%a, %b", f"{ta}, {tb}"
    if more:
        arguments += ["%z0: i32", "%z1: i32"]
        operands, kinds = operands + ", %z0, %z1", kinds + ", i32, i32"
    begin = ""
    if start:
        arguments.append(f"%c: {tc}")
    else:
        arguments += [f"%s{i}: index" for i in range(len(shapes[2])) if dynamic]
        zero = "0.0" if types[2][0] in "fb" else "0"
        begin = f"""
  %zero = arith.constant {zero} : {types[2]}
  %e = tensor.empty({sizes_of(shapes[2]) if dynamic else ""}) : {tc}
  %c = linalg.fill ins(%zero : {types[2]}) outs(%e : {tc}) -> {tc}"""
    return f"""
func.func @f({", ".join(arguments)}) -> {tc} {{{begin}
  %r = linalg.{op} ins({operands} : {kinds}) outs(%c : {tc}) -> {tc}
  return %r : {tc}
}}
"""


def extra(shape: tuple[int, ...], dynamic: bool) -> tuple[int, ...]:
    return shape if dynamic else ()


DYNAMIC = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


@DYNAMIC
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("types", [("i8", "i32"), ("i16", "i32"), ("i8", "i16"), ("i32", "i64"), ("i8", "i64")])
def test_unsigned(types: tuple[str, str], level: str, dynamic: bool) -> None:
    rng = np.random.default_rng(1)
    narrow, wide = DTYPES[types[0]], DTYPES[types[1]]
    unsigned = np.dtype(narrow.__name__.replace("int", "uint"))
    top = np.iinfo(unsigned).max
    a, b = (rng.integers(0, top, s, dtype=unsigned, endpoint=True) for s in ((19, 37), (37, 35)))
    expected = (a.astype(np.uint64) @ b.astype(np.uint64)).astype(wide)
    op = "matmul {cast = #linalg.type_fn<cast_unsigned>}"
    text = named(op, [a.shape, b.shape, (19, 35)], [types[0], types[0], types[1]], dynamic)
    found = run(text, a.view(narrow), b.view(narrow), *extra((19, 35), dynamic), cpu=level)
    np.testing.assert_array_equal(found, expected)


@DYNAMIC
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "types",
    [("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f16"), ("f16", "f32", "f32"),
     ("f8E4M3FN", "f8E4M3FN", "f32"), ("f8E5M2", "f8E5M2", "f32"), ("f8E4M3FNUZ", "f8E5M2FNUZ", "f32"),
     ("f8E4M3FN", "bf16", "f32"), ("f8E5M2", "f8E5M2", "f16"), ("f32", "f64", "f64"), ("i8", "i16", "i32"),
     ("i16", "i8", "i64"), ("i8", "i32", "i32")],
    ids=lambda t: "-".join(t),
)  # fmt: skip
def test_mixed_types(types: tuple[str, str, str], level: str, dynamic: bool) -> None:
    rng = np.random.default_rng(2)
    for m, k, n in ((15, 33, 18), (1, 20, 40), (5, 0, 6)):
        a, b = small(rng, (m, k), types[0]), small(rng, (k, n), types[1])
        exact = np.int64 if types[2].startswith("i") else np.float64
        expected = (a.astype(exact) @ b.astype(exact)).astype(DTYPES[types[2]])
        text = named("matmul", [a.shape, b.shape, (m, n)], list(types), dynamic)
        found = np.asarray(run(text, a, b, *extra((m, n), dynamic), cpu=level))
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@DYNAMIC
@pytest.mark.parametrize("zeros", [(0, 0), (3, -7), (-128, 127), (100000, -3)])
def test_zero_points_at_run_time(zeros: tuple[int, int], dynamic: bool) -> None:
    rng = np.random.default_rng(3)
    for m, k, n in ((17, 40, 33), (1, 65, 20), (4, 1, 3), (3, 0, 4)):
        a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
        expected = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
        text = named("quantized_matmul", [a.shape, b.shape, (m, n)], ["i8", "i8", "i32"], dynamic, more="zeros")
        found = run(text, a, b, *zeros, *extra((m, n), dynamic))
        np.testing.assert_array_equal(found, expected.astype(np.int32))


@DYNAMIC
@pytest.mark.parametrize("op", ["conv_2d_nhwc_hwcf_q", "conv_2d_nchw_fchw_q", "depthwise_conv_2d_nhwc_hwc_q"])
def test_zero_points_of_convolutions_at_run_time(op: str, dynamic: bool) -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(-128, 128, (2, 8, 9, 5)).astype(np.int8)
    depthwise = op.startswith("depthwise")
    w = rng.integers(-128, 128, (3, 3, 5) if depthwise else (3, 3, 5, 18)).astype(np.int8)
    seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32) - 11, (3, 3), axis=(1, 2))
    sums = "nxycij,ijc->nxyc" if depthwise else "nxycij,ijcf->nxyf"
    expected = np.einsum(sums, seen, w.astype(np.int32) + 9)
    if "nchw" in op:
        x, w, expected = (np.ascontiguousarray(t.transpose(p)) for t, p in (
            (x, (0, 3, 1, 2)), (w, (3, 2, 0, 1)), (expected, (0, 3, 1, 2))))  # fmt: skip
    text = named(op, [x.shape, w.shape, expected.shape], ["i8", "i8", "i32"], dynamic, more="zeros")
    found = run(text, x, w, 11, -9, *extra(expected.shape, dynamic))
    np.testing.assert_array_equal(found, expected)


@DYNAMIC
@pytest.mark.parametrize("types", [("f32", "f32"), ("i8", "i32"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f64")])
@pytest.mark.parametrize("batch", [None, 3])
def test_tiled_operands(batch: int | None, types: tuple[str, str], dynamic: bool) -> None:
    rng = np.random.default_rng(5)
    for m, n, k in ((3, 4, 5), (1, 7, 2), (2, 1, 0)):
        lead = () if batch is None else (batch,)
        for tile in ((8, 8, 1), (4, 16, 2), (1, 3, 4)):
            a = small(rng, (*lead, m, k, tile[0], tile[2]), types[0])
            b = small(rng, (*lead, n, k, tile[1], tile[2]), types[0])
            c = small(rng, (*lead, m, n, tile[0], tile[1]), types[1])
            sums = "mkxz,nkyz->mnxy" if batch is None else "bmkxz,bnkyz->bmnxy"
            exact = np.int64 if types[1].startswith("i") else np.float64
            expected = (c.astype(exact) + np.einsum(sums, a.astype(exact), b.astype(exact))).astype(DTYPES[types[1]])
            op = "mmt4d" if batch is None else "batch_mmt4d"
            text = named(op, [a.shape, b.shape, c.shape], [types[0], types[0], types[1]], dynamic, start=True)
            np.testing.assert_array_equal(run(text, a, b, c), expected)


@DYNAMIC
@pytest.mark.parametrize("op", ["matmul", "batch_reduce_matmul", "matvec", "vecmat", "dot"])
def test_sums_begin_with_an_argument(op: str, dynamic: bool) -> None:
    rng = np.random.default_rng(6)
    sums = {"matmul": "mk,kn->mn", "batch_reduce_matmul": "bmk,bkn->mn", "matvec": "mk,k->m", "vecmat": "k,kn->n",
            "dot": "k,k->"}[op]  # fmt: skip
    for m, k, n in ((1, 1, 1), (13, 300, 17), (5, 0, 7), (0, 4, 3), (129, 31, 67)):
        sizes = {"m": m, "k": k, "n": n, "b": 3}
        shapes = [tuple(sizes[d] for d in part) for part in sums.replace("->", ",").split(",")]
        a, b, c = (small(rng, s, "f32") for s in shapes)
        text = named(op, shapes, ["f32"] * 3, dynamic, start=True)
        np.testing.assert_array_equal(run(text, a, b, c), c + np.einsum(sums, a, b))


@DYNAMIC
def test_products_inserted_into_an_argument(dynamic: bool) -> None:
    """A contraction whose result becomes a slice of an argument, and one that begins with such a slice."""
    rng = np.random.default_rng(7)
    a, b, c = small(rng, (6, 11), "f32"), small(rng, (11, 9), "f32"), small(rng, (20, 30), "f32")
    t = [tensor(s, "f32", dynamic) for s in (a.shape, b.shape, c.shape)]
    r = tensor((6, 9), "f32", dynamic)
    text = f"""
func.func @f(%a: {t[0]}, %b: {t[1]}, %c: {t[2]}, %m: index, %n: index) -> {t[2]} {{
  %old = tensor.extract_slice %c[3, 5] [{"%m, %n" if dynamic else "6, 9"}] [1, 2] : {t[2]} to {r}
  %r = linalg.matmul ins(%a, %b : {t[0]}, {t[1]}) outs(%old : {r}) -> {r}
  %new = tensor.insert_slice %r into %c[3, 5] [{"%m, %n" if dynamic else "6, 9"}] [1, 2] : {r} into {t[2]}
  return %new : {t[2]}
}}
"""
    expected = c.copy()
    expected[3:9, 5:23:2] += a @ b
    before = c.copy()
    np.testing.assert_array_equal(run(text, a, b, c, 6, 9), expected)
    np.testing.assert_array_equal(c, before)
