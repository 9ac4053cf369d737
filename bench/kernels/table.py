"""Makes tables of docs/kernel-benchmarks.md: `python bench/kernels/table.py [--worst N] FILE...`, one for a machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
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


def losses(machine: dict[str, Any]) -> list[tuple[float, str, str, str]]:
    """(time of the quickest peer as a multiple of ours, the peer, workers, kernel), the worst first."""
    return sorted(
        (*min((us[p] / us["pydispatch"], p) for p in PEERS if p in us), workers, name)
        for workers, kernels in machine["kernels"].items() for name, found in kernels.items()
        if (us := found["us"]).keys() & set(PEERS)
    )  # fmt: skip


def summary(machine: dict[str, Any], worst: int) -> str:
    """Markdown: a row for each peer and number of workers, and the cells of the worst kernels."""
    lines = ["| | kernels | median | geometric mean | below 0.95 |", "| --- | --- | --- | --- | --- |"]
    for workers, kernels in machine["kernels"].items():
        for peer in PEERS:
            found = [us[peer] / us["pydispatch"] for us in (k["us"] for k in kernels.values()) if peer in us]
            few = sum(ratio < 0.95 for ratio in found)
            if found:
                figures = f"{len(found)} | {median(found):.2f} | {geometric_mean(found):.2f} | {few}"
                lines.append(f"| {peer}, {workers} worker{'s' * (workers != '1')} | {figures} |")
    lines += ["", f"| {machine['machine']} | workers | µs, roof, peers |", "| --- | --- | --- |"]
    shown = ((name, workers) for _, _, workers, name in losses(machine)[:worst])
    lines += [f"| {name} | {workers} | {_cell(machine, workers, name)} |" for name, workers in shown]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--worst", type=int, metavar="N", help="medians, and the N kernels on which a peer gains most")
    args = parser.parse_args()
    machines = [json.loads(path.read_text()) for path in args.file]
    print(table(machines) if args.worst is None else "\n".join(summary(m, args.worst) for m in machines), end="")


if __name__ == "__main__":
    main()
