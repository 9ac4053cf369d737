"""GPT-2 of PyTorch as an exported program (.pt2), with a C kernel for its activation and a cache of keys and values.

python examples/models/gpt2.py [--small] [--device cpu] [--write FOLDER]

Generates tokens twice, with PyTorch and with the compiled program, and compares them and their scores. The activation
is a custom operation of PyTorch, `mylib::gelu`, for which `kernels=` gives a C function. The numbers of new and of
earlier tokens are symbols. Weights are random, of a fixed seed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import pydispatch as pd

HERE = Path(__file__).parent
KERNELS = {"mylib::gelu": pd.CFunction(HERE / "gelu.c", "gelu", "x", "out", "count", "first", tile={"count": 4096})}
"""Operation of PyTorch -> C function, which computes tiles of 4096 elements."""


@torch.library.custom_op("mylib::gelu", mutates_args=())
def gelu(x: Tensor) -> Tensor:
    """The activation, as PyTorch computes it."""
    return nn.functional.gelu(x, approximate="tanh")


@gelu.register_fake
def _(x: Tensor) -> Tensor:
    """Return a tensor with the shape and type of the result, whose elements PyTorch does not read."""
    return torch.empty_like(x)


class Block(nn.Module):
    """Attention over earlier and new tokens, and two linear layers.

    x: [1, new, width], mask: [new, earlier + new], added to scores; keys, values: [1, heads, earlier, size].
    """

    def __init__(self, width: int, heads: int) -> None:
        """Create the layers. width: number of features."""
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features of the new tokens, and keys and values of the earlier and the new ones."""
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, 2)
        )
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        scores = q @ keys.transpose(2, 3) * (width // self.heads) ** -0.5
        mixed = torch.softmax(scores + mask, -1) @ values
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(gelu(self.up(self.norm2(x)))), keys, values


class Model(nn.Module):
    """ids [1, new], keys and values [layers, 1, heads, earlier, size] → scores of the next token, keys, values."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        """Create the layers. width: number of features. vocabulary: number of tokens. context: positions, at most."""
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the new tokens, each of which attends to the earlier ones, those before it and itself."""
        earlier, new = keys.shape[3], ids.shape[1]
        positions = torch.arange(new) + earlier
        x = self.words(ids) + self.positions(positions)
        allowed = torch.arange(earlier + new)[None, :] <= positions[:, None]
        mask = torch.where(allowed, 0.0, float("-inf"))
        cached = []
        for layer, block in enumerate(self.blocks):
            x, *pair = block(x, mask, keys[layer], values[layer])
            cached.append(pair)
        scores = self.norm(x[:, -1]) @ self.words.weight.T
        return scores, torch.stack([k for k, _ in cached]), torch.stack([v for _, v in cached])


def generate(step: Any, prompt: list[int], count: int, empty: np.ndarray[Any, Any]) -> tuple[list[int], Any]:
    """Return `count` tokens after the prompt, the one with the best score each time, and the scores of the last.

    step: (ids, keys, values) -> (scores of the next token, keys, values). empty: keys or values of no tokens.
    """
    tokens, keys, values, ids = [], empty, empty, np.array([prompt])
    for _ in range(count):
        scores, keys, values = step(ids, keys, values)
        tokens.append(int(np.argmax(scores[0])))
        ids = np.array([tokens[-1:]])  # the caches have those before
    return tokens, scores


def main() -> None:
    """Export and compile the model, generate tokens, and compare them with PyTorch's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="two layers of 32 features, 2 heads, 50 words")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan, ...")
    parser.add_argument("--tokens", type=int, default=16, help="how many are generated")
    parser.add_argument("--write", type=Path, help="write the model, an input and its result into a folder")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    layers, width, heads, words, context = (2, 32, 2, 50, 64) if arguments.small else (12, 768, 12, 50257, 1024)
    model = Model(layers, width, heads, words, context).eval()
    new, earlier = torch.export.Dim("new", max=context - 1), torch.export.Dim("earlier", max=context - 1)
    sizes = ({1: new}, {3: earlier}, {3: earlier})
    # Two tensors: an export would take the same tensor twice for one argument.
    caches = [torch.zeros(layers, 1, heads, 4, width // heads) for _ in range(2)]
    exported = torch.export.export(model, (torch.zeros(1, 3, dtype=torch.int64), *caches), dynamic_shapes=sizes)
    folder = arguments.write or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(exported, folder / "gpt2.pt2")
    began = time.perf_counter()
    artifact = pd.compile(folder / "gpt2.pt2", kernels=KERNELS)
    print(f"compiled in {time.perf_counter() - began:.1f} s")
    program = pd.device(arguments.device).load(artifact)

    def reference(*inputs: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """Run the model in PyTorch, from and to arrays of NumPy."""
        with torch.no_grad():
            return [t.numpy() for t in model(*map(torch.from_numpy, inputs))]

    empty = np.zeros((layers, 1, heads, 0, width // heads), np.float32)
    prompt = [1, 2, 3, 5, 8]
    wanted, wanted_scores = generate(reference, prompt, arguments.tokens, empty)
    began = time.perf_counter()
    tokens, scores = generate(lambda *inputs: program.main(*inputs), prompt, arguments.tokens, empty)
    print(f"{arguments.tokens} tokens in {time.perf_counter() - began:.2f} s: {tokens}")
    error = np.abs(scores - wanted_scores).max() / np.abs(wanted_scores).max()
    print(f"largest difference to PyTorch: {error:.1e} of the largest score")
    assert tokens == wanted and error < 1e-4
    if arguments.write:
        np.savez(folder / "gpt2.npz", prompt=np.array(prompt), tokens=np.array(wanted), scores=wanted_scores)


if __name__ == "__main__":
    main()
