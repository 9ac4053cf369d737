"""`make bench`: runs the benchmarks of catalog.py, keeps their figures, writes the page, and fills in documents.

    python bench/report/run.py [NAME...] [--machine NAME] [--quick] [--list] [--only-write]

Figures go to figures/MACHINE/NAME.json; those of benchmarks that do not run now stay. run.json beside them has what was
missing and what failed. The exit code is 1 when a benchmark failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path[0] = str(BENCH)

from report import headline, overview  # noqa: E402
from report.catalog import CATALOG, Benchmark, lacking  # noqa: E402
from report.documents import fill  # noqa: E402
from report.figures import FOLDER, cpu_model, load  # noqa: E402
from report.page import page, runs_of  # noqa: E402

PAGE = FOLDER.parent / "index.html"
"""The page with all figures."""
KEPT_LINES = 12
"""Number of lines of a failed benchmark's output, the last ones, that run.json has."""


def run(benchmark: Benchmark, output: Path, is_quick: bool) -> str:
    """Run a benchmark and print its output; return "", or why it failed.

    Its processes are killed after four times the expected duration and two minutes.

    Args:
        benchmark: The benchmark.
        output: File that it writes its figures to.
        is_quick: Whether it only has to show that it works.
    """
    command = [sys.executable, str(BENCH / benchmark.command[0]), *benchmark.command[1:]]
    command += [*(benchmark.quick if is_quick else ()), "--json", str(output)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=BENCH.parent, start_new_session=True
    )
    assert process.stdout is not None
    limit = 60 * (2 + 4 * benchmark.minutes)
    timer = Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    last_lines = deque[str](maxlen=KEPT_LINES)
    begin = time.monotonic()
    try:
        for line in process.stdout:
            print(f"    {line}", end="", flush=True)
            last_lines.append(line)
        code = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if time.monotonic() - begin >= limit:
        return f"it took more than {limit / 60:.0f} minutes"
    tail = "".join(last_lines).strip()
    if code:
        return f"exit code {code}: {tail}"
    return "" if output.exists() else f"it wrote no figures: {tail}"


def run_all(chosen: Sequence[Benchmark], folder: Path, is_quick: bool) -> dict[str, Any]:
    """Run benchmarks one after another, and write their figures to `folder`.

    Returns:
        By name of benchmark: under "missing" and "failed" the reason, under "seconds" the duration.
    """
    absent = {benchmark.name: why for benchmark in chosen if (why := lacking(benchmark))}
    todo = [benchmark for benchmark in chosen if benchmark.name not in absent]
    for name, why in absent.items():
        print(f"left out: {name}: {why}")
    failed, seconds = {}, {}
    minutes_left = sum(benchmark.minutes for benchmark in todo)
    for position, benchmark in enumerate(todo, 1):
        about = "" if is_quick else f", about {benchmark.minutes:g} min, {minutes_left:.0f} min with those after it"
        print(f"[{position}/{len(todo)}] {benchmark.name}{about}", flush=True)
        minutes_left -= benchmark.minutes
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) / "figures.json"
            why = run(benchmark, output, is_quick)
            if output.exists():  # also of one that failed later: what it measured counts
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{benchmark.name}.json").write_text(output.read_text())
        seconds[benchmark.name] = round(time.monotonic() - start)
        if why:
            failed[benchmark.name] = why
            print(f"    FAILED: {why.splitlines()[0]}", flush=True)
    return {"missing": absent, "failed": failed, "seconds": seconds}


def note(path: Path, chosen: Sequence[Benchmark], result: Mapping[str, Any]) -> None:
    """Update run.json: replace the entries of the chosen benchmarks by `result`, and leave those of others."""
    earlier = json.loads(path.read_text()) if path.exists() else {}
    names = {benchmark.name for benchmark in chosen}
    merged: dict[str, Any] = {"date": datetime.date.today().isoformat()}
    for kind in ("missing", "failed", "seconds"):
        of_others = {name: value for name, value in earlier.get(kind, {}).items() if name not in names}
        merged[kind] = {**of_others, **result[kind]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")


def write(folder: Path = FOLDER, output: Path = PAGE) -> None:
    """Write the page; where the figures are those of the project, also tables and pictures of documents."""
    figures = load(folder)
    output.write_text(page(figures, runs_of(folder)))
    if folder == FOLDER:
        fill(figures)
        for drawing in (headline, overview):
            drawing.TARGET.write_text(drawing.picture(figures))


def main() -> int:
    """Run the chosen benchmarks, then write the page and the documents. Return 1 if a benchmark failed."""
    names = [benchmark.name for benchmark in CATALOG]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--machine", default=os.environ.get("BENCH_MACHINE") or cpu_model(), help="its name in tables")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of figures; another one leaves documents alone")
    parser.add_argument("--quick", action="store_true", help="only shows that everything runs")
    parser.add_argument("--list", action="store_true", help="benchmarks, minutes, and what they lack")
    parser.add_argument("--only-write", action="store_true", help="page and tables of the figures that are there")
    args = parser.parse_args()
    if unknown := set(args.names) - set(names):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [benchmark for benchmark in CATALOG if not args.names or benchmark.name in args.names]
    if args.list:
        for benchmark in chosen:
            print(f"{benchmark.name:20} {benchmark.minutes:4g} min  {lacking(benchmark)}")
        return 0
    output = PAGE if args.folder == FOLDER else args.folder / "index.html"
    result: dict[str, Any] = {"failed": {}}
    if not args.only_write:
        folder = args.folder / args.machine.replace(" ", "_")
        result = run_all(chosen, folder, args.quick)
        note(folder / "run.json", chosen, result)
    write(args.folder, output)
    print(f"{output}: {len(result['failed'])} failed")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
