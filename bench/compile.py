"""Seconds and memory of compiling, beside iree-compile: the same text, each in a process of its own. Needs the `bench`
extra.

    python bench/compile.py [--only TEXT] [--rounds 3] [--no-peer] [--phases]

Programs are made from seeds. There are three states of the cache of compiled code:

- cold: it is empty.
- warm: it has what the cold run stored, the compiled program among it.
- changed: it has the code of the program's dispatches, but not the program, as after a change elsewhere in it.

Wall time depends on what else the machine does, CPU time (of all processes together) less so. --phases prints the time
of each phase, with LLVM in the same process.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import with_bytecode
from report.figures import OURS, Figures, Row, parser, table

from pydispatch.bench.peers import iree

ROWS = 64
"""Rows of the left matrix of each product."""
COMPILE = (sys.executable, "-m", "pydispatch.cli", "compile")
"""Command that compiles a file with pydispatch."""
PEER = (*iree.CPU, "--iree-opt-level=O2", "--iree-llvmcpu-target-cpu=generic")
"""Flags of iree-compile for a program that runs on any CPU of the architecture, as ours does."""


def chain(count: int, seed: int = 1) -> str:
    """Return MLIR of `count` matrix products in a row, with a hyperbolic tangent after each; no two of the same sizes.

    Weights are arguments.
    """
    sizes = random.Random(seed).sample(range(33, 513), count + 1)
    arguments, lines = [f"%x0: tensor<{ROWS}x{sizes[0]}xf32>"], ["  %zero = arith.constant 0.0 : f32"]
    for i in range(count):
        n, m = sizes[i], sizes[i + 1]
        a, b, t = f"tensor<{ROWS}x{n}xf32>", f"tensor<{n}x{m}xf32>", f"tensor<{ROWS}x{m}xf32>"
        arguments.append(f"%w{i}: {b}")
        lines += [
            f"  %e{i} = tensor.empty() : {t}",
            f"  %z{i} = linalg.fill ins(%zero : f32) outs(%e{i} : {t}) -> {t}",
            f"  %m{i} = linalg.matmul ins(%x{i}, %w{i} : {a}, {b}) outs(%z{i} : {t}) -> {t}",
            f"  %x{i + 1} = math.tanh %m{i} : {t}",
        ]
    end = f"  return %x{count} : {t}"
    return "\n".join([f"func.func @chain({', '.join(arguments)}) -> {t} {{", *lines, end, "}", ""])


def weights(megabytes: int, seed: int = 1) -> str:
    """Return MLIR of three products with constant weights, whose bytes, `megabytes` MiB in all, are in the text."""
    # Three square matrices of 4-byte elements.
    size = int((megabytes * (1 << 20) / 12) ** 0.5)
    numbers, t, w = random.Random(seed), f"tensor<{ROWS}x{size}xf32>", f"tensor<{size}x{size}xf32>"
    lines = [f"func.func @chain(%x0: {t}) -> {t} {{", "  %zero = arith.constant 0.0 : f32"]
    for i in range(3):
        data = numbers.randbytes(size * size * 4).hex().upper()
        lines += [
            f'  %w{i} = arith.constant dense<"0x{data}"> : {w}',
            f"  %e{i} = tensor.empty() : {t}",
            f"  %z{i} = linalg.fill ins(%zero : f32) outs(%e{i} : {t}) -> {t}",
            f"  %x{i + 1} = linalg.matmul ins(%x{i}, %w{i} : {t}, {w}) outs(%z{i} : {t}) -> {t}",
        ]
    return "\n".join([*lines, f"  return %x3 : {t}", "}", ""])


PROGRAMS: dict[str, Callable[[], str]] = {
    "4 products": lambda: chain(4),
    "20 products": lambda: chain(20),
    "66 products": lambda: chain(66),
    "200 products": lambda: chain(200),
    "140 MB of weights": lambda: weights(140),
}
"""Name -> function that returns the MLIR."""


@dataclass
class Cost:
    """Cost of a process with all that it started.

    wall, cpu: seconds. memory: the largest resident memory of all of them together, in MiB.
    """

    wall: float
    cpu: float
    memory: float


def measured(*command: str | Path, **variables: str) -> Cost:
    """Run a command and return its cost. Raise CalledProcessError if it fails.

    variables: environment variables in addition to those of this process.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, env={**with_bytecode(), **variables}, stdout=subprocess.DEVNULL)
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        """Sample the memory of all processes together every 50 ms."""
        nonlocal peak
        while not ended.wait(0.05):
            peak = max(peak, sum(map(resident, family(process.pid))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    # A short process may end before the first sample; ru_maxrss, in KiB, is the peak of the largest single process.
    peak = max(peak, used.ru_maxrss << 10)
    return Cost(wall, cpu=used.ru_utime + used.ru_stime, memory=peak / (1 << 20))


def family(pid: int) -> Iterator[int]:
    """Yield the ids of a process and of all its descendants."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:  # the thread has ended
            continue
        for child in children:
            yield from family(int(child))


def resident(pid: int) -> int:
    """Return the resident bytes of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def compare(name: str, folder: Path, rounds: int, peer: bool) -> list[Row]:
    """Return the costs of compiling a program of PROGRAMS: medians of `rounds` compilations in each state.

    folder: receives the program and the cache. peer: compile it with iree-compile, too.
    """
    source, output, cache = folder / "program.mlir", folder / "out", folder / "cache"
    # By a process of its own: the memory that a process had before it runs a program counts for the program.
    subprocess.run((sys.executable, __file__, "--write", name, source), check=True)
    costs: dict[str, list[Cost]] = {}
    for _ in range(rounds):
        shutil.rmtree(cache, ignore_errors=True)
        ours = (*COMPILE, source, "-o", output)
        for state in ("cold", "warm", "changed"):
            if state == "changed":
                shutil.rmtree(cache / "programs", ignore_errors=True)
            costs.setdefault(state, []).append(measured(*ours, PYDISPATCH_CACHE_DIR=str(cache)))
        if peer:
            costs.setdefault("iree-compile", []).append(measured(iree.compiler(), *PEER, source, "-o", output))
    print(f"{name} ({source.stat().st_size / (1 << 20):.2f} MiB of text)")
    medians = {state: Cost(*(statistics.median(getattr(c, key) for c in runs) for key in ("wall", "cpu", "memory")))
            for state, runs in costs.items()}  # fmt: skip
    rows = []
    for state, cost in medians.items():
        who, against = (state, f"{OURS}, cold") if state == "iree-compile" else (f"{OURS}, {state}", "")
        rows += [Row("seconds", who, cost.wall, size=name, against=against),
                 Row("CPU seconds", who, cost.cpu, size=name, against=against),
                 Row("memory", who, cost.memory, "MiB", size=name, against=against)]  # fmt: skip
    print(table(rows), flush=True)
    return rows


PHASES = {
    "read": ("driver.pipeline", "load_source"),
    "match": ("driver.pipeline", "Pipeline._rewrite"),
    "normalize": ("driver.pipeline", "normalize"),
    "fusion": ("driver.pipeline", "form_dispatches"),
    "kernel IR": ("driver.pipeline", "Pipeline._expand"),
    "host program": ("driver.pipeline", "schedule"),
    "LLVM IR": ("backends.cpu.units", "emit_module"),
    "LLVM: parse": ("toolchain.llvm", "LlvmModule.__init__"),
    "LLVM: optimize": ("toolchain.llvm", "LlvmModule.optimize"),
    "LLVM: code": ("toolchain.llvm", "LlvmModule.object"),
    "link": ("backends.cpu.backend", "_link"),
}
"""Name of a phase -> (module in pydispatch.compiler, function or method that the phase is)."""


def phases(source: str, output: str) -> None:
    """Compile the MLIR file `source` into `output` in this process, and print the CPU milliseconds of each phase."""
    from importlib import import_module

    start = time.process_time()
    import pydispatch

    seconds: dict[str, float] = {}
    import_module("pydispatch.compiler.driver.pipeline")
    import_module("pydispatch.compiler.worker.library").library()
    seconds["import"] = time.process_time() - start
    # Replace the function or method of each phase by one that adds up its seconds.
    for phase, (module, path) in PHASES.items():
        owner: Any = import_module(f"pydispatch.compiler.{module}")
        *classes, name = path.split(".")
        for class_name in classes:
            owner = getattr(owner, class_name)
        setattr(owner, name, timed(seconds, phase, getattr(owner, name)))
    begin = time.process_time()
    artifact = pydispatch.compile(source)
    with clock(seconds, "save"):
        artifact.save(output)
    of_phases = sum(seconds.values()) - seconds["import"]  # the import ended before `begin`
    seconds["the rest"] = time.process_time() - begin - of_phases
    for phase, spent in seconds.items():
        print(f"    {phase:15} {1000 * spent:8.1f} ms")


def timed(seconds: dict[str, float], phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function` and adds the CPU seconds of this thread to `seconds[phase]`."""

    def call(*args: Any, **named: Any) -> Any:
        """Call `function`, and add its CPU seconds to those of the phase."""
        with clock(seconds, phase):
            return function(*args, **named)

    return call


@contextmanager
def clock(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Add the CPU seconds of this thread in the body of the `with` statement to `seconds[phase]`."""
    start = time.thread_time()
    try:
        yield
    finally:
        seconds[phase] = seconds.get(phase, 0.0) + time.thread_time() - start


def main() -> None:
    """Compile the chosen programs, and print the costs of each state.

    The hidden options are for child processes: --write NAME FILE writes a program, --inside runs `phases`.
    """
    arguments = parser(__doc__)
    arguments.add_argument("--only", default="", help="programs whose names have this")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--no-peer", dest="peer", action="store_false")
    arguments.add_argument("--phases", action="store_true")
    # Options of processes that this script starts: `--inside SOURCE OUTPUT` prints the phases of compiling SOURCE,
    # `--write PROGRAM FILE` writes the MLIR text of a program.
    arguments.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    arguments.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.inside:
        phases(*args.inside)
        return
    if args.write:
        name, file = args.write
        Path(file).write_text(PROGRAMS[name]())
        return
    method = (
        "Medians of processes that alternate, each with the processes that it starts. A cold one has an empty cache, "
        "a warm one the cache that the cold one left. A changed one has this cache without the compiled program: it "
        "finds only the code of dispatches. For any CPU."
    )
    figures = Figures("Compiling", method)
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            if args.only not in name:
                continue
            figures.rows += compare(name, Path(folder), args.rounds, args.peer)
            if args.phases:
                inside = (sys.executable, __file__, "--inside", f"{folder}/program.mlir", f"{folder}/out")
                off = {"PYDISPATCH_CACHE_SIZE": "0", "PYDISPATCH_LLVM_PROCESS": "0"}
                subprocess.run(inside, check=True, env={**os.environ, **off})
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
