"""A model as what other processes need to serve it: the bytes of an artifact, a tokenizer, and end tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model import Decoder
from tokenizers import Tokenizer
from weights import file_of

import pydispatch as pd
from pydispatch.generate import Engine


@dataclass(frozen=True)
class Served:
    """A compiled model that can be pickled. `engine` loads it.

    artifact: contents of a .pdx file. tokenizer: text of the `tokenizer.json`. end_tokens: tokens that end an answer.
    """

    artifact: bytes
    tokenizer: str
    end_tokens: tuple[int, ...]

    @classmethod
    def read(cls, model: Path, device: str = "cpu", sequences: int = 8, max_tokens: int = 512) -> Served:
        """Compile a model for a device.

        Args:
            model: Folder of `config.json`, `*.safetensors` and `tokenizer.json`, or a GGUF file beside a
                `tokenizer.json`.
            device: Name of the device, as `pd.device` takes it.
            sequences: Requests that are generated at once.
            max_tokens: Longest prompt and answer together.
        """
        tokenizer = file_of(model, "tokenizer.json")
        decoder = Decoder.read(model, max_sequences=sequences, max_tokens=max_tokens)
        artifact = pd.compile(decoder.programs(), targets=device.partition(":")[0].partition("?")[0])
        return cls(artifact.to_bytes(), tokenizer.read_text("utf-8"), decoder.config.end_tokens)

    def engine(self, device: str = "cpu") -> Engine[str]:
        """Return an engine on a device of this process."""
        program = pd.device(device).load(self.artifact)
        return Engine(program, Tokenizer.from_str(self.tokenizer), stop=self.end_tokens)
