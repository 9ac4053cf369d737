"""Operations that only the user has a kernel for: C functions by their names, sizes and numbers among the arguments."""

from __future__ import annotations

import re
from typing import Annotated

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.custom import custom_call

SCALE = """#include <stddef.h>
void scale(const float *x, float k, float *out, size_t count) { for (size_t i = 0; i < count; i++) out[i] = x[i] * k; }
"""
TWICE = """#include <stddef.h>
void twice(const float *x, float *out, size_t n, size_t m, size_t rows) {
  for (size_t i = 0; i < rows * m; i++) out[i] = x[i % (n * m)] + (float)rows;
}
"""
KERNELS = {
    "mylib::scale": pd.CFunction(SCALE, "scale", "x", "k", "out", "count"),
}


def scaled_twice(b: Builder, x: Tensor) -> list[Tensor]:
    (y,) = custom_call(b, "mylib::scale", [ew.binary(b, "add", x, x)], [(F32, x.shape)], {"k": 3.0}, ["x"])
    return custom_call(b, "mylib::scale", [y], [(F32, x.shape)], {"k": 0.5}, ["x"])


def test_kernels_that_follow_each_other(run) -> None:
    x = np.random.default_rng(1).random((5, 4), dtype=np.float32)
    for dynamic in (False, True):
        (got,) = run(scaled_twice, x, dynamic=dynamic, kernels=KERNELS)
        np.testing.assert_array_equal(got, (x + x) * np.float32(3) * np.float32(0.5))


def test_a_result_of_another_size(run) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def write(b: Builder, x: Tensor) -> list[Tensor]:
        return custom_call(b, "mylib::twice", [x], [(F32, (x.shape[0] * 2, x.shape[1]))])

    kernels = {"mylib::twice": pd.CFunction(TWICE, "twice", "in0", "out", "n0_0", "n0_1", "out_size0")}
    (got,) = run(write, x, dynamic=True, kernels=kernels)
    np.testing.assert_array_equal(got, np.concatenate([x, x]) + 4)


def test_without_a_kernel(run) -> None:
    x = np.zeros((5, 4), np.float32)
    with pytest.raises(pd.CompileError) as caught:
        run(scaled_twice, x)
    text = str(caught.value)
    assert "test.onnx: layer: error: there is no kernel for the custom operation 'mylib::scale'" in text
    assert "(x: tensor<5x4xf32>, k: f32) -> (tensor<5x4xf32>)" in text
    assert 'kernels={"mylib::scale": pydispatch.CFunction(' in text


def test_kernels_that_are_none() -> None:
    for wrong in (3, [pd.CFunction(SCALE, "scale")], {3: pd.CFunction(SCALE, "scale")}, {"a": 3}):
        with pytest.raises(pd.InvalidArgumentError, match=r"kernel|replaced"):
            pd.compile("func.func @f() { return }", kernels=wrong)
    with pytest.raises(pd.InvalidArgumentError, match=re.escape("weights: expected 'embed' or 'external'")):
        pd.compile("func.func @f() { return }", weights="inline")


@pd.kernel
def scaled(
    x: Annotated[pd.View, pd.f32[None, None]],
    k: pd.f32,
    out: Annotated[pd.View, pd.f32[None, None]],
    count: pd.index,
    x_size1: pd.index,
) -> None:
    row, column = pd.global_id(1), pd.global_id(0)
    if row < x.shape[0] and column < x_size1:
        out[row, column] = x[row, column] * k + pd.f32(count)


@pd.kernel
def scaled_by_a_float_count(
    x: Annotated[pd.View, pd.f32[None, None]], k: pd.f32, out: Annotated[pd.View, pd.f32[None, None]], count: pd.f32
) -> None:
    out[0, 0] = x[0, 0] * k + count


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_a_kernel_in_python_has_as_parameters(run, dynamic: bool) -> None:
    """`count` is a value of the operation, `x_size1` a size of an operand."""
    x = np.random.default_rng(1).random((5, 4), dtype=np.float32)

    def write(b: Builder, x: Tensor) -> list[Tensor]:
        return custom_call(b, "mylib::scale", [x], [(F32, x.shape)], {"k": 3.0}, ["x"])

    (got,) = run(write, x, dynamic=dynamic, kernels={"mylib::scale": scaled})
    np.testing.assert_array_equal(got, x * np.float32(3) + np.float32(20))
    with pytest.raises(pd.CompileError, match="parameter 'count' of kernel 'scaled_by_a_float_count' is f32, in the"):
        run(write, x, dynamic=dynamic, kernels={"mylib::scale": scaled_by_a_float_count})


def test_a_kernel_that_asks_for_what_there_is_not(run) -> None:
    kernels = {"mylib::scale": pd.CFunction(SCALE, "scale", "x", "factor", "out", "count")}
    with pytest.raises(pd.CompileError, match="asks for 'factor'") as caught:
        run(scaled_twice, np.zeros((5, 4), np.float32), kernels=kernels)
    assert "there are x, out, k, x_size0, x_size1, count" in str(caught.value)
