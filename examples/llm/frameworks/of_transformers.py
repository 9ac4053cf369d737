"""A decoder of `transformers`, exported by PyTorch with the keys and values of earlier tokens as arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, DynamicCache

import pydispatch as pd
from frameworks import Step, steps_with_caches


class CachedModel(nn.Module):
    """A model of calls (token i64[1, 1], *pasts) -> (scores, *presents), see `steps_with_caches`."""

    def __init__(self, folder: str) -> None:
        """Load the model of a folder in f32, for inference."""
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def forward(self, token: Tensor, *pasts: Tensor) -> tuple[Tensor, ...]:
        """Compute the scores of the next token. pasts and presents: keys and values of each layer in turn."""
        cache = DynamicCache(zip(pasts[::2], pasts[1::2], strict=True))
        output = self.model(token, past_key_values=cache, use_cache=True)
        presents = (part for layer in output.past_key_values.layers for part in (layer.keys, layer.values))
        return output.logits, *presents

    def cache_shapes(self, length: int) -> list[tuple[int, ...]]:
        """Return the shapes of the keys and the values of each layer in turn, for `length` earlier tokens."""
        config = self.model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        return [(1, heads, length, size)] * (2 * config.num_hidden_layers)


def compile_decoder(folder: str, max_tokens: int, **options: Any) -> pd.Artifact:
    """Export and compile the model for any number of earlier tokens, hence without `max_tokens`."""
    module = CachedModel(folder)
    pasts = tuple(torch.zeros(shape) for shape in module.cache_shapes(2))  # export makes sizes 0 and 1 static
    dynamic_shapes = {"token": None, "pasts": tuple({2: torch.export.Dim.AUTO} for _ in pasts)}
    return pd.from_torch(
        module, (torch.zeros(1, 1, dtype=torch.int64), *pasts), dynamic_shapes=dynamic_shapes, **options
    )


def step_of(program: pd.Program) -> Step:
    """Return the steps of a program, whose caches grow with each token, see `Framework`."""
    return steps_with_caches(program.main, [entry.shape for entry in program.main.inputs[1:]])


def reference(folder: str, max_tokens: int) -> Step:
    """Return the steps of the model in PyTorch, whose caches have no limit of tokens."""
    module = CachedModel(folder)

    def call(*arrays: Any) -> Any:
        """Run the module. The token is an array of NumPy; caches are tensors after the first call."""
        with torch.no_grad():
            return module(*(torch.from_numpy(array) if not isinstance(array, Tensor) else array for array in arrays))

    return steps_with_caches(call, module.cache_shapes(0))
