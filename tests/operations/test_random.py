"""Random numbers: their distribution, and which of them calls, places and loaded programs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import BF16, F16, F32, F64, I32, I64, U8, U32, U64, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import random

RNG = """
func.func @main(%low: tensor<f32>, %high: tensor<f32>) -> tensor<2000xf32> {
  %shape = stablehlo.constant dense<2000> : tensor<1xi64>
  %r = stablehlo.rng %low, %high, %shape, distribution = DISTRIBUTION : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<2000xf32>
  return %r : tensor<2000xf32>
}
"""  # fmt: skip  # noqa: E501


def drawing(seeds: Sequence[int | None], weights: str = "embed") -> pd.Artifact:
    """main(x: f32[n, 400]) gives uniform numbers of this shape for each of the seeds, and normal ones."""
    b = Builder("test.onnx", weights)
    (x,) = b.begin([Input("x", F32, ("n", 400))])
    made: list[Tensor] = [random.uniform(b, random.draw(b, x.shape, seed)[0], F32) for seed in seeds]
    made.append(random.normal(b, *random.draw(b, x.shape), F32))
    b.finish("main", {f"y{number}": t for number, t in enumerate(made)})
    return pd.compile(b.module)


def called(program: Any, rows: int = 50) -> list[np.ndarray[Any, Any]]:
    return [np.array(y) for y in program.main(np.zeros((rows, 400), np.float32))]


@pytest.mark.parametrize("weights", ["embed", "external"])
def test_calls_places_and_programs(weights: str) -> None:
    artifact = drawing([None, None, 3, 3], weights)
    program, again = (pd.device("cpu").load(artifact) for _ in range(2))
    calls = [called(program) for _ in range(3)]
    for number, first in enumerate(calls):
        for a, b in zip(first, called(again), strict=True):  # a program that is loaded again begins anew
            np.testing.assert_array_equal(a, b)
        parts = [*first, *(calls[number + 1] if number < 2 else [])]
        for i, a in enumerate(parts):
            for b in parts[:i]:
                assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.04
    for uniform in calls[0][:4]:
        assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.std() - 12**-0.5) < 0.01
        assert uniform.min() >= 0 and uniform.max() < 1 and len(np.unique(uniform)) > 19000
        counts = np.histogram(uniform, 20, (0, 1))[0]
        assert ((counts - 1000) ** 2 / 1000).sum() < 60  # chi-squared, 19 degrees of freedom
    normal = calls[0][4]
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03 and np.isfinite(normal).all()
    assert abs((np.abs(normal) < 1).mean() - 0.6827) < 0.02 and np.abs(normal).max() < 7


def test_shapes_that_a_call_decides() -> None:
    program = pd.device("cpu").load(drawing([None]))
    assert [y.shape for y in called(program, 3)] == [(3, 400)] * 2
    assert [y.shape for y in called(program, 0)] == [(0, 400)] * 2


def test_numbers_that_nothing_uses_leave_no_state() -> None:
    b = Builder("test.onnx")
    (x,) = b.begin([Input("x", F32, (4,))])
    b.finish("main", {"y": x})
    assert "random" not in str(b.module)


@pytest.mark.parametrize("distribution", ["UNIFORM", "NORMAL"])
def test_stablehlo(distribution: str) -> None:
    artifact = pd.compile(RNG.replace("DISTRIBUTION", distribution))
    low, high = np.array(2, np.float32), np.array(3, np.float32)
    program = pd.device("cpu").load(artifact)
    one, two = (np.array(program.main(low, high)) for _ in range(2))
    np.testing.assert_array_equal(one, pd.device("cpu").load(artifact).main(low, high))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.1
    mean, deviation = (2.5, 12**-0.5) if distribution == "UNIFORM" else (2, 3)
    assert abs(one.mean() - mean) < deviation / 10 and abs(one.std() / deviation - 1) < 0.1


def test_stablehlo_types() -> None:
    """f64 has all its bits, integers are drawn below the upper bound, and have no normal distribution."""
    text = RNG.replace("f32", "f64").replace("DISTRIBUTION", "UNIFORM")
    wide = np.array(pd.device("cpu").load(pd.compile(text)).main(np.array(0.0), np.array(1.0)))
    assert (wide * 2**24 % 1 != 0).mean() > 0.9
    text = RNG.replace("f32", "i32")
    program = pd.device("cpu").load(pd.compile(text.replace("DISTRIBUTION", "UNIFORM")))
    assert np.unique(program.main(np.array(0, np.int32), np.array(5, np.int32))).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(pd.CompileError, match="4:8: error: normal random numbers of i32 are not defined"):
        pd.compile(text.replace("DISTRIBUTION", "NORMAL"))
    with pytest.raises(pd.CompileError, match="4:8: error: uniform random numbers of c64 are not defined"):
        pd.compile(RNG.replace("f32", "complex<f32>").replace("DISTRIBUTION", "UNIFORM"))


@pytest.mark.parametrize(("name", "dtype", "low", "high"), [
    ("bf16", ml_dtypes.bfloat16, 1, 2), ("bf16", ml_dtypes.bfloat16, -1, 0), ("f16", np.float16, 3, 4),
    ("f32", np.float32, 1, 1 + 2**-21), ("f64", np.float64, 1, 1 + 2**-50), ("f8E4M3FN", ml_dtypes.float8_e4m3fn, 0, 1),
    ("i1", np.bool_, 0, 1), ("i4", ml_dtypes.int4, -8, 7), ("i8", np.int8, -128, 127), ("ui8", np.uint8, 250, 255),
    ("i32", np.int32, -(2**31), 2**31 - 1), ("ui32", np.uint32, 0, 2**32 - 1), ("i64", np.int64, -(2**63), 2**63 - 1),
    ("i64", np.int64, -(2**63), 5 - 2**63), ("ui64", np.uint64, 0, 2**64 - 1),
])  # fmt: skip
def test_stablehlo_bounds(name: str, dtype: type[Any], low: int, high: int) -> None:
    """No number is the upper bound, also where it would be rounded to it, and all parts of the range have numbers."""
    program = pd.device("cpu").load(pd.compile(RNG.replace("f32", name).replace("DISTRIBUTION", "UNIFORM")))
    bounds = [np.array(n, dtype) for n in (low, high)]
    exact = int if np.dtype(dtype).kind in "iu" else float
    drawn = [exact(y) for _ in range(3) for y in np.asarray(program.main(*bounds))]
    assert low <= min(drawn) and max(drawn) < high
    if dtype is not np.bool_:  # from false up to true there is only false
        assert {int(4 * (y - low) // (high - low)) for y in drawn} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(F32, 100, 101), (F16, 0, 1), (BF16, 3, 4), (BF16, -2, -1), (F16, 2, 2)]
)
def test_floats_near_the_upper_bound(dtype: DType, low: float, high: float) -> None:
    b = Builder("test.onnx")
    (unit,) = b.begin([Input("unit", F32, (3,))])
    b.finish("main", {"y": random.between(b, unit, b.constant(low, dtype), b.constant(high, dtype))})
    found = pd.device("cpu").load(pd.compile(b.module)).main(np.array([0, 0.5, 1 - 2**-23], np.float32))
    least, middle, greatest = np.asarray(found).astype(np.float64)
    assert least == low and middle == (low + high) / 2
    if low == high:
        assert greatest == high
    else:
        below = {F32: np.float32, F16: np.float16, BF16: ml_dtypes.bfloat16}[dtype]
        assert greatest == np.nextafter(below(high), below(low))


@pytest.mark.parametrize(("bits", "dtype"), [(U32, I32), (U32, U8), (U64, I64)])
def test_integers_near_the_bounds(bits: DType, dtype: DType) -> None:
    b = Builder("test.onnx")
    (x,) = b.begin([Input("x", bits, (3,))])
    limits = np.iinfo(dtype.name.replace("u", "uint") if dtype == U8 else dtype.name.replace("i", "int"))
    low, high = (b.constant(int(n), dtype) for n in (limits.min, limits.max))
    b.finish("main", {"y": random.integers(b, x, low, high)})
    ends = np.array([0, 1 << bits.bits - 1, (1 << bits.bits) - 1], f"u{bits.bits // 8}")
    found = np.asarray(pd.device("cpu").load(pd.compile(b.module)).main(ends))
    count = int(limits.max) - int(limits.min)
    assert found.tolist() == [int(limits.min) + count * int(n) // (1 << bits.bits) for n in ends]


@pytest.mark.parametrize(("bits", "dtype"), [(U32, F32), (U64, F64)])
def test_the_quantile_of_the_ends_is_finite(bits: DType, dtype: DType) -> None:
    """The least and the greatest number that is drawn are as far from the mean."""
    b = Builder("test.onnx")
    (x,) = b.begin([Input("x", bits, (3,))])
    b.finish("main", {"y": random.quantile(b, random.uniform(b, x, dtype))})
    of_bits = np.dtype(bits.name.replace("u", "uint"))
    ends = np.array([0, 1 << 8 * of_bits.itemsize - 1, (1 << 8 * of_bits.itemsize) - 1], of_bits)
    least, middle, greatest = np.array(pd.device("cpu").load(pd.compile(b.module)).main(ends))
    assert least == -greatest and 5 < greatest < 9 and abs(middle) < 1e-6
