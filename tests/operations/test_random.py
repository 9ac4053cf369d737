"""Random numbers: their distribution, and which of them calls, places and loaded programs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32, F64, U32, U64, DType
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
