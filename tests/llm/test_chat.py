"""`examples/llm/chat.py` with the small model of its folder."""

from __future__ import annotations

import io
import json
import sys
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


def test_text(model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Both prompts are the same: the second one reads cached pages."""
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(chat, "loaded", lambda *_: model)
    monkeypatch.setattr(sys, "argv", ["chat.py", "--temperature", "0", "--tokens", str(EXPECTED["count"])])
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{EXPECTED['prompt']}\n\n{EXPECTED['prompt']}\n"))
    chat.main()
    assert capsys.readouterr().out == 2 * f"{EXPECTED['text']}\n"
