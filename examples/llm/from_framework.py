"""Continue a text with a decoder of JAX, transformers or ONNX: python examples/llm/from_framework.py jax [PROMPT]

The model of the folder `--model` is written in a framework (`frameworks/`), compiled, and called token by token, with
the most probable token as the next one. `--reference` runs the framework itself.
"""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import numpy as np
from command_line import run
from frameworks import Step
from weights import file_of

import pydispatch as pd

HERE = Path(__file__).resolve().parent


def continued(step: Step, prompt: list[int], count: int) -> list[int]:
    """Return the `count` tokens that follow those of the prompt, the most probable one each time."""
    tokens = list(prompt)
    for position in range(len(prompt) + count - 1):
        scores = step(tokens[position], position)
        if position >= len(prompt) - 1:  # before, the prompt has the next token
            tokens.append(int(np.argmax(scores)))
    return tokens[len(prompt) :]


def main() -> int:
    """Print the prompt with its continuation, by the compiled program or by the framework itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=["jax", "transformers", "onnx"])
    parser.add_argument("prompt", nargs="?", default="The compiler")
    parser.add_argument("--model", type=Path, default=HERE / "small")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan, webgpu:0, ...")
    parser.add_argument("--tokens", type=int, default=40, help="tokens of the answer")
    parser.add_argument("--reference", action="store_true", help="run the framework instead of the compiled program")
    arguments = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file_of(arguments.model, "tokenizer.json")))
    prompt = list(tokenizer.encode(arguments.prompt).ids)
    framework = importlib.import_module(f"frameworks.of_{arguments.framework}")
    folder, max_tokens = str(arguments.model), len(prompt) + arguments.tokens
    if arguments.reference:
        step = framework.reference(folder, max_tokens)
    else:
        artifact = framework.compile_decoder(folder, max_tokens, targets=re.split("[:?]", arguments.device)[0])
        step = framework.step_of(pd.device(arguments.device).load(artifact))
    print(tokenizer.decode(prompt + continued(step, prompt, arguments.tokens)))
    return 0


if __name__ == "__main__":
    run(main)
