"""Continue a text with a language model: python examples/llm/chat.py [PROMPT] [--device cpu|vulkan|webgpu]

Without a prompt, each line of the standard input is one, and one that is too long is reported and left out. `--model`
names a folder with `config.json`, `*.safetensors` and `tokenizer.json`, or a GGUF file beside a `tokenizer.json`; by
default it is the small model of this folder, which `train.py` trained on the documentation.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from command_line import report, run
from config import Config
from model import Decoder
from weights import file_of

import pydispatch as pd

HERE = Path(__file__).resolve().parent


def loaded(path: Path, device: str, max_tokens: int) -> tuple[pd.Program, Config]:
    """Compile a model for one conversation, and load it on a device.

    device: name such as "cpu" or "vulkan:0", whose part before the first ":" or "?" is the target to compile for.
    max_tokens: longest prompt and answer together.
    """
    decoder = Decoder.read(path, max_sequences=1, max_tokens=max_tokens)
    return pd.device(device).load(pd.compile(decoder.programs(), targets=re.split("[:?]", device)[0])), decoder.config


def lines_of(stream: Iterable[str]) -> Iterable[str]:
    """Return the lines of a text that are not blank, without their line breaks."""
    return (line.rstrip("\n") for line in stream if line.strip())


def main() -> int:
    """Print the answer to each prompt while it is generated. Return 1 if a prompt was refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", nargs="?")
    parser.add_argument("--model", type=Path, default=HERE / "small")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan, webgpu:0, ...")
    parser.add_argument("--tokens", type=int, default=80, help="longest answer")
    parser.add_argument("--max-tokens", type=int, default=512, help="longest prompt and answer together")
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tokenizer = file_of(arguments.model, "tokenizer.json")
    program, config = loaded(arguments.model, arguments.device, arguments.max_tokens)
    status = 0
    with pd.generate.Engine(program, tokenizer, stop=config.end_tokens) as engine:
        for prompt in lines_of(sys.stdin) if arguments.prompt is None else [arguments.prompt]:
            try:
                answer = engine.submit(
                    prompt, max_new_tokens=arguments.tokens, temperature=arguments.temperature, top_p=arguments.top_p,
                    seed=arguments.seed,
                )  # fmt: skip
            except pd.InvalidArgumentError as error:
                report(error)
                status = 1
                continue
            print(prompt, end="", flush=True)
            for piece in answer:
                print(piece, end="", flush=True)
            print()
    return status


if __name__ == "__main__":
    run(main)
