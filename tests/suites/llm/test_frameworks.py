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


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_script_continues_a_text(name: str) -> None:
    def output(*options: str) -> str:
        command = [sys.executable, ROOT / "examples" / "llm" / "from_framework.py", name, "--tokens", "16", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    text = output()
    assert text == output("--reference") and text.startswith("The compiler") and len(text) > 30
