"""Runs what looks for faults by chance for a stated time, and prints one table: executions, what was new, findings.

The parts are tests/fuzz/run.py and every file of this folder that takes --seconds or --count and ends its output with a
line `{"rows": [{"name": ..., "executions": ..., "new": ..., "coverage": ..., "findings": ...}]}`. A part that ends its
output in another way is one row of as many executions as were asked for, with a finding when it fails. The lines that a
part writes to stderr from one that begins with FINDING on are repeated after the table.

    python tests/reliability/run.py [--seconds 3600] [--seed N] [--record] [PART...]

--record adds the figures to totals.json beside this file and writes them into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOTALS = HERE / "totals.json"
DOCUMENT = ROOT / "docs" / "reliability.md"
NOT_PARTS = {"run", "coverage", "mutation"}
SHARES = {"fuzz": 0.4, "differential": 0.15, "models": 0.2, "readers": 0.15, "sequences": 0.1}
"""Of the whole time. A part that is not here takes a count, PER_SECOND of the time that is given."""
PER_SECOND = {"cycles": 1.0, "kill9": 0.05, "device_states": 0.05}
FINDING_LINES = 15
"""Lines of one finding that are repeated after the table: its seed, and the beginning of its program."""


def parts() -> dict[str, Path]:
    own = (path for path in sorted(HERE.glob("*.py")) if not path.stem.startswith("test_"))
    found = {path.stem: path for path in own if path.stem not in NOT_PARTS}
    return {"fuzz": ROOT / "tests" / "fuzz" / "run.py", **found}


def arguments(name: str, path: Path, seconds: float, seed: int | None = None) -> list[str]:
    """Return the arguments of a part: for how long it runs, and from which seed."""
    text = path.read_text()
    seeds = ["--seed", str(seed)] if seed is not None and '"--seed"' in text else []
    if '"--seconds"' not in text:
        return ["--count", str(max(1, round(seconds * PER_SECOND.get(name, 0.1)))), *seeds]
    own = max(1.0, seconds * SHARES.get(name, 0.1))
    return ["--seconds", str(int(own)), *seeds]


def texts_of_findings(name: str, log: list[str], output: list[str], failed: bool) -> list[str]:
    """Return the texts of the findings that a part printed, shortened; of one that says none, its last lines."""
    starts = [number for number, line in enumerate(log) if line.startswith("FINDING ")]
    found = [log[begin:end] for begin, end in pairwise([*starts, len(log)])]
    if failed and not found:
        found = [[f"FINDING {name}:", *output[-FINDING_LINES:], *log[-FINDING_LINES:]]]
    shortened = []
    for lines in found:
        left = len(lines) - FINDING_LINES
        more = [f"... {left} more lines, printed above"] if left > 0 else []
        shortened.append("\n".join([*lines[:FINDING_LINES], *more]))
    return shortened


def output_of(command: list[str]) -> tuple[int, list[str], list[str]]:
    """Run a command; return its exit status and the lines of its stdout and stderr, which is shown as it is written."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None and process.stderr is not None
    log: list[str] = []

    def follow(lines: Iterable[str]) -> None:
        for line in lines:
            print(line, end="", file=sys.stderr, flush=True)
            log.append(line.rstrip("\n"))

    follower = threading.Thread(target=follow, args=(process.stderr,))
    follower.start()
    output = process.stdout.read().splitlines()
    follower.join()
    return process.wait(), output, log


