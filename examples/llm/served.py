"""A model folder as what other processes need to serve it: the bytes of an artifact, a tokenizer, and end tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config import Config
from model import Decoder
from tokenizers import Tokenizer
from weights import Weights

import pydispatch as pd
from pydispatch.generate import Engine

TARGETS = {"vulkan": "vulkan-spirv", "webgpu": "webgpu-wgsl"}
"""Compilation target for each kind of device; other devices are targets of their own names."""


@dataclass(frozen=True)
class Served:
    """A compiled model that can be pickled. `engine` loads it."""

    artifact: bytes
    tokenizer: str
    end_tokens: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path, device: str = "cpu", sequences: int = 8, max_tokens: int = 512) -> Served:
        """Compile a folder of `config.json`, `*.safetensors` and `tokenizer.json` for a device.

        sequences: requests that are generated at once. max_tokens: longest prompt and answer together.
        """
        config = Config.read(folder)
        max_tokens = min(max_tokens, config.max_positions)
        decoder = Decoder(config, Weights(folder), max_sequences=sequences, max_tokens=max_tokens)
        kind = device.partition(":")[0].partition("?")[0]
        artifact = pd.compile(decoder.programs(), targets=TARGETS.get(kind, kind))
        return cls(artifact.to_bytes(), (folder / "tokenizer.json").read_text("utf-8"), config.end_tokens)

    def engine(self, device: str = "cpu") -> Engine[str]:
        """Return an engine on a device of this process."""
        program = pd.device(device).load(self.artifact)
        return Engine(program, Tokenizer.from_str(self.tokenizer), stop=self.end_tokens)
