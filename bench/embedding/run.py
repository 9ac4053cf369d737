"""What embedding costs: a prepared run from C through the function table and from Python; loops by grid.

    python bench/embedding/run.py [--json FILE] [--rounds R]

The program has three dispatches of one workgroup over 8 elements, kernels in C.
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pydispatch as pd

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parents[1] / "tests/runtime"), str(HERE.parent)]

import programs  # noqa: E402
from report.figures import OURS, Figures, Row, parser, table  # noqa: E402

RUNS = 20000
"""Calls in one measurement, at most."""


def build(folder: Path) -> Any:
    """Compile probe.c into `folder`, and return it as a Python module."""
    target = folder / f"embedding_probe{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-I", pd.get_include(),
               "-I", sysconfig.get_path("include"), str(HERE / "probe.c"), "-o", str(target)]  # fmt: skip
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("embedding_probe", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measures(probe: Any, path: Path) -> dict[tuple[str, str, str], Callable[[], float]]:
    """Return {(quantity, size of the work, contender): function that measures the nanoseconds of one call}.

    probe: the module of probe.c. path: an artifact with the function @chain of two vectors.
    """
    calls: dict[tuple[str, str, str], Callable[[], float]] = {}
    a, b = np.full(8, 4, np.float32), np.full(8, 3, np.float32)
    for name in ("local-sync", "cpu"):
        device = pd.device(name)
        program = device.load(path)
        call = program.chain.prepare(a, b)
        # The last argument of probe.call: bind another buffer before each run.
        ways: dict[str, Callable[[], float]] = {
            "from C": lambda p=program: probe.call(p, "chain", 8, RUNS, False),
            "from C, an argument bound anew": lambda p=program: probe.call(p, "chain", 8, RUNS, True),
            "from Python, prepared": lambda c=call: timeit.timeit(c, number=RUNS) / RUNS * 1e9,
            "prepare and release from C": lambda p=program: probe.prepare(p, "chain", 8, RUNS // 10),
        }
        calls |= {(f"a call on {name}", way, OURS): measure for way, measure in ways.items()}
    device = pd.device("cpu")
    # A spin takes about 0.25 ns.
    for x, y, z, spin, size in (
        (1, 1, 1, 0, "1 point, nothing"),
        (16, 4, 1, 0, "64 points, nothing"),
        (100, 100, 10, 0, "100,000 points, nothing"),
        (16, 4, 1, 400, "64 points of 100 ns"),
        (64, 32, 1, 2000, "2,048 points of 500 ns"),
    ):
        # Fewer runs of longer loops, so that all measurements take about equally long.
        runs = max(10, min(RUNS, 20_000_000 // (x * y * z * (1 + spin))))
        shape = (x, y, z)
        # The last argument of probe.loop: pass a cost estimate.
        loops: dict[str, Callable[[], float]] = {
            OURS: lambda s=shape, k=spin, r=runs: probe.loop(device, *s, k, r, True),
            f"{OURS}, without a cost": lambda s=shape, k=spin, r=runs: probe.loop(device, *s, k, r, False),
            # A negative count of spins is that of a plain loop.
            "a loop in C": lambda s=shape, k=spin, r=runs: probe.loop(device, *s, -k - 1, r, False),
        }
        calls |= {("parallel_for", size, contender): measure for contender, measure in loops.items()}
    return calls


def main() -> None:
    """Measure all calls and loops in turns, and print the median time of each."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=9)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.pdx"
        programs.standard().save(path)
        calls = measures(build(Path(folder)), path)
        taken: dict[tuple[str, str, str], list[float]] = {key: [] for key in calls}
        for _ in range(chosen.rounds):
            for key, measure in calls.items():
                taken[key].append(measure() * 1e-9)
    figures = Figures(
        "Calls and loops from C",
        f"Medians of {chosen.rounds} rounds in which all alternate; spread: the least and the longest.",
    )
    for (name, size, contender), times in taken.items():
        against = "" if name.startswith("a call") else OURS
        spread = (min(times), max(times))
        figures.rows.append(Row(name, contender, statistics.median(times), size=size, spread=spread, against=against))
    print(table(figures.rows))
    if chosen.json:
        figures.save(chosen.json)


if __name__ == "__main__":
    main()
