"""The measured model: a Llama with random weights, its steps in pydispatch, and the machine's rates beside them."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pydispatch as pd

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "llm"))

from blocks import Blocks
from config import Config, Rotary
from model import Decoder

TYPES = {"f32": 4.0, "bf16": 2.0, "Q8_0": 34 / 32, "Q4_0": 18 / 32}
"""Type of weights -> bytes of a weight, with its share of the scale of a block of 32."""
SEQUENCES, PROMPTS = (1, 4, 16), (128, 1024)
"""Numbers of sequences that decode together; tokens of prompts."""
HELD = 128
"""Tokens that a sequence holds while it decodes."""
CHUNK, MAX_TOKENS, PAGE_SIZE = 64, 1088, 16
"""Tokens that a step of "prefill" computes; tokens of a sequence at most; tokens in a page of the cache."""
PAGES_OF_DECODE = HELD // PAGE_SIZE + 1
"""Pages of a sequence that decodes; the first sequence has those of MAX_TOKENS, for prompts."""
WORDS = 32000
"""Size of the vocabulary."""
READ_BYTES, PRODUCT_SIZE = 1 << 28, 1024
"""Sizes of the array and of the matrices that the rates of the machine are measured with."""
MATRIX = pd.f32[PRODUCT_SIZE, PRODUCT_SIZE]
"""Type of the operands of the product with which the machine's rate is measured."""
ROUNDS = 4
"""How often all steps take turns: their least times come from the same stretches of time."""


def config_of(layers: int, width: int) -> Config:
    """Return a Llama with heads of 64 features and as many of keys as of queries. width: features of a token."""
    heads = width // 64
    return Config("llama", WORDS, width, layers, heads, heads, 64, 1e-5, MAX_TOKENS, Rotary(64), is_tied=True)


def weights_of(config: Config, kind: str) -> dict[str, Any]:
    """Return random weights by the names of `transformers`. kind: "f32", "bf16", "Q8_0" or "Q4_0"; norms are f32."""
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Any:
        """Return random weights: an array for "f32" and "bf16", Blocks of 32 quantized weights for other types."""
        if kind in ("f32", "bf16"):
            values = random.standard_normal((rows, columns), np.float32) * np.float32(0.02)
            return values if kind == "f32" else values.astype(bfloat16())
        blocks = columns // 32
        # About 0.02 divided by the standard deviation of random integers of 8 bits (74) or 4 bits (4.6).
        scales = np.full((rows, blocks), 0.02 / (64 if kind == "Q8_0" else 4), np.float16)
        shape = (rows, blocks, 32 if kind == "Q8_0" else 16)  # Q4_0: two weights in a byte
        stored = random.integers(0, 256, shape, np.uint8)
        return Blocks(stored.view(np.int8) if kind == "Q8_0" else stored, scales)

    width, hidden, ones = config.width, hidden_of(config), np.ones(config.width, np.float32)
    weights = {"model.embed_tokens.weight": matrix(WORDS, width), "model.norm.weight": ones}
    for layer in range(config.layers):
        name = f"model.layers.{layer}"
        weights |= {f"{name}.{norm}.weight": ones for norm in ("input_layernorm", "post_attention_layernorm")}
        weights |= {f"{name}.self_attn.{letter}_proj.weight": matrix(width, width) for letter in "qkvo"}
        weights |= {f"{name}.mlp.{projection}_proj.weight": matrix(hidden, width) for projection in ("gate", "up")}
        weights[f"{name}.mlp.down_proj.weight"] = matrix(width, hidden)
    return weights


def bfloat16() -> Any:
    """Return the NumPy type of bf16."""
    import ml_dtypes

    return ml_dtypes.bfloat16


def hidden_of(config: Config) -> int:
    """Return the features between the MLP's matrices: 8/3 of the width, as in Llama, in multiples of 256."""
    return config.width * 8 // 3 // 256 * 256


def products_of(config: Config) -> int:
    """Return the number of weights that each token is multiplied by: those of all layers and of the output."""
    # A layer has 4 matrices of attention and 3 of the MLP.
    return config.layers * config.width * (4 * config.width + 3 * hidden_of(config)) + WORDS * config.width


