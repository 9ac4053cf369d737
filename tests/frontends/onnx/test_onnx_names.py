"""Names of ONNX files are any text: not ASCII, with spaces, and alike but for characters that identifiers lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import wire

import pydispatch as pd

X = np.arange(4, dtype=np.float32)


def load(folder: Path, names: tuple[str, str], between: str, weight: str, result: str) -> pd.Program:
    nodes = [wire.node("Sub", list(names), [between]), wire.node("Mul", [between, weight], [result])]
    inputs = [wire.value(name, 4) for name in names]
    two = wire.tensor(weight, [4], 1, (9, np.full(4, 2, np.float32).tobytes()))
    path = folder / "names.onnx"
    path.write_bytes(wire.model(nodes, inputs, [wire.value(result, 4)], [two], 17))
    return pd.device("cpu").load(pd.compile(path))


def test_names_that_are_not_ascii(tmp_path: Path) -> None:
    program = load(tmp_path, ("é", "输入"), "zwischen ü", "w é", "ausgabe ü")
    np.testing.assert_array_equal(program.main(X, 10 * X), 2 * (X - 10 * X))
    assert "(é: float32[4], 输入: float32[4]) -> ausgabe ü: float32[4]" in repr(program.main)


def test_names_that_are_alike(tmp_path: Path) -> None:
    program = load(tmp_path, ("a.b", "a_b"), "a-b", "a b", "a/b")
    np.testing.assert_array_equal(program.main(X, 10 * X), 2 * (X - 10 * X))
    assert "(a.b: float32[4], a_b: float32[4])" in repr(program.main)
