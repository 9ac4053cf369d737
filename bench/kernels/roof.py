"""The peak rates of this machine, measured by a program in C that is built here."""

from __future__ import annotations

import bisect
import subprocess
from dataclasses import dataclass
from pathlib import Path

SIZES = (1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 28)
"""Bytes of a triad's three arrays together, ascending: sizes for each level of the cache, and for memory."""


@dataclass(frozen=True)
class Roof:
    """Rates of one machine.

    Attributes:
        flops: GFLOP/s of multiply-adds of f32.
        bandwidths: GB/s of a triad, a[i] = b[i] + s * c[i], over arrays of each size in `SIZES`.
        dots: GOP/s of products of bytes and their sums; 0 without an instruction for them that `roof.c` knows.
    """

    flops: float
    bandwidths: tuple[float, ...]
    dots: float = 0.0

    def seconds(self, operations: float, moved: float, multiplies_bytes: bool = False) -> float:
        """Return the least time of a kernel: of its operations, or of moving its bytes, whichever is longer.

        operations: multiplications and additions. moved: bytes, at the bandwidth of the next larger size of `SIZES`.
        multiplies_bytes: The operations are products of bytes and their sums, not of f32.
        """
        size_index = min(bisect.bisect_left(SIZES, moved), len(SIZES) - 1)
        rate = self.dots if multiplies_bytes and self.dots else self.flops
        return 1e-9 * max(operations / rate, moved / self.bandwidths[size_index])


def roof(workers: int, folder: Path) -> Roof:
    """Return the rates that `workers` threads reach together: of each the best of three measurements.

    folder: receives the compiled roof.c, unless it has it. Needs a C compiler called `cc`.
    """
    program = folder / "roof"
    if not program.exists():
        source = Path(__file__).with_name("roof.c")
        subprocess.run(["cc", "-O3", "-march=native", "-o", program, source, "-lpthread"], check=True)

    def measured(*words: object) -> float:
        """Return what roof.c prints for these arguments."""
        command = [str(program), *map(str, words)]
        return max(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3))

    bandwidths = tuple(measured("triad", workers, size) for size in SIZES)
    return Roof(flops=measured("flops", workers), bandwidths=bandwidths, dots=measured("dots", workers))
