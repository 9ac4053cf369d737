"""Measures the models here, with IREE, JAX, onnxruntime and OpenVINO, and prints a line for each.

    python bench/models/run.py [--only NAME...] [--workers 1 2] [--small] [--json FILE]

Needs an interpreter with JAX, onnx, onnxruntime and IREE's compiler and runtime; OpenVINO is optional. Every
model is compiled by both sides from the same StableHLO; one process for each number of workers calls it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import compiling
import counts
from calling import measure
from report.figures import CONSTANT, OURS, Figures, Row, parser, table
from works import Model, models

from pydispatch.formats.artifact.artifact import Artifact

METHOD = (
    "Calls: least times; contenders alternate, with pauses, since threads of some spin after a call; with one worker "
    "the process keeps to one core and its CPU time counts. Weights are arguments; constants for onnxruntime and "
    "OpenVINO (in f32), which are compared with ours with constants. Compiling: processes, without a cache (cold) and "
    "with what that left (warm)."
)
"""How the figures were measured, for the report."""


def figures_of(model: Model, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Compile and call a model; return its numbers of dispatches, and what compiling and calling it takes.

    folder: receives the model's text and what each compiler writes. Keys of "calls" are numbers of workers, as text.
    """
    text, output = folder / f"{model.name}.mlir", folder / f"{model.name}.pdx"
    text.write_text(model.text())
    cold, warm = compiling.here(text, output)
    try:
        peer = asdict(compiling.peer(text, output.with_suffix(".vmfb")))
    except RuntimeError as error:
        print(f"{model.name}: the peer cannot compile it: {str(error)[-300:]}", file=sys.stderr)
        peer = None  # no figures of compiling
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
    """Return the megabytes of the weights and inputs of a model."""
    return sum(array.nbytes for array in model.arguments()) / 1e6


def rows(name: str, figures: dict[str, Any]) -> list[Row]:
    """Return the rows of a model, of what `figures_of` returned; compiling and dispatches do not depend on workers."""
    model_rows = []
    for workers, calls in figures["calls"].items():
        for who, value in calls["seconds"].items():
            against = CONSTANT if who in ("onnxruntime", "openvino") else OURS  # their weights are constants, too
            model_rows.append(Row("a call", who, value, size=name, workers=int(workers), against=against))
    for state, who in (("cold", OURS), ("warm", OURS), ("iree", "iree")):
        if (cost := figures["compile"][state]) is not None:
            title = "compile, warm" if state == "warm" else "compile, cold"
            model_rows.append(Row(title, who, cost["seconds"], size=name))
            if state != "warm":
                model_rows.append(Row("peak memory of compiling", who, cost["peak"], "MB", size=name, against=""))
    model_rows += [Row("dispatches", who, count, "count", size=name, against="")
             for who, count in zip((OURS, "iree"), figures["dispatches"], strict=True)]  # fmt: skip
    worst = max(calls["difference"] for calls in figures["calls"].values())
    model_rows.append(Row("weights", OURS, figures["weights MB"], "MB", size=name))
    return [*model_rows, Row("difference", OURS, worst, "1", size=name)]


def faults(name: str, figures: dict[str, Any]) -> list[str]:
    """Return messages about a model that has more dispatches than IREE's, or whose results differ too much."""
    mine, theirs = figures["dispatches"]
    messages = [f"{name}: {mine} dispatches, IREE has {theirs}"] if mine > theirs else []
    for workers, calls in figures["calls"].items():
        if not calls["difference"] <= calls["tolerance"]:  # also true of NaN
            messages.append(f"{name}: off by {calls['difference']:.1e} with {workers} workers")
    return messages


def main() -> int:
    """Measure the models and print the figures of each. Return 1 if a result is off."""
    arguments = parser(__doc__)
    arguments.add_argument("--only", nargs="+", metavar="NAME")
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--seconds", type=float, default=0.6, help="of calls for each contender")
    arguments.add_argument("--small", action="store_true", help="few channels and layers")
    arguments.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.child:
        print(json.dumps(measure(args.only[0], args.small, args.workers[0], args.folder, args.seconds)))
        return 0
    start = time.monotonic()
    chosen = list(models(args.small, set(args.only) if args.only else None))
    figures, wrong = Figures("Whole models", METHOD), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for position, model in enumerate(chosen, 1):
            measured = figures_of(model, args, Path(folder))
            model_rows = rows(model.name, measured)
            figures.rows += model_rows
            wrong += faults(model.name, measured)
            print(f"{position}/{len(chosen)} {time.monotonic() - start:4.0f} s\n{table(model_rows)}", flush=True)
            if args.json:
                figures.save(args.json)
    print("\n".join(wrong))
    return 1 if any(": off by " in message for message in wrong) else 0  # more dispatches are reported, but no failure


if __name__ == "__main__":
    sys.exit(main())
