"""Language models: tokens per second of prompts and answers, beside PyTorch, llama.cpp and CTranslate2.

    python bench/llm/run.py [--only TYPE...] [--billion] [--layers N] [--peers NAME...] [--seconds S] [--json FILE]

A Llama with random weights, 12 layers of 768 (--billion: 16 of 2048) and 32,000 words. "decode" are the tokens of 1, 4
and 16 sequences that hold 128 tokens each, "prefill" the tokens of a prompt of 128 or 1,024, in chunks of 64 here and
as a whole by peers, with the time until its first token. Times are CPU times of the process, with one worker or thread.
The cache is f32 here and in PyTorch, f16 in llama.cpp. Weights of integers are multiplied by activations of 24 bits,
and with `activation_bits=8` by bytes, as in llama.cpp and CTranslate2, which are compared with that. In the same way,
activations are multiplied by weights of bf16 in f32, and with `precision="bf16"` in bf16, as in PyTorch and llama.cpp.

"memory rate" is the share of the rate at which one worker adds up an array in memory that decode reads the weights at;
"FMA rate" the share of the products per second of a large f32 matrix product that prefill computes. Both rates are
measured in turns with the steps. Each type of weights is compiled, and then measured, in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from measured import (
    PRODUCT_SIZE,
    PROMPTS,
    READ_BYTES,
    SEQUENCES,
    TYPES,
    WORDS,
    compile_model,
    config_of,
    measure_model,
    products_of,
)
from report.figures import OURS, Figures, Row, parser, table

BYTES, PAIRS = f"{OURS}, activation_bits=8", f"{OURS}, precision=bf16"
"""Contenders of ours that round activations: to integers of 8 bits, and to bf16."""
OPTIONS: dict[str, dict[str, Any]] = {OURS: {}, BYTES: {"activation_bits": 8}, PAIRS: {"precision": "bf16"}}
"""Options that each contender of ours is compiled with."""
LIKE_PEERS = {"bf16": PAIRS, "Q8_0": BYTES, "Q4_0": BYTES}
"""Type of weights for which peers round activations -> contender of ours that rounds them, too."""
PEERS = {
    "torch": ("f32", "bf16"), "llama_cpp": ("f32", "bf16", "Q8_0", "Q4_0"), "ctranslate2": ("f32", "Q8_0"),
}  # fmt: skip
"""Peer (a module peers/of_PEER.py) -> types of weights that it can be measured with."""


def in_process(*job: object) -> dict[str, float]:
    """Run a job, see `run_job`, in a process of its own, and return its results."""
    command = [sys.executable, __file__, "--job", *map(str, job)]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(result.stdout.splitlines()[-1]))


def run_job(job: str, layers: str, width: str, kind: str, path: str, setting: str) -> None:
    """Run a job and print the JSON of its results.

    Args:
        job: "compile", "measure", or a name of `PEERS`.
        layers, width, kind: The model: layers, features of a token, type of the weights.
        path: The artifact that "compile" writes and "measure" reads; peers do not use it.
        setting: A contender of `OPTIONS` for "compile", seconds of each step for the other jobs.
    """
    config = config_of(int(layers), int(width))
    if job == "compile":
        results = {"compile": compile_model(config, kind, Path(path), OPTIONS[setting])}
    elif job == "measure":
        results = measure_model(Path(path), float(setting))
    else:
        results = import_module(f"peers.of_{job}").measure(config, kind, float(setting))
    print(json.dumps(results))


class Model:
    """Measurements of a model with one type of weights, whose rows are added to `figures`.

    layers, width: number of layers of the Llama, and features of a token. kind: type of the weights, such as "Q8_0".
    seconds: for how long each step is measured.
    """

    def __init__(self, figures: Figures, layers: int, width: int, kind: str, seconds: float) -> None:
        """Prepare measurements; they run in `measure` and `measure_peer`."""
        self.figures, self.layers, self.width, self.kind, self.seconds = figures, layers, width, kind, seconds
        self.config = config_of(layers, width)
        self.read_rate = 0.0
        """Bytes per second that one worker reads from memory; 0 until `measure` has measured it."""
        self.product_rate = 0.0
        """Multiply-adds per second of one worker in a large product of f32 matrices; 0 until measured."""

    def measure(self, contender: str) -> None:
        """Compile and measure the model with the options of a contender of OPTIONS, and the rates of the machine."""
        with tempfile.TemporaryDirectory() as folder:
            path, kind = Path(folder) / "model.pdx", self.kind
            try:
                compiled = in_process("compile", self.layers, self.width, kind, path, contender)
                results = in_process("measure", self.layers, self.width, kind, path, self.seconds)
            except subprocess.CalledProcessError:
                self.figures.missing.append(f"{contender}, {kind}")
                return
            size = path.stat().st_size
        self.read_rate, self.product_rate = READ_BYTES / results["read"], PRODUCT_SIZE**3 / results["product"]
        self.figures.rows += [
            Row("read rate", "machine", self.read_rate / 1e9, "GB/s", f"{kind}, {contender}"),
            Row("product rate", "machine", self.product_rate / 1e9, "G/s", f"{kind}, {contender}"),
            Row("compile", contender, compiled["compile"], "s", kind),
            Row("artifact", contender, size / 2**20, "MiB", kind),
        ]
        self._add(contender, results, OURS)

    def measure_peer(self, name: str) -> None:
        """Measure the model in a peer of PEERS; a peer that fails is noted as missing."""
        try:
            results = in_process(name, self.layers, self.width, self.kind, "-", self.seconds)
        except subprocess.CalledProcessError:
            self.figures.missing.append(f"{name}, {self.kind}")
            return
        self._add(name.replace("_", "."), results, LIKE_PEERS.get(self.kind, OURS))

    def _add(self, contender: str, results: dict[str, float], against: str) -> None:
        """Add and print the rows of a contender.

        results: seconds of the steps "decode N" and "prefill N", and "memory" in MiB. against: the contender of ours
        that it is compared with.
        """
        rows, config, kind, is_ours = [], self.config, self.kind, contender in OPTIONS

        def add(name: str, value: float, unit: str, size: str) -> None:
            """Append a row of the contender."""
            rows.append(Row(name, contender, value, unit, size, against=against))

        for count in SEQUENCES:
            step, size = results[f"decode {count}"], f"{kind}, {count} sequence{'s' * (count > 1)}"
            add("decode", count / step, "tokens/s", size)
            if is_ours:
                weight_bytes = products_of(config) * TYPES[kind]  # a token multiplies by each weight once
                add("memory rate", weight_bytes / step / self.read_rate, "1", size)
        for length in PROMPTS:
            step, size = results[f"prefill {length}"], f"{kind}, {length} tokens"
            add("prefill", length / step, "tokens/s", size)
            add("first token", step, "s", size)
            # The output is computed for the last token of a prompt only.
            products = products_of(config) - WORDS * config.width
            if is_ours:
                add("FMA rate", products * length / step / self.product_rate, "1", size)
        add("peak memory", results["memory"], "MiB", kind)
        self.figures.rows += rows
        print(table(rows), flush=True)


def main() -> None:
    """Measure the model with each type of weights, here and in the peers; with --job, run `run_job` instead."""
    arguments = parser(__doc__)
    arguments.add_argument("--only", nargs="+", choices=TYPES, default=list(TYPES), help="types of weights")
    arguments.add_argument("--billion", action="store_true", help="16 layers of 2048 features instead of 12 of 768")
    arguments.add_argument("--layers", type=int, help="another number of layers")
    arguments.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    arguments.add_argument("--seconds", type=float, default=2.0, help="for each step")
    arguments.add_argument("--job", nargs=6, help="arguments of run_job(), for processes of this benchmark")
    options = arguments.parse_args()
    if options.job:
        run_job(*options.job)
        return
    layers, width = (16, 2048) if options.billion else (12, 768)
    layers = options.layers or layers
    shape = f"{layers} layers of {width}, {products_of(config_of(layers, width)) / 1e6:.0f} M products for each token"
    figures = Figures("Language models", f"A Llama of {shape}; least CPU times, one worker.")
    for kind in options.only:
        model = Model(figures, layers, width, kind, options.seconds)
        model.measure(OURS)
        if kind in LIKE_PEERS:
            model.measure(LIKE_PEERS[kind])
        for name in options.peers:
            was_measured = model.read_rate > 0  # else there is nothing to compare with
            if kind in PEERS[name] and was_measured:
                model.measure_peer(name)
        if options.json:  # after each type: all of them take minutes
            figures.save(options.json)


if __name__ == "__main__":
    main()
