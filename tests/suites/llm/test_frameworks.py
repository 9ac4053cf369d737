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
FOLDER = ROOT / "tests" / "llm" / "checkpoints" / "llama"
FRAMEWORKS = ("jax", "transformers", "onnx")
BOUND = 1e-4
"""Largest difference of two scores in f32, which docs/llm.md states."""


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_scores_are_those_of_the_framework(name: str, device: str) -> None:
    stored = np.load(FOLDER / "reference.npz")
    framework = importlib.import_module(f"frameworks.of_{name}")
    artifact = framework.compile_decoder(str(FOLDER), len(stored["tokens"]), targets=device)
    step = framework.step_of(pd.device(device).load(artifact))
    reference = framework.reference(str(FOLDER), len(stored["tokens"]))
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
