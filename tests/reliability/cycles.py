"""Loads and closes again and again: mappings, files and threads stay the same, memory does not grow.

`python tests/reliability/cycles.py --count 10000 [--kind program ...]`: exit status 0 or 1, and a last line of counts.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pydispatch as pd

SLOPE = 64
"""Bytes that may be lost for each cycle: less than the smallest thing that could be forgotten in each, an object."""

ARENAS = 8
"""Mappings that malloc may add in all, for arenas and stacks that it keeps: fewer than cycles that forget one each."""

PROGRAM = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.mulf %a, %b : tensor<?xf32>
  return %r : tensor<?xf32> }"""


class Held(NamedTuple):
    """What a process holds."""

    maps: int
    files: int
    threads: int
    bytes: int


def held() -> Held:
    gc.collect()
    with Path("/proc/self/maps").open() as maps:
        count = sum(1 for _ in maps)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return Held(count, len([*Path("/proc/self/fd").iterdir()]), len([*Path("/proc/self/task").iterdir()]), resident)


Cycle = Callable[[], None]


def program(folder: Path) -> Cycle:
    """A program of the CPU from a file, called, and closed."""
    path = folder / "f.pdx"
    pd.compile(PROGRAM).save(path)
    device, a = pd.device("cpu?workers=2"), np.ones(100, np.float32)

    def cycle() -> None:
        with device.load(path) as loaded:
            assert loaded.f(a, a)[0] == 1

    return cycle


def prepared(folder: Path) -> Cycle:
    """A prepared call of a program that stays, of sizes that change."""
    device = pd.device("cpu?workers=2")
    loaded = device.load(pd.compile(PROGRAM))
    arrays = [np.ones(n, np.float32) for n in range(90, 110)]
    number = 0

    def cycle() -> None:
        nonlocal number
        number += 1
        a = arrays[number % 20]
        call = loaded.f.prepare(a, a)
        assert call()[0] == 1

    return cycle


def plugin(folder: Path) -> Cycle:
    """A system library and an embedded plugin, registered and taken back."""
    source = Path(__file__).resolve().parents[2] / "examples/plugin/simple_mul.c"
    built = [folder / "p.so", folder / "p.sos"]
    for path, flags in zip(built, (["--system"], []), strict=True):
        command = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", str(source), "-o", str(path), *flags]
        subprocess.run(command, check=True, capture_output=True)
    device = pd.device("cpu")

    def cycle() -> None:
        for path in built:
            device.remove_plugin(device.add_plugin(path))

    return cycle


def device(folder: Path) -> Cycle:
    """A device with threads of its own, used once."""
    artifact, a = pd.compile(PROGRAM), np.ones(1 << 16, np.float32)
    number = 0

    def cycle() -> None:
        nonlocal number
        number += 1
        made = pd.device(f"cpu?workers={2 + number % 2}")
        with made.load(artifact) as loaded:
            assert loaded.f(a, a)[0] == 1
        close = getattr(made, "close", None)
        if close is not None:
            close()

    return cycle


def interpreter(folder: Path) -> Cycle:
    """A program on the interpreter of PTX."""
    made, a = pd.device("ptx-interpreter"), np.ones(8, np.float32)
    artifact = pd.compile(PROGRAM, targets="cuda")

    def cycle() -> None:
        with made.load(artifact) as loaded:
            assert np.asarray(loaded.f(a, a))[0] == 1

    return cycle


def vulkan(folder: Path) -> Cycle:
    """A Vulkan device, a program on it, both closed."""
    artifact, a = pd.compile(PROGRAM, targets="vulkan"), np.ones(8, np.float32)

    def cycle() -> None:
        made = pd.device("vulkan:0")
        with made.load(artifact) as loaded:
            assert np.asarray(loaded.f(a, a))[0] == 1
        made.close()

    return cycle


def broken(folder: Path) -> Cycle:
    """Loads that fail, in each of several ways."""
    data = pd.compile(PROGRAM).to_bytes()
    bad = [data[: len(data) // 2], data.replace(b"func.func", b"xunc.func"), data[:-30] + b"\0" * 30, b"PK"]
    path = folder / "bad.pdx"
    made = pd.device("cpu")

    def cycle() -> None:
        for each in bad:
            path.write_bytes(each)
            with contextlib.suppress(pd.Error):
                made.load(path).close()

    return cycle


KINDS: dict[str, tuple[Callable[[Path], Cycle], int]] = {
    "program": (program, 1), "prepared": (prepared, 1), "plugin": (plugin, 1), "device": (device, 5),
    "broken": (broken, 1), "interpreter": (interpreter, 20), "vulkan": (vulkan, 50),
}  # fmt: skip
"""Kind → how to make a cycle, and how many times as few are run."""


def measure(kind: str, count: int, folder: Path) -> tuple[int, Held, Held]:
    """(cycles, what was held after a fifth of them and 50 at least, and at the end)."""
    make, fewer = KINDS[kind]
    cycle, count = make(folder), max(20, count // fewer)
    for _ in range(max(50, count // 5)):
        cycle()
    before = held()
    for _ in range(count):
        cycle()
    return count, before, held()


def faults(count: int, before: Held, after: Held) -> list[str]:
    """What is not as it was."""
    found = [
        f"{name} {a} -> {b}"
        for name, a, b, more in zip(Held._fields[:3], before, after, (ARENAS, 0, 0), strict=False)
        if b > a + more
    ]
    allowed = SLOPE * count + (1 << 20)
    if after.bytes - before.bytes > allowed:
        found.append(f"{(after.bytes - before.bytes) / count:.0f} bytes a cycle")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    lines, failed = [], 0
    for kind in options.kind or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            count, before, after = measure(kind, options.count, Path(folder))
        wrong = faults(count, before, after)
        failed += bool(wrong)
        growth = (after.bytes - before.bytes) / count
        lines.append(f"{kind} {count}")
        text = f"{kind}: {count} cycles, {before} -> {after}, {growth:.1f} bytes a cycle"
        print(text, *wrong, sep="; ", flush=True)
    print(f"cycles: {', '.join(lines)}; {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
