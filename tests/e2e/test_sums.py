"""How exact sums are: long ones go in blocks, small floats accumulate in f32, on every device."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd

DEVICES = {"cpu": "cpu", "vulkan": "vulkan", "ptx-interpreter": "sm_80"}
LEVELS = ["generic", "x86-64-v3", "x86-64-v4"]
TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32)}
HALF_ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}

REDUCE = """
func.func @f(%x: tensor<SHAPE>) -> tensor<RESULT> {
  %zero = arith.constant 0.0 : TYPE
  DIM
  %empty = tensor.empty(SIZE) : tensor<RESULT>
  %begin = linalg.fill ins(%zero : TYPE) outs(%empty : tensor<RESULT>) -> tensor<RESULT>
  %sum = linalg.generic {indexing_maps = [affine_map<LOOPS -> LOOPS>, affine_map<LOOPS -> KEPT>],
      iterator_types = [KINDS]} ins(%x : tensor<SHAPE>) outs(%begin : tensor<RESULT>) {
  ^bb0(%a: TYPE, %b: TYPE):
    %c = arith.addf %a, %b : TYPE
    linalg.yield %c : TYPE
  } -> tensor<RESULT>
  return %sum : tensor<RESULT>
}
"""


def source(shape: tuple[int, ...], type_: str, axes: set[int], dynamic: bool) -> str:
    """A sum over `axes`."""
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    sizes = ["?" if dynamic else str(n) for n in shape]
    words = {
        "SHAPE": "x".join([*sizes, type_]),
        "RESULT": "x".join([*(sizes[axis] for axis in kept), type_]),
        "LOOPS": f"({', '.join(f'd{axis}' for axis in range(len(shape)))})",
        "KEPT": f"({', '.join(f'd{axis}' for axis in kept)})",
        "KINDS": ", ".join('"reduction"' if axis in axes else '"parallel"' for axis in range(len(shape))),
        "DIM": "\n".join(
            f"%c{axis} = arith.constant {axis} : index\n"
            f"%n{axis} = tensor.dim %x, %c{axis} : tensor<{'x'.join([*sizes, type_])}>"
            for axis in kept if dynamic
        ),
        "SIZE": ", ".join(f"%n{axis}" for axis in kept if dynamic),
        "TYPE": type_,
    }  # fmt: skip
    text = REDUCE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def run(text: str, x: np.ndarray, device: str = "cpu", cpu: str | None = None) -> np.ndarray:
    options = {} if cpu is None else {"cpu": cpu}
    program = pd.device(device).load(pd.compile(text, targets=DEVICES[device], **options))
    return np.asarray(program.f(x)).astype(np.float64)


def has(cpu: str) -> bool:
    """Whether this machine runs a level."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return cpu == "generic" or {"x86-64-v3": "avx2", "x86-64-v4": "avx512bw"}[cpu] in flags


