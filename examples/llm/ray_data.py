"""Answer the prompts of a text file, one a line, on a cluster of Ray: python examples/llm/ray_data.py PROMPTS OUT

    pip install 'pydispatch[compiler,llm]' 'ray[data]'

OUT becomes a folder of Parquet files with the columns `text` (the prompt), `answer` and `tokens` (their number). Each
worker has an engine that generates the prompts of a block together. The model is compiled once.

This example was run with Ray 2.60 on one machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import ray
from served import Served

HERE = Path(__file__).resolve().parent


class Answers:
    """A worker: it maps a batch of prompts to the batch with their answers. options: arguments of `Engine.submit`."""

    def __init__(self, served: Served, options: dict[str, Any]) -> None:
        """Start the engine of `served`; `options` are passed to each `Engine.submit`."""
        self.engine, self.options = served.engine(), options

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Submit all prompts of a batch to the engine, and wait for their answers."""
        handles = [self.engine.submit(str(text), wait=True, **self.options) for text in batch["text"]]
        completions = [handle.result() for handle in handles]
        answers = np.array([completion.text for completion in completions], dtype=object)
        return {**batch, "answer": answers, "tokens": np.array([len(c.tokens) for c in completions])}


def answered(dataset: Any, served: Served, workers: int, **options: Any) -> Any:
    """Return a dataset with the answers to the column `text`. options: arguments of `Engine.submit`."""
    return dataset.map_batches(
        Answers,
        fn_constructor_args=(served, options),
        batch_size=64,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=1,
    )


def main() -> None:
    """Compile the model, and write the answers to all lines of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=Path, default=HERE / "small", help="folder, or a GGUF file")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=50, help="longest answer")
    arguments = parser.parse_args()
    served = Served.read(arguments.model)
    dataset = ray.data.read_text(str(arguments.prompts.resolve()))
    results = answered(dataset, served, arguments.workers, max_new_tokens=arguments.tokens)
    results.write_parquet(str(arguments.out.resolve()))


if __name__ == "__main__":
    main()
