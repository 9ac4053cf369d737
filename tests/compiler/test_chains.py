"""A product, rows computed from it and a product of the rows: one dispatch on the CPU, and right everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.formats.artifact import dispatches


def count(artifact: pd.Artifact) -> int:
    """The dispatches of function f."""
    return len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["f"])


def text(h: int, q: int, k: int, d: int, e: int, element: str, mask: bool = True, transposed: bool = False) -> str:
    """softmax(queries * keys / 2 + mask) * values, for h heads. transposed: values have their rows last."""

    def t(*shape: int) -> str:
        return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"

    loops = 'iterator_types = ["parallel", "parallel", "parallel", "reduction"]'
    product = f"^bb0(%a: {element}, %b: {element}, %c: {element}):\n%ab = arith.mulf %a, %b : {element}\n"
    product += f"%abc = arith.addf %c, %ab : {element}\nlinalg.yield %abc : {element} }}"
    values = t(h, e, k) if transposed else t(h, k, e)
    map_ = "d0, d2, d3" if transposed else "d0, d3, d2"
    added = "%t = arith.addf %u, %mask" if mask else "%t = arith.mulf %u, %halves"
    return f"""func.func @f(%q: {t(h, q, d)}, %k: {t(h, k, d)}, %v: {values}, %mask: {t(h, q, k)}) -> {t(h, q, e)} {{
  %zero = arith.constant 0.0 : {element}
  %half = arith.constant 0.5 : {element}
  %i = tensor.splat %zero : {t(h, q, k)}
  %s = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>,
    affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], {loops}}}
    ins(%q, %k : {t(h, q, d)}, {t(h, k, d)}) outs(%i : {t(h, q, k)}) {{
    {product} -> {t(h, q, k)}
  %halves = tensor.splat %half : {t(h, q, k)}
  %u = arith.mulf %s, %halves : {t(h, q, k)}
  {added} : {t(h, q, k)}
  %e = tensor.empty() : {t(h, q, k)}
  %w = linalg.softmax dimension(2) ins(%t : {t(h, q, k)}) outs(%e : {t(h, q, k)}) -> {t(h, q, k)}
  %j = tensor.splat %zero : {t(h, q, e)}
  %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>,
    affine_map<(d0, d1, d2, d3) -> ({map_})>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], {loops}}}
    ins(%w, %v : {t(h, q, k)}, {values}) outs(%j : {t(h, q, e)}) {{
    {product} -> {t(h, q, e)}
  return %r : {t(h, q, e)}
}}"""


def arrays(
    seed: int, h: int, q: int, k: int, d: int, e: int, dtype: type, transposed: bool = False
) -> list[np.ndarray]:  # fmt: skip
    rng = np.random.default_rng(seed)
    shapes = [(h, q, d), (h, k, d), (h, e, k) if transposed else (h, k, e), (h, q, k)]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray, transposed: bool = False) -> np.ndarray:
    scores = np.einsum("hqd,hkd->hqk", q, k, dtype=np.float64) / 2 + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hqk,hek->hqe" if transposed else "hqk,hke->hqe", weights, v)


TYPES = [("f32", np.float32, 1e-5), ("f64", np.float64, 1e-12)]
SIZES = st.tuples(*(st.integers(1, n) for n in (3, 40, 70, 20, 40)))


@settings(max_examples=30, deadline=None)
@given(SIZES, st.sampled_from(TYPES), st.booleans(), st.integers(0, 9))
def test_any_sizes(sizes: tuple[int, ...], kind: tuple[str, type, float], transposed: bool, seed: int) -> None:
    element, dtype, tolerance = kind
    artifact = pd.compile(text(*sizes, element, transposed=transposed), cpu=["native", "generic"])
    x = arrays(seed, *sizes, dtype, transposed)
    for workers in (1, 2):
        got = pd.device(f"cpu?workers={workers}").load(artifact).f(*x)
        np.testing.assert_allclose(got, expected(*x, transposed), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cpu", ["generic", "native"])
@pytest.mark.parametrize("sizes", [(2, 33, 50, 16, 24), (1, 200, 64, 8, 8), (12, 1, 128, 64, 64), (1, 8, 3000, 16, 16)])
def test_one_dispatch_with_the_same_bits_for_any_number_of_workers(cpu: str, sizes: tuple[int, ...]) -> None:
    artifact = pd.compile(text(*sizes, "f32"), cpu=cpu)
    assert count(artifact) == 1
    x = arrays(1, *sizes, np.float32)
    results = [pd.device(f"cpu?workers={n}").load(artifact).f(*x) for n in (1, 2, 3)]
    np.testing.assert_allclose(results[0], expected(*x), rtol=2e-5, atol=1e-5)
    assert all(np.array_equal(results[0], other) for other in results)


@pytest.mark.parametrize(("device", "target"), [("vulkan", "vulkan"), ("ptx-interpreter", "cuda")])
def test_devices_without_such_kernels_run_three(device: str, target: str) -> None:
    sizes = (2, 9, 17, 8, 12)
    artifact = pd.compile(text(*sizes, "f32"), targets=target)
    x = arrays(2, *sizes, np.float32)
    assert count(artifact) == 3
    np.testing.assert_allclose(np.asarray(pd.device(device).load(artifact).f(*x)), expected(*x), rtol=2e-5, atol=1e-5)


def test_values_that_leave_keep_the_products_apart() -> None:
    result, both = "tensor<2x9x12xf32>", "tensor<2x9x12xf32>, tensor<2x9x17xf32>"
    source = text(2, 9, 17, 8, 12, "f32").replace(f"-> {result} {{", f"-> ({both}) {{", 1)
    artifact = pd.compile(source.replace(f"return %r : {result}", f"return %r, %w : {both}"))
    x = arrays(3, 2, 9, 17, 8, 12, np.float32)
    assert count(artifact) == 3
    got, weights = pd.device("cpu").load(artifact).f(*x)
    np.testing.assert_allclose(got, expected(*x), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_the_written_order_keeps_the_products_apart() -> None:
    assert count(pd.compile(text(2, 9, 17, 8, 12, "f32"), reassociate=False)) > 1
