"""Writes the artifact of today's formats with its results, once for each version. Commit both; never write again."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import pydispatch
from pydispatch.formats.artifact.manifest import FORMAT
from pydispatch.formats.program.program import VERSION

HERE = Path(__file__).parent
NAME = f"format-{FORMAT}-program-{VERSION}"
TARGETS = ("x86_64", "aarch64", "riscv64")


def results(artifact: Path) -> dict[str, np.ndarray]:
    """What the functions of the program give for fixed arguments."""
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    program = pydispatch.device("cpu").load(artifact, parameters={"model": {"weights": weights}})
    steps = np.array([1, -2, 3, 2**30], np.int32)
    return {
        "scaled": program.scaled(np.arange(-9, 12, dtype=np.float32).reshape(7, 3)),
        "product": program.product(np.arange(20, dtype=np.float32).reshape(5, 4)),
        "count": program.count(steps, 3),
        "count again": program.count(steps, 2),
        "nibbles": program.nibbles(np.array([1, 2, 7, -1, -8, 0], ml_dtypes.int4)).astype(np.int8),
    }


def main() -> None:
    target = HERE / f"{NAME}.pdx"
    if target.exists():
        sys.exit(f"{target} exists: an artifact that was committed stays as it is")
    pydispatch.compile(HERE / "program.mlir", targets=TARGETS, cpu="generic").save(target)
    np.savez(target.with_suffix(".npz"), **results(target))


if __name__ == "__main__":
    main()
