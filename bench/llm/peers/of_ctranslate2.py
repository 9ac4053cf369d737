"""CTranslate2 as a peer of the benchmark of language models: it runs a Llama with the weights that we run.

CTranslate2 has no function for one step: a step is a part of the difference between answers of 1 and of 1 + `STEPS`
tokens. Its weights of 8 bits have one scale for each row, and those of Q8_0 one for each block of 32.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from config import Config
from ctranslate2.specs import common_spec, transformer_spec
from measured import HELD, PROMPTS, SEQUENCES, least_seconds, peak_memory, weights_of

COMPUTE_TYPES = {"f32": "float32", "Q8_0": "int8"}
"""The arithmetic of CTranslate2 for each type of weights."""

STEPS = 16
"""Tokens of an answer after the first one."""


def measure(config: Config, kind: str, seconds: float) -> dict[str, float]:
    """Return CPU seconds of steps ("decode N", "prefill N") and the process's largest "memory" in MiB.

    kind: type of the weights, "f32" or "Q8_0". seconds: for how long each step is repeated; the least time
    counts.
    """
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), config, weights_of(config, "f32"))
        model = ctranslate2.Generator(folder, compute_type=COMPUTE_TYPES[kind], inter_threads=1, intra_threads=1)

    def answers(prompt_length: int, sequences: int, length: int) -> Callable[[], Any]:
        """Return a function that answers `sequences` equal prompts of `prompt_length` random tokens.

        Each answer has `length` tokens, the most probable ones.
        """
        random = np.random.default_rng(1)
        prompt = [str(token) for token in random.integers(3, config.vocabulary, prompt_length)]  # 0 to 2 are special
        options = {"max_length": length, "min_length": length, "sampling_topk": 1, "include_prompt_in_result": False}
        return lambda: model.generate_batch([prompt] * sequences, **options)

    # Answers of both lengths compute the prompt and a first token; the longer one takes STEPS steps more.
    decoded = {(n, length): answers(HELD, n, length) for n in SEQUENCES for length in (1, 1 + STEPS)}
    prompts = {f"prefill {length}": answers(length, sequences=1, length=1) for length in PROMPTS}
    times = least_seconds({f"{count} {length}": function for (count, length), function in decoded.items()}, seconds)
    steps = {f"decode {n}": (times[f"{n} {1 + STEPS}"] - times[f"{n} 1"]) / STEPS for n in SEQUENCES}
    return {"memory": peak_memory(), **steps, **least_seconds(prompts, seconds)}


def save(folder: Path, config: Config, weights: dict[str, Any]) -> None:
    """Write a model folder of CTranslate2, whose vocabulary are the numbers of tokens in decimal.

    weights: f32, by the names of `transformers`.
    """
    assert config.rotary is not None
    specification = transformer_spec.TransformerDecoderModelSpec.from_config(
        config.layers, config.heads, activation=common_spec.Activation.SWISH, ffn_glu=True, rms_norm=True,
        rotary_dim=0, rotary_interleave=False, rotary_base=config.rotary.theta,
    )  # fmt: skip
    decoder = specification.decoder
    decoder.scale_embeddings = False  # as Llama; by default they are multiplied by the square root of the width
    embedding = weights["model.embed_tokens.weight"]
    decoder.embeddings.weight = decoder.projection.weight = embedding
    decoder.layer_norm.gamma = weights["model.norm.weight"]
    for index, layer in enumerate(decoder.layer):
        name = f"model.layers.{index}"
        projections = [weights[f"{name}.self_attn.{letter}_proj.weight"] for letter in "qkv"]
        layer.self_attention.layer_norm.gamma = weights[f"{name}.input_layernorm.weight"]
        layer.self_attention.linear[0].weight = np.concatenate(projections)
        layer.self_attention.linear[1].weight = weights[f"{name}.self_attn.o_proj.weight"]
        layer.ffn.layer_norm.gamma = weights[f"{name}.post_attention_layernorm.weight"]
        # "noact" has no activation function: its result is multiplied by the activation of that of "linear_0".
        for linear, projection in (("linear_0", "gate"), ("linear_0_noact", "up"), ("linear_1", "down")):
            getattr(layer.ffn, linear).weight = weights[f"{name}.mlp.{projection}_proj.weight"]
    specification.config.layer_norm_epsilon = config.epsilon
    specification.config.unk_token, specification.config.bos_token, specification.config.eos_token = "0", "1", "2"
    specification.register_vocabulary([str(token) for token in range(config.vocabulary)])
    specification.validate()
    specification.save(str(folder))