@pytest.mark.parametrize("cpu", [c for c in LEVELS if has(c)])
@pytest.mark.parametrize("size", [1 << 24, (1 << 24) - 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_sixteen_million(cpu: str, size: int, dynamic: bool) -> None:
    x = np.random.default_rng(size).random(size, dtype=np.float32)
    exact = x.astype(np.float64).sum()
    assert abs(run(source((size,), "f32", {0}, dynamic), x, cpu=cpu) - exact) <= 3e-7 * exact


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"), [((40000, 16), {0}), ((1 << 20, 3), {0}), ((3, 300007), {1}), ((257, 129, 65), {0, 2})]
)
def test_sums_of_many_into_several(shape: tuple[int, ...], axes: set[int], dynamic: bool) -> None:
    x = np.random.default_rng(1).random(shape, dtype=np.float32)
    exact = x.astype(np.float64).sum(axis=tuple(axes))
    np.testing.assert_allclose(run(source(shape, "f32", axes, dynamic), x), exact, rtol=1.5e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_small_floats_do_not_stagnate(device: str, type_: str, dynamic: bool) -> None:
    """A running sum in the type itself ends at 4 (f16) or 0.5 (bf16)."""
    x = np.full(4096, 0.001, TYPES[type_])
    exact = float(x[0]) * 4096
    assert abs(run(source((4096,), type_, {0}, dynamic), x, device) - exact) <= exact * HALF_ULP[type_] * 1.01


PRODUCT = """
func.func @f(%a: tensor<A>, %b: tensor<B>) -> tensor<C> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<C>
  %begin = linalg.fill ins(%zero : f16) outs(%empty : tensor<C>) -> tensor<C>
  %r = linalg.OP ins(%a, %b : tensor<A>, tensor<B>) outs(%begin : tensor<C>) -> tensor<C>
  return %r : tensor<C>
}
"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [("matmul", ((2, 4096), (4096, 3), (2, 3))), ("matmul", ((20, 4096), (4096, 24), (20, 24))),
     ("matvec", ((3, 4096), (4096,), (3,))), ("vecmat", ((4096,), (4096, 5), (5,))), ("dot", ((4096,), (4096,), ()))],
)  # fmt: skip
def test_products_of_halves(device: str, op: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """In whatever way a product is computed, it adds up in f32."""
    text = PRODUCT.replace("OP", op)
    for name, shape in zip("ABC", shapes, strict=True):
        text = text.replace(f"tensor<{name}>", f"tensor<{'x'.join([*map(str, shape), 'f16'])}>")
    a, b = np.full(shapes[0], 0.25, np.float16), np.full(shapes[1], 0.01, np.float16)
    exact = 4096 * 0.25 * float(b.flat[0])
    got = np.asarray(pd.device(device).load(pd.compile(text, targets=DEVICES[device])).f(a, b)).astype(np.float64)
    assert got.shape == shapes[2] and np.all(np.abs(got - exact) <= exact * HALF_ULP["f16"] * 1.01)


@st.composite
def sums(draw: st.DrawFn, most: int) -> tuple[tuple[int, ...], set[int], str, bool, int]:
    rank = draw(st.integers(1, 3))
    shape = []
    for left in range(rank, 0, -1):
        limit = max(1, int((most // math.prod(shape)) ** (1 / left)))
        shape.append(
            draw(
                st.one_of(
                    st.integers(1, limit),
                    st.sampled_from([n for n in (1, 2, 3, 63, 64, 65, 4096, 4097, 8191) if n <= limit]),
                )
            )
        )
    axes = draw(st.sets(st.integers(0, rank - 1), min_size=1))
    return tuple(shape), axes, draw(st.sampled_from(sorted(TYPES))), draw(st.booleans()), draw(st.integers(0, 1000))


def check(case: tuple[tuple[int, ...], set[int], str, bool, int], device: str, cpu: str | None = None) -> None:
    """Within the bound of docs/math.md."""
    shape, axes, type_, dynamic, seed = case
    x = np.random.default_rng(seed).standard_normal(shape).astype(TYPES[type_])
    wide = x.astype(np.float64)
    exact, size = wide.sum(axis=tuple(axes)), np.abs(wide).sum(axis=tuple(axes))
    steps = math.prod(shape[axis] for axis in axes)
    bound = min(steps, 4096 + 256) * 2.0**-24 * size + (HALF_ULP[type_] * np.abs(exact) if type_ != "f32" else 0)
    got = run(source(shape, type_, axes, dynamic), x, device, cpu)
    assert np.all(np.abs(got - exact) <= bound * 1.01 + 1e-7), (got, exact, bound)


@pytest.mark.parametrize("cpu", [c for c in LEVELS if has(c)])
@settings(max_examples=15, deadline=None)
@given(case=sums(100_000))
def test_within_the_bound(cpu: str, case: tuple[tuple[int, ...], set[int], str, bool, int]) -> None:
    check(case, "cpu", cpu)


@pytest.mark.parametrize("device", ["vulkan", "ptx-interpreter"])
@settings(max_examples=10, deadline=None)
@given(case=sums(9_000))
def test_within_the_bound_elsewhere(device: str, case: tuple[tuple[int, ...], set[int], str, bool, int]) -> None:
    check(case, device)


def test_the_order_is_the_shapes() -> None:
    """Any number of workers, the same bits."""
    x = np.random.default_rng(2).standard_normal(3_000_017).astype(np.float32)
    artifact = pd.compile(source((3_000_017,), "f32", {0}, False))
    found = {float(pd.device(f"cpu?workers={n}").load(artifact).f(x)) for n in (1, 2, 3, 7)}
    assert len(found) == 1


def test_written_order_is_kept_where_it_is_asked_for() -> None:
    x = np.random.default_rng(3).random(10_000, dtype=np.float32)
    program = pd.device("cpu").load(pd.compile(source((10_000,), "f32", {0}, False), reassociate=False))
    total = np.float32(0)
    for value in x:
        total += value
    assert program.f(x) == total
