"""What a host command that does nothing costs beside a dispatch that does nothing.

    python bench/host_commands.py [--seconds S] [--vulkan]

Each program is a function of one tensor of 8 elements, called prepared; the contenders alternate, the best times are
compared. On Vulkan a command that records costs nothing in a call, and one that is synchronous a submission.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from report.figures import Figures, Row, parser, rows_of, table

import pydispatch as pd
from pydispatch.bench.measure import measure

HEAD = "flow.func private @nothing(%x: tensor<8xf32>) -> %x\nfunc.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
"""First lines of a program: the command @nothing, and the head of @f."""
STEP = """flow.dispatch.region -> (tensor<8xf32>) {
  %r = arith.addf %x, %x : tensor<8xf32>
  flow.return %r : tensor<8xf32>
}"""
"""A dispatch that adds %x to itself."""
SOURCE = """
int nothing(void* command, void* context, void* reserved) { return 0; }
"""
"""C source of the host command."""


def text(dispatches: int, commands: int) -> str:
    """Return MLIR of @f, a sequence of dispatches of `STEP` and then of calls of the host command @nothing.

    Each step has the result of the step before as its operand. dispatches, commands: how many of them.
    """
    lines, last = [], "%x"
    for i in range(dispatches):
        lines.append(f"%d{i} = {STEP.replace('%x', last)}")
        last = f"%d{i}"
    for i in range(commands):
        lines.append(f"%c{i} = flow.call @nothing({last}) : (tensor<8xf32>) -> {last}")
        last = f"%c{i}"
    return HEAD + "\n".join([*lines, f"return {last} : tensor<8xf32>", "}"])


def calls(device: Any, target: str) -> dict[str, Any]:
    """Return {contender: prepared call} of programs with one dispatch, two, and one with a command.

    target: of `pydispatch.compile`.
    """
    x = np.ones(8, np.float32)
    return {
        name: device.load(pd.compile(text(*counts), targets=target)).f.prepare(x)
        for name, counts in {"1 dispatch": (1, 0), "2 dispatches": (2, 0), "a dispatch, a command": (1, 1)}.items()
    }


def rows(title: str, calls: dict[str, Any], seconds: float) -> list[Row]:
    """Measure and print the contenders in turns. title: the size of the rows. seconds: for each contender."""
    measured_rows = rows_of("a call", measure(calls, seconds), title, least=True, against="")
    print(table(measured_rows), flush=True)
    return measured_rows


def main() -> None:
    """Build the command in C, then measure on the CPU and, with --vulkan, on the first Vulkan device."""
    arguments = parser(__doc__)
    arguments.add_argument("--seconds", type=float, default=1.0)
    arguments.add_argument("--vulkan", action="store_true")
    args = arguments.parse_args()
    method = "Least times; contenders alternate. A function of 8 elements with dispatches and commands that do nothing."
    figures = Figures("Host commands", method)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "nothing.c", Path(folder) / "nothing.so"
        source.write_text(SOURCE)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", str(source), "-o", str(library)], check=True)
        native = ctypes.CDLL(str(library)).nothing
        for title, function in (("CPU, C", native), ("CPU, Python", lambda context, x: None)):
            device = pd.device("local-sync")
            device.add_command("nothing", function)
            figures.rows += rows(title, calls(device, "cpu"), args.seconds)
        for synchronous in (False, True) if args.vulkan else ():
            device = pd.device("vulkan:0")
            device.add_command("nothing", lambda context, x: None, synchronous=synchronous)
            title = f"Vulkan, {'synchronous' if synchronous else 'recording'}"
            figures.rows += rows(title, calls(device, "vulkan"), args.seconds)
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
