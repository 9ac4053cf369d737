"""Decoders of `examples/llm` against `transformers`, whose scores `make_checkpoints.py` has stored."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from config import GEMMA2_FIELDS, Config, Rotary
from frameworks import read_llama
from model import Decoder

import pydispatch as pd
from pydispatch.formats.artifact import dispatches
from pydispatch.generate import Engine

CHECKPOINTS = Path(__file__).resolve().parent / "checkpoints"
ATTENTION = Path(__file__).resolve().parents[2] / "examples" / "match" / "attention.py"
"""A pattern of attention in NumPy, with a kernel."""
PAGES = np.array([[5, 2, 7, 1, 6, 3, 8, 4, 9, 10, 11, 12]], np.int32)
"""Pages of the tested sequence, not in order."""


def decoder_of(name: str, **options: Any) -> Decoder:
    return Decoder.read(CHECKPOINTS / name, page_size=8, num_pages=26, **options)


def reference_of(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    data = np.load(CHECKPOINTS / name / "reference.npz")
    return data["tokens"].astype(np.int32), data["scores"]


def i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


DEVICES = {
    "llama": "cpu", "llama_biased": "cpu", "llama_scaled": "vulkan", "qwen2": "cpu", "qwen3": "webgpu", "gpt2": "cpu",
    "mistral": "cpu", "gemma2": "vulkan",
}  # fmt: skip


def test_each_checkpoint_has_a_device() -> None:
    assert DEVICES.keys() == {path.name for path in CHECKPOINTS.iterdir()}


@pytest.mark.parametrize("name", DEVICES)
def test_scores_are_those_of_transformers(name: str) -> None:
    device = DEVICES[name]
    program: Any = pd.device(device).load(pd.compile(decoder_of(name).all_scores(1, 48), targets=device))
    tokens, expected = reference_of(name)
    scores = []
    for start, count in ((0, 48), (48, 16)):
        chunk = np.zeros((1, 48), np.int32)
        chunk[0, :count] = tokens[start : start + count]
        scores.append(np.asarray(program.all_scores(chunk, i32(start), i32(count), PAGES))[0, :count])
    np.testing.assert_allclose(np.concatenate(scores), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("device", "rows", "length"), [("cpu", 2, 1), ("vulkan", 1, 32)])
def test_a_kernel_of_the_user_replaces_attention(device: str, rows: int, length: int) -> None:
    """Row 0 is the tested sequence, by tokens and by chunks; row 1 is unused."""
    attention = runpy.run_path(str(ATTENTION))["attention"]
    decoder = decoder_of("llama")
    step = decoder.all_scores(rows, length)
    artifact = pd.compile(step, targets=device, patterns=[attention], require_match=True)
    commands = dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["all_scores"]
    assert sum(command.executable == "attention_kernel" for command in commands) == decoder.config.layers
    program: Any = pd.device(device).load(artifact)
    tokens, expected = reference_of("llama")
    zeros, pages = np.zeros(rows, np.int32), np.repeat(PAGES, rows, axis=0)
    scores = []
    for start in range(0, len(tokens), length):
        chunk = np.zeros((rows, length), np.int32)
        chunk[0] = tokens[start : start + length]
        counts = i32(length, 0)[:rows]
        scores.append(np.asarray(program.all_scores(chunk, zeros + start, counts, pages))[0])
    np.testing.assert_allclose(np.concatenate(scores), expected, rtol=0, atol=1e-4)


def test_attention_that_a_pattern_does_not_describe() -> None:
    attention = runpy.run_path(str(ATTENTION))["attention"]
    with pytest.raises(pd.CompileError, match=r"attention matched nothing; nearest is .* operand 1 of arith\.select"):
        pd.compile(decoder_of("gemma2").all_scores(1, 8), targets="cpu", patterns=[attention], require_match=True)


def test_a_row_does_not_depend_on_others() -> None:
    """Row 1 is the tested sequence, token by token; row 0 is another, or unused; row 2 is unused, but names pages."""
    program: Any = pd.device("cpu").load(pd.compile(decoder_of("llama").all_scores(3, 1), targets="cpu"))
    tokens, expected = reference_of("llama")
    pages = np.concatenate([PAGES + 12, PAGES, PAGES])
    scores = []
    for others in (0, 1):
        session = program.session()
        rows = [
            session.all_scores(i32(7 * others, token, 9)[:, None], i32(others * n, n, 0), i32(others, 1, 0), pages)[1]
            for n, token in enumerate(tokens)
        ]
        scores.append(np.concatenate(rows))
    np.testing.assert_array_equal(scores[0].view(np.int32), scores[1].view(np.int32))
    np.testing.assert_allclose(scores[1], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is not one of gemma2, gpt2, llama, mistral, qwen2, qwen3"),
        ({"use_sliding_window": True}, "use_sliding_window is True; decoders of examples/llm have False"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5; decoders"),
        ({"hidden_act": "relu"}, "activation 'relu' of a llama model: expected 'silu'"),
    ],
)
def test_models_that_are_none_of_these(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    fields = json.loads((CHECKPOINTS / "llama" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(fields | changes))
    with pytest.raises(ValueError, match=message):
        Config.read(tmp_path)


@pytest.mark.parametrize(("name", "kind"), [("gemma2", "gemma2 model with a window"), ("qwen3", "qwen3 model")])
def test_models_that_frameworks_do_not_have(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"a {kind}; decoders in JAX and ONNX are of the Llama type"):
        read_llama(str(CHECKPOINTS / name))


@pytest.mark.parametrize("name", GEMMA2_FIELDS)
def test_fields_that_a_model_must_state(tmp_path: Path, name: str) -> None:
    fields = json.loads((CHECKPOINTS / "gemma2" / "config.json").read_text())
    del fields[name]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=f"a gemma2 model needs the field '{name}'"):
        Config.read(tmp_path)


@pytest.mark.parametrize(("window", "expected"), [(None, None), (0, None), (20, 20)])
def test_sliding_windows(tmp_path: Path, window: int | None, expected: int | None) -> None:
    fields = json.loads((CHECKPOINTS / "mistral" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(fields | {"sliding_window": window}))
    assert Config.read(tmp_path).window == expected


def test_rotary_embeddings_that_are_none_of_these() -> None:
    with pytest.raises(ValueError, match="rope_type 'yarn' is not one of default, linear, llama3"):
        Rotary(8, scaling=(("rope_type", "yarn"),)).frequencies()


def test_an_engine_gives_each_request_the_tokens_that_it_gets_alone() -> None:
    """Three rows share 25 pages, too few for their longest sequences; prompts have common beginnings."""
    decoder = decoder_of("llama", chunk=16, max_sequences=3)
    program = pd.device("cpu").load(pd.compile(decoder.programs(), targets="cpu"))
    tokens, scores = reference_of("llama")
    draw = np.random.default_rng(0)
    requests: list[tuple[Any, dict[str, Any]]] = []
    for index in range(9):
        prompt = np.concatenate([tokens[: draw.integers(1, 41)], draw.integers(0, 20, draw.integers(4))])
        sampling = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": index} if index % 3 else {}
        requests.append((prompt, {"max_new_tokens": 96 - len(prompt) if index < 6 else 5, **sampling}))
    alone = []
    for prompt, options in requests:
        with Engine(program.session()) as engine:
            alone.append(engine.submit(prompt, **options).result().tokens)
    with Engine(program.session()) as engine:
        handles = [engine.submit(prompt, **options) for prompt, options in requests]
        assert [handle.result().tokens for handle in handles] == alone
        assert engine.statistics().preemptions > 0 and engine.statistics().pages_used == 0
        assert engine.submit(tokens[:40], max_new_tokens=1).result().tokens == (scores[39].argmax(),)
        assert engine.submit(tokens[:60], max_new_tokens=1).result().tokens == (scores[59].argmax(),)
