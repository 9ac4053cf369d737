"""Inputs of an ONNX graph for which the file has elements: defaults, which the caller may replace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import wire

import pydispatch as pd

DEFAULT = np.arange(12, dtype=np.float32).reshape(4, 3)
X = np.ones((2, 4), np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """y = x @ w + c, where w is an input with elements in the file, and c only has elements."""
    nodes = [wire.node("MatMul", ["x", "w"], ["p"]), wire.node("Add", ["p", "c"], ["y"])]
    weights = [wire.tensor("w", [4, 3], 1, (9, DEFAULT.tobytes())), wire.tensor("c", [1], 1, (9, bytes(4)))]
    inputs = [wire.value("x", "n", 4), wire.value("w", 4, 3)]
    file = tmp_path / "m.onnx"
    file.write_bytes(wire.model(nodes, inputs, [wire.value("y", "n", 3)], weights))
    return file


def test_a_default_is_a_constant(path: Path) -> None:
    program = pd.device("cpu").load(pd.compile(path))
    assert [argument.name for argument in program.main.inputs] == ["x"]
    np.testing.assert_array_equal(program.main(X), X @ DEFAULT)


@pytest.mark.parametrize("shape", [(4, 3), (4, "columns")])
def test_a_default_whose_shape_is_stated_is_an_argument(path: Path, shape: tuple[int | str, ...]) -> None:
    program = pd.device("cpu").load(pd.compile(path, inputs={"w": shape}))
    assert [argument.name for argument in program.main.inputs] == ["x", "w"]
    w = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(program.main(x=X, w=w), X @ w, rtol=1e-6)


def test_a_tensor_that_is_no_input_stays_a_constant(path: Path) -> None:
    with pytest.raises(pd.CompileError, match="the model has no input 'c'; it has x, w"):
        pd.compile(path, inputs={"c": (1,)})
