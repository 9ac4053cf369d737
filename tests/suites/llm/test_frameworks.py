"""Decoders of `examples/llm/frameworks`: 64 tokens, beside the framework itself and the stored scores of
`transformers`."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact import dispatches

ROOT = Path(__file__).resolve().parents[3]
CHECKPOINTS = ROOT / "tests" / "llm" / "checkpoints"
FRAMEWORKS = ("jax", "transformers", "onnx")
BOUND = 1e-4
"""Largest difference of two scores in f32, which docs/llm.md states."""


MODELS = [
    *((name, "llama", device) for name in FRAMEWORKS for device in ("cpu", "vulkan")),
    *((name, model, "cpu") for name in FRAMEWORKS for model in ("llama_biased", "qwen2")),
    *(("transformers", model, "cpu") for model in ("gpt2", "gemma2")),
]
"""Framework, checkpoint and device."""


@pytest.mark.parametrize(("name", "model", "device"), MODELS)
def test_scores_are_those_of_the_framework(name: str, model: str, device: str) -> None:
    folder = CHECKPOINTS / model
    stored = np.load(folder / "reference.npz")
    framework = importlib.import_module(f"frameworks.of_{name}")
    artifact = framework.compile_decoder(str(folder), len(stored["tokens"]), targets=device)
    step = framework.step_of(pd.device(device).load(artifact))
    reference = framework.reference(str(folder), len(stored["tokens"]))
    for position, token in enumerate(stored["tokens"].tolist()):
        scores = step(token, position)
        np.testing.assert_allclose(scores, reference(token, position), rtol=0, atol=BOUND)
        np.testing.assert_allclose(scores, stored["scores"][position], rtol=0, atol=BOUND)


@pytest.mark.parametrize("length", [1, 24])
def test_attention_with_sinks_is_one_dispatch(length: int) -> None:
    """gpt-oss adds a column of sinks to the scores, whose weights it drops."""
    import torch
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    class Attention(torch.nn.Module):
        def __init__(self, heads: int, groups: int) -> None:
            super().__init__()
            self.num_key_value_groups, self.sinks = heads // groups, torch.nn.Parameter(torch.randn(heads))

        def forward(self, *operands: torch.Tensor) -> torch.Tensor:
            attended: torch.Tensor = eager_attention_forward(self, *operands, scaling=0.25)[0]
            return attended

    torch.manual_seed(0)
    module = Attention(4, 2).eval()
    queries, keys, values = torch.randn(1, 4, length, 16), torch.randn(1, 2, 24, 16), torch.randn(1, 2, 24, 16)
    is_hidden = torch.ones(length, 24).triu(1 + 24 - length).bool()
    operands = queries, keys, values, torch.zeros(1, 1, length, 24).masked_fill(is_hidden, float("-inf"))
    artifact = pd.from_torch(module, operands, targets="cpu")
    assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["main"]) == 1
    scores = pd.device("cpu").load(artifact).main(*(operand.numpy() for operand in operands))
    np.testing.assert_allclose(scores, module(*operands).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_script_continues_a_text(name: str) -> None:
    def output(*options: str) -> str:
        command = [sys.executable, ROOT / "examples" / "llm" / "from_framework.py", name, "--tokens", "16", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    text = output()
    assert text == output("--reference") and text.startswith("The compiler") and len(text) > 30
