"""Random models of each frontend on the CPU, against NumPy, PyTorch and JAX.

ONNX graphs and StableHLO programs are compared with NumPy, functions of PyTorch and JAX with these. Where onnxruntime
is installed, it runs the graphs too: the finding "reference" says that NumPy's result is another.

Programs come from `generated`; PyTorch and JAX are left out where they are not installed. A wrong element, an exception
that is no error of pydispatch, a refusal at the call, a dead process or one that takes longer than SLOW_SECONDS is a
finding; it is printed with its seed and a program that was made smaller.

    python tests/reliability/models.py [--seconds 60 | --count N] [--seed S] [--kinds onnx,stablehlo,torch,jax]

The last line is one JSON object, as run.py reads it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import select
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "generated")]
KINDS = {
    "onnx": ("onnx_graphs", "OnnxGraphs", ()),
    "stablehlo": ("stablehlo_programs", "StableHloPrograms", ()),
    "torch": ("torch_modules", "TorchModules", ("torch",)),
    "jax": ("jax_functions", "JaxFunctions", ("jax",)),
}
"""Module, class, and the packages that it needs."""
SLOW_SECONDS = 300.0
"""The time limit of one program, and of making it smaller; a smaller one reports slow compilation on a busy machine."""


def child(name: str, seed: int) -> None:
    """Run programs from a seed on, for ever: a line with the seed before each one, and its result after it."""
    import graph_programs as programs

    warnings.simplefilter("ignore")
    module, kind_name, _ = KINDS[name]
    kind = getattr(importlib.import_module(module), kind_name)()
    has_peer = name == "onnx" and importlib.util.find_spec("onnxruntime") is not None
    while True:
        print(json.dumps({"seed": seed}), flush=True)
        program = kind.generate(random.Random(seed))
        found = programs.check(kind, program)
        text = ""
        if found is not None and found not in (programs.REFUSED, programs.UNSTABLE):
            program, found = programs.reduced(kind, program, found)
            text = f"{found.text}\n{program}"
        elif found is None and has_peer and (difference := kind.peer(program)):
            found, text = programs.Finding("reference", difference), f"{difference}\n{program}"
        print(json.dumps({"result": found.kind if found else "right", "text": text}), flush=True)
        seed += 1


class Runs:
    """Runs programs of a kind in a process that is started again when it dies."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed, self.first = name, seed, seed
        self.counts: Counter[str] = Counter()
        self.findings = 0
        self.process: subprocess.Popen[str] | None = None

    def next(self) -> None:
        """Run one program."""
        if self.process is None:
            command = [sys.executable, __file__, "--child", self.name, "--seed", str(self.seed)]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = self._line() and self._line()
        if not found:
            self.process.kill()
            code = self.process.wait()
            self.process = None
            found = {"result": "dead", "text": f"the process ended with {code}, or took more than {SLOW_SECONDS:.0f} s"}
        self.counts[found["result"]] += 1
        if found["result"] not in ("right", "refused", "unstable"):
            self.findings += 1
            where = f"FINDING models {self.name}, --kinds {self.name} --seed {self.seed} --count 1"
            print(f"{where}: {found['result']}\n{found['text']}", file=sys.stderr, flush=True)
        self.seed += 1

    def _line(self) -> dict[str, Any]:
        """The next line of the process; empty where it died or is too slow."""
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], SLOW_SECONDS)
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line else {}

    def end(self) -> dict[str, Any]:
        """The row of the table."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        refused, unstable = self.counts["refused"], self.counts["unstable"]
        about = f"seeds {self.first} to {self.seed - 1}, {refused} refused, {unstable} without a stable result"
        return {
            "name": f"models {self.name}",
            "executions": self.seed - self.first,
            "findings": self.findings,
            "new": 0,
            "coverage": about,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, help="so many programs of each kind, however long they take")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000, help="of the first program")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of them, with commas")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.seed)
    kinds = args.kinds.split(",")
    if unknown := [name for name in kinds if name not in KINDS]:
        parser.error(f"no kind {', '.join(unknown)}; there are: {', '.join(KINDS)}")
    for name in kinds:
        if lacking := [p for p in KINDS[name][2] if importlib.util.find_spec(p) is None]:
            print(f"{name}: left out, {', '.join(lacking)} is not installed")
            kinds = [other for other in kinds if other != name]
    runs = [Runs(name, args.seed) for name in kinds]
    end = time.monotonic() + args.seconds
    number = 0
    while number < args.count if args.count else time.monotonic() < end:
        for run in runs:
            run.next()
        number += 1
    rows = [run.end() for run in runs]
    for run in runs:
        print(f"models {run.name:6} {dict(run.counts)}")
    print(json.dumps({"rows": rows}))
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
