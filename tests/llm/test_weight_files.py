"""Safetensors files as `examples/llm/weights.py` maps them: each type, and files that are cut off or wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from weights import Weights, read_safetensors

ARRAYS: dict[str, tuple[str, np.ndarray[Any, Any]]] = {
    "a": ("F32", np.arange(6, dtype=np.float32).reshape(2, 3)),
    "b": ("BF16", np.arange(3).astype(ml_dtypes.bfloat16)),
    "c": ("I8", np.array([-1], np.int8)),
    "d": ("F16", np.ones((1, 2), np.float16)),  # not aligned
    "empty": ("F64", np.zeros((0, 4))),
    "scalar": ("I64", np.array(7)),
}


def written(path: Path, header: Any, data: bytes) -> Path:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_arrays_are_mapped(tmp_path: Path) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, array) in ARRAYS.items():
        header[name] = {
            "dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes],
        }  # fmt: skip
        data += array.tobytes()
    weights = Weights(written(tmp_path / "model.safetensors", header, data).parent)
    assert list(weights) == list(ARRAYS) and len(weights) == len(ARRAYS)
    for name, (_, array) in ARRAYS.items():
        assert weights[name].dtype == array.dtype and not weights[name].flags.writeable
        np.testing.assert_array_equal(weights[name], array)
    base: Any = weights["a"]
    while not isinstance(base, np.memmap):
        base = base.base
    with pytest.raises(KeyError, match="has no weight 'e'"):
        weights["e"]


def test_files_of_an_index(tmp_path: Path) -> None:
    for name in ("x", "y"):
        entry = {name: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
        written(tmp_path / f"{name}.safetensors", entry, name.encode())
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "x.safetensors", "y": "y.safetensors"}}))
    assert {name: bytes(array) for name, array in Weights(tmp_path).items()} == {"x": b"x", "y": b"y"}
    index.write_text(json.dumps({"weight_map": {"x": "../x.safetensors"}}))
    with pytest.raises(ValueError, match="files are in the folder itself"):
        Weights(tmp_path)


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "the header is no JSON: "),
        (b"\xff\xff", "the header is no JSON: "),
        ([], "the header is no JSON object"),
        (entry(dtype="F33"), "tensor 'a' has a wrong entry"),
        (entry(dtype=[]), "tensor 'a' has a wrong entry"),
        ({"a": 3}, "tensor 'a' has a wrong entry"),
        ({"a": {}}, "tensor 'a' has a wrong entry"),
        (entry(shape=2), "tensor 'a' has a wrong entry"),
        (entry(data_offsets=[0]), "tensor 'a' has a wrong entry"),
        (entry(shape=[-2]), "tensor 'a' of F32 and shape"),
        (entry(shape=[True, 2]), "tensor 'a' of F32 and shape"),
        (entry(shape=[2.0]), "tensor 'a' of F32 and shape"),
        (entry(shape=[1 << 70]), "tensor 'a' of F32 and shape"),
        (entry(shape=[3]), "tensor 'a' of F32 and shape"),
        (entry(data_offsets=[4, 12]), r"stated at bytes 4 to 12 of 8"),
        (entry(data_offsets=[8, 0]), "tensor 'a' of F32 and shape"),
        (entry(data_offsets=[-8, 0]), "tensor 'a' of F32 and shape"),
    ],
)
def test_wrong_headers(tmp_path: Path, header: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_safetensors(written(tmp_path / "model.safetensors", header, bytes(8)))


@pytest.mark.parametrize("content", [b"", b"1234567", b"\xff" * 20, (13).to_bytes(8, "little") + b"{}"])
def test_files_that_are_cut_off(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"no safetensors file|a header of \d+ bytes in a file of"):
        read_safetensors(path)
