"""`examples/llm/chat.py` with the small model of its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chat
import pytest

import pydispatch as pd

EXPECTED: dict[str, Any] = json.loads((Path(__file__).resolve().parent / "continuation.json").read_text())
"""A prompt, and what `transformers` continues it with."""


@pytest.fixture(scope="module")
def model() -> Any:
    """The loaded program and its configuration. Compiling takes three seconds of CPU."""
    return chat.loaded(chat.HERE / "small", "cpu", 512)


def test_tokens(model: Any) -> None:
    prompt, answer = EXPECTED["tokens"][: -EXPECTED["count"]], EXPECTED["tokens"][-EXPECTED["count"] :]
    with pd.generate.Engine(model[0]) as engine:
        assert list(engine.submit(prompt, max_new_tokens=len(answer))) == answer
