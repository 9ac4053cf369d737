"""Weights: in the artifact, each array once, or given when the artifact is loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32
from pydispatch.operations import elementwise as ew
from pydispatch.operations import products

W = np.random.default_rng(2).random((300, 200), dtype=np.float32)
X = np.ones((2, 300), np.float32)


def module(weights: str) -> Builder:
    b = Builder("m.onnx", weights)
    (x,) = b.begin([Input("x", F32, (2, 300))])
    first = products.matmul(b, x, b.weight("layer1.w", W, F32))
    second = products.matmul(b, x, b.weight("tied.w", W, F32))
    b.finish("main", {"y": ew.binary(b, "add", first, second)})
    return b


def test_embedded_weights_are_stored_once(tmp_path: Path) -> None:
    b = module("embed")
    assert len(ir.print_module(b.module)) < 4000
    artifact = pd.compile(b.module)
    artifact.save(tmp_path / "m.pdx")
    assert W.nbytes < (tmp_path / "m.pdx").stat().st_size < W.nbytes * 1.5
    program = pd.device("cpu").load(tmp_path / "m.pdx")
    np.testing.assert_allclose(program.main(X), 2 * (X @ W), rtol=1e-5)


def test_external_weights_are_given_by_name(tmp_path: Path) -> None:
    artifact = pd.compile(module("external").module)
    artifact.save(tmp_path / "m.pdx")
    assert (tmp_path / "m.pdx").stat().st_size < W.nbytes / 2
    np.savez(tmp_path / "w.npz", **{"layer1.w": W})
    program = pd.device("cpu").load(artifact, parameters={"model": tmp_path / "w.npz"})
    np.testing.assert_allclose(program.main(X), 2 * (X @ W), rtol=1e-5)
    with pytest.raises(pd.Error, match=r"layer1\.w"):
        pd.device("cpu").load(artifact)


def test_weights_of_a_module_cannot_be_left_out_any_more() -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"source\['f'\]: the module has its weights already; state"):
        pd.compile({"f": module("embed").module}, weights="external")
    artifact = pd.compile(module("external").module, weights="external")
    assert [p["key"] for p in artifact.parameters] == ["layer1.w"]


def test_arrays_of_different_functions_are_different_weights() -> None:
    """The first array is released after its function, and the next one may have its id."""
    b = Builder("m.onnx", "external")
    for name in ("a", "b", "c"):
        (x,) = b.begin([Input("x", F32, (2,))])
        b.finish(name, {"y": ew.binary(b, "add", x, b.weight(f"weight_of_{name}", np.zeros(2, np.float32), F32))})
    text = str(b.module)
    assert [text.count(f'"weight_of_{name}"') for name in ("a", "b", "c")] == [1, 1, 1]
