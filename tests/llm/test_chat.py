"""`examples/llm/chat.py` with the small model of its folder."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import chat
import command_line
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


def without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def edited(folder: Path, old: str, new: str) -> None:
    text = (folder / "config.json").read_text()
    assert old in text
    (folder / "config.json").write_text(text.replace(old, new))


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])


WRONG: dict[str, tuple[Any, str]] = {
    "no folder": (shutil.rmtree, "tokenizer.json does not exist; a model is a folder with config.json, model.safe"),
    "no tokenizer": (lambda f: without(f, "tokenizer.json"), "tokenizer.json does not exist; a model is a folder"),
    "no configuration": (lambda f: without(f, "config.json"), "config.json does not exist; a model is a folder"),
    "no weights": (lambda f: without(f, "model.safetensors"), "model.safetensors does not exist; a model is a folder"),
    "another type": (
        lambda f: edited(f, '"llama"', '"mamba"'),
        "model_type 'mamba' is not one of gemma2, gpt2, llama",
    ),
    "a missing field": (
        lambda f: edited(f, "vocab_size", "x"),
        "config.json: a llama model needs the field 'vocab_",
    ),
    "no JSON": (lambda f: edited(f, "{", "["), "config.json: no JSON: "),
    "a list": (lambda f: (f / "config.json").write_text("[1]"), "config.json: expected an object of JSON, got [1]"),
    "weights that are cut off": (cut, "model.safetensors: tensor 'model.embed_tokens.weight' of BF16"),
    "a missing layer": (
        lambda f: edited(f, '"num_hidden_layers": 4', '"num_hidden_layers": 5'),
        "model has no weight 'model.layers.4.input_layernorm.weight'",
    ),
}


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_folder_ends_with_one_line_and_status_1(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_, message = WRONG[change]
    folder = tmp_path / "model"
    shutil.copytree(chat.HERE / "small", folder)
    break_(folder)
    monkeypatch.setattr(sys, "argv", ["examples/llm/chat.py", "hello", f"--model={folder}"])
    with pytest.raises(SystemExit) as ended:
        command_line.run(chat.main)
    printed = capsys.readouterr()
    assert ended.value.code == 1 and printed.out == ""
    assert printed.err.startswith(f"chat.py: {tmp_path}") and message in printed.err
    assert printed.err.count("\n") == 1


def test_errors_are_raised_for_debugging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["chat.py", "hello", f"--model={tmp_path}"])
    monkeypatch.setenv("PYDISPATCH_DEBUG", "1")
    with pytest.raises(FileNotFoundError, match="tokenizer"):
        command_line.run(chat.main)


@pytest.mark.parametrize(
    ("module", "remedy"), [("jax.numpy", "jax': pip install jax\n"), ("mine.jax", "mine'\n")], ids=["package", "module"]
)
def test_missing_packages_are_named_with_their_installation(
    module: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def imports() -> int:
        raise ModuleNotFoundError(f"No module named '{module.split('.')[0]}'", name=module)

    with pytest.raises(SystemExit, match="1"):
        command_line.run(imports)
    assert capsys.readouterr().err.endswith(f"No module named '{remedy}")
