"""`examples/llm/chat.py`: texts in, texts out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import chat
import pytest

ROOT = Path(__file__).resolve().parents[3]
EXPECTED: dict[str, Any] = json.loads((ROOT / "tests" / "llm" / "continuation.json").read_text())
"""A prompt, and what `transformers` continues it with."""


def test_prompts_of_the_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Both prompts are the same: the second one reads cached pages. One between them is too long and is reported."""
    monkeypatch.setattr(sys, "argv", ["chat.py", "--temperature", "0", "--tokens", str(EXPECTED["count"])])
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{EXPECTED['prompt']}\n\n{'word ' * 600}\n{EXPECTED['prompt']}\n"))
    assert chat.main() == 1
    printed = capsys.readouterr()
    assert printed.out == 2 * f"{EXPECTED['text']}\n"
    assert printed.err.startswith("chat.py: a prompt of ") and printed.err.count("\n") == 1
