"""Writes the models as StableHLO: `python bench/models/write.py FOLDER [--small] [--only NAME...]`. Needs JAX."""

from __future__ import annotations

import argparse
from pathlib import Path

from works import models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="few channels and layers")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for model in models(args.small, set(args.only) if args.only else None):
        (args.folder / f"{model.name}.mlir").write_text(model.text())
        print(model.name, flush=True)


if __name__ == "__main__":
    main()
