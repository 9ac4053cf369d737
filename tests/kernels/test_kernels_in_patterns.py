"""Kernels in Python in the place of what patterns find in models."""

from typing import Annotated

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Point = Annotated[pd.View, pd.f32[()]]
TARGETS = dict(zip(DEVICES, ("cpu", "vulkan", "webgpu", "cuda"), strict=True))
MODEL = """func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %a, %b : tensor<8xf32>
  %1 = math.absf %0 : tensor<8xf32>
  %2 = arith.negf %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}"""
A, B = np.arange(-4, 4, dtype=np.float32), np.full(8, 3, np.float32)


@pd.kernel
def fused(lhs: Vector, rhs: Vector, out: Vector) -> None:
    i = pd.global_id(0)
    if i < out.shape[0]:
        out[i] = -abs(lhs[i] * rhs[i]) + 1000  # so that it shows who computed


@pd.kernel
def fused_points(lhs: Point, rhs: Point, out: Point) -> None:
    out[()] = -abs(lhs[()] * rhs[()]) + 1000


@pd.kernel
def renamed(lhs: Vector, other: Vector, out: Vector) -> None:
    out[pd.global_id(0)] = lhs[0] + other[0]


@pd.kernel
def forgets(lhs: Vector, rhs: Vector) -> None:
    rhs[pd.global_id(0)] = lhs[0]


@pd.kernel
def integers(lhs: Vector, rhs: Annotated[pd.View, pd.i32["n"]], out: Vector) -> None:
    out[pd.global_id(0)] = lhs[0] + pd.f32(rhs[0])


def found(kernel: object) -> pd.pattern:
    @pd.pattern
    def mul_abs_negate(lhs: pd.f32["n"], rhs: pd.f32["n"]):  # noqa: F821
        return -abs(lhs * rhs)

    return mul_abs_negate.replace(kernel)


@pytest.mark.parametrize("device", DEVICES)
def test_a_kernel_replaces_what_a_pattern_finds(device: str) -> None:
    artifact = pd.compile(MODEL, patterns=[found(fused)], targets=TARGETS[device])
    result = np.asarray(pd.device(device).load(artifact).f(A, B))
    np.testing.assert_array_equal(result, 1000 - abs(A * B))


def test_a_kernel_with_views_of_rank_0() -> None:
    @pd.pattern
    def of_points(lhs: pd.f32[()], rhs: pd.f32[()]):
        return -abs(lhs * rhs)

    model = MODEL.replace("tensor<8xf32>", "tensor<f32>")
    artifact = pd.compile(model, patterns=[of_points.replace(fused_points)], targets="cpu")
    result = pd.device("cpu").load(artifact).f(np.array(2, np.float32), np.array(3, np.float32))
    np.testing.assert_array_equal(result, np.float32(994))


def test_the_executable_is_named_after_the_pattern() -> None:
    (executable,) = pd.compile(MODEL, patterns=[found(fused)], targets="cpu").executables
    assert executable.name == "mul_abs_negate_kernel"


@pytest.mark.parametrize(("kernel", "message"), [
    (renamed, "kernel 'renamed' has a parameter 'other', the pattern lhs, rhs, out"),
    (forgets, "kernel 'forgets' does not write 'out', a result of the pattern"),
    (integers, r"parameter 'rhs' of kernel 'integers' is tensor<\?xi32>, in the pattern f32\[n\]"),
])  # fmt: skip
def test_kernels_that_do_not_fit(kernel: object, message: str) -> None:
    with pytest.raises(pd.CompileError, match=message):
        pd.compile(MODEL, patterns=[found(kernel)], targets="cpu")
