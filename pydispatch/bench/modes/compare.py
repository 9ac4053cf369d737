"""Every mode at every size → seconds of a call, a table, a plot."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch.bench import plot, report
from pydispatch.bench.measure import measure
from pydispatch.bench.modes.catalog import create_modes
from pydispatch.bench.program import difference, machine, work_of
from pydispatch.errors import Error

SIZES = (64, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 24)
"""Numbers of elements that are measured: from 64, where calls dominate, to 2^24, where memory does."""


def figures(sizes: Sequence[int] = SIZES, seconds: float = 0.2) -> dict[str, Any]:
    """Measure every mode at every size. A mode is a way to run one elementwise multiplication (`catalog.modes`).

    Args:
        sizes: Numbers of elements.
        seconds: Measuring time per mode and size; the modes of one size take turns.

    Returns:
        "machine": properties of the machine; "sizes"; "seconds": by mode, the median time of a call for each size, None
            above the mode's limit; "missing": by mode that cannot run here, the reason.

    Example:
        {"machine": {"device": "cpu", ...}, "sizes": [64, 1048576],
         "seconds": {"generated code": [1e-6, 2e-4], "PTX interpreter": [5e-3, None]},
         "missing": {"CUDA": "..."}}

    Raises:
        Error: A mode computes a wrong result.
    """
    import pydispatch

    with tempfile.TemporaryDirectory() as folder:
        runnable, missing = create_modes(Path(folder))
        table: dict[str, list[float | None]] = {mode.name: [] for mode, _, _ in runnable}
        for size in sizes:
            usable = [
                (mode.name, device, function) for mode, device, function in runnable if size <= mode.most_elements
            ]
            times = _seconds(usable, size, seconds)
            for name, row in table.items():
                row.append(times.get(name))
    return {"machine": machine(pydispatch.device("cpu")), "sizes": list(sizes), "seconds": table,
            "missing": dict(missing)}  # fmt: skip


def _seconds(modes: Sequence[tuple[str, Any, Any]], size: int, seconds: float) -> dict[str, float]:
    """Return the median seconds of a call in each mode, by name; raise Error if a result is wrong.

    Args:
        modes: (name, device, function) of each mode.
        size: Number of elements.
        seconds: Measuring time per mode; the modes take turns.
    """
    rng = np.random.default_rng(size)
    lhs, rhs = (rng.uniform(-1, 1, size).astype(np.float32) for _ in range(2))
    works = {name: work_of(device, function, (lhs, rhs)) for name, device, function in modes}
    for name, work in works.items():
        if difference(work.results, [lhs * rhs]) > 0:
            raise Error(f"mode '{name}' computes something else for {size} elements")
    calls = {name: work.call for name, work in works.items()}
    return {samples.name: samples.median for samples in measure(calls, seconds, warm_up=seconds / 4)}


def text(data: dict[str, Any]) -> str:
    """Return a table with the time of a call, and below it nanoseconds per element, for each size.

    "-" stands for a size that a mode does not measure (`most_elements`). The last lines name the modes that cannot run.

    data: the result of `figures`, as for `picture`.
    """
    sizes = data["sizes"]
    lines = [["a call", *(f"{n:,}" for n in sizes)]]
    seconds = data["seconds"].items()
    lines += [[name, *("-" if t is None else report.time_text(t) for t in row)] for name, row in seconds]
    lines += [[""], ["ns per element"]]
    for name, row in seconds:
        cells = ["-" if t is None else f"{t / n * 1e9:.3g}" for t, n in zip(row, sizes, strict=True)]
        lines.append([name, *cells])
    lines += [[""]] if data["missing"] else []
    missing = "\n".join(f"not here: {name}: {why.splitlines()[0]}" for name, why in data["missing"].items())
    return report.columns(lines) + ("\n" + missing if missing else "")


def picture(data: dict[str, Any]) -> str:
    """Return an SVG with two plots over the sizes: microseconds per call, and nanoseconds per element.

    data: the result of `figures`. A mode's curve lacks the sizes at which it was not measured.
    """
    sizes = data["sizes"]
    calls = {name: [(n, t * 1e6) for n, t in zip(sizes, row, strict=True) if t is not None]
             for name, row in data["seconds"].items()}  # fmt: skip
    elements = {name: [(n, us / n * 1e3) for n, us in row] for name, row in calls.items()}
    return plot.svg([
        plot.Panel("a call", "elements", "us", calls),
        plot.Panel("an element", "elements", "ns", elements),
    ])  # fmt: skip
