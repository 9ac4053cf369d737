"""Branches of an If that a size selects, with results of different ranks, as exports of `squeeze` have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import wire

import pydispatch as pd

X = np.ones((3, 1), np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """y = x without axis 1 if its size is 1, else x."""
    one = wire.tensor("one", [1], 7, (9, np.ones(1, np.int64).tobytes()))
    squeezed = wire.message((1, wire.node("Squeeze", ["x", "one"], ["t"])), (2, "t"), (12, wire.value("t", "n")))
    same = wire.message((1, wire.node("Identity", ["x"], ["e"])), (2, "e"), (12, wire.value("e", "n", "m")))
    branches = [
        wire.message((1, f"{name}_branch"), (6, graph), (20, 5)) for name, graph in (("then", squeezed), ("else", same))
    ]
    nodes = [
        wire.node("Shape", ["x"], ["shape"]),
        wire.node("Gather", ["shape", "one"], ["size"]),
        wire.node("Equal", ["size", "one"], ["c"]),
        wire.node("If", ["c"], ["z"], *branches),
        wire.node("Relu", ["z"], ["y"]),
    ]
    file = tmp_path / "m.onnx"
    file.write_bytes(wire.model(nodes, [wire.value("x", "n", "m")], [wire.value("y", "n")], [one]))
    return file


def test_the_error_names_the_size(path: Path) -> None:
    with pytest.raises(pd.CompileError, match="the branches give different tensors") as error:
        pd.compile(path)
    assert str(error.value).endswith("state the sizes on which it depends, such as inputs={'x': ('n', 1)}")


def test_a_stated_size_selects_the_branch(path: Path) -> None:
    program = pd.device("cpu").load(pd.compile(path, inputs={"x": ("n", 1)}))
    np.testing.assert_array_equal(program.main(X), X[:, 0])
