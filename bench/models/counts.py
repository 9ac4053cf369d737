"""How many dispatches a model has here and with iree-compile: `python bench/models/counts.py FOLDER [--only NAME...]`.

FOLDER has what write.py wrote. Needs no JAX. Prints a line for each model as soon as it is known.

Both sides count dispatch operations in the program, not their executions: one in a loop counts once, copies and fills
that need no kernel do not count. Ours
is the number of `inspect --dispatches`. The peer's is that of `flow.dispatch` in the functions of the program after
its phase `flow`, where its fusion is decided; what later phases add (copies and fills as kernels) is not held against
it, nor what it computes once while a program is loaded (`util.initializer`).
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pydispatch
from pydispatch.bench.peers import iree
from pydispatch.formats.artifact import dispatches


def ours(artifact: pydispatch.Artifact) -> int:
    """Return the number of dispatches in the functions that a caller can call.

    Initializers and functions that derive constants are left out: they run once, after loading.
    """
    listing = dispatches.decode(artifact.manifest.extra.get(dispatches.KEY, "{}"))
    called = {function.name for function in artifact.manifest.functions}
    return sum(len(texts) for name, texts in listing if name in called)


def peers(text: Path) -> int:
    """Return the number of IREE's dispatches in a StableHLO file; those of initializers are left out.

    Raises:
        subprocess.CalledProcessError: IREE cannot compile the program.
    """
    command = [iree.compiler(), text, *iree.THIS_CPU, "--compile-to=flow"]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    dispatches, closing = 0, None  # closing: the line that ends the current initializer, None outside of one
    for line in process.stdout.splitlines():
        if closing is not None:
            closing = None if line == closing else closing
        elif line.lstrip().startswith("util.initializer"):
            closing = line[: len(line) - len(line.lstrip())] + "}"  # a brace as far indented as its first line
        else:
            dispatches += "flow.dispatch @" in line
    return dispatches


def main() -> None:
    """Print the dispatches of each model, ours and IREE's; mark models of which we have more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--target", default="cpu", help="what to compile for here")
    args = parser.parse_args()
    names = args.only or sorted(path.stem for path in args.folder.glob("*.mlir"))
    print(f"{'model':20}{'ours':>6}{'IREE':>6}")
    for name in names:
        text = args.folder / f"{name}.mlir"
        own_count, iree_count = ours(pydispatch.compile(text, targets=args.target)), peers(text)
        print(f"{name:20}{own_count:6}{iree_count:6}{'  more' if own_count > iree_count else ''}", flush=True)


if __name__ == "__main__":
    main()
