"""Figures of benchmarks: what a script measured, with everything that it depends on, as one JSON file for each."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from pydispatch.bench.measure import Samples
from pydispatch.bench.report import columns

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent / "figures"
"""A folder for each machine, with a file for each benchmark."""

PACKAGES = (
    "numpy", "llvmlite", "iree-base-compiler", "iree-base-runtime", "onnxruntime", "openvino", "jax", "torch", "tbb",
)  # fmt: skip
"""Whose versions are kept with every file, where they are installed."""

OURS = "pydispatch"
CONSTANT = f"{OURS}, constant weights"
ROOF = "roof"
"""The contender whose time is the least that the machine allows for the work of the contender it is against."""

LOSS = 0.95
"""A peer is faster where its advantage is below that: less is within what a busy machine varies."""


@dataclass(frozen=True)
class Row:
    """One measured value.

    name: what was measured; size: of what, "" when there is one only. unit: of value: "s" for times, "MiB", "count",
    "1" for ratios; a rate ends in "/s" and is better when it is higher. workers: threads that took part. spread:
    between which values it varied. against: the contender of ours that this one is compared with, "" for none.
    """

    name: str
    contender: str
    value: float
    unit: str = "s"
    size: str = ""
    workers: int = 1
    spread: tuple[float, float] | None = None
    against: str = OURS


@dataclass(frozen=True)
class Comparison:
    """How many times as good ours is as a peer: its time over ours, or our rate over its."""

    row: Row
    own: Row
    advantage: float

    @property
    def is_loss(self) -> bool:
        return self.advantage < LOSS


@dataclass
class Figures:
    """What one benchmark found. missing: contenders that were not there, each with what they need. context: machine,
    commit, date, versions."""

    title: str
    method: str
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    context: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """As JSON, a line for each row."""
        head = {"title": self.title, "method": self.method, "missing": self.missing}
        start = json.dumps({**head, "context": self.context or context()}, indent=1, ensure_ascii=False)
        lines = [json.dumps(_without_defaults(row), ensure_ascii=False) for row in self.rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(start.removesuffix("\n}") + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")

    @staticmethod
    def load(path: Path) -> Figures:
        data = json.loads(path.read_text())
        rows = [Row(**{**row, "spread": tuple(row["spread"]) if "spread" in row else None}) for row in data.pop("rows")]
        return Figures(rows=rows, **data)


def _without_defaults(row: Row) -> dict[str, Any]:
    defaults = {column.name: column.default for column in fields(Row)}
    return {key: _rounded(value) for key, value in asdict(row).items() if value != defaults[key]}


def _rounded(value: Any) -> Any:
    """Four digits are more than any figure has."""
    if isinstance(value, tuple | list):
        return [_rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def load(folder: Path = FOLDER) -> dict[str, dict[str, Figures]]:
    """By benchmark, then by machine."""
    by_benchmark: dict[str, dict[str, Figures]] = {}
    for path in sorted(folder.glob("*/*.json")):
        if path.stem != "run":
            by_benchmark.setdefault(path.stem, {})[machine_of(path)] = Figures.load(path)
    return by_benchmark


def machine_of(path: Path) -> str:
    """The name of the machine that a file of figures is of."""
    return path.parent.name.replace("_", " ")


def comparisons(rows: Iterable[Row]) -> Iterator[Comparison]:
    """Of each peer with ours, where both were measured alike."""
    rows = list(rows)
    own = {(row.name, row.size, row.workers, row.contender): row for row in rows}
    for row in rows:
        base = own.get((row.name, row.size, row.workers, row.against))
        if base is None or base is row or row.contender == ROOF or row.contender.startswith(OURS):
            continue
        is_rate = row.unit.endswith("/s")
        yield Comparison(row, base, base.value / row.value if is_rate else row.value / base.value)


ORDER = (OURS, "iree", "onnxruntime", "jax", "numpy")


def in_order(contenders: Iterable[str]) -> list[str]:
    """Ours, then peers, each once, those of many benchmarks always alike."""
    names = list(dict.fromkeys(contenders))
    known = {name: position for position, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (not name.startswith(OURS), known.get(name, len(known))))


def rows_of(
    name: str, samples: Iterable[Samples], size: str = "", workers: int = 1, *, per: float = 1.0, least: bool = False,
    against: str = OURS,
) -> list[Row]:  # fmt: skip
    """Of calls that alternated. per: how many things a call does, of which one is the figure. least: the least time
    counts, otherwise the median."""
    return [
        Row(name, sample.name, (sample.least if least else sample.median) / per, size=size, workers=workers,
            spread=(sample.middle[0] / per, sample.middle[1] / per), against=against)
        for sample in samples
    ]  # fmt: skip


def parser(description: str | None) -> argparse.ArgumentParser:
    """With what every benchmark understands."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path, metavar="FILE", help="keep the figures in FILE")
    return arguments


def context() -> dict[str, Any]:
    """What figures depend on besides the benchmark."""
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform(terse=True),
        "python": platform.python_version(), "commit": commit.stdout.strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "versions": versions(),
    }  # fmt: skip


def cpu_model() -> str:
    """The name that the CPU gives itself, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions() -> dict[str, str]:
    """Of the packages that are installed."""
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def unit_of(values: Sequence[float], unit: str) -> tuple[float, str]:
    """(scale, unit) in which the values of a column are best read."""
    if unit != "s":
        return (1.0, "" if unit in ("1", "count") else unit)
    middle = sorted(values)[len(values) // 2]
    return next(((scale, name) for scale, name in UNITS if middle >= scale), UNITS[-1])


def number(value: float) -> str:
    """Three digits: 0.0123, 1.23, 12.3, 1,230."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def text(value: float, unit: str) -> str:
    """With its unit."""
    scale, name = unit_of([value], unit)
    return f"{number(value / scale)} {name}".rstrip()


def table(rows: Sequence[Row]) -> str:
    """For a terminal: a line for each name, size and workers, a column for each contender."""
    contenders = list(dict.fromkeys(row.contender for row in rows))
    lines: dict[tuple[str, str, int], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row.name, row.size, row.workers), {})[row.contender] = row
    body = []
    for (name, size, workers), row_of in lines.items():
        cells = (
            text(row_of[contender].value, row_of[contender].unit) if contender in row_of else "–"
            for contender in contenders
        )
        body.append([name, size, str(workers), *cells])
    return columns([["", "size", "workers", *contenders], *body])
