"""Random sequences of calls of the C API against a model of what may come of them, in a process without Python.

Devices with threads of their own and lent ones, programs, calls that run, are submitted one after another, fail, sleep
in a host command and are cancelled, handles released in any order and in callbacks, closing and forks. The driver,
sequences.c, runs with ASAN and UBSAN, with TSAN, and plain, where sequences fork too. A sequence that fails is reduced
to the steps that it needs.

`python tests/reliability/sequences.py --count 10000 [--seed 1] [--mode asan]`: exit status 0 or 1, a last line of
counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "c"), str(ROOT / "csrc"), str(ROOT / "tests" / "runtime")]

import run as c_tests  # noqa: E402
from install import FOLDERS  # noqa: E402

MODES = ("asan", "tsan", "plain")
STEPS = 50
"""Steps of a sequence: fewer meet less, more take longer to reduce."""

REPEAT = 30
"""Runs of a reduced sequence before it counts as one that does not fail: threads differ from run to run."""

BATCH = 2000
"""Sequences of one process."""

SOURCE = """
util.func private @command(%x: tensor<?xf32>) -> %x
util.global private mutable @total = dense<0.0> : tensor<4xf32>
func.func @add(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.addf %a, %b : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @work(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  %r = util.call @command(%y) : (tensor<?xf32>) -> %y
  %s = arith.addf %r, %r : tensor<?xf32>
  return %s : tensor<?xf32>
}
func.func @tally(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t = util.global.load @total : tensor<4xf32>
  %s = arith.addf %t, %x : tensor<4xf32>
  util.global.store %s, @total : tensor<4xf32>
  return %s : tensor<4xf32>
}
"""


class Driver:
    """The driver in C, built in one mode, with its artifacts in a folder."""

    def __init__(self, mode: str, folder: Path) -> None:
        import hooked

        self.binary = folder / f"sequences-{mode}"
        self.artifacts = [folder / "plain.pdx", folder / "hooked.pdx"]
        pd.compile(SOURCE).save(self.artifacts[0])
        hooked.build().save(self.artifacts[1])
        files = [*(Path(p) for p in c_tests.library([*FOLDERS])), Path(__file__).with_suffix(".c")]
        errors = c_tests.compile_objects([(file, mode) for file in files])
        if errors:
            sys.exit(errors)
        objects = [str(c_tests.object_of(file, mode)) for file in files]
        options = [*c_tests.MODES[mode], "-pthread", "-ldl", "-lm"]
        subprocess.run([c_tests.CC, *objects, *options, "-o", str(self.binary)], check=True)

    def run(self, first: int, count: int, dropped: list[int] | None = None) -> subprocess.CompletedProcess[str]:
        words = [self.binary, *self.artifacts, first, count, STEPS]
        if dropped is not None:
            words += dropped or ["-"]
        environment = {**os.environ, **c_tests.ENVIRONMENT}
        return subprocess.run([str(w) for w in words], capture_output=True, text=True, env=environment)

    def fails(self, number: int, dropped: list[int]) -> str:
        """What a sequence without some steps prints when it fails; "" when none of its runs did."""
        for _ in range(REPEAT):
            ran = self.run(number, 1, dropped)
            if ran.returncode:
                return ran.stderr
        return ""

    def reduce(self, number: int) -> str:
        """The steps that a failing sequence needs, and its failure."""
        dropped: list[int] = []
        text = self.fails(number, dropped)
        for step in range(STEPS if text else 0):
            shorter = self.fails(number, [*dropped, step])
            if shorter:
                text, dropped = shorter, [*dropped, step]
        return text


def run(mode: str, first: int, count: int, seconds: float, folder: Path) -> tuple[int, int]:
    """(sequences, findings) of a mode, for a count and a time; prints each finding."""
    driver, done, findings, end = Driver(mode, folder), 0, 0, time.monotonic() + seconds
    while done < count and time.monotonic() < end:
        ran = driver.run(first + done, min(BATCH, count - done))
        lines = ran.stdout.split()
        if not ran.returncode:
            done += len(lines) - 1
            continue
        findings += 1
        number = int(lines[-1])
        done = number + 1 - first
        print(f"{mode}: sequence {number}\n{driver.reduce(number) or ran.stderr}", flush=True)
    return done, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all modes together, about")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="sequences of each mode")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first sequence")
    parser.add_argument("--mode", choices=MODES, action="append", help="all of them by default")
    args = parser.parse_args()
    modes = args.mode or MODES
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for mode in modes:
            done, findings = run(mode, args.seed, args.count, args.seconds / len(modes), Path(folder))
            seeds = f"seeds {args.seed} to {args.seed + done - 1}"
            rows.append({"name": f"sequences {mode}", "executions": done, "coverage": seeds, "findings": findings})
    print(json.dumps({"rows": rows}))
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
