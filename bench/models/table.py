"""Makes the tables of docs/benchmarks.md: `python bench/models/table.py FILE.json...`, one file for each machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PEERS = (("iree", "IREE", "pydispatch"), ("jax", "JAX", "pydispatch"), ("onnxruntime", "ort", "constants"))
"""(contender, title, which of our figures it is a multiple of): where weights are constants too, or arguments."""


def tables(machines: Sequence[dict[str, Any]]) -> str:
    """Markdown: counts and compile times, then milliseconds, with columns for each machine."""
    return "\n\n".join([_compiled(machines), _called(machines), *_notes(machines)]) + "\n"


def _compiled(machines: Sequence[dict[str, Any]]) -> str:
    titles = [f"{m['machine']}: compile, s" for m in machines]
    heads = ["", "dispatches", "IREE", *titles, "peak memory, MB", "weights, MB", "off by"]
    rows = []
    for name, found in _models(machines):
        first = next(f for f in found if f)
        costs = [_seconds(f["compile"]) if f else "–" for f in found]
        worst = max(calls["difference"] for f in found if f for calls in f["calls"].values())
        peaks = [cost["peak"] for k in ("cold", "iree") if (cost := first["compile"][k]) is not None]
        rows.append([name, *map(str, first["dispatches"]), *costs, " / ".join(f"{p:.0f}" for p in peaks),
                     f"{first['weights MB']:.0f}", f"{worst:.0e}"])  # fmt: skip
    return _table(heads, rows)


def _seconds(compile_: dict[str, Any]) -> str:
    """Ours cold and warm, then the peer."""
    costs = [compile_[k] for k in ("cold", "warm", "iree")]
    return " / ".join("–" if cost is None else f"{cost['seconds']:.2f}" for cost in costs)


def _called(machines: Sequence[dict[str, Any]]) -> str:
    heads, columns = [""], []
    for machine in machines:
        counts = sorted({int(w) for found in machine["models"].values() for w in found["calls"]})
        for workers in counts:
            columns.append((machine, str(workers)))
            heads += [f"{machine['machine']}: {workers} worker{'s'[: workers - 1]}, ms", "constants, ms"]
            heads += [title for _, title, _ in PEERS]
    rows = []
    for name, _ in _models(machines):
        row = [name]
        for machine, workers in columns:
            ms = machine["models"].get(name, {}).get("calls", {}).get(workers, {}).get("ms", {})
            row += [_number(ms[own]) if own in ms else "–" for own in ("pydispatch", "constants")]
            row += [f"{ms[peer] / ms[own]:.2f}" if peer in ms else "–" for peer, _, own in PEERS]
        rows.append(row)
    return _table(heads, rows)


def _notes(machines: Sequence[dict[str, Any]]) -> Iterable[str]:
    counts = {name: [f["dispatches"] for f in found if f] for name, found in _models(machines)}
    more = [name for name, pairs in counts.items() if any(ours > peers for ours, peers in pairs)]
    if more:
        yield f"More dispatches than IREE: {', '.join(more)}."


def _models(machines: Sequence[dict[str, Any]]) -> Iterable[tuple[str, list[dict[str, Any] | None]]]:
    """(name, what each machine found) in the order of the first machine that has the model."""
    for name in dict.fromkeys(name for m in machines for name in m["models"]):
        yield name, [m["models"].get(name) for m in machines]


def _number(ms: float) -> str:
    """Three digits: 0.0123, 1.23, 123."""
    return f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="+")
    print(tables([json.loads(path.read_text()) for path in parser.parse_args().file]), end="")


if __name__ == "__main__":
    main()
