"""What compiling a model costs, here and with iree-compile, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from programs import with_bytecode

from pydispatch.bench.peers import iree

REPEATS, ENOUGH = 3, 4.0
"""How often a compilation is measured at most, and the seconds after which it is not repeated."""


@dataclass(frozen=True)
class Cost:
    """Cost of a process; the least of several runs in each field.

    seconds: wall time. cpu: CPU seconds of all its threads and children. peak: largest resident memory of its largest
    process, in MB.
    """

    seconds: float
    cpu: float
    peak: float


def here(text: Path, output: Path) -> tuple[Cost, Cost]:
    """Compile the file `text` into `output`; return the costs with an empty cache, and with the cache of such a run."""
    command = [sys.executable, "-m", "pydispatch.cli", "compile", str(text), "--cpu=native", "-o", str(output)]
    cold: list[Cost] = []
    with tempfile.TemporaryDirectory() as folder:
        while _again(cold):
            cache = {"PYDISPATCH_CACHE_DIR": str(Path(folder) / str(len(cold)))}
            cold.append(_run(command, cache))
        warm: list[Cost] = []
        while _again(warm):
            warm.append(_run(command, cache))
    return _least(cold), _least(warm)


def peer(text: Path, output: Path) -> Cost:
    """Compile the file `text` into `output` with iree-compile, and return the cost. It has no cache."""
    runs: list[Cost] = []
    while _again(runs):
        runs.append(_run([iree.compiler(), str(text), *iree.THIS_CPU, "-o", str(output)], {}))
    return _least(runs)


def _again(runs: Sequence[Cost]) -> bool:
    """Return whether another run follows: up to REPEATS, unless they have taken ENOUGH seconds together."""
    return not runs or (len(runs) < REPEATS and sum(run.seconds for run in runs) < ENOUGH)


def _least(runs: Sequence[Cost]) -> Cost:
    """Return the least of each field."""
    return Cost(min(r.seconds for r in runs), min(r.cpu for r in runs), min(r.peak for r in runs))


_WATCH = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - start
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000]))
"""
"""Script that runs a command and prints [exit code, *fields of Cost].

A small process runs it: the memory of the forking process would count as that of the command."""


def _run(command: Sequence[str], variables: Mapping[str, str]) -> Cost:
    """Run a compiler and return its cost. Raise RuntimeError with the end of its output if it fails.

    variables: environment variables in addition to those of this process.
    """
    # Python may write the bytecode of modules, as it does for users: a run then does not compile them again.
    environment = {**with_bytecode(), **variables}
    watched = [sys.executable, "-S", "-c", _WATCH, *command]
    done = subprocess.run(watched, capture_output=True, text=True, env=environment, check=True)
    # The script discards the compiler's standard output, so that its own line is the only one.
    status, *cost = json.loads(done.stdout)
    if status:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return Cost(*cost)
