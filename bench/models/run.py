"""Measures the models here, with IREE, JAX and onnxruntime, and prints a line for each as soon as it is known.

    python bench/models/run.py [--only NAME...] [--workers 1 2] [--small] [--json FILE]

Needs an interpreter with JAX, onnx, onnxruntime and IREE's compiler and runtime. Every model is compiled by both sides
from the same StableHLO; one process for each number of workers calls it. `table.py` makes the tables of
docs/benchmarks.md of FILE.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import compiling
import counts
from calling import measure
from works import Model, models

from pydispatch.formats.artifact.artifact import Artifact

COMPILED = ("cold", "warm", "iree")
PEERS = ("iree", "onnxruntime", "jax")


def figures_of(model: Model, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures of a model."""
    text, output = folder / f"{model.name}.mlir", folder / f"{model.name}.pdx"
    text.write_text(model.text())
    cold, warm = compiling.here(text, output)
    try:
        peer = asdict(compiling.peer(text, output.with_suffix(".vmfb")))
    except RuntimeError as error:
        print(f"{model.name}: the peer cannot compile it: {str(error)[-300:]}", file=sys.stderr)
        peer = None
    dispatches = counts.ours(Artifact.from_file(output)), counts.peers(text)
    calls = {}
    for workers in args.workers:
        command = [
            sys.executable, __file__, "--child", "--workers", str(workers), "--only", model.name,
            "--folder", str(folder), "--seconds", str(args.seconds), *(["--small"] if args.small else []),
        ]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        calls[str(workers)] = json.loads(done.stdout.splitlines()[-1])
    compile_ = {"cold": asdict(cold), "warm": asdict(warm), "iree": peer}
    return {"dispatches": dispatches, "weights MB": _megabytes(model), "compile": compile_, "calls": calls}


def _megabytes(model: Model) -> float:
    return sum(array.nbytes for array in model.arguments()) / 1e6


def line(name: str, found: dict[str, Any]) -> str:
    """The figures for people who wait for the others."""
    mine, theirs = found["dispatches"]
    compile_ = found["compile"]
    parts = [f"{name:20} {mine:3} dispatches (IREE {theirs})"]
    for workers, calls in found["calls"].items():
        ms = calls["ms"]
        peers = ", ".join(f"{p} {ms[p] / ms['pydispatch']:.2f}x" for p in PEERS if p in ms)
        parts.append(f"{workers}w {ms['pydispatch']:.3g} ms ({peers})")
    for key, title in (("seconds", "compile"), ("cpu", "CPU time of that")):
        parts.append("{} {}/{} s (IREE {})".format(title, *(_cost(compile_[k], key) for k in COMPILED)))
    worst = max(calls["difference"] for calls in found["calls"].values())
    parts.append(f"off by {worst:.0e}")
    return "; ".join(parts)


def _cost(cost: dict[str, float] | None, key: str) -> str:
    return "–" if cost is None else f"{cost[key]:.2f}"


def faults(name: str, found: dict[str, Any]) -> list[str]:
    """What is wrong with the figures of a model, in words."""
    mine, theirs = found["dispatches"]
    made = [f"{name}: {mine} dispatches, IREE has {theirs}"] if mine > theirs else []
    for workers, calls in found["calls"].items():
        if not calls["difference"] <= calls["tolerance"]:
            made.append(f"{name}: off by {calls['difference']:.1e} with {workers} workers")
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=0.6, help="of calls for each contender")
    parser.add_argument("--small", action="store_true", help="few channels and layers")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--machine", default=platform.processor() or platform.machine(), help="its name in tables")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.only[0], args.small, args.workers[0], args.folder, args.seconds)))
        return 0
    start = time.monotonic()
    chosen = list(models(args.small, set(args.only) if args.only else None))
    everything: dict[str, Any] = {}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, model in enumerate(chosen, 1):
            found = everything[model.name] = figures_of(model, args, Path(folder))
            wrong += faults(model.name, found)
            print(f"{number}/{len(chosen)} {time.monotonic() - start:4.0f} s  {line(model.name, found)}", flush=True)
            if args.json:
                args.json.write_text(json.dumps({"machine": args.machine, "models": everything}, indent=1))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
