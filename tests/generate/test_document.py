"""The code of docs/serving.md, on a program in NumPy."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from fake_program import FakeProgram, expected
from test_text import Bytes

import pydispatch.generate.arguments

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_code_of_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pydispatch.generate.arguments, "load_tokenizer", lambda path: Bytes())
    names: dict[str, Any] = {"program": FakeProgram(page_count=200, table_pages=100), "end_token": 500}
    first, second = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    exec(first, names)
    answer = expected(list(b"Once upon a time"), 100, temperature=0.7, top_p=0.9, seed=1)
    assert capsys.readouterr().out == Bytes().decode(answer) + "length\n"
    exec(second, names)
    prompts = ["one", "two", "three"]
    texts = asyncio.run(names["answers"](prompts))
    assert texts == [Bytes().decode(expected(list(prompt.encode()), 50)) for prompt in prompts]
