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
"""Packages whose versions each file of figures has, where they are installed."""

OURS = "pydispatch"
"""Name of the contender that others are compared with, and start of the names of its variants."""
CONSTANT = f"{OURS}, constant weights"
"""Contender whose weights are constants of the program, not arguments."""
ROOF = "roof"
"""Contender of rows with the least time that the machine allows for the work of the contender `Row.against`."""

LOSS = 0.95
"""Our advantage below which a comparison counts as lost; a smaller difference is within the noise of a busy machine."""


@dataclass(frozen=True)
class Row:
    """One measured value.

    Attributes:
        name: The quantity, for instance "a call".
        contender: The system that was measured.
        value: Its value in `unit`.
        unit: "s" for times, "MB", "MiB", "count", "1" for ratios; a rate ends in "/s" and is better when it is higher.
        size: Size of the work, such as "8x768x768", or its name; "" if the benchmark has only one.
        workers: Number of threads that took part.
        spread: (10th, 90th) percentile of the measured values unless the benchmark's `method` names other bounds; None
            if unknown.
        against: The contender of ours that this row is compared with, "" for none.
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
    """The measured value of a peer and ours of the same quantity.

    Attributes:
        row: The peer's value.
        own: Our value.
        advantage: How many times as good ours is: the peer's time over ours, or our rate over the peer's.
    """

    row: Row
    own: Row
    advantage: float

    @property
    def is_loss(self) -> bool:
        """Whether the advantage over the peer is below LOSS, so that reports list it as a loss."""
        return self.advantage < LOSS


@dataclass
class Figures:
    """Figures of one benchmark on one machine.

    Attributes:
        title: Heading of the benchmark.
        method: How it measures, in sentences.
        rows: The measured values.
        missing: Contenders that were not available, each with what they need.
        context: Machine, commit, date and versions, as `context()` returns them; empty until figures are saved.
    """

    title: str
    method: str
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    context: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the figures as JSON, with a line for each row, so that diffs are readable."""
        head = {"title": self.title, "method": self.method, "missing": self.missing}
        start = json.dumps({**head, "context": self.context or context()}, indent=1, ensure_ascii=False)
        # indent=1 would divide each row into several lines: rows are added to the text of the other keys.
        lines = [json.dumps(_without_defaults(row), ensure_ascii=False) for row in self.rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(start.removesuffix("\n}") + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")

    @staticmethod
    def load(path: Path) -> Figures:
        """Read a file that `save` has written."""
        data = json.loads(path.read_text())
        rows = []
        for row in data.pop("rows"):
            spread = tuple(row["spread"]) if "spread" in row else None  # a list in JSON
            rows.append(Row(**{**row, "spread": spread}))
        return Figures(rows=rows, **data)


def _without_defaults(row: Row) -> dict[str, Any]:
    """Return the rounded fields of a row that differ from their defaults, which files leave out."""
    defaults = {column.name: column.default for column in fields(Row)}
    return {key: _rounded(value) for key, value in asdict(row).items() if value != defaults[key]}


def _rounded(value: Any) -> Any:
    """Round floats, also in lists, to four significant digits: more than any figure has."""
    if isinstance(value, tuple | list):
        return [_rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def load(folder: Path = FOLDER) -> dict[str, dict[str, Figures]]:
    """Read all figures of a folder, by benchmark, then by machine."""
    by_benchmark: dict[str, dict[str, Figures]] = {}
    for path in sorted(folder.glob("*/*.json")):
        if path.stem != "run":  # run.json says what was missing or failed
            by_benchmark.setdefault(path.stem, {})[machine_of(path)] = Figures.load(path)
    return by_benchmark


def machine_of(path: Path) -> str:
    """Return the name of the machine that a file of figures is of: that of its folder."""
    return path.parent.name.replace("_", " ")


def comparisons(rows: Iterable[Row]) -> Iterator[Comparison]:
    """Yield a comparison of each peer's row with the row of `against`, of the same name, size and workers.

    Peers are all contenders but ours and ROOF, the limit of the machine.
    """
    rows = list(rows)
    row_of = {(row.name, row.size, row.workers, row.contender): row for row in rows}
    for row in rows:
        base = row_of.get((row.name, row.size, row.workers, row.against))
        is_peer = row.contender != ROOF and not row.contender.startswith(OURS)
        is_own_reference = row.contender == row.against
        if base is None or not is_peer or is_own_reference:
            continue
        is_rate = row.unit.endswith("/s")
        yield Comparison(row, base, base.value / row.value if is_rate else row.value / base.value)


ORDER = (OURS, "iree", "onnxruntime", "jax", "numpy")
"""Contenders in the order of tables, see `in_order`."""


def in_order(contenders: Iterable[str]) -> list[str]:
    """Return contenders without duplicates: ours, then peers in the order of `ORDER`, then others."""
    names = list(dict.fromkeys(contenders))
    position_of = {name: position for position, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (not name.startswith(OURS), position_of.get(name, len(position_of))))


def rows_of(
    name: str, samples: Iterable[Samples], size: str = "", workers: int = 1, *, per: float = 1.0, least: bool = False,
    against: str = OURS,
) -> list[Row]:  # fmt: skip
    """Return a row for each contender.

    Args:
        name: The quantity, for instance "a call".
        samples: Times of each contender's calls.
        size: Size of the work, such as "8x768x768", or its name; "" if the benchmark has only one.
        workers: Number of threads that took part.
        per: Number by which times are divided, such as the workgroups of a call for rows with the time of one.
        least: Whether the value is the least time; otherwise it is the median.
        against: The contender of ours that the peers are compared with; "" for none.
    """
    rows = []
    for sample in samples:
        seconds = sample.least if least else sample.median
        percentile_10, percentile_90 = sample.middle
        spread = percentile_10 / per, percentile_90 / per
        rows.append(Row(name, sample.name, seconds / per, size=size, workers=workers, spread=spread, against=against))
    return rows


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has. description: usually the script's docstring."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path, metavar="FILE", help="keep the figures in FILE")
    return arguments


def context() -> dict[str, Any]:
    """Return what figures depend on besides the benchmark: machine, commit, date (UTC) and versions."""
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform(terse=True),
        "python": platform.python_version(), "commit": commit.stdout.strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "versions": versions(),
    }  # fmt: skip


def cpu_model() -> str:
    """Return the CPU's model name where the system tells it (Linux on x86), otherwise its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions() -> dict[str, str]:
    """Return the versions of those of `PACKAGES` that are installed."""
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
"""(seconds, unit) of each unit of time, the largest first."""


def unit_of(values: Sequence[float], unit: str) -> tuple[float, str]:
    """Return (scale, unit) for a column of values in `unit`, which are to be divided by `scale`.

    Times get the largest unit in which their median is 1 or more. Other units stay as they are; ratios and counts have
    none.
    """
    if unit != "s":
        return (1.0, "" if unit in ("1", "count") else unit)
    middle = sorted(values)[len(values) // 2]
    return next(((scale, name) for scale, name in UNITS if middle >= scale), UNITS[-1])


def number(value: float) -> str:
    """Format a value with three digits, such as 0.0123, 1.23 and 12.3; an integer or 1,000 and more as an integer."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def text(value: float, unit: str) -> str:
    """Format a value with its unit; times in s, ms, µs or ns."""
    scale, name = unit_of([value], unit)
    return f"{number(value / scale)} {name}".rstrip()


def table(rows: Sequence[Row]) -> str:
    """Return a table for a terminal: a line for each name, size and workers, a column for each contender."""
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
