"""Random models of each frontend on the CPU, against NumPy, PyTorch and JAX.

ONNX graphs, StableHLO programs and programs in Python are compared with NumPy, functions of PyTorch and JAX with these.
Where onnxruntime is installed, it runs the graphs too: the finding "reference" says that NumPy's result is another.

Programs come from `generated`; PyTorch and JAX are left out where they are not installed. A wrong element, an exception
that is no error of pydispatch, a refusal at the call, a dead process or one that needs more than SLOW_CPU_SECONDS is a
finding; it is printed with its seed and a program that was made smaller, as text and as a command that runs it.

    python tests/reliability/models.py [--seconds 60 | --count N] [--seed S] [--kinds onnx,stablehlo,numpy,...]

SIGINT and SIGTERM end a run with the rows of the programs that were checked. The last line is one JSON object, as
run.py reads it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import random
import select
import signal
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
    "numpy": ("numpy_programs", "NumpyPrograms", ()),
    "torch": ("torch_modules", "TorchModules", ("torch",)),
    "jax": ("jax_functions", "JaxFunctions", ("jax",)),
}
"""Module, class, and the packages that it needs."""
SLOW_CPU_SECONDS = 300.0
"""CPU time limit of one program, and of making it smaller; a smaller one reports programs that are only large."""
HANG_SECONDS = 3600.0
"""Wall time limit of one program; a smaller one reports a busy machine."""


def child(name: str) -> None:
    """Run the program of each seed that stdin gives: a line says that imports are done, then one has each result."""
    import graph_programs as programs
    from reproducer import reproducer

    warnings.simplefilter("ignore")
    module, kind_name, _ = KINDS[name]
    kind = getattr(importlib.import_module(module), kind_name)()
    has_peer = name == "onnx" and importlib.util.find_spec("onnxruntime") is not None
    print(json.dumps({"ready": name}), flush=True)
    for seed in sys.stdin:
        program = kind.generate(random.Random(int(seed)))
        found = programs.check(kind, program)
        text = ""
        if found is not None and found not in (programs.REFUSED, programs.UNSTABLE):
            program, found = programs.reduced(kind, program, found)
            text = f"{found.text}\n{program}\n{reproducer(kind, program)}"
        elif found is None and has_peer and (difference := kind.peer(program)):
            found = programs.Finding("reference", difference)
            text = f"{difference}\n{program}\n{reproducer(kind, program, is_peer=True)}"
        print(json.dumps({"result": found.kind if found else "right", "text": text}), flush=True)


class Runs:
    """Runs programs of a kind in a process that is started again when it dies.

    The process waits while other kinds run, so that one program is computed at a time, and none that is not counted.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed, self.first = name, seed, seed
        self.counts: Counter[str] = Counter()
        self.findings = 0
        self.process: subprocess.Popen[str] | None = None

    def next(self) -> None:
        """Run one program."""
        found = self._result()
        if not found:
            assert self.process is not None
            self.process.kill()
            code = self.process.wait()
            self.process = None
            limits = f"{SLOW_CPU_SECONDS:.0f} s of CPU time or {HANG_SECONDS:.0f} s"
            found = {"result": "dead", "text": f"the process ended with {code}, or took more than {limits}"}
        self.counts[found["result"]] += 1
        if found["result"] not in ("right", "refused", "unstable"):
            self.findings += 1
            where = f"FINDING models {self.name}, --kinds {self.name} --seed {self.seed} --count 1"
            print(f"{where}: {found['result']}\n{found['text']}", file=sys.stderr, flush=True)
        self.seed += 1

    def _result(self) -> dict[str, Any]:
        """Return the result of the program of this seed; empty where the process died or is too slow."""
        if self.process is None:
            command = [sys.executable, __file__, "--child", self.name]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
            if not self._line():
                return {}
        assert self.process.stdin is not None
        try:
            print(self.seed, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return {}
        return self._line()

    def _line(self) -> dict[str, Any]:
        """Return the next line of the process; empty where it died, is too slow or hangs."""
        assert self.process is not None and self.process.stdout is not None
        cpu_end = cpu_seconds(self.process.pid) + SLOW_CPU_SECONDS
        end = time.monotonic() + HANG_SECONDS
        while not select.select([self.process.stdout], [], [], 5.0)[0]:
            if cpu_seconds(self.process.pid) > cpu_end or time.monotonic() > end:
                return {}
        line = self.process.stdout.readline()
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


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process of Linux so far, without that of the processes that it has started."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, help="so many programs of each kind, however long they take")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000, help="of the first program")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of them, with commas")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return 0
    kinds = args.kinds.split(",")
    if unknown := [name for name in kinds if name not in KINDS]:
        parser.error(f"no kind {', '.join(unknown)}; there are: {', '.join(KINDS)}")
    for name in kinds:
        if lacking := [p for p in KINDS[name][2] if importlib.util.find_spec(p) is None]:
            print(f"{name}: left out, {', '.join(lacking)} is not installed")
            kinds = [other for other in kinds if other != name]
    runs = [Runs(name, args.seed) for name in kinds]
    end = time.monotonic() + args.seconds
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
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
