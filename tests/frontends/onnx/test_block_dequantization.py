"""DequantizeLinear with blocks before a product, against NumPy: one dispatch, which reads the stored integers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import wire

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

FLOAT, BYTE, SIGNED, NIBBLE, SIGNED_NIBBLE = 1, 2, 3, 21, 22
TYPES: dict[int, Any] = {BYTE: np.uint8, SIGNED: np.int8, NIBBLE: ml_dtypes.uint4, SIGNED_NIBBLE: ml_dtypes.int4}


def stored(name: str, array: Any, kind: int) -> bytes:
    """A tensor of the model; two elements of 4 bits share a byte."""
    flat = array.reshape(-1).astype(np.uint8)
    data = (flat[::2] & 15 | flat[1::2] << 4).tobytes() if kind in (NIBBLE, SIGNED_NIBBLE) else array.tobytes()
    return wire.tensor(name, list(array.shape), kind, (9, data))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("axis", "rows", "zeros"), [(0, 1, False), (0, 5, True), (1, 3, True)])
def test_products(kind: int, axis: int, rows: int, zeros: bool, tmp_path: Path) -> None:
    """The blocks are along K of a matrix [k, n], or of its transposed."""
    rng = np.random.default_rng(kind)
    k, n, block = 128, 256, 32
    shape = (k, n) if axis == 0 else (n, k)
    blocks = tuple(size // block if d == axis else size for d, size in enumerate(shape))
    info = ml_dtypes.iinfo(TYPES[kind])
    low, high = int(info.min), int(info.max)
    q = rng.integers(low, high + 1, shape)
    scales = rng.uniform(0.5, 1, blocks).astype(np.float32)
    middle = rng.integers(low // 2, high // 2 + 1, blocks)
    tensors = [stored("q", q.astype(TYPES[kind]), kind), wire.tensor("s", list(blocks), FLOAT, (9, scales.tobytes()))]
    if zeros:
        tensors.append(stored("z", middle.astype(TYPES[kind]), kind))
    attributes = [
        wire.message((1, name), (3, value), (20, 2)) for name, value in (("axis", axis), ("block_size", block))
    ]
    nodes = [wire.node("DequantizeLinear", ["q", "s", "z"][: len(tensors)], ["w"], *attributes)]
    order = wire.message((1, "perm"), (8, 1), (8, 0), (20, 7))
    nodes += [wire.node("Transpose", ["w"], ["t"], order)] if axis else []
    nodes.append(wire.node("MatMul", ["x", "t" if axis else "w"], ["y"]))
    file = tmp_path / "model.onnx"
    file.write_bytes(wire.model(nodes, [wire.value("x", rows, k)], [wire.value("y", rows, n)], tensors, 21))
    x = rng.standard_normal((rows, k)).astype(np.float32)
    weights = (q - (np.repeat(middle, block, axis) if zeros else 0)) * np.repeat(scales, block, axis).astype(np.float64)
    expected = x @ (weights.T if axis else weights)
    result = pd.device("cpu").load(pd.compile(file, targets="cpu")).main(x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    text = compile_to("dispatches", file, targets="cpu", elide_bytes=64)
    (types,) = re.findall(r'"reduction"\]} ins\([^:]*: ([^)]*)\)', text)
    assert ("xi4>" if kind in (NIBBLE, SIGNED_NIBBLE) else "xi8>") in types
