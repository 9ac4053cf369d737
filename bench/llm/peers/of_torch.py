"""PyTorch as a peer of the benchmark of language models: a Llama with the weights that we run, and its own cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from config import Config, Rotary
from measured import HELD, MAX_TOKENS, PROMPTS, SEQUENCES, least_seconds, peak_memory, weights_of
from torch.nn import functional


def measure(config: Config, kind: str, seconds: float) -> dict[str, float]:
    """Return CPU seconds of steps ("decode N", "prefill N") and the process's largest "memory" in MiB.

    kind: type of the weights, "f32" or "bf16". seconds: for how long each step is repeated; the least
    time counts.
    """
    torch.set_num_threads(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    weights = {n: torch.from_numpy(np.asarray(w)).to(dtype) for n, w in weights_of(config, "f32").items()}
    heads, size = config.heads, config.head_size
    # [layer, keys or values, sequence, head, position, feature]
    cache = torch.zeros(config.layers, 2, max(SEQUENCES), heads, MAX_TOKENS, size, dtype=dtype)
    frequencies = torch.from_numpy(Rotary(size).frequencies())

    def step(tokens: Any, start: int) -> Any:
        """Return the most probable next token of each sequence, and store the keys and values of its tokens in `cache`.

        tokens: [sequence, n], at positions from `start` on. The enclosing function defines `cache`, `weights` and the
        rotary `frequencies`.
        """
        rows, length = tokens.shape
        angles = torch.arange(start, start + length)[:, None] * frequencies
        cosine, sine = angles.cos().to(dtype), angles.sin().to(dtype)

        def rotated(x: Any) -> Any:
            """Return x with rotary position embeddings, which rotate features that are half a head apart."""
            low, high = x.chunk(2, -1)
            return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)

        x = functional.embedding(tokens, weights["model.embed_tokens.weight"])
        for layer in range(config.layers):

            def linear(x: Any, name: str, layer: int = layer) -> Any:
                """Return x times the transposed weight of the projection `name` of the layer, such as "q"."""
                return functional.linear(x, weights[f"model.layers.{layer}.{name}_proj.weight"])

            y = functional.rms_norm(x, (config.width,))
            q, k, v = (linear(y, f"self_attn.{n}").view(rows, length, heads, size).transpose(1, 2) for n in "qkv")
            for keys_or_values, new in enumerate((rotated(k), v)):
                cache[layer, keys_or_values, :rows, :, start : start + length] = new
            keys, values = cache[layer, :, :rows, :, : start + length]
            # A token attends to all before it and to itself.
            mask = torch.ones(length, start + length, dtype=torch.bool).tril(start)
            y = functional.scaled_dot_product_attention(rotated(q), keys, values, attn_mask=mask)
            x = x + linear(y.transpose(1, 2).reshape(rows, length, -1), "self_attn.o")
            y = functional.rms_norm(x, (config.width,))
            x = x + linear(functional.silu(linear(y, "mlp.gate")) * linear(y, "mlp.up"), "mlp.down")
        last = functional.rms_norm(x[:, -1], (config.width,))
        return functional.linear(last, weights["model.embed_tokens.weight"]).argmax(-1)

    with torch.inference_mode():
        decoded = [torch.ones(n, 1, dtype=torch.long) for n in SEQUENCES]  # a token of each of n sequences
        steps: dict[str, Any] = {f"decode {len(tokens)}": partial(step, tokens, HELD) for tokens in decoded}
        for length in PROMPTS:
            steps[f"prefill {length}"] = partial(step, torch.ones(1, length, dtype=torch.long), 0)
        results = least_seconds(steps, seconds)
    return {"memory": peak_memory(), **results}
