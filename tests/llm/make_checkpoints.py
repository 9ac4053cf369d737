"""Write the random checkpoints of this folder, and what `transformers` computes from them.

    pip install torch transformers
    python tests/llm/make_checkpoints.py

Each folder gets `config.json`, `model.safetensors` and `reference.npz`: `tokens` i64[64], and the scores of all of
them, f32[64, words], computed in f32 from the stored weights. `continuation.json` has a text that the small model of
`examples/llm` continues, with the best tokens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "llm" / "checkpoints"
WORDS = 40
SIZES: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 96, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
SCALED = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
torch.manual_seed(0)
CHECKPOINTS: dict[str, tuple[PreTrainedModel, torch.dtype]] = {
    "llama": (LlamaForCausalLM(LlamaConfig(**SIZES)), torch.float32),
    "llama_scaled": (
        LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=SCALED, tie_word_embeddings=True)),
        torch.bfloat16,
    ),
    "llama_biased": (LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)), torch.float16),
    "qwen2": (Qwen2ForCausalLM(Qwen2Config(**SIZES)), torch.bfloat16),
    "qwen3": (Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8)), torch.float16),
    "gpt2": (
        GPT2LMHeadModel(
            GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=4, n_positions=96, bos_token_id=0, eos_token_id=0)
        ),
        torch.float32,
    ),
    "mistral": (MistralForCausalLM(MistralConfig(**SIZES, sliding_window=20)), torch.float32),
    "gemma2": (
        Gemma2ForCausalLM(
            Gemma2Config(
                **SIZES,
                head_dim=8,
                sliding_window=20,
                query_pre_attn_scalar=2,
                attn_logit_softcapping=1.5,
                final_logit_softcapping=2.0,
            )
        ),
        torch.bfloat16,
    ),
}


def write_continuation(prompt: str, count: int) -> None:
    """Write a prompt, and the tokens and the text of it with its `count` next tokens."""
    folder = ROOT / "examples" / "llm" / "small"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = list(tokenizer.encode(prompt).ids)
    for _ in range(count):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    values = {"prompt": prompt, "count": count, "tokens": tokens, "text": tokenizer.decode(tokens)}
    (FOLDER.parent / "continuation.json").write_text(json.dumps(values) + "\n")


def main() -> None:
    write_continuation("The compiler", 24)
    tokens = np.random.default_rng(0).integers(0, WORDS, 64)
    for name, (model, dtype) in CHECKPOINTS.items():
        folder = FOLDER / name
        for parameter in model.parameters():  # biases, and differences of norms from 1
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.to(dtype).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        (folder / "model.safetensors").chmod(0o644)
        with torch.no_grad():
            again = type(model).from_pretrained(folder, dtype=torch.float32).eval()
            scores = again(torch.from_numpy(tokens)[None]).logits[0].numpy()
        np.savez_compressed(folder / "reference.npz", tokens=tokens, scores=scores)


if __name__ == "__main__":
    main()
