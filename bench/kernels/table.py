"""Makes the table for docs/benchmarks.md: `python bench/kernels/table.py FILE...`, one for each machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roof import Roof

PEERS = ("iree", "onnxruntime", "jax", "numpy")


def table(machines: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each kernel, a column for each machine and number of workers."""
    columns = [(machine, workers) for machine in machines for workers in sorted(machine["kernels"], key=int)]
    names = dict.fromkeys(name for machine, workers in columns for name in machine["kernels"][workers])
    heads = ["", *(f"{m['machine']}, {w} worker{'s' * (w != '1')}: µs, roof, peers" for m, w in columns)]
    rows = [[name, *(_cell(m, w, name) for m, w in columns)] for name in names]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)) + "\n"


def _cell(machine: dict[str, Any], workers: str, name: str) -> str:
    """Microseconds, the share of the roof, and times of IREE, onnxruntime, JAX and NumPy as multiples of ours."""
    found = machine["kernels"][workers].get(name)
    if found is None:
        return "–"
    us, roof = found["us"], Roof(**machine["roofs"][workers])
    own = us["pydispatch"]
    share = roof.seconds(found["operations"], found["bytes"]) * 1e6 / own
    ratios = " ".join(f"{us[p] / own:.2f}" if p in us else "–" for p in PEERS)
    return f"{own:.3g}, {100 * share:.0f} %: {ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="+")
    print(table([json.loads(path.read_text()) for path in parser.parse_args().file]), end="")


if __name__ == "__main__":
    main()
