"""Small twins of `examples/models`, written by their scripts (`--small --write`), run without a framework."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

KERNELS = Path(__file__).resolve().parents[3] / "examples" / "models"
HERE = KERNELS / "small"
GELU = {"tile": {"count": 4096}}


@pytest.fixture(scope="module", params=["cpu", "vulkan", "ptx-interpreter"])
def device(request: pytest.FixtureRequest) -> Any:
    return pd.device(request.param)


def close(got: Any, wanted: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def test_resnet_of_jax() -> None:
    kernels = {"mylib.hard_swish": pd.CFunction(KERNELS / "hard_swish.c", "hard_swish", "in0", "scale", "out", "count")}
    program = pd.device("cpu").load(pd.compile(HERE / "resnet.mlir", kernels=kernels))
    data = np.load(HERE / "resnet.npz")
    close(program.main(data["image"]), data["result"])


def test_bert_of_onnx() -> None:
    gelu = pd.CFunction(KERNELS / "gelu.c", "gelu", "in0", "out", "count", "first", **GELU)
    kernels = {"mylib::FastGelu": pd.CustomOperation(gelu, results=lambda x: [x])}
    program = pd.device("cpu").load(pd.compile(HERE / "bert.onnx", kernels=kernels))
    data = np.load(HERE / "bert.npz")
    close(program.main(data["input_ids"], data["attention_mask"]), data["result"])
    close(program.main(attention_mask=data["attention_mask"], input_ids=data["input_ids"]), data["result"])
    assert [str(n) for n in program.main.inputs[0].shape] == ["batch", "length"]
    assert list(inspect.signature(program.main).parameters)[:2] == ["input_ids", "attention_mask"]
    with pytest.raises(pd.InvalidArgumentError, match=r"length|axis|dimension 1"):
        program.main(data["input_ids"], data["attention_mask"][:, 1:].copy())


def test_gpt2_of_pytorch() -> None:
    kernels = {"mylib::gelu": pd.CFunction(KERNELS / "gelu.c", "gelu", "x", "out", "count", "first", **GELU)}
    program = pd.device("cpu").load(pd.compile(HERE / "gpt2.pt2", kernels=kernels))
    data = np.load(HERE / "gpt2.npz")
    keys = values = np.zeros((2, 1, 2, 0, 16), np.float32)
    ids, tokens = data["prompt"][None], []
    for _ in data["tokens"]:
        scores, keys, values = program.main(ids, keys, values)
        tokens.append(int(scores[0].argmax()))
        ids = np.array([tokens[-1:]])
    assert tokens == data["tokens"].tolist()
    close(scores, data["scores"])
    assert keys.shape == (2, 1, 2, len(data["prompt"]) + len(tokens) - 1, 16)


def test_a_python_function_may_be_the_kernel(device: Any) -> None:
    """The computation of a custom operation in Python, so on every device."""

    def gelu(x: Any) -> Any:
        return x * 0.5 * (pd.tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1.0)

    kernels = {"mylib::FastGelu": pd.CustomOperation(gelu, results=lambda x: [x])}
    targets = {"cpu": "cpu", "vulkan": "vulkan"}.get(device.name.partition(":")[0], "cuda")
    program = device.load(pd.compile(HERE / "bert.onnx", kernels=kernels, targets=targets))
    data = np.load(HERE / "bert.npz")
    close(program.main(data["input_ids"], data["attention_mask"]), data["result"])


def test_models_without_kernels_say_which_are_missing() -> None:
    for file, name in [("resnet.mlir", "mylib.hard_swish"), ("bert.onnx", "FastGelu"), ("gpt2.pt2", "mylib::gelu")]:
        with pytest.raises(pd.CompileError) as caught:
            pd.compile(HERE / file)
        assert name in str(caught.value) and "kernels={" in str(caught.value), caught.value
