"""Names that are not ASCII: of kernels, parameters and sizes, on every device, and in patterns and programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

SIZED = pd.f32["n"]
VECTOR = pd.View[pd.f32, "länge"]
X = np.arange(4, dtype=np.float32)
TARGETS = {"cpu": "cpu", "vulkan:0": "vulkan", "webgpu:0": "webgpu", "ptx-interpreter": "cuda"}


@pd.kernel(workgroup=64)
def größe(entrée: VECTOR, 输出: VECTOR, β: pd.f32) -> None:  # noqa: N803
    i = pd.global_id(0)
    if i < len(entrée):
        wert = entrée[i] * β
        输出[i] = wert


@pd.program
def größer(é: SIZED, 输入: SIZED) -> Any:  # noqa: N803
    return é + 输入


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(größe, targets=tuple(TARGETS.values()))


@pytest.mark.parametrize("name", TARGETS)
def test_kernels(artifact: pd.Artifact, name: str) -> None:
    program = pd.device(name).load(artifact)
    made = program.größe(X, np.zeros(4, np.float32), 3.0)
    np.testing.assert_array_equal(np.asarray(made), 3 * X)


def test_direct_calls() -> None:
    made = np.zeros(4, np.float32)
    größe(X, made, 2.0)
    np.testing.assert_array_equal(made, 2 * X)


@pytest.mark.parametrize("name", TARGETS)
def test_programs(name: str) -> None:
    program = pd.device(name).load(pd.compile(größer, targets=TARGETS[name]))
    np.testing.assert_array_equal(np.asarray(program.größer(输入=X, é=X)), 2 * X)
    assert [value.name for value in program.größer.inputs] == ["é", "输入"]


def test_patterns() -> None:
    @pd.pattern
    def größte(é: SIZED, b: SIZED) -> Any:
        return pd.maximum(é, b) * b

    @größte.replace()
    def ersatz(é: Any, b: Any) -> Any:
        return é - b

    text = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %m = arith.maximumf %a, %b : tensor<?xf32>
      %y = arith.mulf %m, %b : tensor<?xf32>
      return %y : tensor<?xf32> }"""
    program = pd.device("cpu").load(pd.compile(text, patterns=[größte], require_match=True))
    np.testing.assert_array_equal(program.f(X, X), X - X)
