"""Language models: tokens per second of prompts and answers, beside the same model in PyTorch.

    python bench/llm.py [--only TYPE...] [--billion] [--layers N] [--seconds S] [--json FILE]

A Llama with random weights, 12 layers of 768 (--billion: 16 of 2048) and 32,000 words. "decode" are the tokens of 1, 4
and 16 sequences that hold 128 tokens each, "prefill" the tokens of a prompt of 128 or 1,024 in chunks of 64, with the
time until its first token. Times are CPU times of the process. The cache has 1,088 tokens for each sequence, in f32.
One worker, and one thread of PyTorch, which computes the same layers with a cache of its own and
`scaled_dot_product_attention`.

"memory rate" is the share of the rate at which one worker adds up an array in memory that decode reads the weights at;
"FMA rate" the share of the products per second of a large f32 matrix product that prefill computes. Each type of
weights is compiled, and then measured, in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from report.figures import OURS, ROOT, Figures, Row, parser, table

import pydispatch as pd

sys.path.append(str(ROOT / "examples" / "llm"))

from blocks import Blocks
from config import Config, Rotary
from model import Decoder

TYPES = {"f32": 4.0, "bf16": 2.0, "Q8_0": 34 / 32, "Q4_0": 18 / 32}
"""Bytes of a weight."""
SEQUENCES, PROMPTS = (1, 4, 16), (128, 1024)
HELD = 128
"""Tokens that a sequence holds while it decodes."""
CHUNK, MAX_TOKENS = 64, 1088
WORDS = 32000


def config_of(layers: int, width: int) -> Config:
    heads = width // 64
    return Config("llama", WORDS, width, layers, heads, heads, 64, 1e-5, MAX_TOKENS, Rotary(64), is_tied=True)


def weights_of(config: Config, kind: str) -> dict[str, Any]:
    """Return random weights by the names of `transformers`, in the type `kind`."""
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Any:
        if kind in ("f32", "bf16"):
            values = random.standard_normal((rows, columns), np.float32) * np.float32(0.02)
            return values if kind == "f32" else values.astype(bfloat16())
        blocks = columns // 32
        scales = np.full((rows, blocks), 0.02 / (64 if kind == "Q8_0" else 4), np.float16)
        shape = (rows, blocks, 32 if kind == "Q8_0" else 16)
        stored = random.integers(0, 256, shape, np.uint8)
        return Blocks(stored.view(np.int8) if kind == "Q8_0" else stored, scales)

    width, hidden, ones = config.width, hidden_of(config), np.ones(config.width, np.float32)
    weights = {"model.embed_tokens.weight": matrix(WORDS, width), "model.norm.weight": ones}
    for layer in range(config.layers):
        name = f"model.layers.{layer}"
        weights |= {f"{name}.{norm}.weight": ones for norm in ("input_layernorm", "post_attention_layernorm")}
        weights |= {f"{name}.self_attn.{letter}_proj.weight": matrix(width, width) for letter in "qkvo"}
        weights |= {f"{name}.mlp.{part}_proj.weight": matrix(hidden, width) for part in ("gate", "up")}
        weights[f"{name}.mlp.down_proj.weight"] = matrix(width, hidden)
    return weights


def bfloat16() -> Any:
    """Return the NumPy type of bf16."""
    import ml_dtypes

    return ml_dtypes.bfloat16


def hidden_of(config: Config) -> int:
    return config.width * 8 // 3 // 256 * 256


def products_of(config: Config) -> int:
    """Return the number of weights that each token is multiplied by."""
    return config.layers * config.width * (4 * config.width + 3 * hidden_of(config)) + WORDS * config.width


def compile_model(config: Config, kind: str, path: Path) -> None:
    decoder = Decoder(config, weights_of(config, kind), chunk=CHUNK, max_sequences=max(SEQUENCES))
    programs = {"prefill": decoder.step(1, CHUNK), **{f"decode{n}": decoder.step(n, 1) for n in SEQUENCES}}
    pd.compile(programs, cpu="native").save(path)


def measure_model(path: Path, seconds: float) -> dict[str, float]:
    """Return the seconds of each step, and the largest memory of the process in MiB."""
    program = pd.device("cpu?workers=1").load(path)
    random, pages = np.random.default_rng(1), MAX_TOKENS // 16
    tables = 1 + np.arange(max(SEQUENCES) * pages, dtype=np.int32).reshape(-1, pages)

    def call(name: str, rows: int, width: int, start: int) -> Callable[[], Any]:
        tokens = random.integers(0, WORDS, (rows, width)).astype(np.int32)
        zeros, ones = np.zeros(rows, np.int32), np.ones(rows, np.float32)
        return program[name].prepare(tokens, zeros + start, zeros + width, tables[:rows], 0 * ones, zeros, ones, zeros)

    results = {f"decode {n}": least_seconds(call(f"decode{n}", n, 1, HELD), seconds) for n in SEQUENCES}
    for length in PROMPTS:
        chunks = [call("prefill", 1, CHUNK, start) for start in range(0, length, CHUNK)]
        results[f"prefill {length}"] = least_seconds(lambda chunks=chunks: [chunk() for chunk in chunks], seconds)
    results["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return results


def least_seconds(function: Callable[[], Any], seconds: float) -> float:
    """Return the least CPU time of calls that take `seconds` together, after one call."""
    function()
    least, end = float("inf"), time.process_time() + seconds
    while time.process_time() < end or least == float("inf"):
        start = time.process_time()
        function()
        least = min(least, time.process_time() - start)
    return least


def measure_torch(config: Config, kind: str, seconds: float) -> dict[str, float]:
    """Return the seconds of each step of the model in PyTorch, and the largest memory of the process in MiB."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    weights = {n: torch.from_numpy(np.asarray(w)).to(dtype) for n, w in weights_of(config, "f32").items()}
    heads, size = config.heads, config.head_size
    cache = torch.zeros(config.layers, 2, max(SEQUENCES), heads, MAX_TOKENS, size, dtype=dtype)
    frequencies = torch.from_numpy(Rotary(size).frequencies())

    def step(tokens: Any, start: int) -> Any:
        rows, length = tokens.shape
        angles = torch.arange(start, start + length)[:, None] * frequencies
        cosine, sine = angles.cos().to(dtype), angles.sin().to(dtype)

        def rotated(x: Any) -> Any:
            low, high = x.chunk(2, -1)
            return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)

        x = functional.embedding(tokens, weights["model.embed_tokens.weight"])
        for layer in range(config.layers):

            def linear(x: Any, name: str, layer: int = layer) -> Any:
                return functional.linear(x, weights[f"model.layers.{layer}.{name}_proj.weight"])

            y = functional.rms_norm(x, (config.width,))
            q, k, v = (linear(y, f"self_attn.{n}").view(rows, length, heads, size).transpose(1, 2) for n in "qkv")
            for part, new in enumerate((rotated(k), v)):
                cache[layer, part, :rows, :, start : start + length] = new
            keys, values = cache[layer, :, :rows, :, : start + length]
            mask = torch.ones(length, start + length, dtype=torch.bool).tril(start)
            y = functional.scaled_dot_product_attention(rotated(q), keys, values, attn_mask=mask)
            x = x + linear(y.transpose(1, 2).reshape(rows, length, -1), "self_attn.o")
            y = functional.rms_norm(x, (config.width,))
            x = x + linear(functional.silu(linear(y, "mlp.gate")) * linear(y, "mlp.up"), "mlp.down")
        last = functional.rms_norm(x[:, -1], (config.width,))
        return functional.linear(last, weights["model.embed_tokens.weight"]).argmax(-1)

    with torch.inference_mode():
        one = [torch.ones(n, 1, dtype=torch.long) for n in SEQUENCES]
        results = {f"decode {len(t)}": least_seconds(lambda t=t: step(t, HELD), seconds) for t in one}
        for length in PROMPTS:
            prompt = torch.ones(1, length, dtype=torch.long)
            results[f"prefill {length}"] = least_seconds(lambda prompt=prompt: step(prompt, 0), seconds)
    results["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return results


def machine_rates(seconds: float) -> tuple[float, float]:
    """Return (bytes per second that one worker adds up, multiply-adds per second of a large product)."""
    array, a = np.ones(1 << 26, np.float32), np.ones((1024, 1024), np.float32)

    @pd.program
    def total(x: Annotated[Any, pd.f32[1 << 26]]) -> Any:
        return np.sum(x)

    @pd.program
    def product(x: Annotated[Any, pd.f32[1024, 1024]], y: Annotated[Any, pd.f32[1024, 1024]]) -> Any:
        return x @ y

    program = pd.device("cpu?workers=1").load(pd.compile({"total": total, "product": product}, cpu="native"))
    read = array.nbytes / least_seconds(program.total.prepare(array), seconds)
    return read, 1024**3 / least_seconds(program.product.prepare(a, a), seconds)


def in_process(job: str, config: Config, kind: str, path: Path, seconds: float) -> dict[str, float]:
    """Run a job of JOBS in a process of its own, and return what it returns."""
    arguments = [job, str(config.layers), str(config.width), kind, str(path), str(seconds)]
    command = [sys.executable, __file__, "--job", *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(result.stdout.splitlines()[-1]))


def run_job(job: str, layers: str, width: str, kind: str, path: str, seconds: str) -> None:
    """Run a job, and print the JSON of its results."""
    config = config_of(int(layers), int(width))
    if job == "compile":
        start = time.process_time()
        compile_model(config, kind, Path(path))
        results = {"compile": time.process_time() - start}
    elif job == "measure":
        results = measure_model(Path(path), float(seconds))
    else:
        results = measure_torch(config, kind, float(seconds))
    print(json.dumps(results))


def rows_of_model(
    kind: str, contender: str, found: dict[str, float], config: Config, rates: tuple[float, float]
) -> list[Row]:
    """Return the figures of one type of weights. rates: see `machine_rates`."""
    rows = []
    for count in SEQUENCES:
        step, size = found[f"decode {count}"], f"{kind}, {count} sequences"
        rows.append(Row("decode", contender, count / step, "tokens/s", size))
        rows.append(Row("memory rate", contender, products_of(config) * TYPES[kind] / step / rates[0], "1", size))
    for length in PROMPTS:
        step, size = found[f"prefill {length}"], f"{kind}, {length} tokens"
        rows.append(Row("prefill", contender, length / step, "tokens/s", size))
        rows.append(Row("first token", contender, step, "s", size))
        products = products_of(config) - WORDS * config.width
        rows.append(Row("FMA rate", contender, products * length / step / rates[1], "1", size))
    rows.append(Row("peak memory", contender, found["memory"], "MiB", kind))
    return rows


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--only", nargs="+", choices=TYPES, default=list(TYPES), help="types of weights")
    arguments.add_argument("--billion", action="store_true", help="16 layers of 2048 features instead of 12 of 768")
    arguments.add_argument("--layers", type=int, help="another number of layers")
    arguments.add_argument("--seconds", type=float, default=2.0, help="for each step")
    arguments.add_argument("--job", nargs=6, help="what a process of this benchmark runs")
    options = arguments.parse_args()
    if options.job:
        run_job(*options.job)
        return
    layers, width = (16, 2048) if options.billion else (12, 768)
    config = config_of(options.layers or layers, width)
    rates = machine_rates(options.seconds)
    shape = f"{config.layers} layers of {width}, {products_of(config) / 1e6:.0f} M products for each token"
    figures = Figures("Language models", f"A Llama of {shape}; least CPU times, one worker.")
    figures.rows += [
        Row("memory rate", "machine", rates[0] / 1e9, "GB/s"),
        Row("FMA rate", "machine", rates[1] / 1e9, "G/s"),
    ]
    for kind in options.only:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pdx"
            try:
                compiled = in_process("compile", config, kind, path, options.seconds)
            except subprocess.CalledProcessError:
                figures.missing.append(f"{kind}: the model did not compile")
                continue
            figures.rows.append(Row("compile", OURS, compiled["compile"], "s", kind))
            found = in_process("measure", config, kind, path, options.seconds)
        rows = rows_of_model(kind, OURS, found, config, rates)
        if kind in ("f32", "bf16"):
            try:
                rows += rows_of_model(
                    kind, "torch", in_process("torch", config, kind, path, options.seconds), config, rates
                )
            except subprocess.CalledProcessError:
                figures.missing.append(f"torch, {kind}")
        figures.rows += rows
        print(table(rows), flush=True)
    if options.json:
        figures.save(options.json)


if __name__ == "__main__":
    main()
