"""Small models as JAX lowers them, on every backend, against what JAX computes; and how many dispatches they become.

`bench/models/write.py --small --results` has made the files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backends import Backend

from pydispatch.compiler.driver.pipeline import compile_to

MODELS = sorted(Path(__file__).with_name("models").glob("*.mlir"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_are_as_with_jax(path: Path, backend: Backend) -> None:
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    found = backend.load(path).main(*[array for name, array in arrays.items() if name.startswith("in")])
    found = found if isinstance(found, tuple | list) else [found]
    expected = [array for name, array in arrays.items() if name.startswith("out")]
    for got, wanted in zip(found, expected, strict=True):
        bound = float(arrays["tolerance"]) * np.abs(wanted.astype(np.float64)).max()
        np.testing.assert_allclose(np.asarray(got).astype(np.float64), wanted.astype(np.float64), rtol=0, atol=bound)


PEER = {
    "attention": 3, "bert_base_block": 14, "cnn_batch8": 8, "cnn_training_step": 28, "conv1d_audio": 2,
    "gpt2_block": 13, "gpt2_decode": 14, "int8_matmul": 2, "int8_weight_only": 1, "llama_block": 22, "lstm": 3,
    "matmul_chain": 4, "mixture_of_experts": 9, "mlp_batch1": 4, "mlp_f16": 4, "resnet18": 12, "resnet50": 13,
    "unet_block": 23, "vit_tiny": 17,
}  # fmt: skip
"""Dispatches of iree-compile 3.13 at O2 (`bench/models/counts.py`)."""


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_become_no_more_dispatches_than_with_the_peer(path: Path) -> None:
    found = compile_to("dispatches", path).count("flow.dispatch @")
    assert 0 < found <= PEER[path.stem]
