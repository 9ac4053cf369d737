"""Engines with tokenizers of the package `tokenizers`, from their files."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from fake_program import FakeProgram
from test_text import TEXTS, pieces

import pydispatch as pd
from pydispatch.generate import Engine
from pydispatch.generate.text import TextStream


def test_tokenizers_of_hugging_face(tmp_path: Path) -> None:
    """A byte-level tokenizer that is trained here and read from its file."""
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(["the cat sat on the mat, naïve café"] * 3, vocab_size=280)
    trained.save(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        tokens = trained.encode(text).ids
        assert "".join(pieces(TextStream(trained.decode), tokens)) == trained.decode(tokens) == text
    with Engine(FakeProgram(), tmp_path / "tokenizer.json") as engine:
        handle = engine.submit("the cat", max_new_tokens=20)
        assert "".join(handle) == trained.decode(list(handle.result().tokens))


def test_files_that_are_no_tokenizers(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("{}")
    for name in ("missing.json", "wrong.json"):
        with pytest.raises(pd.InvalidArgumentError, match=rf"tokenizer: .*{name}: "):
            Engine(FakeProgram(), tmp_path / name)
