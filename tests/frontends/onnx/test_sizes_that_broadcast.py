"""Two open sizes that meet in a broadcast are equal; a size of 1 is stated where the model is compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import wire

import pydispatch as pd

X, ROW = np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32).reshape(1, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """y = x + pos, whose first sizes have different names."""
    inputs = [wire.value("x", "n", 4), wire.value("pos", "m", 4)]
    file = tmp_path / "m.onnx"
    file.write_bytes(wire.model([wire.node("Add", ["x", "pos"], ["y"])], inputs, [wire.value("y", "k", 4)]))
    return file


def test_open_sizes_are_equal(path: Path) -> None:
    program = pd.device("cpu").load(pd.compile(path))
    np.testing.assert_array_equal(program.main(X, X), X + X)
    with pytest.raises(pd.InvalidArgumentError, match=r"\('pos'\) is 1, .* \('x'\) is 3; they must be equal"):
        program.main(X, ROW)


def test_a_stated_size_of_1_broadcasts(path: Path) -> None:
    program = pd.device("cpu").load(pd.compile(path, inputs={"pos": (1, 4)}))
    np.testing.assert_array_equal(program.main(X, ROW), X + ROW)
