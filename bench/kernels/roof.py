"""What this machine can do at most, measured by a program in C that is built here."""

from __future__ import annotations

import bisect
import subprocess
from dataclasses import dataclass
from pathlib import Path

SIZES = (1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 28)
"""Bytes of triads: each level of the cache, and memory."""


@dataclass(frozen=True)
class Roof:
    """flops: GFLOP/s of multiply-adds of f32. bandwidths: GB/s of a triad over so many bytes as in `SIZES`."""

    flops: float
    bandwidths: tuple[float, ...]

    def seconds(self, operations: float, moved: float) -> float:
        """The least time of a kernel: of its operations, or of moving its bytes, whichever is longer."""
        at = min(bisect.bisect_left(SIZES, moved), len(SIZES) - 1)
        return 1e-9 * max(operations / self.flops, moved / self.bandwidths[at])


def roof(workers: int, folder: Path) -> Roof:
    """Measures with so many threads. Needs a C compiler called `cc`."""
    program = folder / "roof"
    if not program.exists():
        source = Path(__file__).with_name("roof.c")
        subprocess.run(["cc", "-O3", "-march=native", "-o", program, source, "-lpthread"], check=True)

    def measured(*words: object) -> float:
        command = [str(program), *map(str, words)]
        return max(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3))

    return Roof(measured("flops", workers), tuple(measured("triad", workers, size) for size in SIZES))