def run_part(name: str, command: list[str], count: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows and the findings of one part. count: of the executions that it was asked for."""
    code, lines, log = output_of(command)
    last = lines[-1] if lines else ""
    rows: list[dict[str, Any]] = []
    if last.startswith("{"):
        found = json.loads(last)
        rows = found.get("rows", [found])
    rows = rows or [{"executions": count, "coverage": last}]
    rows = [{"name": name, "executions": 0, "new": 0, "coverage": "", "findings": 0, **row} for row in rows]
    if code and not any(row["findings"] for row in rows):
        rows[0]["findings"] = 1
    return rows, texts_of_findings(name, log, lines, code != 0)


def cpu() -> str:
    """The processor's name and how many CPUs this process may use."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = [re.search(rf"^{key}\s*: (.*)", text, re.MULTILINE) for key in ("model name", "cpu family", "model")]
    if all(found):  # virtual machines hide the number of the product, not its family
        name = "{} (family {}, model {})".format(*(match[1] for match in found if match))
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {count} CPUs"


def table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'':{width}}  {'executions':>13}  {'new':>6}  {'findings':>8}  coverage"]
    lines += [
        f"{row['name']:{width}}  {row['executions']:>13,}  {row['new']:>6}  {row['findings']:>8}  {row['coverage']}"
        for row in rows
    ]
    total = sum(row["executions"] for row in rows), sum(row["findings"] for row in rows)
    return "\n".join([*lines, f"{'all':{width}}  {total[0]:>13,}  {'':>6}  {total[1]:>8}"])


def record(rows: list[dict[str, Any]], seconds: float) -> None:
    """Adds a run to the totals, and writes the totals into the document."""
    totals = json.loads(TOTALS.read_text()) if TOTALS.exists() else {"seconds": 0, "runs": 0, "rows": {}}
    totals["seconds"] += round(seconds)
    totals["runs"] += 1
    totals["cpu"] = cpu()
    totals["date"] = datetime.date.today().isoformat()
    for row in rows:
        total = totals["rows"].setdefault(row["name"], {"executions": 0, "findings": 0})
        total["executions"] += row["executions"]
        total["findings"] += row["findings"]
        total["coverage"] = row["coverage"]
    totals["rows"] = dict(sorted(totals["rows"].items()))
    TOTALS.write_text(json.dumps(totals, indent=1) + "\n")
    write_document(totals)


def write_document(totals: dict[str, Any]) -> None:
    lines = ["| what | executions | findings | coverage of the last run |", "| --- | --- | --- | --- |"]
    for name, row in totals["rows"].items():
        lines.append(f"| {name} | {row['executions']:,} | {row['findings']} | {row['coverage']} |")
    executions = sum(row["executions"] for row in totals["rows"].values())
    findings = sum(row["findings"] for row in totals["rows"].values())
    lines.append(f"| all | {executions:,} | {findings} | |")
    hours = totals["seconds"] / 3600
    runs = f"{totals['runs']} run{'s' if totals['runs'] != 1 else ''}"
    lines += ["", f"{runs}, {hours:.1f} hours, the last on {totals['date']}; {totals['cpu']}."]
    text = DOCUMENT.read_text()
    begin, end = "<!-- totals -->\n", "<!-- end of totals -->"
    head, _, rest = text.partition(begin)
    DOCUMENT.write_text(head + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts()))
    parser.add_argument("--seconds", type=float, default=3600, help="for all parts together, about")
    parser.add_argument("--seed", type=int, help="of every part; by default each takes another one each time")
    parser.add_argument("--record", action="store_true", help="add the figures to the totals")
    args = parser.parse_args()
    unknown = [name for name in args.parts if name not in parts()]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are: {', '.join(parts())}")
    start = time.monotonic()
    rows: list[dict[str, Any]] = []
    findings: list[str] = []
    for name, path in parts().items():
        if args.parts and name not in args.parts:
            continue
        given = arguments(name, path, args.seconds, args.seed)
        print(f"{name}: {' '.join(given)}", flush=True)
        count = int(given[1]) if given[0] == "--count" else 0
        own_rows, own_findings = run_part(name, [sys.executable, str(path), *given], count)
        rows += own_rows
        findings += own_findings
    print(f"\n{table(rows)}\n{time.monotonic() - start:.0f} s, {datetime.date.today().isoformat()}, {cpu()}")
    for text in findings:
        print(f"\n{text}")
    if args.record:
        record(rows, time.monotonic() - start)
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
