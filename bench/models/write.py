"""Writes the models as StableHLO: `python bench/models/write.py FOLDER [--small] [--results] [--only NAME...]`.

Needs JAX. tests/conformance/models is made with --small --results.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from works import models


def main() -> None:
    """Write the text of each model and, with --results, its arguments and results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="few channels and layers")
    parser.add_argument("--results", action="store_true", help="also write arguments, and what JAX computes of them")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for model in models(args.small, set(args.only) if args.only else None):
        (args.folder / f"{model.name}.mlir").write_text(model.text())
        if args.results:
            # Arrays of NAME.npz: in000, in001, ... are the arguments, weights first; out000, ... the results of JAX.
            pairs = (("in", model.arguments()), ("out", model.expected()))
            named = {f"{kind}{n:03}": array for kind, arrays in pairs for n, array in enumerate(arrays)}
            np.savez_compressed(args.folder / f"{model.name}.npz", tolerance=model.tolerance, **named)
        print(model.name, flush=True)


if __name__ == "__main__":
    main()