def compile_model(config: Config, kind: str, path: Path, options: Mapping[str, Any]) -> float:
    """Compile all steps into the artifact `path`, and return the CPU seconds.

    kind: type of the weights, such as "f32" or "Q8_0". options: keywords of `pd.compile`.
    """
    # Page 0 belongs to no sequence; the first sequence has MAX_TOKENS, for prompts.
    pages = 1 + MAX_TOKENS // PAGE_SIZE + (max(SEQUENCES) - 1) * PAGES_OF_DECODE
    decoder = Decoder(
        config,
        weights_of(config, kind),
        chunk=CHUNK,
        max_sequences=max(SEQUENCES),
        page_size=PAGE_SIZE,
        num_pages=pages,
    )
    programs = {"prefill": decoder.step(1, CHUNK), **{f"decode{n}": decoder.step(n, 1) for n in SEQUENCES}}
    start = time.process_time()
    pd.compile(programs, cpu="native", **options).save(path)
    return time.process_time() - start


def measure_model(path: Path, seconds: float) -> dict[str, float]:
    """Measure the artifact `path`, and return values by name.

    "decode N": CPU seconds of a token in each of N sequences. "prefill N": CPU seconds of a prompt of N tokens.
    "read", "product": CPU seconds of the calls of `machine_rate_calls`. "memory": the largest memory of the process, in
    MiB. seconds: for how long each call is repeated.
    """
    program = pd.device("cpu?workers=1").load(path)
    random = np.random.default_rng(1)
    # Page tables: the first sequence, which also prefills, has MAX_TOKENS / PAGE_SIZE pages from 1 on; each other
    # sequence has PAGES_OF_DECODE pages of its own.
    prompt_pages, others = MAX_TOKENS // PAGE_SIZE, max(SEQUENCES) - 1
    tables = np.zeros((1 + others, prompt_pages), np.int32)
    tables[0] = 1 + np.arange(prompt_pages)
    tables[1:, :PAGES_OF_DECODE] = 1 + prompt_pages + np.arange(others * PAGES_OF_DECODE).reshape(-1, PAGES_OF_DECODE)

    def call(name: str, rows: int, width: int, start: int) -> Callable[[], Any]:
        """Return a prepared step of `width` tokens in each of `rows` sequences, from position `start` on."""
        tokens = random.integers(0, WORDS, (rows, width)).astype(np.int32)
        zeros, ones = np.zeros(rows, np.int32), np.ones(rows, np.float32)
        starts, counts = zeros + start, zeros + width
        temperature, top_k, top_p, seeds = 0 * ones, zeros, ones, zeros  # temperature 0: the most probable token
        return program[name].prepare(tokens, starts, counts, tables[:rows], temperature, top_k, top_p, seeds)

    steps: dict[str, Callable[[], Any]] = {f"decode {n}": call(f"decode{n}", n, 1, HELD) for n in SEQUENCES}
    for length in PROMPTS:
        chunks = [call("prefill", 1, CHUNK, start) for start in range(0, length, CHUNK)]
        steps[f"prefill {length}"] = lambda chunks=chunks: [chunk() for chunk in chunks]  # type: ignore[misc]
    for step in steps.values():
        step()
    memory = peak_memory()  # before machine_rate_calls, which need memory of their own
    return {"memory": memory, **least_seconds({**steps, **machine_rate_calls()}, seconds)}


def machine_rate_calls() -> dict[str, Callable[[], Any]]:
    """Return calls whose times give the rates of the machine, to which those of the model are compared.

    "read" adds up READ_BYTES of memory, and "product" multiplies square matrices of size PRODUCT_SIZE; both on one
    worker, as the model.
    """

    @pd.program
    def read(x: Annotated[Any, pd.f32[READ_BYTES // 4]]) -> Any:
        """Sum an array, which reads it once."""
        return np.sum(x)

    @pd.program
    def product(x: Annotated[Any, MATRIX], y: Annotated[Any, MATRIX]) -> Any:
        """Multiply two matrices."""
        return x @ y

    program = pd.device("cpu?workers=1").load(pd.compile({"read": read, "product": product}, cpu="native"))
    matrix = np.ones((PRODUCT_SIZE, PRODUCT_SIZE), np.float32)
    return {
        "read": program["read"].prepare(np.ones(READ_BYTES // 4, np.float32)),
        "product": program["product"].prepare(matrix, matrix),
    }


def least_seconds(functions: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Return the least CPU seconds of a call of each function.

    They are called in turns, ROUNDS times for seconds / ROUNDS each.
    """
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            end = time.process_time() + seconds / ROUNDS
            while True:
                start = time.process_time()
                function()
                now = time.process_time()
                least[name] = min(least[name], now - start)
                if now >= end:
                    break
    return least


def peak_memory() -> float:
    """Return the largest resident memory of the process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
