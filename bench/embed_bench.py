"""What embedding costs: a prepared run from C through the function table, directly, and from Python; loops by grid.

    python bench/embed_bench.py [--json FILE] [--rounds R]

The program is the chain of bench_call.py: three dispatches of one workgroup over 8 elements, kernels in C. Every figure
is the median of rounds that take turns; the least of each is shown too. "direct" calls pyd_call_run inside the module
that holds the table, past the table, as if the extension had been linked with it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
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
from elftools.elf.elffile import ELFFile
from pydispatch._core import capi

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "runtime"))

import programs  # noqa: E402

RUNS = 20000


def build(folder: Path) -> Any:
    target = folder / f"embed_probe{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-I", pd.get_include(),
               "-I", sysconfig.get_path("include"), str(ROOT / "bench/embed_probe.c"), "-o", str(target)]  # fmt: skip
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("embed_probe", target)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def distance() -> int:
    """From pyd_status_text to pyd_call_run in the module that holds the table."""
    with Path(str(capi.__file__)).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        found = {s.name: int(s["st_value"]) for s in table.iter_symbols()}
    return found["pyd_call_run"] - found["pyd_status_text"]


def rows(probe: Any, path: Path) -> dict[str, Callable[[], float]]:
    """Nanoseconds per call."""
    found: dict[str, Callable[[], float]] = {}
    away = distance()
    a, b = np.full(8, 4, np.float32), np.full(8, 3, np.float32)
    for name in ("local-sync", "cpu"):
        device = pd.device(name)
        program = device.load(path)
        call = program.chain.prepare(a, b)
        found[f"{name}: run from C, direct"] = lambda p=program: probe.call(p, "chain", 8, RUNS, away, False)
        found[f"{name}: run from C, table"] = lambda p=program: probe.call(p, "chain", 8, RUNS, 0, False)
        found[f"{name}: run from C, table, rebound"] = lambda p=program: probe.call(p, "chain", 8, RUNS, 0, True)
        found[f"{name}: run from Python, prepared"] = lambda c=call: timeit.timeit(c, number=RUNS) / RUNS * 1e9
        found[f"{name}: prepare and release from C"] = lambda p=program: probe.prepare(p, "chain", 8, RUNS // 10)
    device = pd.device("cpu")
    for x, y, z, spin, label in (
        (1, 1, 1, 0, "1 point, nothing"),
        (16, 4, 1, 0, "64 points, nothing"),
        (100, 100, 10, 0, "100,000 points, nothing"),
        (16, 4, 1, 400, "64 points of 100 ns"),
        (64, 32, 1, 2000, "2,048 points of 500 ns"),
    ):
        runs = max(10, min(RUNS, 20_000_000 // (x * y * z * (1 + spin))))
        shape = (x, y, z)
        found[f"loop: {label}, plain C"] = lambda s=shape, k=spin, r=runs: probe.loop(device, *s, -k - 1, r, False)
        found[f"loop: {label}, parallel_for"] = lambda s=shape, k=spin, r=runs: probe.loop(device, *s, k, r, True)
        found[f"loop: {label}, without a cost"] = lambda s=shape, k=spin, r=runs: probe.loop(device, *s, k, r, False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.pdx"
        programs.standard().save(path)
        table = rows(build(Path(folder)), path)
        taken: dict[str, list[float]] = {name: [] for name in table}
        for _ in range(args.rounds):
            for name, measure in table.items():
                taken[name].append(measure())
    width = max(map(len, taken))
    print(f"{'':{width}}  median ns    least ns")
    for name, times in taken.items():
        print(f"{name:{width}}  {statistics.median(times):9.1f}  {min(times):10.1f}")
    if args.json:
        figures = {name: {"median_ns": statistics.median(t), "least_ns": min(t)} for name, t in taken.items()}
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
