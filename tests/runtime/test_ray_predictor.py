"""What Ray calls in its workers, `integrations.ray.Predictor`, with plain batches and a stub in place of Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.integrations.ray import Predictor

SOURCE = """
func.func @main(%x: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x3xf32>
  %y = arith.addf %x, %x : tensor<?x3xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce ins(%x : tensor<?x3xf32>) outs(%z : tensor<?xf32>) dimensions = [1]
    (%a: f32, %acc: f32) { %r = arith.addf %a, %acc : f32 linalg.yield %r : f32 }
  return %y, %s : tensor<?x3xf32>, tensor<?xf32>
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
BATCH = {"x": X, "label": np.array(["a", "b"])}


@pytest.fixture(scope="module")
def content() -> np.ndarray:
    return np.frombuffer(pd.compile(SOURCE).to_bytes(), np.uint8)


@pytest.fixture
def predictor(content: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Predictor]:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda shared: shared))

    def made(inputs: Any = None, keep: tuple[str, ...] = ()) -> Predictor:
        return Predictor([(content, {}, {})], "main", inputs, ["y", "s"], keep, 1, 0)

    return made


def test_a_batch(predictor: Callable[..., Predictor]) -> None:
    made = predictor(keep=("label",))(BATCH)
    assert list(made) == ["label", "y", "s"] and made["label"] is BATCH["label"]
    np.testing.assert_array_equal(made["y"], 2 * X)
    np.testing.assert_array_equal(made["s"], X.sum(1))
    np.testing.assert_array_equal(predictor(lambda batch: {"x": batch["x"] + 1})(BATCH)["y"], 2 * X + 2)


def test_batches_without_rows(predictor: Callable[..., Predictor]) -> None:
    assert predictor()({}) == {}
    made = predictor(keep=("label",))({"x": np.empty(0, object), "label": np.empty(0, "U1")})
    assert [(name, each.shape) for name, each in made.items()] == [("label", (0,)), ("y", (0, 3)), ("s", (0,))]
    assert made["y"].dtype == made["s"].dtype == np.float32


def test_missing_columns_are_found_before_the_batch_is_computed(predictor: Callable[..., Predictor]) -> None:
    called = []
    kept = predictor(lambda batch: called.append(1) or {"x": X}, keep=("id",))
    with pytest.raises(pd.InvalidArgumentError, match="@main: keep: there is no column 'id'; there are: x, label"):
        kept(BATCH)
    assert not called
    with pytest.raises(pd.InvalidArgumentError, match="@main: inputs: there is no column 'pixels'; there are: x, lab"):
        predictor({"x": "pixels"})(BATCH)
    with pytest.raises(pd.InvalidArgumentError, match="@main: inputs: there is none for 'x'; it takes x, and"):
        predictor(lambda batch: {"y": X})(BATCH)


def test_errors_of_the_users_function_stay(predictor: Callable[..., Predictor]) -> None:
    with pytest.raises(KeyError, match="mean"):
        predictor(lambda batch: {"x": batch["x"] - {}["mean"]})(BATCH)
